"""Every hand-derived gradient against finite differences and, where torch is installed, autograd."""

import importlib.util
from typing import Annotated

import numpy as np
import typer
from rich.box import SIMPLE
from rich.table import Table

from gradients.checks import TOLERANCE_ANALYTIC, TOLERANCE_DIFFERENCES, TOLERANCE_PULLBACK, Oracle, Result, results
from gradients.lines import first_wrong
from gradients.problem import random_problem
from scripts.grid.options import model_options
from scripts.grid.own_cell import checked, own_cell
from scripts.program import BAD_INPUT, check_device, fail, give, limit_threads, run


def oracle() -> Oracle | None:
    """The equations once more in PyTorch, where that is installed."""
    if importlib.util.find_spec("torch") is None:
        return None
    from scripts.maintain.oracle import autograd

    return autograd


def give_table(rows: list[Result], title: str) -> None:
    """A row for each subject, and a line for each comparison that failed."""
    caption = (
        f"against finite differences (allowed: {TOLERANCE_DIFFERENCES:.0e}); "
        f"of fused against scan, and against autograd ({TOLERANCE_ANALYTIC:.0e}, pullbacks {TOLERANCE_PULLBACK:.0e})"
    )
    table = Table(title=title, caption=caption, padding=(0, 0, 0, 1), box=SIMPLE)  # 80 columns hold all of it
    table.add_column("subject", no_wrap=True)
    for heading in ("numeric", "fused", "autograd"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for row in rows:
        figures = ("" if figure is None else f"{figure:.1e}" for figure in row[1:4])
        table.add_row(row.subject, *figures, "[green]ok" if row.passed else "[red]FAIL")
    give(table)
    for row in rows:
        for line in row.faults():
            give(line)


def main(
    seed: Annotated[int, typer.Option(min=0, help="Seed of weights, inputs and directions.")] = 0,
    threads: Annotated[int, typer.Option(help="BLAS threads.")] = 1,
    device: Annotated[
        str, typer.Option(help="cpu or gpu: of the gradients checked; differences and autograd are the host's.")
    ] = "cpu",
    only: Annotated[str | None, typer.Option(help="Only rows whose subject contains this, as LSTM.")] = None,
    cell: Annotated[
        str | None,
        typer.Option(metavar="FILE.py:NAME", help="Check only your own cell, and find its first wrong line."),
    ] = None,
    model_option: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="An option of --cell.")] = None,
) -> None:
    """Largest relative error of every cell, parametrization and model in float64; exit code 1 above tolerance."""
    try:
        limit_threads(threads)
        check_device(device)
        if only == "":
            raise ValueError("only is empty; allowed: part of a subject, as LSTM")
        if cell is None and model_option:
            raise ValueError("--model-option is for --cell")
        own = None if cell is None else own_cell(cell, model_options(model_option or []))
        rng, by_autograd = np.random.default_rng(seed), oracle()
        rows = results(rng, by_autograd, device, only or "") if own is None else [checked(own, rng, device)]
    except BAD_INPUT as error:
        fail(error)
    if not rows:
        fail(f"only is {only!r}, which no subject contains")
    give_table(rows, f"Largest relative error of hand-derived gradients, float64, seed {seed}, {device}")
    if own is not None and not rows[0].passed and (wrong := first_wrong(random_problem(own, rng), rng)):
        give(str(wrong))
    if by_autograd is None and own is None:
        give("torch is not installed: no comparison with autograd (pip install --group crosscheck)")
    if not all(row.passed for row in rows):
        raise typer.Exit(1)


if __name__ == "__main__":
    run(main)
