"""The curves of a grid: loss and metric over updates, mean and spread over seeds, at most as many lines as colours."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from ortho_ref.losses import OF_THE_LOSS
from ortho_ref.training import Record
from scripts.grid.experiment.file import Experiment
from scripts.grid.experiment.states import State
from scripts.pictures.losses import COLORS, save, words

#: What stands at an axis, by the key of a line of metrics.
UNITS = {
    "evaluation_loss": "held-out loss (nats, or squared error)",
    "loss": "training loss",
    "accuracy": "accuracy (share of what is judged)",
    "binary_accuracy": "accuracy (share of what is judged)",
    "sequence_accuracy": "share of whole answers",
    "within_0.04": "share of sums missed by less than 0.04",
    "bits_per_character": "bits per character",
    "perplexity": "perplexity",
    "root_mean_squared_error": "root mean squared error",
    "updates": "update",
}
_DECADES = 30  # the largest value over the smallest from which an axis is logarithmic


class Curve(NamedTuple):
    """A line over its seeds: updates, mean, least and largest; how many seeds there are at each update."""

    label: str
    updates: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    seeds: int


def curve_of(label: str, runs: Sequence[Sequence[Record]], key: str) -> Curve | None:
    """The curve of some runs' lines of metrics that have a key: where all of them have come to, and all that one has.

    Parameters
    ----------
    label
        Its name.
    runs
        The lines of metrics of each seed.
    key
        "evaluation_loss", or a metric.

    Returns
    -------
    Curve or None
        None where no line has the key.
    """
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
    return Curve(label, np.array(updates), mean, low, high, max(map(len, values)))


def draw_curves(axis: Axes, curves: Sequence[Curve], key: str, baseline: float | None = None) -> None:
    """Curves in one axis: the mean, and a band from the least to the largest seed.

    Parameters
    ----------
    axis
        Where.
    curves
        At most as many as there are colours.
    key
        What they are of.
    baseline
        The loss without a model, where the key is the loss.

    Raises
    ------
    ValueError
        For more curves than colours.
    """
    if len(curves) > len(COLORS):
        raise ValueError(f"{len(curves)} curves in one picture; allowed: {len(COLORS)}")
    for color, curve in zip(COLORS, curves, strict=False):
        marker = "o" if len(curve.updates) < 3 else None
        axis.plot(curve.updates, curve.mean, color=color, lw=1.3, marker=marker, ms=3, label=words(curve.label))
        if curve.seeds > 1:
            axis.fill_between(curve.updates, curve.low, curve.high, color=color, alpha=0.18, lw=0)
    if baseline is not None:
        axis.axhline(baseline, color="black", linestyle="--", linewidth=1, label="knowing nothing")
    low = min((float(curve.low.min()) for curve in curves), default=0.0)
    high = max((float(curve.high.max()) for curve in curves), default=1.0)
    if low > 0 and high > _DECADES * low:
        axis.set_yscale("log")
    elif key not in OF_THE_LOSS and key not in ("evaluation_loss", "loss") and low >= 0 and high <= 1:
        axis.set_ylim(0, 1.02)


def keys_of(states: Sequence[State]) -> list[str]:
    """The held-out loss and the task's own metric, of what was evaluated."""
    found = {key for state in states for record in state.records if "evaluation_loss" in record for key in record}
    return [key for key in UNITS if key in found and key != "loss"]


def draw_experiment(
    experiment: Experiment, states: Sequence[State], scale: float, picture: Path, about: str | None = None
) -> None:
    """Draw a grid: a column of panels for each column of its table, a row for the loss and for the metric.

    Where the table has more lines than there are colours, each row of it has a panel of its own, in small.

    Parameters
    ----------
    experiment
        The file.
    states
        Of its runs.
    scale
        Of these.
    picture
        .png, .pdf or .svg.
    about
        What it is of, for its metadata.

    Raises
    ------
    ValueError
        Where nothing was evaluated yet, and for another kind of picture.
    """
    if picture.suffix not in (".png", ".pdf", ".svg"):
        raise ValueError(f"picture is {picture}; allowed: a name that ends in .png, .pdf or .svg")
    begun = [state for state in states if state.records]
    keys = keys_of(begun)
    if not keys:
        raise ValueError(f"{experiment.path}: no run has been evaluated yet")
    columns = list(dict.fromkeys(state.cell.column.name for state in begun))
    lines = list(dict.fromkeys(state.cell.line for state in begun))
    groups = [lines[i : i + len(COLORS)] for i in range(0, len(lines), len(COLORS))]
    figure, axes = plt.subplots(
        len(keys) * len(groups),
        len(columns),
        figsize=(max(7.0, 4.2 * len(columns)), 3.1 * len(keys) * len(groups) + 0.8),
        squeeze=False,
        constrained_layout=True,
    )
    for g, group in enumerate(groups):
        for i, key in enumerate(keys):
            for j, column in enumerate(columns):
                own = [state for state in begun if state.cell.column.name == column and state.cell.line in group]
                axis = axes[g * len(keys) + i, j]
                curves = [
                    curve
                    for line in group
                    if (curve := curve_of(line, [s.records for s in own if s.cell.line == line], key)) is not None
                ]
                baselines = {state.config["baseline"] for state in own}
                alone = baselines.pop() if key == "evaluation_loss" and len(baselines) == 1 else None
                draw_curves(axis, curves, key, alone)
                axis.set_title(words(column) if len(columns) > 1 else "", fontsize="medium")
                axis.set_xlabel("update")
                if j == 0:
                    axis.set_ylabel(UNITS[key])
        handles: dict[Any, Any] = {}
        for axis in axes[g * len(keys) : (g + 1) * len(keys)].flat:
            handles |= dict(zip(*reversed(axis.get_legend_handles_labels()), strict=True))
        if len(groups) == 1:
            room = int(figure.get_figwidth() / (0.7 + 0.085 * max(map(len, handles))))
            columns_of_it = max(1, min(room, len(handles)))
            figure.legend(
                handles.values(), handles.keys(), loc="outside lower center", ncols=columns_of_it, frameon=False
            )
        else:
            axes[g * len(keys), -1].legend(
                handles.values(), handles.keys(), loc="upper left", bbox_to_anchor=(1, 1), frameon=False
            )
    size = "" if scale == 1 else f", scale {scale:g}: not the paper's size"
    seeds = max(len({s.cell.seed for s in begun if s.cell.line == line}) for line in lines)
    band = f"mean of {seeds} seeds, band from least to largest" if seeds > 1 else "one seed"
    figure.suptitle(words(f"{experiment.title} ({band}{size})"), fontsize="medium")
    save(figure, picture, about)
