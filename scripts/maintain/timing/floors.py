"""What NumPy needs at least for a cell: its products alone, and its products with the passes that it cannot do without.

The floor computes nothing: it makes the calls that a cell must make, on arrays of their shapes, the results written to
arrays that are there.  Products are the recurrent ones of each step, both ways, and those of many steps at once: W x,
and the gradients of W, U and x.  Passes are element-wise calls, each on the gates that it can take at once.  Nothing is
allocated, transposed, stacked or checked.

Products can be written in several forms, which take different times; the floor has the quickest of them at its size:

    wide      h @ [U_r U_u]: one product, the gates side by side; in the backward pass it sums over gates by itself
    batched   a product for each gate, in one call, as the fused engine has them
    columns   states as columns, [U_r; U_u] @ h
"""

import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ortho_ref.cells import Cell
from ortho_ref.cells.by_name import name_of
from scripts.maintain.timing.rounds import time_interleaved
from scripts.maintain.timing.steps import Size

FORMS = ("wide", "batched", "columns")
_CHUNK_ROWS = 512  # B times the steps whose factors and gradients are formed at once: they are in the cache still


class Pass(NamedTuple):
    """Calls of a ufunc on `width` gates or states, of which the first is number `first` among those that are kept.

    kind: "" on a kept array and one of its shape; "scratch" on one that is kept for a step alone; "bias" with a vector;
    "abs" |z| of complex numbers; "real" on what that gave; "scale" complex by real.  "sum" is over time and batch.
    """

    ufunc: str
    first: int = 0
    width: int = 1
    kind: str = ""


class Passes(NamedTuple):
    """What is kept of a step, in arrays (B, n); the gates of each recurrent product; passes by step and by chunk."""

    kept: int
    products: tuple[int, ...]
    forward: tuple[Pass, ...]
    backward: tuple[Pass, ...]
    factors: tuple[Pass, ...]


def _sigmoid(first: int, width: int) -> tuple[Pass, ...]:
    return Pass("exp", first, width), Pass("add", first, width), Pass("divide", first, width)


def _phi(activation: str, at: int) -> tuple[Pass, ...]:
    """sgn(a) max(|a| + b, 0), tanh, or relu."""
    if activation == "modrelu":
        rest = (Pass("add", at, 1, "bias"), Pass("maximum", at), Pass("multiply", at))
        return Pass("sign", at), Pass("absolute", at), *rest
    return (Pass("maximum" if activation == "relu" else "tanh", at),)


def _slope(activation: str, at: int) -> tuple[Pass, ...]:
    """Phi' from its value, and modReLU's own bias gradient."""
    if activation == "modrelu":
        return Pass("sign", at), Pass("multiply", at), Pass("multiply", at), Pass("sum", at)
    return (Pass("sign", at),) if activation == "relu" else (Pass("multiply", at), Pass("subtract", at))


def passes(cell: Cell) -> Passes:
    """What a cell cannot do without, in the order of the equations in ortho_ref/fused/NAME.py."""
    return _PASSES[name_of(type(cell))](cell)


def _gru_reset_before(cell: Any) -> Passes:
    phi, h = cell.activation, 3  # kept: r, u, c, h
    forward = (Pass("add", 0, 2), *_sigmoid(0, 2), Pass("multiply"), Pass("add", 2), *_phi(phi, 2))
    backward = (Pass("add", h), *(Pass("multiply", i) for i in (1, 2, 0)))
    return Passes(
        kept=4,
        products=(2, 1),
        forward=(*forward, Pass("subtract", h), Pass("multiply", h), Pass("add", h)),
        backward=(*backward, *(Pass(u, 0, 1, "scratch") for u in ("multiply", "multiply", "add", "add"))),
        factors=(
            *(Pass("subtract", 1), Pass("subtract", 2), Pass("multiply", 1), Pass("multiply", 1)),
            *(*_slope(phi, 2), Pass("multiply", 2), Pass("multiply", 0), Pass("subtract", 0), Pass("multiply", 0)),
        ),
    )


def _gru_reset_after(cell: Any) -> Passes:
    phi, p, h = cell.activation, 3, 4  # kept: r, z, c, p, h
    of_p = (Pass("add", p, 1, "bias"),) if cell.recurrent_bias else ()
    candidate = (*of_p, Pass("multiply", p), Pass("add", 2), *_phi(phi, 2))
    return Passes(
        kept=5,
        products=(3,),
        forward=(
            *(Pass("add", 0, 2), *_sigmoid(0, 2), *candidate),
            *(Pass("subtract", h), Pass("multiply", h), Pass("add", h)),
        ),
        backward=(
            *(Pass("add", h), Pass("multiply", 1), Pass("multiply", 2), Pass("multiply", 0), Pass("multiply", 0)),
            *(Pass("multiply", 0, 1, "scratch"), Pass("add", 0, 1, "scratch")),
        ),
        factors=(
            *(Pass("subtract", 1), *_slope(phi, 2), Pass("multiply", 2)),
            *(Pass("subtract", 0), Pass("multiply", 0), Pass("multiply", p)),
            *(Pass("subtract", h), Pass("multiply", 1), Pass("multiply", 1)),
        ),
    )


def _lstm(cell: Any) -> Passes:
    y, c, h = 4, 5, 6  # kept: o, i, f, g, y, c, h
    return Passes(
        kept=7,
        products=(4,),
        forward=(
            *(Pass("add", 0, 4), *_sigmoid(0, 3), Pass("tanh", 3)),
            *(Pass("multiply", 2), Pass("multiply", 1), Pass("add", c), Pass("tanh", y), Pass("multiply", h)),
        ),
        backward=(
            *(Pass("add", h), Pass("multiply", 0), Pass("multiply", y), Pass("add", c)),
            *(Pass("multiply", 1, 3), Pass("multiply", 2)),
        ),
        factors=(
            *(Pass("subtract", 0), Pass("multiply", h), Pass("multiply", y), Pass("subtract", y), Pass("multiply", 0)),
            *(Pass("subtract", 1, 2), Pass("multiply", 1, 2), Pass("multiply", 3), Pass("multiply", c)),
            *(Pass("multiply", 3), Pass("subtract", 3), Pass("multiply", 1)),
        ),
    )


def _elman(cell: Any) -> Passes:
    if not cell.complex:
        forward = (Pass("add", 0), *_phi(cell.activation, 0))
        return Passes(1, (1,), forward, (Pass("add", 0), Pass("multiply", 0)), _slope(cell.activation, 0))
    real = (Pass("add", 0, 1, "real"), Pass("maximum", 0, 1, "real"), Pass("divide", 0, 1, "real"))
    both = (Pass("multiply", 0), Pass("conjugate", 0), Pass("multiply", 0, 1, "scratch"), Pass("add", 0, 1, "scratch"))
    return Passes(
        kept=2,  # z, h
        products=(1,),
        forward=(Pass("add", 0), Pass("absolute", 0, 1, "abs"), *real, Pass("multiply", 1, 1, "scale")),
        backward=(Pass("add", 1), *both),
        factors=(
            *(Pass("absolute", 0, 1, "abs"), *real, Pass("multiply", 0, 1, "scale"), Pass("multiply", 0)),
            *(Pass("multiply", 0, 1, "scale"), Pass("conjugate", 0), Pass("multiply", 1), Pass("sum", 0)),
        ),
    )


def _fastrnn(cell: Any) -> Passes:
    phi, h = cell.activation, 1  # kept: f, h
    return Passes(
        kept=2,
        products=(1,),
        forward=(Pass("add", 0), *_phi(phi, 0), Pass("multiply", h), Pass("multiply", 0), Pass("add", h)),
        backward=(Pass("add", h), Pass("multiply", 0), *(Pass(u, 0, 1, "scratch") for u in ("multiply", "add"))),
        factors=(
            *(*_slope(phi, 0), Pass("multiply", 0)),
            *(Pass("multiply", 0), Pass("sum", 0), Pass("multiply", h), Pass("sum", h)),
        ),
    )


_PASSES: dict[str, Callable[[Any], Passes]] = {
    "gru_reset_before": _gru_reset_before,
    "gru_reset_after": _gru_reset_after,
    "lstm": _lstm,
    "elman": _elman,
    "fastrnn": _fastrnn,
}


class Floor:
    """A cell's calls at a size, as two lists of calls ready to be made; `form` is of the products."""

    def __init__(self, cell: Cell, size: Size, dtype: str = "float32", form: str = "wide") -> None:
        B, T, _, n = size
        self.form, own, steps = form, passes(cell), min(T, max(1, _CHUNK_ROWS // B))
        arrays = _Arrays(cell.complex, dtype)
        kept, chunk = arrays.new(own.kept, T, B, n), arrays.new(own.kept, steps, B, n)
        forward, backward = _by_step(own.products, size, form, arrays)
        by_step = [_calls(own.forward, kept[:, t], kept[:, t], arrays) for t in range(T)]
        back = [_calls(own.backward, chunk[:, t], chunk[:, t], arrays) for t in range(steps)]
        self._products: list[Callable[[], Any]] = [*(forward * T), *(backward * T)]
        self._all = [call for passes in by_step for call in (*forward, *passes)]
        lengths = {min(steps, T - first) for first in range(0, T, steps)}
        chunks = {length: _at_once(sum(own.products), size, length, chunk, arrays) for length in lengths}
        for first in range(0, T, steps):
            length = min(steps, T - first)
            self._products += (at_once := chunks[length])
            self._all += _calls(own.factors, kept[:, first : first + length], chunk[:, :length], arrays)
            self._all += [call for t in range(length) for call in (*back[t], *backward)] + at_once

    def products(self) -> None:
        """The products of a forward and a backward pass."""
        for call in self._products:
            call()

    def __call__(self) -> None:
        """The products, and the passes between them: forward, then backward chunk by chunk."""
        for call in self._all:
            call()


class _Arrays:
    """Arrays of 5/8, on which no call is slower than on other numbers; and those that change nothing.

    Products write to arrays that nothing reads, and a pass in place leaves what it works on as it is, however often it
    is made.
    """

    def __init__(self, complex: bool, dtype: str) -> None:
        self.real = np.dtype(dtype)
        self.states = np.result_type(dtype, np.complex64) if complex else self.real
        self._shared: dict[Any, np.ndarray] = {}

    def new(self, *shape: int, real: bool = False) -> np.ndarray:
        """One of its own."""
        return np.full(shape, 0.625, self.real if real else self.states)

    def neutral(self, ufunc: str, shape: tuple[int, ...], real: bool = False) -> np.ndarray:
        """Zeros; of multiply and divide ones."""
        return self.shared(shape, float(ufunc in ("multiply", "divide")), real)

    def shared(self, shape: tuple[int, ...], value: float, real: bool = False) -> np.ndarray:
        """One array for each shape and use."""
        key = shape, value, real
        if key not in self._shared:
            self._shared[key] = np.full(shape, value, self.real if real else self.states)
        return self._shared[key]


def _calls(calls: Sequence[Pass], source: np.ndarray, out: np.ndarray, arrays: _Arrays) -> list[Callable[[], Any]]:
    """source and out (kept, ..., B, n); in place where the two are one."""
    made: list[Callable[[], Any]] = []
    scratch = arrays.shared(out.shape, 0.25)
    for ufunc, first, width, kind in calls:
        at = first if width == 1 else slice(first, first + width)
        a, o, s = (array[at] for array in (source, out, scratch))
        if ufunc == "sum":
            made.append(partial(np.add.reduce, a, (0, 1), None, arrays.shared(a.shape[-1:], 0.75)))
            continue
        call, rho = getattr(np, ufunc), arrays.shared(o.shape, 0.5, real=True)
        arguments = {
            "": (a, s) if call.nin == 1 else (a, arrays.neutral(ufunc, a.shape), o),
            "scratch": (s, arrays.neutral(ufunc, s.shape), s),
            "bias": (a, arrays.neutral(ufunc, a.shape[-1:]), o),
            "abs": (a, rho),
            "real": (rho, arrays.neutral(ufunc, rho.shape[-1:], real=True), rho),
            "scale": (a, rho, s),
        }[kind]
        # by position, which is quicker; np.maximum will not have it
        made.append(
            partial(call, *arguments[:-1], out=arguments[-1]) if call is np.maximum else partial(call, *arguments)
        )
    return made


def _by_step(
    products: Sequence[int], size: Size, form: str, arrays: _Arrays
) -> tuple[list[Callable[[], Any]], list[Callable[[], Any]]]:
    """The products of a step, forward and backward, of so many gates each."""
    B, _, _, n = size
    forward: list[Callable[[], Any]] = []
    backward: list[Callable[[], Any]] = []
    for k in products:
        if form == "batched":
            h, U, a = arrays.new(B, n), arrays.new(k, n, n), arrays.new(k, B, n)
            ways = (h, U, np.empty_like(a)), (a, U, np.empty_like(a))
        elif form == "wide":
            h, U, V, a = arrays.new(B, n), arrays.new(n, k * n), arrays.new(k * n, n), arrays.new(B, k * n)
            ways = (h, U, np.empty_like(a)), (a, V, np.empty_like(h))
        else:
            h, U, V, a = arrays.new(n, B), arrays.new(k * n, n), arrays.new(n, k * n), arrays.new(k * n, B)
            ways = (U, h, np.empty_like(a)), (V, a, np.empty_like(h))
        for calls, way in zip((forward, backward), ways, strict=True):
            calls.append(partial(np.matmul, *way))
    return forward, backward


def _at_once(gates: int, size: Size, steps: int, chunk: np.ndarray, arrays: _Arrays) -> list[Callable[[], Any]]:
    """The products of some steps together: P with a column of ones for b, and the gradients of W and b, x, and U.

    Cotangents are read where the passes left the chunk: in the cache.
    """
    B, _, m, n = size
    rows = steps * B
    da = chunk.reshape(-1)[: rows * gates * n].reshape(rows, gates * n)
    reals = da.view(arrays.real)  # of real x a complex W is 2 n real rows
    g, h = reals.shape[1], arrays.new(rows, n)
    x, W, W_T = (arrays.new(*shape, real=True) for shape in ((rows, m + 1), (m + 1, g), (g, m)))
    products = ((x, W), (reals.T, x), (reals, W_T), (da.T, h))
    return [partial(np.matmul, a, b, np.empty((a.shape[0], b.shape[1]), a.dtype)) for a, b in products]


def quickest(cell: Cell, size: Size, dtype: str, seconds: float = 0.05) -> Floor:
    """The floor in the form whose products take least time here, of three turns of so many seconds."""
    floors = {form: Floor(cell, size, dtype, form) for form in FORMS}
    times = time_interleaved({form: own.products for form, own in floors.items()}, 3, seconds, clock=time.process_time)
    return floors[min(times, key=lambda form: statistics.median(times[form]))]
