"""Another nonlinearity in one of the five places of the LSTM: of i, f, g, o, and of c in h = o tanh(c)."""

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from ortho_ref.conformance.mistakes.applies import sequence
from ortho_ref.conformance.mistakes.changes import nothing, same
from ortho_ref.conformance.mistakes.mistake import Mistake, Outputs
from ortho_ref.conformance.mistakes.patched import Patched, around, replaced
from ortho_ref.conformance.mistakes.private import private

lstm = private("ortho_ref.cells.lstm")
activations = private("ortho_ref.activations")


class Nonlinearity(NamedTuple):
    """A function, and its derivative where its value is y."""

    value: Callable[[Any], Any]
    slope: Callable[[Any], Any]


NONLINEARITIES = {
    "sigmoid": Nonlinearity(activations.sigmoid, activations.sigmoid_derivative),
    "tanh": Nonlinearity(np.tanh, lambda y: 1 - y * y),
    "relu": Nonlinearity(lambda a: np.maximum(a, 0), lambda y: 1.0 * (y > 0)),
    "linear": Nonlinearity(same, np.ones_like),
}


def _in_turn(places: str, own: Callable[[Any], Any], phi: dict[str, Nonlinearity]) -> Callable[[Any], Any]:
    """A function that is called once for each place, in this order, and is another in those of `phi`."""
    calls = iter(places)

    def value(a: Any) -> Any:
        place = next(calls)
        return phi[place].value(a) if place in phi else own(a)

    return value


def in_places(phi: dict[str, Nonlinearity]) -> Outputs:
    """The LSTM with other nonlinearities in these places, i, f, g, o or c, forward and backward."""

    def step_forward(own: Any, self: Any, weights: Any, x: Any, h_prev: Any) -> Any:
        gates = (lstm, "sigmoid", lambda sigmoid: _in_turn("ifo", sigmoid, phi))
        others = (lstm, "xp_of", lambda _: lambda *arrays: SimpleNamespace(tanh=_in_turn("gc", np.tanh, phi)))
        with replaced(gates, others):
            return own(self, weights, x, h_prev)

    def step_backward(own: Any, self: Any, weights: Any, dh: Any, cache: Any) -> Any:
        if "c" in phi:  # 1 - y^2 is what is added there
            slope = phi["c"].slope(cache.y) - (1 - cache.y * cache.y)
            dh = (dh[0], dh[1] + dh[0] * cache.o * slope)
        slopes = {id(getattr(cache, place)): phi[place].slope for place in "ifo" if place in phi}

        def derivative(right: Any, y: Any) -> Any:
            return slopes.get(id(y), right)(y)

        with replaced(around(lstm, "sigmoid_derivative", derivative)):
            return _with_g(lambda w, c: own(self, w, dh, c), weights, cache, phi.get("g"))

    return Patched(around(lstm.LSTM, "step_forward", step_forward), around(lstm.LSTM, "step_backward", step_backward))


def _with_g(own: Callable[[Any, Any], Any], weights: Any, cache: Any, phi: Nonlinearity | None) -> Any:
    """The adjoint with another g: what comes through g apart, where 1 - g^2 is made the slope, and added."""
    if phi is None:
        return own(weights, cache)

    def cut(*gates: str) -> Any:
        names = {f"{kind}_{gate}" for kind in "WU" for gate in gates}
        return {name: nothing(a) if name in names else a for name, a in weights.items()}

    dx, (dh_prev, dc_prev), dweights = own(cut("g"), cache)
    dx_g, (dh_g, _), dweights_g = own(cut("i", "f", "o"), cache._replace(g=np.sqrt(1 - phi.slope(cache.g))))
    through = {name: dweights_g[name] for name in ("W_g", "U_g", "b_g")}
    return None if dx is None else dx + dx_g, (dh_prev + dh_g, dc_prev), {**dweights, **through}


_NAMES = {"sigmoid": "the sigmoid", "tanh": "tanh", "relu": "ReLU"}


def _place(name: str, where: str, right: str, other: str, places: str) -> Mistake:
    says = f"no {right} {where}" if other == "linear" else f"{_NAMES[other]} for {right} {where}"
    phi = dict.fromkeys(places, NONLINEARITIES[other])
    return Mistake(f"{name}-{other}", says, sequence("lstm"), in_places(phi), paired=False)


def _every() -> Iterator[Mistake]:
    for place in "ifo":
        yield _place(f"lstm-{place}", f"in {place}", "sigmoid", "tanh", place)
    for other in ("sigmoid", "relu", "linear"):
        yield _place("lstm-g", "in g", "tanh", other, "g")
        yield _place("lstm-c", "of c, in h = o tanh(c)", "tanh", other, "c")
        yield _place("lstm", "in g and of c", "tanh", other, "gc")


MISTAKES = list(_every())
