"""Generic problems to check gradients on: random weights, biases and h0, upstream at every step and at the last."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import numpy as np

from ortho_ref import scan
from ortho_ref.backend import Array, complex_dtype, to_device, to_host
from ortho_ref.boundary import is_tokens
from ortho_ref.cells import Cell, State, Weights
from ortho_ref.cells.cell import parts_of, state_of
from ortho_ref.network import Network
from ortho_ref.parametrizations import Params
from ortho_ref.recurrent import NamedBuffers

MARGIN = 1e-3


@dataclass(frozen=True)
class Problem:
    """A cell over a sequence, and the scalar loss sum(dh * h[1:]) + sum(dh_T * h_T); of a complex cell, Re(dh^* h).

    x is (T, B, m), or tokens (T, B); h0 and dh_T are states, (B, n) each; dh is (T, B, n).  As a point for
    `ortho_ref.finite_differences` it is flat: the weights, "x" (unless tokens), and "h0" ("c0").
    """

    cell: Cell
    weights: Weights
    x: Array
    h0: State
    dh: Array
    dh_T: State

    def _named(self, state: State) -> dict[str, Array]:
        return {f"{name}0": part for name, part in zip(self.cell.states, parts_of(self.cell, state), strict=True)}

    @property
    def point(self) -> dict[str, Array]:
        """Everything the loss is differentiated by."""
        return {**self.weights, **({} if is_tokens(self.x) else {"x": self.x}), **self._named(self.h0)}

    def at(self, point: Mapping[str, Array]) -> tuple[Weights, Array, State]:
        """Weights, x and h0 at a point; x is the problem's if the point has none."""
        h0 = tuple(point[name] for name in self._named(self.h0))
        weights = {name: point[name] for name in self.weights}
        return weights, point.get("x", self.x), state_of(h0)

    def weigh(self, h: State) -> Any:
        """The loss of the states h (T+1, B, n)."""
        parts = parts_of(self.cell, h)
        last = zip(parts_of(self.cell, self.dh_T), parts, strict=True)
        if self.cell.complex:
            return (self.dh.conj() * h[1:]).real.sum() + (self.dh_T.conj() * h[-1]).real.sum()
        # without .real: a complex step moves a real cell's states into the complex numbers
        return (self.dh * parts[0][1:]).sum() + sum((d * part[-1]).sum() for d, part in last)

    def loss(self, point: Mapping[str, Array]) -> Any:
        """The loss at a point, by `scan`."""
        weights, x, h0 = self.at(point)
        return self.weigh(scan.unroll(self.cell, weights, x, h0)[0])

    def gradients(self, engine: ModuleType) -> dict[str, Array]:
        """The analytic gradient at `point`, by its names; the engine is `scan` or `fused`."""
        _, tape = engine.forward(self.cell, self.weights, self.x, self.h0)
        gradients = engine.backward(self.cell, self.weights, tape, self.dh, self.dh_T)
        return {**gradients.weights, **({} if gradients.x is None else {"x": gradients.x}), **self._named(gradients.h0)}

    def kink_distance(self, point: Mapping[str, Array]) -> float:
        """How far activations and clipped gates are from their kinks: the least over units, steps and batch."""
        weights, x, h0 = self.at(point)
        _, tape = scan.unroll(self.cell, weights, x, h0)
        return min(self.cell.kink_distance(weights, cache) for cache in tape.caches)

    @property
    def may_vanish(self) -> tuple[str, ...]:
        """Names whose gradient may be 0 throughout: scalar gates, where they are clipped."""
        return ("alpha", "beta") if getattr(self.cell, "constraint", None) is not None else ()

    def on(self, device: str) -> "Problem":
        """The same problem on a device."""
        arrays = to_device((self.weights, self.x, self.h0, self.dh, self.dh_T), device)
        return Problem(self.cell, *arrays)


def network_kink_distance(
    network: Network, params: Params, buffers: NamedBuffers, x: Array, rng: np.random.Generator | None = None
) -> float:
    """How far all recurrent layers are from their kinks, the least over all; rng: of the dropout."""
    layers = tuple(replace(layer, engine="scan") for layer in network.layers)
    tape = replace(network, layers=layers).forward(params, buffers, x, rng=rng).tape
    return min(
        layer.cell.kink_distance(network.layer_weights(i, params, buffers), cache)
        for i, (layer, own) in enumerate(zip(layers, tape.layers, strict=True))
        for cache in own.engine.caches
    )


def standard_normal(rng: np.random.Generator, shape: tuple[int, ...], complex: bool) -> Array:
    """Standard normals; of complex numbers both parts."""
    values = rng.standard_normal(shape)
    return values + 1j * rng.standard_normal(shape) if complex else values


def perturbed(params: Params, rng: np.random.Generator, size: float) -> Params:
    """Every parameter plus `size` times standard normals, each within its own set.

    A skew A stays skew, Householder's V lower trapezoidal, a unitary X where it is.  Scalars, gates that begin all but
    shut, go to about -1: gradients come through, and no constraint clips two gates of that size.
    """
    moved: Params = {}
    for name, value in params.items():
        noise = standard_normal(rng, value.shape, value.dtype.kind == "c")
        if _last(name) == "A":
            noise = noise - noise.T
        elif _last(name) == "V":
            noise = np.tril(noise)
        elif _last(name) == "X":
            noise = np.zeros(value.shape)
        moved[name] = np.asarray(value + size * noise if value.ndim else 0.3 * noise - 1).astype(value.dtype)
    return moved


def admissible(point: Mapping[str, Array]) -> Params:
    """A point that differences moved, with V lower trapezoidal again: its other entries are no parameters."""
    return {name: np.tril(value) if _last(name) == "V" else value for name, value in point.items()}


def skew(params: Params) -> tuple[str, ...]:
    """Names of the parameters that are skew matrices."""
    return tuple(name for name in params if _last(name) == "A")


def _last(path: str) -> str:
    return path.rpartition(".")[2]


def random_problem(
    cell: Cell,
    rng: np.random.Generator,
    *,
    T: int = 4,
    B: int = 3,
    m: int = 3,
    n: int = 5,
    dtype: Any = np.float64,
    tokens: bool = False,
    scale: float = 1.0,
) -> Problem:
    """A problem off the kinks by `MARGIN`, redrawn until it is; ValueError if none of 200 draws is.

    scale: the size of the weights is this by sqrt(n).
    """
    for _ in range(200):

        def normal(*shape: int, as_state: bool = False) -> Array:
            is_complex = as_state and cell.complex
            values = np.asarray(standard_normal(rng, shape, is_complex))
            return values.astype(complex_dtype(dtype) if is_complex else dtype)

        def state() -> State:
            return state_of(tuple(normal(B, n, as_state=True) for _ in cell.states))

        weights = {
            name: np.asarray(
                normal(*shape, as_state=len(shape) == 2) * dtype(scale / np.sqrt(n) if len(shape) == 2 else 0.5)
            )
            for name, shape in cell.shapes(m, n).items()
        }
        x = rng.integers(0, m, (T, B)) if tokens else normal(T, B, m)
        problem = Problem(cell, weights, x, state(), normal(T, B, n, as_state=True), state())
        if problem.kink_distance(problem.point) >= MARGIN:
            return problem
    raise ValueError(f"no problem {MARGIN:.0e} away from every kink in 200 draws; make T, B or n smaller")


def largest_error(ours: Mapping[str, Array], theirs: Mapping[str, Array]) -> tuple[float, str]:
    """The largest of `errors_by_name`, and its name."""
    return max((error, name) for name, error in errors_by_name(ours, theirs).items())


def errors_by_name(ours: Mapping[str, Array], theirs: Mapping[str, Array]) -> dict[str, float]:
    """Relative errors of gradients, by their names; the floor is a thousandth of the largest entry of all.

    ValueError if the names or the shapes differ.
    """
    if set(ours) != set(theirs):
        raise ValueError(f"gradients of {sorted(ours)} and of {sorted(theirs)}")
    floor = 1e-3 * max(float(np.abs(to_host(value)).max(initial=0)) for value in theirs.values())
    return {name: relative_error(ours[name], theirs[name], floor) for name in theirs}


def relative_error(a: Array, b: Array, floor: float = 0.0) -> float:
    """max |a - b| over max |b| or, if that is less, over a floor; on the host.

    A floor is for sums that cancel: one entry that is the small difference of large terms has lost their digits.
    0 for equal arrays, infinite for NaN.  ValueError if the shapes differ.
    """
    a, b = to_host(a), to_host(b)
    if a.shape != b.shape:
        raise ValueError(f"shapes differ: {a.shape} and {b.shape}")
    difference, scale = float(np.abs(a - b).max(initial=0)), max(floor, float(np.abs(b).max(initial=0)))
    if difference == 0:
        return 0.0
    return difference / scale if scale > 0 and difference == difference else float("inf")
