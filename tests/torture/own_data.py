"""A run of somebody's own arrays that goes on: with the same ones to the same bits, with others never."""

import random
from pathlib import Path

import numpy as np

from ortho_ref import models
from ortho_ref.training.arrays import Arrays
from ortho_ref.training.optimizers import Adam
from ortho_ref.training.runs import TrainingRun
from tests.torture.judging import REFUSED, SURVIVED, WRONG, Verdict
from tests.torture.room import Outcome, Room

COUNT = 20
UPDATES = 12


def _run(folder: Path, x: np.ndarray, y: np.ndarray, held_out: int, until: int, resume: bool) -> dict[str, bytes]:
    task = Arrays(x, y, held_out=held_out)
    options = {"name": "gru", "hidden_sizes": [3]} | task.sizes_of_network
    run = TrainingRun(models.network(**options), task, Adam(), 4, iterations=UPDATES, log_every=3)
    run.run(folder, {"network": options}, resume=resume, should_stop=lambda: run.iteration == until)
    return {name: value.tobytes() for name, value in run.params.items()}


def trial(room: Room, rng: random.Random) -> Outcome:
    """Stopped after some updates; one entry, the order or the split is another, or nothing is."""
    draw = np.random.default_rng(rng.getrandbits(32))
    x, y, held_out = draw.random((20, 4, 2), np.float32), draw.integers(0, 2, 20), 5
    y[:2] = 0, 1
    kind, until = rng.choice(["same", "entry", "class", "order", "split", "precision"]), rng.randint(1, UPDATES - 1)
    outcome = Outcome(f"stopped after {until}, then {kind}")
    with room.scratch() as aside:
        whole = _run(aside / "whole", x, y, held_out, -1, False)
        _run(aside / "run", x, y, held_out, until, False)
        at = rng.randrange(20)
        if kind == "entry":
            x = x.copy()
            x[at, 0, 0] = np.nextafter(x[at, 0, 0], np.float32(2))
        elif kind == "class":
            y = np.where(np.arange(20) == max(at, 2), 1 - y, y)
        elif kind == "order":
            x, y = x[::-1], y[::-1]
        elif kind == "split":
            held_out += 1
        elif kind == "precision":
            x = x.astype(np.float64)
        try:
            same = _run(aside / "run", x, y, held_out, -1, True) == whole
        except ValueError as error:
            verdict = Verdict(REFUSED) if str(error).startswith("data: sha256: ") else Verdict(WRONG, str(error))
        else:
            verdict = Verdict(SURVIVED) if same and kind == "same" else Verdict(WRONG, f"went on with {kind}")
    outcome.add("run", verdict)
    return outcome
