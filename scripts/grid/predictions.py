"""What a network says of every held-out example: a table beside what it should say, and which classes it mistakes."""

import csv
import io
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.table import Table

from ortho_ref import files
from ortho_ref.backend import with_floats_as
from ortho_ref.training.examples import Examples
from ortho_ref.training.runs import Loaded
from ortho_ref.training.task import Task

#: Classes of which a table fits a screen.
MOST = 12


class Predictions(NamedTuple):
    """Of every held-out sequence in its order; of every step that counts where the readout is of every step."""

    sequence: list[int]  # from 1
    step: list[int] | None  # from 1
    y: np.ndarray  # (rows,) of classes, or (rows, q) of numbers
    said: np.ndarray


def check_examples(path: Path | None, task: Task) -> None:
    """ValueError where predictions are to go to a file that exists, or are of a task that has no list of examples."""
    if path is not None and path.exists():
        raise ValueError(f"--predictions is {path}, which exists; allowed: a new file")
    if path is not None and not isinstance(task, Examples):
        raise ValueError(f"--predictions is for tasks of examples; {task.name} has windows or draws its sequences")


def predictions(loaded: Loaded, task: Task) -> Predictions:
    """Those of a task of examples."""
    sequence, step, ys, saids, before = list[int](), list[int](), list[np.ndarray](), list[np.ndarray](), 0
    every = task.readout == "every"
    for batch in task.evaluation():
        x = with_floats_as(batch.x, loaded.params["readout.b"].dtype)
        said = np.asarray(loaded.network.forward(loaded.params, loaded.buffers, x).outputs)
        if task.loss == "cross_entropy":
            said = said.argmax(axis=-1)
        elif task.loss == "binary_cross_entropy":
            said = (said[..., 0] > 0).astype(np.intp)
        y = batch.y
        if every:  # (T, B, ...) as (B, T, ...): a sequence after the other
            kept = np.ones(y.shape[:2], bool) if batch.mask is None else batch.mask
            b, t = np.nonzero(kept.T)
            step += (t + 1).tolist()
            y, said = (a.swapaxes(0, 1)[b, t] for a in (y, said))
        else:
            b = np.arange(len(y))
        sequence += (before + b + 1).tolist()
        before += batch.y.shape[1] if every else len(batch.y)
        ys.append(y)
        saids.append(said)
    return Predictions(sequence, step if every else None, np.concatenate(ys), np.concatenate(saids))


def write(path: Path, found: Predictions, task: Task) -> None:
    """A line for each, .csv, with the sequences' and classes' names and in the units of the task's file."""
    classes, labels = found.y.dtype.kind in "iu", getattr(task, "labels", None)
    width = 1 if classes else found.y.shape[1]
    names = getattr(task, "names", None) or (["y"] if width == 1 else [f"y {i + 1}" for i in range(width)])
    in_units, ids = getattr(task, "in_units", np.asarray), getattr(task, "ids", None)

    def cells(value: Any) -> list[str]:
        if classes:
            return [labels[value] if labels else str(value)]
        return [f"{number:.9g}" for number in in_units(value)]

    stream = io.StringIO()
    rows = csv.writer(stream, lineterminator="\n")
    header = [*names, *(f"{name}, predicted" for name in names)]
    rows.writerow(["sequence", *([] if found.step is None else ["step"]), *header])
    for i, sequence in enumerate(found.sequence):
        place = [] if found.step is None else [found.step[i]]
        rows.writerow([ids[sequence - 1] if ids else sequence, *place, *cells(found.y[i]), *cells(found.said[i])])
    files.write(path, stream.getvalue().encode())


def confusion(found: Predictions, labels: list[str] | None) -> Table | None:
    """How often each class is taken for which; None for numbers, and for more classes than fit a screen."""
    if found.y.dtype.kind not in "iu" or (K := 1 + int(max(found.y.max(), found.said.max()))) > MOST:
        return None
    names = labels or [str(k) for k in range(K)]
    counts = np.zeros((len(names), len(names)), np.int64)
    np.add.at(counts, (found.y, found.said), 1)
    table = Table("held out: true, predicted:", *names, box=None, pad_edge=False)
    for name, row in zip(names, counts, strict=True):
        table.add_row(name, *map(str, row))
    return table
