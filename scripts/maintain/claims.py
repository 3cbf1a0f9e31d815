"""docs/claims.md from the runs in results/experiments, and their gallery: python -m scripts.maintain.claims"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from ortho_ref import files
from scripts.grid.experiment.cells import Cell, cells_of
from scripts.grid.experiment.claims import FAILS, HOLDS, OPEN, Verdict, verdicts_of
from scripts.grid.experiment.file import Column, Experiment, Row
from scripts.grid.experiment.results import Results
from scripts.grid.experiment.states import State
from scripts.grid.experiment.table import Line, as_json, lines_of, made_by, markdown, measured
from scripts.pictures.curves import draw_experiment, draw_measured, has_series
from scripts.pictures.gallery_page import PAGE as GALLERY
from scripts.pictures.gallery_page import anchor, gallery
from scripts.program import BAD_INPUT, fail, run, say

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "claims.md"

HEAD = """# What became of the papers' tables

Written by `python -m scripts.maintain.claims` from the runs in [results/experiments](../results/experiments).
Each section is one experiment file: its table, its curves, the claims, what the paper leaves open, where the file
departs from the paper, and what was found (these words are the file's). Numbers are mean ± standard deviation over the
seeds that are done. Minimum, final and median of the last 20 are over a run's evaluations, of which the minimum or
maximum is the best; "reaches" speaks of that one. Scale 1 is the paper's size. The time of a run is wall time, on
machines that did other work too, not counting time lost when a process was killed. How to run one again:
[experiments.md](experiments.md). What was not run stands [at the end](#not-run-yet).

How a claim is judged:

* That one model is better **holds** where every seed of it is better than every seed of the other; where every seed is
  worse it **does not hold**. Two seeds of each are asked for; where there are fewer than the file has, the numbers say
  so. A claim about several models does not hold where it fails against one of them, and holds only where all were run.
* The baseline is the loss of a predictor that knows nothing of the input (of a text's characters: nothing but the one
  before). A loss above 0.95 of it is at the baseline, one below has left it. Where a paper's word asks for more, as
  "solves" and "converges" do, the numbers say which share of it was asked for.
* Whatever else comes out is **too small to tell**: a single seed, seeds that disagree, a seed that diverged, a part of
  the paper's data. If all runs so far agree, what they say follows the verdict.
* Models are comparable where none has more than twice the loss of another, unless the claim asks for another factor.
* In a section headed "a suspicion" the claims are ours: possible reasons why our number differs from the paper's.

In the name of a column, "text" is the task as the paper describes it, "released" as its code builds it; A and B are
copying's layouts: in B the recall begins on the marker, in A one step later.
"""
TAIL = """## Not run yet

Runs that are stored, of all that the file has, none of them scaled down; one that several files have is stored once,
and counts for each. A file named `-part` has a part of the data, and so not the paper's size.
`python -m scripts.experiment run FILE --missing` runs the others; with `--dry-run` it only says what they take.
"""


class Stored(NamedTuple):
    """An experiment: its file, all its runs, those that are stored, its table, their file, whose runs it has too."""

    experiment: Experiment
    cells: list[Cell]
    states: list[State]
    lines: list[Line]
    place: Path
    lenders: list[str]

    @property
    def heading(self) -> str:
        """Its paper, where in it, and what it is."""
        place = f" ({self.experiment.place})" if self.experiment.place else ""
        return f"{TITLES[self.experiment.paper]}{place}: {self.experiment.title}"

    @property
    def beside(self) -> bool:
        """Whether it is no table or figure of the paper, but what was looked at beside one."""
        return (self.experiment.place or "").startswith(("a suspicion", "beside"))

    @property
    def verdicts(self) -> list[Verdict]:
        """On the paper's claims."""
        return verdicts_of(self.experiment, self.lines, self.states, 1.0)

    @property
    def picture(self) -> Path:
        """Its curves."""
        return self.place.with_suffix(".png")

    @property
    def besides(self) -> Path:
        """What was measured of the runs besides, drawn."""
        return self.place.with_name(f"{self.place.stem}-measured.png")

    @property
    def drawn(self) -> str:
        """What the curves are of: the SHA-256 of the table."""
        return hashlib.sha256(as_json(self.experiment, self.lines, 1.0).encode()).hexdigest()


def stored(there: Results) -> list[Stored]:
    """Every experiment, with what is stored of it."""
    found = []
    for experiment in there.experiments:
        cells = cells_of(experiment)
        states = there.states(experiment, cells)
        lines = [line for line in lines_of(experiment, states) if line.seeds or line.failed or not line.wanted]
        ended = [state for state in states if state.how in ("done", "failed")]
        lenders = there.lenders(experiment, ended)
        found.append(Stored(experiment, cells, ended, lines, there.place(experiment), lenders))
    return found


def section(own: Stored) -> str:
    """The part of the page on one experiment."""
    experiment = own.experiment
    path = experiment.path.relative_to(ROOT)
    parts = [f"## {own.heading}"]
    if experiment.shows:
        parts.append(f"The paper: {experiment.shows}.")
    parts.append(markdown(experiment, own.lines, 1.0))
    named: list[Column | Row] = [*experiment.columns, *experiment.rows]
    if notes := [f"* {one.name}: {one.note}" for one in named if one.note]:
        parts.append("\n".join(notes))
    shared = f"; some of the runs, or all, are those of {', '.join(own.lenders)}" if own.lenders else ""
    parts.append(f"`python -m scripts.experiment run {path}`; {made_by(own.states)}{shared}.")
    parts.append(f"![Curves](../{own.picture.relative_to(ROOT)})")
    if besides := measured(experiment, own.states):
        parts.append(besides)
    if has_series(experiment):
        parts.append(f"![What was measured](../{own.besides.relative_to(ROOT)})")
    if verdicts := own.verdicts:
        head = ["| claim | column | verdict | our numbers | why |", "|---|---|---|---|---|"]
        grid = [f"| {v.text} | {v.column} | {said(v)} | {v.because} | {v.why} |" for v in verdicts]
        parts.append("\n".join([*head, *grid]))
    for words, texts in (
        ("What the paper leaves open:", experiment.left_open),
        ("Where the file departs from the paper:", experiment.departs),
        ("What was found:", experiment.found),
    ):
        if texts:
            parts.append("\n".join([words, "", *(f"* {text}" for text in texts)]))
    return "\n\n".join(parts)


TITLES = {"ncgru": "NC-GRU", "urnn": "uRNN", "sgornn": "SGORNN", "goru": "GORU", None: "Own"}


def said(verdict: Verdict) -> str:
    """The word; of what cannot be told, what the runs say that are there."""
    so_far = {HOLDS: ", so far it holds", FAILS: ", so far it does not hold"} if verdict.word == OPEN else {}
    return f"**{verdict.word}**{so_far.get(verdict.so_far, '')}"


def glance(experiments: Iterable[Stored]) -> str:
    """Each claim with its verdicts, a line each, before the sections."""
    rows = []
    for own in experiments:
        claims: dict[str, list[str]] = {}
        for verdict in own.verdicts:
            claims.setdefault(verdict.text, []).append(f"{verdict.column}: {said(verdict)}")
        where = f"[{TITLES[own.experiment.paper]}, {own.experiment.place}](#{anchor(own.heading)})"
        rows += [f"| {where} | {text} | {'<br>'.join(words)} |" for text, words in claims.items()]
    return "\n".join(["| where | claim | verdict |", "|---|---|---|", *rows])


def missing(experiments: Iterable[Stored]) -> str:
    """What is not stored of the papers: a line for each file."""
    rows = []
    for own in experiments:
        if own.experiment.paper is None or len(own.states) == len(own.cells):
            continue
        there = Counter(state.cell.column.name for state in own.states)
        every = Counter(cell.column.name for cell in own.cells)
        text = "; ".join(f"{name}: {there[name]} of {every[name]}" for name in every) if there else ""
        path = own.experiment.path.relative_to(ROOT)
        rows.append(f"| [{own.experiment.name}](../{path}) | {len(own.states)} of {len(own.cells)} | {text} |")
    return "\n".join(
        [TAIL, *(["| file | stored | column by column |", "|---|---|---|", *rows] if rows else ["Nothing."])]
    )


def page(experiments: Sequence[Stored]) -> str:
    """The whole page."""
    papers = list(TITLES)
    shown = [own for own in experiments if own.states]
    shown.sort(key=lambda own: (own.experiment.part, papers.index(own.experiment.paper), own.beside))
    return "\n\n".join([HEAD.strip(), glance(shown), *map(section, shown), missing(experiments)]) + "\n"


def main(
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; exit code 1 if the page would be another.")
    ] = False,
) -> None:
    """Write docs/claims.md, the curves beside the runs, and docs/gallery.md, which shows them."""
    try:
        experiments = stored(Results(ROOT))
        text = page(experiments)
        if check:
            if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text:
                fail(f"{PAGE} is not what the runs say; python -m scripts.maintain.claims writes it", 1)
            return
        for own in filter(lambda own: own.states, experiments):
            own.place.parent.mkdir(parents=True, exist_ok=True)
            draw_experiment(own.experiment, own.states, 1.0, own.picture, own.drawn)
            if has_series(own.experiment):
                draw_measured(own.experiment, own.states, 1.0, own.besides, own.drawn)
        files.write(PAGE, text.encode())
        files.write(ROOT / GALLERY, gallery(ROOT).encode())
    except BAD_INPUT as error:
        fail(error)
    say(f"{sum(bool(own.states) for own in experiments)} of {len(experiments)} experiments in {PAGE}")


if __name__ == "__main__":
    run(main)
