"""Train the six models of docs/alive/gradients.md: python -m scripts.maintain.moving_weights [MODEL ...]

Each learns to recall ten symbols after a pause; its dense weights before and after go to docs/alive/weights.
"""

from itertools import islice
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from ortho_ref import models
from ortho_ref.training.optimizers import Adam, ByName
from ortho_ref.training.trainer import Trainer
from scripts.maintain.book import weights
from scripts.program import BAD_INPUT, chosen, fail, run, say
from tasks.copying import Copying

ROOT = Path(__file__).parents[2]
LENGTH, HIDDEN, BATCH, SEED = 10, 32, 32, 0
RATE, RATE_OF_A = 5e-3, 1e-3


def main(
    only: Annotated[list[str] | None, typer.Argument(help="Models; all six unless given.", metavar="MODEL")] = None,
    iterations: Annotated[int, typer.Option(min=1, help="Updates of each model.")] = 3000,
    out: Annotated[Path | None, typer.Option(help=f"Folder to write to; {weights.FOLDER} unless given.")] = None,
) -> None:
    """Train the models of the page on gradients and write a file for each; the same BLAS gives the same weights."""
    try:
        for name in chosen("MODEL", only, weights.MODELS):
            facts = train(name, iterations, out or ROOT / weights.FOLDER)
            say(", ".join(f"{key} {facts[key]}" for key in ("model", "loss before", "loss after", "baseline")))
    except BAD_INPUT as error:
        fail(error)


def train(name: str, iterations: int, out: Path) -> dict[str, str]:
    """Train one model and write its file."""
    task = Copying(LENGTH)
    network = models.network(name, task.input.size, [HIDDEN], task.output_size)
    optimizer = ByName({"*.A": Adam(RATE_OF_A), "*": Adam(RATE)})
    trainer = Trainer(network, task, optimizer, BATCH, seed=SEED, clip_norm=1.0)
    before, first = dense(trainer), trainer.evaluate()
    for batch in islice(trainer.batches(), iterations):
        trainer.update(batch)
    last = trainer.evaluate()
    facts = {
        "model": name,
        "task": f"copying, length {LENGTH}, layout {task.layout}",
        "made by": f"python -m scripts.maintain.moving_weights {name}",
        "updates": str(iterations),
        "baseline": f"{task.baseline:.4f}",
        "loss before": f"{first['evaluation_loss']:.4f}",
        "loss after": f"{last['evaluation_loss']:.4f}",
    }
    weights.write(out / f"{name}.safetensors", before, dense(trainer), facts)
    return facts


def dense(trainer: Trainer) -> dict[str, np.ndarray]:
    """The weights of a network of one layer as the cell takes them, h0 where it is trained, and the readout."""
    (layer,) = trainer.network.layers
    held = trainer.network.layer_weights(0, trainer.params, trainer.buffers)
    held |= {"h0": trainer.params["layer0.h0"]} if layer.trained_h0 else {}
    held |= {name: trainer.params[name] for name in ("readout.W", "readout.b")}
    return {name: value.copy() for name, value in held.items()}


if __name__ == "__main__":
    run(main)
