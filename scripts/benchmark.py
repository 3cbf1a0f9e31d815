"""Time a cell forward + backward: `fused`, `scan` and PyTorch, interleaved: python -m scripts.benchmark --model goru

What is timed, and what PyTorch's contender is, is in scripts/timing/steps.py.
"""

import json
import os
import platform
import statistics
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.pretty import Pretty
from rich.table import Table

from ortho_ref import fused, scan
from scripts.program import BAD_INPUT, blas, check_device, device_option, fail, give, limit_threads, run
from scripts.timing.rounds import check_rounds, synchronizer, time_interleaved
from scripts.timing.steps import MODELS, SIZES, Size, numpy_step, torch_step

Rows = dict[str, dict[str, float]]


def check_arguments(model: str, only: list[str] | None, report: Path | None, device: str) -> None:
    """End the program, exit code 2, on what it cannot run."""
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
    if report and report.is_dir():
        raise typer.BadParameter(f"{report}: it is a folder", param_hint="--report")


def torch_version(device: str) -> str | None:
    """PyTorch's version; None where it is not installed or has no such device."""
    try:
        import torch
    except ImportError:
        return None
    return torch.__version__ if device != "gpu" or torch.cuda.is_available() else None


def measured(model: str, size: Size, rounds: int, seconds: float, device: str, torch: bool) -> dict[str, float]:
    """Median milliseconds of every contender."""
    steps = {name: numpy_step(engine, size, model, device) for name, engine in (("fused", fused), ("scan", scan))}
    if torch:
        steps["torch"] = torch_step(size, model, "cuda" if device == "gpu" else "cpu")
    times = time_interleaved(steps, rounds, seconds, synchronizer(device))
    return {contender: statistics.median(values) for contender, values in times.items()}


def table_of(model: str, rows: Rows) -> Table:
    """The medians, and their ratios to those of `fused`."""
    table = Table(title=f"{model}: cell forward + backward, float32, medians")
    for heading in ("size", "B, T, m, n", "fused, ms", "scan / fused", "torch / fused"):
        table.add_column(heading, justify="left" if heading == "size" else "right")
    for name, row in rows.items():
        ratio = f"{row['torch'] / row['fused']:.2f}" if "torch" in row else "no torch here"
        cells = (", ".join(map(str, SIZES[name])), f"{row['fused']:.2f}", f"{row['scan'] / row['fused']:.2f}", ratio)
        table.add_row(name, *cells)
    return table


def main(
    model: Annotated[str, typer.Option(help=", ".join(MODELS) + ".")] = "nc-gru",
    only: Annotated[list[str] | None, typer.Option(help=f"Sizes: {', '.join(SIZES)}.")] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds; medians are reported.")] = 7,
    seconds: Annotated[float, typer.Option(min=0.0, help="Least time for each contender and round.")] = 0.3,
    threads: Annotated[int, typer.Option(help="BLAS threads (PyTorch always runs one).")] = 1,
    report: Annotated[Path | None, typer.Option(help="Also write the figures to this JSON file.")] = None,
    device: Annotated[str, device_option("cpu or gpu; PyTorch runs there too, if it can.")] = "cpu",
) -> None:
    """Forward + backward of a cell in float32 at six sizes: medians over rounds in which the contenders take turns."""
    check_arguments(model, only, report, device)
    try:
        check_rounds(rounds, seconds)
        limit_threads(threads)
    except ValueError as error:
        fail(error)
    torch = torch_version(device)
    rows: Rows = {}
    for name in only or SIZES:
        rows[name] = measured(model, SIZES[name], rounds, seconds, device, torch is not None)
        give(f"{name}: " + ", ".join(f"{k} {v:.2f} ms" for k, v in rows[name].items()))
    give(table_of(model, rows))
    machine = {
        "blas": blas(),
        "OPENBLAS_CORETYPE": os.environ.get("OPENBLAS_CORETYPE", ""),
        "numpy": np.__version__,
        "torch": torch,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "device": device,
    }
    give(Pretty(machine))
    if report:
        report.write_text(json.dumps({"model": model, "machine": machine, "milliseconds": rows}, indent=2) + "\n")


if __name__ == "__main__":
    run(main)
