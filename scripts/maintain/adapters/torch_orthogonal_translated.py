"""torch.nn.utils.parametrizations.orthogonal, its parameters translated from ours, and its gradients back.

X are torch's parameters, A_t = tril(X) - tril(X)^T.
    exponential     exp(A_t): A_t = A
    scaled_cayley   base (I - A_t/2)^-1 (I + A_t/2): base = D, A_t = -2 D A D, since D (I + D A D)^-1 (I - D A D)
                    = (I + A)^-1 (I - A) D
    householder     v_j has 1 at its entry j and the rest of X's column below it; X's diagonal, as integers, are signs
                    of U's columns: 1 for a reflection, -1 where there is to be none; of the n-th, which is
                    diag(1, ..., 1, -1) there, -sign v_n
"""

from typing import Any

import numpy as np
import torch
from torch.nn import Linear
from torch.nn.utils.parametrizations import orthogonal

MAPS = {"scaled_cayley": "cayley", "exponential": "matrix_exp", "householder": "householder"}


def run(case: Any) -> dict[str, np.ndarray] | None:
    """U, and the gradient of A or V."""
    if case.kind != "parametrization" or case.config["parametrization"] not in MAPS:
        return None
    name, dU = case.config["parametrization"], case.inputs["dU"]
    n = len(dU)
    D = np.ones(n, dU.dtype)
    D[n - case.config.get("negative_ones", 0) :] = -1
    if name == "householder":
        V = case.inputs["params.V"]
        m = V.shape[1]
        X = np.diag(np.where(np.arange(n) < m, 1.0, -1.0)).astype(dU.dtype)
        X[:, :m] += np.tril(V / V.diagonal(), -1)
        if m == n:
            X[-1, -1] = -np.sign(V[-1, -1])
    else:
        scale = -2 * np.outer(D, D) if name == "scaled_cayley" else np.ones_like(dU)
        X = np.tril(scale * case.inputs["params.A"], -1)

    layer: Any = Linear(n, n, bias=False, dtype=torch.from_numpy(dU).dtype)
    orthogonal(layer, "weight", MAPS[name], use_trivialization=name == "scaled_cayley")
    if name == "scaled_cayley":
        layer.weight = torch.diag(torch.from_numpy(D))  # becomes the base
    original = layer.parametrizations.weight.original
    original.data = torch.from_numpy(X)
    U = layer.weight
    U.backward(torch.from_numpy(dU))
    dX = np.tril(original.grad.numpy(), -1)
    if name == "householder":
        dV = dX[:, :m] / V.diagonal()
        dV[range(m), range(m)] = -(dV * np.tril(V, -1)).sum(axis=0) / V.diagonal()
        return {"U": U.detach().numpy(), "d_params.V": dV}
    return {"U": U.detach().numpy(), "d_params.A": scale * (dX - dX.T)}
