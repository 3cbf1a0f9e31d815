"""docs/claims.md from the runs under results/experiments/, and the gallery of its curves: python -m scripts.claims"""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from ortho_ref import files
from scripts.grid.experiment.cells import cells_of
from scripts.grid.experiment.claims import verdicts_of
from scripts.grid.experiment.file import Column, Experiment, Row, read
from scripts.grid.experiment.states import State, states_of
from scripts.grid.experiment.table import Line, as_json, lines_of, made_by, markdown
from scripts.pictures.curves import draw_experiment
from scripts.pictures.gallery import PAGE as GALLERY
from scripts.pictures.gallery import gallery
from scripts.program import BAD_INPUT, fail, run, say

ROOT = Path(__file__).resolve().parents[1]
FILES, RESULTS = ROOT / "scripts" / "experiments", ROOT / "results" / "experiments"
PAGE = ROOT / "docs" / "claims.md"

HEAD = """# What became of the papers' tables

Written by `python -m scripts.claims` from the runs in [results/experiments](../results/experiments), never by hand.
Each section is one experiment file: its table, its curves, the paper's claims, and what the paper leaves open. Numbers
are mean ± standard deviation over the seeds that are done. A claim **holds** where every seed of one model is better
than every seed of the other, of two seeds at least; it **does not hold** where every seed is worse; everything else is
**too small to tell**. The time of a run is wall time, on machines that did other work too. How to run one again:
[experiments.md](experiments.md).
"""


class Stored(NamedTuple):
    """An experiment of which runs are stored: its file, its runs, its table."""

    experiment: Experiment
    states: list[State]
    lines: list[Line]

    @property
    def picture(self) -> Path:
        """Its curves."""
        return RESULTS / self.experiment.name / "curves.png"

    @property
    def drawn(self) -> str:
        """What the curves are of: the SHA-256 of the table."""
        return hashlib.sha256(as_json(self.experiment, self.lines, 1.0).encode()).hexdigest()


def stored() -> list[Stored]:
    """The experiments of which runs are stored."""
    found = []
    for path in sorted(FILES.rglob("*.toml")):
        experiment = read(path)
        out = RESULTS / experiment.name
        if not out.is_dir():
            continue
        states = states_of(cells_of(experiment), out)
        lines = [line for line in lines_of(experiment, states) if line.seeds or not line.wanted]
        done = [state for state in states if state.how == "done"]
        if done:
            found.append(Stored(experiment, done, lines))
    return found


def section(own: Stored) -> str:
    """The part of the page on one experiment."""
    experiment = own.experiment
    path = experiment.path.relative_to(ROOT)
    place = f" ({experiment.place})" if experiment.place else ""
    parts = [f"## {TITLES[experiment.paper]}{place}: {experiment.title}"]
    if experiment.shows:
        parts.append(f"The paper: {experiment.shows}.")
    parts.append(markdown(experiment, own.lines, 1.0))
    named: list[Column | Row] = [*experiment.columns, *experiment.rows]
    if notes := [f"* {one.name}: {one.note}" for one in named if one.note]:
        parts.append("\n".join(notes))
    parts.append(f"`python -m scripts.experiment run {path}`; {made_by(own.states)}.")
    parts.append(f"![Curves](../{own.picture.relative_to(ROOT)})")
    verdicts = verdicts_of(experiment, own.lines, own.states, 1.0)
    if verdicts:
        head = ["| claim | column | verdict | our numbers | why |", "|---|---|---|---|---|"]
        rows = [f"| {v.text} | {v.column} | **{v.word}** | {v.because} | {v.why} |" for v in verdicts]
        parts.append("\n".join([*head, *rows]))
    if experiment.left_open:
        parts.append("\n".join(["What the paper leaves open:", "", *(f"* {text}" for text in experiment.left_open)]))
    return "\n\n".join(parts)


TITLES = {"ncgru": "NC-GRU", "urnn": "uRNN", "sgornn": "SGORNN", "goru": "GORU", None: "Own"}


def page(experiments: Sequence[Stored]) -> str:
    """The whole page."""
    return "\n\n".join([HEAD.strip(), *map(section, experiments)]) + "\n"


def main(
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; exit code 1 if the page would be another.")
    ] = False,
) -> None:
    """Write docs/claims.md, the curves beside the runs, and docs/gallery.md, which shows them."""
    try:
        experiments = stored()
        text = page(experiments)
        if check:
            if not PAGE.exists() or PAGE.read_text() != text:
                fail(f"{PAGE} is not what the runs say; python -m scripts.claims writes it", 1)
            return
        for own in experiments:
            draw_experiment(own.experiment, own.states, 1.0, own.picture, own.drawn)
        files.write(PAGE, text.encode())
        files.write(ROOT / GALLERY, gallery(ROOT).encode())
    except BAD_INPUT as error:
        fail(error)
    say(f"{len(experiments)} experiments in {PAGE}")


if __name__ == "__main__":
    run(main)
