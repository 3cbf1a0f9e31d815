"""Maps but for Cayley's: geodesic steps, the exponential, rotations, the structured matrix, Householder reflections."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ortho_ref.conformance.cases.case import Arrays, Case, joined, parted
from ortho_ref.conformance.mistakes.applies import both, either, neither, of, updates
from ortho_ref.conformance.mistakes.changes import conjugate, negative, nothing, times, transposed
from ortho_ref.conformance.mistakes.mistake import Base, Outputs, chained, given, table
from ortho_ref.conformance.mistakes.patched import Patched, around, instead
from ortho_ref.conformance.mistakes.private import private
from ortho_ref.conformance.mistakes.ways import altered, fed, gradient_at, read_as, scaled, swapped, through

geodesic = private("ortho_ref.parametrizations.geodesic")
exponential = private("ortho_ref.parametrizations.exponential")
rotations = private("ortho_ref.parametrizations.rotations")
householder = private("ortho_ref.parametrizations.householder")

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


def _additive(own: Any, self: Any, params: Any, buffers: Any, delta: Any) -> Any:
    """Not unitary any more."""
    X = params["X"] - delta["X"]
    return {"X": X}, {**buffers, "U": X}


# The exponential

DERIVATIVE = instead(exponential, "exponential_derivative")


def _by_tangent(case: Case, found: Arrays) -> Arrays:
    """exp's derivative as at A = 0, carried to U: the skew part of U^T dU."""
    W = found["U"].T @ case.inputs["dU"]
    return {"d_params.A": W - W.T}


# Rotations

STYLES = (rotations.TunableRotations, rotations.FFTRotations, rotations.VolumePreserving)
_rotating = of("tunable_rotations", "fft_rotations", "volume_preserving")
_phased = of("tunable_rotations", "fft_rotations", complex=True)
_angles_negative = read_as(negative, "params.theta*", "params.Theta")
_phases_negative = read_as(negative, "params.phi*")


def _layers(change: Callable[[list[Any]], list[Any]]) -> Outputs:
    """Other layers of the rotations, or in another order."""
    return Patched(*(around(style, "_layers", lambda own, *rest: iter(change(list(own(*rest))))) for style in STYLES))


def _each(change: Callable[[Any], Any]) -> Outputs:
    """Each layer another."""
    return _layers(lambda layers: [change(layer) for layer in layers])


def _B_before_A(layers: list[Any]) -> list[Any]:
    return [layer for pair in zip(layers[1::2], layers[::2], strict=True) for layer in pair]


def _columns_by_block(layer: Any) -> Any:
    def angles(own: Any, kind: str) -> Any:
        row = layer.angles(own, kind)
        return row.T.reshape(row.shape)

    return layer._replace(angles=angles)


def _swapped(layer: Any) -> Any:
    """The two rows of every pair exchanged."""
    return layer._replace(pairs=lambda M: layer.pairs(M)[::-1])


_backwards = chained(_layers(lambda layers: layers[::-1]), _each(_swapped), _phases_negative)


def _phase_on_row(case: Case, base: Base) -> Arrays:
    """e^{iw} times the adjoint of: the layers backwards, the rows of every pair exchanged, the phases negative."""
    D, dU = np.exp(1j * case.inputs["params.omega"])[:, None], joined(case.inputs["dU"])
    inner = {"params.omega": nothing(case.inputs["params.omega"]), "dU": parted((D.conj() * dU).conj().T)}
    found = _backwards(given(case, inner), base)
    U = D * joined(found["U"]).conj().T
    return {**found, "U": parted(U), "d_params.omega": (dU * U.conj()).imag.sum(axis=1)}


# Complex maps

STRUCTURED = of("structured_unitary")
COMPLEX = either(_phased, STRUCTURED)
V, W = ("params.v_1", "params.v_2"), ("params.w_1", "params.w_2", "params.w_3")
D_V = ("d_params.v_1", "d_params.v_2")
_conjugated_map = through(conjugate, ("dU",), ("U",))


def _jax_cotangent(case: Case, base: Base) -> Arrays:
    return {**_conjugated_map(case, base), "U": base(case)["U"]}


# Householder reflections

HOUSEHOLDER = of("householder")
_several_reflections = both(HOUSEHOLDER, lambda case: case.config["reflections"] > 1)
_all_reflections = both(HOUSEHOLDER, lambda case: case.config["reflections"] == len(case.inputs["params.V"]))
_one_to_leave_out = both(_several_reflections, neither(_all_reflections))  # and that is a reflection


def _last_is(sign: int) -> Outputs:
    def change(case: Case) -> Arrays:
        V = case.inputs["params.V"].copy()
        V[-1, -1] = sign * abs(V[-1, -1])
        return {"params.V": V}

    return fed(change)


def _as_if_unit(own: Any) -> Any:
    """Y of H_j = I - 2 v_j v_j^T: S has 1/2 on its diagonal, whatever |v_j| is."""

    def solved(V: Any, right: Any, transposed: bool = False) -> Any:
        S = np.triu(V.T @ V, 1) + np.eye(V.shape[1]) / 2
        return np.linalg.solve(S.T if transposed else S, right)

    return staticmethod(solved)


def _last_left_out(case: Case, base: Base) -> Arrays:
    """H_1 ... H_(m-1)."""
    V, m = case.inputs["params.V"], case.config["reflections"]
    found = base(given(case, {"params.V": V[:, :-1]}, reflections=m - 1))
    return {**found, "d_params.V": np.concatenate([found["d_params.V"], nothing(V[:, -1:])], axis=1)}


MISTAKES = table(
    ("geodesic-as-printed", "A = G^H U - U^H G, as printed", GEODESIC,
     # delta X^H is to be G^H U, whatever rounding has left of U^H U = I
     _geodesic(lambda X, G: G.conj().T @ X @ np.linalg.inv(X.conj().T))),
    ("geodesic-uphill", "A with its sign flipped", GEODESIC, _geodesic(lambda X, G: -G)),
    ("geodesic-twice", "rate A in place of (rate / 2) A", GEODESIC, _geodesic(lambda X, G: 2 * G)),
    ("geodesic-real-gradient", "the real part of the gradient alone", GEODESIC, _geodesic(lambda X, G: G.real + 0j)),
    ("geodesic-conjugated", "the gradient conjugated (JAX, autograd)", GEODESIC, _geodesic(lambda X, G: G.conj())),
    ("geodesic-additive", "U - delta, not a geodesic step", GEODESIC, RETRACT(_additive)),
    ("exp-transposed", "exp(-A) for exp(A)", EXP, read_as(negative, A)),
    ("exp-half", "exp(A / 2)", EXP, read_as(times(0.5), A)),
    ("exp-gradient-at-0", "exp's derivative as at A = 0",
     EXP, altered(lambda case, found: {"d_params.A": case.inputs["dU"] - case.inputs["dU"].T})),
    ("exp-gradient-tangent", "U^T dU - dU^T U for the gradient", EXP, altered(_by_tangent)),
    ("exp-derivative-at-A", "exp's derivative at A, not at A^T", EXP, DERIVATIVE(lambda own, A, E: own(A.T, E))),
    ("exp-no-projection", "the gradient not made skew",
     EXP, instead(exponential.Exponential, "pullback")(
         lambda own, self, params, buffers, dU: {"A": exponential.exponential_derivative(params["A"].T, dU)})),
    ("exp-gradient-half", "the projection on skew matrices, half the derivative by the free entries",
     EXP, scaled(0.5, "d_params.A")),
    ("rotation-sign", "angles with their sign flipped", _rotating, _angles_negative),
    ("rotation-layers-reversed", "the layers in the opposite order", _rotating, _layers(lambda own: own[::-1])),
    ("tunable-B-first", "the layers B A B A ... for A B A B ...", of("tunable_rotations"), _layers(_B_before_A)),
    ("fft-columns", "FFT style with the angles of a row taken block by block",
     of("fft_rotations"), _each(_columns_by_block)),
    ("volume-even-odd", "pairs (0, 1), (2, 3) ... for (i, i + n/2)", of("volume_preserving"),
     _each(lambda layer: layer._replace(pairs=lambda M: (M[::2], M[1::2])))),
    ("permutation-inverse", "the permutations' inverses",
     of("volume_preserving", "structured_unitary"), read_as(lambda order: np.argsort(order, axis=-1), "permutation*")),
    ("phase-sign", "phases with their sign flipped", _phased, _phases_negative),
    ("phase-on-upper", "the phase on the upper input of a pair, not the lower",
     # so it is with the two rows of every pair exchanged and the angles negative
     _phased, chained(_each(_swapped), _angles_negative)),
    ("phase-on-row", "the phase on the first row of a rotation (the EUNN paper)", _phased, _phase_on_row),
    ("no-diagonal", "no final diagonal", _phased, read_as(nothing, "params.omega")),
    ("diagonal-sign", "e^{-iw} for e^{iw} in the final diagonal", _phased, read_as(negative, "params.omega")),
    ("rotation-layer-missing", "the last layer missing", _rotating, _layers(lambda own: own[:-1])),
    ("map-conjugated", "U^* for U", COMPLEX, _conjugated_map),
    ("map-gradient-conjugated", "dL/dU conjugated (JAX, autograd)", COMPLEX, _jax_cotangent),
    ("reflection-conjugate", "reflections in the conjugate of v (uRNN's code)", STRUCTURED, read_as(conjugate, *V)),
    ("reflection-length", "the gradient by v / |v|, not by v",
     STRUCTURED, gradient_at(lambda v: v / np.linalg.norm(v), *V)),
    ("reflection-gradient-conjugated", "the gradients of v conjugated", STRUCTURED, through(conjugate, (), D_V)),
    ("reflection-gradient-half", "Wirtinger derivatives by v, half the gradient", STRUCTURED, scaled(0.5, *D_V)),
    ("structured-D1-D3", "D_1 and D_3 exchanged", STRUCTURED, swapped(W[0], W[2])),
    *((f"structured-D{j}-sign", f"e^{{-iw}} for e^{{iw}} in D_{j}", STRUCTURED, read_as(negative, name))
      for j, name in enumerate(W, 1)),
    ("structured-D-sign", "e^{-iw} for e^{iw} in D_1, D_2 and D_3", STRUCTURED, read_as(negative, *W)),
    ("structured-R1-R2", "R_1 and R_2 exchanged", STRUCTURED, swapped(*V)),
    ("structured-F-inverse", "F and F^-1 exchanged",  # the conjugate of U at -w and v^*
     STRUCTURED, chained(_conjugated_map, read_as(conjugate, *V), read_as(negative, *W))),
    ("householder-order", "H_m ... H_1 for H_1 ... H_m", _several_reflections, through(transposed, ("dU",), ("U",))),
    ("householder-length", "the gradient by v / |v|, not by v",
     HOUSEHOLDER, gradient_at(lambda V: V / np.linalg.norm(V, axis=0), "params.V")),
    ("householder-last", "the last of n reflections as it is, without the sign that stands for it",
     _all_reflections, _last_is(-1)),
    ("householder-no-sign", "1 for the sign of v_n, the last of n reflections", _all_reflections, _last_is(1)),
    ("householder-not-normalised", "I - 2 v v^T, not divided by |v|^2",
     HOUSEHOLDER, Patched((householder.Householder, "_solved", _as_if_unit),
                          (householder, "_above", lambda _: lambda M: np.triu(M, 1)))),
    ("householder-factor-1", "I - v v^T / |v|^2, without the 2",
     HOUSEHOLDER, Patched((householder, "_above", lambda _: np.triu))),
    ("householder-one-fewer", "one reflection too few", _one_to_leave_out, _last_left_out),
)  # fmt: skip
