"""The answers: what each kind of case computes, by the cells and `scan`, the maps, optimizers, losses and `linear`.

The kit's vectors come from here, in float64, and `mistakes` are departures from it.
"""

from collections.abc import Callable
from dataclasses import fields, replace
from functools import cache
from typing import Any

import numpy as np

from ortho_ref import models, scan
from ortho_ref.activations import ACTIVATIONS, sigmoid, sigmoid_derivative
from ortho_ref.cells import CELLS, Cell
from ortho_ref.cells.cell import parts_of, state_of
from ortho_ref.conformance.cases.case import Arrays, Case, Config, joined, parted
from ortho_ref.conformance.cases.layered import outputs as layer_outputs
from ortho_ref.conformance.cases.small_cells import SMALL_CELLS
from ortho_ref.conformance.linear import through_time
from ortho_ref.losses import LOSSES
from ortho_ref.parametrizations import Exponential, GeodesicUnitary, NeumannCayley, Parametrization, ScaledCayley
from ortho_ref.parametrizations.by_name import PARAMETRIZATIONS
from ortho_ref.parametrizations.cayley import signs as signs
from ortho_ref.training.optimizers import OPTIMIZERS, Optimizer
from ortho_ref.trees import prefixed, under

CONSTANTS = ("permutations", "permutation")


def outputs(case: Case) -> Arrays:
    """The answer to a case, whose inputs are in float64: real arrays, under the kit's names."""
    inputs = {name: joined(a) if name in complex_inputs(case) else a for name, a in case.inputs.items()}
    return {name: parted(np.asarray(a)) for name, a in _OUTPUTS[case.kind](case.config, inputs).items()}


def complex_inputs(case: Case) -> set[str]:
    """Names of the inputs that stand for complex arrays."""
    config, names = case.config, set(case.inputs)
    if case.config.get("algorithm") == "geodesic_unitary":
        return {"X0", "dU"}
    if "parametrization" in config and parametrization_of(config).complex:
        return {"dU"} | names & {"params.v_1", "params.v_2"}
    if case.kind == "linear":
        return names & set(through_time.recurrence_of(config).complex)
    if not config.get("complex"):
        return set()
    if case.kind == "layer":
        vectors = {f"weights.layer0.{config['parametrized']['weight']}.{name}" for name in ("v_1", "v_2")}
        return names & {"h0", "dy", "dh_T", "weights.layer0.W", *vectors}
    if "cell" in config:
        return {"h0", "dh", "dh_T", "weights.W", "weights.U"}
    return {"activation": {"a", "dy"}, "optimizer": {"parameter0", "gradient"}}[case.kind]


def _options(kind: type[Any], config: Config) -> dict[str, Any]:
    """What of a config is an option of the class."""
    return {field.name: config[field.name] for field in fields(kind) if field.name in config}


def cell_of(config: Config) -> Cell:
    """The cell of a config."""
    kind = (CELLS | SMALL_CELLS)[config["cell"]]
    return kind(**_options(kind, config))


def parametrization_of(config: Config) -> Parametrization:
    """The parametrization of a config, that of an update by its algorithm."""
    kind = PARAMETRIZATIONS[config.get("parametrization") or config["algorithm"]]
    p: Parametrization = kind(**_options(kind, config))
    return p


def optimizer_of(config: Config) -> Optimizer:
    """The optimizer of {"name": ..., its arguments}."""
    return OPTIMIZERS[config["name"]](**{k: v for k, v in config.items() if k != "name"})


def _cell(config: Config, inputs: Arrays) -> Arrays:
    cell, weights = cell_of(config), under("weights.", inputs)
    h0 = state_of(tuple(inputs[f"{name}0"] for name in cell.states))
    dh_T = state_of(tuple(inputs[f"d{name}_T"] for name in cell.states))
    states, tape = scan.unroll(cell, weights, inputs["x"], h0)
    gradients = scan.unroll_back(cell, weights, tape, inputs["dh"], dh_T)
    found = dict(zip(cell.states, parts_of(cell, states), strict=True))
    if gradients.x is not None:
        found["d_x"] = gradients.x
    first = zip(cell.states, parts_of(cell, gradients.h0), strict=True)
    return found | {f"d_{name}0": part for name, part in first} | prefixed("d_weights.", gradients.weights)


def _layer(config: Config, inputs: Arrays) -> Arrays:
    """A weight that is kept by a map is made of its parameters, its gradient taken back to them."""
    kept = config["parametrized"]
    if kept is None:
        return layer_outputs(cell_of(config), config, inputs)
    p, weight = parametrization_of(kept), f"weights.layer0.{kept['weight']}"
    given = under(f"{weight}.", inputs)
    n = inputs["dh_T"].shape[2]
    params = {name: a for name, a in given.items() if name not in CONSTANTS}
    buffers = p.rebuild(params, _buffers(p, np.eye(n, dtype=inputs["h0"].dtype), given))
    rest = {name: a for name, a in inputs.items() if not name.startswith(f"{weight}.")}
    found = layer_outputs(cell_of(config), config, rest | {weight: of_map(buffers["U"])})
    return found | prefixed(f"d_{weight}.", p.pullback(params, buffers, to_map(found.pop(f"d_{weight}"))))


def _buffers(p: Parametrization, U: np.ndarray, given: Arrays) -> dict[str, Any]:
    """What a map has beside its parameters: a U of the right shape, the constants given, the signs of D."""
    buffers: dict[str, Any] = {"U": U} | {name: given[name] for name in CONSTANTS if name in given}
    if isinstance(p, ScaledCayley | NeumannCayley):
        buffers["D"] = signs(len(U), p.negative_ones, U.dtype)
    return buffers


def of_map(U: np.ndarray) -> np.ndarray:
    """The weight, from what the map gives."""
    return U


def to_map(dU: np.ndarray) -> np.ndarray:
    """The gradient that goes back to the map, from that by the weight."""
    return dU


def _parametrization(config: Config, inputs: Arrays) -> Arrays:
    p, params, dU = parametrization_of(config), under("params.", inputs), inputs["dU"]
    buffers = _buffers(p, dU, inputs)
    if isinstance(p, NeumannCayley):  # an update by 0 builds U from A and A_tilde as they are
        p = replace(p, reset_every=None)
        buffers |= {"A_tilde": inputs["A_tilde"], "step": 0, "forced_resets": 0}
        params, buffers = p.retract(params, buffers, {"A": np.zeros_like(params["A"])})
    else:
        buffers = p.rebuild(params, buffers)
    return {"U": buffers["U"]} | prefixed("d_params.", p.pullback(params, buffers, dU))


def _update(config: Config, inputs: Arrays) -> Arrays:
    if config["algorithm"] == "dynamic_trivialization":
        return _trivialization(config, inputs)
    p, optimizer = parametrization_of(config), optimizer_of(config["optimizer"])
    name = "X" if isinstance(p, GeodesicUnitary) else "A"
    params = {name: inputs[f"{name}0"]}
    buffers = p.rebuild(params, _buffers(p, params[name], inputs) | {"step": 0, "forced_resets": 0})
    history = []
    for dU in inputs["dU"]:
        gradient = p.pullback(params, buffers, dU)[name]
        delta = optimizer.delta(name, params[name], gradient)
        params, buffers = p.retract(params, buffers, {name: delta})
        history.append({"U": buffers["U"]} | ({"A": params["A"], "A_tilde": buffers["A_tilde"]} if name == "A" else {}))
    return _stacked(history)


def _trivialization(config: Config, inputs: Arrays) -> Arrays:
    """U = base exp(A); after every `rebase_every`-th update the base is U, and A is 0."""
    p, optimizer, base = Exponential(), optimizer_of(config["optimizer"]), inputs["U0"]
    A, history = np.zeros_like(base), []
    for k, dU in enumerate(inputs["dU"], 1):
        gradient = p.pullback({"A": A}, p.rebuild({"A": A}, {"U": base}), through_base(base, dU))["A"]
        A = A - optimizer.delta("A", A, gradient)
        U = on_base(base, p.rebuild({"A": A}, {"U": base})["U"])
        if rebases(k, config["rebase_every"]):
            base, A = rebased(base, A, U)
        history.append({"A": A, "base": base, "U": U})
    return _stacked(history)


def on_base(base: np.ndarray, E: np.ndarray) -> np.ndarray:
    """U from the base and E = exp(A)."""
    return base @ E


def through_base(base: np.ndarray, dU: np.ndarray) -> np.ndarray:
    """The gradient by E, from that by U."""
    return base.T @ dU


def rebases(k: int, every: int) -> bool:
    """Whether the base moves after update k, from 1."""
    return k % every == 0


def rebased(base: np.ndarray, A: np.ndarray, U: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The base and A where it moves."""
    return U, np.zeros_like(A)


def _stacked(history: list[Arrays]) -> Arrays:
    return {name: np.stack([entry[name] for entry in history]) for name in history[0]}


def _optimizer(config: Config, inputs: Arrays) -> Arrays:
    optimizer, parameter = optimizer_of(config["optimizer"]), inputs["parameter0"]
    history = []
    for gradient in inputs["gradient"]:
        parameter = parameter - optimizer.delta("parameter", parameter, gradient)
        history.append({"parameter": parameter})
    return _stacked(history)


def _activation(config: Config, inputs: Arrays) -> Arrays:
    a, dy = inputs["a"], inputs["dy"]
    if config["activation"] == "sigmoid":
        y = sigmoid(a)
        return {"y": y, "d_a": dy * sigmoid_derivative(y)}
    phi, b = ACTIVATIONS[config["activation"]], inputs["b"]
    y = phi.value(a, b)
    d_a, d_b = phi.pullback(dy, a, b, y)
    return {"y": y, "d_a": d_a, "d_b": d_b.sum(axis=0)}


def _loss(config: Config, inputs: Arrays) -> Arrays:
    loss, d_outputs = LOSSES[config["loss"]](inputs["outputs"], inputs["y"], inputs.get("mask"))
    return {"loss": loss, "d_outputs": d_outputs}


def _initial(config: Config, inputs: Arrays) -> Arrays:
    """Draws of a model's dense weights, (draws, ...), each from a child of the seed."""
    sizes = config["input_size"], config["hidden_size"], config["draws"]
    drawn = _draws(config["model"], *sizes, tuple(config["options"].items()), int(inputs["seed"]))
    return {name: drawn[name].copy() for name in config["values"]}


@cache
def _draws(model: str, m: int, n: int, count: int, options: tuple[tuple[str, Any], ...], seed: int) -> Arrays:
    layer, draws = models.build(model, m, n, **dict(options)), []
    for rng in np.random.default_rng(seed).spawn(count):
        params, buffers = layer.init(rng, dtype=np.float64)
        dense = {weight: own["U"] for weight, own in buffers.items()}
        draws.append({name: a for name, a in params.items() if "." not in name} | dense)
    return {name: np.stack([drawn[name] for drawn in draws]) for name in draws[0]}


_OUTPUTS: dict[str, Callable[[Config, Arrays], Arrays]] = {
    "cell": _cell,
    "layer": _layer,
    "parametrization": _parametrization,
    "update": _update,
    "optimizer": _optimizer,
    "activation": _activation,
    "loss": _loss,
    "initial": _initial,
    "linear": through_time.outputs,
}
