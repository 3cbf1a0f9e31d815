"""The section of the benchmark of orthogonal maps: U from A, and dL/dA from dL/dU, beside PyTorch's autograd.

    Cayley        U = (I + A)^-1 (I - A) D exactly, by LU; with the inverse by least squares, which figure 6 of the
                  NC-GRU paper compares with; the Neumann series, an update of A from a delta; torch: linalg.solve,
                  and its backward
    exponential   U = exp(A) at spectral norms of A; torch: matrix_exp, and its backward

PyTorch's parameter is the part of A above the diagonal, as its users keep it, and A = X - X^T.  dL/dU is small, as the
gradient of a mean is: PyTorch's derivative is the exponential of (A^T, dU; 0, A^T), and takes longer for a large dU.
"""

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np
import scipy.linalg

from ortho_ref.parametrizations import Exponential, NeumannCayley, Parametrization, ScaledCayley
from scripts.maintain.timing.groups import Group, Settings, timed

SIZES = (56, 118, 190, 512)
NORMS = (1e-3, 1e-2, 0.1, 1.0, 10.0)
ORDERS = (1, 2, 3)
UPSTREAM = 1e-3  # ||dL/dU||_2


#: A map and its derivative: U, and dL/dA, skew or with its part above the diagonal alone.
Step: TypeAlias = Callable[[], tuple[Any, Any]]


def maps(own: Settings) -> Iterator[Group]:
    """Scaled Cayley, its Neumann series, and the exponential, by size and norm."""
    for n in SIZES:
        steps = cayley_steps(n, own.dtype, own.torch is not None)
        yield timed("maps", {"map": "Cayley", "n": n}, "exact", steps, own, _skipped(own))
    for n in SIZES:
        for norm in NORMS:
            steps = exponential_steps(n, norm, own.dtype, own.torch is not None)
            case = {"map": "exponential", "n": n, "‖A‖": norm}
            yield timed("maps", case, "ours", steps, own, _skipped(own))


def _skipped(own: Settings) -> dict[str, str]:
    return {} if own.torch else {"torch": "PyTorch is not installed"}


def skew(n: int, norm: float, dtype: str) -> np.ndarray:
    """A random skew A of that spectral norm."""
    X = np.random.default_rng(0).standard_normal((n, n))
    A = (X - X.T) * (norm / np.linalg.norm(X - X.T, 2))
    return A.astype(dtype)


def cayley_steps(n: int, dtype: str, torch: bool) -> dict[str, Step]:
    """The exact map and its derivative, an update by each order of the series and its derivative, and PyTorch's."""
    own = ScaledCayley(n // 2)
    params, buffers = own.init(np.random.default_rng(0), n, dtype=np.dtype(dtype))
    dU = _upstream(n, dtype)
    steps = {"exact": _step(own, params, buffers, dU), "least squares": _least_squares(own, params, buffers, dU)}
    for order in ORDERS:
        steps[f"Neumann, order {order}"] = _neumann(NeumannCayley(n // 2, order, None), n, dtype, dU)
    if torch:
        steps["torch solve"] = _torch_step("solve", params["A"], buffers["D"], dU)
    return steps


def exponential_steps(n: int, norm: float, dtype: str, torch: bool) -> dict[str, Step]:
    """Ours and PyTorch's, at an A of this norm."""
    own = Exponential()
    params, dU = {"A": skew(n, norm, dtype)}, _upstream(n, dtype)
    steps = {"ours": _step(own, params, {"U": params["A"]}, dU)}
    if torch:
        steps["torch matrix_exp"] = _torch_step("matrix_exp", params["A"], None, dU)
    return steps


def _upstream(n: int, dtype: str) -> np.ndarray:
    dU = np.random.default_rng(1).standard_normal((n, n))
    return (dU * (UPSTREAM / np.linalg.norm(dU, 2))).astype(dtype)


def _step(own: Parametrization, params: Any, buffers: Any, dU: np.ndarray) -> Step:
    def step() -> tuple[Any, Any]:
        rebuilt = own.rebuild(params, buffers)
        return rebuilt["U"], own.pullback(params, rebuilt, dU)["A"]

    return step


def _least_squares(own: ScaledCayley, params: Any, buffers: Any, dU: np.ndarray) -> Step:
    """U = (2 (I + A)^-1 - I) D, the inverse by SVD."""
    I = np.eye(len(dU), dtype=dU.dtype)

    def step() -> tuple[Any, Any]:
        A_tilde = scipy.linalg.lstsq(I + params["A"], I)[0]
        rebuilt = buffers | {"A_tilde": A_tilde, "U": (2 * A_tilde - I) * buffers["D"]}
        return rebuilt["U"], own.pullback(params, rebuilt, dU)["A"]

    return step


def _neumann(own: NeumannCayley, n: int, dtype: str, dU: np.ndarray) -> Step:
    params, buffers = own.init(np.random.default_rng(0), n, dtype=np.dtype(dtype))
    delta = {"A": skew(n, 1e-3, dtype)}

    def step() -> tuple[Any, Any]:
        moved, rebuilt = own.retract(params, buffers, delta)
        return rebuilt["U"], own.pullback(moved, rebuilt, dU)["A"]

    return step


def _torch_step(kind: str, A: np.ndarray, D: np.ndarray | None, dU: np.ndarray) -> Step:
    import torch

    torch.set_num_threads(1)
    X, upstream = torch.from_numpy(np.triu(A, 1)).requires_grad_(), torch.from_numpy(dU)
    I, signs = torch.eye(len(A), dtype=X.dtype), None if D is None else torch.from_numpy(D.copy())

    def step() -> tuple[Any, Any]:
        S = X - X.T
        U = torch.linalg.matrix_exp(S) if kind == "matrix_exp" else torch.linalg.solve(I + S, I - S) * signs
        return U, torch.autograd.grad(U, X, upstream)[0]

    return step
