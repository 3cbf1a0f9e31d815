"""The outputs of a conformance case once more, by a second route.  Needs torch and mpmath.

docs/conformance.md says what the kinds of cases hold.  ortho_ref's own values are one route; this is another, which
takes from it the names and options of cells and maps, and in `jacobian` the activations.

    cell, layer, parametrization, loss, activation   autograd, of the equations in PyTorch (`autograd`)
    exponential                               50 digits, its series term by term
    neumann_cayley, update, optimizer         50 digits, the papers' lines and the optimizers' formulas as they stand
    activation on its kinks, task             plain Python, number by number
    jacobian                                  dense matrices (gradients/); the bound in 50 digits
    train                                     PyTorch: autograd for the dense weights, torch.optim for the steps
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import mpmath
import numpy as np
import torch

from gradients.bptt import step_of
from gradients.map_problem import MapProblem
from gradients.problem import Problem
from ortho_ref.boundary import not_among
from ortho_ref.cells import Cell, GRUResetBefore, by_name
from ortho_ref.cells.cell import parts_of, state_of
from ortho_ref.conformance.small_cells import SMALL_CELLS
from ortho_ref.parametrizations import (
    Exponential,
    FFTRotations,
    Householder,
    Parametrization,
    ScaledCayley,
    StructuredUnitary,
    TunableRotations,
    VolumePreserving,
)
from scripts.maintain.oracle import autograd

Config = Mapping[str, Any]
Arrays = dict[str, np.ndarray]
Route = tuple[str, Arrays]

AUTOGRAD, MPMATH, PLAIN = "PyTorch autograd", "mpmath, 50 digits", "plain Python, number by number"
mp = mpmath.MPContext()
mp.dps = 50


def second_route(kind: str, config: Config, inputs: Arrays) -> Route:
    """(name of the route, the outputs once more) of a case as docs/conformance.md describes it.

    ValueError for a kind or a config that has no second route.
    """
    if kind not in _ROUTES:
        raise ValueError(not_among("kind", kind, _ROUTES))
    return _ROUTES[kind](config, inputs)


def _complex(pairs: np.ndarray) -> np.ndarray:
    """The complex array that is stored with real and imaginary part on the last axis."""
    return np.ascontiguousarray(pairs).view(np.complex128)[..., 0]


def _pairs(z: np.ndarray) -> np.ndarray:
    """The inverse of `_complex`; a real array as it is."""
    return np.stack([z.real, z.imag], axis=-1) if np.iscomplexobj(z) else z


def _under(prefix: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """The entries whose names begin with the prefix, without it."""
    return {name[len(prefix) :]: value for name, value in values.items() if name.startswith(prefix)}


def _cell_of(config: Config) -> Cell:
    if config["cell"] in SMALL_CELLS:
        return SMALL_CELLS[config["cell"]]()
    return by_name(config["cell"], **{key: value for key, value in config.items() if key != "cell"})


def _cell(config: Config, inputs: Arrays) -> Route:
    cell = _cell_of(config)
    real = ("x", "weights.b")
    given = {k: _complex(v) if cell.complex and k not in real else v for k, v in inputs.items()}
    h0, dh_T = (state_of(tuple(given[name.format(s)] for s in cell.states)) for name in ("{}0", "d{}_T"))
    problem = Problem(cell, _under("weights.", given), given["x"], h0, given["dh"], dh_T)
    leaves = {name: torch.tensor(value) for name, value in problem.point.items()}
    weights, x, h0 = problem.at(leaves)
    states = parts_of(cell, autograd.run(cell, weights, torch.as_tensor(x), h0))
    outputs = {name: part.numpy() for name, part in zip(cell.states, states, strict=True)}
    for name, gradient in autograd.gradients_of(problem).items():
        outputs[f"d_weights.{name}" if name in problem.weights else f"d_{name}"] = gradient
    return AUTOGRAD, {name: _pairs(value) for name, value in outputs.items()}


def _layer(config: Config, inputs: Arrays) -> Route:
    """Every sequence alone, of its own steps: padding is not masked here, it is left out."""
    cell = _cell_of({key: value for key, value in config.items() if key not in _OF_LAYERS})
    names = [key for key in inputs if key.startswith("weights.") or key in ("x", "h0", "c0")]
    real = ("x", "mask", "lengths", "weights.layer0.b")
    given = {
        k: _complex(v) if cell.complex and k not in real and v.shape[-1:] == (2,) else v for k, v in inputs.items()
    }
    time = 1 if config["batch_first"] else 0
    B = inputs["x"].shape[1 - time]

    def states(leaves: Mapping[str, Any]) -> tuple[Any, list[Any]]:
        made = _with_weight(config, leaves, given)
        alone = [_one_sequence(cell, config, made, given, b, time) for b in range(B)]
        y = torch.stack([one for one, _ in alone], dim=1 - time)
        return y, [torch.stack(part, dim=1) for part in zip(*(last for _, last in alone), strict=True)]

    def loss(leaves: Mapping[str, Any]) -> Any:
        y, last = states(leaves)
        upstream = [torch.tensor(given[f"d{name}_T"]) for name in cell.states]
        parts = [(torch.tensor(given["dy"]), y), *zip(upstream, last, strict=True)]
        return sum((d.conj() * a).real.sum() if cell.complex else (d * a).sum() for d, a in parts)

    point = {name: given[name] for name in names if given[name].dtype.kind != "i"}
    y, last = states({name: torch.tensor(value) for name, value in point.items()})
    outputs = {"y": y.numpy()} | {f"{name}_T": a.numpy() for name, a in zip(cell.states, last, strict=True)}
    for name, gradient in autograd.gradients(loss, point).items():
        skew = config["parametrized"] is not None and name.endswith(".A")
        outputs[f"d_{name}"] = gradient - gradient.T if skew else gradient
    return AUTOGRAD, {name: _pairs(a) for name, a in outputs.items()}


def _with_weight(config: Config, leaves: Mapping[str, Any], given: Arrays) -> Mapping[str, Any]:
    """The leaves, and the weight that a map makes of some of them."""
    kept = config["parametrized"]
    if kept is None:
        return leaves
    weight, n = f"weights.layer0.{kept['weight']}", given["dh_T"].shape[2]
    constants = _under(f"{weight}.", given) | {"U": np.eye(n), "D": _signs(n, kept.get("negative_ones", 0))}
    U = autograd.matrix(_map_of(kept), _under(f"{weight}.", leaves), constants)
    return {**leaves, weight: U}


_OF_LAYERS = ("layers", "bidirectional", "bias", "initial_state", "padding", "batch_first", "parametrized")


def _one_sequence(
    cell: Cell, config: Config, leaves: Mapping[str, Any], inputs: Arrays, b: int, time: int
) -> tuple[Any, list[Any]]:
    """y (T, D n) and the last states (L D, n) of one sequence."""
    x = leaves["x"].select(1 - time, b)
    T, n = len(x), inputs["dh_T"].shape[2]
    steps = list(range(T))
    if config["padding"] == "lengths":
        steps = steps[: inputs["lengths"][b]]
    elif config["padding"] == "mask":
        steps = [t for t in steps if (inputs["mask"][b, t] if config["batch_first"] else inputs["mask"][t, b])]
    ends: list[Any] = []
    for layer in range(config["layers"]):
        columns = []
        for suffix in ("", "_reverse") if config["bidirectional"] else ("",):
            given, zeros = _under(f"weights.layer{layer}{suffix}.", leaves), torch.zeros(1, n, dtype=torch.float64)
            shapes = cell.shapes(x.shape[1], n)
            weights = {k: given.get(k, torch.zeros(shape, dtype=torch.float64)) for k, shape in shapes.items()}
            first = [leaves[f"{s}0"][len(ends), b : b + 1] if f"{s}0" in leaves else zeros for s in cell.states]
            own = steps[::-1] if suffix else steps
            run = parts_of(cell, autograd.run(cell, weights, x[own][:, None], state_of(tuple(first))))
            ends.append([part[-1, 0] for part in run])
            at = {t: run[0][k + 1, 0] for k, t in enumerate(own)}
            held, column = zeros[0], {}
            for t in reversed(range(T)) if suffix else range(T):
                held = at.get(t, zeros[0] if config["padding"] == "lengths" else held)
                column[t] = held
            columns.append(torch.stack([column[t] for t in range(T)]))
        x = torch.cat(columns, dim=1)
    return x, [torch.stack(part) for part in zip(*ends, strict=True)]


def _map_of(config: Config) -> Parametrization:
    """The map of a config, but for those that go another way."""
    makers: dict[str, Callable[[], Parametrization]] = {
        "scaled_cayley": lambda: ScaledCayley(config["negative_ones"]),
        "exponential": Exponential,
        "householder": lambda: Householder(config["reflections"]),
        "tunable_rotations": lambda: TunableRotations(config["capacity"], complex=config["complex"]),
        "fft_rotations": lambda: FFTRotations(complex=config["complex"]),
        "volume_preserving": lambda: VolumePreserving(config["sublayers"]),
        "structured_unitary": StructuredUnitary,
    }
    return makers[config["parametrization"]]()


def _parametrization(config: Config, inputs: Arrays) -> Route:
    name = config["parametrization"]
    n = len(inputs["dU"])
    if name == "neumann_cayley":
        A, A_tilde, dU = (_exact(inputs[key]) for key in ("params.A", "A_tilde", "dU"))
        D = _D(n, config["negative_ones"])
        U = A_tilde @ (_I(n) - A) @ D
        return MPMATH, {"U": _floats(U), "d_params.A": _floats(_skew_gradient(A_tilde, D, U, dU))}
    if name == "exponential":
        return MPMATH, _exponential(inputs)
    p = _map_of(config)
    given = {k: _complex(v) if p.complex and k in ("dU", "params.v_1", "params.v_2") else v for k, v in inputs.items()}
    buffers = {**given, "U": given["dU"], "D": _signs(n, config.get("negative_ones", 0))}  # of this U the size is read
    problem = MapProblem(p, _under("params.", given), buffers, given["dU"])
    U = autograd.matrix(p, {key: torch.tensor(value) for key, value in problem.params.items()}, buffers)
    outputs = {"U": U.resolve_conj().numpy()}
    for key, gradient in autograd.gradients_of_map(problem).items():
        outputs[f"d_params.{key}"] = gradient - gradient.T if key == "A" else gradient
    return AUTOGRAD, {key: _pairs(value) for key, value in outputs.items()}


def _exponential(inputs: Arrays) -> Arrays:
    """The series of A^k / k!, and its derivative by the product rule.

    torch.matrix_exp is right to 1e-10 only, for A of norm 0.04.
    """
    U, d_A = _exp(_exact(inputs["params.A"]), _exact(inputs["dU"]))
    return {"U": _floats(U), "d_params.A": _floats(d_A)}


def _exp(A: np.ndarray, dU: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """exp(A), and the skew gradient."""
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
    history: dict[str, list[np.ndarray]] = {"A": [], "A_tilde": [], "U": []}
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
        for name, value in (("A", A), ("A_tilde", A_tilde), ("U", U)):
            history[name].append(_floats(value))
    return MPMATH, {name: np.array(values) for name, values in history.items()}


def _rebased(config: Config, inputs: Arrays) -> Arrays:
    """U = B exp(A): dL/dexp(A) = B^T dL/dU; after every so many updates B is U, and A is 0."""
    base = _exact(inputs["U0"])
    A, optimizer = 0 * base, _Optimizer(config["optimizer"], base.shape)
    history: dict[str, list[np.ndarray]] = {"A": [], "base": [], "U": []}
    for k, dU in enumerate(inputs["dU"], start=1):
        A = A - optimizer.delta(A, _exp(A, base.T @ _exact(dU))[1])
        U = base @ _exp(A, A)[0]
        if k % config["rebase_every"] == 0:
            base, A = U, 0 * A
        for name, value in (("A", A), ("base", base), ("U", U)):
            history[name].append(_floats(value))
    return {name: np.array(values) for name, values in history.items()}


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
    given = {key: _complex(v) if config["complex"] and key != "b" else v for key, v in inputs.items()}

    def value(leaves: dict[str, Any]) -> Any:
        a = leaves["a"]
        if name == "sigmoid":
            return torch.sigmoid(a)
        if name == "modrelu":
            return torch.sgn(a) * torch.relu(torch.abs(a) + leaves["b"])
        return {"tanh": torch.tanh, "relu": torch.relu}[name](a + leaves["b"])

    def loss(leaves: dict[str, Any]) -> Any:
        return (torch.tensor(given["dy"]).conj() * value(leaves)).real.sum()

    point: Arrays = {key: v for key, v in given.items() if key != "dy"}
    outputs = {"y": value({key: torch.tensor(v) for key, v in point.items()}).numpy()}
    outputs |= {f"d_{key}": gradient for key, gradient in autograd.gradients(loss, point).items()}
    return AUTOGRAD, {key: _pairs(v) for key, v in outputs.items()}


def _on_kinks(name: str, is_complex: bool, inputs: Arrays) -> Arrays:
    """relu has derivative 0 at 0; modrelu is 0 at a = 0, its derivatives are 0 there and where |a| + b = 0."""
    a, dy = ((_complex(inputs[key]) if is_complex else inputs[key]).tolist() for key in ("a", "dy"))
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
    return {"y": _pairs(np.array(y)), "d_a": _pairs(np.array(d_a)), "d_b": np.array(d_b)}


def _loss_of(config: Config, outputs: Any, y: Any, mask: Any = None) -> Any:
    """The loss of tensors: outputs (T, B, q), y as the config has it, mask (T, B)."""
    functional, groups = torch.nn.functional, config.get("groups", 1)
    rows, classes = outputs.reshape(*outputs.shape[:2], groups, -1), not y.is_floating_point()
    target = y.reshape(rows.shape[:-1] if classes else rows.shape)
    if mask is not None:
        rows, target = rows[mask], target[mask]
    K = rows.shape[-1]
    if config["loss"] == "binary_cross_entropy":
        return functional.binary_cross_entropy_with_logits(rows[..., 0], target.to(rows.dtype))
    if config["loss"] == "cross_entropy":
        return functional.cross_entropy(rows.reshape(-1, K), target.reshape(-1))
    return functional.mse_loss(rows, functional.one_hot(target, K).to(rows.dtype) if classes else target)


def _loss(config: Config, inputs: Arrays) -> Route:
    y, mask = (torch.tensor(inputs[key]) if key in inputs else None for key in ("y", "mask"))

    def loss(leaves: dict[str, Any]) -> Any:
        return _loss_of(config, leaves["outputs"], y, mask)

    value = loss({"outputs": torch.tensor(inputs["outputs"])}).numpy()
    gradient = autograd.gradients(loss, {"outputs": inputs["outputs"]})["outputs"]
    return AUTOGRAD, {"loss": value, "d_outputs": gradient}


def _jacobian(config: Config, inputs: Arrays) -> Route:
    cell, w, x = _cell_of(config), _under("weights.", inputs), inputs["x"]
    if cell.complex:
        raise ValueError("complex is True; allowed in a jacobian case: False")
    state = np.concatenate([inputs[f"{name}_prev"] for name in cell.states])
    outputs = {"J": step_of(cell)(cell, w, x, state).J}
    if config["cell"] == "gru_reset_before":
        outputs["bound"] = _bound(config["activation"], w, x, state)
    return "dense Jacobians (gradients/)", outputs


def _bound(activation: str, weights: Arrays, x: np.ndarray, h: np.ndarray) -> np.ndarray:
    """ncgru:8, ncgru:9, ncgru:10, ncgru:11, ncgru:12, with absolute values."""
    w, x, h = {name: _exact(value) for name, value in weights.items()}, _exact(x), _exact(h)
    r, u = (
        np.array([1 / (1 + mp.exp(-a)) for a in w[f"W_{g}"] @ x + w[f"U_{g}"] @ h + w[f"b_{g}"]], object) for g in "ru"
    )
    a = w["W_c"] @ x + w["U_c"] @ (r * h)
    phi: dict[str, Callable[[Any, Any], Any]] = {
        "tanh": lambda a, b: mp.tanh(a + b),
        "relu": lambda a, b: max(a + b, mp.zero),
        "modrelu": lambda a, b: mp.sign(a) * max(abs(a) + b, mp.zero),
    }
    c = [phi[activation](a_i, b_i) for a_i, b_i in zip(a, w["b_c"], strict=True)]
    largest_h, largest_c = max(map(abs, h)), max(map(abs, c))
    delta_u, delta_r = max(u * (1 - u)), max(r * (1 - r))
    alpha = delta_u * (largest_h + largest_c) * _norm(w["U_u"]) + max(1 - u)
    beta = max(u) * (delta_r * _norm(w["U_r"]) * largest_h + max(r))
    return np.array(float(alpha + beta * _norm(w["U_c"])))


def _task(config: Config, inputs: Arrays) -> Route:
    """Every sequence on its own; what comes out is turned to time-major."""
    T, form = config["length"], config.get("form")
    batch_first = ("values", "steps", "marker")
    given = {name: (value if name in batch_first else value.T).tolist() for name, value in inputs.items()}
    if config["task"] == "copying":
        layout, data = config["layout"], given["data"]
        markers = given["marker"] if layout == "C" else [{"A": T + 9, "B": T + 10}[layout]] * len(data)
        drawn = list(zip(data, markers, strict=True))
        sequences = [_copied(symbols, T, marker, marker + (layout != "B")) for symbols, marker in drawn]
    elif config["task"] == "denoise":
        drawn = list(zip(given["data"], given["places"], strict=True))
        sequences = [_denoised(symbols, places, T, form == "released") for symbols, places in drawn]
    elif config["task"] == "adding":
        drawn = list(zip(given["values"], given["steps"], strict=True))
        x = [[[float(t in steps), values[t]] for t in range(T)] for values, steps in drawn]
        y = [[values[first] + values[second]] for values, (first, second) in drawn]
        return PLAIN, {"x": np.array(x).swapaxes(0, 1), "y": np.array(y)}
    else:
        types, cap = {"paper": (10, 10), "released": (3, 5)}[config["form"]]
        return PLAIN, {"y": np.array([_open(tokens, types, cap) for tokens in given["tokens"]]).swapaxes(0, 1)}
    xs, ys = zip(*sequences, strict=True)
    return PLAIN, {"x": np.array(xs).swapaxes(0, 1), "y": np.array(ys).swapaxes(0, 1)}


def _copied(data: list[int], T: int, marker: int, recall: int) -> tuple[list[int], list[int]]:
    """T + 20 steps: the data first and the marker at its step; the data again from the step `recall` on."""
    x = [*data, *[0] * (T + 10)]
    x[marker] = 9
    return x, [*[0] * recall, *data, *[0] * (T + 10 - recall)]


def _denoised(data: list[int], places: list[int], T: int, one_hot: bool) -> tuple[list[Any], list[int]]:
    """At each of T + 9 steps the last of the symbols whose place it is, else noise; the marker; 10 of noise."""
    x: list[Any] = [0] * (T + 9)
    for symbol, place in zip(data, places, strict=True):
        x[place] = symbol
    x += [10, *[0] * 10]
    if one_hot:
        x = [[float(symbol == k) for k in range(10)] for symbol in x]
    return x, [*[0] * (T + 10), *data]


def _open(tokens: list[int], types: int, cap: int) -> list[list[int]]:
    """Open parentheses by type after each token."""
    count, counts = [0] * types, []
    for token in tokens:
        if token < types:
            count[token] = min(count[token] + 1, cap)
        elif token < 2 * types:
            count[token - types] = max(count[token - types] - 1, 0)
        counts.append(list(count))
    return counts


def _torchs(config: Config, p: Any) -> Callable[[], Any]:
    """An optimizer's step in PyTorch: moves the tensor p by p.grad, in place."""
    rate, decay = config["learning_rate"], config["weight_decay"]
    if config["name"] == "sgd":
        return torch.optim.SGD([p], rate, config["momentum"], weight_decay=decay).step
    if config["name"] == "adam":
        return torch.optim.Adam([p], rate, (config["beta1"], config["beta2"]), config["epsilon"], decay).step
    v = torch.full_like(p, config["initial"])
    if not config["epsilon_inside"]:
        rmsprop = torch.optim.RMSprop([p], rate, config["decay"], config["epsilon"], decay)
        rmsprop.state[p] = {"step": torch.tensor(0.0), "square_avg": v}
        return rmsprop.step

    def inside() -> None:
        g = p.grad + decay * p
        v.mul_(config["decay"]).add_((1 - config["decay"]) * g**2)
        p.sub_(rate * g / torch.sqrt(v + config["epsilon"]))

    return inside


def _network_loss(config: Config, x: Any, y: Any, leaves: Mapping[str, Any]) -> Any:
    """The loss of an NC-GRU with dense recurrent weights, from h_0 = 0."""
    weights = {name.removesuffix(".A"): leaf for name, leaf in _under("layer0.", leaves).items()}
    h0 = torch.zeros(x.shape[1], len(weights["b_c"]), dtype=torch.float64)
    h = autograd.run(GRUResetBefore("modrelu"), weights, x, h0)
    return _loss_of(config, h[1:] @ leaves["readout.W"].T + leaves["readout.b"], y)


def _train(config: Config, inputs: Arrays) -> Route:
    """A, A_tilde and U go by the name of A; the optimizer's delta is how far it moved A."""
    params = {name: torch.tensor(value) for name, value in _under("params.", inputs).items()}
    skew = [f"layer0.U_{g}.A" for g in config["orthogonal"]]
    steps = {name: _torchs(config["optimizer_A" if name in skew else "optimizer"], p) for name, p in params.items()}
    n = len(params["layer0.b_c"])
    I, D = torch.eye(n, dtype=torch.float64), torch.diag(torch.tensor(_signs(n, config["negative_ones"])))
    A_tilde = {name: torch.linalg.inv(I + params[name]) for name in skew}
    U = {name: A_tilde[name] @ (I - params[name]) @ D for name in skew}
    history: dict[str, list[np.ndarray]] = {}
    for k, (x, y) in enumerate(zip(inputs["x"], inputs["y"], strict=True), start=1):
        loss = partial(_network_loss, config, torch.tensor(x), torch.tensor(y))
        record = {"loss": loss(params | U)}
        for name, gradient in autograd.gradients(loss, {name: v.numpy() for name, v in (params | U).items()}).items():
            p, before, dU = params[name], params[name].clone(), torch.tensor(gradient)
            p.grad = _skew_gradient(A_tilde[name], D, U[name], dU) if name in skew else dU
            steps[name]()
            record[f"params.{name}"] = p.clone()
            if name in skew:
                P, weight = A_tilde[name] @ (before - p), name.split(".")[1]
                due = config["reset_every"] and k % config["reset_every"] == 0
                if due or torch.linalg.matrix_norm(P, 2) >= 1:
                    A_tilde[name] = torch.linalg.inv(I + p)
                else:
                    powers = [torch.linalg.matrix_power(P, i) for i in range(config["order"] + 1)]
                    A_tilde[name] = sum(powers) @ A_tilde[name]
                U[name] = A_tilde[name] @ (I - p) @ D
                record |= {weight: U[name], f"defect.{weight}": torch.linalg.matrix_norm(U[name].T @ U[name] - I, 2)}
        for name, value in record.items():
            history.setdefault(name, []).append(value.numpy())
    return "PyTorch: autograd and torch.optim", {name: np.array(values) for name, values in history.items()}


_ROUTES: dict[str, Callable[[Config, Arrays], Route]] = {
    "cell": _cell,
    "layer": _layer,
    "parametrization": _parametrization,
    "update": _update,
    "optimizer": _optimizer,
    "activation": _activation,
    "loss": _loss,
    "jacobian": _jacobian,
    "task": _task,
    "train": _train,
}
