"""Optimizers: gradient -> delta, what is to be subtracted.  The only stateful objects of the reference.  And clipping.

Element by element, at update k = 1, 2, ... of a parameter p; rate = learning_rate(k - 1), buffers start as stated
    g <- g + weight_decay p                                             [bp:opt/g]

SGD, m_0 = 0, so that the first m is g (without momentum m is g throughout)
    m <- momentum m + g                                                 [bp:opt/momentum]
    delta = rate m                                                      [bp:opt/sgd]

RMSprop, v_0 = initial
    v <- decay v + (1 - decay) g^2                                      [bp:opt/square]
    delta = rate g / (sqrt(v) + epsilon)                                [bp:opt/outside]
         or rate g / sqrt(v + epsilon)                                  [bp:opt/inside]

Adam (Kingma and Ba 2015, Algorithm 1), m_0 = v_0 = 0
    m <- b1 m + (1 - b1) g                                              [bp:opt/m]
    v <- b2 v + (1 - b2) g^2                                            [bp:opt/v]
    delta = rate * m / (1 - b1^k) / (sqrt(v / (1 - b2^k)) + epsilon)    [bp:opt/delta]

delta is the same odd function of each entry's own history: a skew parameter with skew gradients gets an exactly skew
delta (E-ncgru-11), under weight decay and both clippings too.  Its zero diagonal is 0 / epsilon; in RMSprop with
epsilon = 0, delta is 0 by definition where v = 0.  A complex parameter moves as its real and its imaginary part would
alone.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from functools import partial
from typing import Annotated, Any, Protocol

from msgspec import Meta

from ortho_ref import formats
from ortho_ref.backend import Array, library_of, xp_of
from ortho_ref.boundary import check_has, check_number, check_switch, kind_of
from ortho_ref.training.schedules import Constant, Schedule, as_schedule


class Optimizer(Protocol):
    """Gradient -> delta, with all of the optimizer inside: learning rate, decay, moments."""

    def delta(self, name: str, parameter: Array, gradient: Array) -> Array:
        """What to subtract from the parameter of that name, a fresh array; one call per update and name."""

    def state(self) -> dict[str, Any]:
        """Everything the next delta depends on: arrays, numbers and dicts of these; copies."""

    def load(self, state: dict[str, Any]) -> None:
        """Take up a state that `state` of an optimizer like this one gave."""

    def rates(self, updates: int) -> dict[str, float]:
        """By name pattern, the learning rates of the update that follows `updates` updates."""


class _State(formats.Form):
    """What `Elementwise.state` gives; arrays are not looked at."""

    step: dict[str, Annotated[int, Meta(ge=0, le=10**12)]]
    buffers: dict[str, dict[str, Any]]


class Elementwise(ABC):
    """What the optimizers share: rate, weight decay, buffers and update counts by name, complex as two reals.

    buffers: name -> initial value of every entry.  positive: arguments that must not round to 0.
    """

    def __init__(
        self,
        learning_rate: float | Schedule,
        weight_decay: float,
        buffers: Mapping[str, float],
        positive: Mapping[str, float],
    ) -> None:
        check_number("weight_decay", weight_decay, lambda decay: decay >= 0, "a finite number >= 0")
        self.learning_rate = as_schedule(learning_rate)
        self.weight_decay = float(weight_decay)
        self._initial, self._positive = dict(buffers), dict(positive)
        self._buffers: dict[str, dict[str, Array]] = {}
        self._step: dict[str, int] = {}

    @abstractmethod
    def _delta(self, rate: float, k: int, g: Array, buffers: dict[str, Array]) -> Array:
        """The k-th delta for the real array g (weight decay included), fresh; moves the buffers on in place."""

    def delta(self, name: str, parameter: Array, gradient: Array) -> Array:
        """The step to subtract, a fresh array.

        TypeError or ValueError unless name is a str and the two are arrays of floating-point numbers of one shape and
        dtype, in which epsilon is not 0.
        """
        _check_name(name)
        for what, array in (("parameter", parameter), ("gradient", gradient)):
            if not hasattr(array, "dtype"):
                raise TypeError(f"the {what} of {name} is {kind_of(array)}; expected an array")
        xp = xp_of(parameter, gradient)
        if (gradient.shape, gradient.dtype) != (parameter.shape, parameter.dtype):
            raise ValueError(
                f"the gradient of {name} is {gradient.dtype} of shape {gradient.shape}; "
                f"expected {parameter.dtype} of shape {parameter.shape}, as the parameter"
            )
        if parameter.dtype.kind not in "fc":
            raise TypeError(f"the parameter {name} is {parameter.dtype}; allowed: floating-point numbers")
        g = as_real(gradient)
        if self.weight_decay:
            g = g + self.weight_decay * as_real(parameter)  # [bp:opt/g]
        if name not in self._step:
            for argument, value in self._positive.items():
                if g.dtype.type(value) == 0:
                    raise ValueError(f"{argument} is {value}, which is 0 in {g.dtype}, the precision of {name}")
            self._buffers[name] = {buffer: xp.full_like(g, value) for buffer, value in self._initial.items()}
            self._step[name] = 0
        self._step[name] += 1
        k = self._step[name]
        return _shaped_like(gradient, self._delta(float(self.learning_rate(k - 1)), k, g, self._buffers[name]))

    def state(self) -> dict[str, Any]:
        """{"step": {name: updates done}, "buffers": {name: {buffer: array}}}, copies."""
        return {"step": dict(self._step), "buffers": _copied(self._buffers)}

    def load(self, state: dict[str, Any]) -> None:
        """Take up a state that `state` gave; ValueError if it is another optimizer's."""
        formats.check(state, _State, "state")
        if unlike := sorted(state["step"].keys() ^ state["buffers"].keys()):
            raise ValueError(f"state holds step or buffers of {', '.join(unlike)}; expected both")
        for name, own in state["buffers"].items():
            if own.keys() != self._initial.keys():
                raise ValueError(f"state holds buffers {sorted(own)} of {name}; expected {sorted(self._initial)}")
        self._step, self._buffers = dict(state["step"]), _copied(state["buffers"])

    def __repr__(self) -> str:
        own = {name: value for name, value in vars(self).items() if not name.startswith("_")}
        rate = own["learning_rate"]
        own["learning_rate"] = rate.rate if isinstance(rate, Constant) else rate
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in own.items())})"

    def rates(self, updates: int) -> dict[str, float]:
        """{"*": the learning rate of the update that follows `updates` updates}."""
        return {"*": float(self.learning_rate(updates))}


class SGD(Elementwise):
    """Gradient descent, with momentum as in PyTorch: no dampening, no look-ahead [bp:opt].

    Parameters
    ----------
    learning_rate : float or Schedule
        A number is finite and >= 0.
    momentum : float, default 0
        At least 0 and below 1; 0 is none.
    weight_decay : float, default 0
        Finite and >= 0.
    """

    def __init__(self, learning_rate: float | Schedule, momentum: float = 0.0, weight_decay: float = 0.0) -> None:
        _check_decay("momentum", momentum)
        super().__init__(learning_rate, weight_decay, buffers={"m": 0.0} if momentum else {}, positive={})
        self.momentum = float(momentum)

    def _delta(self, rate: float, k: int, g: Array, buffers: dict[str, Array]) -> Array:
        if not self.momentum:
            return rate * g  # [bp:opt/sgd]
        m = buffers["m"]
        m *= self.momentum
        m += g  # [bp:opt/momentum]
        return rate * m  # [bp:opt/sgd]


class RMSprop(Elementwise):
    """Gradient over the root of its running mean square [bp:opt]; defaults are PyTorch's, `OPTIMIZERS` has others'.

    Parameters
    ----------
    learning_rate, weight_decay : float
        As of `SGD`.
    decay : float
        Of the mean square, at least 0 and below 1.
    initial : float
        v_0, finite and >= 0.
    epsilon : float
        Finite and above 0; 0 too where initial is above 0.
    epsilon_inside : bool
        Whether epsilon is added under the root instead of to it.
    """

    def __init__(
        self,
        learning_rate: float | Schedule = 1e-3,
        decay: float = 0.99,
        initial: float = 0.0,
        epsilon: float = 1e-8,
        epsilon_inside: bool = False,
        weight_decay: float = 0.0,
    ) -> None:
        _check_decay("decay", decay)
        check_number("initial", initial, lambda initial: initial >= 0, "a finite number >= 0")
        what = "a finite number above 0; 0 too where initial is above 0"
        check_number("epsilon", epsilon, lambda e: e > 0 or (e == 0 and initial > 0), what)
        positive = {"epsilon": epsilon} if epsilon else {"initial": initial}
        super().__init__(learning_rate, weight_decay, {"v": initial}, positive)
        self.decay, self.initial, self.epsilon = float(decay), float(initial), float(epsilon)
        check_switch("epsilon_inside", epsilon_inside)
        self.epsilon_inside = epsilon_inside

    def _delta(self, rate: float, k: int, g: Array, buffers: dict[str, Array]) -> Array:
        xp, v = xp_of(g), buffers["v"]
        v *= self.decay
        v += (1 - self.decay) * (g * g)  # [bp:opt/square]
        delta = rate * g
        if self.epsilon == 0:
            # Where g stays 0, as on the diagonal of A, v decays to the smallest subnormal numbers, and to 0 where these
            # are flushed or decay is at most 1/2: 0 / 0
            root = xp.sqrt(v)
            moving = root > 0
            root += ~moving
            delta /= root  # [bp:opt/outside] [bp:opt/inside]
            delta *= moving
        elif self.epsilon_inside:
            delta /= xp.sqrt(v + self.epsilon)  # [bp:opt/inside]
        else:
            delta /= xp.sqrt(v) + self.epsilon  # [bp:opt/outside]
        return delta


class Adam(Elementwise):
    """Adam (Kingma and Ba 2015, Algorithm 1) [bp:opt], epsilon outside the root as in PyTorch.

    Parameters
    ----------
    learning_rate, weight_decay : float
        As of `SGD`; the decay is added to the gradient, not AdamW's.
    beta1, beta2 : float
        Decay of the mean and of the mean square, at least 0 and below 1.
    epsilon : float
        Finite and above 0.
    compiled : bool
        Whether Numba does it, on the host: the same bits, sooner.
    """

    def __init__(
        self,
        learning_rate: float | Schedule = 1e-3,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        weight_decay: float = 0.0,
        *,
        compiled: bool = False,
    ) -> None:
        _check_decay("beta1", beta1)
        _check_decay("beta2", beta2)
        what = "a finite number above 0 (with 0 the zero diagonal of A would give 0 / 0)"
        check_number("epsilon", epsilon, lambda epsilon: epsilon > 0, what)
        super().__init__(learning_rate, weight_decay, {"m": 0.0, "v": 0.0}, {"epsilon": epsilon})
        self.beta1, self.beta2, self.epsilon = float(beta1), float(beta2), float(epsilon)
        self._compiled = compiled

    def _delta(self, rate: float, k: int, g: Array, buffers: dict[str, Array]) -> Array:
        m, v = buffers["m"], buffers["v"]
        if self._compiled and any(all(own.flags[order] for own in (g, m, v)) for order in ("C", "F")):
            from ortho_ref.fused.compiled import adam  # which imports Numba

            return adam.delta(g, m, v, self.beta1, self.beta2, self.epsilon, rate, k)
        m *= self.beta1
        m += (1 - self.beta1) * g  # [bp:opt/m]
        v *= self.beta2
        v += (1 - self.beta2) * (g * g)  # [bp:opt/v]
        root = xp_of(g).sqrt(v / (1 - self.beta2**k))
        root += self.epsilon
        delta = m * (rate / (1 - self.beta1**k))
        delta /= root  # [bp:opt/delta]
        return delta


# Released code differs in RMSprop's initial v and epsilon, and early in a run that shows.
OPTIMIZERS: dict[str, Callable[..., Optimizer]] = {
    "sgd": SGD,
    "momentum": partial(SGD, momentum=0.9),
    "adam": Adam,
    "rmsprop": RMSprop,
    "rmsprop-tensorflow": partial(RMSprop, decay=0.9, initial=1.0, epsilon=1e-10, epsilon_inside=True),
    "rmsprop-theano": partial(RMSprop, decay=0.9, initial=1e-3, epsilon=0.0),
    "rmsprop-keras": partial(RMSprop, decay=0.9, epsilon=1e-7),
}


def _check_decay(argument: str, value: float) -> None:
    check_number(argument, value, lambda value: 0 <= value < 1, f"0 <= {argument} < 1")


def _check_name(name: str) -> None:
    """TypeError unless it is a name, as of a dict of all parameters, of which `delta` takes one at a time."""
    if not isinstance(name, str):
        given = kind_of(name)
        raise TypeError(f"name is {given}; allowed: a str, of one parameter: delta('U_c.A', parameter, gradient)")


class ByName:
    """Name patterns, as `fnmatch` reads them -> optimizers, none of them a ByName.

    The first pattern that fits a parameter's name takes it ("*.A" before "*").
    """

    def __init__(self, optimizers: Mapping[str, Optimizer]) -> None:
        if not isinstance(optimizers, Mapping):
            own = kind_of(optimizers)
            raise TypeError(
                f"optimizers is {own}; allowed: a dict, pattern -> optimizer: {{'*.A': SGD(1e-3), '*': Adam()}}"
            )
        self.optimizers = dict(optimizers)
        for pattern, optimizer in self.optimizers.items():
            check_has(f"the optimizer of {pattern!r}", optimizer, "delta", "an optimizer, as Adam(1e-3)")
            if isinstance(optimizer, ByName):
                raise ValueError(f"the optimizer of {pattern!r} is a ByName; allowed: one optimizer per pattern")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.optimizers!r})"

    def optimizer(self, name: str) -> Optimizer:
        """That of the first pattern that fits the parameter's name; KeyError if none does."""
        for pattern, optimizer in self.optimizers.items():
            if fnmatchcase(name, pattern):
                return optimizer
        raise KeyError(f"no pattern fits the parameter {name!r}: {', '.join(self.optimizers)}")

    def check_fits(self, names: Iterable[str]) -> None:
        """ValueError unless every parameter has an optimizer."""
        for name in names:
            try:
                self.optimizer(name)
            except KeyError as error:
                raise ValueError(f"optimizer: {error.args[0]}") from None

    def delta(self, name: str, parameter: Array, gradient: Array) -> Array:
        """The delta of that optimizer."""
        _check_name(name)
        return self.optimizer(name).delta(name, parameter, gradient)

    def state(self) -> dict[str, Any]:
        """Pattern -> its optimizer's state."""
        return {pattern: optimizer.state() for pattern, optimizer in self.optimizers.items()}

    def load(self, state: dict[str, Any]) -> None:
        """Take up a state that `state` gave; ValueError if it is of other patterns or of another optimizer."""
        if state.keys() != self.optimizers.keys():
            raise ValueError(f"state is of the patterns {sorted(state)}; expected {sorted(self.optimizers)}")
        for pattern, optimizer in self.optimizers.items():
            optimizer.load(state[pattern])

    def rates(self, updates: int) -> dict[str, float]:
        """Pattern -> learning rate of the update that follows `updates` updates."""
        return {pattern: optimizer.rates(updates)["*"] for pattern, optimizer in self.optimizers.items()}


def clip_by_value(gradients: Mapping[str, Array], limit: float) -> dict[str, Array]:
    """Every entry moved to the nearest number in [-limit, limit], real and imaginary part apart; fresh arrays.

    ValueError unless limit is finite, above 0, and above 0 in each gradient's precision.
    """
    _check_limit(limit)
    clipped = {}
    for name, gradient in gradients.items():
        g, xp = as_real(gradient), xp_of(gradient)
        bound = g.dtype.type(min(float(limit), float(xp.finfo(g.dtype).max)))
        if bound == 0:
            raise ValueError(f"limit is {limit}, which is 0 in {g.dtype}, the precision of {name}")
        clipped[name] = _shaped_like(gradient, xp.clip(g, -bound, bound))
    return clipped


def clip_by_global_norm(
    gradients: Mapping[str, Array], limit: float, norm: float | None = None
) -> tuple[dict[str, Array], float]:
    """All arrays times limit / norm where their `global_norm` is above limit; and that norm, which may be given.

    Where nothing is to be scaled the arrays come back as they are, also where the norm is not finite: the caller sees
    it.  ValueError unless limit is finite and above 0.
    """
    _check_limit(limit)
    norm = global_norm(gradients) if norm is None else norm
    if not limit < norm < math.inf:
        return dict(gradients), norm
    scale = float(limit) / norm
    return {name: _shaped_like(g, as_real(g) * scale) for name, g in gradients.items()}, norm


def global_norm(gradients: Mapping[str, Array]) -> float:
    """The root of the sum of |entry|^2 over all arrays, each as it is (a skew gradient with both its halves)."""
    return math.sqrt(float(squared_norm(gradients)))


def squared_norm(gradients: Mapping[str, Array]) -> Array:
    """The square of `global_norm`, 0-d where the arrays are, in float64, where no finite float32 overflows."""
    library_of(*gradients.values())  # of one device
    total: Array = 0.0
    for gradient in gradients.values():
        g = as_real(gradient).astype("float64")
        total = total + (g * g).sum()
    return total


def _check_limit(limit: float) -> None:
    check_number("limit", limit, lambda limit: limit > 0, "a finite number above 0")


def _copied(buffers: Mapping[str, Mapping[str, Array]]) -> dict[str, dict[str, Array]]:
    """In the same order of memory ("K"), which the parameter's next value takes over and a product's rounding shows."""
    return {name: {buffer: array.copy("K") for buffer, array in own.items()} for name, own in buffers.items()}


def as_real(array: Array) -> Array:
    """A complex array as flat real one (re, im, re, im, ...); a real array as it is, but with one axis at least.

    Arithmetic of arrays without axes gives NumPy scalars, which no step changes in place.
    """
    if array.dtype.kind != "c":
        return array if array.ndim else array.reshape(1)
    return xp_of(array).ascontiguousarray(array).reshape(-1).view(array.real.dtype)


def _shaped_like(array: Array, real: Array) -> Array:
    """Undo `as_real` for numbers that belong to the entries of `array`."""
    return real.view(array.dtype).reshape(array.shape)
