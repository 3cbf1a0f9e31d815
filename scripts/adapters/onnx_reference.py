"""The reference evaluator of ONNX (onnx.reference): RNN, LSTM and GRU, forward only; tokens as one-hot vectors.

The operators give c of the last step only: that of every step is from a second run, one step at a time.
"""

from typing import Any

import numpy as np
from onnx import helper
from onnx.reference import ReferenceEvaluator

from ortho_ref import converters

LAYOUT = converters.by_name("onnx")
OPERATORS = {"elman": "RNN", "lstm": "LSTM", "gru_reset_before": "GRU", "gru_reset_after": "GRU"}


def run(case: Any) -> dict[str, np.ndarray] | None:
    """h, and c of LSTM."""
    if case.kind != "cell" or (case.config["cell"], case.config.get("activation")) == ("elman", "relu"):
        return None  # the evaluator's RNN has Tanh and Affine alone, and raises for others
    given = case.inputs
    try:
        ours = {name.removeprefix("weights."): a for name, a in given.items() if name.startswith("weights.")}
        weights = LAYOUT.to_framework(case.config, ours)
    except converters.UnsupportedError:
        return None
    evaluator = ReferenceEvaluator(_model(case.config, weights["R"]))
    names = ("h", "c") if "c0" in given else ("h",)
    x = given["x"]
    if x.dtype.kind == "i":
        x = np.eye(weights["W"].shape[2], dtype=weights["W"].dtype)[x]

    def forward(x: np.ndarray, *state: np.ndarray) -> list[np.ndarray]:
        """Y (T, 1, B, n), and h and c of the last step (1, B, n)."""
        return evaluator.run(None, {"X": x, **weights, **dict(zip(("h0", "c0"), state, strict=False))})

    state = [given[f"{name}0"][None] for name in names]
    outputs = {"h": np.concatenate([state[0], forward(x, *state)[0][:, 0]])}
    if "c" in names:
        steps = [state[1]]
        for t in range(len(x)):
            state = forward(x[t : t + 1], *state)[1:]
            steps.append(state[1])
        outputs["c"] = np.concatenate(steps)
    return outputs


def _model(config: dict[str, Any], R: np.ndarray) -> Any:
    """One node, its state an input."""
    attributes: dict[str, Any] = {"hidden_size": R.shape[2]}
    operator, states = OPERATORS[config["cell"]], ["h0", "c0"][: 1 + (config["cell"] == "lstm")]
    if operator == "GRU":
        attributes["linear_before_reset"] = int(config["cell"] == "gru_reset_after")
        attributes["activations"] = ["Sigmoid", config["activation"].capitalize()]
    inputs, outputs = ["X", "W", "R", "B", "", *states], ["Y", *(f"Y_{s[0]}" for s in states)]
    kind = helper.np_dtype_to_tensor_dtype(R.dtype)
    node = helper.make_node(operator, inputs, outputs, **attributes)
    values = [[helper.make_tensor_value_info(v, kind, None) for v in vs if v] for vs in (inputs, outputs)]
    return helper.make_model(helper.make_graph([node], "case", *values))
