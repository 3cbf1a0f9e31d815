"""A case of a cell, or of a layer of one, as a sequence to run; what a forward pass gave; the loss that it wants.

Nothing here knows a framework: what has to be done with its arrays is a `Library`.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ortho_ref import models
from ortho_ref.adapters.layers import Layer, layer_of, layer_outputs, wants_gradients
from ortho_ref.adapters.weight_map import TRIAL, Layout, Spec, WeightMap
from ortho_ref.boundary import check_integer
from ortho_ref.cells.by_name import CELLS
from ortho_ref.conformance.cases.layered import Direction, directions
from ortho_ref.conformance.running.implementation import OfCell
from ortho_ref.converters.config import config_of
from ortho_ref.converters.framework import Arrays, UnsupportedError
from ortho_ref.trees import under

#: run(case) -> the outputs, or None for what it is not.
Adapter: TypeAlias = Callable[[Any], Arrays | None]
#: forward(x, state) -> the states, with the weights in it.
Call: TypeAlias = Callable[[Any, Any], Any]


class Bound(NamedTuple):
    """An implementation with weights in it."""

    call: Call
    weights: dict[str, Any]  # by name, the framework's tensors or variables whose gradients are wanted


class Sequence(NamedTuple):
    """What a case of a cell gives."""

    config: dict[str, Any]  # the cell and its options
    weights: Arrays  # by the kit's names, without "weights."
    x: np.ndarray  # (T, B, m): tokens as one-hot vectors
    tokens: bool  # whether x was tokens, which have no gradient
    names: tuple[str, ...]  # ("h",), of an LSTM ("h", "c")
    start: tuple[np.ndarray, ...]  # (B, n): the initial states
    dh: np.ndarray  # (T, B, n): upstream, of every step's h
    d_last: tuple[np.ndarray, ...]  # (B, n): upstream, of the last step's states
    dtype: str  # of the case
    gradients: bool  # whether any is wanted
    kind: str = "cell"  # of the case
    bias: bool = True  # whether it has biases
    state: bool = True  # whether the initial states are given; else they are 0
    padding: str | None = None  # "lengths", "mask"
    keep: np.ndarray | None = None  # lengths (B,), or a mask (T, B)
    kept: str | None = None  # the weight that is a map's, "U_c", whose parameters are among the weights

    @property
    def usual(self) -> bool:
        """Whether a framework's own layer that takes (x, h0) can run it: a state, no padding, no weight of a map."""
        return self.state and self.padding is None and self.kept is None

    @property
    def sizes(self) -> tuple[int, int]:
        """m and n."""
        return self.x.shape[2], self.start[0].shape[1]


class Library(NamedTuple):
    """What is done with a framework's arrays."""

    constant: Callable[[np.ndarray], Any]  # a NumPy array as the framework's
    stack: Callable[[list[Any]], Any]  # a list of arrays, along a new first axis
    swap: Callable[[Any], Any]  # an array with its first two axes exchanged
    total: Callable[[Any], Any]  # the sum of all entries


class Style(NamedTuple):
    """How a forward pass is called."""

    step: bool = False  # whether it is one step, x (B, m)
    batch_first: bool = False  # whether x is (B, T, m) and what it returns alike


def sequence_of(case: Any) -> Sequence | None:
    """The sequence of a case; None for a case of another kind, and for several layers or directions."""
    if case.kind == "layer":
        return _of_layer(layer_of(case))
    if case.kind != "cell":
        return None
    given = case.inputs
    weights = under("weights.", given)
    tokens = given["x"].dtype.kind == "i"
    names = CELLS[case.config["cell"]].states
    x = given["x"]
    if tokens:
        m = next(a for name, a in weights.items() if name.startswith("W")).shape[1]
        x = np.eye(m, dtype=given["h0"].dtype)[x]
    start = tuple(given[f"{name}0"] for name in names)
    d_last = tuple(given[f"d{name}_T"] for name in names if f"d{name}_T" in given)
    around = start, given["dh"], d_last, str(case.dtype), wants_gradients(case)
    return Sequence(case.config, weights, x, tokens, names, *around)


def sequence_or_layer(case: Any) -> Sequence | Layer | None:
    """A sequence; of several layers or directions all of it."""
    return sequence_of(case) or layer_of(case)


def _of_layer(layer: Layer | None) -> Sequence | None:
    if layer is None or len(layer.ways) > 1:
        return None
    weights, d_last = under(f"{layer.ways[0].name}.", layer.weights), tuple(d[0] for d in layer.d_last)
    start = tuple(part[0] for part in layer.start) or tuple(np.zeros_like(d) for d in d_last)
    own = layer.config, weights, layer.x, False, layer.names, start, layer.dh, d_last, layer.dtype, layer.gradients
    return Sequence(*own, "layer", layer.bias, bool(layer.start), layer.padding, layer.keep, layer.kept)


def states_of(
    call: Call, seq: Sequence | Layer, style: Style, library: Library, x: Any, start: tuple[Any, ...]
) -> tuple[list[Any], list[Any]]:
    """By name of state, those of every step, (T, B, n) or (T+1, B, n), and the last, as the framework's arrays.

    Of several layers what the last one gives, and all last states.  call(x, state) is a layer's, or one step's.
    ValueError where it returns no states, or some of another shape.
    """
    swap = library.swap if style.batch_first else lambda a: a
    if isinstance(seq, Layer):
        return _of_layers(call(swap(x), _packed(start) if start else None), seq, swap)
    if style.step:
        history = [start]
        for t in range(len(seq.x)):
            history.append(_step(call(x[t], _packed(history[-1])), seq))
        return [library.stack(list(steps)) for steps in zip(*history, strict=True)], list(history[-1])

    def run(x: Any, state: tuple[Any, ...], steps: int) -> tuple[list[Any], list[Any]]:
        return _read(call(swap(x), _packed(state)), seq, steps, swap)

    every, last = run(x, start, len(seq.x))
    if len(every) < len(seq.names) and seq.kind == "cell":  # c of the last step alone: once more for every step
        ends = [run(x[:t], start, t)[1][1] for t in range(1, len(seq.x))]
        every.append(library.stack([*ends, last[1]]))
    return every, last


def _of_layers(given: Any, layer: Layer, swap: Callable[[Any], Any]) -> tuple[list[Any], list[Any]]:
    """What several layers gave: (y, h_T), or (y, (h_T, c_T))."""
    y, *rest = given if isinstance(given, tuple | list) else (given,)
    last = list(rest[0]) if len(rest) == 1 and isinstance(rest[0], tuple | list) else rest
    shapes = {"y": swap(y).shape, **{f"{name}_T": a.shape for name, a in zip(layer.names, last, strict=False)}}
    expected = {"y": layer.dh.shape, **{f"{s}_T": a.shape for s, a in zip(layer.names, layer.d_last, strict=True)}}
    if shapes != expected:
        raise ValueError(f"the forward pass returned {shapes}, time first; expected {expected}")
    return [swap(y)], last


def _packed(state: tuple[Any, ...]) -> Any:
    """As a call takes it: an array, or the pair (h, c)."""
    return state[0] if len(state) == 1 else tuple(state)


def _step(given: Any, seq: Sequence) -> tuple[Any, ...]:
    """What a step gave: the new state."""
    parts = tuple(given) if isinstance(given, tuple | list) else (given,)
    if len(parts) != len(seq.names):
        raise ValueError(f"a step returned {len(parts)} arrays; expected {_and(seq.names)}")
    for name, part, start in zip(seq.names, parts, seq.start, strict=True):
        if _shape(part) != start.shape:
            raise ValueError(f"a step returned {name} {_shape(part)}; expected {start.shape}")
    return parts


def _read(given: Any, seq: Sequence, steps: int, swap: Callable[[Any], Any]) -> tuple[list[Any], list[Any]]:
    """What a layer gave: h; (h, h_T); (h, c); (h, (h_T, c_T)); or (h, h_T, c_T)."""
    parts, count = list(given) if isinstance(given, tuple | list) else [given], len(seq.names)
    ends: list[Any] = []
    if len(parts) == 2 and isinstance(parts[1], tuple | list):
        parts, ends = parts[:1], list(parts[1])
    elif len(parts) == 1 + count:
        parts, ends = parts[:1], parts[1:]
    if len(parts) > count or (len(parts) < count and not ends) or (ends and len(ends) != count):
        raise ValueError(f"the forward pass returned {_told(given)}; expected {_and(seq.names)} of every step")
    every = []
    for name, part, start in zip(seq.names, parts, seq.start, strict=False):
        if not hasattr(part, "shape"):
            raise ValueError(f"the forward pass returned {_told(given)}; expected {_and(seq.names)} of every step")
        array = swap(part) if len(_shape(part)) > 1 else part
        allowed = [(steps, *start.shape), (steps + 1, *start.shape)]
        if _shape(array) not in allowed:
            raise ValueError(f"{name} has shape {_shape(array)}, time first; expected {allowed[0]}, or h0 too")
        every.append(array)
    if not ends:
        return every, [array[-1] for array in every]
    for name, end, start in zip(seq.names, ends, seq.start, strict=True):
        if _shape(end) not in (start.shape, (1, *start.shape)):
            raise ValueError(f"the last {name} has shape {_shape(end)}; expected {start.shape}")
    return every, [
        end[0] if _shape(end) == (1, *start.shape) else end for end, start in zip(ends, seq.start, strict=True)
    ]


def _shape(a: Any) -> tuple[int, ...]:
    return tuple(int(size) for size in getattr(a, "shape", ()))


def _and(names: tuple[str, ...]) -> str:
    return " and ".join(names)


def _told(given: Any) -> str:
    if isinstance(given, tuple | list):
        return f"({', '.join(map(_told, given))})"
    return f"{type(given).__name__} {_shape(given)}" if hasattr(given, "shape") else type(given).__name__


def loss_of(every: list[Any], last: list[Any], seq: Sequence | Layer, library: Library) -> Any:
    """L = sum(dh * h[1:]) + sum(dh_T * h[T]) + sum(dc_T * c[T])."""
    loss = library.total(library.constant(seq.dh) * every[0][-len(seq.x) :])
    for part, upstream in zip(last, seq.d_last, strict=False):
        loss = loss + library.total(library.constant(upstream) * part)
    return loss


class Taken(NamedTuple):
    """What a framework gave for a sequence, as NumPy arrays."""

    states: list[np.ndarray]  # (T, B, n) or (T+1, B, n): by name of state
    last: tuple[np.ndarray, ...]  # (B, n): the last states, which a layer's case wants
    weights: Any = None  # gradients, a dict or tree by the framework's names; None of the forward pass alone
    x: Any = None  # (T, B, m): its gradient
    start: tuple[np.ndarray, ...] = ()  # (B, n): gradients of the initial states


def in_numpy(a: Any) -> np.ndarray:
    """An array of JAX's or NumPy's, in NumPy; half precision as float32, as NumPy has no bfloat16."""
    return np.asarray(a, np.float32 if a.dtype.itemsize == 2 else None)


def outputs_of(taken: Taken, case: Any, seq: Sequence | Layer, layout: Layout) -> Arrays:
    """The outputs of the case, under the kit's names."""
    gradients: Arrays = {}
    weights: Arrays = {}
    if taken.weights is not None:
        gradients = {} if isinstance(seq, Sequence) and seq.tokens else {"x": taken.x}
        gradients |= {f"{name}0": g for name, g in zip(seq.names, taken.start, strict=False)}
        weights = layout.gradients_from(taken.weights, seq.weights)
    if isinstance(seq, Layer):
        return layer_outputs(case, taken.states[0], taken.last, gradients | weights)
    if seq.kind == "layer":  # the states without their axis of layers
        gradients = {name: g if name == "x" else g[None] for name, g in gradients.items()}
        gradients |= {f"layer0.{name}": g for name, g in weights.items()}
        return layer_outputs(case, taken.states[0][-len(seq.x) :], tuple(part[None] for part in taken.last), gradients)
    outputs = {
        name: array if len(array) > len(seq.x) else np.concatenate([start[None], array])
        for name, array, start in zip(seq.names, taken.states, seq.start, strict=True)
    }
    outputs |= {f"d_{name}": g for name, g in gradients.items()}
    return outputs | {f"d_weights.{name}": g for name, g in weights.items()}


def arrays_of(layout: Layout, seq: Sequence | Layer) -> Any:
    """The framework's arrays of a sequence's weights; None where the framework has no such layer."""
    try:
        return layout.to_framework(seq.weights)
    except UnsupportedError:
        return None


def adapter(
    read: Callable[[Any], Any],
    supports: Callable[[Any], Layout | None],
    take: Callable[[Any, Any], Taken],
    cell: str = "",
    assumes: tuple[str, ...] = (),
) -> OfCell:
    """The adapter of a framework, from three functions, which says which cell it is and what it assumes of itself.

    read makes a Sequence or Layer of a case; supports gives the layout of its weights, None for what the framework does
    not have; take gives what the framework gave, from it and the framework's arrays.
    """

    def run(case: Any) -> Arrays | None:
        """The outputs; None for a case of another kind, cell, number of layers or directions."""
        seq = read(case)
        layout = None if seq is None else supports(seq)
        arrays = None if layout is None else arrays_of(layout, seq)
        return None if layout is None or arrays is None else outputs_of(take(seq, arrays), case, seq, layout)

    return OfCell(run, cell, assumes)


def one_cell(
    cell: Any, weights: Spec | None, function: str, ways: tuple[Direction, ...] = ()
) -> tuple[dict[str, Any], WeightMap]:
    """Config and layout of the cell that an implementation is of, from what the user gave to `function`."""
    if cell is None:
        which = f"the name of the cell or model that this is ({', '.join(CELLS)}, ...)"
        raise TypeError(f"{function} needs cell=, {which}; for a module of yours weights= too")
    config = config_of(cell)
    layout = WeightMap(weights, config, ways)
    if cell in models.names() and layout.kept is not None:
        layout.signed |= hasattr(models.build(cell, *TRIAL).parametrizations.get(layout.kept), "negative_ones")
    return config, layout


def ways_of(layers: int | None, bidirectional: bool) -> tuple[Direction, ...]:
    """The directions of an implementation that is checked as a whole; none of one cell."""
    if layers is not None:
        check_integer("layers", layers)
        return tuple(directions({"layers": layers, "bidirectional": bidirectional}))
    if bidirectional:
        raise TypeError("bidirectional is for a module that is checked as a whole; give layers too")
    return ()


def of_yours(
    config: Mapping[str, Any], layout: WeightMap, ways: tuple[Direction, ...] = (), state: bool = True
) -> Callable[[Sequence | Layer], Layout | None]:
    """What an implementation of a user's supports: of its cell, layers, biases and map, without padding, with h0.

    One that takes no initial state ignores it, and supports those that have none too.
    """

    def supports(seq: Sequence | Layer) -> Layout | None:
        given = seq.state if isinstance(seq, Sequence) else bool(seq.start)
        its = dict(seq.config), getattr(seq, "ways", ()), seq.bias, seq.kept
        same = its == (dict(config), ways, layout.bias, layout.kept)
        same = same and (not layout.signed or f"{layout.kept}.D" in seq.weights)
        return layout if same and (given or not state) and seq.padding is None else None

    return supports


def known(target: Any, module: Any, names: Iterable[str]) -> str | None:
    """Which of a framework's own classes a target is, is made of or derives from; None of a user's."""
    kind = target if isinstance(target, type) else type(target)
    return next((name for name in names if issubclass(kind, getattr(module, name))), None)


def check_given(weights: Spec | None, of: str, own: str = "parameters") -> None:
    """TypeError where weights, which an implementation of a user's needs, are not given."""
    if weights is None:
        raise TypeError(f"{of} needs weights=, its {own} -> the kit's weights (docs/check/adapters.md)")


def left_out(why: str, **given: Any) -> None:
    """TypeError for what is given, neither None nor False, and is known already."""
    if extra := [name for name, value in given.items() if value is not None and value is not False]:
        raise TypeError(f"{why}; leave out {', '.join(extra)}")
