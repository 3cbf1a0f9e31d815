"""Peers' times by ours, on one core and on all: the picture of a benchmark."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.lines import Line2D

from scripts.pictures.figure import COLORS, save

Groups = list[Mapping[str, Any]]

#: Libraries, by what the names of their contenders begin with, and how they are marked.
MARKS = {"torch.nn": ("s", "PyTorch's module"), "torch ": ("o", "eager PyTorch"), "jax": ("^", "JAX's scan")}


def draw(groups: Groups, picture: Path, title: str) -> None:
    """A panel for each number of threads.  ValueError where no cell was measured."""
    cells = [group for group in groups if group["section"] == "cells"]
    numbers = sorted({group["case"]["threads"] for group in cells})
    if not cells:
        raise ValueError("there is nothing to draw; allowed: a report with a group of cells at least")
    rows = len(numbers)
    figure, axes = plt.subplots(
        rows, figsize=(7, 3 * rows + 0.5), squeeze=False, sharex=True, sharey=True, constrained_layout=True
    )
    for axis, threads in zip(axes[:, 0], numbers, strict=True):
        _peers(axis, [group for group in cells if group["case"]["threads"] == threads])
        axis.set_title("one core" if threads == 1 else f"{threads:g} cores")
        axis.set_ylabel("peer's time / ours\n(above 1: ortho_ref is faster)")
    marks = [Line2D([], [], color="grey", marker=mark, ls="", label=words) for mark, words in MARKS.values()]
    names, words = axes[0][0].get_legend_handles_labels()
    axes[0][0].legend(
        [*marks, *names], [*(mark.get_label() for mark in marks), *words], frameon=False, fontsize="small",
        loc="upper left", bbox_to_anchor=(1, 1),
    )  # fmt: skip
    figure.suptitle(title.replace("$", r"\$"), fontsize="medium")
    save(figure, picture)


def _peers(axis: Any, groups: Groups) -> None:
    """The quickest contender of each library, by ours: a color for each model."""
    sizes = list(dict.fromkeys(group["case"]["size"] for group in groups))
    models = list(dict.fromkeys(group["case"]["model"] for group in groups))
    for i, model in enumerate(models):
        color = COLORS[i % len(COLORS)] if i < len(COLORS) else "#999999"
        axis.plot([], [], "_", color=color, mew=3, label=model)
        for library, (mark, _) in MARKS.items():
            for group in (group for group in groups if group["case"]["model"] == model):
                own = group["contenders"]
                there = [own[name]["ratio"] for name in own if name.startswith(library)]
                at = sizes.index(group["case"]["size"]) + 0.09 * (i - len(models) / 2)
                axis.plot([at] * bool(there), [min(there)] if there else [], mark, color=color, ms=5, alpha=0.85)
    axis.axhline(1, color="black", lw=1)
    axis.set_yscale("log")
    axis.set_yticks([0.5, 1, 2, 4, 8, 16], ["0.5", "1", "2", "4", "8", "16"])
    axis.minorticks_off()
    axis.set_xticks(range(len(sizes)), sizes, rotation=20)
