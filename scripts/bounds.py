"""||dh_t/dh_{t-1}|| and its bounds along a held-out sequence of a trained run: python -m scripts.bounds runs/denoise"""

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, TypeAlias

import matplotlib.pyplot as plt
import numpy as np
import typer
from matplotlib.axes import Axes

from gradients import bounds
from gradients.bptt import Bound, Matrix, Weights, double
from ortho_ref import models, scan
from ortho_ref.backend import to_device, to_host
from ortho_ref.boundary import is_tokens
from ortho_ref.cells import Cell
from ortho_ref.cells.cell import parts_of, state_of
from ortho_ref.language.reader import Reader
from ortho_ref.layers import real_features
from ortho_ref.training.run_folder import RunFolder
from ortho_ref.training.runs import load
from ortho_ref.training.trainer import Record
from scripts.grid.config import read_run, task_of
from scripts.grid.experiment.measures import steps_of
from scripts.grid.options import places_in
from scripts.pictures.curves import check_picture
from scripts.pictures.figure import COLORS, save, words
from scripts.program import BAD_INPUT, fail, limit_threads, run, say

#: By the bounds' names, each at every step.
Found: TypeAlias = dict[str, list[Bound]]
#: A bound whose norm is this share of it at every step lies on it.
ON_IT = 0.99


def along(cell: Cell, weights: Weights, x: Matrix, h: Matrix) -> Found:
    """The bounds at every step of one sequence: x (T, m), states (T+1, n), of an LSTM h and c (T+1, 2n), float64."""
    found: Found = {}
    for x_t, h_prev in zip(x, h[:-1], strict=True):
        for name, bound in bounds.of_step(cell, weights, x_t, h_prev).items():
            found.setdefault(name, []).append(bound)
    return found


def measure(folder: Path, places: Record, steps: int, device: str = "cpu") -> list[tuple[Cell, Found]]:
    """Each layer's cell, and the bounds of a run's best checkpoint along the first held-out sequence.

    The states are computed by `device`, the Jacobians and their norms by NumPy, in float64.
    """
    with RunFolder(folder) as run:
        config = read_run(run)
        if models.is_of_file(config["model"]):
            raise ValueError(f"{folder} has a cell of a file; the bounds are theorems about the built-in cells")
        network, params, buffers = load(run)
    task = task_of(folder, config, places)
    if isinstance(network, Reader):
        raise ValueError(f"{folder} has a reader, of two texts; allowed: a network that reads one sequence")
    batch = next(iter(task.evaluation()))
    x = batch.x[: min(steps, steps_of(batch, 1)), :1]
    if network.embedding is not None:
        x = double(params["embedding.E"])[x]
    x = (x[..., None] == np.arange(task.input.size) if is_tokens(x) else x).astype(np.float64)
    found = []
    for i, layer in enumerate(network.layers):
        weights = {name: double(value) for name, value in network.layer_weights(i, params, buffers).items()}
        own = [double(params[f"layer{i}.{name}0"])[None] for name in layer.cell.states if layer.trained_h0]
        given = to_device((weights, x, state_of(tuple(own)) if own else None), device)
        parts = parts_of(layer.cell, to_host(scan.forward(layer.cell, *given)[0]))
        found.append((layer.cell, along(layer.cell, weights, x[:, 0], np.concatenate(parts, axis=-1)[:, 0])))
        x = real_features(parts[0][1:])
    return found


def draw(axis: Axes, found: Found, states: Sequence[str] = ("h",)) -> None:
    """The norm at every step, and its bounds; one that is the norm itself is dashed on it, and says so."""
    actual = [bound.actual for bound in next(iter(found.values()))]
    t = range(1, len(actual) + 1)
    axis.plot(t, actual, color=COLORS[0], lw=1.2, label="norm of the Jacobian")
    for color, (name, values) in zip(COLORS[1:], found.items(), strict=False):
        on_it = min(value.ratio for value in values) > ON_IT
        label, style = (f"bound: {name} (on the norm)", "--") if on_it else (f"bound: {name}", "-")
        axis.plot(t, [value.bound for value in values], style, color=color, lw=1.2, label=label)
    axis.axhline(1, color="black", linestyle="--", linewidth=1)
    now, before = (",".join(f"{name}_{{{t}}}" for name in states) for t in ("t", "t-1"))
    if len(states) > 1:
        now, before = f"({now})", f"({before})"
    axis.set(xlabel="step t", ylabel=rf"$\|\partial {now} / \partial {before}\|_2$", yscale="log")
    axis.legend(frameon=False)


def main(
    run_folder: Annotated[Path, typer.Argument(metavar="RUN", help="The run's folder.")],
    out: Annotated[
        Path | None, typer.Option(help="The picture, .png, .pdf or .svg; RUN/bounds.png unless given.")
    ] = None,
    steps: Annotated[int, typer.Option(min=1, help="At most this many time steps.")] = 300,
    data: Annotated[Path | None, typer.Option(help="Where the run's data are: a folder, for text the file.")] = None,
    held_out: Annotated[Path | None, typer.Option(help="arrays: the held-out file, if there was one.")] = None,
    device: Annotated[
        str, typer.Option(help="cpu or gpu: where the states are computed; the Jacobians are the host's, in float64.")
    ] = "cpu",
) -> None:
    """Draw the norm of every step's Jacobian, and the bounds on it, over time."""
    limit_threads(1)
    out = out or run_folder / "bounds.png"
    try:
        check_picture("out", out)
        with RunFolder(run_folder) as own:
            config = read_run(own)
        layers = measure(run_folder, places_in({"data": data, "held_out": held_out}), steps, device)
        figure, axes = plt.subplots(
            len(layers), 1, figsize=(8, 3.5 * len(layers) + 0.4), squeeze=False, constrained_layout=True
        )
        for i, (axis, (cell, found)) in enumerate(zip(axes[:, 0], layers, strict=True)):
            draw(axis, found, cell.states)
            axis.set_title(f"layer {i}" if len(layers) > 1 else "")
            for name, values in found.items():
                ratios = [value.ratio for value in values]
                middle, most = statistics.median(ratios), max(ratios)
                say(f"layer {i}, {name}: norm / bound is {middle:.3f} at the median, {most:.3f} at most")
        sizes, length = config["network"]["hidden_sizes"], config.get("length")
        title = f"{run_folder.resolve().name}: {config['model']}, n = {', '.join(map(str, sizes))}, {config['task']}"
        figure.suptitle(words(title + (f", T = {length}" if length else "")), fontsize="medium")
        save(figure, out)
    except BAD_INPUT as error:
        fail(error)
    say(str(out))


if __name__ == "__main__":
    run(main)
