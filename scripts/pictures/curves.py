"""The curves of a grid: loss and metric over updates, mean and spread over seeds, at most as many lines as colours."""

import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ortho_ref.training.trainer import Record
from scripts.grid.experiment.file import OF_STEPS, ON_TEST, WHOLE, Experiment
from scripts.grid.experiment.states import State
from scripts.pictures.figure import COLORS, save, words
from tasks import by_name

#: What stands at an axis, by the key of a line of metrics.
UNITS = {
    "evaluation_loss": "held-out loss (nats)",
    "loss": "training loss",
    "accuracy": "held-out accuracy",
    "binary_accuracy": "held-out accuracy",
    "sequence_accuracy": "share of whole answers",
    "within_0.04": "share right to 0.04",
    "bits_per_character": "bits per character",
    "perplexity": "perplexity",
    "root_mean_squared_error": "root mean squared error",
    "defect": r"$\|U^T U - I\|_2$",
    "condition": r"$\|\tilde A\, \delta A\|_2$",
}
#: Of these, those between 0 and 1; those that have a baseline.
SHARES = ("accuracy", "binary_accuracy", "sequence_accuracy", "within_0.04")
LOSSES = ("evaluation_loss", "loss")
_PER_INCH = 12  # characters of a title
_WIDTH, _ACROSS = 7.0, 2  # inches, of 105 pixels on a page; panels side by side
_DECADES = 10  # the largest value over the smallest from which an axis is logarithmic
# of the baseline, or of the lowest curve's largest value: what a loss in float32 does below is no more than rounding
_ROUNDING = 1e-6


#: What is in a line's name -> the number of its colour, the first that fits: one colour for a model in all pictures.
_MODELS = {
    "nc-gru": 0,
    "goru": 5,
    "scornn": 3,
    **dict.fromkeys(("eurnn", "exprnn", "ornn", "vprnn", "fastrnn"), 7),
    "urnn": 4,
    "lstm": 2,
    "gru": 1,
    "rnn": 6,
}


class Curve(NamedTuple):
    """A line over its seeds: its colour's number; updates, mean, least and largest; the most seeds at an update."""

    label: str
    color: int
    updates: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    seeds: int


def curve_of(label: str, color: int, runs: Sequence[Sequence[Record]], key: str) -> Curve | None:
    """The curve of a key in runs' metrics: at each update the mean of those that have come there."""
    by_update: dict[int, list[float]] = {}
    for records in runs:
        for record in records:
            if key in record:
                by_update.setdefault(record["iteration"], []).append(record[key])
    if not by_update:
        return None
    updates = sorted(by_update)
    values = [by_update[update] for update in updates]
    mean, low, high = (np.array([of(own) for own in values]) for of in (np.mean, min, max))
    return Curve(label, color, np.array(updates), mean, low, high, max(map(len, values)))


def draw_curves(axis: Axes, curves: Sequence[Curve], key: str, baseline: float | None = None) -> None:
    """Curves in one axis: the mean, and a band from the least to the largest seed."""
    if len({curve.color for curve in curves}) < len(curves) or len(curves) > len(COLORS):
        raise ValueError(f"{len(curves)} curves in one panel; allowed: {len(COLORS)}, each of another colour")
    for curve in curves:
        color = COLORS[curve.color]
        marker = "o" if len(curve.updates) < 3 else None
        axis.plot(curve.updates, curve.mean, color=color, lw=1.3, marker=marker, ms=3, label=words(curve.label))
        if curve.seeds > 1:
            axis.fill_between(curve.updates, curve.low, curve.high, color=color, alpha=0.18, lw=0)
    if baseline is not None:
        axis.axhline(baseline, color="black", linestyle="--", linewidth=1, label="baseline")
    values = np.concatenate([own for curve in curves for own in (curve.low, curve.high)] or [np.zeros(0)])
    above = values[values > 0]  # a loss of 0 is below any axis of decades
    if key not in SHARES and above.size and (values >= 0).all() and above.max() > _DECADES * above.min():
        axis.set_yscale("log")
        tops = [top for curve in curves if (top := curve.high.max()) > 0]
        least = _ROUNDING * (min(tops) if baseline is None else baseline)  # not of a model that diverges
        if above.min() < least:
            axis.set_ylim(bottom=least)
        if above.min() < least or above.size < values.size:
            cut = "what is smaller, down to 0, is not drawn"
            axis.text(0.99, 0.98, cut, transform=axis.transAxes, ha="right", va="top", fontsize="small")


class Axis(NamedTuple):
    """What stands at a panel's axes."""

    y: str
    x: str


class Drawn(NamedTuple):
    """A run to be drawn: the line it belongs to with runs of other seeds, its column, its metrics, its config."""

    line: str
    column: str
    records: Sequence[Record]
    config: Mapping[str, Any] = MappingProxyType({})

    def baseline(self, key: str) -> float | None:
        """What a predictor that knows nothing has; None where that is not known."""
        if key in LOSSES:
            return self.config.get("baseline")
        name = self.config.get("task")
        if key not in SHARES or name not in by_name.GENERATED:
            return None
        task = by_name.make(name, **{option: self.config.get(option) for option in by_name.options_of(name)})
        return getattr(task, "baseline_metric", None) if key == task.metric else None


def keys_of(runs: Sequence[Drawn]) -> list[str]:
    """The held-out loss and the task's own metric, of what was evaluated."""
    found = {key for run in runs for record in run.records if "evaluation_loss" in record for key in record}
    return [key for key in UNITS if key in found and key != "loss"]


def unit_of(key: str, runs: Sequence[Drawn]) -> str:
    """What stands at the axis of a key; of a held-out loss whether it is in nats, or a squared error, or both."""
    losses = {(run.config.get("network") or {}).get("loss") == "mean_squared_error" for run in runs}
    if key == "evaluation_loss" and True in losses:
        return "held-out loss (nats, or squared error)" if False in losses else "held-out squared error"
    return UNITS[key]


def draw_experiment(
    experiment: Experiment, states: Sequence[State], scale: float, picture: Path, about: str | None = None
) -> None:
    """Draw a grid: a column of panels for each column of its table, a row for the loss and for the metric."""
    begun = [state for state in states if state.records]
    health = health_drawn(experiment)
    of = health_of if health else list
    runs = [Drawn(own.cell.line, own.cell.column.name, of(own.records), own.config) for own in begun]
    if not keys_of(runs):
        raise ValueError(f"{experiment.path}: no run has been evaluated yet")
    draw_runs(runs, [health] if health else keys_of(runs), _title(experiment, begun, scale), picture, about)


def health_of(records: Sequence[Record]) -> list[Record]:
    """Lines of metrics with the worst figures of their weights on top: "defect" and "condition", where above 0."""
    found = []
    for record in records:
        own = {}
        for key in ("defect", "condition"):
            values = [figures[key] for figures in record["weights"].values() if figures.get(key, 0) > 0]
            if values:
                own[key] = max(values)
        found.append(record | own)
    return found


def health_drawn(experiment: Experiment) -> str | None:
    """What is drawn of a grid that is of nothing but its defect or its condition: which of the two."""
    return {"worst_defect": "defect", "worst_condition": "condition"}.get(experiment.metric)


def _title(experiment: Experiment, begun: Sequence[State], scale: float) -> str:
    seeds = Counter((state.cell.line, state.cell.column.name) for state in begun).values()
    several = f"{min(seeds)} to {max(seeds)}" if min(seeds) < max(seeds) else f"{max(seeds)}"
    band = f"mean of {several} seeds, band from least to largest" if max(seeds) > 1 else "one seed"
    rows, all_rows = len({state.cell.row.name for state in begun}), len(experiment.run_rows)
    some = f", {rows} of {all_rows} rows" if rows < all_rows else ""
    less = experiment.less_than_papers(scale)
    size = f", {less}: not the paper's size" if less else ""
    return f"{experiment.title} ({band}{some}{size})"


def has_series(experiment: Experiment) -> bool:
    """Whether a file has something measured that is drawn: at every step, or after several numbers of updates."""
    whats = [own["what"] for own in experiment.measures if own["what"] != ON_TEST]
    return any(what in OF_STEPS or whats.count(what) > 1 for what in whats)


def draw_measured(
    experiment: Experiment, states: Sequence[State], scale: float, picture: Path, about: str | None = None
) -> None:
    """Draw what was measured of a grid besides: norms over the steps, other numbers over the updates."""
    axes: dict[str, Axis] = {}
    runs, measured = [], []
    for state in states:
        records: list[Record] = []
        for own in state.measured:
            what = own["what"].replace("_", " ")
            for name, value in own["values"].items():
                if isinstance(value, list):
                    key = f"{what}, {name}, after {own['after']:,} updates"
                    axes[key] = Axis(f"{what}: {name.replace('_', ' ')}\nafter {own['after']:,} updates", "step t")
                    records += [{"iteration": t, key: one} for t, one in enumerate(value, 1)]
                elif own["what"] not in (*OF_STEPS, ON_TEST):
                    axes[name] = Axis(name.replace("_", " "), "updates")
                    records.append({"iteration": own["after"], name: value})
        if records:
            measured.append(state)
            runs.append(Drawn(state.cell.line, state.cell.column.name, records))
    if not runs:
        raise ValueError(f"{experiment.path}: nothing has been measured yet")
    draw_runs(runs, list(axes), _title(experiment, measured, scale), picture, about, axes)


def draw_runs(
    runs: Sequence[Drawn],
    keys: Sequence[str],
    title: str,
    picture: Path,
    about: str | None = None,
    others: Mapping[str, Axis] = MappingProxyType({}),
) -> None:
    """Draw runs: a column of panels for each column, a row for each key.

    Where there are more lines than colours, the panels are repeated for the next ones, on the same axes.
    """
    columns = list(dict.fromkeys(run.column for run in runs))
    lines = list(dict.fromkeys(run.line for run in runs))
    groups = [lines[i : i + len(COLORS)] for i in range(0, len(lines), len(COLORS))]
    across = min(len(columns), _ACROSS)
    down = -(-len(columns) // across)
    shape = (len(groups), len(keys), down * across)
    axes: Any
    figure, axes = plt.subplots(
        len(groups) * len(keys) * down,
        across,
        figsize=(_WIDTH, (3.1 if across == 1 and len(keys) < 3 else 2.4) * len(keys) * len(groups) * down + 0.8),
        squeeze=False,
        constrained_layout=True,
    )
    axes = axes.reshape(shape)
    for axis in axes[:, :, len(columns) :].flat:
        axis.remove()
    axes = axes[:, :, : len(columns)]
    for g, k, c in np.ndindex(axes.shape):  # before anything is drawn: an axis that is shared later keeps its own scale
        if g > 0:
            axes[g, k, c].sharey(axes[0, k, c])
    for group, own_axes in zip(groups, axes, strict=True):
        for key, row in zip(keys, own_axes, strict=True):
            for column, axis in zip(columns, row, strict=True):
                own = [run for run in runs if run.column == column]
                _panel(axis, [run for run in own if run.line in group], group, key)
                named = others.get(key) or Axis(unit_of(key, own), "updates")
                axis.set(xlabel=named.x, ylabel=named.y)
                axis.set_title("" if column in (WHOLE, title) else words(column), fontsize="medium")
            _said_once(row, across)
    for k, key in enumerate(keys):
        if key in SHARES:
            _shares([axis for axis in axes[:, k].flat if axis.lines])
    for own_axes in axes:
        _legend(figure, own_axes, alone=len(groups) == 1, direct=len(columns) == 1)
    figure.suptitle(textwrap.fill(words(title, 400), int(_PER_INCH * figure.get_figwidth())), fontsize="medium")
    save(figure, picture, about)


def numbers_of(lines: Sequence[str]) -> dict[str, int]:
    """The number of each line's colour: a model has its own in every picture, what is left goes to the others."""
    found: dict[str, int] = {}
    for line in lines:
        own = next((number for name, number in _MODELS.items() if name in line.lower()), None)
        if own is not None and own not in found.values():
            found[line] = own
    left = iter(number for number in reversed(range(len(COLORS))) if number not in found.values())
    return {line: found[line] if line in found else next(left) for line in lines}


def _panel(axis: Axes, runs: Sequence[Drawn], lines: Sequence[str], key: str) -> None:
    curves = [
        curve
        for line, color in numbers_of(lines).items()
        if (curve := curve_of(line, color, [run.records for run in runs if run.line == line], key)) is not None
    ]
    baselines = {run.baseline(key) for run in runs}
    draw_curves(axis, curves, key, baselines.pop() if len(baselines) == 1 else None)
    if not axis.lines:  # runs of another task have this figure
        axis.set_axis_off()


def _said_once(row: Sequence[Axes], across: int) -> None:
    """Nothing stands over a panel that is empty, nor beside one what its neighbour on the left says."""
    for c in reversed(range(len(row))):
        if not row[c].axison:
            row[c].set_title("")
        elif c % across and row[c - 1].axison and row[c - 1].get_ylabel() == row[c].get_ylabel():
            row[c].set_ylabel("")


def _shares(row: Sequence[Axes]) -> None:
    """Axes up to 1, from 0 on unless every curve is in the upper half: a share of 0.96 is no flat line at the top."""
    low = min(axis.get_ylim()[0] for axis in row)
    low = low if low > 0.5 else 0.0
    for axis in row:
        axis.set_ylim(low, 1 + 0.02 * (1 - low))


def _legend(figure: Figure, axes: Any, alone: bool, direct: bool) -> None:
    """At the lines' ends where there is one column; else beside or below the panels, where it hides nothing."""
    handles: dict[Any, Any] = {}
    for axis in axes.flat:
        handles |= dict(zip(*reversed(axis.get_legend_handles_labels()), strict=True))
    if direct:
        for axis in axes.flat:
            _at_ends(axis)
        return
    if not alone:
        beside = {"loc": "upper left", "bbox_to_anchor": (1, 1), "frameon": False}
        axes[0, -1].legend(handles.values(), handles.keys(), **beside)
        return
    room = int(figure.get_figwidth() / (0.7 + 0.085 * max(map(len, handles))))
    ncols = max(1, min(room, len(handles)))
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=ncols, frameon=False)


def _at_ends(axis: Axes) -> None:
    """The name of each line beside its end, in its colour; those that would touch are moved apart."""
    ends = []
    axis.get_ylim()  # the limits are computed only when asked for; until then a place in the panel is another
    for line in (line for line in axis.lines if not str(line.get_label()).startswith("_")):
        x, y = (np.asarray(own, float)[-1] for own in line.get_data())
        place = axis.transAxes.inverted().transform(axis.transData.transform((x, y)))[1]
        ends.append((float(np.clip(place, 0, 1)), str(line.get_label()), line.get_color()))
    apart = 0.065  # a line of text, of a panel's height
    at = -apart
    for above, (place, label, color) in zip(reversed(range(len(ends))), sorted(ends), strict=True):
        at = max(place, at + apart)
        y = min(at, max(1, len(ends) * apart) - above * apart)  # there is room for those above it
        axis.text(1.01, y, label, transform=axis.transAxes, color=color, va="center", fontsize="small")


def check_picture(name: str, picture: Path) -> None:
    """ValueError, naming the option, for a kind of picture that is not drawn."""
    if picture.suffix not in (".png", ".pdf", ".svg"):
        raise ValueError(f"{name} is {picture}; allowed: a name that ends in .png, .pdf or .svg")
