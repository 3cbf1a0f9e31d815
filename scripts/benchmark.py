"""Time a cell forward + backward: `fused`, `scan` and PyTorch, interleaved: python -m scripts.benchmark --model goru

The peer is PyTorch's own module where it has the cell (rnn, lstm, gru-cudnn), and an eager cell where it has not: gate
products joined into one, input products before the loop, a dense U, autograd.
"""

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
from ortho_ref.backend import library_of, to_device
from ortho_ref.cells.cell import state_of
from scripts.program import BAD_INPUT, blas, check_device, device_option, fail, limit_threads, run


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


MODELS = ("nc-gru", "goru", "urnn", "sgornn", "gru-cudnn", "lstm", "rnn")


def numpy_step(engine: Any, size: Size, model: str = "nc-gru", device: str = "cpu") -> Callable[[], None]:
    """Forward + backward of a model's cell by `engine`: gradients of every dense weight, of x and of h0, float32."""
    B, T, m, n = size
    rng = np.random.default_rng(0)
    layer = models.build(model, m, n)
    weights = layer.weights(*layer.init(rng))
    x = rng.normal(size=(T, B, m)).astype(np.float32)
    dtype = np.complex64 if layer.cell.complex else np.float32
    h0 = state_of(tuple(rng.normal(size=(B, n)).astype(dtype) for _ in layer.cell.states))
    dh = rng.normal(size=(T, B, n)).astype(dtype)
    weights, x, h0, dh = to_device((weights, x, h0, dh), device)

    kept: list[Any] = [None]

    def step() -> None:
        h, tape = engine.forward(layer.cell, weights, x, h0)
        engine.backward(layer.cell, weights, tape, dh)
        kept[0] = h, tape  # as the trainer does until the next step's are there: the memory is not handed back between

    return step


def torch_step(size: Size, model: str = "nc-gru", device: str = "cpu") -> Callable[[], None]:
    """The same in PyTorch; device: PyTorch's name of it, "cpu" or "cuda"."""
    import torch

    B, T, m, n = size
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    dtype = torch.complex64 if model == "urnn" else torch.float32

    def leaf(*shape: int, dtype: Any = dtype) -> Any:
        return (torch.randn(shape, generator=generator, dtype=dtype) / n**0.5).to(device).requires_grad_()

    x, h0 = leaf(T, B, m, dtype=torch.float32), leaf(B, n)
    dh = torch.randn(T, B, n, generator=generator, dtype=dtype).to(device)
    modules = {"rnn": torch.nn.RNN, "lstm": torch.nn.LSTM, "gru-cudnn": torch.nn.GRU}
    if model in modules:
        module = modules[model](m, n).to(device)
        leaves = [*module.parameters(), x, h0]

        def states() -> Any:
            return module(x, (h0[None], h0[None]) if model == "lstm" else h0[None])[0]
    else:
        gates = 2 if model in ("nc-gru", "goru") else 0
        W, U_G, U, b_G = leaf((gates + 1) * n, m), leaf(gates * n, n), leaf(n, n), leaf(gates * n)
        b, alpha, beta = (leaf(*shape, dtype=torch.float32) for shape in ((n,), (), ()))
        leaves = [W, U_G, U, b_G, b, alpha, beta, x, h0]

        def after(P_G: Any, P: Any, h: Any) -> Any:
            if not gates:
                z = P + h @ U.T
                if model == "urnn":
                    return torch.sgn(z) * torch.relu(torch.abs(z) + b)
                return torch.sigmoid(alpha) * torch.relu(z + b) + torch.sigmoid(beta) * h
            r, u = torch.sigmoid(P_G + h @ U_G.T).chunk(2, dim=1)
            a = P + ((r * h) @ U.T if model == "nc-gru" else r * (h @ U.T))
            return h + u * (torch.sign(a) * torch.relu(torch.abs(a) + b) - h)

        def states() -> Any:
            products, h, history = x.to(dtype) @ W.T, h0, []
            # unbind: its backward is one stack, where that of P[t] would fill a (T, B, n) array of zeros at every step
            for P_G, P in zip((products[..., :-n] + b_G).unbind(), products[..., -n:].unbind(), strict=True):
                h = after(P_G, P, h)
                history.append(h)
            return torch.stack(history)

    def step() -> None:
        for tensor in leaves:
            tensor.grad = None
        states().backward(dh)

    return step


def synchronizer(device: str) -> Callable[[], object]:
    """A function that waits until the device has done all it was given; the host waits by itself."""
    if device != "gpu":
        return lambda: None
    wait: Callable[[], object] = library_of(to_device(np.zeros(1), device)).xp.cuda.runtime.deviceSynchronize
    return wait


def time_interleaved(
    steps: Mapping[str, Callable[[], object]],
    rounds: int,
    seconds: float,
    synchronize: Callable[[], object] = lambda: None,
) -> dict[str, list[float]]:
    """Milliseconds per call, one figure a round; within a round the contenders take turns.

    synchronize: called before a clock is read; see `synchronizer`.

    Each turn begins with two calls that are not timed, as training repeats one step: otherwise a contender would pay
    for memory that the one before gave back (fresh pages: a tenth of the largest size; the allocator takes two calls).
    """
    repeats = {}
    for name, step in steps.items():
        step()
        synchronize()
        start = time.perf_counter()
        step()
        synchronize()
        repeats[name] = max(1, int(seconds / (time.perf_counter() - start)))
    times: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(rounds):
        for name, step in steps.items():
            step()
            step()
            synchronize()
            start = time.perf_counter()
            for _ in range(repeats[name]):
                step()
            synchronize()
            times[name].append((time.perf_counter() - start) / repeats[name] * 1e3)
    return times


def main(
    model: Annotated[str, typer.Option(help=", ".join(MODELS) + ".")] = "nc-gru",
    only: Annotated[list[str] | None, typer.Option(help=f"Sizes: {', '.join(SIZES)}.")] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds; medians are reported.")] = 7,
    seconds: Annotated[float, typer.Option(min=0.0, help="Least time for each contender and round.")] = 0.3,
    threads: Annotated[int, typer.Option(min=1, help="BLAS threads (PyTorch always runs one).")] = 1,
    report: Annotated[Path | None, typer.Option(help="Also write the figures to this JSON file.")] = None,
    device: Annotated[str, device_option("cpu or gpu; PyTorch runs there too, if it can.")] = "cpu",
) -> None:
    """Forward + backward of a cell in float32 at six sizes: medians over rounds in which the contenders take turns."""
    console = Console()
    try:
        check_device(device)
    except BAD_INPUT as error:
        fail(error)
    if model not in MODELS:
        raise typer.BadParameter(f"{model!r}; allowed: {', '.join(MODELS)}", param_hint="--model")
    for name in only or ():
        if name not in SIZES:
            raise typer.BadParameter(f"{name!r}; allowed: {', '.join(SIZES)}", param_hint="--only")
    if report and not report.parent.is_dir():
        raise typer.BadParameter(f"{report}: there is no folder {report.parent}", param_hint="--report")
    try:
        import torch

        torch_version = torch.__version__ if device != "gpu" or torch.cuda.is_available() else None
    except ImportError:
        torch_version = None
    limit_threads(threads)
    rows: dict[str, dict[str, float]] = {}
    for name in only or SIZES:
        size = SIZES[name]
        steps = {name: numpy_step(engine, size, model, device) for name, engine in (("fused", fused), ("scan", scan))}
        if torch_version:
            steps["torch"] = torch_step(size, model, "cuda" if device == "gpu" else "cpu")
        times = time_interleaved(steps, rounds, seconds, synchronizer(device))
        rows[name] = {contender: statistics.median(values) for contender, values in times.items()}
        console.print(f"{name}: " + ", ".join(f"{k} {v:.2f} ms" for k, v in rows[name].items()), highlight=False)

    table = Table(title=f"{model}: cell forward + backward, float32, medians")
    for heading in ("size", "B, T, m, n", "fused, ms", "scan / fused", "torch / fused"):
        table.add_column(heading, justify="left" if heading == "size" else "right")
    for name, row in rows.items():
        ratio = f"{row['torch'] / row['fused']:.2f}" if "torch" in row else "no torch here"
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
        "device": device,
    }
    console.print(machine, highlight=False)
    if report:
        report.write_text(json.dumps({"model": model, "machine": machine, "milliseconds": rows}, indent=2) + "\n")


if __name__ == "__main__":
    run(main)
