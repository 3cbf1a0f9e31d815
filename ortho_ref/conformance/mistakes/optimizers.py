"""Optimizers, in cases of their own and in updates of an orthogonal matrix."""

import copy
from collections.abc import Callable
from typing import Any

import numpy as np

from ortho_ref.conformance.cases.case import Arrays, Case
from ortho_ref.conformance.mistakes.applies import both
from ortho_ref.conformance.mistakes.fitted import Fitted
from ortho_ref.conformance.mistakes.mistake import Base, Outputs, Predicate, given, table
from ortho_ref.conformance.mistakes.patched import instead
from ortho_ref.conformance.mistakes.private import private

optimizers = private("ortho_ref.training.optimizers")


def _stepping(case: Case) -> bool:
    return case.kind in ("optimizer", "update")


def optimizing(name: str, good: Callable[[dict[str, Any]], bool] = lambda arguments: True) -> Predicate:
    """Cases in which this optimizer works, and its arguments are good."""

    def applies(case: Case) -> bool:
        return _stepping(case) and case.config["optimizer"]["name"] == name and good(case.config["optimizer"])

    return applies


def _complex_moments(name: str) -> Predicate:
    return both(optimizing(name), lambda case: case.kind == "optimizer" and case.config["complex"])


def reconfigured(name: str, **changes: Any) -> Outputs:
    """An optimizer with other arguments."""

    def outputs(case: Case, base: Base) -> Arrays:
        own = case.config["optimizer"]
        return base(given(case, optimizer=own | changes) if own["name"] == name else case)

    return outputs


def _with(self: Any, **changes: Any) -> Any:
    other = copy.copy(self)
    vars(other).update(changes)
    return other


def _moved(kind: Any, change: Callable[..., Any]) -> Outputs:
    """change(optimizer, rate, k, g, buffers) in place of the step, after the right one has moved the buffers."""

    def step(own: Any, *arguments: Any) -> Any:
        own(*arguments)
        return change(*arguments)

    return instead(kind, "_delta")(step)


# change(right, optimizer, rate, k, g, buffers)
_adam, _rmsprop, _sgd = (instead(kind, "_delta") for kind in (optimizers.Adam, optimizers.RMSprop, optimizers.SGD))
_any = instead(optimizers.Elementwise, "delta")  # change(right, optimizer, name, parameter, gradient)
_NO_EPSILON = 1e-30  # for 0, which an optimizer refuses where it divides by nothing else
ADAM, RMSPROP = optimizing("adam"), optimizing("rmsprop")
MOMENTUM = optimizing("sgd", lambda own: bool(own["momentum"]))


# Adam


def _k_as(change: Callable[[int], int]) -> Outputs:
    """Adam's bias correction of another update."""
    return _adam(lambda own, self, rate, k, *rest: own(self, rate, change(k), *rest))


def _epsilon_hat(own: Any, self: Any, rate: Any, k: Any, g: Any, buffers: Any) -> Any:
    return own(_with(self, epsilon=self.epsilon / np.sqrt(1 - self.beta2**k)), rate, k, g, buffers)


def _epsilon_in_root(own: Any, self: Any, rate: Any, k: Any, g: Any, buffers: Any) -> Any:
    own(self, rate, k, g, buffers)
    m, v = buffers["m"] / (1 - self.beta1**k), buffers["v"] / (1 - self.beta2**k)
    return rate * m / np.sqrt(v + self.epsilon)


def _over_v(self: Any, rate: Any, k: Any, m: Any, v: Any) -> Any:
    """Adam's step of these moments."""
    return rate * m / (1 - self.beta1**k) / (np.sqrt(v / (1 - self.beta2**k)) + self.epsilon)


def _square_of_new_moment(own: Any, self: Any, rate: Any, k: Any, g: Any, buffers: Any) -> Any:
    v = buffers["v"].copy()
    own(self, rate, k, g, buffers)
    m = buffers["m"]
    buffers["v"][...] = self.beta2 * v + (1 - self.beta2) * m * m
    return _over_v(self, rate, k, m, buffers["v"])


def _modulus(v: Any) -> Any:
    """|g|^2 for real and imaginary part, of the squares of each."""
    return np.repeat(v.reshape(-1, 2).sum(axis=1), 2)


# RMSprop


def _changed_to(argument: str, value: float) -> tuple[Predicate, Outputs]:
    """RMSprop with this value of an argument, where it has another value and is another with this one."""

    def good(own: dict[str, Any]) -> bool:
        matters = argument != "epsilon_inside" or own["epsilon"] > 0
        return matters and abs(own[argument] - value) > _NO_EPSILON

    return optimizing("rmsprop", good), reconfigured("rmsprop", **{argument: value})


def _over_root(self: Any, step: Any, v: Any) -> Any:
    return step / (np.sqrt(v + self.epsilon) if self.epsilon_inside else np.sqrt(v) + self.epsilon)


def _old_square(own: Any, self: Any, rate: Any, k: Any, g: Any, buffers: Any) -> Any:
    v = buffers["v"].copy()
    own(self, rate, k, g, buffers)
    return _over_root(self, rate * g, v)


def _centered(own: Any, self: Any, rate: Any, k: Any, g: Any, buffers: Any) -> Any:
    own(self, rate, k, g, buffers)
    mean = buffers["mean"] = self.decay * buffers.get("mean", 0 * g) + (1 - self.decay) * g
    return _over_root(self, rate * g, buffers["v"] - mean * mean)


# Momentum and weight decay


def _decays(case: Case) -> bool:
    return _stepping(case) and case.config["optimizer"]["weight_decay"] > 0


def _undecayed(own: Any, self: Any, *rest: Any) -> Any:
    return own(_with(self, weight_decay=0.0), *rest)


def _decoupled(own: Any, self: Any, name: Any, parameter: Any, gradient: Any) -> Any:
    beside = float(self.learning_rate(0)) * self.weight_decay * parameter
    return _undecayed(own, self, name, parameter, gradient) + beside


MISTAKES = table(
    ("step-ascends", "the step added, not subtracted", _stepping, _any(lambda own, *rest: -own(*rest))),
    ("adam-no-correction", "Adam without bias correction", ADAM, _k_as(lambda k: 10**9)),
    ("adam-m-uncorrected", "Adam with the second moment corrected alone",
     ADAM, _adam(lambda own, self, rate, k, *rest: own(self, rate, k, *rest) * (1 - self.beta1**k))),
    ("adam-k-late", "Adam's bias correction one update late", ADAM, _k_as(lambda k: max(k - 1, 1))),
    ("adam-k-early", "Adam's bias correction one update early", ADAM, _k_as(lambda k: k + 1)),
    ("adam-epsilon-1e-7", "Adam's epsilon 1e-7 (Keras)",
     optimizing("adam", lambda own: own["epsilon"] != 1e-7), reconfigured("adam", epsilon=1e-7)),
    ("adam-epsilon-hat", "Adam's epsilon beside the uncorrected root (TensorFlow 1)", ADAM, _adam(_epsilon_hat)),
    ("adam-epsilon-inside", "Adam's epsilon inside the root", ADAM, _adam(_epsilon_in_root)),
    ("adam-square-of-m", "the square of the first moment in Adam's second", ADAM, _adam(_square_of_new_moment)),
    ("adam-betas-swapped", "beta1 and beta2 exchanged",
     ADAM, _adam(lambda own, self, *rest: own(_with(self, beta1=self.beta2, beta2=self.beta1), *rest))),
    ("adam-shared-modulus", "one second moment |g|^2 for real and imaginary part",
     _complex_moments("adam"), _moved(
         optimizers.Adam, lambda self, rate, k, g, own: _over_v(self, rate, k, own["m"], _modulus(own["v"])))),
    ("rmsprop-initial-0", "RMSprop from v = 0 (Keras, PyTorch)", *_changed_to("initial", _NO_EPSILON)),
    ("rmsprop-initial-1", "RMSprop from v = 1 (TensorFlow 1)", *_changed_to("initial", 1.0)),
    ("rmsprop-initial-0.001", "RMSprop from v = 0.001 (uRNN)", *_changed_to("initial", 1e-3)),
    ("rmsprop-epsilon-inside", "RMSprop's epsilon inside the root (TensorFlow 1)",
     *_changed_to("epsilon_inside", True)),
    ("rmsprop-epsilon-outside", "RMSprop's epsilon outside the root", *_changed_to("epsilon_inside", False)),
    ("rmsprop-epsilon-1e-7", "RMSprop's epsilon 1e-7 (Keras)", *_changed_to("epsilon", 1e-7)),
    ("rmsprop-decay-0.9", "RMSprop's decay 0.9 (TensorFlow, Keras)", *_changed_to("decay", 0.9)),
    ("rmsprop-decay-0.99", "RMSprop's decay 0.99 (PyTorch)", *_changed_to("decay", 0.99)),
    ("rmsprop-decay-swapped", "decay and 1 - decay exchanged",
     RMSPROP, _rmsprop(lambda own, self, *rest: own(_with(self, decay=1 - self.decay), *rest))),
    ("rmsprop-old-square", "the mean square from before the gradient", RMSPROP, _rmsprop(_old_square)),
    ("rmsprop-centered", "the variance for the mean square (PyTorch's centered)", RMSPROP, _rmsprop(_centered)),
    ("rmsprop-shared-modulus", "one mean square |g|^2 for real and imaginary part",
     _complex_moments("rmsprop"), _moved(
         optimizers.RMSprop, lambda self, rate, k, g, own: _over_root(self, rate * g, _modulus(own["v"])))),
    ("momentum-dampened", "momentum with dampening, m = b m + (1 - b) g",
     MOMENTUM, _sgd(lambda own, self, rate, k, g, buffers: own(self, rate, k, (1 - self.momentum) * g, buffers))),
    ("momentum-nesterov", "Nesterov's momentum",
     MOMENTUM, _moved(optimizers.SGD, lambda self, rate, k, g, own: rate * (g + self.momentum * own["m"]))),
    ("no-momentum", "no momentum", MOMENTUM, reconfigured("sgd", momentum=0.0)),
    ("weight-decay-decoupled", "weight decay beside the step (AdamW)", _decays, _any(_decoupled)),
    ("no-weight-decay", "no weight decay", _decays, _any(_undecayed)),
)  # fmt: skip


# With a number that is found

_EPSILONS = tuple(10.0**-k for k in range(1, 13))
_DECAYS = (0.5, 0.9, 0.99, 0.999)


def _argument(name: str, argument: str, **others: Any) -> Callable[[float], Outputs]:
    """An optimizer with another number, 0 being next to nothing."""
    return lambda number: reconfigured(name, **{argument: max(number, _NO_EPSILON)}, **others)


def _epsilon(change: Callable[..., Any]) -> Callable[[float], Outputs]:
    """A step of Adam's with another epsilon."""
    return lambda number: _adam(
        lambda own, self, *rest: change(own, _with(self, epsilon=max(number, _NO_EPSILON)), *rest)
    )


_OUT, _IN = (_argument("rmsprop", "epsilon", epsilon_inside=inside) for inside in (False, True))
FITTED = (
    Fitted("adam-epsilon", "Adam's epsilon {}", ADAM, _argument("adam", "epsilon"), _EPSILONS),
    Fitted("adam-epsilon-inside", "Adam's epsilon {} inside the root", ADAM, _epsilon(_epsilon_in_root), _EPSILONS),
    Fitted(
        "adam-epsilon-hat", "Adam's epsilon {} beside the uncorrected root", ADAM, _epsilon(_epsilon_hat), _EPSILONS
    ),
    Fitted("adam-beta1", "Adam's beta1 {}", ADAM, _argument("adam", "beta1"), _DECAYS, below_1=True),
    Fitted("adam-beta2", "Adam's beta2 {}", ADAM, _argument("adam", "beta2"), _DECAYS, below_1=True),
    Fitted("rmsprop-epsilon", "RMSprop's epsilon {}, outside the root", RMSPROP, _OUT, _EPSILONS),
    Fitted("rmsprop-epsilon-inside", "RMSprop's epsilon {}, inside the root", RMSPROP, _IN, _EPSILONS),
    Fitted("rmsprop-decay", "RMSprop's decay {}", RMSPROP, _argument("rmsprop", "decay"), _DECAYS, below_1=True),
    Fitted("rmsprop-initial", "RMSprop from v = {}", RMSPROP, _argument("rmsprop", "initial"), (*_EPSILONS, 1.0)),
    Fitted("momentum", "momentum {}", MOMENTUM, _argument("sgd", "momentum"), _DECAYS, below_1=True),
)
