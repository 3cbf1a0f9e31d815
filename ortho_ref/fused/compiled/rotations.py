"""U h and its pullback where U is a product of rotations, which are applied in turn; U itself is never formed.

Forward, U h_{t-1} added to W x_t: each a rotation of two real rows, the parts of one complex number or of two
    y_i = cos(t) x_i - sin(t) x_j,  y_j = sin(t) x_i + cos(t) x_j              [goru:rot] [goru:rot/diagonal] [sgornn:2]
Backward, the rotations in reverse, on y = U h_{t-1} and on its cotangent
    dt += dy_j y_i - dy_i y_j                              [bp:rotation] [bp:phase/phi] [bp:phase/omega]
    x, dx: the rotation by -t of y, dy                     [bp:rotation] [bp:phase] [bp:perm]

Rows of the batch go eight at a time, each in a lane of a vector; rows of zeros fill up the last eight.
"""

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic

from ortho_ref.backend import Array
from ortho_ref.fused.compiled.jit import compiled, inlined
from ortho_ref.fused.compiled.products import LINE, every_lane, rows_like
from ortho_ref.fused.factored import Factors
from ortho_ref.parametrizations import Params

#: Rows of the batch at a time.  Of 16 each column would lie in as many lines of the cache that push each other out.
LANES = 8


class Turns(NamedTuple):
    """Rotations in turn: of each (K,) two rows, and its angle's place, cosine and sine; where the rows of U h end."""

    upper: Array
    lower: Array
    angle: Array
    cosine: Array
    sine: Array
    rows: Array


def turns(U: Factors) -> Turns:
    """The rotations that U is a product of."""
    upper, lower, angle, rows = U.kept.planar(len(U.buffers["U"]), U.buffers)
    angles = np.concatenate([own.ravel() for own in U.params.values()])[angle]
    return Turns(upper, lower, angle, np.cos(angles), np.sin(angles), rows)


def gradients(U: Factors, angle: Array, sums: Array) -> Params:
    """Those of the parameters, by name, from each rotation's sums by lanes (K, LANES)."""
    flat = np.zeros(sum(own.size for own in U.params.values()), sums.dtype)
    np.add.at(flat, angle, sums.sum(axis=1))
    parts = np.split(flat, np.cumsum([own.size for own in U.params.values()])[:-1])
    return {name: part.reshape(own.shape) for (name, own), part in zip(U.params.items(), parts, strict=True)}


def add(h: Array, U: Turns, out: Array) -> None:
    """Out += U h of rows (R, N); out may be wider."""
    N, x = h.shape[1], _lanes(h)
    for q in range(0, len(h), LANES):
        _load(h, q, U.rows, False, x)
        _turn(U, x)
        for j in range(N):
            for k in range(q, min(q + LANES, len(h))):
                out[k, j] += x[U.rows[j], k - q]


def add_back(h: Array, dy: Array, U: Turns, dh: Array, add: bool, sums: Array) -> None:
    """Dh = (dh +) U^T dy, of y = U h, and the gradients of the angles to sums (K, LANES); dy and dh may be wider."""
    N, y, d = h.shape[1], _lanes(h), _lanes(h)
    for q in range(0, len(h), LANES):
        _load(h, q, U.rows, False, y)
        _turn(U, y)
        _load(dy, q, U.rows, True, d)
        _turn_back(U, y, d, sums)
        for j in range(N):
            for k in range(q, min(q + LANES, len(h))):
                dh[k, j] = (dh[k, j] if add else h.dtype.type(0)) + d[j, k - q]


@inlined
def _lanes(h: Array) -> Array:
    """Zeros (N, LANES)."""
    per_line = LINE // h.itemsize
    return rows_like(-(-h.shape[1] * LANES // per_line), per_line, h).reshape(-1, LANES)


@compiled
def _load(h: Array, q: int, rows: Array, at_end: bool, x: Array) -> None:
    """Eight rows from q on, in lanes: as the rotations begin, or as they end."""
    stop = min(q + LANES, len(h))
    for j in range(len(rows)):
        own = x[rows[j] if at_end else j]
        for k in range(q, stop):
            own[k - q] = h[k, j]
        for k in range(stop - q, LANES):
            own[k] = 0


@compiled
def _turn(U: Turns, x: Array) -> None:
    for k in range(len(U.upper)):
        _rotate(x, LANES * U.upper[k], LANES * U.lower[k], U.cosine[k], U.sine[k])  # type: ignore[call-arg]  # [goru:rot] [goru:rot/diagonal] [sgornn:2]


@compiled
def _turn_back(U: Turns, y: Array, d: Array, sums: Array) -> None:
    for k in range(len(U.upper) - 1, -1, -1):
        i, j = LANES * U.upper[k], LANES * U.lower[k]
        _moment(y, d, i, j, sums, LANES * k)  # type: ignore[call-arg]  # [bp:rotation] [bp:phase/phi] [bp:phase/omega]
        _rotate(y, i, j, U.cosine[k], -U.sine[k])  # [bp:rotation] [bp:phase]
        _rotate(d, i, j, U.cosine[k], -U.sine[k])  # [bp:rotation] [bp:phase] [bp:perm]


def _vector(context: Any, at: Any, array: Any, value: Any, offset: Any) -> Any:
    """Where in an array, so many numbers from its beginning, LANES of them are."""
    vector = ir.VectorType(context.get_data_type(array.dtype), LANES)
    return at.bitcast(at.gep(context.make_array(array)(context, at, value).data, [offset]), vector.as_pointer())


@intrinsic
def _rotate(typing: Any, x: Any, i: Any, j: Any, cosine: Any, sine: Any) -> Any:
    """Rotate two rows of x, which begin at its numbers i and j.

    Numba reads and writes number by number, as the rows might be the same.
    """

    def code(context: Any, at: Any, signature: Any, values: Any) -> Any:
        array, size, flags = signature.args[0], signature.args[0].dtype.bitwidth // 8, ("contract",)
        upper, lower = (_vector(context, at, array, values[0], own) for own in values[1:3])
        x_i, x_j = (at.load(own, align=size) for own in (upper, lower))
        c, s = (every_lane(at, own, x_i.type) for own in values[3:])
        y_i = at.fsub(at.fmul(c, x_i, flags=flags), at.fmul(s, x_j, flags=flags), flags=flags)
        y_j = at.fadd(at.fmul(s, x_i, flags=flags), at.fmul(c, x_j, flags=flags), flags=flags)
        at.store(y_i, upper, align=size)
        at.store(y_j, lower, align=size)
        return context.get_dummy_value()

    return types.void(x, types.intp, types.intp, x.dtype, x.dtype), code


@intrinsic
def _moment(typing: Any, y: Any, d: Any, i: Any, j: Any, sums: Any, k: Any) -> Any:
    """Add d_j y_i - d_i y_j to a row of sums, which begins at its number k."""

    def code(context: Any, at: Any, signature: Any, values: Any) -> Any:
        array, size, flags = signature.args[0], signature.args[0].dtype.bitwidth // 8, ("contract",)
        y, d, i, j, sums, k = values
        y_i, y_j, d_i, d_j = (
            at.load(_vector(context, at, array, *own), align=size) for own in ((y, i), (y, j), (d, i), (d, j))
        )
        moment = at.fsub(at.fmul(d_j, y_i, flags=flags), at.fmul(d_i, y_j, flags=flags), flags=flags)
        to = _vector(context, at, signature.args[4], sums, k)
        at.store(at.fadd(at.load(to, align=size), moment, flags=flags), to, align=size)
        return context.get_dummy_value()

    return types.void(y, d, types.intp, types.intp, sums, types.intp), code
