"""Optimizers, in cases of their own and in updates of an orthogonal matrix."""

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ortho_ref.conformance.case import Arrays, Case
from ortho_ref.conformance.fitted import Fitted
from ortho_ref.conformance.mistake import Base, Family, Predicate, patched
from ortho_ref.conformance.private import private

optimizers = private("ortho_ref.training.optimizers")

MISTAKES = Family()
M = MISTAKES.add


def _stepping(case: Case) -> bool:
    return case.kind in ("optimizer", "update")


def _ascending(own: Any) -> Any:
    return lambda self, name, parameter, gradient: -own(self, name, parameter, gradient)


M("step-ascends", "the step added, not subtracted", _stepping, patched((optimizers.Elementwise, "delta", _ascending)))


def optimizing(name: str, good: Predicate = lambda case: True) -> Predicate:
    """Cases in which this optimizer works, and which are good."""
    return lambda case: _stepping(case) and case.config["optimizer"]["name"] == name and good(case)


def stepped(kind: Any, change: Callable[..., Any]) -> Callable[[Case, Base], Arrays]:
    """Another step of an optimizer.

    Parameters
    ----------
    kind : class
        The private class of the optimizer.
    change : callable
        change(right, optimizer, rate, k, g, buffers) -> the step, where right takes all but the first.

    Returns
    -------
    callable
        The `outputs` of a mistake.
    """

    def make(own: Any) -> Any:
        return lambda self, rate, k, g, buffers: change(own, self, rate, k, g, buffers)

    return patched((kind, "_delta", make))


def _no_correction(own: Any, self: Any, rate: Any, k: Any, g: Any, buffers: Any) -> Any:
    return own(self, rate, 10**9, g, buffers)


M("adam-no-correction", "Adam without bias correction", optimizing("adam"), stepped(optimizers.Adam, _no_correction))


def _first_moment_uncorrected(own: Any, self: Any, rate: Any, k: Any, g: Any, buffers: Any) -> Any:
    return own(self, rate, k, g, buffers) * (1 - self.beta1**k)


M(
    "adam-m-uncorrected",
    "Adam with the second moment corrected alone",
    optimizing("adam"),
    stepped(optimizers.Adam, _first_moment_uncorrected),
)


def _k_from_zero(own: Any, self: Any, rate: Any, k: Any, g: Any, buffers: Any) -> Any:
    return own(self, rate, max(k - 1, 1), g, buffers)


M("adam-k-late", "Adam's bias correction one update late", optimizing("adam"), stepped(optimizers.Adam, _k_from_zero))


def _k_from_two(own: Any, self: Any, rate: Any, k: Any, g: Any, buffers: Any) -> Any:
    return own(self, rate, k + 1, g, buffers)


M("adam-k-early", "Adam's bias correction one update early", optimizing("adam"), stepped(optimizers.Adam, _k_from_two))


def option(name: str, argument: str, test: Callable[[Any], bool]) -> Predicate:
    """Cases in which this optimizer works with a value of an argument that passes a test."""
    return optimizing(name, lambda case: test(case.config["optimizer"][argument]))


def reconfigured(name: str, **changes: Any) -> Callable[[Case, Base], Arrays]:
    """An optimizer with other arguments."""

    def outputs(case: Case, base: Base) -> Arrays:
        own = case.config["optimizer"]
        return base(replace(case, config={**case.config, "optimizer": own | changes}) if own["name"] == name else case)

    return outputs


M(
    "adam-epsilon-1e-7",
    "Adam's epsilon 1e-7 (Keras)",
    option("adam", "epsilon", lambda given: given != 1e-7),
    reconfigured("adam", epsilon=1e-7),
)


def _with(self: Any, **changes: Any) -> Any:
    other = copy.copy(self)
    for name, value in changes.items():
        setattr(other, name, value)
    return other


def _epsilon_hat(own: Any, self: Any, rate: Any, k: Any, g: Any, buffers: Any) -> Any:
    """epsilon added to the uncorrected root (TensorFlow 1)."""
    return own(_with(self, epsilon=self.epsilon / np.sqrt(1 - self.beta2**k)), rate, k, g, buffers)


M(
    "adam-epsilon-hat",
    "Adam's epsilon beside the uncorrected root (TensorFlow 1)",
    optimizing("adam"),
    stepped(optimizers.Adam, _epsilon_hat),
)


def _epsilon_in_root(own: Any, self: Any, rate: Any, k: Any, g: Any, buffers: Any) -> Any:
    own(self, rate, k, g, buffers)
    m, v = buffers["m"] / (1 - self.beta1**k), buffers["v"] / (1 - self.beta2**k)
    return rate * m / np.sqrt(v + self.epsilon)


M(
    "adam-epsilon-inside",
    "Adam's epsilon inside the root",
    optimizing("adam"),
    stepped(optimizers.Adam, _epsilon_in_root),
)


def _square_of_new_moment(own: Any, self: Any, rate: Any, k: Any, g: Any, buffers: Any) -> Any:
    """The second moment of the first moment in place of the gradient."""
    v = buffers["v"].copy()
    own(self, rate, k, g, buffers)
    m = buffers["m"]
    buffers["v"][...] = v = self.beta2 * v + (1 - self.beta2) * m * m
    return rate * m / (1 - self.beta1**k) / (np.sqrt(v / (1 - self.beta2**k)) + self.epsilon)


M(
    "adam-square-of-m",
    "the square of the first moment in Adam's second",
    optimizing("adam"),
    stepped(optimizers.Adam, _square_of_new_moment),
)


def _betas_swapped(own: Any, self: Any, rate: Any, k: Any, g: Any, buffers: Any) -> Any:
    return own(_with(self, beta1=self.beta2, beta2=self.beta1), rate, k, g, buffers)


M("adam-betas-swapped", "beta1 and beta2 exchanged", optimizing("adam"), stepped(optimizers.Adam, _betas_swapped))


def _complex_moments(name: str) -> Predicate:
    return lambda case: case.kind == "optimizer" and case.config["complex"] and case.config["optimizer"]["name"] == name


def _over_root(self: Any, step: Any, v: Any) -> Any:
    return step / (np.sqrt(v + self.epsilon) if self.epsilon_inside else np.sqrt(v) + self.epsilon)


def _shared_modulus(own: Any, self: Any, rate: Any, k: Any, g: Any, buffers: Any) -> Any:
    """One second moment |g|^2 for real and imaginary part."""
    own(self, rate, k, g, buffers)
    v = np.repeat(buffers["v"].reshape(-1, 2).sum(axis=1), 2)
    if isinstance(self, optimizers.Adam):
        return rate * buffers["m"] / (1 - self.beta1**k) / (np.sqrt(v / (1 - self.beta2**k)) + self.epsilon)
    return _over_root(self, rate * g, v)


M(
    "adam-shared-modulus",
    "one second moment |g|^2 for real and imaginary part",
    _complex_moments("adam"),
    stepped(optimizers.Adam, _shared_modulus),
)


def _rmsprop_with(argument: str, value: Any) -> Predicate:
    return option("rmsprop", argument, lambda given: given != value)


M(
    "rmsprop-initial-0",
    "RMSprop from v = 0 (Keras, PyTorch)",
    _rmsprop_with("initial", 0.0),
    reconfigured("rmsprop", initial=1e-30),
)
M(
    "rmsprop-initial-1",
    "RMSprop from v = 1 (TensorFlow 1)",
    _rmsprop_with("initial", 1.0),
    reconfigured("rmsprop", initial=1.0),
)
M(
    "rmsprop-initial-0.001",
    "RMSprop from v = 0.001 (uRNN)",
    _rmsprop_with("initial", 1e-3),
    reconfigured("rmsprop", initial=1e-3),
)


def _outside(case: Case) -> bool:
    return option("rmsprop", "epsilon_inside", lambda inside: not inside)(case) and option("rmsprop", "epsilon", bool)(
        case
    )


M(
    "rmsprop-epsilon-inside",
    "RMSprop's epsilon inside the root (TensorFlow 1)",
    _outside,
    reconfigured("rmsprop", epsilon_inside=True),
)


def _inside(case: Case) -> bool:
    return option("rmsprop", "epsilon_inside", bool)(case)


M(
    "rmsprop-epsilon-outside",
    "RMSprop's epsilon outside the root",
    _inside,
    reconfigured("rmsprop", epsilon_inside=False),
)
M(
    "rmsprop-epsilon-1e-7",
    "RMSprop's epsilon 1e-7 (Keras)",
    _rmsprop_with("epsilon", 1e-7),
    reconfigured("rmsprop", epsilon=1e-7),
)
M(
    "rmsprop-decay-0.9",
    "RMSprop's decay 0.9 (TensorFlow, Keras)",
    _rmsprop_with("decay", 0.9),
    reconfigured("rmsprop", decay=0.9),
)
M(
    "rmsprop-decay-0.99",
    "RMSprop's decay 0.99 (PyTorch)",
    _rmsprop_with("decay", 0.99),
    reconfigured("rmsprop", decay=0.99),
)


def _decay_swapped(own: Any, self: Any, rate: Any, k: Any, g: Any, buffers: Any) -> Any:
    return own(_with(self, decay=1 - self.decay), rate, k, g, buffers)


M(
    "rmsprop-decay-swapped",
    "decay and 1 - decay exchanged",
    optimizing("rmsprop"),
    stepped(optimizers.RMSprop, _decay_swapped),
)


def _old_square(own: Any, self: Any, rate: Any, k: Any, g: Any, buffers: Any) -> Any:
    """The running mean from before this gradient."""
    v = buffers["v"].copy()
    own(self, rate, k, g, buffers)
    return _over_root(self, rate * g, v)


M(
    "rmsprop-old-square",
    "the mean square from before the gradient",
    optimizing("rmsprop"),
    stepped(optimizers.RMSprop, _old_square),
)


def _centered(own: Any, self: Any, rate: Any, k: Any, g: Any, buffers: Any) -> Any:
    """The variance in place of the mean square (PyTorch's centered)."""
    own(self, rate, k, g, buffers)
    mean = buffers["mean"] = self.decay * buffers.get("mean", 0 * g) + (1 - self.decay) * g
    return _over_root(self, rate * g, buffers["v"] - mean * mean)


M(
    "rmsprop-centered",
    "the variance for the mean square (PyTorch's centered)",
    optimizing("rmsprop"),
    stepped(optimizers.RMSprop, _centered),
)
M(
    "rmsprop-shared-modulus",
    "one mean square |g|^2 for real and imaginary part",
    _complex_moments("rmsprop"),
    stepped(optimizers.RMSprop, _shared_modulus),
)


def _dampened(own: Any, self: Any, rate: Any, k: Any, g: Any, buffers: Any) -> Any:
    return own(self, rate, k, (1 - self.momentum) * g, buffers)


M(
    "momentum-dampened",
    "momentum with dampening, m = b m + (1 - b) g",
    option("sgd", "momentum", bool),
    stepped(optimizers.SGD, _dampened),
)


def _nesterov(own: Any, self: Any, rate: Any, k: Any, g: Any, buffers: Any) -> Any:
    own(self, rate, k, g, buffers)
    return rate * (g + self.momentum * buffers["m"])


M("momentum-nesterov", "Nesterov's momentum", option("sgd", "momentum", bool), stepped(optimizers.SGD, _nesterov))
M("no-momentum", "no momentum", option("sgd", "momentum", bool), reconfigured("sgd", momentum=0.0))


def _decays(case: Case) -> bool:
    return _stepping(case) and case.config["optimizer"]["weight_decay"] > 0


def _decoupled(own: Any) -> Any:
    """The decay subtracted beside the step, not added to the gradient (AdamW)."""

    def delta(self: Any, name: str, parameter: Any, gradient: Any) -> Any:
        rate = float(self.learning_rate(0))
        return own(_with(self, weight_decay=0.0), name, parameter, gradient) + rate * self.weight_decay * parameter

    return delta


M(
    "weight-decay-decoupled",
    "weight decay beside the step (AdamW)",
    _decays,
    patched((optimizers.Elementwise, "delta", _decoupled)),
)
M(
    "no-weight-decay",
    "no weight decay",
    _decays,
    patched(
        (optimizers.Elementwise, "delta", lambda own: lambda self, *rest: own(_with(self, weight_decay=0.0), *rest))
    ),
)


_NO_EPSILON = 1e-30  # for 0, which an optimizer refuses where it divides by nothing else
_EPSILONS = tuple(10.0**-k for k in range(1, 13))
_DECAYS = (0.5, 0.9, 0.99, 0.999)


def _argument(name: str, argument: str, near: tuple[float, ...], **others: Any) -> Callable[[float], Any]:
    """An optimizer with another number, epsilon 0 being next to nothing."""
    least = _NO_EPSILON if near is _EPSILONS else 0.0
    return lambda number: reconfigured(name, **{argument: max(number, least)}, **others)


def _epsilon_given(change: Callable[..., Any]) -> Callable[[float], Callable[[Case, Base], Arrays]]:
    """A step of Adam's with another epsilon."""

    def at(epsilon: float) -> Callable[[Case, Base], Arrays]:
        return stepped(
            optimizers.Adam, lambda own, self, *rest: change(own, _with(self, epsilon=max(epsilon, _NO_EPSILON)), *rest)
        )

    return at


_ADAM, _RMSPROP = optimizing("adam"), optimizing("rmsprop")
FITTED = (
    Fitted("adam-epsilon", "Adam's epsilon {}", _ADAM, _argument("adam", "epsilon", _EPSILONS), _EPSILONS),
    Fitted(
        "adam-epsilon-inside", "Adam's epsilon {} inside the root", _ADAM, _epsilon_given(_epsilon_in_root), _EPSILONS
    ),
    Fitted(
        "adam-epsilon-hat",
        "Adam's epsilon {} beside the uncorrected root",
        _ADAM,
        _epsilon_given(_epsilon_hat),
        _EPSILONS,
    ),
    Fitted("adam-beta1", "Adam's beta1 {}", _ADAM, _argument("adam", "beta1", _DECAYS), _DECAYS, below_1=True),
    Fitted("adam-beta2", "Adam's beta2 {}", _ADAM, _argument("adam", "beta2", _DECAYS), _DECAYS, below_1=True),
    Fitted(
        "rmsprop-epsilon",
        "RMSprop's epsilon {}, outside the root",
        _RMSPROP,
        _argument("rmsprop", "epsilon", _EPSILONS, epsilon_inside=False),
        _EPSILONS,
    ),
    Fitted(
        "rmsprop-epsilon-inside",
        "RMSprop's epsilon {}, inside the root",
        _RMSPROP,
        _argument("rmsprop", "epsilon", _EPSILONS, epsilon_inside=True),
        _EPSILONS,
    ),
    Fitted(
        "rmsprop-decay", "RMSprop's decay {}", _RMSPROP, _argument("rmsprop", "decay", _DECAYS), _DECAYS, below_1=True
    ),
    Fitted(
        "rmsprop-initial",
        "RMSprop from v = {}",
        _RMSPROP,
        _argument("rmsprop", "initial", _EPSILONS),
        (*_EPSILONS, 1.0),
    ),
    Fitted(
        "momentum",
        "momentum {}",
        option("sgd", "momentum", bool),
        _argument("sgd", "momentum", _DECAYS),
        _DECAYS,
        below_1=True,
    ),
)
