"""The Jacobians of each row before its first update: python -m scripts.maintain.spectra scripts/experiments/X.toml

The median and the largest |eigenvalue| of J_t = dh_t/dh_{t-1} over all steps, and ||J_T ... J_{T-k+1}||_2 [ncgru:7]:
what is left, k steps back, of a loss at the last step.  Along the first held-out sequence, from h_0 = 0, in float64,
for a network of one layer; means over the file's seeds, of the norms geometric ones.
"""

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from gradients.bptt import Matrix, double, norm, run, step_of
from ortho_ref.boundary import is_tokens
from scripts import program
from scripts.grid.build import make_trainer
from scripts.grid.config import begun
from scripts.grid.experiment.cells import Cell, cells_of
from scripts.grid.experiment.file import read

BACK = (1, 10, 50, 100)


def jacobians(cell: Cell) -> list[Matrix]:
    """J_1 .. J_T of a run's first weights."""
    config, task = begun(**cell.options | {"seed": cell.seed, "dtype": "float64"})
    if config["layers"] != 1 or config["embedding"] is not None:
        has = f"{config['layers']} layers, embedding {config['embedding']}"
        raise ValueError(f"{cell.name} has {has}; allowed: 1, none")
    trainer = make_trainer(config, task)
    (layer,) = trainer.network.layers
    weights = {name: double(value) for name, value in trainer.network.layer_weights(0, *trainer.evaluated()).items()}
    x = next(iter(task.evaluation())).x[:, :1]
    x = np.eye(task.input.size)[x[:, 0]] if is_tokens(x) else double(x[:, 0])
    h0 = np.zeros(config["hidden"] * len(layer.cell.states) * (2 if layer.cell.complex else 1))
    return [step.J for step in run(step_of(layer.cell), layer.cell, weights, x, h0)]


def figures(found: list[Matrix]) -> list[float]:
    """The median and the largest |eigenvalue|; the norm of the product of the last k, for every k of BACK and all."""
    sizes = np.abs(np.linalg.eigvals(np.array(found)))
    product, norms = np.eye(len(found[0])), []
    for J in reversed(found):
        product = product @ J  # [ncgru:7]
        norms.append(norm(product))
    return [float(np.median(sizes)), float(sizes.max()), *(norms[k - 1] for k in BACK if k < len(found)), norms[-1]]


def main(file: Annotated[Path, typer.Argument(metavar="FILE", help="scripts/experiments/PAPER/TABLE.toml.")]) -> None:
    """Say what the Jacobians of each row do before its first update."""
    program.limit_threads(1)
    try:
        rows: dict[tuple[str, str], list[list[float]]] = {}
        for cell in cells_of(read(file)):
            rows.setdefault((cell.line, cell.column.name), []).append(figures(jacobians(cell)))
        for (row, column), of_seeds in rows.items():
            values = np.array(of_seeds).T
            middle, largest = values[:2].mean(axis=1)
            norms = ", ".join(f"{value:.2g}" for value in np.exp(np.log(values[2:]).mean(axis=1)))
            program.give(f"{row}; {column}: |eigenvalues| {middle:.2f}, at most {largest:.2f}; products {norms}")
    except program.BAD_INPUT as error:
        program.fail(error)


if __name__ == "__main__":
    program.run(main)
