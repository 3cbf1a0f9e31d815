"""Maps but for Cayley's and Householder's: geodesic steps, the exponential, rotations, the structured matrix."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from ortho_ref.conformance.cases.case import Arrays, Case, joined, parted
from ortho_ref.conformance.mistakes.applies import of, updates
from ortho_ref.conformance.mistakes.mistake import (
    Base,
    Family,
    Outputs,
    altered,
    around,
    conjugate,
    fed,
    given,
    gradient_at,
    instead,
    negative,
    nothing,
    patched,
    read_as,
    scaled,
    swapped,
    through,
    times,
)
from ortho_ref.conformance.mistakes.private import private

geodesic = private("ortho_ref.parametrizations.geodesic")
exponential = private("ortho_ref.parametrizations.exponential")
rotations = private("ortho_ref.parametrizations.rotations")

MISTAKES = Family()
M, named = MISTAKES.add, MISTAKES.named

GEODESIC = updates("geodesic_unitary")
EXP = of("exponential")
A = "params.A"

# Geodesic steps

RETRACT = instead(geodesic.GeodesicUnitary, "retract")


def _geodesic(change: Callable[[Any, Any], Any]) -> Outputs:
    """Another delta of the geodesic step: change(X, delta)."""

    def retract(own: Any, self: Any, params: Any, buffers: Any, delta: Any) -> Any:
        return own(self, params, buffers, {"X": change(params["X"], delta["X"])})

    return RETRACT(retract)


@named("geodesic-as-printed", "A = G^H U - U^H G, as printed", GEODESIC, _geodesic)
def _as_printed(X: Any, delta: Any) -> Any:
    """delta X^H is to be G^H U, whatever rounding has left of U^H U = I."""
    return delta.conj().T @ X @ np.linalg.inv(X.conj().T)


M("geodesic-uphill", "A with its sign flipped", GEODESIC, _geodesic(lambda X, G: -G))
M("geodesic-twice", "rate A in place of (rate / 2) A", GEODESIC, _geodesic(lambda X, G: 2 * G))
M("geodesic-real-gradient", "the real part of the gradient alone", GEODESIC, _geodesic(lambda X, G: G.real + 0j))
M("geodesic-conjugated", "the gradient conjugated (JAX, autograd)", GEODESIC, _geodesic(lambda X, G: G.conj()))


@named("geodesic-additive", "U - delta, not a geodesic step", GEODESIC, RETRACT)
def _additive(own: Any, self: Any, params: Any, buffers: Any, delta: Any) -> Any:
    """Not unitary any more."""
    X = params["X"] - delta["X"]
    return {"X": X}, {**buffers, "U": X}


# The exponential


M("exp-transposed", "exp(-A) for exp(A)", EXP, read_as(negative, negative, A))
M("exp-half", "exp(A / 2)", EXP, read_as(times(0.5), times(0.5), A))


@named("exp-gradient-at-0", "exp's derivative as at A = 0", EXP, altered)
def _as_at_zero(case: Case, found: Arrays) -> Arrays:
    return {"d_params.A": case.inputs["dU"] - case.inputs["dU"].T}


@named("exp-gradient-tangent", "U^T dU - dU^T U for the gradient", EXP, altered)
def _by_tangent(case: Case, found: Arrays) -> Arrays:
    """exp's derivative as at A = 0, carried to U: the skew part of U^T dU."""
    W = found["U"].T @ case.inputs["dU"]
    return {"d_params.A": W - W.T}


DERIVATIVE = instead(exponential, "exponential_derivative")
M("exp-derivative-at-A", "exp's derivative at A, not at A^T", EXP, DERIVATIVE(lambda own, A, E: own(A.T, E)))


@named("exp-no-projection", "the gradient not made skew", EXP, instead(exponential.Exponential, "pullback"))
def _unprojected(own: Any, self: Any, params: Any, buffers: Any, dU: Any) -> Any:
    return {"A": exponential.exponential_derivative(params["A"].T, dU)}


M(
    "exp-gradient-half",
    "the projection on skew matrices, half the derivative by the free entries",
    EXP,
    scaled(lambda case: 0.5, "d_params.A"),
)


# Rotations

STYLES = (rotations.TunableRotations, rotations.FFTRotations, rotations.VolumePreserving)
_rotating = of("tunable_rotations", "fft_rotations", "volume_preserving")


def _angles_negative(case: Case, base: Base) -> Arrays:
    return read_as(negative, negative, "params.theta*", "params.Theta")(case, base)


M("rotation-sign", "angles with their sign flipped", _rotating, _angles_negative)


def _layers(change: Callable[[list[Any]], list[Any]]) -> Outputs:
    """Other layers of the rotations, or in another order."""

    def layers(own: Any, self: Any, n: int, buffers: Any) -> Iterator[Any]:
        return iter(change(list(own(self, n, buffers))))

    return patched(*(around(style, "_layers", layers) for style in STYLES))


M("rotation-layers-reversed", "the layers in the opposite order", _rotating, _layers(lambda own: own[::-1]))


def _B_before_A(layers: list[Any]) -> list[Any]:
    return [layer for pair in zip(layers[1::2], layers[::2], strict=True) for layer in pair]


def _reordered(angles: Any, own: Any, kind: str) -> Any:
    row = angles(own, kind)
    return row.T.reshape(-1).reshape(row.shape)


def _columns_by_block(layers: list[Any]) -> list[Any]:
    return [layer._replace(angles=partial(_reordered, layer.angles)) for layer in layers]


def _even_odd(layers: list[Any]) -> list[Any]:
    return [layer._replace(pairs=lambda M: (M[::2], M[1::2])) for layer in layers]


for name, says, kind, change in (
    ("tunable-B-first", "the layers B A B A ... for A B A B ...", "tunable_rotations", _B_before_A),
    ("fft-columns", "FFT style with the angles of a row taken block by block", "fft_rotations", _columns_by_block),
    ("volume-even-odd", "pairs (0, 1), (2, 3) ... for (i, i + n/2)", "volume_preserving", _even_odd),
):
    M(name, says, of(kind), _layers(change))


@named("permutation-inverse", "the permutations' inverses", of("volume_preserving", "structured_unitary"), fed)
def _inverse_permutations(case: Case) -> Arrays:
    names = [name for name in ("permutations", "permutation") if name in case.inputs]
    return {name: np.argsort(case.inputs[name], axis=-1) for name in names}


def _phased(case: Case) -> bool:
    return of("tunable_rotations", "fft_rotations")(case) and bool(case.config["complex"])


M("phase-sign", "phases with their sign flipped", _phased, read_as(negative, negative, "params.phi*"))


def _other_way_round(pairs: Any, M: Any) -> Any:
    return pairs(M)[::-1]


def _swapped(layers: list[Any]) -> list[Any]:
    return [layer._replace(pairs=partial(_other_way_round, layer.pairs)) for layer in layers]


@named("phase-on-upper", "the phase on the upper input of a pair, not the lower", _phased)
def _phase_on_upper(case: Case, base: Base) -> Arrays:
    """With the two rows of every pair exchanged and the angles negative the phase is the upper input's."""
    return _layers(_swapped)(case, lambda inner: _angles_negative(inner, base))


@named("phase-on-row", "the phase on the first row of a rotation (the EUNN paper)", _phased)
def _phase_on_row(case: Case, base: Base) -> Arrays:
    """e^{iw} times the adjoint of: the layers backwards, the rows of every pair exchanged, the phases negative."""
    D, dU = np.exp(1j * case.inputs["params.omega"])[:, None], joined(case.inputs["dU"])
    inner = {"params.omega": nothing(case.inputs["params.omega"]), "dU": parted((D.conj() * dU).conj().T)}
    backwards = _layers(lambda own: _swapped(own)[::-1])
    turned = read_as(negative, negative, "params.phi*")
    found = backwards(given(case, inner), lambda c: turned(c, base))
    U = D * joined(found["U"]).conj().T
    return {**found, "U": parted(U), "d_params.omega": (dU * U.conj()).imag.sum(axis=1)}


M("no-diagonal", "no final diagonal", _phased, read_as(nothing, nothing, "params.omega"))
M("diagonal-sign", "e^{-iw} for e^{iw} in the final diagonal", _phased, read_as(negative, negative, "params.omega"))


M("rotation-layer-missing", "the last layer missing", _rotating, _layers(lambda own: own[:-1]))


# Complex maps


def _complex_map(case: Case) -> bool:
    return _phased(case) or of("structured_unitary")(case)


_conjugated_map = through(conjugate, ("dU",), ("U",))
M("map-conjugated", "U^* for U", _complex_map, _conjugated_map)


@named("map-gradient-conjugated", "dL/dU conjugated (JAX, autograd)", _complex_map)
def _jax_cotangent(case: Case, base: Base) -> Arrays:
    return {**_conjugated_map(case, base), "U": base(case)["U"]}


STRUCTURED = of("structured_unitary")
V, W = ("params.v_1", "params.v_2"), ("params.w_1", "params.w_2", "params.w_3")
D_V = ("d_params.v_1", "d_params.v_2")
M(
    "reflection-conjugate",
    "reflections in the conjugate of v (uRNN's code)",
    STRUCTURED,
    read_as(conjugate, conjugate, *V),
)


def _unit_vector(array: np.ndarray) -> np.ndarray:
    return array / np.linalg.norm(array)


M("reflection-length", "the gradient by v / |v|, not by v", STRUCTURED, gradient_at(_unit_vector, *V))
M("reflection-gradient-conjugated", "the gradients of v conjugated", STRUCTURED, through(conjugate, (), D_V))
M(
    "reflection-gradient-half",
    "Wirtinger derivatives by v, half the gradient",
    STRUCTURED,
    scaled(lambda case: 0.5, *D_V),
)
M("structured-D1-D3", "D_1 and D_3 exchanged", STRUCTURED, swapped(W[0], W[2]))
for j, name in enumerate(W, 1):
    M(f"structured-D{j}-sign", f"e^{{-iw}} for e^{{iw}} in D_{j}", STRUCTURED, read_as(negative, negative, name))
M("structured-D-sign", "e^{-iw} for e^{iw} in D_1, D_2 and D_3", STRUCTURED, read_as(negative, negative, *W))
M("structured-R1-R2", "R_1 and R_2 exchanged", STRUCTURED, swapped(*V))


@named("structured-F-inverse", "F and F^-1 exchanged", STRUCTURED)
def _transforms_exchanged(case: Case, base: Base) -> Arrays:
    """The conjugate of U at -w and v^*."""

    def at_conjugates(inner: Case) -> Arrays:
        turned = read_as(negative, negative, *W)
        return read_as(conjugate, conjugate, *V)(inner, lambda c: turned(c, base))

    return _conjugated_map(case, at_conjugates)
