"""Time NC-GRU forward + backward: `fused`, `scan` and eager PyTorch, interleaved: python -m scripts.benchmark"""

import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from ortho_ref import fused, models, scan
from scripts.program import blas, limit_threads, run


class Size(NamedTuple):
    """A problem size.  batch B, length T, inputs m, hidden n."""

    batch: int
    length: int
    inputs: int
    hidden: int


SIZES = {
    "parenthesis": Size(16, 100, 22, 56),
    "denoise": Size(128, 200, 10, 118),
    "adding": Size(50, 200, 2, 80),
    "copying": Size(50, 1020, 10, 96),
    "char-PTB layer": Size(32, 100, 200, 430),
    "big layer": Size(32, 100, 430, 1000),
}


def numpy_step(engine: Any, size: Size) -> Callable[[], None]:
    """Forward + backward of the NC-GRU cell by `engine`: gradients of every weight, of x and of h0, float32."""
    B, T, m, n = size
    rng = np.random.default_rng(0)
    layer = models.build("nc-gru", m, n)
    weights = layer.weights(*layer.init(rng))
    x, h0, dh = (rng.normal(size=shape).astype(np.float32) for shape in ((T, B, m), (B, n), (T, B, n)))

    kept: list[Any] = [None]

    def step() -> None:
        h, tape = engine.forward(layer.cell, weights, x, h0)
        engine.backward(layer.cell, weights, tape, dh)
        kept[0] = h, tape  # as the trainer does until the next step's are there: the memory is not handed back between

    return step


def torch_step(size: Size) -> Callable[[], None]:
    """The same in eager PyTorch: gate products joined into one, input products before the loop, autograd."""
    import torch

    B, T, m, n = size
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)

    def leaf(*shape: int) -> Any:
        return (torch.randn(*shape, generator=generator) / n**0.5).requires_grad_()

    W, b, b_c, U_ru, U_c = leaf(3 * n, m), leaf(2 * n), leaf(n), leaf(2 * n, n), leaf(n, n)
    x, h0, dh = leaf(T, B, m), leaf(B, n), torch.randn(T, B, n, generator=generator)

    def step() -> None:
        P = x @ W.T
        h, states = h0, []
        # unbind: its backward is one stack, where that of P[t] would fill a (T, B, n) array of zeros at every step
        for P_ru, P_c in zip((P[..., : 2 * n] + b).unbind(), P[..., 2 * n :].unbind(), strict=True):
            r, u = torch.sigmoid(P_ru + h @ U_ru.T).chunk(2, dim=1)
            a = P_c + (r * h) @ U_c.T
            c = torch.sign(a) * torch.relu(torch.abs(a) + b_c)
            h = h + u * (c - h)
            states.append(h)
        for tensor in (W, b, b_c, U_ru, U_c, x, h0):
            tensor.grad = None
        torch.stack(states).backward(dh)

    return step


def time_interleaved(steps: Mapping[str, Callable[[], object]], rounds: int, seconds: float) -> dict[str, list[float]]:
    """Milliseconds per call, one figure a round; within a round the contenders take turns.

    Each turn begins with two calls that are not timed, as training repeats one step: otherwise a contender would pay
    for memory that the one before gave back (fresh pages: a tenth of the largest size; the allocator takes two calls).
    """
    repeats = {}
    for name, step in steps.items():
        step()
        start = time.perf_counter()
        step()
        repeats[name] = max(1, int(seconds / (time.perf_counter() - start)))
    times: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(rounds):
        for name, step in steps.items():
            step()
            step()
            start = time.perf_counter()
            for _ in range(repeats[name]):
                step()
            times[name].append((time.perf_counter() - start) / repeats[name] * 1e3)
    return times


def main(
    only: Annotated[list[str] | None, typer.Option(help=f"Sizes: {', '.join(SIZES)}.")] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds; medians are reported.")] = 7,
    seconds: Annotated[float, typer.Option(min=0.0, help="Least time for each contender and round.")] = 0.3,
    threads: Annotated[int, typer.Option(min=1, help="BLAS threads (PyTorch always runs one).")] = 1,
    report: Annotated[Path | None, typer.Option(help="Also write the figures to this JSON file.")] = None,
) -> None:
    """NC-GRU forward + backward in float32 at six sizes: medians over rounds in which the contenders take turns."""
    console = Console()
    for name in only or ():
        if name not in SIZES:
            raise typer.BadParameter(f"{name!r}; allowed: {', '.join(SIZES)}", param_hint="--only")
    if report and not report.parent.is_dir():
        raise typer.BadParameter(f"{report}: there is no folder {report.parent}", param_hint="--report")
    try:
        import torch

        torch_version = torch.__version__
    except ImportError:
        torch_version = None
    limit_threads(threads)
    rows: dict[str, dict[str, float]] = {}
    for name in only or SIZES:
        size = SIZES[name]
        steps = {"fused": numpy_step(fused, size), "scan": numpy_step(scan, size)}
        if torch_version:
            steps["torch"] = torch_step(size)
        times = time_interleaved(steps, rounds, seconds)
        rows[name] = {contender: statistics.median(values) for contender, values in times.items()}
        console.print(f"{name}: " + ", ".join(f"{k} {v:.2f} ms" for k, v in rows[name].items()), highlight=False)

    table = Table(title="NC-GRU forward + backward, float32, medians")
    for heading in ("size", "B, T, m, n", "fused, ms", "scan / fused", "eager torch / fused"):
        table.add_column(heading, justify="left" if heading == "size" else "right")
    for name, row in rows.items():
        ratio = f"{row['torch'] / row['fused']:.2f}" if "torch" in row else "torch is not installed"
        cells = (", ".join(map(str, SIZES[name])), f"{row['fused']:.2f}", f"{row['scan'] / row['fused']:.2f}", ratio)
        table.add_row(name, *cells)
    console.print(table)
    machine = {
        "blas": blas(),
        "OPENBLAS_CORETYPE": os.environ.get("OPENBLAS_CORETYPE", ""),
        "numpy": np.__version__,
        "torch": torch_version,
        "python": platform.python_version(),
        "machine": platform.machine(),
    }
    console.print(machine, highlight=False)
    if report:
        report.write_text(json.dumps({"machine": machine, "milliseconds": rows}, indent=2) + "\n")


if __name__ == "__main__":
    run(main)
