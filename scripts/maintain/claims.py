"""What the runs in results/experiments say of the papers: python -m scripts.maintain.claims

It writes docs/claims.md, a page for each table and figure that has runs in docs/claims/, their curves and the gallery.
"""

import hashlib
import re
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from scripts.grid.experiment.cells import Cell, cells_of
from scripts.grid.experiment.claims import (
    FINAL,
    LAST_20,
    NOT,
    OPEN,
    REPRODUCED,
    Comparison,
    beside_each_other,
    comparisons_of,
)
from scripts.grid.experiment.file import Column, Experiment, Row
from scripts.grid.experiment.results import Results
from scripts.grid.experiment.states import State, markdown_table
from scripts.grid.experiment.table import Line, as_json, lines_of, made_by, markdown, measured, number, published
from scripts.grid.experiment.verdicts import between, least_seeds, said, verdicts
from scripts.pictures.caption import caption
from scripts.pictures.curves import draw_experiment, draw_measured, has_series
from scripts.pictures.gallery_page import PAGE as GALLERY, gallery
from scripts.program import BAD_INPUT, fail, run, say
from scripts.program.pages import keep_pages

ROOT = Path(__file__).resolve().parents[2]
TITLES = {"ncgru": "NC-GRU", "urnn": "uRNN", "sgornn": "SGORNN", "goru": "GORU", None: "Own"}
#: The models of the table on the first screen.
MODEL, RIVAL = "NC-GRU(U_c)", "GRU"

RULE = """## How a claim is judged

The rule is of 27 November 2026; runs of before and after are judged alike.

* A claim is taken apart: one model, one rival, one column. Such a comparison is **reproduced** where both have three
  seeds and the paper's relation holds for every pair of seeds, by a run's best evaluation and by its last. Where a
  claim names another statistic, that alone decides: of "converges" it is the median of the last 20 evaluations. By
  chance three seeds would all be below three others one time in twenty.
* Where there are three seeds and it is not so, it is **not reproduced**. The percentage says which share of pairs of
  seeds agrees with the paper, by best or by last evaluation, the smaller; beside a baseline or a number it is the share
  of seeds. "None agrees": no pair does, by either. With fewer seeds it is **undecided**, with none **not run**.
* The baseline is the loss of a predictor that knows nothing of the input (of a text's characters: nothing but the one
  before; of shortest path: the question alone). A loss above 0.95 of it is at the baseline. Where a paper's word asks
  for more, as "solves" and "converges" do, the comparison says which share of it was asked for.
* Models are comparable where each loss is within a factor of 2 of the first model's, unless the claim asks for another.
* A run that diverged is worse than every other, so that "it explodes" can hold.
* A ratio divides medians over seeds; of accuracies, the shares that are wrong. In brackets is its range over all pairs
  of seeds; from five seeds on, a 95 % bootstrap interval. Numbers by themselves are means over seeds, ± the standard
  deviation.
* Runs that two tables share, as NC-GRU's tables 2 and 8 do, count in both.
* Suspicions are ours: possible reasons why our number differs from the paper's.
* Options are the paper's, or where it says nothing the model's own, or depart as the page says. "Search" on a page
  names those that we chose by runs, if any.

Sizes are the paper's, but for parts of data and suspicions that say otherwise. Hours are of one core, wall time on
machines that did other work too. How to run a table again: [experiments.md](experiments.md).
"""
TAIL = """## Not run yet

How many of a file's runs are stored. A run that several files share is stored once and counts in each.
`python -m scripts.experiment run FILE --missing` runs the others; with `--dry-run` it only says what they take.
"""


class Stored(NamedTuple):
    """An experiment: its file, all its runs, those that are stored, its table, their file, whose runs it has too.

    And what the runs say of each claim.
    """

    experiment: Experiment
    cells: list[Cell]
    states: list[State]
    lines: list[Line]
    place: Path
    lenders: list[str]
    comparisons: list[Comparison]

    @property
    def heading(self) -> str:
        """Its paper, where in it, and what it compares: "NC-GRU, table 8: Denoise: accuracy of six models"."""
        place = re.split("[,;:]", self.experiment.place or "")[0]
        own = f"{TITLES[self.experiment.paper]}, {place}: " if place else ""
        return own + self.experiment.title

    @property
    def page(self) -> str:
        """Of its own, in docs/claims."""
        return f"{self.experiment.name.replace('/', '-')}.md"

    @property
    def address(self) -> str:
        """From docs/claims.md: its page, or its file where nothing was run."""
        return f"claims/{self.page}" if self.states else f"../{self.experiment.path.relative_to(ROOT)}"

    @property
    def link(self) -> str:
        """To it, by its place in the paper."""
        return f"[{self.experiment.place or self.experiment.name}]({self.address})"

    @property
    def beside(self) -> bool:
        """Whether it is no table or figure of the paper, but what was looked at beside one."""
        return (self.experiment.place or "").startswith(("a suspicion", "beside"))

    @property
    def asked(self) -> str:
        """What a suspicion is about, as a heading; of what is none ""."""
        place = re.split("[,;:]", self.experiment.place or "")[0]
        about = place.removeprefix("a suspicion about ")
        return "" if about == place else f"### {about[0].upper()}{about[1:]}, paper of {TITLES[self.experiment.paper]}"

    @property
    def hours(self) -> float:
        """Of all runs, lent ones too, by the clock."""
        return sum(state.seconds for state in self.states) / 3600

    @property
    def picture(self) -> Path:
        """Its curves."""
        return self.place.with_suffix(".svg")

    @property
    def besides(self) -> Path:
        """What was measured of the runs besides, drawn."""
        return self.place.with_name(f"{self.place.stem}-measured.svg")

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
        comparisons = comparisons_of(experiment, lines, ended)
        found.append(Stored(experiment, cells, ended, lines, there.place(experiment), lenders, comparisons))
    return found


# The page of a table or a figure


def page_of(own: Stored) -> str:
    """One artefact: picture, table, comparisons, what was found, what the paper leaves open."""
    experiment = own.experiment
    path = experiment.path.relative_to(ROOT)
    parts = _head(own)
    if experiment.found:
        parts.append("\n".join(["What was found:", "", *(f"* {text}" for text in experiment.found)]))
    parts.append(f"![{experiment.title}](../../{own.picture.relative_to(ROOT)})")
    parts.append(f"*{caption(experiment, own.states)}*")
    parts.append(markdown(experiment, own.lines, 1.0))
    if baselines := _baselines(own):
        parts.append(f"The baseline, in the same unit: {baselines}.")
    named: list[Column | Row] = [*experiment.columns, *experiment.rows]
    if notes := [f"* {one.name}: {one.note}" for one in named if one.note]:
        parts.append("\n".join(notes))
    parts += filter(None, [verdicts(experiment, own.comparisons), measured(experiment, own.states)])
    if has_series(experiment):
        parts.append(f"![What was measured](../../{own.besides.relative_to(ROOT)})")
    for words, texts in (
        ("What the paper leaves open:", experiment.left_open),
        ("Where the file departs from the paper:", experiment.departs),
    ):
        if texts:
            parts.append("\n".join([words, "", *(f"* {text}" for text in texts)]))
    shared = f"; some of the runs, or all, are those of {', '.join(own.lenders)}" if own.lenders else ""
    parts.append(
        f"{len(own.states)} of {len(own.cells)} runs, {own.hours:.1f} hours; {_sizes(own.lines)}"
        f"search: {experiment.search or 'none'}. "
        f"`python -m scripts.experiment run {path}`; {made_by(own.states)}{shared}."
    )
    parts.append("[All claims](../claims.md)")
    return "\n\n".join(parts) + "\n"


def _head(own: Stored) -> list[str]:
    """The heading, the rest of the place, what the paper shows."""
    _, *rest = re.split("[,;:] *", own.experiment.place or "", maxsplit=1)
    parts = [f"# {own.heading}"]
    for words in rest:
        by = words.removeprefix("by ")
        parts.append(f"Settings: the paper's {by}." if by != words else f"{words[0].upper()}{words[1:]}.")
    return [*parts, f"The paper: {own.experiment.shows}."] if own.experiment.shows else parts


def _baselines(own: Stored) -> str:
    """The loss of a predictor that knows nothing, of each column; of another metric none."""
    if own.experiment.metric != "evaluation_loss":
        return ""
    found: dict[str, dict[str, None]] = {}
    for state in own.states:
        if state.config:
            value = number(state.config["baseline"] / own.experiment.unit)
            found.setdefault(value, {})[state.cell.column.name] = None
    if len(found) == 1:
        return next(iter(found))
    return ", ".join(f"{value} ({'; '.join(columns)})" for value, columns in found.items())


def _sizes(lines: Sequence[Line]) -> str:
    """The fewest and the most parameters."""
    sizes = {f"{line.row}, {line.column}": line.parameters for line in lines if line.parameters}
    if not sizes:
        return ""
    (small, least), (large, most) = min(sizes.items(), key=itemgetter(1)), max(sizes.items(), key=itemgetter(1))
    if least == most:
        return f"{least:,} parameters; "
    return f"{least:,} ({small}) to {most:,} parameters ({large}), {most / least:.1f} times as many; "


# The page of all


_READ = """NC-GRU is NC-GRU(U_c), with one orthogonal matrix; for NC-GRU(U_r, U_c) see the tables below. Numbers are
its loss divided by the GRU's, of medians over seeds, all pairs of seeds in brackets: below 1 NC-GRU is better. Minimum
and final decide together; "not told apart": neither is better in every pair. "Parameters" is the NC-GRU's number by the
GRU's. "text" is the task as the paper describes it, "released" as its code builds it; A and B are two layouts of
copying: in B the recall begins on the marker, in A one step later. "Paper" is the paper's last version; version 1 has
other numbers, for parenthesis at T = 200 0.15. The verdict is of the order alone, not of the size."""


def duel(experiments: Iterable[Stored]) -> str:
    """`MODEL` against `RIVAL` in every table of losses that has both."""
    rows = []
    words: dict[str, dict[str, list[str]]] = {}
    for own in experiments:
        experiment = own.experiment
        both = {row.name: row for row in experiment.run_rows if row.name in (MODEL, RIVAL)}
        if own.beside or experiment.larger_is_better or len(both) < 2:
            continue
        for column in experiment.columns:
            found = beside_each_other(experiment, own.lines, column.name, MODEL, RIVAL)
            word = _better(found)
            title = experiment.title.partition(":")[0]
            words.setdefault(word.partition(",")[0], {}).setdefault(title, []).append(column.name)
            sizes = {line.name: line.parameters or 0 for line in own.lines if line.column == column.name}
            size = f"{sizes[MODEL] / sizes[RIVAL]:.2f}" if sizes.get(MODEL) and sizes.get(RIVAL) else ""
            ours = [between(found.ratios.get(name)) for name in ("minimum", FINAL, LAST_20)]
            task = f"[{title}]({own.address}), {column.name}"
            rows.append([task, _papers_ratio(both[MODEL], both[RIVAL], column), *ours, size, word])
    head = ["task", "paper", "ours, minimum", "ours, final", "median of last 20", "parameters", "verdict"]
    answers = []
    for word, tasks in words.items():
        places = (f"{task}: {'; '.join(columns)}." for task, columns in tasks.items())
        answers.append(f"* {word}. {' '.join(places)}")
    verdicts = Counter(row[-1] for row in rows)
    better, worse, equal = (verdicts[f"**{word}**"] for word in ("NC-GRU better", "GRU better", "not told apart"))
    parts = [
        "## Does NC-GRU beat GRU?",
        f"Of {better + worse + equal} settings that are decided NC-GRU is better in {better}, the GRU in {worse}; "
        f"{len(rows) - better - worse - equal} are open, not run or of too few seeds.",
        "\n".join(answers),
        _READ,
        markdown_table(head, rows),
    ]
    return "\n\n".join(parts)


def _papers(row: Row, column: Column) -> float | list[float] | None:
    """The paper's number, of its last version that has one."""
    return next((source[column.of] for source in reversed(row.paper.values()) if column.of in source), None)


def _papers_ratio(model: Row, rival: Row, column: Column) -> str:
    numbers = [_papers(row, column) for row in (model, rival)]
    means = [value[0] if isinstance(value, list) else value for value in numbers if value is not None]
    return f"{means[0] / means[1]:.2g}" if len(means) == 2 else ""


def _better(own: Comparison) -> str:
    if own.word == OPEN:
        return said(own)
    return "**NC-GRU better**" if own.word == REPRODUCED else "**GRU better**" if own.reversed else "**not told apart**"


def table(experiments: Iterable[Stored]) -> str:
    """A line for each claim in each column."""
    rows = []
    for own in experiments:
        together: dict[tuple[str, str], list[Comparison]] = {}
        for one in own.comparisons:
            together.setdefault((one.claim, one.column), []).append(one)
        for (claim, column), parts in together.items():
            first = parts[0]
            statistic = next(iter(first.by)) if len(first.by) == 1 else own.experiment.statistic
            numbers = [*_numbers(own, first, statistic), _of(own.experiment, statistic)]
            rows.append([own.link, claim, column, first.model, *numbers, _seeds(parts), _together(parts)])
    head = ["artefact", "claim", "column", "model", "paper", "ours, mean", "of", "seeds", "verdict"]
    return markdown_table(head, rows)


def _of(experiment: Experiment, statistic: str) -> str:
    """What our number is: "minimum, in 0.001"."""
    named = [statistic, *([] if experiment.metric == "evaluation_loss" else [experiment.metric])]
    unit = experiment.unit_name or (f"in {experiment.unit:g}" if experiment.unit != 1 else "")
    return ", ".join(filter(None, [*named, unit])).replace("_", " ")


def _numbers(own: Stored, one: Comparison, statistic: str) -> list[str]:
    """Of a comparison's model: what the paper has, and our mean over seeds."""
    row = next(row for row in own.experiment.rows if row.name == one.model)
    theirs = [_papers(row, column) for column in own.experiment.columns if column.name == one.column]
    lines = [line for line in own.lines if (line.name, line.column) == (one.model, one.column)]
    values = [value for line in lines[:1] for value in line.values.get(statistic, ())]
    paper = published(theirs[0]) if theirs and theirs[0] is not None else ""
    return [paper, number(statistics.mean(values)) if values else ""]


def _seeds(parts: Sequence[Comparison]) -> str:
    counts = [count for one in parts for count in one.seeds if count is not None]
    return str(min(counts)) if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"


def _together(parts: Sequence[Comparison]) -> str:
    """The verdict on a claim of several comparisons: one word, or which rival has which."""
    by_word: dict[str, list[str]] = {}
    for one in parts:
        by_word.setdefault(said(one), []).append(one.rival if one.model == parts[0].model else one.model)
    if len(by_word) == 1:
        return next(iter(by_word))
    return "; ".join(f"{word}: {', '.join(names)}" for word, names in by_word.items())


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
        rows.append([f"[{own.experiment.name}](../{path})", f"{len(own.states)} of {len(own.cells)}", text])
    return f"{TAIL}\n{markdown_table(['file', 'stored', 'column by column'], rows) if rows else 'Nothing.'}"


def page(experiments: Sequence[Stored]) -> str:
    """The first page."""
    papers = [own for own in experiments if own.experiment.paper and not own.experiment.part]
    theirs, besides = ([own for own in papers if own.beside == beside] for beside in (False, True))
    comparisons = [one for own in theirs for one in own.comparisons]
    claims = {(own.experiment.name, one.claim, one.column) for own in theirs for one in own.comparisons}
    open_ = {(o.experiment.name, c.claim, c.column) for o in theirs for c in o.comparisons if c.word == OPEN}
    words = Counter(one.word for one in comparisons)
    begun = sum(one.word == OPEN and least_seeds(one) > 0 for one in comparisons)
    ours = Counter(one.word == OPEN for own in besides for one in own.comparisons)
    split = [one for one in comparisons if one.word != OPEN and len({share == 1 for share in one.by.values()}) > 1]
    text = [
        "# Which claims of the papers hold",
        f"The papers' claims make {len(comparisons)} comparisons, of a model with another, a baseline or a number. "
        f"**{words[REPRODUCED]} are reproduced, {words[NOT]} are not**; {begun} are undecided, with fewer than three "
        f'seeds, and {words[OPEN] - begun} not run. "Reproduced": all our seeds are in the paper\'s order, by best and '
        "by last evaluation; the losses may differ. [How a claim is judged](#how-a-claim-is-judged).",
        f"So far {_done(theirs)} runs are done; {len(claims) - len(open_)} of {len(claims)} claims are decided in all "
        "their comparisons, each column counted by itself. By the best evaluation alone and by the last alone, "
        f"{len(split)} of the {len(comparisons) - words[OPEN]} verdicts differ.",
        f"Other runs ask why our numbers differ from the papers' ([suspicions](#suspicions)): {_done(besides)} are "
        f"done, {ours[False]} of {ours.total()} comparisons decided.",
        duel(papers),
    ]
    for paper, title in TITLES.items():
        own = [one for one in theirs if one.experiment.paper == paper and one.experiment.claims]
        own.sort(key=lambda one: "table" not in one.experiment.name)
        text += [f"## {title}", table(own)] if own else []
    for title, own in (
        ("Suspicions", [one for one in besides if one.experiment.claims]),
        ("On a part of the data", [one for one in experiments if one.experiment.part]),
    ):
        found: dict[str, list[str]] = {}
        for one in own:
            if one.beside and one.experiment.found:
                answer = re.split(r"(?<=\.) (?=[A-Z])", one.experiment.found[0])[0]  # the page has the rest
                found.setdefault(one.asked, []).append(f"* [{one.experiment.title}]({one.address}) {answer}")
        answers = ["\n\n".join(filter(None, [about, "\n".join(lines)])) for about, lines in found.items()]
        text += [f"## {title}", *answers, table(own)] if own else []
    others = [one for one in experiments if one.states and not one.experiment.claims]
    if others:
        text += ["## Without a claim", "\n".join(f"* {one.link}: {one.experiment.title}" for one in others)]
    text.append("Written by `python -m scripts.maintain.claims` from [the runs](../results/experiments/README.md).")
    return "\n\n".join([*text, RULE.strip(), missing(experiments)]) + "\n"


def _done(experiments: Sequence[Stored]) -> str:
    """How many of the runs are stored: "376 of 1,472"."""
    return f"{sum(len(own.states) for own in experiments):,} of {sum(len(own.cells) for own in experiments):,}"


def pages(experiments: Sequence[Stored]) -> dict[str, str]:
    """Every page, by its name from the root."""
    own_pages = {f"docs/{own.address}": linked(own, page_of(own), experiments) for own in experiments if own.states}
    return {"docs/claims.md": page(experiments)} | own_pages


def linked(own: Stored, text: str, experiments: Iterable[Stored]) -> str:
    """The text of a page, in which the names of other experiments, of the same paper in short, lead to their pages."""
    paper, _, _ = own.experiment.name.rpartition("/")
    to: dict[str, str] = {}
    for one in experiments:
        if one.states and one is not own:
            of, _, short = one.experiment.name.rpartition("/")
            to |= {one.experiment.name: one.page} | ({short: one.page} if of == paper and "-" in short else {})
    names = "|".join(map(re.escape, sorted(to, key=len, reverse=True)))
    named = re.compile(rf"(?<![\w/`.-])({names})(?:\.toml)?(?![\w/`-])")
    return named.sub(lambda name: f"[{name[1]}]({to[name[1]]})", text) if to else text


def main(
    check: Annotated[bool, typer.Option("--check", help="Write nothing; exit code 1 if a page would change.")] = False,
) -> None:
    """Write docs/claims.md, docs/claims/, the curves beside the runs, and docs/gallery.md, which shows them."""
    try:
        experiments = stored(Results(ROOT))
        run_so_far = [own for own in experiments if own.states]
        texts = pages(experiments)
        for own in run_so_far if not check else ():
            own.place.parent.mkdir(parents=True, exist_ok=True)
            draw_experiment(own.experiment, own.states, 1.0, own.picture, own.drawn)
            if has_series(own.experiment):
                draw_measured(own.experiment, own.states, 1.0, own.besides, own.drawn)
        keep_pages(ROOT, texts, "scripts.maintain.claims", check, "docs/claims")
        keep_pages(ROOT, {GALLERY: gallery(ROOT)}, "scripts.maintain.claims", check)
    except BAD_INPUT as error:
        fail(error)
    if not check:
        say(f"{len(run_so_far)} of {len(experiments)} experiments in {ROOT / 'docs' / 'claims'}")


if __name__ == "__main__":
    run(main)
