"""The scaled Cayley transform, differential by differential: why V^T - V is the gradient of A.

    U = (I + A)^{-1} (I - A) D = M (I - A) D,  M = (I + A)^{-1}                 [ncgru:2]
    A = (I - U D) (I + U D)^{-1}, where I + U D can be inverted                 [ncgru:2-inv]
    for every orthogonal U some D gives |A_ij| <= 1                             [ncgru:kahan]

    dM = -M dA M                                                                [bp:cayley/dM]
    dU = dM (I - A) D - M dA D = -M dA (U + D)                                  [bp:cayley/dU]
    dL = <Ubar, dU> = tr(Ubar^T dU) = <Abar, dA>:  Abar = -M^T Ubar (U + D)^T = -V               [bp:cayley/Abar]
    V = M^T Ubar (D + U^T)                                                      [ncgru:6]
    A_ij = a_ij, A_ji = -a_ij:  dL/da_ij = Abar_ij - Abar_ji = (V^T - V)_ij     [ncgru:5]

Ubar stands for dL/dU.  No step uses that U is orthogonal.  V^T - V is twice the projection of Abar on the skew
matrices, (Abar - Abar^T) / 2: the one is the gradient by the free entries a_ij, i < j, the other by the metric of all
entries (E-ncgru-09).
"""

import itertools

import numpy as np

from gradients.bptt import Matrix


def transform(A: Matrix, D: Matrix) -> Matrix:
    """U from a skew A (n, n), with the diagonal D (n,) of ones and minus ones: the scaled Cayley transform."""
    I = np.eye(len(A))
    return np.linalg.solve(I + A, I - A) * D  # [ncgru:2]


def inverse_transform(U: Matrix, D: Matrix) -> Matrix:
    """A (n, n) from an orthogonal U, with D (n,); LinAlgError if U D has the eigenvalue -1 (E-ncgru-07)."""
    I = np.eye(len(U))
    return np.linalg.solve((I + U * D).T, (I - U * D).T).T  # [ncgru:2-inv]


def best_signs(U: Matrix) -> tuple[Matrix, float]:
    """The D (n,) for which max |A_ij| is least for an orthogonal U, by trying all 2^n; and that maximum."""
    best, least = np.ones(len(U)), np.inf
    for signs in itertools.product((1.0, -1.0), repeat=len(U)):
        D = np.array(signs)
        if abs(np.linalg.det(np.eye(len(U)) + U * D)) > 1e-9:
            largest = float(abs(inverse_transform(U, D)).max())  # [ncgru:kahan]
            if largest < least:
                best, least = D, largest
    return best, least


def inverse_differential(M: Matrix, dA: Matrix) -> Matrix:
    """dM (n, n) for the move dA (n, n) of A, from M (I + A) = I."""
    return -M @ dA @ M  # [bp:cayley/dM]


def differential(A: Matrix, D: Matrix, dA: Matrix) -> Matrix:
    """dU (n, n) for the move dA of A, any matrix (n, n); D (n,)."""
    M = np.linalg.inv(np.eye(len(A)) + A)
    return -M @ dA @ (transform(A, D) + np.diag(D))  # [bp:cayley/dU]


def adjoint(A: Matrix, D: Matrix, Ubar: Matrix) -> Matrix:
    """Abar (n, n), the gradient by all n^2 entries of any A, each on its own; Ubar: dL/dU."""
    return -V(A, D, Ubar)  # [bp:cayley/Abar]


def V(A: Matrix, D: Matrix, Ubar: Matrix) -> Matrix:
    """The paper's V (n, n), of A (n, n), D (n,) and Ubar = dL/dU (n, n)."""
    M = np.linalg.inv(np.eye(len(A)) + A)
    return M.T @ Ubar @ (np.diag(D) + transform(A, D).T)  # [ncgru:6]


def free_gradient(Abar: Matrix) -> Matrix:
    """The derivatives by a_ij = A_ij = -A_ji, i < j, above the diagonal; below it, what keeps A skew."""
    return Abar - Abar.T  # [ncgru:5]


def skew_projection(Abar: Matrix) -> Matrix:
    """The skew matrix nearest to Abar."""
    return (Abar - Abar.T) / 2
