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
from ortho_ref.cells.by_name import name_of as name_of_cell
from ortho_ref.conformance.cases.small_cells import SMALL_CELLS, UGRNN, FastGRNN
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
from ortho_ref.parametrizations.by_name import name_of as name_of_map


def phi(name: str, a: Any, b: Any) -> Any:
    """An activation and its bias."""
    if name == "modrelu":
        return torch.sgn(a) * torch.relu(torch.abs(a) + b)
    return {"tanh": torch.tanh, "relu": torch.relu}[name](a + b)


def _input_product(W: Any, x_t: Any) -> Any:
    return x_t.to(W.dtype) @ W.T if x_t.is_floating_point() else W.T[x_t]


def _product(w: Mapping[str, Any], suffix: str, x_t: Any, h: Any) -> Any:
    return _input_product(w[f"W{suffix}"], x_t) + h @ w[f"U{suffix}"].T


def _gate(w: Mapping[str, Any], g: str, x_t: Any, h: Any) -> Any:
    return torch.sigmoid(_product(w, f"_{g}", x_t, h) + w[f"b_{g}"])


def _gru_reset_before(cell: GRUResetBefore, w: Mapping[str, Any], x_t: Any, h: Any) -> Any:
    r, u = _gate(w, "r", x_t, h), _gate(w, "u", x_t, h)
    return (1 - u) * h + u * phi(cell.activation, _product(w, "_c", x_t, r * h), w["b_c"])


def _gru_reset_after(cell: GRUResetAfter, w: Mapping[str, Any], x_t: Any, h: Any) -> Any:
    r = _gate(w, "r", x_t, h) if cell.reset_gate else w["r"]
    z = _gate(w, "z", x_t, h) if cell.update_gate else w["z"]
    p = h @ w["U_h"].T + (w["b_hh"] if cell.recurrent_bias else 0)
    return z * h + (1 - z) * phi(cell.activation, _input_product(w["W_h"], x_t) + r * p, w["b_h"])


def _fastrnn(cell: FastRNN, w: Mapping[str, Any], x_t: Any, h: Any) -> Any:
    alpha, beta = torch.sigmoid(w["alpha"]), torch.sigmoid(w["beta"])
    if cell.constraint == "sgornn":
        alpha = torch.minimum(alpha, torch.tensor(0.5, dtype=alpha.dtype))
    if cell.constraint is not None:
        beta = torch.minimum(beta, 1 - 2 * alpha)
    return alpha * phi(cell.activation, _product(w, "", x_t, h), w["b"]) + beta * h


def _lstm(cell: LSTM, w: Mapping[str, Any], x_t: Any, state: Any) -> Any:
    h, c = state
    i, f, o = (_gate(w, g, x_t, h) for g in "ifo")
    c = f * c + i * torch.tanh(_product(w, "_g", x_t, h) + w["b_g"])
    return o * torch.tanh(c), c


def _elman(cell: Elman, w: Mapping[str, Any], x_t: Any, h: Any) -> Any:
    return phi(cell.activation, _product(w, "", x_t, h), w["b"])


def _fastgrnn(cell: FastGRNN, w: Mapping[str, Any], x_t: Any, h: Any) -> Any:
    p = _product(w, "", x_t, h)
    z = torch.sigmoid(p + w["b_z"])
    return (torch.sigmoid(w["zeta"]) * (1 - z) + torch.sigmoid(w["nu"])) * torch.tanh(p + w["b_h"]) + z * h


def _ugrnn(cell: UGRNN, w: Mapping[str, Any], x_t: Any, h: Any) -> Any:
    g = _gate(w, "g", x_t, h)
    return g * h + (1 - g) * torch.tanh(_product(w, "_c", x_t, h) + w["b_c"])


#: Name of a cell -> its step, from (cell, weights, x_t, state) to the next state.
STEPS: dict[str, Callable[..., Any]] = {
    "elman": _elman,
    "fastrnn": _fastrnn,
    "gru_reset_after": _gru_reset_after,
    "gru_reset_before": _gru_reset_before,
    "lstm": _lstm,
    "fastgrnn": _fastgrnn,
    "ugrnn": _ugrnn,
}


def run(cell: Cell, weights: Mapping[str, Any], x: Any, h0: Any) -> Any:
    """States (T+1, B, n) from h0 on, for LSTM the pair of them, as tensors; x (T, B, m) or integer tokens (T, B)."""
    step, states = _form(STEPS, _name_of(cell)), [h0]
    for x_t in x:
        states.append(step(cell, weights, x_t, states[-1]))
    if len(cell.states) == 1:
        return torch.stack(states)
    return tuple(torch.stack(parts) for parts in zip(*states, strict=True))


def _name_of(cell: Cell) -> str:
    own = {kind: name for name, kind in SMALL_CELLS.items()}
    return own.get(type(cell)) or name_of_cell(cell)


def _cayley(p: ScaledCayley | NeumannCayley, leaves: Mapping[str, Any], buffers: Mapping[str, Any]) -> Any:
    A = _skew(leaves["A"])
    I = torch.eye(len(A), dtype=torch.float64)
    return torch.linalg.solve(I + A, I - A) @ torch.diag(torch.tensor(buffers["D"]))


def _exponential(p: Exponential, leaves: Mapping[str, Any], buffers: Mapping[str, Any]) -> Any:
    return torch.linalg.matrix_exp(_skew(leaves["A"]))


def _householder(p: Householder, leaves: Mapping[str, Any], buffers: Mapping[str, Any]) -> Any:
    V = torch.tril(leaves["V"])
    n = len(V)
    factors = [_reflection(V[:, j]) for j in range(min(p.reflections, n - 1))]
    if p.reflections == n:
        last = torch.ones(n, dtype=torch.float64)
        last[-1] = torch.sign(V[-1, -1])
        factors.append(torch.diag(last))
    return torch.linalg.multi_dot([torch.eye(n, dtype=torch.float64), *factors])


def _tunable_rotations(p: TunableRotations, leaves: Mapping[str, Any], buffers: Mapping[str, Any]) -> Any:
    n = len(buffers["U"])
    layers = [
        _rotations(n, [(j, j + 1) for j in range(first, n - 1, 2)], leaves, style, k)
        for k in range(p.capacity // 2)
        for style, first in (("_A", 0), ("_B", 1))
    ]
    return _product_in_time(layers, leaves)


def _fft_rotations(p: FFTRotations, leaves: Mapping[str, Any], buffers: Mapping[str, Any]) -> Any:
    n = len(buffers["U"])
    layers = []
    for i in range(n.bit_length() - 1):
        s = n >> (i + 1)
        upper = sorted((q for q in range(n) if not q & s), key=lambda q: (q % (2 * s)) * 2**i + q // (2 * s))
        layers.append(_rotations(n, [(q, q + s) for q in upper], leaves, "", i))
    return _product_in_time(layers, leaves)


def _volume_preserving(p: VolumePreserving, leaves: Mapping[str, Any], buffers: Mapping[str, Any]) -> Any:
    n = len(buffers["U"])
    pairs, Theta = [(i, i + n // 2) for i in range(n // 2)], {"theta": leaves["Theta"].T}
    layers = []
    for j in reversed(range(Theta["theta"].shape[0])):
        Q = torch.eye(n, dtype=torch.float64)[torch.tensor(buffers["permutations"][j])]
        layers += [Q, _rotations(n, pairs, Theta, "", j)]
    return _product_in_time(layers, leaves)


def _structured_unitary(p: StructuredUnitary, leaves: Mapping[str, Any], buffers: Mapping[str, Any]) -> Any:
    n = len(buffers["U"])
    D_1, D_2, D_3 = (torch.diag(torch.exp(1j * leaves[f"w_{j}"])) for j in (1, 2, 3))
    k = torch.arange(n, dtype=torch.float64)
    F = torch.exp(-2j * torch.pi * torch.outer(k, k) / n) / n**0.5
    Pi = torch.eye(n, dtype=torch.complex128)[torch.tensor(buffers["permutation"])]
    R_1, R_2 = _reflection(leaves["v_1"]), _reflection(leaves["v_2"])
    return torch.linalg.multi_dot([D_3, R_2, F.mH, D_2, Pi, R_1, F, D_1])


def _geodesic_unitary(p: GeodesicUnitary, leaves: Mapping[str, Any], buffers: Mapping[str, Any]) -> Any:
    return leaves["X"]


#: Name of a parametrization -> its U, from (parametrization, its parameters, buffers).
MATRICES: dict[str, Callable[..., Any]] = {
    "scaled_cayley": _cayley,
    "neumann_cayley": _cayley,
    "exponential": _exponential,
    "householder": _householder,
    "tunable_rotations": _tunable_rotations,
    "fft_rotations": _fft_rotations,
    "volume_preserving": _volume_preserving,
    "structured_unitary": _structured_unitary,
    "geodesic_unitary": _geodesic_unitary,
}


def matrix(p: Parametrization, leaves: Mapping[str, Any], buffers: Mapping[str, Any]) -> Any:
    """U (n, n) of a parametrization from its own parameters; of the buffers only n, D and permutations are read."""
    return _form(MATRICES, name_of_map(p))(p, leaves, buffers)


def has_form(subject: Cell | Parametrization) -> bool:
    """Whether the cell or the parametrization is here."""
    return name_of_cell(subject) in STEPS if isinstance(subject, Cell) else name_of_map(subject) in MATRICES


def _form(forms: Mapping[str, Callable[..., Any]], name: str) -> Callable[..., Any]:
    if name not in forms:
        raise TypeError(f"no PyTorch form of {name}; there are: {', '.join(forms)}")
    return forms[name]


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
