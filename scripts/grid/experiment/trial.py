"""What a run will take, from a few of its updates: a process of its own, whose order comes on its standard input.

python -m scripts.grid.experiment.trial < order.json
"""

import itertools
import json
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from ortho_ref.subnormals import subnormals_as_zero
from ortho_ref.terminal import shown
from ortho_ref.training.task import Batch
from ortho_ref.training.trainer import evaluate
from scripts.grid.build import make_trainer
from scripts.grid.experiment.engine import environment
from scripts.grid.experiment.measures import EvaluatedOn
from scripts.grid.experiment.worker import Order
from scripts.grid.run import quiet_arithmetic
from scripts.program.malloc import keep_freed_memory
from scripts.program.usage import peak_memory

#: Seconds for updates, and for an evaluation's batches, once the first ones are done.
UPDATES, EVALUATION = 1.0, 1.0
#: Bytes of a line of metrics, about.
_LINE = 500


@dataclass(frozen=True)
class Estimate:
    """What a run takes: seconds, the most bytes of memory, bytes on the disk."""

    seconds: float
    memory: int
    disk: int


def _in_time(batches: Iterable[Batch], seconds: float, taken: list[int]) -> Iterator[Batch]:
    """Batches until the time is over, each counted in `taken`."""
    end = time.perf_counter() + seconds
    for batch in batches:
        taken[0] += 1
        yield batch
        if time.perf_counter() > end:
            return


def measure(order: Order) -> Estimate:
    """What a run takes, from a few updates of it in this process."""
    config, task = order.begun()
    trainer = make_trainer(config, task)
    batches = trainer.batches()
    with quiet_arithmetic(), subnormals_as_zero():
        trainer.update(next(batches))
        started, updates = time.perf_counter(), 0
        while updates < 50 and (not updates or time.perf_counter() < started + UPDATES):
            trainer.update(next(batches))
            updates += 1
        update = (time.perf_counter() - started) / updates
        taken = [0]
        few: Any = EvaluatedOn(task, _in_time(task.evaluation(), EVALUATION, taken))
        started = time.perf_counter()
        evaluate(trainer.network, *trainer.evaluated(), few)
        batch = (time.perf_counter() - started) / taken[0]
    evaluations = -(-config["iterations"] // config["eval_every"])
    lines = config["iterations"] // config["log_every"] + evaluations
    arrays = sum(value.nbytes for value in trainer.params.values())
    held_out = sum(1 for _ in itertools.islice(task.evaluation(), 100_000))
    return Estimate(
        seconds=config["iterations"] * update + evaluations * held_out * batch,
        memory=peak_memory(),
        disk=3 * 4 * arrays + lines * _LINE,  # three checkpoints, each with moments and buffers
    )


def estimates(orders: list[Order], jobs: int) -> list[Estimate | str]:
    """What runs take, each from a process of its own."""

    def one(order: Order) -> Estimate | str:
        command = [sys.executable, "-m", "scripts.grid.experiment.trial"]
        text = json.dumps(order._asdict())
        end = subprocess.run(command, input=text, capture_output=True, text=True, env=environment(order))
        if end.returncode:
            return shown(end.stderr.strip().rpartition("\n")[2], 300)
        return Estimate(**json.loads(end.stdout))

    with ThreadPoolExecutor(jobs) as threads:
        return list(threads.map(one, orders))


def main() -> None:
    """In the process of its own."""
    keep_freed_memory()
    print(json.dumps(measure(Order(**json.load(sys.stdin))).__dict__))


if __name__ == "__main__":
    main()
