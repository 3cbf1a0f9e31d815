"""What users of a layer meet around a cell: absent states and biases, padding, two directions, several layers.

One direction of one layer, step by step in its own order, the last step first where it runs backwards; s is the state,
k_t is 1 where the step counts and 0 in padding, r_t is 1 where a sequence begins anew:

    s_t = k_t step(x_t, (1 - r_t) s_{t-1}) + (1 - k_t) s_{t-1}
    y_t = h_t, or k_t h_t where padding is by lengths

From a layer to the next goes y_t, or y_t times the case's own factors of dropout.

The reference of the kind `layer`; the steps are the cells'.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ortho_ref.cells.cell import Cell, parts_of, state_of
from ortho_ref.conformance.cases.case import Arrays, Config

#: What a layer's config has beside the cell and its options.
AROUND = ("layers", "bidirectional", "bias", "initial_state", "padding", "batch_first", "parametrized", "dropout")
#: What a step is to a sequence: it does not count, it does, it does and the state before it is 0.
PADDING, COUNTS, ANEW = 0, 1, 2


class Direction(NamedTuple):
    """One direction of one layer."""

    layer: int  # which layer, from 0
    place: int  # its entry in h0 and h_T
    reverse: bool  # it begins with the last step
    name: str  # of its weights: "layer0", "layer0_reverse"


class Pass(NamedTuple):
    """What the way back needs of a direction."""

    caches: list[Any]  # the cell's, step by step as they were run
    order: list[int]  # the steps in this order
    keep: np.ndarray  # (T, B), what each step is: PADDING, COUNTS, ANEW


def directions(config: Config) -> Iterator[Direction]:
    """Every direction of every layer, in the order of h0."""
    for layer in range(config["layers"]):
        for reverse in (False, True)[: 1 + config["bidirectional"]]:
            name = f"layer{layer}_reverse" if reverse else f"layer{layer}"
            yield Direction(layer, layer * (1 + config["bidirectional"]) + reverse, reverse, name)


def kept(config: Config, inputs: Arrays, T: int, B: int) -> np.ndarray:
    """What each step is, (T, B): PADDING, COUNTS, ANEW; a bool array where no sequence begins anew."""
    if config["padding"] == "lengths":
        return np.arange(T)[:, None] < inputs["lengths"]
    if config["padding"] == "mask":
        return time_first(config, inputs["mask"])
    if config["padding"] == "resets":
        return np.where(time_first(config, inputs["resets"]), ANEW, COUNTS)
    return np.ones((T, B), bool)


def time_first(config: Config, array: np.ndarray) -> np.ndarray:
    """(B, T, ...) as (T, B, ...) where the case is batch-first, and the other way round."""
    return np.swapaxes(array, 0, 1) if config["batch_first"] else array


def own_weights(cell: Cell, direction: Direction, inputs: Arrays, m: int, n: int) -> Arrays:
    """The weights of a direction; biases that are absent are 0."""
    dtype = inputs["x"].dtype
    shapes = cell.shapes(m, n)
    given = {name: inputs.get(f"weights.{direction.name}.{name}") for name in shapes}
    return {name: np.zeros(shapes[name], dtype) if a is None else a for name, a in given.items()}


def first_state(cell: Cell, direction: Direction, inputs: Arrays, B: int, n: int) -> tuple[np.ndarray, ...]:
    """The parts of the state that a direction begins with; 0 where none is given."""
    given = (inputs.get(f"{name}0") for name in cell.states)
    return tuple(np.zeros((B, n), inputs["x"].dtype) if a is None else a[direction.place] for a in given)


def order_of(direction: Direction, keep: np.ndarray) -> list[int]:
    """The steps in the order in which they are run."""
    return list(range(len(keep)))[:: -1 if direction.reverse else 1]


def forward(
    cell: Cell, weights: Arrays, x: np.ndarray, state: tuple[np.ndarray, ...], order: list[int], keep: np.ndarray
) -> tuple[np.ndarray, tuple[np.ndarray, ...], Pass]:
    """One direction: x (T, B, m), parts of the state (B, n), the steps in their order, keep (T, B) what each is.

    Gives h (T, B, n) after each step, the state after the last one, and what `backward` takes.
    """
    caches, h = [], np.empty((*keep.shape, state[0].shape[1]), state[0].dtype)
    for t in order:
        new, cache = cell.step_forward(weights, x[t], state_of(begun(state, keep[t])))
        counts = keep[t][:, None]
        state = tuple(np.where(counts, a, b) for a, b in zip(parts_of(cell, new), state, strict=True))
        h[t] = state[0]
        caches.append(cache)
    return h, state, Pass(caches, order, keep)


def backward(
    cell: Cell, weights: Arrays, tape: Pass, dh: np.ndarray, d_last: tuple[np.ndarray, ...]
) -> tuple[np.ndarray, tuple[np.ndarray, ...], Arrays]:
    """The adjoint of `forward`: from dh (T, B, n) and that of the last state, (B, n) each.

    Gives dx (T, B, m), that of the state at the start, and those of the weights, summed over time and batch.
    """
    dx: list[tuple[int, Any]] = []
    g, total = d_last, {name: np.zeros_like(a) for name, a in weights.items()}
    for t, cache in zip(reversed(tape.order), reversed(tape.caches), strict=True):
        counts = tape.keep[t][:, None]
        g = (g[0] + dh[t], *g[1:])
        dx_t, back, parts = cell.step_backward(weights, state_of(tuple(np.where(counts, a, 0) for a in g)), cache)
        carried = begun(parts_of(cell, back), tape.keep[t])
        g = tuple(b + np.where(counts, 0, a) for a, b in zip(g, carried, strict=True))
        dx.append((t, dx_t))
        total = {name: total[name] + parts[name] for name in total}
    return np.stack([dx_t for _, dx_t in sorted(dx, key=lambda pair: pair[0])]), g, total


def begun(state: tuple[np.ndarray, ...], step: np.ndarray) -> tuple[np.ndarray, ...]:
    """The state before a step, and its gradient: 0 where a sequence begins anew."""
    return tuple(np.where(step[:, None] == ANEW, 0, part) for part in state)


def outputs(cell: Cell, config: Config, inputs: Arrays) -> Arrays:
    """The answer to a case of kind `layer`: y, the last states, and the gradients of what is given."""
    x = time_first(config, inputs["x"])
    T, B = x.shape[:2]
    n = next(a.shape[0] for name, a in inputs.items() if ".W" in name)
    keep = kept(config, inputs, T, B)
    shown = keep[..., None] if config["padding"] == "lengths" else np.ones((T, B, 1), bool)
    ways = list(directions(config))
    runs: dict[str, tuple[Arrays, Pass]] = {}
    last: dict[int, tuple[np.ndarray, ...]] = {}
    y = x
    for layer in range(config["layers"]):
        parts = []
        for way in (way for way in ways if way.layer == layer):
            weights = own_weights(cell, way, inputs, y.shape[2], n)
            begin = first_state(cell, way, inputs, B, n)
            h, last[way.place], tape = forward(cell, weights, y, begin, order_of(way, keep), keep)
            runs[way.name] = weights, tape
            parts.append(np.where(shown, h, 0))
        y = np.concatenate(parts, axis=2)
        if layer + 1 < config["layers"]:
            y = dropped(y, inputs, layer)
    found: Arrays = {"y": time_first(config, y)}
    for i, name in enumerate(cell.states):
        found[f"{name}_T"] = np.stack([last[way.place][i] for way in ways])

    # from the last layer to the first
    d_first: dict[int, tuple[np.ndarray, ...]] = {}
    dy = time_first(config, inputs["dy"])
    for layer in reversed(range(config["layers"])):
        own = [way for way in ways if way.layer == layer]
        dx = []
        for way, upstream in zip(own, np.split(np.where(shown, dy, 0), len(own), axis=2), strict=True):
            weights, tape = runs[way.name]
            d_last = tuple(inputs[f"d{name}_T"][way.place] for name in cell.states)
            d, d_first[way.place], dweights = backward(cell, weights, tape, upstream, d_last)
            dx.append(d)
            given = {name: f"weights.{way.name}.{name}" for name in dweights}
            found |= {f"d_{given[name]}": a for name, a in dweights.items() if given[name] in inputs}
        dy = between(sum(dx[1:], dx[0]))
        if layer > 0:
            dy = dropped(dy, inputs, layer - 1)
    found["d_x"] = time_first(config, dy)
    for i, name in enumerate(cell.states):
        if f"{name}0" in inputs:
            found[f"d_{name}0"] = np.stack([d_first[way.place][i] for way in ways])
    return found


def between(dx: np.ndarray) -> np.ndarray:
    """What goes from a layer to the one below."""
    return dx


def dropped(y: np.ndarray, inputs: Arrays, layer: int) -> np.ndarray:
    """What goes up from a layer, (T, B, D n), or its gradient that comes down: times dropout's factors."""
    return y * inputs["dropout"][layer] if "dropout" in inputs else y
