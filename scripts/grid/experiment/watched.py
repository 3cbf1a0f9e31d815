"""A cell whose states and gradients are noted as they come: what the uRNN paper's figure 4 shows."""

from dataclasses import replace
from typing import Any

from ortho_ref.backend import Array, xp_of
from ortho_ref.cells.cell import State, Weights, parts_of
from ortho_ref.network import Network


class Watched:
    """A cell, noting its states and the norms of the whole derivative of the loss by them, one sequence's at a time.

    Of an LSTM those of h.  gradient_norms: means over the batch, for a loss that is the mean of its sequences' own.
    """

    def __init__(self, cell: Any) -> None:
        self.cell = cell
        self.history: list[Array] = []
        self.gradient_norms: list[float] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.cell, name)

    def step_forward(self, weights: Weights, x: Array, h_prev: State) -> tuple[State, Any]:
        """The cell's."""
        h, cache = self.cell.step_forward(weights, x, h_prev)
        self.history.append(parts_of(self.cell, h)[0])
        return h, cache

    def step_backward(self, weights: Weights, dh: State, cache: Any) -> tuple[Array | None, State, Weights]:
        """The cell's; `scan` hands it all of dL/dh_t."""
        own = parts_of(self.cell, dh)[0]
        self.gradient_norms.insert(0, len(own) * mean_norm(own))
        dx, dh_prev, dweights = self.cell.step_backward(weights, dh, cache)
        return dx, dh_prev, dweights


def mean_norm(h: Array) -> float:
    """The mean over the batch of |h|, for complex h the norm of (Re h, Im h)."""
    return float(xp_of(h).linalg.norm(h, axis=1).mean())


def watched(network: Network) -> tuple[Network, Watched]:
    """A network of one layer, step by step, and its cell, watched."""
    (layer,) = network.layers
    cell: Any = Watched(layer.cell)
    return replace(network, layers=(replace(layer, cell=cell, engine="scan"),)), cell
