"""The outputs of a conformance case once more, by a second route.  Needs torch and mpmath.

docs/check/cases.md says what the kinds of cases hold.  ortho_ref's own values are one route; this is another, which
takes from it the names and options of cells and maps, and how complex arrays are stored.  Which cell and which map a
config names it reads itself: a case that was made of another one is found.

    cell, layer, parametrization, loss, activation   autograd, of the equations in PyTorch (`autograd`)
    linear                                    autograd, of steps by their transition matrix in PyTorch (`linear`)
    exponential                               50 digits, its series term by term
    neumann_cayley, update, optimizer         50 digits, the papers' lines and the optimizers' formulas as they stand
    activation on its kinks                   plain Python, number by number
"""

from collections.abc import Callable, Sequence
from typing import Any

import mpmath
import numpy as np
import torch

from gradients.problem import Problem
from ortho_ref.boundary import check_choice
from ortho_ref.cells import Cell, by_name
from ortho_ref.cells.cell import parts_of, state_of
from ortho_ref.conformance.cases.case import Arrays, Case, Config, joined, parted
from ortho_ref.conformance.cases.layered import AROUND
from ortho_ref.conformance.cases.small_cells import SMALL_CELLS
from ortho_ref.parametrizations import Parametrization
from ortho_ref.parametrizations.by_name import PARAMETRIZATIONS
from ortho_ref.trees import under
from scripts.maintain.adapters import torch_losses
from scripts.maintain.oracle import autograd, linear

Route = tuple[str, Arrays]
Tensors = dict[str, Any]

AUTOGRAD, MPMATH, PLAIN = "PyTorch autograd", "mpmath, 50 digits", "plain Python, number by number"
mp = mpmath.MPContext()
mp.dps = 50


def second_route(kind: str, config: Config, inputs: Arrays) -> Route:
    """(name of the route, the outputs once more) of a case as docs/check/cases.md describes it.

    ValueError for a kind or a config that has no second route.
    """
    check_choice("kind", kind, _ROUTES)
    return _ROUTES[kind](config, inputs)


def _cell_of(config: Config) -> Cell:
    if config["cell"] in SMALL_CELLS:
        return SMALL_CELLS[config["cell"]]()
    return by_name(config["cell"], **{key: value for key, value in config.items() if key != "cell"})


def _cell(config: Config, inputs: Arrays) -> Route:
    cell = _cell_of(config)
    real = ("x", "weights.b")
    given = {k: joined(v) if cell.complex and k not in real else v for k, v in inputs.items()}
    h0, dh_T = (state_of(tuple(given[name.format(s)] for s in cell.states)) for name in ("{}0", "d{}_T"))
    problem = Problem(cell, under("weights.", given), given["x"], h0, given["dh"], dh_T)
    leaves = {name: torch.tensor(value) for name, value in problem.point.items()}
    weights, x, h0 = problem.at(leaves)
    states = parts_of(cell, autograd.run(cell, weights, torch.as_tensor(x), h0))
    outputs = {name: part.numpy() for name, part in zip(cell.states, states, strict=True)}
    for name, gradient in autograd.gradients_of(problem).items():
        outputs[f"d_weights.{name}" if name in problem.weights else f"d_{name}"] = gradient
    return AUTOGRAD, {name: parted(value) for name, value in outputs.items()}


def _layer(config: Config, inputs: Arrays) -> Route:
    """Every sequence alone, of its own steps: padding is not masked here, it is left out."""
    cell = _cell_of({key: value for key, value in config.items() if key not in AROUND})
    names = [key for key in inputs if key.startswith("weights.") or key in ("x", "h0", "c0")]
    real = ("x", "mask", "lengths", "resets", "dropout", "weights.layer0.b")
    given = {k: joined(v) if cell.complex and k not in real and v.shape[-1:] == (2,) else v for k, v in inputs.items()}
    time = 1 if config["batch_first"] else 0
    B = inputs["x"].shape[1 - time]

    def forward(leaves: Tensors) -> Tensors:
        made = _with_weight(config, leaves, given)
        alone = [_one_sequence(cell, config, made, given, b, time) for b in range(B)]
        last = zip(cell.states, *(states for _, states in alone), strict=True)
        y = torch.stack([one for one, _ in alone], dim=1 - time)
        return {"y": y} | {f"{name}_T": torch.stack(part, dim=1) for name, *part in last}

    point = {name: given[name] for name in names if given[name].dtype.kind != "i"}
    return _by_autograd(forward, point, {name: given[f"d{name}"] for name in ("y", *(f"{s}_T" for s in cell.states))})


def _by_autograd(forward: Callable[[Tensors], Tensors], point: Arrays, upstream: Arrays) -> Route:
    """The outputs of a function of tensors, and the gradients of Re sum conj(upstream) outputs; of a skew A G - G^T."""
    like = {name: torch.tensor(d) for name, d in upstream.items()}

    def loss(leaves: Tensors) -> Any:
        found = forward(leaves)
        return sum((d.conj() * found[name]).real.sum() for name, d in like.items())

    found = forward({name: torch.tensor(a) for name, a in point.items()})
    outputs = {name: a.resolve_conj().numpy() for name, a in found.items()}
    for name, G in autograd.gradients(loss, point).items():
        outputs[f"d_{name}"] = G - G.T if name.endswith(".A") else G
    return AUTOGRAD, {name: parted(a) for name, a in outputs.items()}


def _with_weight(config: Config, leaves: dict[str, Any], given: Arrays) -> dict[str, Any]:
    """The leaves, and the weight that a map makes of some of them."""
    kept = config["parametrized"]
    if kept is None:
        return leaves
    weight, n = f"weights.layer0.{kept['weight']}", given["dh_T"].shape[2]
    constants = under(f"{weight}.", given) | {"U": np.eye(n), "D": _signs(n, kept.get("negative_ones", 0))}
    U = autograd.matrix(_map_of(kept), under(f"{weight}.", leaves), constants)
    return {**leaves, weight: U}


def _one_sequence(
    cell: Cell, config: Config, leaves: dict[str, Any], inputs: Arrays, b: int, time: int
) -> tuple[Any, list[Any]]:
    """y (T, D n) and the last states (L D, n) of one sequence."""
    x = leaves["x"].select(1 - time, b)
    T, n = len(x), inputs["dh_T"].shape[2]
    steps = list(range(T))
    if config["padding"] == "lengths":
        steps = steps[: inputs["lengths"][b]]
    elif config["padding"] == "mask":
        steps = [t for t in steps if (inputs["mask"][b, t] if config["batch_first"] else inputs["mask"][t, b])]
    anew = inputs["resets"].take(b, 1 - time) if config["padding"] == "resets" else np.zeros(T, bool)
    ends: list[Any] = []
    for layer in range(config["layers"]):
        columns = []
        for suffix in ("", "_reverse") if config["bidirectional"] else ("",):
            given, zeros = under(f"weights.layer{layer}{suffix}.", leaves), torch.zeros(1, n, dtype=torch.float64)
            shapes = cell.shapes(x.shape[1], n)
            weights = {k: given.get(k, torch.zeros(shape, dtype=torch.float64)) for k, shape in shapes.items()}
            first = [leaves[f"{s}0"][len(ends), b : b + 1] if f"{s}0" in leaves else zeros for s in cell.states]
            own = steps[::-1] if suffix else steps
            at: dict[int, Any] = {}
            for piece in np.split(own, [k for k in range(1, len(own)) if anew[own[k]]]):
                begin = [zeros] * len(first) if anew[piece[0]] else first
                run = parts_of(cell, autograd.run(cell, weights, x[piece][:, None], state_of(tuple(begin))))
                at |= {t: run[0][k + 1, 0] for k, t in enumerate(piece)}
            ends.append([part[-1, 0] for part in run])
            held, column = zeros[0], {}
            for t in reversed(range(T)) if suffix else range(T):
                held = at.get(t, zeros[0] if config["padding"] == "lengths" else held)
                column[t] = held
            columns.append(torch.stack([column[t] for t in range(T)]))
        x = torch.cat(columns, dim=1)
        if "dropout" in inputs and layer + 1 < config["layers"]:
            x = x * torch.tensor(inputs["dropout"][layer, :, b])
    return x, [torch.stack(part) for part in zip(*ends, strict=True)]


def _map_of(config: Config) -> Parametrization:
    """The map of a config, but for those that go another way."""
    options = {key: value for key, value in config.items() if key not in ("parametrization", "weight")}
    return PARAMETRIZATIONS[config["parametrization"]](**options)


def _parametrization(config: Config, inputs: Arrays) -> Route:
    name = config["parametrization"]
    n = len(inputs["dU"])
    if name == "neumann_cayley":
        A, A_tilde, dU = (_exact(inputs[key]) for key in ("params.A", "A_tilde", "dU"))
        D = _D(n, config["negative_ones"])
        U = A_tilde @ (_I(n) - A) @ D
        return MPMATH, {"U": _floats(U), "d_params.A": _floats(_skew_gradient(A_tilde, D, U, dU))}
    if name == "exponential":
        U, d_A = _exp(_exact(inputs["params.A"]), _exact(inputs["dU"]))
        return MPMATH, {"U": _floats(U), "d_params.A": _floats(d_A)}
    p = _map_of(config)
    given = {k: joined(v) if p.complex and k in ("dU", "params.v_1", "params.v_2") else v for k, v in inputs.items()}
    buffers = {**given, "U": given["dU"], "D": _signs(n, config.get("negative_ones", 0))}  # of this U the size is read
    point = {name: a for name, a in given.items() if name.startswith("params.")}
    return _by_autograd(
        lambda leaves: {"U": autograd.matrix(p, under("params.", leaves), buffers)}, point, {"U": given["dU"]}
    )


def _exp(A: np.ndarray, dU: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """exp(A) by the series of A^k / k!, and the skew gradient by the product rule.

    torch.matrix_exp is right to 1e-10 only, for A of norm 0.04.
    """
    U, power, L, d_power = _I(len(A)), _I(len(A)), 0 * A, 0 * A
    for k in range(1, 150):
        d_power = d_power @ A.T + power.T @ dU  # the sum of (A^T)^i dU (A^T)^j, i + j = k - 1
        power = power @ A
        U, L = U + power / mp.factorial(k), L + d_power / mp.factorial(k)
    return U, L - L.T


# In 50 digits: arrays whose entries are mpmath's numbers.


def _exact(values: Any) -> np.ndarray:
    """Real numbers as mpmath's."""
    return np.vectorize(mp.mpf, otypes=[object])(values)


def _floats(values: Any) -> np.ndarray:
    """The inverse of `_exact`, rounded."""
    return np.vectorize(float, otypes=[float])(values)


def _I(n: int) -> np.ndarray:
    return _exact(np.eye(n))


def _signs(n: int, negative_ones: int) -> np.ndarray:
    return np.array([1.0] * (n - negative_ones) + [-1.0] * negative_ones)


def _D(n: int, negative_ones: int) -> np.ndarray:
    return _exact(np.diag(_signs(n, negative_ones)))


def _inverse(M: np.ndarray) -> np.ndarray:
    return np.array(mp.inverse(mp.matrix(M.tolist())).tolist(), object)


def _norm(M: np.ndarray) -> Any:
    """The largest singular value of a real matrix."""
    return max(mp.svd_r(mp.matrix(M.tolist()), compute_uv=False))


def _skew_gradient(A_tilde: Any, D: Any, U: Any, dU: Any) -> Any:
    """V^T - V of ncgru:5 and ncgru:6, of arrays or tensors."""
    V = A_tilde.T @ dU @ (D + U.T)
    return V.T - V


class _Optimizer:
    """The formulas of ortho_ref/training/optimizers.py, for one array: delta from parameter and gradient."""

    def __init__(self, config: Config, shape: Sequence[int]) -> None:
        self._options = {key: mp.mpf(value) for key, value in config.items() if key != "name"}
        self._inside = config.get("epsilon_inside", False)
        self._entry = {"sgd": self._sgd, "adam": self._adam, "rmsprop": self._rmsprop}[config["name"]]
        self._k = 0
        self._m, self._v = np.full(shape, mp.zero), np.full(shape, self._options.get("initial", mp.zero))

    def delta(self, parameter: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        """The next step to subtract, entry by entry."""
        self._k += 1
        delta = np.empty(gradient.shape, object)
        for at in np.ndindex(gradient.shape):
            delta[at] = self._entry(at, gradient[at] + self._options["weight_decay"] * parameter[at])
        return delta

    def _sgd(self, at: tuple[int, ...], g: Any) -> Any:
        o = self._options
        self._m[at] = o["momentum"] * self._m[at] + g
        return o["learning_rate"] * self._m[at]

    def _adam(self, at: tuple[int, ...], g: Any) -> Any:
        o = self._options
        self._m[at] = o["beta1"] * self._m[at] + (1 - o["beta1"]) * g
        self._v[at] = o["beta2"] * self._v[at] + (1 - o["beta2"]) * g**2
        m, v = self._m[at] / (1 - o["beta1"] ** self._k), self._v[at] / (1 - o["beta2"] ** self._k)
        return o["learning_rate"] * m / (mp.sqrt(v) + o["epsilon"])

    def _rmsprop(self, at: tuple[int, ...], g: Any) -> Any:
        o = self._options
        self._v[at] = v = o["decay"] * self._v[at] + (1 - o["decay"]) * g**2
        root = mp.sqrt(v + o["epsilon"]) if self._inside else mp.sqrt(v) + o["epsilon"]
        return o["learning_rate"] * g / root if root else mp.zero


def _optimizer(config: Config, inputs: Arrays) -> Route:
    """A complex array, stored as pairs, needs nothing of its own: the parts move alone."""
    parameter = _exact(inputs["parameter0"])
    optimizer, history = _Optimizer(config["optimizer"], parameter.shape), []
    for gradient in inputs["gradient"]:
        parameter = np.asarray(parameter - optimizer.delta(parameter, _exact(gradient)))
        history.append(_floats(parameter))
    return MPMATH, {"parameter": np.array(history)}


def _update(config: Config, inputs: Arrays) -> Route:
    if config["algorithm"] == "geodesic_unitary":
        return MPMATH, _geodesic(config["optimizer"], inputs)
    if config["algorithm"] == "dynamic_trivialization":
        return MPMATH, _rebased(config, inputs)
    A = _exact(inputs["A0"])
    n = len(A)
    I, D, every = _I(n), _D(n, config["negative_ones"]), config.get("reset_every")
    optimizer = _Optimizer(config["optimizer"], A.shape)
    A_tilde = _inverse(I + A)
    U = A_tilde @ (I - A) @ D
    history = []
    for k, dU in enumerate(inputs["dU"], start=1):
        delta = optimizer.delta(A, _skew_gradient(A_tilde, D, U, _exact(dU)))
        A = A - delta
        P = A_tilde @ delta
        if config["algorithm"] == "scaled_cayley" or (every and k % every == 0) or _norm(P) >= 1:
            A_tilde = _inverse(I + A)
        else:
            powers = [I]
            for _ in range(config["order"]):
                powers.append(powers[-1] @ P)
            A_tilde = sum(powers) @ A_tilde
        U = A_tilde @ (I - A) @ D
        history.append({"A": A, "A_tilde": A_tilde, "U": U})
    return MPMATH, _stacked(history)


def _rebased(config: Config, inputs: Arrays) -> Arrays:
    """U = B exp(A): dL/dexp(A) = B^T dL/dU; after every so many updates B is U, and A is 0."""
    base = _exact(inputs["U0"])
    A, optimizer = 0 * base, _Optimizer(config["optimizer"], base.shape)
    history = []
    for k, dU in enumerate(inputs["dU"], start=1):
        A = A - optimizer.delta(A, _exp(A, base.T @ _exact(dU))[1])
        U = base @ _exp(A, A)[0]
        if k % config["rebase_every"] == 0:
            base, A = U, 0 * A
        history.append({"A": A, "base": base, "U": U})
    return _stacked(history)


def _stacked(history: Sequence[Arrays]) -> Arrays:
    """Name -> what it was after each update."""
    return {name: _floats([after[name] for after in history]) for name in history[0]}


def _geodesic(config: Config, inputs: Arrays) -> Arrays:
    """goru:2.9 and goru:2.10 with delta for the rate times G."""
    pairs = _exact(inputs["X0"])
    optimizer, history = _Optimizer(config, pairs.shape), []
    I = _I(len(pairs))
    for gradient in inputs["dU"]:
        delta = optimizer.delta(pairs, _exact(gradient))
        U, G = (value[..., 0] + mp.j * value[..., 1] for value in (pairs, delta))
        A = G @ U.conj().T - U @ G.conj().T
        U = _inverse(I + A / 2) @ (I - A / 2) @ U
        pairs = np.stack([np.vectorize(part, otypes=[object])(U) for part in (mp.re, mp.im)], axis=-1)
        history.append(_floats(pairs))
    return {"U": np.array(history)}


def _activation(config: Config, inputs: Arrays) -> Route:
    name = config["activation"]
    if config["kinks"] and name in ("relu", "modrelu"):
        return PLAIN, _on_kinks(name, config["complex"], inputs)
    given = {key: joined(v) if config["complex"] and key != "b" else v for key, v in inputs.items()}

    def forward(leaves: Tensors) -> Tensors:
        a = leaves["a"]
        return {"y": torch.sigmoid(a) if name == "sigmoid" else autograd.phi(name, a, leaves["b"])}

    dy = given.pop("dy")
    return _by_autograd(forward, given, {"y": dy})


def _on_kinks(name: str, is_complex: bool, inputs: Arrays) -> Arrays:
    """relu has derivative 0 at 0; modrelu is 0 at a = 0, its derivatives are 0 there and where |a| + b = 0."""
    a, dy = ((joined(inputs[key]) if is_complex else inputs[key]).tolist() for key in ("a", "dy"))
    b = inputs["b"].tolist()
    y: list[list[Any]] = [[0 * z for z in row] for row in a]
    d_a, d_b = [list(row) for row in y], [0.0 for _ in b]
    for i, row in enumerate(a):
        for j, z in enumerate(row):
            g = dy[i][j]
            if name == "relu" and z + b[j] > 0:
                y[i][j], d_a[i][j] = z + b[j], g
                d_b[j] += g
            if name == "modrelu" and z != 0 and abs(z) + b[j] > 0:
                e = z / abs(z)
                along = (e.conjugate() * g).real
                y[i][j] = e * (abs(z) + b[j])
                d_a[i][j] = e * along + (1 + b[j] / abs(z)) * (g - e * along)
                d_b[j] += along
    return {"y": parted(np.array(y)), "d_a": parted(np.array(d_a)), "d_b": np.array(d_b)}


def _loss(config: Config, inputs: Arrays) -> Route:
    outputs = torch_losses.run(Case("", "loss", config, inputs))
    assert outputs is not None
    return AUTOGRAD, outputs


def _linear(config: Config, inputs: Arrays) -> Route:
    complex = ("u", "x0", "do", "dx_T") if config["recurrence"] == "lru" else ()
    given = {name: joined(a) if name in complex else a for name, a in inputs.items()}
    like = {name: torch.tensor(a) for name, a in given.items() if name == "do" or name.endswith("_T")}
    point = {name: a for name, a in given.items() if name not in like and name != "resets"}
    resets = {"resets": torch.tensor(given["resets"])} if "resets" in given else {}

    upstream = {name.removeprefix("d"): given[name] for name in like}
    return _by_autograd(lambda leaves: linear.forward(config, leaves | resets, like), point, upstream)


_ROUTES: dict[str, Callable[[Config, Arrays], Route]] = {
    "cell": _cell,
    "layer": _layer,
    "parametrization": _parametrization,
    "update": _update,
    "optimizer": _optimizer,
    "activation": _activation,
    "loss": _loss,
    "linear": _linear,
}
