"""Stored inputs and answers (tests/answers): Jacobians of one step, batches of the tasks, whole training steps.

This code gave them, and another confirmed each once: dense Jacobians and 50 digits, plain Python number by number,
PyTorch's autograd and optimizers.
"""

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from gradients import bounds
from ortho_ref import models
from ortho_ref.cells import GRUResetBefore
from ortho_ref.cells.cell import parts_of, state_of
from ortho_ref.conformance.cases.case import in_precision
from ortho_ref.conformance.cases.reference import cell_of, optimizer_of
from ortho_ref.training.optimizers import ByName
from ortho_ref.trees import under
from tasks.by_name import TASKS

FOLDER = Path(__file__).parents[1] / "answers"
CONFIGS = json.loads((FOLDER / "configs.json").read_text())
#: Of the largest entry of an output; training adds up.
TOLERANCES = {"jacobian": (1e-9, 5e-5), "task": (1e-9, 5e-5), "train": (1e-8, 5e-4)}
DRAWS = ("data", "marker", "places", "values", "steps", "tokens")


@cache
def stored(kind):
    return load_file(FOLDER / f"{kind}.safetensors")


def jacobian(config, inputs):
    """The adjoint of one step, applied to the identity: row i of J is the gradient of state i; Theorem 1's bound."""
    cell, weights = cell_of(config), under("weights.", inputs)
    previous = np.concatenate([inputs[f"{name}_prev"] for name in cell.states])
    size = len(previous)

    def state(rows):
        return state_of(tuple(np.split(rows, len(cell.states), axis=1)))

    x, h = (np.repeat(row[None], size, axis=0) for row in (inputs["x"], previous))
    _, tape = cell.step_forward(weights, x, state(h))
    _, dh_prev, _ = cell.step_backward(weights, state(np.eye(size, dtype=h.dtype)), tape)
    found = {"J": np.concatenate(parts_of(cell, dh_prev), axis=1)}
    if isinstance(cell, GRUResetBefore):
        found["bound"] = np.array(bounds.theorem_1(cell, weights, inputs["x"], previous).bound)
    return found


def task(config, inputs):
    """A batch of given draws; of parentheses the targets alone."""
    options = {name: value for name, value in config.items() if name != "task"}
    batch = TASKS[config["task"]](**options).batch(*(inputs[name] for name in DRAWS if name in inputs))
    return {"y": batch.y} if "tokens" in inputs else {"x": batch.x, "y": batch.y}


def train(config, inputs):
    """NC-GRU with a readout: loss, gradient, update, batch by batch; with what each leaves."""
    params, x, y = under("params.", inputs), inputs["x"], inputs["y"]
    q, n = params["readout.W"].shape
    options = {key: config[key] for key in ("orthogonal", "negative_ones", "order", "reset_every")}
    network = models.network("nc-gru", x.shape[-1], [n], q, loss=config["loss"], **options)
    network = replace(network, layers=tuple(replace(layer, engine="scan") for layer in network.layers))
    buffers = network.rebuild(params, network.init(np.random.default_rng(0), dtype=x.dtype)[1])
    optimizer = ByName({"*.A": optimizer_of(config["optimizer_A"]), "*": optimizer_of(config["optimizer"])})
    history = []
    for x_k, y_k in zip(x, y, strict=True):
        loss, gradients = network.loss_and_gradients(params, buffers, x_k, y_k)[:2]
        deltas = {name: optimizer.delta(name, params[name], gradient) for name, gradient in gradients.items()}
        params, buffers = network.retract(params, buffers, deltas)
        entry = {"loss": loss} | {f"params.{name}": value for name, value in params.items()}
        for path, figures in network.health(buffers).items():
            weight = path.removeprefix("layer0.")
            entry |= {weight: buffers[path]["U"], f"defect.{weight}": figures["defect"]}
        history.append(entry)
    return {name: np.stack([entry[name] for entry in history]) for name in history[0]}


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("id", CONFIGS)
def test_the_stored_answer(id, dtype):
    """Every output that is stored, on the scale of its largest entry; of a defect on that of 0.01."""
    kind = id.partition("/")[0]
    inputs, expected = (under(f"{id}:{role}:", stored(kind)) for role in ("inputs", "expected"))
    given = {name: in_precision(array, dtype) for name, array in inputs.items()}
    found = {"jacobian": jacobian, "task": task, "train": train}[kind](CONFIGS[id], given)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert found[name].shape == value.shape, name
        scale = 0.01 if name.startswith("defect.") else abs(value).max()
        assert abs(found[name] - value).max() <= TOLERANCES[kind][dtype == "float32"] * scale, name
