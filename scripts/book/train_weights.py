"""Trains the six models of docs/alive/gradients.md and writes their weights: python -m scripts.book.train_weights

Each learns to recall ten symbols after a pause of LENGTH steps; a few minutes in all, on one core.  The same machine
and BLAS give the same weights again.
"""

import sys
from itertools import islice
from pathlib import Path

import numpy as np

from ortho_ref import models
from ortho_ref.optimizers import Adam, ByName
from ortho_ref.training import Trainer
from scripts.book import weights
from tasks.copying import Copying

ROOT = Path(__file__).parent.parent.parent
LENGTH, HIDDEN, BATCH, UPDATES, SEED = 10, 32, 32, 3000, 0
RATE, RATE_OF_A = 5e-3, 1e-3


def dense(trainer: Trainer) -> dict[str, np.ndarray]:
    """The weights as the cell takes them, h0 where it is trained, and the readout."""
    (layer,) = trainer.network.layers
    own = {name.removeprefix("layer0."): value for name, value in trainer.params.items() if name.startswith("layer0.")}
    buffers = {name.removeprefix("layer0."): value for name, value in trainer.buffers.items()}
    held = {name: value.copy() for name, value in layer.weights(own, buffers).items()}
    held |= {name: own[name].copy() for name in ("h0",) if layer.trained_h0}
    return held | {name: trainer.params[name].copy() for name in ("readout.W", "readout.b")}


def train(name: str) -> str:
    """Trains a model and writes its file; says how far it came."""
    task = Copying(LENGTH)
    network = models.network(name, task.input.size, [HIDDEN], task.output_size)
    optimizer = ByName({"*.A": Adam(RATE_OF_A), "*": Adam(RATE)})
    trainer = Trainer(network, task, optimizer, BATCH, seed=SEED, clip_norm=1.0)
    before, first = dense(trainer), trainer.evaluate()
    for batch in islice(trainer.batches(), UPDATES):
        trainer.update(batch)
    last = trainer.evaluate()
    facts = {
        "model": name,
        "task": f"copying, length {LENGTH}, layout {task.layout}",
        "made by": f"python -m scripts.book.train_weights {name}",
        "updates": str(UPDATES),
        "baseline": f"{task.baseline:.4f}",
        "loss before": f"{first['evaluation_loss']:.4f}",
        "loss after": f"{last['evaluation_loss']:.4f}",
    }
    weights.write(ROOT / weights.FOLDER / f"{name}.safetensors", before, dense(trainer), facts)
    return ", ".join(f"{key} {facts[key]}" for key in ("model", "loss before", "loss after", "baseline"))


def main() -> None:
    """The models that are named, or all."""
    (ROOT / weights.FOLDER).mkdir(parents=True, exist_ok=True)
    for name in sys.argv[1:] or weights.MODELS:
        print(train(name), flush=True)


if __name__ == "__main__":
    main()
