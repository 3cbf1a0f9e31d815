"""cuBLAS, cuSOLVER, cuSPARSE and cuFFT by NumPy and SciPy, as far as products, LU, QR, SVD, CSR and rows' FFT go.

Each function is called from C under NVIDIA's name with NVIDIA's arguments: pointers are integers, matrices lie by
columns. `fill` puts them into the libraries that build.py makes.
"""

import ctypes
import itertools
import traceback
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy.linalg import blas, lapack

#: Types by the letters of NVIDIA's names, and by cudaDataType.
LETTERS = {"S": np.dtype("f"), "D": np.dtype("d"), "C": np.dtype("F"), "Z": np.dtype("D")}
TYPES = {0: np.dtype("f"), 1: np.dtype("d"), 2: np.dtype("e"), 4: np.dtype("F"), 5: np.dtype("D")}
#: Arguments: an int, a long long, a pointer, a char.
KINDS = {"i": ctypes.c_int, "q": ctypes.c_longlong, "p": ctypes.c_void_p, "b": ctypes.c_byte}
FUNCTIONS: dict[str, tuple[str, Callable[..., Any]]] = {}

shuffled_sums: Callable[[], Any] = bool  #: whether transposed sparse products add in another order each time
_random = np.random.default_rng(1)
_handles: dict[int, Any] = {}
_numbers = itertools.count(1)


def provides(names: str, arguments: str, letters: dict[str, Any] | None = None) -> Callable[[Any], Any]:
    """Let a function be NVIDIA's of these names; it takes the type first where {} stands for a type's letters."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names.split():
            for letter, dtype in (letters or LETTERS).items() if "{" in name else [("", None)]:
                own = function if dtype is None else partial(function, dtype)
                FUNCTIONS[name.format(letter)] = arguments.replace(" ", ""), own
        return function

    return register


def fill(library: ctypes.CDLL, names: list[str]) -> None:
    """Fill the slots of a library's functions: with what is here, else with what says that it is not."""
    library.callbacks = []
    slots = (ctypes.c_void_p * len(names)).in_dll(library, "slots")
    for i, name in enumerate(names):
        arguments, function = FUNCTIONS.get(name) or ("", partial(_missing, name))
        callback = ctypes.CFUNCTYPE(ctypes.c_int, *map(KINDS.get, arguments))(partial(_status, function))
        library.callbacks.append(callback)
        slots[i] = ctypes.cast(callback, ctypes.c_void_p).value


def _missing(name: str) -> None:
    raise NotImplementedError(f"hostcuda: {name} is not there")


def _status(function: Callable[..., Any], *arguments: Any) -> int:
    """0, or an error's number where the function raised."""
    try:
        function(*arguments)
    except Exception as error:
        traceback.print_exc()
        return 15 if isinstance(error, NotImplementedError) else 14  # "not supported", "internal error" of cuBLAS
    return 0


def view(pointer: int, dtype: Any, shape: tuple[int, ...], strides: tuple[int, ...] | None = None) -> np.ndarray:
    """Memory as an array; strides are in bytes."""
    if 0 in shape:
        return np.empty(shape, dtype)
    layout = {
        "typestr": np.dtype(dtype).str,
        "shape": shape,
        "strides": strides,
        "data": (pointer, False),
        "version": 3,
    }
    return np.asarray(SimpleNamespace(__array_interface__=layout))


def matrix(pointer: int, dtype: np.dtype, rows: int, columns: int, ld: int) -> np.ndarray:
    """Memory by columns, each `ld` numbers after the one before, as an array."""
    if ld < max(1, rows):
        raise ValueError(f"hostcuda: a leading dimension of {ld} for {rows} rows")
    return view(pointer, dtype, (rows, columns), (dtype.itemsize, ld * dtype.itemsize))


def number(pointer: int, dtype: Any) -> Any:
    return view(pointer, dtype, (1,))[0]


def put(value: Any, pointer: int, dtype: Any = np.int32) -> None:
    view(pointer, dtype, (1,))[0] = value


def operated(given: np.ndarray, operation: int) -> np.ndarray:
    """A, A^T or A^H."""
    return (given, given.T, given.T.conj())[operation]


def handle_of(value: Any, pointer: int) -> None:
    """Write a new handle, which stands for a value."""
    handle = next(_numbers)
    _handles[handle] = value
    put(handle, pointer, np.intp)


HANDLES = "cublasCreate_v2 cusolverDnCreate cusolverSpCreate cusparseCreate cusparseCreateMatDescr"
provides(HANDLES, "p")(partial(handle_of, None))
provides("cublasGetMathMode cublasGetPointerMode_v2", "pp")(lambda handle, out: put(0, out))
provides("cublasGetStream_v2 cusolverDnGetStream", "pp")(lambda handle, out: put(0, out, np.intp))
provides("cublasGetVersion_v2 cusparseGetVersion", "pp")(lambda handle, out: put(130000, out))
provides("cufftGetVersion", "p")(lambda out: put(12000, out))
provides("cusolverGetProperty", "ip")(lambda which, out: put((12, 0, 0)[which], out))


# cuBLAS


@provides("cublas{}gemm_v2", "piiiii ppipi ppi")
def product(dtype, handle, ta, tb, m, n, k, alpha, A, lda, B, ldb, beta, C, ldc):
    """C = alpha op(A) op(B) + beta C."""
    a = operated(matrix(A, dtype, *((k, m) if ta else (m, k)), lda), ta)
    b = operated(matrix(B, dtype, *((n, k) if tb else (k, n)), ldb), tb)
    c, factor, keep = matrix(C, dtype, m, n, ldc), number(alpha, dtype), number(beta, dtype)
    if factor == 1 and not keep:
        np.matmul(b.T, a.T, out=c.T)
    else:
        c[...] = factor * (a @ b) + (keep * c if keep else 0)


@provides("cublas{}gemmStridedBatched", "piiiii ppiqpiq ppiqi")
def products(dtype, handle, ta, tb, m, n, k, alpha, A, lda, sa, B, ldb, sb, beta, C, ldc, sc, count):
    for i in range(count):
        a, b, c = (pointer + i * step * dtype.itemsize for pointer, step in ((A, sa), (B, sb), (C, sc)))
        product(dtype, handle, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)


@provides("cublas{}gemmBatched", "piiiii ppipi ppii")
def products_of_pointers(dtype, handle, ta, tb, m, n, k, alpha, A, lda, B, ldb, beta, C, ldc, count):
    for a, b, c in zip(*(view(pointer, np.intp, (count,)) for pointer in (A, B, C)), strict=True):
        product(dtype, handle, ta, tb, m, n, k, alpha, int(a), lda, int(b), ldb, beta, int(c), ldc)


@provides("cublasGemmStridedBatchedEx", "piiiii ppiiqpiiq ppiiq iii")
def products_of_types(
    handle, ta, tb, m, n, k, alpha, A, type_a, lda, sa, B, type_b, ldb, sb, beta, C, type_c, ldc, sc, count, *_
):
    if not type_a == type_b == type_c:
        raise NotImplementedError("hostcuda: a product of different types")
    products(TYPES[type_c], handle, ta, tb, m, n, k, alpha, A, lda, sa, B, ldb, sb, beta, C, ldc, sc, count)


@provides("cublasGemmEx cublasSgemmEx", "piiiii ppiipii ppii")
def product_of_types(handle, ta, tb, m, n, k, alpha, A, type_a, lda, B, type_b, ldb, beta, C, type_c, ldc, *_):
    one = (A, type_a, lda, 0), (B, type_b, ldb, 0), (C, type_c, ldc, 0)
    products_of_types(handle, ta, tb, m, n, k, alpha, *one[0], *one[1], beta, *one[2], 1)


@provides("cublas{}geam", "piiii ppi ppi pi")
def sum_of_matrices(dtype, handle, ta, tb, m, n, alpha, A, lda, beta, B, ldb, C, ldc):
    """C = alpha op(A) + beta op(B)."""
    total = np.zeros((m, n), dtype)
    for factor, pointer, ld, t in ((number(alpha, dtype), A, lda, ta), (number(beta, dtype), B, ldb, tb)):
        if factor:
            total += factor * operated(matrix(pointer, dtype, *((n, m) if t else (m, n)), ld), t)
    matrix(C, dtype, m, n, ldc)[...] = total


@provides("cublas{}trsm_v2", "piiiiii ppi pi")
def triangular_solve(dtype, handle, side, uplo, trans, diag, m, n, alpha, A, lda, B, ldb):
    """op(A) X = alpha B, or X op(A) = alpha B, in place of B."""
    a, b = matrix(A, dtype, *[n if side else m] * 2, lda), matrix(B, dtype, m, n, ldb)
    solve = blas.get_blas_funcs("trsm", dtype=dtype)
    b[...] = solve(number(alpha, dtype), a, b, side=side, lower=not uplo, trans_a=trans, diag=diag)


def vector(pointer, dtype, n, step):
    return view(pointer, dtype, (n,), (step * dtype.itemsize,))


@provides("cublas{}nrm2_v2", "pipip", dict(zip(["S", "D", "Sc", "Dz"], LETTERS.values(), strict=True)))
def norm(dtype, handle, n, x, step, out):
    put(np.linalg.norm(vector(x, dtype, n, step)), out, np.zeros(0, dtype).real.dtype)


def dot(multiply, dtype, handle, n, x, step_x, y, step_y, out):
    put(multiply(vector(x, dtype, n, step_x), vector(y, dtype, n, step_y)), out, dtype)


for _name, _letters, _multiply in (("dot", "SD", np.dot), ("dotu", "CZ", np.dot), ("dotc", "CZ", np.vdot)):
    _types = {letter: LETTERS[letter] for letter in _letters}
    provides(f"cublas{{}}{_name}_v2", "pipipip", _types)(partial(dot, _multiply))


@provides("cublas{}getrfBatched", "pipippi")
def lu_factors_of_pointers(dtype, handle, n, A, lda, pivots, info, count):
    for i, a in enumerate(view(A, np.intp, (count,))):
        lu_factors(dtype, handle, n, n, int(a), lda, 0, pivots and pivots + 4 * n * i, info + 4 * i)


@provides("cublas{}getrsBatched", "piiipippipi")
def lu_solve_of_pointers(dtype, handle, trans, n, columns, A, lda, pivots, B, ldb, info, count):
    for i, (a, b) in enumerate(zip(view(A, np.intp, (count,)), view(B, np.intp, (count,)), strict=True)):
        lu_solve(dtype, handle, trans, n, columns, int(a), lda, pivots + 4 * n * i, int(b), ldb, info)


# cuSOLVER

SIZES = {"getrf": "piipip", "gesvd": "piip", "geqrf": "piipip"}
for _name, _arguments in SIZES.items():
    provides(f"cusolverDn{{}}{_name}_bufferSize", _arguments)(lambda *given: put(1, given[-1]))
UNITARY = {"Sor": LETTERS["S"], "Dor": LETTERS["D"], "Cun": LETTERS["C"], "Zun": LETTERS["Z"]}
provides("cusolverDn{}gqr_bufferSize", "piiipipp", UNITARY)(lambda *given: put(1, given[-1]))


@provides("cusolverDn{}getrf", "piipi ppp")
def lu_factors(dtype, handle, m, n, A, lda, buffer, pivots, info):
    a = matrix(A, dtype, m, n, lda)
    a[...], found, failed = routine("getrf", dtype)(a)
    put(failed, info)
    if pivots:
        view(pivots, np.int32, found.shape)[...] = found + 1


@provides("cusolverDn{}getrs", "piiipip pip")
def lu_solve(dtype, handle, trans, n, columns, A, lda, pivots, B, ldb, info):
    b, own = matrix(B, dtype, n, columns, ldb), view(pivots, np.int32, (n,)) - 1
    b[...], failed = routine("getrs", dtype)(matrix(A, dtype, n, n, lda), own, b, trans=trans)
    put(failed, info)


@provides("cusolverDn{}gesvd", "pbbiipippipipipp")
def svd(dtype, handle, job_u, job_v, m, n, A, lda, S, U, ldu, V, ldv, buffer, size, real_buffer, info):
    full, wanted = chr(job_u) == "A", chr(job_u) != "N"
    u, s, v, failed = routine("gesvd", dtype)(matrix(A, dtype, m, n, lda), compute_uv=wanted, full_matrices=full)
    view(S, s.dtype, s.shape)[...] = s
    if wanted:
        matrix(U, dtype, *u.shape, ldu)[...], matrix(V, dtype, *v.shape, ldv)[...] = u, v
    put(failed, info)


@provides("cusolverDn{}geqrf", "piipippip")
def qr_factors(dtype, handle, m, n, A, lda, tau, buffer, size, info):
    a = matrix(A, dtype, m, n, lda)
    a[...], found, _, failed = routine("geqrf", dtype)(a)
    view(tau, dtype, found.shape)[...] = found
    put(failed, info)


@provides("cusolverDn{}gqr", "piiipippip", UNITARY)
def unitary_factor(dtype, handle, m, n, k, A, lda, tau, buffer, size, info):
    a, name = matrix(A, dtype, m, n, lda), "ungqr" if dtype.kind == "c" else "orgqr"
    a[...], _, failed = routine(name, dtype)(a, view(tau, dtype, (k,)))
    put(failed, info)


def routine(name, dtype):
    """LAPACK's, of a type."""
    return lapack.get_lapack_funcs(name, dtype=dtype)


# cuSPARSE

INDICES = {2: np.dtype("i"), 3: np.dtype("q")}  #: by cusparseIndexType_t


@provides("cusparseCreateCsr", "pqqqpppiiii")
def csr_matrix(out, rows, columns, entries, starts, indices, values, starts_type, indices_type, base, type_):
    found = view(starts, INDICES[starts_type], (rows + 1,)), view(indices, INDICES[indices_type], (entries,))
    handle_of((found[0] - base, found[1] - base, view(values, TYPES[type_], (entries,))), out)


@provides("cusparseCreateDnMat", "pqqqpii")
def dense_matrix(out, rows, columns, ld, values, type_, order):
    given, by_columns = (values, TYPES[type_]), order == 1
    handle_of(matrix(*given, rows, columns, ld) if by_columns else matrix(*given, columns, rows, ld).T, out)


provides("cusparseSpMM_bufferSize", "piippppp iip")(lambda *given: put(1, given[-1], np.uintp))


@provides("cusparseSpMM", "piippppp iip")
def sparse_product(handle, ta, tb, alpha, A, B, beta, C, type_, algorithm, buffer):
    """C = alpha op(A) op(B) + beta C."""
    (starts, columns, values), b, c = _handles[A], operated(_handles[B], tb), _handles[C]
    rows = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    to, of = (columns, rows) if ta else (rows, columns)
    # NVIDIA, of a transposed A: "this routine may produce slightly different results during different runs"
    order = _random.permutation(len(values)) if ta and shuffled_sums() else slice(None)
    terms = number(alpha, c.dtype) * (values.conj() if ta == 2 else values)[order, None] * b[of[order]]
    keep = number(beta, c.dtype)
    c[...] = keep * c if keep else 0
    np.add.at(c, to[order], terms)


# cuFFT


@provides("cufftCreate", "p")
def plan(out):
    number_of_plan = next(_numbers)
    _handles[number_of_plan] = None
    put(number_of_plan, out)


@provides("cufftMakePlan1d", "iiiip")
def plan_of_rows(plan, n, type_, batch, size):
    _handles[plan] = batch, n
    put(1, size, np.uintp)


@provides("cufftExec{}", "ippi", {"C2C": np.dtype("F"), "Z2Z": np.dtype("D")})
def transform(dtype, plan, source, target, direction):
    rows = view(source, dtype, _handles[plan])
    view(target, dtype, rows.shape)[...] = np.fft.fft(rows) if direction < 0 else np.fft.ifft(rows, norm="forward")
