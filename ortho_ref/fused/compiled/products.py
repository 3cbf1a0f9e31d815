"""Products without a BLAS: a tile of the result stays in registers while all of a sum is added to it.

    product   out = (out +) a U,          a (R, K), U (K, n) packed by `pack`
    outer     out += sum over t of a_t^T b_t,          a (T, R, M), b (T, R, n)

A tile is `ROWS` rows by two vectors of AVX2 or NEON's four, or one of AVX-512: 16 float32, 8 float64; the last one of a
row may be half as wide.  What is beyond n, up to a whole tile, is computed too: `out`, and `b` of outer, are that wide,
as `width` says, and packed weights are 0 there.  Each number of a result is one sum in rising order, whatever rows and
tiles are: the bits depend neither on the processor nor on how a batch is cut.
"""

import functools
import itertools
import math
from collections.abc import Sequence
from typing import Any

import llvmlite.binding  # type: ignore[import-untyped]
import numpy as np
from llvmlite import ir
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic

from ortho_ref.fused.compiled.jit import compiled, inlined

#: Bytes of a line of the cache, and of a tile's row; numbers in the latter.
LINE = 64
LANES = {np.dtype(np.float32): 16, np.dtype(np.float64): 8}
#: Sums in registers at a time: of 16 vectors AVX2 has, 12; of the 32 of AVX-512, 8 hide an addition's latency.  Numba
#: compiles for the host unless NUMBA_CPU_NAME says otherwise.
_FOR_HOST = not config.CPU_NAME  # type: ignore[attr-defined]  # Numba's settings have no names before they are read
_AVX512 = bool(_FOR_HOST and llvmlite.binding.get_host_cpu_features().get("avx512f"))
ROWS = 8 if _AVX512 else 6
#: Tiles at a time, side by side: each number of `a` is read once for both.
TILES = 2 if _AVX512 else 1
#: From so many columns of a on, `outer` packs first: rows that are a power of two apart have a column in the same few
#: lines of the cache.
PACKED = 384
_I64, _I32 = ir.IntType(64), ir.IntType(32)


def width(n: int, dtype: Any) -> int:
    """The numbers of all tiles in a row of n."""
    lanes = LANES[np.dtype(dtype)]
    return -(-n // lanes) * lanes


def zeros(shape: Sequence[int], dtype: Any) -> np.ndarray:
    """Zeros (..., width), whose rows begin where a line of the cache does: a vector on two lines costs two reads."""
    count, lanes = math.prod(shape), LANES[np.dtype(dtype)]
    whole = np.zeros(count + lanes, dtype)
    start = -whole.ctypes.data % LINE // whole.itemsize
    return whole[start : start + count].reshape(shape)


def pack(U: np.ndarray) -> np.ndarray:
    """U (..., K, n) by tiles (..., tiles, K, lanes), 0 beyond n."""
    *G, K, n = U.shape
    lanes = LANES[U.dtype]
    whole = np.zeros((*G, K, width(n, U.dtype)), U.dtype)
    whole[..., :n] = U
    tiles = zeros((*G, whole.shape[-1] // lanes, K, lanes), U.dtype)
    tiles[...] = whole.reshape(*G, K, -1, lanes).swapaxes(-3, -2)
    return tiles


@intrinsic
def _tile(
    typing: Any,
    a: Any, a0: Any, a_t: Any, a_i: Any, a_k: Any,
    b: Any, b0: Any, b_t: Any, b_k: Any, b_j: Any,
    c: Any, c0: Any, c_i: Any,
    T: Any, K: Any, rows: Any, halves: Any, add: Any,
) -> Any:  # fmt: skip
    """c[i, :] = (c[i, :] +) sum over t and k of a[t, i, k] b[t, k, :], i < rows <= ROWS, of half a tile, one or two.

    a0, b0, c0: where in the arrays these begin; a_t, a_i ...: from one t, i, k or tile to the next.  All count numbers.
    """
    n = types.intp
    where = (a, n, n, n, n, b, n, n, n, n, c, n, n)
    return types.void(*where, n, n, n, n, types.boolean), _tile_code


def every_lane(at: Any, value: Any, vector: ir.VectorType) -> Any:
    """A vector of LLVM's whose lanes all hold a value."""
    first = at.insert_element(ir.Constant(vector, ir.Undefined), value, ir.Constant(_I32, 0))
    zeros = ir.Constant(ir.VectorType(_I32, vector.count), [0] * vector.count)
    return at.shuffle_vector(first, ir.Constant(vector, ir.Undefined), zeros)


def _tile_code(context: Any, at: Any, signature: Any, values: Any) -> Any:
    """LLVM's code of `_tile`: a loop for each number of rows, whose sums are registers."""
    a, a0, a_t, a_i, a_k, b, b0, b_t, b_k, b_j, c, c0, c_i, T, K, rows, halves, add = values
    dtype = signature.args[0].dtype
    number, size = context.get_data_type(dtype), dtype.bitwidth // 8
    A, B, C = (context.make_array(signature.args[i])(context, at, own).data for i, own in ((0, a), (5, b), (10, c)))

    def place(array: Any, *offsets: Any) -> Any:
        return at.gep(array, [functools.reduce(at.add, (at.mul(*o) if isinstance(o, tuple) else o for o in offsets))])

    def loop(rows: int, vector: ir.VectorType, tiles: int) -> None:
        def vector_at(*where: Any) -> Any:
            return at.bitcast(place(*where), vector.as_pointer())

        each, side = [ir.Constant(_I64, i) for i in range(rows)], [ir.Constant(_I64, j) for j in range(tiles)]
        outs = [vector_at(C, c0, (i, c_i), (j, ir.Constant(_I64, lanes))) for i in each for j in side]
        sums = [cgutils.alloca_once_value(at, ir.Constant(vector, None)) for _ in outs]
        with at.if_then(add):
            for own, out in zip(sums, outs, strict=True):
                at.store(at.load(out, align=size), own)
        with cgutils.for_range(at, T) as t, cgutils.for_range(at, K) as k:
            b_tk = [at.load(vector_at(B, b0, (t.index, b_t), (k.index, b_k), (j, b_j)), align=size) for j in side]
            for i in each:
                a_tik = every_lane(at, at.load(place(A, a0, (t.index, a_t), (i, a_i), (k.index, a_k))), vector)
                for own, of_tile in zip(sums[i.constant * tiles :], b_tk, strict=False):
                    product = at.fmul(a_tik, of_tile, flags=("contract",))
                    at.store(at.fadd(at.load(own), product, flags=("contract",)), own)
        for own, out in zip(sums, outs, strict=True):
            at.store(at.load(own), out, align=size)

    lanes, add = LINE // size, cgutils.as_bool_bit(at, add)
    for own, wide in itertools.product(range(1, ROWS + 1), range(TILES + 1)):
        it_is = [at.icmp_signed("==", *pair) for pair in ((rows, _I64(own)), (halves, _I64(2 * wide or 1)))]
        with at.if_then(at.and_(*it_is)):
            loop(own, ir.VectorType(number, lanes if wide else lanes // 2), wide or 1)
    return context.get_dummy_value()


@inlined
def rows_like(count: int, n: int, like: Any) -> Any:
    """Zeros (count, width) as of `zeros`, in compiled code."""
    lanes = LINE // like.itemsize
    wide = (n + lanes - 1) // lanes * lanes
    whole = np.zeros(count * wide + lanes, like.dtype)
    start = -whole.ctypes.data % LINE // like.itemsize
    return whole[start : start + count * wide].reshape(count, wide)


@compiled
def _tiles(
    a: Any, a_t: int, a_part: int, a_i: int, a_k: int, b: Any, b_t: int, b_k: int, b_j: int, c: Any, c_i: int,
    T: int, K: int, M: int, n: int, add: bool,
) -> None:  # fmt: skip
    """c[:M, :n] = (c +) sum over t and k of a[t, i, k] b[t, k, :].

    b_j: from a tile of b to the next; a_part: from i to the next for the first of a part; a_k: 0 where it is packed.
    """
    L, parts, j = LINE // c.itemsize, -(-M // ROWS), 0
    while j * L < n:
        left = -(-2 * (n - j * L) // L)
        halves = 2 * TILES if left >= 2 * TILES else min(left, 2)
        for part in range(parts):  # as even as can be: 9 rows are 5 and 4
            i = M * part // parts
            rows, c0 = M * (part + 1) // parts - i, j * L + i * c_i
            own = a_k if a_k > 0 else rows
            _tile(a, i * a_part, a_t, a_i, own, b, j * b_j, b_t, b_k, b_j, c, c0, c_i, T, K, rows, halves, add)  # type: ignore[call-arg]
        j += max(1, halves // 2)


@inlined
def product(a: Any, U: Any, out: Any, n: int, add: bool) -> None:
    """Out = (out +) a U."""
    R, K, L, size = a.shape[0], a.shape[1], U.shape[2], a.itemsize
    a_i = a.strides[0] // size
    _tiles(a, 0, a_i, a_i, 1, U, 0, L, K * L, out, out.strides[0] // size, 1, K, R, n, add)


@inlined
def outer(a: Any, b: Any, out: Any) -> None:
    """Out += sum over t of a_t^T b_t."""
    T, R, M, n, L, size = a.shape[0], a.shape[1], a.shape[2], b.shape[2], LINE // a.itemsize, a.itemsize
    a_t, a_k, b_t, b_k = a.strides[0] // size, a.strides[1] // size, b.strides[0] // size, b.strides[1] // size
    if M < PACKED:
        _tiles(a, a_t, 1, 1, a_k, b, b_t, b_k, L, out, out.strides[0] // size, T, R, M, n, True)
    else:
        K = T * R
        parts, tiles = np.empty(K * M, a.dtype), rows_like(-(-n // L) * K, L, a)
        _pack(a, b, parts, tiles)
        _tiles(parts, 0, K, 1, 0, tiles, 0, L, K * L, out, out.strides[0] // size, 1, K, M, n, True)


@compiled
def _pack(a: Any, b: Any, parts: Any, tiles: Any) -> None:
    """Of `outer` a by parts of its columns, those of `_tiles`, and b by tiles, in the order in which they are read."""
    T, R, M, n, L = a.shape[0], a.shape[1], a.shape[2], b.shape[2], LINE // a.itemsize
    K, count = T * R, -(-M // ROWS)
    first = np.array([M * part // count for part in range(count + 1)])
    for t in range(T):
        for r in range(R):
            k = t * R + r
            for part in range(count):
                i, rows = first[part], first[part + 1] - first[part]
                for own in range(rows):
                    parts[i * K + k * rows + own] = a[t, r, i + own]
            for j in range(-(-n // L)):
                for lane in range(L):
                    tiles[j * K + k, lane] = b[t, r, j * L + lane]
