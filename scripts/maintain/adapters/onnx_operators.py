"""ONNX's operators RNN, LSTM and GRU, linear_before_reset both ways; forward only, tokens as one-hot vectors.

ONNX_ENGINE=onnxruntime runs them in ONNX Runtime on the CPU, which has them in float32 alone; otherwise the reference
evaluator of ONNX (onnx.reference) does.  The operators give c of the last step only: that of every step is from a
second run, one step at a time.  Of kind layer: with and without initial state, with and without biases.
"""

import os
from typing import Any

import numpy as np
from onnx import helper

from ortho_ref import converters
from ortho_ref.adapters.sequence import sequence_of
from scripts.maintain.scoreboard.plain_layers import plain

LAYOUT = converters.by_name("onnx")
RUNTIME = os.environ.get("ONNX_ENGINE") == "onnxruntime"
OPERATORS = {"elman": "RNN", "lstm": "LSTM", "gru_reset_before": "GRU", "gru_reset_after": "GRU"}


def run(case: Any) -> dict[str, np.ndarray] | None:
    """h, and c of LSTM; of a layer y and the last states."""
    if case.kind == "layer":
        return _layer(case)
    seq = sequence_of(case)
    if seq is None:
        return None
    if not RUNTIME and (case.config["cell"], case.config.get("activation")) == ("elman", "relu"):
        return None  # the evaluator's RNN has Tanh and Affine alone, and raises for others
    try:
        weights = LAYOUT.to_framework(case.config, seq.weights)
    except converters.UnsupportedError:
        return None
    inputs = ["X", "W", "R", "B", "", *(f"{name}0" for name in seq.names)]
    evaluator = _evaluator(_model(case.config, weights["R"], inputs))

    def forward(x: np.ndarray, *state: np.ndarray) -> list[np.ndarray]:
        """Y (T, 1, B, n), and h and c of the last step (1, B, n)."""
        return evaluator.run(None, {"X": x, **weights, **dict(zip(("h0", "c0"), state, strict=False))})

    state = [part[None] for part in seq.start]
    outputs = {"h": np.concatenate([state[0], forward(seq.x, *state)[0][:, 0]])}
    if "c" in seq.names:
        steps = [state[1]]
        for t in range(len(seq.x)):
            state = forward(seq.x[t : t + 1], *state)[1:]
            steps.append(state[1])
        outputs["c"] = np.concatenate(steps)
    return outputs


def _layer(case: Any) -> dict[str, np.ndarray] | None:
    own = plain(case)
    if own is None or own.config["cell"] not in OPERATORS:
        return None
    try:
        weights = LAYOUT.to_framework(own.config, own.weights)
    except converters.UnsupportedError:
        return None
    given = {"X": case.inputs["x"], "W": weights["W"], "R": weights["R"]}
    given |= {"B": weights["B"]} if own.bias else {}
    given |= {f"{name}0": a for name, a in zip(own.names, own.start, strict=False)}
    order = ("X", "W", "R", "B", "", "h0", "c0")
    inputs = [name if name in given else "" for name in order]
    while not inputs[-1]:
        inputs.pop()
    Y, *last = _evaluator(_model(own.config, weights["R"], inputs)).run(None, given)
    return {"y": Y[:, 0]} | {f"{name}_T": a for name, a in zip(own.names, last, strict=True)}


def _evaluator(model: Any) -> Any:
    """What runs a model: run(None, inputs) -> its outputs."""
    if not RUNTIME:
        from onnx.reference import ReferenceEvaluator

        return ReferenceEvaluator(model)
    import onnxruntime

    return onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])


def _model(config: dict[str, Any], R: np.ndarray, inputs: list[str]) -> Any:
    """One node with these inputs; "" is one that is left out."""
    attributes: dict[str, Any] = {"hidden_size": R.shape[2]}
    operator, states = OPERATORS[config["cell"]], ["h0", "c0"][: 1 + (config["cell"] == "lstm")]
    if operator == "GRU":
        attributes["linear_before_reset"] = int(config["cell"] == "gru_reset_after")
        attributes["activations"] = ["Sigmoid", config["activation"].capitalize()]
    elif operator == "RNN":
        attributes["activations"] = [config["activation"].capitalize()]
    outputs = ["Y", *(f"Y_{s[0]}" for s in states)]
    kind = helper.np_dtype_to_tensor_dtype(R.dtype)
    node = helper.make_node(operator, inputs, outputs, **attributes)
    given, wanted = ([helper.make_tensor_value_info(v, kind, None) for v in vs if v] for vs in (inputs, outputs))
    graph = helper.make_graph([node], "case", given, wanted)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
