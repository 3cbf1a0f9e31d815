"""Weights of recurrent layers in the layouts of PyTorch, ONNX, Keras 3 and Flax linen, and in ours; gradients too.

            PyTorch       ONNX                            Keras                    Flax
elman       RNN           RNN                             SimpleRNN                SimpleCell
lstm        LSTM i f g o  LSTM i o f c                    LSTM i f c o             LSTMCell, OptimizedLSTMCell by name
gru_reset_  GRU r z n     GRU z r h,                      GRU z r h,               GRUCell by name
  after                     linear_before_reset = 1         reset_after=True
gru_reset_                GRU z r h,                      GRU z r h,
  before                    linear_before_reset = 0         reset_after=False

One layer in one direction, with biases; no projection, no peepholes.  A framework's names, n units and m inputs:
    PyTorch  weight_ih_l0 (G n, m), weight_hh_l0 (G n, n), bias_ih_l0 and bias_hh_l0 (G n,)
    ONNX     W (1, G n, m), R (1, G n, n), B (1, 2 G n): biases of the input, then recurrent ones
    Keras    kernel (m, G n), recurrent_kernel (n, G n), bias (G n,); of a GRU with reset_after=True (2, G n)
    Flax     the tree under "params": {"ir": {"kernel": (m, n), "bias": (n,)}, ...}

Where input and recurrent bias are summed they are one bias of ours: `to_` puts it first and 0 second, `from_` adds the
two, and its gradient is either's (`gradients_from_` takes the first).  Of gru_reset_after's candidate the two are b_h
and b_hh; without `recurrent_bias` b_hh is 0, and a gradient of it is dropped.  z of ONNX and Keras weighs the old
state, u of gru_reset_before the new: z = 1 - u, that is sigmoid(-a), so W_u, U_u, b_u and their gradients change sign.

`config` is a conformance case's: {"cell": "lstm"}, {"cell": "elman", "activation": "relu", "complex": False}; an option
left out has its cell's default.  Every function is pure, keeps the dtype, returns fresh arrays, and raises
UnsupportedError for a cell or an option that the framework's layer does not have, and ValueError for a name that is
missing or unknown, a wrong shape, an array that is not floating-point, and a b_hh in the framework that we do not have.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ortho_ref.cells.cell import gate_shapes

Array: TypeAlias = np.ndarray
Arrays: TypeAlias = dict[str, Array]
Shapes: TypeAlias = dict[str, tuple[int, ...]]
Config: TypeAlias = Mapping[str, Any]


class UnsupportedError(ValueError):
    """The framework has no such layer."""


class Layout(NamedTuple):
    """How a framework has one of our cells.

    gates: ours, in the framework's order.  activations: those it can have, its default first.  flipped: the gate that
    the framework has as 1 - ours.
    """

    gates: tuple[str, ...]
    activations: tuple[str, ...] = ("tanh",)
    flipped: str = ""

    @property
    def inner(self) -> int | None:
        """The row of the candidate whose recurrent bias is a weight of its own, b_hh."""
        return self.gates.index("h") if "h" in self.gates else None


class Blocks(NamedTuple):
    """All weights, by gate in the framework's order and with its signs: W (G, n, m), U (G, n, n), b and b_hh (G, n)."""

    W: Array
    U: Array
    b: Array
    b_hh: Array


class Framework(NamedTuple):
    """A framework's cells and arrays.

    shapes: of all arrays by name, from layout, n and m.  sizes: the name and axis that have n, and m.
    """

    name: str
    layouts: dict[str, Layout]
    shapes: Callable[[Layout, int, int], Shapes]
    sizes: Callable[[Layout], tuple[tuple[str, int], tuple[str, int]]]
    unpack: Callable[[Layout, Arrays], Blocks]
    pack: Callable[[Layout, Blocks], Arrays]


BOTH = ("tanh", "relu")


def _by_gate(layout: Layout, a: Array) -> Array:
    """(G n, ...) -> (G, n, ...)."""
    return a.reshape(len(layout.gates), -1, *a.shape[1:])


def _joined(a: Array) -> Array:
    """(G, n, ...) -> (G n, ...)."""
    return a.reshape(-1, *a.shape[2:])


def _pytorch_shapes(layout: Layout, n: int, m: int) -> Shapes:
    k = len(layout.gates) * n
    return {"weight_ih_l0": (k, m), "weight_hh_l0": (k, n), "bias_ih_l0": (k,), "bias_hh_l0": (k,)}


PYTORCH = Framework(
    "PyTorch",
    {
        "elman": Layout(("",), BOTH),
        "lstm": Layout(("i", "f", "g", "o")),
        "gru_reset_after": Layout(("r", "z", "h")),
    },
    shapes=_pytorch_shapes,
    sizes=lambda layout: (("weight_hh_l0", -1), ("weight_ih_l0", -1)),
    unpack=lambda layout, w: Blocks(*(_by_gate(layout, w[name]) for name in _pytorch_shapes(layout, 1, 1))),
    pack=lambda layout, blocks: dict(zip(_pytorch_shapes(layout, 1, 1), map(_joined, blocks), strict=True)),
)


def _onnx_shapes(layout: Layout, n: int, m: int) -> Shapes:
    k = len(layout.gates) * n
    return {"W": (1, k, m), "R": (1, k, n), "B": (1, 2 * k)}


def _onnx_blocks(layout: Layout, w: Arrays) -> Blocks:
    biases = np.split(w["B"][0], 2)
    return Blocks(*(_by_gate(layout, a) for a in (w["W"][0], w["R"][0], *biases)))


def _onnx_arrays(layout: Layout, blocks: Blocks) -> Arrays:
    W, R, b, b_hh = map(_joined, blocks)
    return {"W": W[None], "R": R[None], "B": np.concatenate([b, b_hh])[None]}


ONNX = Framework(
    "ONNX",
    {
        "elman": Layout(("",), BOTH),
        "lstm": Layout(("i", "o", "f", "g")),
        "gru_reset_after": Layout(("z", "r", "h"), BOTH),
        "gru_reset_before": Layout(("u", "r", "c"), BOTH, flipped="u"),
    },
    shapes=_onnx_shapes,
    sizes=lambda layout: (("R", -1), ("W", -1)),
    unpack=_onnx_blocks,
    pack=_onnx_arrays,
)


def _keras_shapes(layout: Layout, n: int, m: int) -> Shapes:
    k = len(layout.gates) * n
    return {"kernel": (m, k), "recurrent_kernel": (n, k), "bias": (k,) if layout.inner is None else (2, k)}


def _keras_blocks(layout: Layout, w: Arrays) -> Blocks:
    bias = w["bias"]
    biases = (bias, np.zeros_like(bias)) if layout.inner is None else bias
    return Blocks(*(_by_gate(layout, a) for a in (w["kernel"].T, w["recurrent_kernel"].T, *biases)))


def _keras_arrays(layout: Layout, blocks: Blocks) -> Arrays:
    W, U, b, b_hh = map(_joined, blocks)
    return {"kernel": W.T, "recurrent_kernel": U.T, "bias": b if layout.inner is None else np.stack([b, b_hh])}


KERAS = Framework(
    "Keras",
    {
        "elman": Layout(("",), BOTH),
        "lstm": Layout(("i", "f", "g", "o")),
        "gru_reset_after": Layout(("z", "r", "h"), BOTH),
        "gru_reset_before": Layout(("u", "r", "c"), BOTH, flipped="u"),
    },
    shapes=_keras_shapes,
    sizes=lambda layout: (("recurrent_kernel", 0), ("kernel", 0)),
    unpack=_keras_blocks,
    pack=_keras_arrays,
)


def _flax_names(layout: Layout) -> list[tuple[str, str, str, str]]:
    """By gate: the paths of the kernel of the input, the recurrent one, the bias, and the inner bias or ""."""
    lstm = "f" in layout.gates
    names = []
    for gate in layout.gates:
        i, h = (side + ("n" if gate == "h" else gate) for side in "ih")
        inner = f"{h}/bias" if gate == "h" else ""
        names.append((f"{i}/kernel", f"{h}/kernel", f"{h if lstm else i}/bias", inner))
    return names


def _flax_shapes(layout: Layout, n: int, m: int) -> Shapes:
    shapes: Shapes = {}
    for kernel, recurrent, bias, inner in _flax_names(layout):
        shapes |= {kernel: (m, n), recurrent: (n, n), bias: (n,)} | ({inner: (n,)} if inner else {})
    return shapes


def _flax_blocks(layout: Layout, w: Arrays) -> Blocks:
    kernels, recurrents, biases, inners = zip(*_flax_names(layout), strict=True)
    W, U = (np.stack([w[name].T for name in names]) for names in (kernels, recurrents))
    b = np.stack([w[name] for name in biases])
    return Blocks(W, U, b, np.stack([w[name] if name else np.zeros_like(b[0]) for name in inners]))


def _flax_arrays(layout: Layout, blocks: Blocks) -> Arrays:
    arrays: Arrays = {}
    for (kernel, recurrent, bias, inner), W, U, b, b_hh in zip(_flax_names(layout), *blocks, strict=True):
        arrays |= {kernel: W.T, recurrent: U.T, bias: b} | ({inner: b_hh} if inner else {})
    return arrays


FLAX = Framework(
    "Flax",
    {
        "elman": Layout(("",), BOTH),
        "lstm": Layout(("i", "f", "g", "o")),
        "gru_reset_after": Layout(("r", "z", "h"), BOTH),
    },
    shapes=_flax_shapes,
    sizes=lambda layout: ((_flax_names(layout)[0][1], 0), (_flax_names(layout)[0][0], 0)),
    unpack=_flax_blocks,
    pack=_flax_arrays,
)


def _layout(framework: Framework, config: Config) -> Layout:
    """The layout of the config's cell.  UnsupportedError if the framework does not have it with those options."""
    cell = config.get("cell")
    if cell not in framework.layouts:
        raise UnsupportedError(f"cell is {cell!r}; {framework.name} has: {', '.join(framework.layouts)}")
    layout = framework.layouts[cell]
    options = {"activation": layout.activations, "complex": (False,), "reset_gate": (True,), "update_gate": (True,)}
    for option, allowed in options.items():
        if config.get(option, allowed[0]) not in allowed:
            listed = ", ".join(map(repr, allowed))
            raise UnsupportedError(f"{option} is {config[option]!r}; {framework.name} has, as {cell}: {listed}")
    return layout


def _name(kind: str, gate: str) -> str:
    return f"{kind}_{gate}" if gate else kind


def _checked(
    what: str, arrays: Mapping[str, Any], shapes: Callable[[int, int], Shapes], n: tuple[str, int], m: tuple[str, int]
) -> Arrays:
    """The arrays, by the names and shapes expected of them; n and m are read off where these two say.

    ValueError for other names, shapes, or dtypes.
    """
    names = shapes(1, 1).keys()
    if arrays.keys() != names:
        missing, unknown = sorted(names - arrays.keys()), sorted(arrays.keys() - names)
        raise ValueError(f"{what}: missing {missing}, unknown {unknown}; expected {sorted(names)}")
    given = {name: np.asarray(array) for name, array in arrays.items()}
    sizes = [np.atleast_1d(given[name]).shape[axis] for name, axis in (n, m)]
    for name, shape in shapes(*sizes).items():
        if given[name].shape != shape:
            raise ValueError(f"{what}: {name} has shape {given[name].shape}; expected {shape}")
        if given[name].dtype.kind != "f":
            raise ValueError(f"{what}: {name} is {given[name].dtype}; expected a floating-point array")
    return given


def _from(framework: Framework, config: Config, arrays: Mapping[str, Any], gradients: bool) -> Arrays:
    """The framework's arrays -> ours, under our names."""
    layout = _layout(framework, config)
    given = _checked(framework.name, arrays, lambda n, m: framework.shapes(layout, n, m), *framework.sizes(layout))
    W, U, b, b_hh = framework.unpack(layout, given)
    ours: Arrays = {}
    for k, gate in enumerate(layout.gates):
        summed = b[k] if gradients or k == layout.inner else b[k] + b_hh[k]
        sign = -1 if gate and gate == layout.flipped else 1
        ours |= {_name(kind, gate): sign * a for kind, a in (("W", W[k]), ("U", U[k]), ("b", summed))}
    if layout.inner is not None:
        if config.get("recurrent_bias", False):
            ours["b_hh"] = b_hh[layout.inner]
        elif not gradients and b_hh[layout.inner].any():
            raise ValueError(f"{framework.name}: the candidate's recurrent bias is not 0; allowed: recurrent_bias true")
    return {name: np.array(a, order="C") for name, a in ours.items()}


def _to(framework: Framework, config: Config, weights: Mapping[str, Any]) -> Arrays:
    """Our weights -> the framework's arrays, under its names."""
    layout = _layout(framework, config)
    inner = layout.inner is not None and config.get("recurrent_bias", False)

    def shapes(n: int, m: int) -> Shapes:
        return gate_shapes(layout.gates, m, n) | ({"b_hh": (n,)} if inner else {})

    first = layout.gates[0]
    ours = _checked("weights", weights, shapes, (_name("U", first), -1), (_name("W", first), -1))
    signs = [-1 if gate and gate == layout.flipped else 1 for gate in layout.gates]
    W, U, b = (
        np.stack([sign * ours[_name(kind, gate)] for sign, gate in zip(signs, layout.gates, strict=True)])
        for kind in "WUb"
    )
    b_hh = np.zeros_like(b)
    if inner:
        b_hh[layout.inner] = ours["b_hh"]
    return {name: np.array(a, order="C") for name, a in framework.pack(layout, Blocks(W, U, b, b_hh)).items()}


def from_pytorch(config: Config, weights: Mapping[str, Any]) -> Arrays:
    """The weights of nn.RNN, nn.LSTM or nn.GRU, as its state_dict names them -> ours."""
    return _from(PYTORCH, config, weights, gradients=False)


def to_pytorch(config: Config, weights: Mapping[str, Any]) -> Arrays:
    """Our weights -> those of nn.RNN, nn.LSTM or nn.GRU."""
    return _to(PYTORCH, config, weights)


def gradients_from_pytorch(config: Config, gradients: Mapping[str, Any]) -> Arrays:
    """Gradients by nn.RNN's, nn.LSTM's or nn.GRU's weights -> gradients by ours."""
    return _from(PYTORCH, config, gradients, gradients=True)


def from_onnx(config: Config, weights: Mapping[str, Any]) -> Arrays:
    """W, R and B of RNN, LSTM or GRU -> our weights."""
    return _from(ONNX, config, weights, gradients=False)


def to_onnx(config: Config, weights: Mapping[str, Any]) -> Arrays:
    """Our weights -> W, R and B of RNN, LSTM or GRU."""
    return _to(ONNX, config, weights)


def gradients_from_onnx(config: Config, gradients: Mapping[str, Any]) -> Arrays:
    """Gradients by W, R and B -> gradients by our weights."""
    return _from(ONNX, config, gradients, gradients=True)


def from_keras(config: Config, weights: Mapping[str, Any]) -> Arrays:
    """kernel, recurrent_kernel and bias of SimpleRNN, LSTM or GRU -> our weights."""
    return _from(KERAS, config, weights, gradients=False)


def to_keras(config: Config, weights: Mapping[str, Any]) -> Arrays:
    """Our weights -> kernel, recurrent_kernel and bias of SimpleRNN, LSTM or GRU: `set_weights` takes them in order."""
    return _to(KERAS, config, weights)


def gradients_from_keras(config: Config, gradients: Mapping[str, Any]) -> Arrays:
    """Gradients by kernel, recurrent_kernel and bias -> gradients by our weights."""
    return _from(KERAS, config, gradients, gradients=True)


def from_flax(config: Config, weights: Mapping[str, Mapping[str, Any]]) -> Arrays:
    """The parameters of SimpleCell, LSTMCell, OptimizedLSTMCell or GRUCell -> our weights."""
    return _from(FLAX, config, _flat(weights), gradients=False)


def to_flax(config: Config, weights: Mapping[str, Any]) -> dict[str, Arrays]:
    """Our weights -> the parameters of SimpleCell, LSTMCell, OptimizedLSTMCell or GRUCell."""
    tree: dict[str, Arrays] = {}
    for path, array in _to(FLAX, config, weights).items():
        dense, leaf = path.split("/")
        tree.setdefault(dense, {})[leaf] = array
    return tree


def gradients_from_flax(config: Config, gradients: Mapping[str, Mapping[str, Any]]) -> Arrays:
    """Gradients by the parameters of such a cell -> gradients by our weights."""
    return _from(FLAX, config, _flat(gradients), gradients=True)


def _flat(tree: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """{"ir": {"kernel": ...}} -> {"ir/kernel": ...}.  ValueError if it is not two levels deep."""
    for dense, leaves in tree.items():
        if not isinstance(leaves, Mapping):
            raise ValueError(f"Flax: {dense} is {type(leaves).__name__}; expected a dict of kernel and bias")
    return {f"{dense}/{leaf}": array for dense, leaves in tree.items() for leaf, array in leaves.items()}
