"""The scaled Cayley transform, D and the gradient by A; what replaces functions reaches Algorithm 1."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ortho_ref.conformance.cases.case import Arrays, Case, Config
from ortho_ref.conformance.mistakes.applies import both, either, of, updates
from ortho_ref.conformance.mistakes.changes import negative, times
from ortho_ref.conformance.mistakes.fitted import Fitted
from ortho_ref.conformance.mistakes.mistake import Base, Outputs, Predicate, by_case, given, reference, table
from ortho_ref.conformance.mistakes.patched import Patched, around
from ortho_ref.conformance.mistakes.private import private
from ortho_ref.conformance.mistakes.ways import altered, configured, fed, read_as

cayley = private("ortho_ref.parametrizations.cayley")
neumann = private("ortho_ref.parametrizations.neumann")

OF_A = updates("scaled_cayley", "neumann_cayley")
CAYLEY = either(of("scaled_cayley", "neumann_cayley"), OF_A)
SCALED = of("scaled_cayley")
A = "params.A"


def _size(case: Case) -> int:
    return len(case.inputs[A if case.kind == "parametrization" else "A0"])


_has_D = both(CAYLEY, lambda case: case.config["negative_ones"] > 0)
_mixed_D = both(_has_D, lambda case: case.config["negative_ones"] < _size(case))
_mixed_updates = both(OF_A, _mixed_D)


def _may_have(change: int) -> Predicate:
    """Where k + change is another number of -1 that D can have."""
    return both(CAYLEY, lambda case: 0 <= case.config["negative_ones"] + change <= _size(case))


def _negative_ones(change: int) -> Outputs:
    return by_case(lambda case: configured(negative_ones=case.config["negative_ones"] + change))


def _signs(change: Callable[[Any], Any]) -> Outputs:
    """Another diagonal D."""
    modules = (reference, cayley, neumann)
    return Patched(*(around(module, "signs", lambda own, *rest: change(own(*rest))) for module in modules))


def by_D(M: np.ndarray, config: Config) -> np.ndarray:
    """D M D: with D on the left D C(M) is C(D M D) D."""
    D = reference.signs(M.shape[-1], config["negative_ones"], np.float64)
    return np.asarray(D[:, None] * M * D)


def _sandwiched(sign: int) -> Outputs:
    """With sign D A D for A: D C(A), and for -1 its transpose."""
    return by_case(lambda case: read_as(lambda M: sign * by_D(M, case.config), A))


def _D_on_the_left(case: Case, base: Base) -> Arrays:
    """A and (I + A)^-1 of updates are those of D A D."""

    def turned(arrays: Arrays) -> Arrays:
        own = [name for name in arrays if name in ("A0", "A", "A_tilde") or name.endswith(".A")]
        return {**arrays, **{name: by_D(arrays[name], case.config) for name in own}}

    return turned(base(given(case, turned(case.inputs))))


def _exact_left(own: Any, A: Any, D: Any) -> Any:
    buffers = own(A, D)
    return {**buffers, "U": D[:, None] * (buffers["U"] * D)}


def _series_left(own: Any, self: Any, *rest: Any) -> Any:
    """Lines 6 to 8 with D on the left: where the update was exact, it is there already."""
    moved, after = own(self, *rest)
    return moved, {**after, "U": after["D"][:, None] * (after["A_tilde"] @ (np.eye(len(moved["A"])) - moved["A"]))}


def _cayley_pullback(wrong: Callable[..., Any]) -> Outputs:
    """Another pullback: wrong(right, A_tilde, D, U, dU).  What is not skew any more is not refused."""
    modules = (cayley, neumann)
    lenient = ((module, "check_skew", lambda _: lambda *_: None) for module in modules)
    return Patched(*(around(module, "cayley_pullback", wrong) for module in modules), *lenient)


def _V(A_tilde: Any, right: Any, dU: Any) -> Any:
    V = A_tilde.T @ dU @ right
    return V.T - V


_PULLBACKS = (
    ("cayley-no-projection", "V^T for V^T - V", lambda own, S, D, U, dU: (S.T @ dU @ (np.diag(D) + U.T)).T),
    ("cayley-gradient-half", "(V^T - V) / 2 for V^T - V", lambda own, *rest: own(*rest) / 2),
    ("cayley-gradient-negative", "V - V^T for V^T - V", lambda own, *rest: -own(*rest)),
    ("cayley-V-without-U", "V without U^T, (I + A)^-T dU D", lambda own, S, D, U, dU: _V(S, np.diag(D), dU)),
    ("cayley-V-without-D", "V without D, (I + A)^-T dU U^T", lambda own, S, D, U, dU: _V(S, U.T, dU)),
    ("cayley-V-only-dU", "V without D + U^T, (I + A)^-T dU", lambda own, S, D, U, dU: _V(S, np.eye(len(D)), dU)),
    ("cayley-V-U", "V with U for U^T", lambda own, S, D, U, dU: _V(S, np.diag(D) + U, dU)),
    ("cayley-V-inverse", "V with (I + A)^-1 for (I + A)^-T", lambda own, S, D, U, dU: _V(S.T, np.diag(D) + U.T, dU)),
)


def by_series(highest: float) -> Outputs:
    """(I - A + A^2 - ... +- A^highest) (I - A) D, and the gradient of that."""
    coefficients = [1.0, *(2.0 * (-1) ** j for j in range(1, int(highest) + 1)), (-1.0) ** (highest + 1)]

    def change(case: Case, found: Arrays) -> Arrays:
        M, n = case.inputs[A], len(case.inputs[A])
        D = reference.signs(n, case.config["negative_ones"], np.float64)
        powers = [np.linalg.matrix_power(M, j) for j in range(len(coefficients))]
        U = sum(c * power for c, power in zip(coefficients, powers, strict=True)) * D
        dU = case.inputs["dU"] * D
        terms = [c * powers[i].T @ dU @ powers[j - 1 - i].T for j, c in enumerate(coefficients) for i in range(j)]
        return {"U": U, "d_params.A": sum(terms) - sum(terms).T}

    return altered(change)


_POWERS = tuple(float(k) for k in range(1, 17))
_SERIES = Fitted("cayley-series", "(I + A)^-1 by its series up to A^{}", SCALED, by_series, _POWERS, whole=True)
FITTED = (_SERIES,)

MISTAKES = table(
    ("cayley-no-D", "no D", _has_D, configured(negative_ones=0)),
    ("cayley-D-first", "D's -1 first, not last", _mixed_D, _signs(lambda D: D[::-1].copy())),
    ("cayley-D-negative", "D's signs exchanged", _mixed_D, _signs(negative)),
    ("cayley-D-left", "D on the left, D (I + A)^-1 (I - A)",
     either(both(SCALED, _mixed_D), _mixed_updates), _D_on_the_left),
    ("update-D-left", "D on the left, D (I + A)^-1 (I - A), and V as if it were on the right",
     _mixed_updates, Patched(*(around(module, "exact_buffers", _exact_left) for module in (cayley, neumann)),
                             around(neumann.NeumannCayley, "retract", _series_left))),
    ("cayley-k-plus-one", "one -1 too many in D", _may_have(1), _negative_ones(1)),
    ("cayley-k-minus-one", "one -1 too few in D", _may_have(-1), _negative_ones(-1)),
    ("cayley-transposed", "U^T for U", SCALED, _sandwiched(-1)),
    ("cayley-half", "(I + A/2)^-1 (I - A/2) D, the half-angle form", SCALED, read_as(times(0.5), A)),
    ("cayley-inverse", "(I - A)^-1 (I + A) D", SCALED, read_as(negative, A)),
    ("cayley-half-inverse", "(I - A/2)^-1 (I + A/2) D (geotorch)", SCALED, read_as(times(-0.5), A)),
    ("cayley-dU-transposed", "dL/dU transposed", SCALED, fed(lambda case: {"dU": case.inputs["dU"].T})),
    *((name, says, CAYLEY, _cayley_pullback(wrong)) for name, says, wrong in _PULLBACKS),
    ("skew-gradient-upper", "the gradient above the diagonal alone",
     of("scaled_cayley", "neumann_cayley", "exponential"),
     altered(lambda case, found: {"d_params.A": np.triu(found["d_params.A"])})),
    _SERIES.at(4),
)  # fmt: skip
