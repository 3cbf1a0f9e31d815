"""The runs under results/, folders until now, as lines of one file a table.  For once."""

from pathlib import Path

from ortho_ref.training.run_folder import SUMMARY, read_config, read_metrics, read_summary
from ortho_ref.training.trainer import Record
from scripts.grid.experiment.cells import cells_of
from scripts.grid.experiment.file import read
from scripts.grid.experiment.measures import read_measured
from scripts.grid.experiment.results import FORMAT, columns_of, lines_of, write_runs
from scripts.grid.experiment.sessions import read_sessions

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "results"
#: Task of the table of parts, and its models, in its order.
PARTS = {
    "har": ("sgornn", "vprnn", "fastrnn", "lstm"),
    "permuted-mnist": ("scornn", "nc-gru", "lstm"),
    "ptb-char": ("nc-gru", "gru", "goru", "lstm"),
    "ptb-word": ("lstm", "nc-gru"),
    "wikitext-2": ("nc-gru", "lstm"),
    "speech": ("goru", "lstm"),
    "shortest-path": ("goru", "gru", "lstm"),
    "babi": ("goru", "gru", "lstm"),
}


def run_in(folder: Path, row: str = "", column: str = "") -> Record:
    """A run of a folder, as it is stored now."""
    config = read_config(folder)
    mark = config.pop("experiment", {"row": row, "column": column, "commit": None})
    seed = config.pop("seed")
    lines = read_metrics(folder)
    metrics = columns_of(lines)
    assert lines_of(metrics) == lines, folder
    assert [list(line) for line in lines_of(metrics)] == [list(line) for line in lines], folder
    if "name" in mark:
        where = RESULTS / "experiments" / mark["name"]
        assert where in folder.parents, folder
        assert mark["scale"] == 1.0, folder
    return {
        "format": FORMAT,
        "row": mark["row"],
        "column": mark["column"],
        "seed": seed,
        "commit": mark["commit"],
        "sessions": read_sessions(folder),
        "summary": read_summary(folder) if (folder / SUMMARY).exists() else None,
        "measured": read_measured(folder),
        "config": config,
        "metrics": metrics,
    }


def main() -> None:
    """All of them."""
    count = 0
    for path in sorted((ROOT / "scripts" / "experiments").rglob("*.toml")):
        experiment = read(path)
        folder = RESULTS / "experiments" / experiment.name
        runs = [run_in(own.parent) for own in sorted(folder.rglob("config.json"))]
        if not runs:
            continue
        order = list(dict.fromkeys((cell.line, cell.column.name) for cell in cells_of(experiment)))
        runs.sort(key=lambda run: (order.index((run["row"], run["column"])), run["seed"]))
        write_runs(RESULTS / "experiments" / f"{experiment.name}.jsonl", runs)
        count += len(runs)
    tables = {
        "denoise-T200": [("", "nc-gru"), ("", "gru")],
        "adding-T200": [("", "nc-gru"), ("", "gru")],
        "copying-T100": [("", name) for name in ("urnn", "eurnn", "scornn", "goru", "nc-gru", "gru", "lstm")],
        "parts": [(task, name) for task, names in PARTS.items() for name in names],
    }
    for name, own in tables.items():
        runs = [run_in(RESULTS / name / task / model, model, task or name.split("-")[0]) for task, model in own]
        write_runs(RESULTS / f"{name}.jsonl", runs)
        count += len(runs)
    print(count, "runs")


if __name__ == "__main__":
    main()
