"""What is timed of a cell: forward + backward of a whole sequence, and what must be computed by it.

A contender is one implementation of that: `numpy_contender` of ours, `peers_torch` and `peers_jax` of others.  Every
one begins with the same weights, inputs and cotangents, and gives the gradients of every weight, of x and of the first
state, so that a test can hold one to the other.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ortho_ref import models
from ortho_ref.backend import to_device, to_host
from ortho_ref.cells import Cell
from ortho_ref.cells.cell import Weights, parts_of, state_of


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

#: The models whose cells are timed: every cell, and every form of one that takes another time.
MODELS = ("nc-gru", "gru", "gru-cudnn", "goru", "lstm", "rnn", "scornn", "urnn", "sgornn")
DTYPES = ("float32", "float64")

Gradients = dict[str, np.ndarray]


class CellProblem(NamedTuple):
    """A cell, its weights, x (T, B, m), the parts of the first state (B, n), and the loss's own dh (T, B, n)."""

    model: str
    cell: Cell
    weights: Weights
    x: np.ndarray
    h0: tuple[np.ndarray, ...]
    dh: np.ndarray


class Contender(NamedTuple):
    """step: one forward + backward.  gradients: of what it returned, by our names, x and h0 (of an LSTM c0 too)."""

    step: Callable[[], Any]
    gradients: Callable[[Any], Gradients]


def problem(size: Size, model: str = "nc-gru", dtype: str = "float32") -> CellProblem:
    """A model's cell at a size, its weights dense and drawn as the model's are."""
    B, T, m, n = size
    rng = np.random.default_rng(0)
    layer = models.build(model, m, n)
    weights = layer.weights(*layer.init(rng, dtype=np.dtype(dtype)))
    x = rng.standard_normal((T, B, m)).astype(dtype)
    states = np.result_type(dtype, np.complex64) if layer.cell.complex else np.dtype(dtype)
    h0 = tuple(rng.standard_normal((B, n)).astype(states) for _ in layer.cell.states)
    return CellProblem(model, layer.cell, weights, x, h0, rng.standard_normal((T, B, n)).astype(states))


def numpy_contender(engine: Any, own: CellProblem, device: str = "cpu", keep: bool = True) -> Contender:
    """By an engine.  keep: hold a tape until the next is there, as a trainer does where the allocator does not."""
    weights, x, h0, dh = to_device((own.weights, own.x, state_of(own.h0), own.dh), device)
    kept: list[Any] = [None]

    def step() -> Any:
        h, tape = engine.forward(own.cell, weights, x, h0)
        kept[0] = (h, tape) if keep else None
        return engine.backward(own.cell, weights, tape, dh)

    def gradients(found: Any) -> Gradients:
        first = dict(zip(first_states(own), parts_of(own.cell, found.h0), strict=True))
        on_host: Gradients = to_host({**found.weights, "x": found.x, **first})
        return on_host

    return Contender(step, gradients)


def first_states(own: CellProblem) -> tuple[str, ...]:
    """Names of the parts of the first state: h0, of an LSTM c0 too."""
    return tuple(f"{name}0" for name in own.cell.states)
