"""The cells and maps once more in PyTorch, from the equations alone: an oracle for gradients.  Needs torch.

Nothing here is shared with ortho_ref but the names of the weights, and permutations and signs that are not trained;
the derivatives are autograd's.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from gradients.map_problem import MapProblem
from gradients.problem import Problem
from ortho_ref.cells import LSTM, Cell, Elman, FastRNN, GRUResetAfter, GRUResetBefore
from ortho_ref.parametrizations import (
    Exponential,
    FFTRotations,
    GeodesicUnitary,
    Householder,
    NeumannCayley,
    Parametrization,
    ScaledCayley,
    StructuredUnitary,
    TunableRotations,
    VolumePreserving,
)


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


def matrix(p: Parametrization, leaves: Mapping[str, Any], buffers: Mapping[str, Any]) -> Any:
    """U (n, n) of a parametrization from its own parameters; of the buffers only n, D and permutations are read."""
    n = len(buffers["U"])
    if isinstance(p, ScaledCayley | NeumannCayley):
        A, I = _skew(leaves["A"]), torch.eye(n, dtype=torch.float64)
        return torch.linalg.solve(I + A, I - A) @ torch.diag(torch.tensor(buffers["D"]))
    if isinstance(p, Exponential):
        return torch.linalg.matrix_exp(_skew(leaves["A"]))
    if isinstance(p, Householder):
        V = torch.tril(leaves["V"])
        factors = [_reflection(V[:, j]) for j in range(min(p.reflections, n - 1))]
        if p.reflections == n:
            last = torch.ones(n, dtype=torch.float64)
            last[-1] = torch.sign(V[-1, -1])
            factors.append(torch.diag(last))
        return torch.linalg.multi_dot([torch.eye(n, dtype=torch.float64), *factors])
    if isinstance(p, TunableRotations):
        layers = [
            _rotations(n, [(j, j + 1) for j in range(first, n - 1, 2)], leaves, style, k)
            for k in range(p.capacity // 2)
            for style, first in (("_A", 0), ("_B", 1))
        ]
        return _product_in_time(layers, leaves)
    if isinstance(p, FFTRotations):
        layers = []
        for i in range(n.bit_length() - 1):
            s = n >> (i + 1)
            upper = sorted((q for q in range(n) if not q & s), key=lambda q: (q % (2 * s)) * 2**i + q // (2 * s))
            layers.append(_rotations(n, [(q, q + s) for q in upper], leaves, "", i))
        return _product_in_time(layers, leaves)
    if isinstance(p, VolumePreserving):
        pairs, Theta = [(i, i + n // 2) for i in range(n // 2)], {"theta": leaves["Theta"].T}
        layers = []
        for j in reversed(range(Theta["theta"].shape[0])):
            Q = torch.eye(n, dtype=torch.float64)[torch.tensor(buffers["permutations"][j])]
            layers += [Q, _rotations(n, pairs, Theta, "", j)]
        return _product_in_time(layers, leaves)
    if isinstance(p, StructuredUnitary):
        D_1, D_2, D_3 = (torch.diag(torch.exp(1j * leaves[f"w_{j}"])) for j in (1, 2, 3))
        k = torch.arange(n, dtype=torch.float64)
        F = torch.exp(-2j * torch.pi * torch.outer(k, k) / n) / n**0.5
        Pi = torch.eye(n, dtype=torch.complex128)[torch.tensor(buffers["permutation"])]
        R_1, R_2 = _reflection(leaves["v_1"]), _reflection(leaves["v_2"])
        return torch.linalg.multi_dot([D_3, R_2, F.mH, D_2, Pi, R_1, F, D_1])
    if isinstance(p, GeodesicUnitary):
        return leaves["X"]
    raise TypeError(f"no PyTorch form of {type(p).__name__}")


def _skew(a: Any) -> Any:
    """X - X^T of the strictly upper triangle X: autograd's gradient is that of the free entries."""
    X = torch.triu(a, 1)
    return X - X.T


def _reflection(v: Any) -> Any:
    return torch.eye(len(v), dtype=v.dtype) - 2 * torch.outer(v, v.conj()) / torch.vdot(v, v)


def _rotations(n: int, pairs: list[tuple[int, int]], leaves: Mapping[str, Any], style: str, k: int) -> Any:
    """The dense matrix of one layer: the pairs turned by row k of theta, in the phases' row k if there are any."""
    theta, i, j = leaves[f"theta{style}"][k], [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    phased = torch.exp(1j * leaves[f"phi{style}"][k]) if "omega" in leaves else torch.ones_like(theta)
    M = torch.eye(n, dtype=phased.dtype)
    M[i, i], M[i, j] = torch.cos(theta).to(M.dtype), -torch.sin(theta) * phased
    M[j, i], M[j, j] = torch.sin(theta).to(M.dtype), torch.cos(theta) * phased
    return M


def _product_in_time(layers: list[Any], leaves: Mapping[str, Any]) -> Any:
    """The layers, the first one acting first, and the diagonal of a complex matrix."""
    product = layers[0]
    for layer in layers[1:]:
        product = layer @ product
    return torch.diag(torch.exp(1j * leaves["omega"])) @ product if "omega" in leaves else product


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


def gradients_of_map(problem: MapProblem) -> dict[str, np.ndarray]:
    """Autograd's gradient of a map problem's loss with respect to its parameters, 0 in entries that are not free."""

    def loss(leaves: dict[str, Any]) -> Any:
        return (torch.tensor(problem.dU).conj() * matrix(problem.p, leaves, problem.buffers)).real.sum()

    return gradients(loss, problem.params)


def _tensors(tree: Any) -> Any:
    return tuple(map(_tensors, tree)) if isinstance(tree, tuple) else torch.tensor(tree)
