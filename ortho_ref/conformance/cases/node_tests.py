"""Cases as ONNX's own node tests, for runtimes of ONNX: forward alone, what its operators RNN, LSTM and GRU can be.

One folder a case, in the layout of onnx.backend.test: test_NAME/model.onnx, test_NAME/test_data_set_0/input_K.pb and
output_K.pb, test_NAME/data.json with the tolerance.  The model is one node, whose inputs and outputs have the
operator's names; of several layers a chain of them, "layer0.W", "layer1.W".

    W, R          a direction below the other; gates z r h, z = 1 - u, and i o f c
    B             W_b beside R_b; their sum is the case's bias, and R_b = -b is not 0, so that one who drops it is seen
    X             tokens as one-hot vectors
    layout = 1    where the batch is first; then states have it first too
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ortho_ref import converters, files
from ortho_ref.adapters.layers import Layer, layer_of
from ortho_ref.adapters.sequence import sequence_of
from ortho_ref.cells.by_name import CELLS
from ortho_ref.conformance.cases.case import Arrays, Case, Vector
from ortho_ref.conformance.cases.case_files import select
from ortho_ref.conformance.cases.export import put
from ortho_ref.conformance.cases.layered import Direction, directions
from ortho_ref.conformance.compare import scales, tolerance
from ortho_ref.converters.framework import UnsupportedError
from ortho_ref.converters.onnx_network import IR_VERSION, OPSET
from ortho_ref.installed import needed
from ortho_ref.trees import under

OPERATORS = {"elman": "RNN", "lstm": "LSTM", "gru_reset_before": "GRU", "gru_reset_after": "GRU"}


class Node(NamedTuple):
    """One layer."""

    operator: str
    attributes: dict[str, Any]
    inputs: tuple[str, ...]  # "" for one that is absent
    outputs: tuple[str, ...]


class NodeTest(NamedTuple):
    """A case as ONNX has it."""

    name: str
    says: str
    nodes: tuple[Node, ...]
    inputs: Arrays  # in the graph's order
    outputs: Arrays
    atol: float  # max |given - expected| of an output that passes


def export_node_tests(
    folder: Path | str, only: str | Sequence[str] | None = None, dtype: str = "float64"
) -> tuple[int, int]:
    """Write the chosen cases that ONNX has an operator for to folder/test_NAME/; how many, and how many are left out.

    ImportError without onnx; ValueError where ONNX has an operator for nothing; else as `export`.
    """
    with needed("onnx", "pip install onnx"):
        import onnx  # noqa: F401
    chosen = select(only)
    tests = [test for vector in chosen if (test := node_test(vector, dtype)) is not None]
    if not tests:
        raise ValueError("ONNX has no operator for any case that was chosen; it has RNN, LSTM and GRU")

    def fill(part: Path) -> None:
        for test in tests:
            _write(part / test.name, test)

    put(folder, fill)
    return len(tests), len(chosen) - len(tests)


def node_test(vector: Vector, dtype: str) -> NodeTest | None:
    """A case as ONNX has it, in a precision, of fresh arrays; None where it has no operator for it."""
    case = vector.given(dtype)
    found = _read(case)
    if found is None:
        return None
    outputs = outputs_of(case, vector.expected)
    atol = tolerance(case.kind, dtype) * min(scales(outputs).values())
    own = {name: np.array(a, dtype, order="C") for name, a in outputs.items()}
    name = "test_" + case.id.replace("/", "_")
    return NodeTest(name, f"{case.id}: {vector.why}", *found, own, atol)


def outputs_of(case: Case, found: Arrays) -> Arrays:
    """The operators' outputs, from those of a case of kind `cell` or `layer`: Y of the last layer, Y_h, Y_c of each."""
    states = CELLS[case.config["cell"]].states
    if case.kind == "cell":
        return {"Y": found["h"][1:, None]} | {f"Y_{s}": found[s][-1][None] for s in states}
    layers, D = case.config["layers"], 1 + case.config["bidirectional"]
    first, second, width = found["y"].shape
    y = found["y"].reshape(first, second, D, width // D)
    batch_first = case.config["batch_first"]
    outputs = {"Y": y if batch_first else y.transpose(0, 2, 1, 3)}
    for k in range(layers):
        for s in states:
            last = found[f"{s}_T"][k * D : (k + 1) * D]
            outputs[f"{_prefix(layers, k)}Y_{s}"] = last.swapaxes(0, 1) if batch_first else last
    return outputs


def _prefix(layers: int, layer: int) -> str:
    """What a layer's names begin with: nothing where it is the only one."""
    return "" if layers == 1 else f"layer{layer}."


def _given(case: Case) -> Layer | None:
    """A case of either kind as layers; None for another kind, complex states, masks, resets and maps."""
    if case.kind == "layer":
        layer = layer_of(case)
        return None if layer is None or layer.padding in ("mask", "resets") or layer.kept else layer
    seq = sequence_of(case)
    if seq is None:
        return None
    ways = tuple(directions({"layers": 1, "bidirectional": False}))
    weights = {f"layer0.{name}": a for name, a in seq.weights.items()}
    start, d_last = (tuple(part[None] for part in parts) for parts in (seq.start, seq.d_last))
    own = seq.config, ways, weights, True, seq.x, seq.sizes[1], seq.names, start
    return Layer(*own, None, None, seq.dh, d_last, seq.dtype, seq.gradients)


def _read(case: Case) -> tuple[tuple[Node, ...], Arrays] | None:
    """The nodes, and their inputs by name."""
    given = _given(case)
    if given is None or given.config["cell"] not in OPERATORS:
        return None
    layers, batch_first = given.layers, case.config.get("batch_first", False)
    inputs: Arrays = {"X": given.x.swapaxes(0, 1) if batch_first else given.x}
    if given.keep is not None:
        inputs["sequence_lens"] = given.keep.astype(np.int32)
    nodes, x = [], "X"
    for k in range(layers):
        prefix, ways = _prefix(layers, k), [way for way in given.ways if way.layer == k]
        try:
            own = _weights(given, ways)
        except UnsupportedError:
            return None
        for name, start in zip(given.names, given.start, strict=False):
            first = start[[way.place for way in ways]]
            own[f"initial_{name}"] = first.swapaxes(0, 1) if batch_first else first
        inputs |= {f"{prefix}{name}": a for name, a in own.items()}
        names = [x, *(prefix + name for name in ("W", "R", "B")), "sequence_lens"]
        names += [f"{prefix}initial_{name}" for name in given.names]
        known = tuple(name if name in inputs or name == x else "" for name in names)
        y = "Y" if k == layers - 1 else f"{prefix}Y"
        outputs = (y, *(f"{prefix}Y_{name}" for name in given.names))
        nodes.append(Node(OPERATORS[given.config["cell"]], _attributes(given, own["R"], batch_first), known, outputs))
        x = f"{_prefix(layers, k + 1)}X"
    order = dict.fromkeys(name for node in nodes for name in node.inputs if name in inputs)
    return tuple(nodes), {name: np.array(inputs[name], order="C") for name in order}


def _weights(given: Layer, ways: list[Direction]) -> Arrays:
    """W, R and B of a layer; no B where there are no biases."""
    own = [converters.by_name("onnx").to_framework(given.config, under(f"{way.name}.", given.weights)) for way in ways]
    stacked = {name: np.concatenate([arrays[name] for arrays in own]) for name in own[0]}
    if not given.bias:
        return {name: stacked[name] for name in ("W", "R")}
    W_b, R_b = np.split(stacked["B"], 2, axis=1)
    moved = W_b.copy()
    if given.config["cell"] == "gru_reset_after":  # whose candidate has two biases that are not summed
        moved[:, -stacked["R"].shape[2] :] = 0
    return stacked | {"B": np.concatenate([W_b + moved, R_b - moved], axis=1)}


def _attributes(given: Layer, R: np.ndarray, batch_first: bool) -> dict[str, Any]:
    """Those that are not the operator's defaults."""
    attributes: dict[str, Any] = {"hidden_size": R.shape[2]}
    if given.bidirectional:
        attributes["direction"] = "bidirectional"
    if (activation := given.config.get("activation", "tanh")) != "tanh":
        gates = ["Sigmoid"] if given.config["cell"] != "elman" else []
        attributes["activations"] = [*gates, activation.capitalize()] * len(R)
    if given.config["cell"] == "gru_reset_after":
        attributes["linear_before_reset"] = 1
    if batch_first:
        attributes["layout"] = 1
    return attributes


def model_of(test: NodeTest) -> Any:
    """An onnx.ModelProto; its weights are inputs, as in ONNX's own node tests."""
    from onnx import helper, numpy_helper

    nodes, constants = [], []
    for node, after in zip(test.nodes, (*test.nodes[1:], None), strict=True):
        nodes.append(helper.make_node(node.operator, node.inputs, node.outputs, **node.attributes))
        if after is not None:  # (T, D, B, n) -> (T, B, D n)
            y, x = node.outputs[0], after.inputs[0]
            nodes.append(helper.make_node("Transpose", [y], [f"{y}.turned"], perm=[0, 2, 1, 3]))
            nodes.append(helper.make_node("Reshape", [f"{y}.turned", "joined"], [x]))
            constants = [numpy_helper.from_array(np.array([0, 0, -1]), "joined")]
    given, expected = (
        [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for name, a in own]
        for own in (test.inputs.items(), test.outputs.items())
    )
    graph = helper.make_graph(nodes, test.name, given, expected, initializer=constants, doc_string=test.says)
    opset = helper.make_opsetid("", OPSET)
    return helper.make_model(graph, producer_name="ortho_ref", opset_imports=[opset], ir_version=IR_VERSION)


def _write(own: Path, test: NodeTest) -> None:
    from onnx import numpy_helper

    data = own / "test_data_set_0"
    data.mkdir(parents=True)
    files.write(own / "model.onnx", model_of(test).SerializeToString(deterministic=True))
    for kind, arrays in (("input", test.inputs), ("output", test.outputs)):
        for k, (name, array) in enumerate(arrays.items()):
            files.write(data / f"{kind}_{k}.pb", numpy_helper.from_array(array, name).SerializeToString())
    files.write(own / "data.json", (json.dumps({"rtol": 0.0, "atol": test.atol}) + "\n").encode())
