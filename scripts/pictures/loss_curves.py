"""The losses of runs over updates, and how orthogonal they stayed."""

import io
import re
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

#: An SVG is the same for the same figure; its words are text, which is smaller than outlines.
plt.rcParams.update({"svg.hashsalt": "ortho_ref", "svg.fonttype": "none", "font.sans-serif": ["DejaVu Sans"]})

COLORS = ("#c1272d", "#0f4c81", "#b07d00", "#3a7d44", "#7b4b94", "#d95f0e", "#4d4d4d", "#1b9e9e")


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


#: Where the page around an SVG is dark, dark is light in it, and colours stay.
_DARK = b"@media (prefers-color-scheme: dark){svg{filter:invert(1) hue-rotate(180deg)}}</style>"


def save(figure: Figure, picture: Path, about: str | None = None) -> None:
    """Write a figure, whole or not at all, and close it; what it is of goes into its metadata."""
    for axis in figure.axes:
        axis.spines[["top", "right"]].set_visible(False)
    drawn, is_svg = io.BytesIO(), picture.suffix == ".svg"
    metadata = {"Keywords": about, "Creator": None} | ({"Date": None} if is_svg else {})
    figure.savefig(drawn, format=picture.suffix[1:], dpi=150, metadata=metadata, transparent=is_svg)
    plt.close(figure)
    files.write(picture, _small(drawn.getvalue()) if is_svg else drawn.getvalue())


def _small(svg: bytes) -> bytes:
    """Readable in the dark; without indents; of lines and bands every point in tenths of a unit, from the last."""
    svg = re.sub(rb"\n +", b"\n", svg).replace(b"</style>", _DARK)
    svg = svg.replace(b"'DejaVu Sans'\"", b"'DejaVu Sans', sans-serif\"")  # of formulas
    return re.sub(rb'(?<= d=")(?:[ML] \S+ \S+ \s)+(?:z\s)?(?=")', _steps, svg)


def _steps(path: re.Match[bytes]) -> bytes:
    found, x, y = b"", 0, 0
    for letter, *place in re.findall(rb"([ML]) (\S+) (\S+)", path[0]):
        to_x, to_y = (round(10 * float(own)) for own in place)
        found += b"%s%g %g" % (letter.lower(), (to_x - x) / 10, (to_y - y) / 10)
        x, y = to_x, to_y
    return found + b"z" * path[0].endswith(b"z\n")
