"""A trained network as a file of ONNX, for inference: each layer a Scan whose body is the cell's own step.

    network, params, buffers = load("runs/mine")
    converters.to_onnx(network, params, buffers, "mine.onnx")

            name                         shape
inputs      x                            (T, B, m), or tokens (T, B) of int64
            layer0.h0, layer1.h0 ...     (B, n); of an LSTM layer0.c0 too; of complex states layer0.h0.real and .imag
outputs     outputs                      (T, B, q), or (B, q) for readout "last"
            layer0.h_T, layer1.h_T ...   as the states that they go on from
weights     layer0.W_r, readout.b ...    as `Recurrent.weights` has them: a weight that is kept orthogonal as U itself

T and B are free.  A state that is not given is the network's own start, zeros or the trained h0; the last states of one
chunk as the first of the next go on with the sequence.  Metadata: `config`, JSON.  There is no dropout.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

from ortho_ref import __version__, files
from ortho_ref.backend import complex_dtype
from ortho_ref.boundary import check_switch, kind_of, precision_of_most
from ortho_ref.cells import Cell, Weights
from ortho_ref.cells.cell import parts_of, state_of
from ortho_ref.converters._traced import Nodes, Traced, TracedComplex, step
from ortho_ref.converters.config import config_of_cell
from ortho_ref.converters.framework import Arrays
from ortho_ref.installed import needed
from ortho_ref.language.reader import Reader
from ortho_ref.network import Network
from ortho_ref.parametrizations import Params
from ortho_ref.recurrent import NamedBuffers

#: What runtimes have had for long; `layout` of RNN, LSTM and GRU came with 14.
OPSET, IR_VERSION = 14, 8


def to_onnx(network: Network, params: Params, buffers: NamedBuffers, path: Path | str, *, tokens: bool = False) -> None:
    """Write a network as an ONNX file.

    Parameters
    ----------
    network : Network
        Of any cell, real or complex, in any number of layers, with or without an embedding.
    params, buffers : dict
        As `init` gives them, on the host; the file has their precision.
    path : Path or str
        Of the file; what was there is replaced.
    tokens : bool
        Whether x is tokens where there is no embedding: they name columns of the first layer's W.

    Raises
    ------
    ImportError
        onnx is not installed.
    TypeError
        network is none, or a Reader.
    UnsupportedError
        A cell's step uses what ONNX has no operator for.
    ValueError
        Parameters and buffers that do not fit the network.
    OSError
        The file cannot be written.
    """
    if not isinstance(network, Network) or isinstance(network, Reader):
        raise TypeError(f"network is {kind_of(network)}; allowed: a Network, as models.network gives it")
    check_switch("tokens", tokens)
    with needed("onnx", "pip install onnx"):
        from onnx import helper
    network.check_params(params, buffers)
    dtype, tokens = precision_of_most(params.values()), tokens or network.embedding is not None
    main = Nodes("", dtype)
    main.constants |= {name: np.asarray(a) for name, a in params.items() if name.startswith(("embedding.", "readout."))}
    x = main.value("x", np.int64 if tokens else dtype)
    inputs, last = [_info(x, "T", "B", *([] if tokens else [network.input_size]))], []
    batch = main.add("Gather", main.add("Shape", x), main.constant([1], np.int64))
    read = [x if network.embedding is None else main.add("Gather", main.value("embedding.E"), x)]
    for i, layer in enumerate(network.layers):
        weights = network.layer_weights(i, params, buffers)
        n = len(weights[layer.cell.recurrent_weights[0]])
        zeros = np.zeros(n, complex_dtype(dtype) if layer.cell.complex else dtype)
        start = {name: np.asarray(params.get(f"layer{i}.{name}0", zeros))[None] for name in layer.cell.states}
        begin, end, read = _scan(main, f"layer{i}.", layer.cell, weights, start, _features(main, read), batch)
        inputs += [_info(own, "B", n) for own in begin]
        last += [_info(own, "B", n) for own in end]
    x = _features(main, read if network.readout == "every" else end[: len(read)])
    W, b = main.value("embedding.E" if network.tied else "readout.W"), main.value("readout.b")
    product = main.add("MatMul", x, main.add("Transpose", W, perm=[1, 0]))
    steps = ["T"] if network.readout == "every" else []
    outputs = _info(main.add("Add", product, b, name="outputs"), *steps, "B", network.output_size)
    model = helper.make_model(
        helper.make_graph(main.nodes, "ortho_ref", inputs, [outputs, *last], main.tensors(), repr(network)),
        producer_name="ortho_ref",
        producer_version=__version__,
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
    )
    helper.set_model_props(model, {"config": json.dumps(_config(network))})
    files.write(path, model.SerializeToString(deterministic=True))


def _scan(
    main: Nodes, prefix: str, cell: Cell, weights: Weights, start: Arrays, x: Traced, batch: Traced
) -> tuple[list[Traced], list[Traced], list[Traced]]:
    """A layer's node: the states that it begins with, the last ones, and h of every step."""
    from onnx import helper

    body = Nodes(prefix, main.dtype)
    for name, a in weights.items():
        main.constants |= _arrays(prefix + name, a) if a.ndim else {}
    named = {name: _value(body, prefix + name, a) if a.ndim else a for name, a in weights.items()}
    state, x_t = [_value(body, prefix + name, a) for name, a in start.items()], body.value(f"{prefix}x", x.dtype)
    new = parts_of(cell, step(cell, named, x_t, state_of(tuple(state))))
    given = [*(part for own in state for part in _parts(own)), x_t]
    made = [body.add("Identity", part) for own in (*new, new[0]) for part in _parts(own)]
    graph = helper.make_graph(body.nodes, f"{prefix}step", [*map(_info, given)], [*map(_info, made)], body.tensors())

    n, many = next(iter(start.values())).shape[1], len(given) - 1
    shape = main.add("Concat", batch, main.constant([n], np.int64), axis=0)
    for name, h0 in start.items():
        main.constants |= _arrays(f"{prefix}{name}0", h0)
    begin = [part for name, h0 in start.items() for part in _parts(_value(main, f"{prefix}{name}0", h0))]
    end = [main.value(own) for name, h0 in start.items() for own in _arrays(f"{prefix}{name}_T", h0)]
    every = [main.value(f"{prefix}every{k}") for k in range(len(made) - many)]
    names = [main.add("Expand", own, shape).name for own in begin] + [x.name], [own.name for own in (*end, *every)]
    main.nodes.append(helper.make_node("Scan", *names, f"{prefix}Scan", body=graph, num_scan_inputs=1))
    return begin, end, every


def _arrays(name: str, array: Any) -> Arrays:
    """By name; a complex one by its parts."""
    if array.dtype.kind != "c":
        return {name: np.asarray(array)}
    return {f"{name}.real": np.array(array.real), f"{name}.imag": np.array(array.imag)}


def _value(graph: Nodes, name: str, array: Any) -> Traced | TracedComplex:
    """What has these names there."""
    real, *imag = (graph.value(own) for own in _arrays(name, array))
    return TracedComplex(real, *imag) if imag else real


def _parts(value: Traced | TracedComplex) -> list[Traced]:
    return [value.real, value.imag] if isinstance(value, TracedComplex) else [value]


def _features(graph: Nodes, parts: list[Traced]) -> Traced:
    """h, or [Re h, Im h], as `real_features`."""
    return graph.add("Concat", *parts, axis=-1) if len(parts) > 1 else parts[0]


def _info(value: Traced, *shape: str | int) -> Any:
    from onnx import helper

    return helper.make_tensor_value_info(value.name, helper.np_dtype_to_tensor_dtype(value.dtype), shape or None)


def _config(network: Network) -> dict[str, Any]:
    """What the network is, for JSON."""
    layers = [
        {
            "model": layer.name,
            **config_of_cell(layer.cell),
            "sizes": layer.sizes,
            "kept": {name: str(kept) for name, kept in layer.constrained.items()},
        }
        for layer in network.layers
    ]
    return {"layers": layers, "output_size": network.output_size, "readout": network.readout, "loss": network.loss}
