"""Exported node tests against the text of ONNX's operators, in NumPy, without onnx; tests/crosscheck runs them."""

import sys

import numpy as np
import pytest

from ortho_ref.conformance.__main__ import main
from ortho_ref.conformance.cases.case import DTYPES
from ortho_ref.conformance.cases.case_files import select
from ortho_ref.conformance.cases.node_tests import export_node_tests, node_test
from tests.ortho_ref.conformance.adapters import BY_ID
from tests.ortho_ref.conformance.everyday import sigmoid

WHAT = {"Relu": lambda a: np.maximum(a, 0), "Tanh": np.tanh}


def step(operator, attributes, x, state, W, R, B):
    """The operator's equations, as its page has them."""
    W_b, R_b = np.split(B, 2)
    act = WHAT[attributes.get("activations", ["Tanh"])[-1]]
    if operator == "RNN":
        return (act(x @ W.T + state[0] @ R.T + W_b + R_b),)
    if operator == "LSTM":
        i, o, f, c = np.split(x @ W.T + state[0] @ R.T + W_b + R_b, 4, axis=1)
        C = sigmoid(f) * state[1] + sigmoid(i) * np.tanh(c)
        return sigmoid(o) * np.tanh(C), C
    (W_z, W_r, W_h), (R_z, R_r, R_h), b, rb = (np.split(a, 3) for a in (W, R, W_b, R_b))
    H = state[0]
    z = sigmoid(x @ W_z.T + H @ R_z.T + b[0] + rb[0])
    r = sigmoid(x @ W_r.T + H @ R_r.T + b[1] + rb[1])
    if attributes.get("linear_before_reset"):
        h = act(x @ W_h.T + r * (H @ R_h.T + rb[2]) + b[2])
    else:
        h = act(x @ W_h.T + (r * H) @ R_h.T + rb[2] + b[2])
    return ((1 - z) * h + z * H,)


def layer(node, X, W, R, B, lens, *initial):
    """One node: Y and the last states."""
    own, turn = node.attributes, node.attributes.get("layout", 0)
    X = X.swapaxes(0, 1) if turn else X
    (T, count), (D, _, n) = X.shape[:2], R.shape
    B = np.zeros((D, 2 * W.shape[1])) if B is None else B
    lens = np.full(count, T) if lens is None else lens
    Y = np.zeros((T, D, count, n))
    states = [np.zeros((D, count, n)) if a is None else (a.swapaxes(0, 1) if turn else a).copy() for a in initial]
    for d in range(D):
        for b in range(count):
            steps = range(lens[b])[:: -1 if d else 1]
            for t in steps:
                old = [a[d, b : b + 1] for a in states]
                new = step(node.operator, own, X[t, b : b + 1], old, W[d], R[d], B[d])
                for a, part in zip(states, new, strict=True):
                    a[d, b] = part
                Y[t, d, b] = states[0][d, b]
    return (Y.transpose(2, 0, 1, 3), *(a.swapaxes(0, 1) for a in states)) if turn else (Y, *states)


def run(test, change=lambda name, array: array):
    """A test's outputs; `change` reads an input in another way."""
    known = {name: change(name, array) for name, array in test.inputs.items()}
    for k, node in enumerate(test.nodes):
        full = [known.get(name) for name in node.inputs]
        known |= dict(zip(node.outputs, layer(node, *full), strict=True))
        if k + 1 < len(test.nodes):
            Y = known[node.outputs[0]]
            known[test.nodes[k + 1].inputs[0]] = np.concatenate(list(Y.swapaxes(0, 1)), axis=2)
    return {name: known[name] for name in test.outputs}


def passes(test, change=lambda name, array: array):
    """Whether all outputs are within the tolerance that is exported."""
    found = run(test, change)
    return all(
        found[name].shape == a.shape and np.abs(found[name] - a).max() <= test.atol for name, a in test.outputs.items()
    )


def made(dtype="float64", only=("cell", "layer")):
    """All of them but the two whose hundreds of steps are slow here."""
    return [t for v in select(only) if "/long" not in v.id and (t := node_test(v, dtype)) is not None]


@pytest.mark.parametrize("dtype", DTYPES)
def test_they_are_what_the_operators_give(dtype):
    """Names, orders, signs, layouts and lengths; the dtype is the one asked for."""
    for test in made(dtype):
        assert passes(test), test.name
        floats = {str(a.dtype) for a in (*test.inputs.values(), *test.outputs.values()) if a.dtype.kind == "f"}
        assert floats == {dtype}


def reordered(order):
    """The blocks of every weight read in another order."""

    def change(name, array):
        kind = name.rpartition(".")[2]
        if kind not in ("W", "R", "B"):
            return array
        parts = np.split(array, len(order) * (2 if kind == "B" else 1), axis=1)
        whole = [*order, *(k + len(order) for k in order)] if kind == "B" else order
        return np.concatenate([parts[k] for k in whole], axis=1)

    return change


def without_recurrent_bias(name, array):
    """R_b taken for 0."""
    return array * np.repeat([1, 0], array.shape[1] // 2) if name.rpartition(".")[2] == "B" else array


@pytest.mark.parametrize(
    ("only", "change"),
    [
        (["cell/lstm", "layer/lstm/*"], reordered([0, 2, 3, 1])),  # i f c o taken for i o f c
        (["cell/lstm", "layer/lstm/*"], reordered([0, 1, 3, 2])),
        (["cell/gru*", "layer/gru*"], reordered([1, 0, 2])),  # r z h
        (["cell/gru*", "layer/gru*"], reordered([2, 1, 0])),
    ],
)
def test_another_order_of_gates_is_seen(only, change):
    """By every case that there is."""
    own = made(only=only)
    assert len(own) > 15
    assert not [test.name for test in own if passes(test, change)]


def test_a_recurrent_bias_that_is_dropped_is_seen():
    """By every case with biases, of each operator."""
    own = [test for test in made() if any(name.endswith("B") for name in test.inputs)]
    assert {node.operator for test in own for node in test.nodes} == {"RNN", "LSTM", "GRU"}
    assert not [test.name for test in own if passes(test, without_recurrent_bias)]


def test_which_cases_there_are():
    """None of a mask, resets, dropout, a map, modReLU, complex numbers, a gate turned off, or a cell ONNX has not."""
    ids = {id for id, vector in BY_ID.items() if node_test(vector, "float64") is not None}
    kinds = {id.split("/")[0] for id in ids}
    assert kinds == {"cell", "layer"}
    for id in ids:
        config = BY_ID[id].case.config
        assert config["cell"] in ("elman", "lstm", "gru_reset_before", "gru_reset_after")
        assert config.get("activation", "tanh") in ("tanh", "relu")
        assert config.get("padding") in (None, "lengths")
        assert not config.get("complex")
        assert config.get("reset_gate", True)
        assert config.get("parametrized") is None
    left = {id for id in BY_ID if id.startswith(("layer/lstm", "layer/gru_reset", "cell/lstm"))} - ids
    assert {id.rpartition("/")[2] for id in left} == {
        "mask",
        "batch-first-mask",
        "resets",
        "two-layers-resets",
        "two-layers-dropout",
    }


def test_onnx_that_is_not_installed(tmp_path, monkeypatch, capfd):
    """One line, and no folder."""
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match=r"^onnx is not installed: pip install onnx$"):
        export_node_tests(tmp_path / "cases")
    with pytest.raises(SystemExit):
        main(["export", "--onnx", str(tmp_path / "cases")])
    assert capfd.readouterr().err == "error: onnx is not installed: pip install onnx\n"
    assert not list(tmp_path.iterdir())
