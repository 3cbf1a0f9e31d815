"""The cells and maps once more in PyTorch, from the equations alone: an oracle for gradients.  Needs torch.

Nothing here is shared with ortho_ref but the names of the weights; the derivatives are autograd's.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from gradients.problem import Problem
from ortho_ref.cells import LSTM, Cell, Elman, FastRNN, GRUResetAfter, GRUResetBefore


def _phi(name: str, a: Any, b: Any) -> Any:
    if name == "modrelu":
        return torch.sgn(a) * torch.relu(torch.abs(a) + b)
    return {"tanh": torch.tanh, "relu": torch.relu}[name](a + b)


def run(cell: Cell, weights: Mapping[str, Any], x: Any, h0: Any) -> Any:
    """States (T+1, B, n) from h0 on, for LSTM the pair of them, as tensors; x (T, B, m) or integer tokens (T, B)."""
    w = weights

    def product(suffix: str, x_t: Any, h: Any) -> Any:
        return input_product(suffix, x_t) + h @ w[f"U{suffix}"].T

    def input_product(suffix: str, x_t: Any) -> Any:
        W = w[f"W{suffix}"]
        return x_t.to(W.dtype) @ W.T if x_t.is_floating_point() else W.T[x_t]

    def gate(g: str, x_t: Any, h: Any) -> Any:
        return torch.sigmoid(product(f"_{g}", x_t, h) + w[f"b_{g}"])

    states = [h0]
    if isinstance(cell, GRUResetBefore):
        h = h0
        for x_t in x:
            r, u = gate("r", x_t, h), gate("u", x_t, h)
            h = (1 - u) * h + u * _phi(cell.activation, product("_c", x_t, r * h), w["b_c"])
            states.append(h)
        return torch.stack(states)
    if isinstance(cell, GRUResetAfter):
        h = h0
        for x_t in x:
            r = gate("r", x_t, h) if cell.reset_gate else w["r"]
            z = gate("z", x_t, h) if cell.update_gate else w["z"]
            p = h @ w["U_h"].T + (w["b_hh"] if cell.recurrent_bias else 0)
            h = z * h + (1 - z) * _phi(cell.activation, input_product("_h", x_t) + r * p, w["b_h"])
            states.append(h)
        return torch.stack(states)
    if isinstance(cell, FastRNN):
        h, alpha, beta = h0, torch.sigmoid(w["alpha"]), torch.sigmoid(w["beta"])
        if cell.constraint == "sgornn":
            alpha = torch.minimum(alpha, torch.tensor(0.5, dtype=alpha.dtype))
        if cell.constraint is not None:
            beta = torch.minimum(beta, 1 - 2 * alpha)
        for x_t in x:
            h = alpha * _phi(cell.activation, product("", x_t, h), w["b"]) + beta * h
            states.append(h)
        return torch.stack(states)
    if isinstance(cell, LSTM):
        h, c = h0
        for x_t in x:
            i, f, o = (gate(g, x_t, h) for g in "ifo")
            c = f * c + i * torch.tanh(product("_g", x_t, h) + w["b_g"])
            h = o * torch.tanh(c)
            states.append((h, c))
        return tuple(torch.stack(parts) for parts in zip(*states, strict=True))
    if isinstance(cell, Elman):
        h = h0
        for x_t in x:
            h = _phi(cell.activation, product("", x_t, h), w["b"])
            states.append(h)
        return torch.stack(states)
    raise TypeError(f"no PyTorch form of {type(cell).__name__}")


def cayley(a: Any, negative_ones: int) -> Any:
    """(I + A)^{-1} (I - A) D from the strictly upper triangle of `a`, A = triu(a) - triu(a)^T."""
    X = torch.triu(a, 1)
    A, I = X - X.T, torch.eye(len(a), dtype=a.dtype)
    D = torch.ones(len(a), dtype=a.dtype)
    D[len(a) - negative_ones :] = -1
    return torch.linalg.solve(I + A, I - A) @ torch.diag(D)


def gradients(f: Callable[[dict[str, Any]], Any], point: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The gradient of the scalar f, which takes and returns tensors, with respect to every array of `point`."""
    leaves = {name: torch.tensor(value, requires_grad=True) for name, value in point.items()}
    f(leaves).backward()
    return {
        name: np.zeros(leaf.shape) if leaf.grad is None else leaf.grad.resolve_conj().numpy()
        for name, leaf in leaves.items()
    }


def gradients_of(problem: Problem) -> dict[str, np.ndarray]:
    """Autograd's gradient of a problem's loss with respect to its point."""
    arrays = (problem.x, problem.h0, problem.dh, problem.dh_T)
    own = Problem(problem.cell, problem.weights, *_tensors(arrays))
    return gradients(lambda leaves: own.weigh(run(own.cell, *own.at(leaves))), problem.point)


def _tensors(tree: Any) -> Any:
    return tuple(map(_tensors, tree)) if isinstance(tree, tuple) else torch.tensor(tree)
