"""The losses of runs over updates, and how orthogonal they stayed."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import matplotlib

from ortho_ref import files
from ortho_ref.terminal import shown
from ortho_ref.training.run_folder import RunFolder
from ortho_ref.training.trainer import Record

matplotlib.use("agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

COLORS = ("#c1272d", "#0f4c81", "#e0a100", "#3a7d44", "#7b4b94", "#d95f0e", "#4d4d4d", "#1b9e9e")


class Run(NamedTuple):
    """What is drawn of a run: its config and the lines of its metrics."""

    label: str
    config: Record
    records: list[Record]


def run_of(folder: Path) -> Run:
    """The run in a folder.  OSError if it holds none; ValueError if it has no line of metrics yet."""
    with RunFolder(folder) as run:
        config, records = run.config, run.records
    if not records:
        raise ValueError(f"{folder} has no line of metrics yet")
    network = config.get("network", {})  # all that a run from Python has
    model, n = config.get("model", network.get("name", folder.name)), config.get("hidden", network.get("hidden_sizes"))
    sizes = ", ".join(map(str, n)) if isinstance(n, list) else n
    return Run(model.partition("#")[0] + (f", n = {sizes}" if n else ""), config, records)


def column_of(config: Record) -> str:
    """What a run is of, for a title: "copying, T = 200", "arrays: activity"; "" where it does not say."""
    of = config.get("task", ""), config.get("length"), config.get("target")
    return of[0] + "".join(
        f"{word}{value}" for word, value in zip((", T = ", ": "), of[1:], strict=True) if value is not None
    )


def words(text: object, most: int = 100) -> str:
    """What was read from a file or a folder's name, for a picture: not as a formula, and of so many characters."""
    return shown(text, most).replace("$", r"\$")


def draw(run: Run, picture: Path) -> None:
    """A run's loss over updates, and the baseline; below, defect and Neumann condition where it has them."""
    constrained = any(run.records[-1]["weights"].values())
    figure, axes = plt.subplots(
        2 if constrained else 1,
        figsize=(7, 6 if constrained else 4),
        height_ratios=(3, 2) if constrained else None,
        sharex=True,
        squeeze=False,
        constrained_layout=True,
    )
    draw_losses(axes[0, 0], run)
    axes[0, 0].set_title(words(column_of(run.config)))
    if constrained:
        for key, style, label in (("defect", "-", "defect"), ("condition", ":", "Neumann condition")):
            points = [(record["iteration"], record[key]) for record in health_of(run.records) if key in record]
            if points:
                axes[1, 0].set_yscale("log")
                axes[1, 0].plot(*zip(*points, strict=True), style, color=COLORS[0], lw=1, label=label)
        axes[1, 0].set(ylabel=r"$\|U^T U - I\|_2,\ \|\tilde A\, \delta A\|_2$")
        if axes[1, 0].lines:
            axes[1, 0].legend(frameon=False, fontsize="small")
    axes[-1, 0].set_xlabel("updates")
    save(figure, picture)


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


def draw_losses(axis: Axes, run: Run) -> None:
    """A run's loss over updates, while training and held out, with the baseline."""
    held_out = [record for record in run.records if "evaluation_loss" in record]
    values = [record["loss"] for record in run.records] + [record["evaluation_loss"] for record in held_out]
    updates = [record["iteration"] for record in run.records]
    axis.plot(updates, [record["loss"] for record in run.records], color=COLORS[0], alpha=0.35, lw=1)
    axis.plot(
        [record["iteration"] for record in held_out],
        [record["evaluation_loss"] for record in held_out],
        color=COLORS[0],
        marker="o" if len(held_out) < 20 else None,
        ms=3,
        label=words(run.label),
    )
    if "baseline" in run.config:
        axis.axhline(run.config["baseline"], color="black", linestyle="--", linewidth=1, label="baseline")
    if min(values) > 0 and max(values) > 50 * min(values):
        axis.set_yscale("log")
    else:
        axis.set_ylim(0, None)
    axis.set_ylabel("loss (pale: training; dark: held out)")
    axis.legend(frameon=False)


def save(figure: Figure, picture: Path, about: str | None = None) -> None:
    """Write a figure, whole or not at all, and close it; what it is of goes into its metadata."""
    for axis in figure.axes:
        axis.spines[["top", "right"]].set_visible(False)
    drawn = io.BytesIO()
    metadata = None if about is None else {"Title" if picture.suffix == ".png" else "Keywords": about}
    figure.savefig(drawn, format=picture.suffix[1:], dpi=150, metadata=metadata)
    plt.close(figure)
    files.write(picture, drawn.getvalue())
