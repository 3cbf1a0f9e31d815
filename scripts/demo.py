"""NC-GRU(U_c) and GRU on the parenthesis task at the paper's sizes, in one picture: python -m scripts.demo --out DIR"""

from pathlib import Path
from typing import Annotated

import typer

from scripts.grid.experiment.cells import cells_of
from scripts.grid.experiment.file import read
from scripts.grid.experiment.grid import Grid, orders_of
from scripts.grid.experiment.running import make_out, run_grid
from scripts.grid.experiment.states import states_of
from scripts.pictures.curves import draw_experiment
from scripts.program import BAD_INPUT, check_device, fail, run, say

FILE = Path(__file__).parent / "experiments" / "demo.toml"


def main(
    out: Annotated[Path, typer.Option(help="Folder for the runs and demo.png; unfinished runs in it are resumed.")],
    iterations: Annotated[int, typer.Option(help="Updates of each model.")] = 4000,
    seed: Annotated[int, typer.Option(help="Seed of initial weights and data.")] = 0,
    device: Annotated[str, typer.Option(help="cpu or gpu.")] = "cpu",
    jobs: Annotated[int, typer.Option(min=1, max=2, help="Models trained at a time.")] = 1,
) -> None:
    """Train both models and draw their losses into OUT/demo.png: scripts/experiments/demo.toml, run and plotted."""
    try:
        check_device(device)
        experiment = read(FILE)
        experiment.options |= {"iterations": iterations}
        grid = Grid(experiment, tuple(cells_of(experiment, seeds=[seed])), out, device=device)
        orders = orders_of(grid)
        make_out(out)
        run_grid(grid, orders, jobs)
        states = states_of(grid.cells, out)
        draw_experiment(experiment, states, 1, out / "demo.png")
    except BAD_INPUT as error:
        fail(error)
    say(f"baseline (best constant prediction per step): {states[0].config['baseline']:.4f}")
    for state in states:
        last = state.records[-1]
        say(f"{state.cell.line}: held-out loss {last['evaluation_loss']:.4f}, accuracy {last['accuracy']:.4f}")
    say(f"picture: {out / 'demo.png'}")


if __name__ == "__main__":
    run(main)
