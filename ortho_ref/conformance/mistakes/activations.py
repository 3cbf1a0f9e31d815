"""Activations and their derivatives, in the cells and alone."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ortho_ref.conformance.case import Arrays, Case
from ortho_ref.conformance.fitted import Fitted
from ortho_ref.conformance.mistake import Base, Family, Patch, Predicate, configured, patched
from ortho_ref.conformance.mistakes.applies import cell, is_complex, off_kinks, phi, sequence
from ortho_ref.conformance.private import private

reference = private("ortho_ref.conformance.reference")
activations = private("ortho_ref.activations")
ACTIVATIONS = activations.ACTIVATIONS
GATED = ("gru_reset_before", "gru_reset_after", "lstm", "fastrnn")

MISTAKES = Family()
M = MISTAKES.add


def _sigmoids(case: Case) -> bool:
    """Where a sigmoid is computed."""
    gates = case.config.get("reset_gate", True) or case.config.get("update_gate", True)
    return phi(case) == "sigmoid" or (cell(case) in GATED and bool(gates))


def _sigmoid(value: Callable[[Any], Any], derivative: Callable[[Any], Any]) -> tuple[Patch, ...]:
    """Another sigmoid in every cell and in the activations; its derivative from its value."""
    modules = (*(private(f"ortho_ref.cells.{name}") for name in GATED), reference)
    return tuple(
        patch
        for module in modules
        for patch in ((module, "sigmoid", lambda _: value), (module, "sigmoid_derivative", lambda _: derivative))
    )


def hard_sigmoid(slope: float) -> tuple[Patch, ...]:
    """The sigmoid as clip(slope a + 1/2, 0, 1)."""
    return _sigmoid(lambda a: np.clip(slope * a + 0.5, 0, 1), lambda y: slope * ((y > 0) & (y < 1)))


M("hard-sigmoid-0.2", "clip(0.2 a + 0.5, 0, 1) for the sigmoid (Keras 2)", _sigmoids, patched(*hard_sigmoid(0.2)))
M(
    "hard-sigmoid-1/6",
    "clip(a / 6 + 0.5, 0, 1) for the sigmoid (PyTorch, Keras 3)",
    _sigmoids,
    patched(*hard_sigmoid(1 / 6)),
)


def _any_modrelu(case: Case) -> bool:
    return phi(case) == "modrelu" and off_kinks(case)


Radial = Callable[[Any, Any], tuple[Any, Any, Any]]


def _phase(z: Any) -> Any:
    return z / abs(z)


def modrelu_as(radial: Radial) -> tuple[Patch, ...]:
    """modReLU with another size.

    Parameters
    ----------
    radial : callable
        radial(|z|, b) -> the size, its derivative by |z|, its derivative by b.

    Returns
    -------
    tuple of Patch
        For `patched`.
    """

    def value(z: Any, b: Any) -> Any:
        return _phase(z) * radial(abs(z), b)[0]

    def pullback(dy: Any, z: Any, b: Any, y: Any) -> tuple[Any, Any]:
        size, slope, of_b = radial(abs(z), b)
        e = _phase(z)
        along = (e.conj() * dy).real
        return e * along * slope + size / abs(z) * (dy - e * along), along * of_b

    return ((ACTIVATIONS, "modrelu", lambda own: own._replace(value=value, pullback=pullback)),)


def in_denominator(epsilon: float) -> Radial:
    """rho / (rho + epsilon) max(rho + b, 0), as uRNN's code."""

    def radial(rho: Any, b: Any) -> tuple[Any, Any, Any]:
        on, part = rho + b > 0, rho / (rho + epsilon)
        return part * on * (rho + b), on * (part + epsilon / (rho + epsilon) ** 2 * (rho + b)), on * part

    return radial


EPSILONS = tuple(10.0**-k for k in range(1, 11))


def _radial(
    name: str, says: str, applies: Predicate, radial: Callable[[float], Radial], near: tuple[float, ...] = EPSILONS
) -> Fitted:
    """modReLU with another size, which has a number in it."""
    return Fitted(name, says, applies, lambda number: patched(*modrelu_as(radial(number))), near)


_DENOMINATOR = _radial("modrelu-epsilon", "modReLU with |z| + {} in the denominator", _any_modrelu, in_denominator)
MISTAKES.append(_DENOMINATOR.at(1e-5, says="modReLU with |z| + 1e-5 in the denominator (uRNN)"))


def in_relu(epsilon: float) -> Radial:
    """max(rho + epsilon + b, 0), as GORU's code."""

    def radial(rho: Any, b: Any) -> tuple[Any, Any, Any]:
        on = rho + epsilon + b > 0
        return on * (rho + epsilon + b), 1.0 * on, 1.0 * on

    return radial


_IN_RELU = _radial("modrelu-in-relu", "modReLU of size max(|z| + {} + b, 0)", _any_modrelu, in_relu)
MISTAKES.append(_IN_RELU.at(1e-3, "modrelu-goru", "modReLU of size max(|z| + 0.001 + b, 0) (GORU)"))


def _real_modrelu(case: Case) -> bool:
    return phi(case) == "modrelu" and not is_complex(case) and off_kinks(case)


M(
    "modrelu-eurnn",
    "modReLU of size max(|z| + 0.01 + b, 0) (EURNN, real)",
    _real_modrelu,
    patched(*modrelu_as(in_relu(1e-2))),
)


def _complex_modrelu(case: Case) -> bool:
    return phi(case) == "modrelu" and is_complex(case) and off_kinks(case)


def in_both(epsilon: float) -> Radial:
    """rho / m max(m + b, 0) with m = rho + epsilon, as EURNN's complex code."""

    def radial(rho: Any, b: Any) -> tuple[Any, Any, Any]:
        m = rho + epsilon
        on = m + b > 0
        return on * rho / m * (m + b), on * (1 + b * epsilon / m**2), on * rho / m

    return radial


_IN_BOTH = _radial("modrelu-in-both", "modReLU with |z| + {} for |z|, also below z", _any_modrelu, in_both)
M(
    "modrelu-eurnn-complex",
    "modReLU with |z| + 0.01 for |z|, also below z (EURNN)",
    _complex_modrelu,
    _IN_BOTH.outputs(1e-2),
)


def in_root(epsilon: float, beside: float | None = None) -> Radial:
    """rho / (m + beside) max(m + b, 0) with m = sqrt(rho^2 + epsilon); full-capacity uRNN's has beside = epsilon."""
    beside = epsilon if beside is None else beside

    def radial(rho: Any, b: Any) -> tuple[Any, Any, Any]:
        m = np.sqrt(rho**2 + epsilon)
        on, size = m + b > 0, (m + b) / (m + beside)
        of_m = (beside - b) / (m + beside) ** 2
        return on * rho * size, on * (size + rho * of_m * rho / m), on * rho / (m + beside)

    return radial


_ROOT = _radial("modrelu-root", "modReLU with sqrt(|z|^2 + {0}) for |z|, + {0} below z", _any_modrelu, in_root)
MISTAKES.append(
    _ROOT.at(1e-5, "modrelu-root", "modReLU with sqrt(|z|^2 + 1e-5) for |z|, + 1e-5 below z (full-capacity uRNN)")
)
_ROOT_ALONE = _radial(
    "modrelu-root-alone", "modReLU with sqrt(|z|^2 + {}) for |z|", _any_modrelu, lambda epsilon: in_root(epsilon, 0.0)
)
MISTAKES.append(_ROOT_ALONE.at(1e-5))


def in_phase(epsilon: float) -> Radial:
    """rho / m max(rho + b, 0) with m = sqrt(rho^2 + epsilon): z / m for the phase alone."""

    def radial(rho: Any, b: Any) -> tuple[Any, Any, Any]:
        on, m = rho + b > 0, np.sqrt(rho**2 + epsilon)
        return on * rho / m * (rho + b), on * (rho / m + epsilon / m**3 * (rho + b)), on * rho / m

    return radial


_PHASE = _radial("modrelu-phase", "modReLU with z / sqrt(|z|^2 + {}) for its phase", _any_modrelu, in_phase)
MISTAKES.append(_PHASE.at(1e-5))


def _valued(name: str, change: Callable[[Any], Any]) -> Callable[[Case, Base], Arrays]:
    return patched((ACTIVATIONS, name, change))


def _bias_added(own: Any) -> Any:
    """modReLU of a + b without a bias of its own, which is a + b."""
    return own._replace(value=lambda a, b: a + b, pullback=lambda dy, a, b, y: (dy, dy.real))


M("modrelu-bias-outside", "modReLU without its bias, added to z instead", _any_modrelu, _valued("modrelu", _bias_added))


def _bias_twice(own: Any) -> Any:
    """modReLU of a + b, with b inside as well."""

    def pullback(dy: Any, a: Any, b: Any, y: Any) -> tuple[Any, Any]:
        da, db = own.pullback(dy, a + b, b, y)
        return da, db + da.real

    return own._replace(value=lambda a, b: own.value(a + b, b), pullback=pullback)


M("modrelu-bias-twice", "modReLU's bias inside and added to z", _any_modrelu, _valued("modrelu", _bias_twice))


def leaky(slope: float) -> Radial:
    """max(rho + b, 0) with a slope instead of 0 where rho + b < 0."""

    def radial(rho: Any, b: Any) -> tuple[Any, Any, Any]:
        inside = rho + b
        slopes = np.where(inside > 0, 1.0, slope)
        return slopes * inside, slopes, slopes

    return radial


_LEAKY = _radial("modrelu-leaky", "modReLU with slope {} where |z| + b < 0", _any_modrelu, leaky, (*EPSILONS, 0.5))
MISTAKES.append(_LEAKY.at(0.1, "modrelu-leaky"))
M("modrelu-is-relu", "max(z + b, 0) for modReLU", _real_modrelu, _valued("modrelu", lambda own: ACTIVATIONS["relu"]))


def _pulled(change: Callable[..., tuple[Any, Any]], name: str = "modrelu") -> Callable[[Case, Base], Arrays]:
    """Another pullback of an activation, made from (right pullback, dy, a, b, y)."""

    def make(own: Any) -> Any:
        return own._replace(pullback=lambda dy, a, b, y: change(own.pullback, dy, a, b, y))

    return patched((ACTIVATIONS, name, make))


M(
    "modrelu-sign-in-dz",
    "modReLU's derivative by z with a sign(z) too many",
    _real_modrelu,
    _pulled(lambda own, dy, a, b, y: (np.sign(a) * own(dy, a, b, y)[0], own(dy, a, b, y)[1])),
)
M(
    "modrelu-no-sign-in-db",
    "modReLU's derivative by b without sign(z)",
    _real_modrelu,
    _pulled(lambda own, dy, a, b, y: (own(dy, a, b, y)[0],) * 2),
)


def _constant_phase(own: Any, dy: Any, a: Any, b: Any, y: Any) -> tuple[Any, Any]:
    along = own(dy, a, b, y)[1]
    return _phase(a) * along, along


M(
    "modrelu-phase-constant",
    "the phase z / |z| a constant in modReLU's derivative",
    _complex_modrelu,
    _pulled(_constant_phase),
)
M(
    "modrelu-derivative-1",
    "modReLU's derivative by z taken as 1 everywhere, that by b as z / |z|",
    _any_modrelu,
    _pulled(lambda own, dy, a, b, y: (dy, (_phase(a).conj() * dy).real)),
)
M(
    "tanh-always",
    "tanh whatever the activation (onnx.reference's GRU)",
    lambda case: sequence()(case) and not is_complex(case) and phi(case) in ("relu", "modrelu"),
    configured(activation="tanh"),
)


def _of_activation(name: str) -> Predicate:
    return lambda case: phi(case) == name and off_kinks(case)


M(
    "relu-derivative-1",
    "ReLU's derivative 1 everywhere",
    _of_activation("relu"),
    _pulled(lambda own, dy, a, b, y: (dy, dy), "relu"),
)


def _tanh_by_exp(a: Any, b: Any) -> Any:
    e = np.exp(2 * (a + b))
    return (e - 1) / (e + 1)


M(
    "tanh-by-exp",
    "(e^2a - 1) / (e^2a + 1) for tanh, which overflows",
    lambda case: case.kind == "activation" and phi(case) == "tanh",
    _valued("tanh", lambda own: own._replace(value=_tanh_by_exp)),
)
M(
    "sigmoid-by-exp",
    "e^a / (1 + e^a) for the sigmoid, which overflows",
    lambda case: phi(case) == "sigmoid",
    patched((reference, "sigmoid", lambda own: lambda a: np.exp(a) / (1 + np.exp(a)))),
)
M(
    "tanh-derivative-of-input",
    "1 - a^2 for tanh's derivative 1 - tanh(a)^2",
    _of_activation("tanh"),
    _pulled(lambda own, dy, a, b, y: own(dy, a, b, a + b), "tanh"),
)


def _sigmoid_derivative(derivative: Callable[[Any], Any]) -> tuple[Patch, ...]:
    return tuple(p for p in _sigmoid(np.tanh, derivative) if p[1] == "sigmoid_derivative")


M(
    "sigmoid-derivative-1",
    "no derivative of the sigmoid",
    _sigmoids,
    patched(*_sigmoid_derivative(lambda y: 1.0 + 0 * y)),
)
M(
    "sigmoid-derivative-twice",
    "the sigmoid's derivative multiplied twice",
    _sigmoids,
    patched(*_sigmoid_derivative(lambda y: (y * (1 - y)) ** 2)),
)


def _slope_at(y: Any) -> Any:
    value = activations.sigmoid(y)
    return value * (1 - value)


M(
    "sigmoid-derivative-of-output",
    "the sigmoid's derivative at the sigmoid's value",
    _sigmoids,
    patched(*_sigmoid_derivative(_slope_at)),
)
M(
    "tanh-derivative-of-output",
    "tanh's derivative at tanh's value",
    _of_activation("tanh"),
    _pulled(lambda own, dy, a, b, y: own(dy, a, b, np.tanh(y)), "tanh"),
)

FITTED = (_DENOMINATOR, _IN_RELU, _IN_BOTH, _ROOT, _ROOT_ALONE, _PHASE, _LEAKY)
