"""Products without a BLAS: a tile of the result stays in registers while all of a sum is added to it.

    product   out = (out +) a U,          a (R, K), U (K, n) packed by `pack`
    outer     out += sum over t of a_t^T b_t,          a (T, R, M), b (T, R, n)

A tile is `ROWS` rows by two vectors of AVX2 or NEON's four, or one of AVX-512: 16 float32, 8 float64; the last one of a
row may be half as wide.  What is beyond n, up to a whole tile, is computed too: `out`, and `b` of outer, are that wide,
as `width` says, and packed weights are 0 there.  Each number of a result is one sum in rising order, whatever rows and
tiles are: the bits depend neither on the processor nor on how a batch is cut.
"""

import functools
from typing import Any

import llvmlite.binding  # type: ignore[import-untyped]
import numpy as np
from llvmlite import ir
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic

from ortho_ref.fused.compiled.jit import compiled, inlined

#: Numbers in a tile's row.
LANES = {np.dtype(np.float32): 16, np.dtype(np.float64): 8}
#: Sums in registers at a time: of 16 vectors AVX2 has, 12; of the 32 of AVX-512, 8 hide an addition's latency.  Numba
#: compiles for the host unless NUMBA_CPU_NAME says otherwise.
_FOR_HOST = not config.CPU_NAME  # type: ignore[attr-defined]  # Numba's settings have no names before they are read
ROWS = 8 if _FOR_HOST and llvmlite.binding.get_host_cpu_features().get("avx512f") else 6
_I64, _I32 = ir.IntType(64), ir.IntType(32)


def width(n: int, dtype: Any) -> int:
    """The numbers of all tiles in a row of n."""
    lanes = LANES[np.dtype(dtype)]
    return -(-n // lanes) * lanes


def pack(U: np.ndarray) -> np.ndarray:
    """U (..., K, n) by tiles (..., tiles, K, lanes), 0 beyond n."""
    *G, K, n = U.shape
    whole = np.zeros((*G, K, width(n, U.dtype)), U.dtype)
    whole[..., :n] = U
    return np.ascontiguousarray(whole.reshape(*G, K, -1, LANES[U.dtype]).swapaxes(-3, -2))


@intrinsic
def _tile(
    typing: Any,
    a: Any, a0: Any, a_t: Any, a_i: Any, a_k: Any,
    b: Any, b0: Any, b_t: Any, b_k: Any,
    c: Any, c0: Any, c_i: Any,
    T: Any, K: Any, rows: Any, half: Any, add: Any,
) -> Any:  # fmt: skip
    """c[i, :] = (c[i, :] +) sum over t and k of a[t, i, k] b[t, k, :], i < rows <= ROWS, of a tile's lanes, or half.

    a0, b0, c0: where in the arrays these begin; a_t, a_i ...: from one t, i, k to the next.  All count numbers.
    """
    n = types.intp
    where = (a, n, n, n, n, b, n, n, n, c, n, n)
    return types.void(*where, n, n, n, types.boolean, types.boolean), _tile_code


def _tile_code(context: Any, at: Any, signature: Any, values: Any) -> Any:
    """LLVM's code of `_tile`: a loop for each number of rows, whose sums are registers."""
    a, a0, a_t, a_i, a_k, b, b0, b_t, b_k, c, c0, c_i, T, K, rows, half, add = values
    dtype = signature.args[0].dtype
    number, size = context.get_data_type(dtype), dtype.bitwidth // 8
    A, B, C = (context.make_array(signature.args[i])(context, at, own).data for i, own in ((0, a), (5, b), (9, c)))

    def place(array: Any, *offsets: Any) -> Any:
        return at.gep(array, [functools.reduce(at.add, (at.mul(*o) if isinstance(o, tuple) else o for o in offsets))])

    def loop(rows: int, vector: ir.VectorType) -> None:
        def every_lane(value: Any) -> Any:
            first = at.insert_element(ir.Constant(vector, ir.Undefined), value, ir.Constant(_I32, 0))
            zeros = ir.Constant(ir.VectorType(_I32, vector.count), [0] * vector.count)
            return at.shuffle_vector(first, ir.Constant(vector, ir.Undefined), zeros)

        def vector_at(*where: Any) -> Any:
            return at.bitcast(place(*where), vector.as_pointer())

        each = [ir.Constant(_I64, i) for i in range(rows)]
        outs = [vector_at(C, c0, (i, c_i)) for i in each]
        sums = [cgutils.alloca_once_value(at, ir.Constant(vector, None)) for _ in each]
        with at.if_then(add):
            for own, out in zip(sums, outs, strict=True):
                at.store(at.load(out, align=size), own)
        with cgutils.for_range(at, T) as t, cgutils.for_range(at, K) as k:
            b_tk = at.load(vector_at(B, b0, (t.index, b_t), (k.index, b_k)), align=size)
            for i, own in zip(each, sums, strict=True):
                a_tik = at.load(place(A, a0, (t.index, a_t), (i, a_i), (k.index, a_k)))
                product = at.fmul(every_lane(a_tik), b_tk, flags=("contract",))
                at.store(at.fadd(at.load(own), product, flags=("contract",)), own)
        for own, out in zip(sums, outs, strict=True):
            at.store(at.load(own), out, align=size)

    lanes, half, add = 64 // size, cgutils.as_bool_bit(at, half), cgutils.as_bool_bit(at, add)
    for own in range(1, ROWS + 1):
        with at.if_then(at.icmp_signed("==", rows, ir.Constant(_I64, own))), at.if_else(half) as (narrow, whole):
            with narrow:
                loop(own, ir.VectorType(number, lanes // 2))
            with whole:
                loop(own, ir.VectorType(number, lanes))
    return context.get_dummy_value()


@inlined
def width_like(n: int, like: Any) -> int:
    """As `width`, in compiled code."""
    lanes = 64 // like.itemsize
    return (n + lanes - 1) // lanes * lanes


@compiled
def _tiles(
    a: Any, a_t: int, a_i: int, a_k: int, b: Any, b_t: int, b_k: int, b_j: int, c: Any, c_i: int,
    T: int, K: int, M: int, n: int, add: bool,
) -> None:  # fmt: skip
    """c[:M, :n] = (c +) sum over t and k of a[t, i, k] b[t, k, :]; b_j: from a tile of b to the next."""
    L, parts = 64 // c.itemsize, -(-M // ROWS)
    for j in range(-(-n // L)):
        half = n - j * L <= L // 2
        for part in range(parts):  # as even as can be: 9 rows are 5 and 4
            i = M * part // parts
            rows = M * (part + 1) // parts - i
            _tile(a, i * a_i, a_t, a_i, a_k, b, j * b_j, b_t, b_k, c, j * L + i * c_i, c_i, T, K, rows, half, add)  # type: ignore[call-arg]


@inlined
def product(a: Any, U: Any, out: Any, n: int, add: bool) -> None:
    """Out = (out +) a U."""
    R, K, L, size = a.shape[0], a.shape[1], U.shape[2], a.itemsize
    _tiles(a, 0, a.strides[0] // size, 1, U, 0, L, K * L, out, out.strides[0] // size, 1, K, R, n, add)


@inlined
def outer(a: Any, b: Any, out: Any) -> None:
    """Out += sum over t of a_t^T b_t."""
    T, R, M, n, L, size = a.shape[0], a.shape[1], a.shape[2], b.shape[2], 64 // a.itemsize, a.itemsize
    a_t, a_k, b_t, b_k = a.strides[0] // size, a.strides[1] // size, b.strides[0] // size, b.strides[1] // size
    _tiles(a, a_t, 1, a_k, b, b_t, b_k, L, out, out.strides[0] // size, T, R, M, n, True)
