"""What limits a cell's speed at each size, and peers beside it: the picture of a benchmark."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from scripts.pictures.loss_curves import COLORS, save

Groups = list[Mapping[str, Any]]

#: Models whose shares are drawn, of those that were measured.
SHOWN = ("nc-gru", "lstm")
#: The size whose memory is drawn, where it was measured.
LONGEST = "copying"


def _legend(axis: Axes, **options: Any) -> None:
    """A legend, where something has a label: without PyTorch there may be nothing."""
    if axis.get_legend_handles_labels()[1]:
        axis.legend(frameon=False, **options)


def draw(groups: Groups, picture: Path, title: str) -> None:
    """A panel for each section that was measured.  ValueError where none was."""
    panels: list[tuple[Callable[..., None], Groups]] = []
    cells = [group for group in groups if group["section"] == "cells"]
    for model in SHOWN:
        own = [g for g in cells if g["case"]["model"] == model and "floor" in g["contenders"]]
        panels += [(_limits, own)] * bool(own)
    panels += [(_peers, cells)] * bool(cells)
    for section, panel in (("scaling", _scaling), ("memory", _memory), ("maps", _maps), ("updates", _updates)):
        own = [group for group in groups if group["section"] == section]
        panels += [(panel, own)] * bool(own)
    if not panels:
        raise ValueError("there is nothing to draw; allowed: a report with a group at least")
    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    figure, axes = plt.subplots(
        rows, columns, figsize=(6.5 * columns, 4 * rows), squeeze=False, constrained_layout=True
    )
    for axis, (panel, own) in zip(axes.flat, panels, strict=False):
        panel(axis, own)
    for axis in axes.flat[len(panels) :]:
        axis.remove()
    figure.suptitle(title.replace("$", r"\$"), fontsize="medium")
    save(figure, picture)


def _ratio(group: Mapping[str, Any], name: str) -> float:
    return float(group["contenders"][name]["ratio"])


def _limits(axis: Any, groups: Groups) -> None:
    """Shares of our time: products, passes, the rest."""
    names, model = [group["case"]["size"] for group in groups], groups[0]["case"]["model"]
    products = [_ratio(group, "floor: products") for group in groups]
    floors = [_ratio(group, "floor") for group in groups]
    for label, low, high, color in (
        ("products", [0.0] * len(names), products, COLORS[1]),
        ("element-wise passes", products, floors, COLORS[2]),
        ("calls and the rest", floors, [max(1.0, floor) for floor in floors], COLORS[0]),
    ):
        axis.bar(
            names, [h - b for b, h in zip(low, high, strict=True)], bottom=low, label=label, color=color, width=0.6
        )
    axis.axhline(1, color="black", lw=1)
    axis.set(ylabel="share of our time", title=f"what limits {model}", ylim=(0, 1.35))
    axis.tick_params(axis="x", rotation=20)
    _legend(axis, ncols=3, fontsize="small", loc="upper center")


def _peers(axis: Any, groups: Groups) -> None:
    """The quickest contender of each library, by ours."""
    sizes = list(dict.fromkeys(group["case"]["size"] for group in groups))
    models = list(dict.fromkeys(group["case"]["model"] for group in groups))
    for i, model in enumerate(models):
        for library, mark in (("torch", "o"), ("jax", "^")):
            points = []
            for group in (group for group in groups if group["case"]["model"] == model):
                there = [_ratio(group, name) for name in group["contenders"] if name.startswith(library)]
                if there:
                    points.append((sizes.index(group["case"]["size"]) + 0.09 * (i - len(models) / 2), min(there)))
            if points:
                label = model if library == "torch" else None
                color = COLORS[i % len(COLORS)] if i < len(COLORS) else "#999999"
                axis.plot(*zip(*points, strict=True), mark, color=color, label=label, ms=5, alpha=0.85)
    axis.axhline(1, color="black", lw=1)
    axis.set_yscale("log")
    axis.set_yticks([0.5, 1, 2, 4], ["0.5", "1", "2", "4"])
    axis.minorticks_off()
    axis.set_xticks(range(len(sizes)), sizes, rotation=20)
    axis.set(ylabel="peer's time / ours", title="quickest of PyTorch (o) and JAX (^)")
    _legend(axis, fontsize="x-small", loc="upper left", bbox_to_anchor=(1, 1))


def _scaling(axis: Any, groups: Groups) -> None:
    """Time by T B n, over n; over T and B as they are."""
    lines = list(dict.fromkeys((group["case"]["model"], group["case"]["over"]) for group in groups))
    for i, (model, over) in enumerate(lines):
        own = [g for g in groups if (g["case"]["model"], g["case"]["over"]) == (model, over)]
        times = [g["contenders"][g["reference"]]["median"] for g in own]
        color = COLORS[i % len(COLORS)]
        axis.plot([g["case"][over] for g in own], times, "o-", ms=4, lw=1, color=color, label=f"{model}, over {over}")
        floors = [(g["case"][over], g["contenders"]["floor"]["median"]) for g in own if "floor" in g["contenders"]]
        if floors:
            axis.plot(*zip(*floors, strict=True), ":", lw=1, color=color)
    axis.set(xscale="log", yscale="log", xlabel="T, n or B", ylabel="ms (dotted: floor)", title="scaling")
    _legend(axis, fontsize="small")


def _memory(axis: Any, groups: Groups) -> None:
    """The most memory of each contender at one size: a group of bars for each model."""
    names = list(dict.fromkeys(name for group in groups for name in group["contenders"]))
    sizes = {group["case"]["size"] for group in groups}
    size = LONGEST if LONGEST in sizes else min(sizes)
    shown = [group for group in groups if group["case"]["size"] == size]
    for i, name in enumerate(names):
        at = [(k + 0.8 * (i / len(names) - 0.5), g) for k, g in enumerate(shown) if name in g["contenders"]]
        heights = [g["contenders"][name]["median"] for _, g in at]
        axis.bar([x for x, _ in at], heights, 0.8 / len(names), color=COLORS[i % len(COLORS)], label=name, align="edge")
    axis.set_xticks(range(len(shown)), [group["case"]["model"] for group in shown])
    axis.set(ylabel="T B n numbers", title=f"most memory of forward + backward, {size}")
    _legend(axis, fontsize="x-small")


def _maps(axis: Any, groups: Groups) -> None:
    """PyTorch's exponential by ours, over the norm of A."""
    own = [g for g in groups if g["case"]["map"] == "exponential" and len(g["contenders"]) > 1]
    for i, n in enumerate(dict.fromkeys(group["case"]["n"] for group in own)):
        points = [(g["case"]["‖A‖"], _ratio(g, "torch matrix_exp")) for g in own if g["case"]["n"] == n]
        axis.plot(*zip(*points, strict=True), "o-", ms=4, lw=1, color=COLORS[i % len(COLORS)], label=f"n = {n:g}")
    axis.axhline(1, color="black", lw=1)
    axis.set(
        xscale="log", xlabel=r"$\|A\|_2$", ylabel="matrix_exp's time / ours", title="exponential and its derivative"
    )
    axis.set_ylim(0, None)
    if own:
        _legend(axis, fontsize="small")


def _updates(axis: Any, groups: Groups) -> None:
    """Updates per second of each task: each of our models, and PyTorch beside the first."""
    tasks = list(dict.fromkeys(group["case"]["task"] for group in groups))
    models = list(dict.fromkeys(group["case"]["model"] for group in groups))
    by_case = {(group["case"]["task"], group["case"]["model"]): group["contenders"] for group in groups}
    bars = [(model, "update", model) for model in models] + [(models[0], "torch nn.GRU", "nn.GRU + Adam")]
    for i, (model, name, label) in enumerate(bars):
        there = [(k, by_case[task, model]) for k, task in enumerate(tasks) if name in by_case.get((task, model), {})]
        rates = [1e3 / contenders[name]["median"] for _, contenders in there]
        at = [k + 0.8 * (i / len(bars) - 0.5) for k, _ in there]
        axis.bar(at, rates, 0.8 / len(bars), align="edge", color=COLORS[i % len(COLORS)], label=label)
    axis.set_xticks(range(len(tasks)), tasks)
    axis.set(yscale="log", ylabel="updates per second", title="whole updates")
    _legend(axis, fontsize="small")
