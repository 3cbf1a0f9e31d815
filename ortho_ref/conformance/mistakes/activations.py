"""Activations and their derivatives, in the cells and alone."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ortho_ref.conformance.cases.case import Case
from ortho_ref.conformance.mistakes.applies import both, is_complex, neither, off_kinks, phi, sequence
from ortho_ref.conformance.mistakes.changes import sigmoid_slope
from ortho_ref.conformance.mistakes.fitted import Fitted
from ortho_ref.conformance.mistakes.mistake import Outputs, Predicate, reference, table
from ortho_ref.conformance.mistakes.patched import Patch, Patched
from ortho_ref.conformance.mistakes.private import private
from ortho_ref.conformance.mistakes.ways import configured

activations = private("ortho_ref.activations")
ACTIVATIONS = activations.ACTIVATIONS
GATED = ("gru_reset_before", "gru_reset_after", "lstm", "fastrnn")
_WITH_SIGMOID = (*(private(f"ortho_ref.cells.{name}") for name in GATED), reference)


def _sigmoids(case: Case) -> bool:
    """Where a sigmoid is computed."""
    gates = case.config.get("reset_gate", True) or case.config.get("update_gate", True)
    return phi(case) == "sigmoid" or (sequence(*GATED)(case) and bool(gates))


def _of(name: str) -> Predicate:
    return lambda case: phi(case) == name and off_kinks(case)


_modrelu = _of("modrelu")
_real_modrelu = both(_modrelu, neither(is_complex))
_complex_modrelu = both(_modrelu, is_complex)


def _derivative(derivative: Callable[[Any], Any]) -> tuple[Patch, ...]:
    """Another derivative of the sigmoid, from its value, in every cell and in the activations."""
    return tuple((module, "sigmoid_derivative", lambda _: derivative) for module in _WITH_SIGMOID)


def _sigmoid(value: Callable[[Any], Any], derivative: Callable[[Any], Any]) -> tuple[Patch, ...]:
    """Another sigmoid in every cell and in the activations; its derivative from its value."""
    return (*((module, "sigmoid", lambda _: value) for module in _WITH_SIGMOID), *_derivative(derivative))


def _hard_sigmoid(slope: float) -> Outputs:
    """The sigmoid as clip(slope a + 1/2, 0, 1)."""
    return Patched(*_sigmoid(lambda a: np.clip(slope * a + 0.5, 0, 1), lambda y: slope * ((y > 0) & (y < 1))))


def _phase(z: Any) -> Any:
    return z / abs(z)


def _changed(change: Callable[[Any], Any], name: str = "modrelu") -> Outputs:
    """Another activation, made from the right one."""
    return Patched((ACTIVATIONS, name, change))


def _pulled(change: Callable[..., tuple[Any, Any]], name: str = "modrelu") -> Outputs:
    """Another pullback of an activation: change(right pullback, dy, a, b, y)."""
    return _changed(lambda own: own._replace(pullback=lambda *arguments: change(own.pullback, *arguments)), name)


# modReLU of another size: radial(|z|, b) -> the size, its derivative by |z|, its derivative by b


def modrelu_as(radial: Callable[[Any, Any], tuple[Any, Any, Any]]) -> Outputs:
    """modReLU of another size."""

    def value(z: Any, b: Any) -> Any:
        return _phase(z) * radial(abs(z), b)[0]

    def pullback(dy: Any, z: Any, b: Any, y: Any) -> tuple[Any, Any]:
        size, slope, of_b = radial(abs(z), b)
        e = _phase(z)
        along = (e.conj() * dy).real
        return e * along * slope + size / abs(z) * (dy - e * along), along * of_b

    return _changed(lambda own: own._replace(value=value, pullback=pullback))


EPSILONS = tuple(10.0**-k for k in range(1, 11))


def _radial(name: str, says: str, parts: Callable[[float, Any], tuple[Any, Any, Any, Any]]) -> Fitted:
    """modReLU of size p max(m + b, 0): parts(number, |z|) -> m, its derivative by |z|, p, its derivative by |z|."""

    def radial(number: float, rho: Any, b: Any) -> tuple[Any, Any, Any]:
        m, dm, p, dp = parts(number, rho)
        on = m + b > 0
        return on * p * (m + b), on * (dp * (m + b) + p * dm), on * p

    return Fitted(name, says, _modrelu, lambda number: modrelu_as(partial(radial, number)), EPSILONS)


def _root(e: float, rho: Any, beside: float) -> tuple[Any, Any, Any, Any]:
    """m = sqrt(rho^2 + e), p = rho / (m + beside)."""
    m = np.sqrt(rho**2 + e)
    return m, rho / m, rho / (m + beside), (m + beside - rho * rho / m) / (m + beside) ** 2


def _leaky(slope: float, rho: Any, b: Any) -> tuple[Any, Any, Any]:
    """max(rho + b, 0) with a slope instead of 0 where rho + b < 0."""
    slopes = np.where(rho + b > 0, 1.0, slope)
    return slopes * (rho + b), slopes, slopes


DENOMINATOR, RELU, BOTH, ROOT, ROOT_ALONE, PHASE = (_radial(*row) for row in (
    ("modrelu-epsilon", "modReLU with |z| + {} in the denominator",
     lambda e, rho: (rho, 1, rho / (rho + e), e / (rho + e) ** 2)),
    ("modrelu-in-relu", "modReLU of size max(|z| + {} + b, 0)", lambda e, rho: (rho + e, 1, 1.0, 0)),
    ("modrelu-in-both", "modReLU with |z| + {} for |z|, also below z",
     lambda e, rho: (rho + e, 1, rho / (rho + e), e / (rho + e) ** 2)),
    ("modrelu-root", "modReLU with sqrt(|z|^2 + {0}) for |z|, + {0} below z", lambda e, rho: _root(e, rho, beside=e)),
    ("modrelu-root-alone", "modReLU with sqrt(|z|^2 + {}) for |z|", lambda e, rho: _root(e, rho, beside=0.0)),
    ("modrelu-phase", "modReLU with z / sqrt(|z|^2 + {}) for its phase",
     lambda e, rho: (rho, 1, *_root(e, rho, beside=0.0)[2:])),
))  # fmt: skip
LEAKY = Fitted("modrelu-leaky", "modReLU with slope {} where |z| + b < 0",
               _modrelu, lambda slope: modrelu_as(partial(_leaky, slope)), (*EPSILONS, 0.5))  # fmt: skip
FITTED = (DENOMINATOR, RELU, BOTH, ROOT, ROOT_ALONE, PHASE, LEAKY)


# modReLU otherwise, and the others


def _bias_twice(own: Any) -> Any:
    def pullback(dy: Any, a: Any, b: Any, y: Any) -> tuple[Any, Any]:
        da, db = own.pullback(dy, a + b, b, y)
        return da, db + da.real

    return own._replace(value=lambda a, b: own.value(a + b, b), pullback=pullback)


def _repulled(change: Callable[..., tuple[Any, Any]]) -> Outputs:
    """Another pullback of modReLU: change(a, the right da, the right db)."""
    return _pulled(lambda own, dy, a, b, y: change(a, *own(dy, a, b, y)))


def _tanh_by_exp(a: Any, b: Any) -> Any:
    e = np.exp(2 * (a + b))
    return (e - 1) / (e + 1)


_real_cell = both(sequence(), neither(is_complex))

MISTAKES = table(
    ("hard-sigmoid-0.2", "clip(0.2 a + 0.5, 0, 1) for the sigmoid (Keras 2)", _sigmoids, _hard_sigmoid(0.2)),
    ("hard-sigmoid-1/6", "clip(a / 6 + 0.5, 0, 1) for the sigmoid (PyTorch, Keras 3)", _sigmoids, _hard_sigmoid(1 / 6)),
    ("modrelu-epsilon-1e-05", "modReLU with |z| + 1e-5 in the denominator (uRNN)", _modrelu, DENOMINATOR.outputs(1e-5)),
    ("modrelu-goru", "modReLU of size max(|z| + 0.001 + b, 0) (GORU)", _modrelu, RELU.outputs(1e-3)),
    ("modrelu-eurnn", "modReLU of size max(|z| + 0.01 + b, 0) (EURNN, real)", _real_modrelu, RELU.outputs(1e-2)),
    ("modrelu-eurnn-complex", "modReLU with |z| + 0.01 for |z|, also below z (EURNN)",
     _complex_modrelu, BOTH.outputs(1e-2)),
    ("modrelu-root", "modReLU with sqrt(|z|^2 + 1e-5) for |z|, + 1e-5 below z (full-capacity uRNN)",
     _modrelu, ROOT.outputs(1e-5)),
    ROOT_ALONE.at(1e-5),
    PHASE.at(1e-5),
    ("modrelu-bias-outside", "modReLU without its bias, added to z instead", _modrelu,
     _changed(lambda own: own._replace(value=lambda a, b: a + b, pullback=lambda dy, a, b, y: (dy, dy.real)))),
    ("modrelu-bias-twice", "modReLU's bias inside and added to z", _modrelu, _changed(_bias_twice)),
    LEAKY.at(0.1, "modrelu-leaky"),
    ("modrelu-is-relu", "max(z + b, 0) for modReLU", _real_modrelu, _changed(lambda own: ACTIVATIONS["relu"])),
    ("modrelu-sign-in-dz", "modReLU's derivative by z with a sign(z) too many",
     _real_modrelu, _repulled(lambda a, da, db: (np.sign(a) * da, db))),
    ("modrelu-no-sign-in-db", "modReLU's derivative by b without sign(z)",
     _real_modrelu, _repulled(lambda a, da, db: (da, da))),
    ("modrelu-phase-constant", "the phase z / |z| a constant in modReLU's derivative",
     _complex_modrelu, _repulled(lambda a, da, db: (_phase(a) * db, db))),
    ("modrelu-derivative-1", "modReLU's derivative by z taken as 1 everywhere, that by b as z / |z|",
     _modrelu, _pulled(lambda own, dy, a, b, y: (dy, (_phase(a).conj() * dy).real))),
    ("tanh-always", "tanh whatever the activation (onnx.reference's GRU)",
     both(_real_cell, lambda case: phi(case) in ("relu", "modrelu")), configured(activation="tanh")),
    ("relu-derivative-1", "ReLU's derivative 1 everywhere",
     _of("relu"), _pulled(lambda own, dy, *rest: (dy, dy), "relu")),
    ("tanh-by-exp", "(e^2a - 1) / (e^2a + 1) for tanh, which overflows",
     both(_of("tanh"), lambda case: case.kind == "activation"),
     _changed(lambda own: own._replace(value=_tanh_by_exp), "tanh")),
    ("sigmoid-by-exp", "e^a / (1 + e^a) for the sigmoid, which overflows",
     _of("sigmoid"), Patched((reference, "sigmoid", lambda own: lambda a: np.exp(a) / (1 + np.exp(a))))),
    ("tanh-derivative-of-input", "1 - a^2 for tanh's derivative 1 - tanh(a)^2",
     _of("tanh"), _pulled(lambda own, dy, a, b, y: own(dy, a, b, a + b), "tanh")),
    ("sigmoid-derivative-1", "no derivative of the sigmoid", _sigmoids, Patched(*_derivative(lambda y: 1.0 + 0 * y))),
    ("sigmoid-derivative-twice", "the sigmoid's derivative multiplied twice",
     _sigmoids, Patched(*_derivative(lambda y: (y * (1 - y)) ** 2))),
    ("sigmoid-derivative-of-output", "the sigmoid's derivative at the sigmoid's value",
     _sigmoids, Patched(*_derivative(sigmoid_slope))),
    ("tanh-derivative-of-output", "tanh's derivative at tanh's value",
     _of("tanh"), _pulled(lambda own, dy, a, b, y: own(dy, a, b, np.tanh(y)), "tanh")),
)  # fmt: skip
