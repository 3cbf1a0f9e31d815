"""What results/ has of runs: every line is whole, the pages have their tables, and whoever asks for a run finds it."""

import json
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace

import pytest

from ortho_ref.files import DamagedFile
from ortho_ref.training.runs import summarize
from scripts import experiment as program
from scripts.grid.config import begun
from scripts.grid.experiment.cells import cells_of
from scripts.grid.experiment.file import read
from scripts.grid.experiment.results import ENDED, LINES, Results, columns_of, lines_of, read_runs
from scripts.grid.settled import settled
from tests.scripts.runs import ROOT, call, refusal

RESULTS = ROOT / "results"
FILES = sorted(RESULTS.rglob("*.jsonl"))
PAPERS = sorted((RESULTS / "experiments").rglob("*.jsonl"))
LINE = {"loss": 0.5, "weights": {"layer0.U": {"defect": 1e-7}}}
RECORDS = [
    {"iteration": 2} | LINE,
    {"iteration": 4} | LINE | {"weights": {"layer0.U": {"defect": 2e-7}}, "evaluation_loss": 0.25},
]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(RESULTS).as_posix())
def test_every_summary_is_that_of_its_metrics(path):
    """To the bit; one without has diverged.  A digit that was changed in either would show."""
    for own in read_runs(path).values():
        run, lines = own.run, lines_of(own.run["metrics"])
        if run["summary"] is None:
            assert run["sessions"][-1]["end"] == "diverged", own.place
            continue
        (metric,) = {"evaluation_loss"} ^ {name for name, value in run["summary"].items() if isinstance(value, dict)}
        task = SimpleNamespace(baseline=run["config"]["baseline"], metric=metric)
        assert summarize(lines, task, run["summary"]["parameters"]) == run["summary"], own.place


@pytest.mark.parametrize("path", PAPERS, ids=lambda path: path.relative_to(RESULTS).as_posix())
def test_the_papers_runs(path):
    """In the table's order, of few lines, each with the commit of a clean checkout, and the time it took."""
    experiment = read(ROOT / "scripts" / path.relative_to(RESULTS).with_suffix(".toml"))
    order = list(dict.fromkeys((cell.line, cell.column.name) for cell in cells_of(experiment)))
    runs = read_runs(path)
    assert list(runs) == sorted(runs, key=lambda key: (order.index(key[:2]), key[2]))
    for own in runs.values():
        assert len(own.run["metrics"]["iteration"]) <= LINES, own.place
        commits = [own.run["commit"], *(session["commit"] for session in own.run["sessions"])]
        assert all(commit and "+" not in commit for commit in commits), own.place
        assert sum(session.get("seconds", 0) for session in own.run["sessions"]) > 0, own.place


def test_every_stored_run_is_shown():
    """No run is stored that its file does not tell."""
    there = Results(ROOT)
    for experiment in there.experiments:
        if there.place(experiment) in PAPERS:
            own = {str(state.folder) for state in there.states(experiment, cells_of(experiment)) if state.how in ENDED}
            stored = {str(run.place) for run in read_runs(there.place(experiment)).values()}
            assert stored <= own, experiment.name


def test_runs_are_found_by_resolved_options():
    """Table 1 says the rate of A as figures 5, 7 and 8 leave it to its default: 24 of its runs are theirs."""
    there = Results(ROOT)
    for name, found in (("figure-5", 6), ("figure-7", 12), ("figure-8", 6)):
        experiment = read(ROOT / "scripts" / "experiments" / "ncgru" / f"{name}.toml")
        states = there.states(experiment, cells_of(experiment))
        done = [state for state in states if state.how == "done"]
        assert sum(own.config["experiment"]["name"] == "ncgru/table-1" for own in done) == found, name
        assert there.lenders(experiment, done) == ["ncgru/table-1"]


def test_options_are_resolved_without_data():
    """As the config of a run has them; of a task on data that are not here as well."""
    for options in ({"task": "adding", "model": "nc-gru"}, {"task": "copying", "model": "scornn", "lr": 1e-3}):
        config, own = begun(**options)[0], settled(**options)
        assert {name: config[name] for name in own} == own
        assert own["lr_orthogonal"] is not None
    words = settled("ptb-word", model="nc-gru")
    assert (words["embedding"], words["tied"], words["lr_orthogonal"]) == (400, True, words["lr"])
    assert settled("ptb-char", embedding=0)["dropout_input"] == 0


def test_lines_and_columns():
    """What all lines have is there once; what only some have is null in the others; nothing is lost."""
    columns = columns_of(RECORDS)
    assert columns == {
        "iteration": [2, 4],
        "loss": 0.5,
        "weights": {"layer0.U": {"defect": [1e-7, 2e-7]}},
        "evaluation_loss": [None, 0.25],
    }
    for records in ([], RECORDS[:1], RECORDS, [own | {"weights": {}} for own in RECORDS]):
        assert lines_of(columns_of(records)) == records


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda run: "{", "Input data was truncated"),
        (lambda run: run | {"seed": -1}, "seed is -1; allowed: an integer from 0 on"),
        (lambda run: run | {"format": "x"}, "format is 'x'; allowed: 'ortho_ref stored run 1'"),
        (lambda run: {name: run[name] for name in run if name != "config"}, "the document has no config"),
        (lambda run: run | {"metrics": run["metrics"] | {"loss": [1.0]}}, "metrics.loss has 1 values; its lines are "),
        (lambda run: run | {"metrics": {"loss": [1.0]}}, "metrics has no list of iterations"),
        (lambda run: run | {"seed": 0}, "it belongs to the run of a.jsonl:1"),
    ],
)
def test_a_damaged_line(tmp_path, change, says):
    """Named on one line, with the file and the line."""
    first, second = PAPERS[0].with_name("figure-8.jsonl").read_text().splitlines()[:2]
    changed = change(json.loads(second) if says[:2] != "it" else json.loads(first))
    path = tmp_path / "a.jsonl"
    path.write_text(f"{first}\n{changed if isinstance(changed, str) else json.dumps(changed)}\n")
    with pytest.raises(DamagedFile) as caught:
        read_runs(path)
    assert str(caught.value).startswith(f"{path} is damaged: line 2: {says}")
    assert "\n" not in str(caught.value)


def fits(cell, value):
    """Whether a number of a page is a value, rounded to its digits."""
    written = Decimal(cell.strip("* ").replace(",", ""))
    return abs(float(written) - value) <= 0.501 * 10.0 ** written.as_tuple().exponent


def tables():
    """The rows of each table in results/README.md, the head of the next one among them."""
    found = []
    for line in (RESULTS / "README.md").read_text().splitlines():
        if line.startswith("|---"):
            found.append([])
        elif line.startswith("|") and found:
            found[-1].append([cell.strip() for cell in line.strip("|").split("|")])
    return found


def runs_of(name):
    """The runs of a table, in its order."""
    return [own.run for own in read_runs(RESULTS / f"{name}.jsonl").values()]


def test_the_tables_of_runs_of_one_seed():
    """Those of results/README.md, every number that a run has."""
    first, copying, parts = ([row for row in rows if row[0] != "task" and row[0] != "model"] for rows in tables())
    for row, run in zip(first, runs_of("denoise-T200") + runs_of("adding-T200"), strict=True):
        unit = {"denoise": 1e-2, "adding": 1e-5}[run["column"]]
        own = run["summary"]["evaluation_loss"]
        numbers = [own["minimum"], own["final"], own["median_of_last_20"], run["config"]["baseline"]]
        assert all(fits(row[i], number / unit) for i, number in zip((2, 3, 4, 7), numbers, strict=True)), row
        assert row[1].endswith(f", n = {run['config']['hidden']}")
    for row, run in zip(copying, runs_of("copying-T100"), strict=True):
        assert row[0].partition(",")[0].partition("(")[0].lower() == run["row"]
        assert row[3] == f"`{run['config'].get('optimizer')}`"
        own = run["summary"]["evaluation_loss"]
        numbers = [run["config"]["hidden"], run["summary"]["parameters"], own["minimum"], own["final"]]
        assert all(fits(row[i], number) for i, number in zip((1, 2, 4, 5), numbers, strict=True)), row
    for row, run in zip(parts, runs_of("parts"), strict=True):
        assert row[:2] == [run["column"], run["row"]]
        own, config = run["summary"], run["config"]
        numbers = [config["hidden"], own["parameters"], config["iterations"], own["evaluation_loss"]["final"]]
        assert all(fits(row[i], n) for i, n in zip((2, 3, 4, 5, 7), [*numbers, config["baseline"]], strict=True)), row
        (metric,) = {"evaluation_loss"} ^ {name for name, value in own.items() if isinstance(value, dict)}
        share = 100 if "%" in row[6] else 1
        number = next(word for word in row[6].split() if word[0].isdigit())
        assert fits(number, share * own[metric]["final"]), row


def test_what_is_stored_is_shown(tmp_path, monkeypatch):
    """--stored shows what the page shows, and draws it; not with another action, nor for a file from elsewhere."""
    path = ROOT / "scripts" / "experiments" / "ncgru" / "figure-8.toml"
    code, table, _ = call(program.main, "table", path, "--stored")
    assert code == 0
    row = "| NC-GRU(U_c) | all, text | 3 | **0.01053 ± 0.0007437** |"
    assert row in table
    assert row in (ROOT / "docs" / "claims" / "ncgru-figure-8.md").read_text()
    stderr = refusal(program.main, "run", path, "--stored", "--out", tmp_path / "x")
    assert "stored is 'True', and is for status, table, plot; the action is run" in stderr
    monkeypatch.chdir(tmp_path)  # where no run was
    assert call(program.main, "plot", path, "--stored")[0] == 0
    assert Path("runs/experiments/ncgru/figure-8/curves.png").read_bytes().startswith(b"\x89PNG")
    own = tmp_path / "own.toml"
    own.write_text(path.read_text())
    assert "--stored is for files in scripts/experiments" in refusal(program.main, "table", own, "--stored")
