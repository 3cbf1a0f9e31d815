"""Non-monotonically triggered averaging of the parameters (NT-ASGD, Merity, Keskar, Socher 2018, Algorithm 1).

After an evaluation whose loss v is above the best of those before the last n of them, the mean of the parameters
after every further update is kept
    on as soon as v > min of all losses but the last n before v      [bp:lm-average/trigger]
    a_1 = p_1;  a_k = a_{k-1} + (p_k - a_{k-1}) / k                  [bp:lm-average/mean]

and evaluated in place of the last parameters, which training goes on with.  Of a matrix that is kept orthogonal it is
the parameters that are averaged, a skew A among them: their mean is skew again, to the bit, and the U that is built
from it is orthogonal, which a mean of Us would not be.
"""

from dataclasses import dataclass, field
from typing import Any

from ortho_ref.backend import xp_of
from ortho_ref.network import Network
from ortho_ref.parametrizations import Params


@dataclass
class Averaging:
    """What the trigger has seen, and the mean."""

    patience: int  # n, evaluations
    count: int = 0  # updates in the mean
    params: Params | None = None  # the mean; None before the trigger and until the update after it
    on: bool = False  # whether the trigger was pulled
    _recent: list[float] = field(default_factory=list)
    _best: float | None = None

    def note(self, loss: float) -> None:
        """Take in the loss of an evaluation, on the held-out set."""
        self.on = self.on or (self._best is not None and loss > self._best)  # [bp:lm-average/trigger]
        self._recent.append(loss)
        if len(self._recent) > self.patience:
            oldest = self._recent.pop(0)
            self._best = oldest if self._best is None else min(self._best, oldest)

    def add(self, params: Params) -> None:
        """Take in the parameters after an update, if the trigger was pulled."""
        if not self.on:
            return
        self.count += 1
        if self.params is None:
            self.params = {name: value.copy("K") for name, value in params.items()}
            return
        mean: Params = {}
        for name, value in params.items():
            step = (value - self.params[name]) * value.dtype.type(1 / self.count)
            mean[name] = xp_of(value).asarray(self.params[name] + step)  # [bp:lm-average/mean]
        self.params = mean

    def state(self) -> dict[str, Any]:
        """All that it depends on, as a tree for a checkpoint."""
        return {
            "on": self.on,
            "count": self.count,
            "recent": list(self._recent),
            "best": self._best,
            "params": self.params or {},
        }

    def load(self, state: dict[str, Any]) -> None:
        """Take up such a state, of one with the same patience."""
        self.on, self.count, self._best = state["on"], state["count"], state["best"]
        self._recent, self.params = list(state["recent"]), state["params"] or None


def check_averages(network: Network) -> None:
    """ValueError for a network whose parameters have no mean: those of a weight are on a manifold."""
    for i, layer in enumerate(network.layers):
        for name, kept in layer.constrained.items():
            if not kept.averages:
                raise ValueError(
                    f"average_after is for means of parameters, but layer{i}.{name} is kept by {kept}, whose parameter "
                    f"is the matrix itself: a mean of such matrices is none of them; allowed: None"
                )
