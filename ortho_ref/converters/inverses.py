"""From a dense orthogonal or unitary U back to what each map makes it of.

Cayley with D.  I + U D = (D + U) D.  Gaussian elimination of D + U without exchanges has pivots x + d_k, where x is
what is left of u_kk: with d_k = sign(x) each is at least 1, so that |det(I + U D)| >= 1 and there is always a D.  With
A = (I + U D)^{-1} (I - U D), another sign of d_i and d_j makes A
    A + (I - A)_S A_SS^{-1} (I + A)_S^T,  S = (i, j),
and |det(I + U D)| grows A_ij^2-fold: that is done while an |A_ij| > 1, and it ends, as there are finitely many D.  Then
||A||_2 < n, and I + U D, whose inverse is (I + A) / 2, has a condition number of at most n.

Exponential.  The real Schur form of U has planar rotations and +-1 on its diagonal, and nothing else; its -1 are taken
in pairs, half turns.  det U = 1, or one is left.

Householder.  v_j = U e_j - e_j of what is left, which then fixes e_j; where it fixes it already, another column, which
is 0 in that entry; where nothing is left to do, reflections come in pairs.  For m < n that is done with L^T U L, where
the columns of L are a lower trapezoidal, orthonormal basis of the range of U - I.

Rotations, tunable style, L = n.  Clements et al. 2016: entries below the diagonal vanish, in turn by columns (the first
layers) and by rows (the last ones).  A real diagonal that is left is a product of half turns.

Rotations, FFT style.  Of layer 0, columns r and r + n/2 of U's upper half are one vector times (cos t, -sin t), of the
lower half one times (sin t, cos t).  t fits both best; and so on, of each half.  What these angles give is U only if U
is such a product.
"""

import math

import numpy as np
import scipy.linalg

from ortho_ref.backend import Array
from ortho_ref.parametrizations import Params


def skew(X: Array) -> Array:
    """(X - X^H) / 2, exactly skew."""
    return (X - X.conj().T) / 2


def cayley_skew(Q: Array) -> Array:
    """A of (I + A)^{-1} (I - A) = Q.  LinAlgError where -1 is an eigenvalue of Q, as far as can be told."""
    I = np.eye(len(Q))
    X = np.linalg.solve(I + Q, I - Q)
    A = skew(X)
    if not max(abs(A).max() / 1e8, abs(X - A).max() / 0.1) < 1:  # what is lost to rounding is neither
        raise np.linalg.LinAlgError
    return A


def cayley_signs(U: Array) -> Array:
    """D (n,), for which no entry of A is above 1."""
    n = len(U)
    M, D = U.copy(), np.ones(n)
    for k in range(n):
        D[k] = 1 if M[k, k] >= 0 else -1
        M[k + 1 :, k + 1 :] -= np.outer(M[k + 1 :, k] / (M[k, k] + D[k]), M[k, k + 1 :])
    A, I = cayley_skew(U * D), np.eye(n)
    while abs(A).max() > 1 + 1e-9:
        S = list(np.unravel_index(abs(A).argmax(), A.shape))
        A = skew(A + (I - A)[:, S] @ np.linalg.inv(A[np.ix_(S, S)]) @ (I + A)[S])
        D[S] = -D[S]
    return D


def logarithm(U: Array) -> Array:
    """A of exp(A) = U, skew, of the least norm; of a real U with determinant -1, of another U."""
    if U.dtype.kind == "c":
        T, Z = scipy.linalg.schur(U, output="complex")
        return skew(Z * (1j * np.angle(np.diag(T))) @ Z.conj().T)
    T, Z = scipy.linalg.schur(U, output="real")
    L, turned, i = np.zeros_like(T), [], 0
    while i < len(T):
        if i + 1 < len(T) and T[i + 1, i] != 0:
            L[i + 1, i] = math.atan2(T[i + 1, i] - T[i, i + 1], T[i, i] + T[i + 1, i + 1])
            i += 2
        else:
            turned += [i] if T[i, i] < 0 else []
            i += 1
    L[turned[1::2], turned[: len(turned) // 2 * 2 : 2]] = math.pi
    return skew(Z @ (L - L.T) @ Z.T)


def reflections(U: Array, m: int) -> Array:
    """V (n, m), as `Householder` has it; of a U that is no product of m reflections, of another U."""
    n = len(U)
    if m == n:
        return _triangular(U)
    W, sizes, _ = np.linalg.svd(U - np.eye(n))
    r = min(m, int((sizes > _rounding(U)).sum()))
    L = np.linalg.qr(W[:, :r].T)[1].T
    V = np.zeros((n, m))
    V[-1] = 1
    V[:, :r] = np.tril(L @ _triangular(L.T @ U @ L, last=1.0))
    return V


def _triangular(U: Array, last: float | None = None) -> Array:
    """V (n, n), lower triangular, the last entry the sign of what is left, or what is given."""
    n = len(U)
    M, V = U.copy(), np.zeros((n, n))
    for j in range(n - 1):
        left = M[j:, j:] - np.eye(n - j)
        sizes = np.linalg.norm(left, axis=0)
        i = 0 if sizes[0] > _rounding(U) else int(sizes.argmax())
        v, x = left[:, i], M[j + i, j + i]
        if sizes[i] <= _rounding(U):
            v = np.eye(n - j)[-1]
        elif x > 0:  # x - 1 without cancellation
            v[i] = 0
            v[i] = -(v @ v) / (1 + x)
        V[j:, j] = v / np.linalg.norm(v)
        M[j:] -= np.outer(2 * V[j:, j], V[j:, j] @ M[j:])
    V[-1:, -1:] = np.sign(M[-1:, -1:]) if last is None else last
    return V


def _rounding(U: Array) -> float:
    return 10 * len(U) * float(np.finfo(U.dtype).eps)


def _turn(theta: float, phi: float) -> Array:
    """The rotation of a pair, its phase on the lower input."""
    c, s = math.cos(theta), math.sin(theta)
    e = np.exp(1j * phi) if phi else 1.0
    return np.array([[c, -e * s], [s, e * c]])


def tunable_angles(U: Array) -> Params:
    """The angles of n layers; of a real U with determinant -1, of another U."""
    n, of_complex = len(U), U.dtype.kind == "c"
    M, last = U.copy(), []
    theta, phi = np.zeros((2, n, n))  # by layer, and the pair's first row

    def angles(a: complex, b: complex) -> tuple[float, float]:
        """tan(theta) e^(-i phi) = a / b."""
        if of_complex:
            return math.atan2(abs(a), abs(b)), float(np.angle(b) - np.angle(a))
        return math.atan2(a.real, b.real), 0.0

    for i in range(1, n):
        for j in range(i):
            if i % 2:
                row, p = n - 1 - j, i - 1 - j
                theta[j, p], phi[j, p] = angles(M[row, p], M[row, p + 1])
                M[:, p : p + 2] = M[:, p : p + 2] @ _turn(theta[j, p], phi[j, p]).conj().T
            else:
                p = n - 1 + j - i
                t, f = angles(-M[p + 1, j], M[p, j])
                M[p : p + 2] = _turn(t, f) @ M[p : p + 2]
                last.append((n - 1 - j, p, t, f))
    D = np.diag(M).copy() if of_complex else np.sign(np.diag(M))
    for layer, p, t, f in reversed(last):  # the turn back by (t, f), times D, as another D times a turn
        if of_complex:
            theta[layer, p], phi[layer, p] = t, math.pi + np.angle(D[p + 1] / D[p])
            D[p + 1] = -np.exp(-1j * f) * D[p]
        else:
            theta[layer, p] = -t * D[p] * D[p + 1]
    if not of_complex:
        half = np.where(np.cumprod(D)[:-1] < 0, math.pi, 0.0)  # D as half turns of (p, p + 1)
        even = half.copy()
        even[1::2] = 0
        signs = np.ones(n)
        signs[:-1][even != 0] *= -1
        signs[1:][even != 0] *= -1
        theta[n - 2, :-1] += even
        theta[n - 1, :-1] = theta[n - 1, :-1] * signs[:-1] * signs[1:] + half - even
    found = {"theta": theta} | ({"phi": phi} if of_complex else {})
    params: Params = {}
    for kind, a in found.items():
        params |= {f"{kind}_A": a[::2, :-1:2], f"{kind}_B": a[1::2, 1:-1:2]}
    return params | ({"omega": np.angle(D)} if of_complex else {})


def fft_angles(U: Array) -> Params:
    """The angles that fit U best, one layer after the other."""
    n, of_complex = len(U), U.dtype.kind == "c"
    theta, phi = np.zeros((2, n.bit_length() - 1, n // 2))
    omega = np.zeros(n)

    def peel(M: Array, i: int, k: int) -> None:
        """Layer i of block k, M, and what is left of its halves."""
        if len(M) == 1:
            omega[k] = np.angle(M[0, 0])
            return
        s = len(M) // 2
        X, Y = np.empty((2, s, s), M.dtype)
        columns = np.arange(s) * 2**i + k
        for r, column in enumerate(columns):
            upper = np.stack([M[:s, r], -M[:s, r + s]], 1)
            lower = np.stack([M[s:, r + s], M[s:, r]], 1).conj()
            v = np.linalg.eigh(upper.T @ upper.conj() + lower.T @ lower.conj())[1][:, -1]
            if of_complex:
                v = v * (v[0].conj() / abs(v[0]) if v[0] else 1)
                theta[i, column], phi[i, column] = math.atan2(abs(v[1]), abs(v[0])), np.angle(v[1])
            else:
                theta[i, column] = math.atan2(v[1], v[0])
            X[:, r] = upper @ v.conj()
            Y[:, r] = np.exp(-1j * phi[i, column]) * (lower @ v.conj()).conj() if of_complex else lower @ v
        if not of_complex and np.linalg.det(X) < 0:
            theta[i, columns[0]] += math.pi
            X[:, 0], Y[:, 0] = -X[:, 0], -Y[:, 0]
        peel(X, i + 1, 2 * k)
        peel(Y, i + 1, 2 * k + 1)

    peel(U, 0, 0)
    return {"theta": theta} | ({"phi": phi, "omega": omega} if of_complex else {})
