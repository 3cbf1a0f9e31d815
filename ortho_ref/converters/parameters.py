"""The parameters of a map, ours or another library's, that give a dense orthogonal or unitary U.

    found = converters.params_of("scaled_cayley", U)                       # found.params["A"], found.buffers["D"]
    found.defect, found.distance                                           # of the U' that they give
    U = converters.matrix_of("torch-cayley", {"original": X, "base": B})
    found = converters.params_of("peft-oft", U)                            # found.params["weight"]

ours                              reaches
scaled_cayley, neumann_cayley     every orthogonal U; D is chosen, or given: D=buffers["D"]
exponential                       determinant 1
householder:M                     rank(I - U) <= M and determinant (-1)^M; M = n: every orthogonal U
tunable_rotations:L               L = n: determinant 1; complex: every unitary U
fft_rotations                     products of its layers; the distance of another U's is told
geodesic_unitary                  every unitary U

Another library's A: `other_maps` has their conventions.  The library's U is taken as it is: expRNN's B and PEFT's
rotation stand on the right of a row, x @ B, so that B.T is the U of our cells.

U is computed with in float64 from its polar factor, and the parameters have its precision.  What cannot be reached is
refused, with the distance of what comes nearest along the way.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ortho_ref.backend import Array, NotOrthogonalError, complex_dtype
from ortho_ref.boundary import check_choice, check_finite, check_integer, not_among
from ortho_ref.converters.framework import on_host
from ortho_ref.converters.inverses import (
    cayley_signs,
    cayley_skew,
    fft_angles,
    logarithm,
    reflections,
    tunable_angles,
)
from ortho_ref.converters.other_maps import OTHER_MAPS, TERMS
from ortho_ref.parametrizations import (
    Buffers,
    Exponential,
    FFTRotations,
    GeodesicUnitary,
    Householder,
    NeumannCayley,
    Parametrization,
    Params,
    ScaledCayley,
    TunableRotations,
    by_name,
    defect,
)
from ortho_ref.parametrizations.by_name import PARAMETRIZATIONS, name_of
from ortho_ref.parametrizations.geodesic import TOLERANCE
from ortho_ref.parametrizations.parametrization import spectral_norm


class Certified(NamedTuple):
    """Parameters of a map, and how well they give U.

    Attributes
    ----------
    kept : Parametrization or str
        The map; of Cayley's with as many -1 in D as were taken.  Another library's by its name.
    params : dict of Array
        By name; of another library with the base that was given.
    buffers : dict
        Of ours, as `rebuild` gives them.
    U : Array (n, n)
        What they give, U'.
    defect : float
        ||U'^H U' - I||_2.
    distance : float
        ||U' - U||_2.
    """

    kept: Parametrization | str
    params: Params
    buffers: Buffers
    U: Array
    defect: float
    distance: float


class _Way(NamedTuple):
    """The way back of one of ours."""

    params_of: Callable[[Any, Array], Params]  # of the map's options and U
    reaches: str  # in words


_CAYLEY = _Way(lambda kept, Q: {"A": cayley_skew(Q)}, "no eigenvalue -1 of U D")
_WAYS: dict[type[Parametrization], _Way] = {
    ScaledCayley: _CAYLEY,
    NeumannCayley: _CAYLEY,
    Exponential: _Way(lambda kept, U: {"A": logarithm(U)}, "determinant 1"),
    Householder: _Way(
        lambda kept, U: {"V": reflections(U, kept.reflections)},
        "rank(I - U) <= m and determinant (-1)^m, or m = n",
    ),
    TunableRotations: _Way(lambda kept, U: tunable_angles(U), "determinant 1"),
    FFTRotations: _Way(lambda kept, U: fft_angles(U), "products of its log2(n) layers, a subset"),
    GeodesicUnitary: _Way(lambda kept, U: {"X": U}, "every unitary U"),
}
_DTYPES = ["float32", "float64", "complex64", "complex128"]
_HALF_TURN = "the matrix that it takes a Cayley transform of has the eigenvalue -1, or nearly"
_NAMES = [*(name for name, kind in PARAMETRIZATIONS.items() if kind in _WAYS), *OTHER_MAPS]


def params_of(
    kept: Parametrization | str, U: Any, *, D: Any = None, base: Any = None, blocks: int | None = None
) -> Certified:
    """The parameters of a map that give U.

    Parameters
    ----------
    kept : Parametrization or str
        One of ours, "householder:8", or another library's, "torch-cayley".
    U : array (n, n)
        Orthogonal, or unitary, to within 1e-2; on the host.
    D : array (n,), optional
        Of a Cayley transform of ours: a diagonal of +-1 that is to stay; one that suits U unless given.
    base : array (n, n), optional
        Of another library's map that has one: U = base f(A); I unless given.
    blocks : int, optional
        Of PEFT's: how many blocks U has along its diagonal; 1 unless given.

    Returns
    -------
    Certified
        The parameters, with the certificate.

    Raises
    ------
    ValueError
        There is no such map, it does not reach U, U is not orthogonal, or an option is another map's.
    """
    U = _matrix("U", U)
    other = OTHER_MAPS.get(kept) if isinstance(kept, str) else None
    if isinstance(kept, str) and other is None and kept.partition(":")[0] in PARAMETRIZATIONS:
        kept = by_name(kept, len(U), U.dtype.kind == "c")
    way = other or _WAYS.get(type(kept))  # type: ignore[arg-type]
    if way is None:
        raise ValueError(not_among("kept", name_of(kept) if isinstance(kept, Parametrization) else kept, _NAMES, str))
    for option, value, known in (
        ("D", D, way is _CAYLEY),
        ("base", base, other and other.base),
        ("blocks", blocks, other and not other.base),
    ):
        if value is not None and not known:
            raise ValueError(f"{option} is given; {kept} has none")
    if U.dtype.kind == "c" and not (other or kept).complex:  # type: ignore[union-attr]
        raise ValueError(f"U is {U.dtype}; allowed for {kept}: real")
    base = None if base is None else _matrix("base", base, U)
    wide, precision, away = _wide(U), U.real.dtype, defect(_wide(U))
    W, _, Vh = np.linalg.svd(wide)
    buffers: Buffers = {}
    try:
        if isinstance(way, _Way):
            kept, params, buffers = _ours(kept, way, W @ Vh, D, precision)
            made = buffers["U"]
        else:
            params = way.params_of(W @ Vh, base, 1 if blocks is None else blocks, U.dtype)
            made = way.matrix_of(params, blocks=None, terms=TERMS)
    except (np.linalg.LinAlgError, NotOrthogonalError):
        raise ValueError(f"U is not reached by {kept}: {_HALF_TURN}; allowed: {way.reaches or 'another'}") from None
    distance = spectral_norm(_wide(made) - wide)
    if way.reaches and distance > 4 * away + 1000 * len(U) * float(np.finfo(precision).eps):
        found = f"||U' - U||_2 is {distance:.3g} for the U' found"
        raise ValueError(f"U is not reached by {kept}: {found}; allowed: {way.reaches}")
    return Certified(kept, params, buffers, made, defect(_wide(made)), distance)


def matrix_of(name: str, params: Mapping[str, Any], *, blocks: int | None = None, terms: int = TERMS) -> Array:
    """U of another library's map, from its own parameters.

    Parameters
    ----------
    name : str
        One of `OTHER_MAPS`.
    params : mapping of str to array
        By the library's names, and "base", if there is one; on the host.
    blocks : int, optional
        Of PEFT's OFT, where one block is shared: how often.
    terms : int
        Of "peft-oft-neumann": num_cayley_neumann_terms.

    Returns
    -------
    Array (n, n)
        As the library has it: a weight, expRNN's B, PEFT's rotation.

    Raises
    ------
    ValueError
        There is no such map, a name is missing or unknown, or a shape does not fit.
    """
    check_choice("name", name, OTHER_MAPS)
    check_integer("terms", terms)
    return OTHER_MAPS[name].matrix_of(params, blocks, terms)


def _ours(kept: Any, way: _Way, U: Array, D: Any, precision: Any) -> tuple[Parametrization, Params, Buffers]:
    """The map with its options, parameters and buffers, for an orthogonal U."""
    n = len(U)
    _, buffers = kept.init(np.random.default_rng(0), n, dtype=precision)  # an error where n does not suit it
    if way is _CAYLEY:
        D = cayley_signs(U) if D is None else np.asarray(D)
        if D.shape != (n,) or not (abs(D) == 1).all():
            raise ValueError(f"D is {D.dtype} of shape {D.shape}; allowed: 1 and -1, of shape {(n,)}")
        kept = replace(kept, negative_ones=int((D < 0).sum()))
        U, buffers = U * D, buffers | {"D": D.astype(precision)}
    if isinstance(kept, TunableRotations) and kept.capacity != n:
        raise ValueError(f"capacity is {kept.capacity}; allowed: n = {n}, as fewer layers reach a subset alone")
    own = way.params_of(kept, U.astype(np.complex128) if kept.complex else U)
    params = {
        key: np.array(a, complex_dtype(precision) if a.dtype.kind == "c" else precision, order="C")
        for key, a in own.items()
    }
    return kept, params, kept.begun(kept.rebuild(params, buffers))


def _matrix(argument: str, value: Any, like: Array | None = None) -> Array:
    """An orthogonal matrix, of the shape and kind of another where there is one."""
    array = on_host(value)
    shape = (array.shape[:1] * 2) if like is None else like.shape
    if array.ndim != 2 or array.shape != shape or not array.size:
        raise ValueError(f"{argument} has shape {array.shape}; allowed: {'(n, n)' if like is None else shape}")
    allowed = ["float32", "float64"] if like is not None and like.dtype.kind == "f" else _DTYPES
    if array.dtype.name not in allowed:
        raise ValueError(f"{argument} is {array.dtype}; allowed: {', '.join(allowed)}")
    check_finite(argument, array)
    if (away := defect(_wide(array))) > TOLERANCE:
        raise ValueError(f"{argument} is not orthogonal: ||U^H U - I||_2 is {away:.3g}; allowed: at most {TOLERANCE}")
    return array


def _wide(U: Array) -> Array:
    return U.astype(np.complex128 if U.dtype.kind == "c" else np.float64)
