"""The losses of runs over updates, and how orthogonal they stayed."""

import io
from pathlib import Path
from typing import NamedTuple

import matplotlib

from ortho_ref import files
from ortho_ref.run_folder import read_config, read_metrics
from ortho_ref.terminal import shown
from ortho_ref.training import Record

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
    config, records = read_config(folder), read_metrics(folder)
    if not records:
        raise ValueError(f"{folder} has no line of metrics yet")
    return Run(f"{config.get('model', folder.name)}, n = {config.get('hidden', '?')}", config, records)


def words(text: object) -> str:
    """What was read from a file or a folder's name, for a picture: not as a formula, and not longer than a line."""
    return shown(text, 100).replace("$", r"\$")


def draw(runs: list[Run], picture: Path, title: str | None = None) -> None:
    """Loss of every run over updates, with the baselines; below, defect and Neumann condition where a run has them."""
    constrained = [(i, one) for i, one in enumerate(runs) if any(one.records[-1]["weights"].values())]
    figure, axes = plt.subplots(
        2 if constrained else 1,
        figsize=(7 if len(runs) <= 4 else 10, 6 if constrained else 4),
        height_ratios=(3, 2) if constrained else None,
        sharex=True,
        squeeze=False,
        constrained_layout=True,
    )
    draw_losses(axes[0, 0], runs)
    axes[0, 0].set_title(title or _title(runs))
    if constrained:
        for i, one in constrained:
            color = COLORS[i % len(COLORS)]
            for key, style, label in (("defect", "-", "defect"), ("condition", ":", "Neumann condition")):
                points = [
                    (r["iteration"], max(own[key] for own in r["weights"].values() if key in own))
                    for r in one.records
                    if any(own.get(key, 0) > 0 for own in r["weights"].values())
                ]
                if points:
                    axes[1, 0].set_yscale("log")
                    axes[1, 0].plot(
                        *zip(*points, strict=True), style, color=color, lw=1, label=words(f"{one.label}: {label}")
                    )
        axes[1, 0].set(ylabel="$\\|U^T U - I\\|_2,\\ \\|\\tilde A\\, \\delta A\\|_2$")
        if axes[1, 0].lines:
            beside = {"loc": "upper left", "bbox_to_anchor": (1, 1)} if len(runs) > 4 else {}
            axes[1, 0].legend(frameon=False, fontsize="small", **beside)
    axes[-1, 0].set_xlabel("update")
    save(figure, picture)


def draw_losses(axis: Axes, runs: list[Run]) -> None:
    """Loss of every run over updates, while training and held out, with the baselines."""
    values = []
    for i, one in enumerate(runs):
        color = COLORS[i % len(COLORS)]
        held_out = [r for r in one.records if "evaluation_loss" in r]
        values += [r["loss"] for r in one.records] + [r["evaluation_loss"] for r in held_out]
        axis.plot(
            [r["iteration"] for r in one.records], [r["loss"] for r in one.records], color=color, alpha=0.35, lw=1
        )
        axis.plot(
            [r["iteration"] for r in held_out],
            [r["evaluation_loss"] for r in held_out],
            color=color,
            marker="o" if len(held_out) < 20 else None,
            ms=3,
            label=words(one.label),
        )
    for i, baseline in enumerate(sorted({one.config["baseline"] for one in runs if "baseline" in one.config})):
        axis.axhline(baseline, color="black", linestyle="--", linewidth=1, label=None if i else "baseline")
    if min(values) > 0 and max(values) > 50 * min(values):
        axis.set_yscale("log")
    else:
        axis.set_ylim(0, None)
    axis.set_ylabel("loss (pale: training; dark: held out)")
    if len(runs) <= 4:
        axis.legend(frameon=False)
    else:  # more would hide the curves
        axis.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1))


def save(figure: Figure, picture: Path, about: str | None = None) -> None:
    """Write a figure, whole or not at all, and close it; what it is of goes into its metadata."""
    for axis in figure.axes:
        axis.spines[["top", "right"]].set_visible(False)
    drawn = io.BytesIO()
    metadata = None if about is None else {"Title" if picture.suffix == ".png" else "Keywords": about}
    figure.savefig(drawn, format=picture.suffix[1:], dpi=150, metadata=metadata)
    plt.close(figure)
    files.write(picture, drawn.getvalue())


def _title(runs: list[Run]) -> str:
    tasks = sorted({words(f"{run.config.get('task', '?')}, T = {run.config.get('length', '?')}") for run in runs})
    return "; ".join(tasks)
