"""Generic problems to check pullbacks on: a parametrization at a generic point, and a linear loss of its matrix."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradients.problem import admissible, standard_normal
from ortho_ref.backend import Array, to_device
from ortho_ref.finite_differences import Report, compare_gradients
from ortho_ref.parametrizations import Buffers, Parametrization, Params


@dataclass(frozen=True)
class MapProblem:
    """A parametrization at a point, and the scalar loss Re sum(dU^* U), dU (n, n)."""

    p: Parametrization
    params: Params
    buffers: Buffers
    dU: Array

    def loss(self, point: Mapping[str, Array]) -> Any:
        """The loss at a point."""
        return (self.dU.conj() * self.p.rebuild(admissible(point), self.buffers)["U"]).real.sum()

    def gradients(self) -> Params:
        """The pullback of dU."""
        return self.p.pullback(self.params, self.buffers, self.dU)

    def compare(self, analytic: Mapping[str, Array]) -> Report:
        """A gradient, by the names of the parameters, against finite differences in every free entry."""
        rigid = ("A", "V") if len(self.dU) == 1 else ()  # a rotation of one dimension is 1, a reflection -1
        options: dict[str, Any] = {"skew": ("A",), "may_vanish": rigid, "kink_distance": lambda _: float("inf")}
        return compare_gradients(self.loss, self.params, analytic, **options)

    def on(self, device: str) -> "MapProblem":
        """The same problem on a device."""
        return MapProblem(self.p, *to_device((self.params, self.buffers, self.dU), device))


def free_entries(values: Params) -> Params:
    """Gradients with 0 below the diagonal of "A": as autograd's, of a matrix built from the entries above it."""
    return {name: np.triu(value, 1) if name == "A" else value for name, value in values.items()}


def random_map_problem(p: Parametrization, n: int, rng: np.random.Generator) -> MapProblem:
    """A parametrization at a generic point.

    Skew A and angles are of size 1, reflection vectors of length 1/2 to 2; X is as `init` draws it.
    """
    params, buffers = p.init(rng, n, dtype=np.float64)

    def normal(like: Array) -> Array:
        return standard_normal(rng, like.shape, like.dtype.kind == "c")

    for name, value in params.items():
        if name == "A":
            X = np.triu(normal(value), 1)
            params[name] = X - X.T
        elif name.startswith(("V", "v")):
            v = np.tril(normal(value)) if name == "V" else normal(value)
            params[name] = v / np.linalg.norm(v, axis=0) * rng.uniform(0.5, 2, v.shape[1:])
        elif name != "X":
            params[name] = value + normal(value)
    buffers = p.rebuild(params, buffers)
    return MapProblem(p, params, buffers, normal(buffers["U"]))
