"""What goes wrong around a cell: what is absent, padding, directions, layers, long and wide ones."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from ortho_ref.conformance.case import Arrays, Case
from ortho_ref.conformance.mistake import (
    Base,
    Family,
    Predicate,
    altered,
    configured,
    fed,
    negative,
    nothing,
    patched,
    read_as,
    reference,
    scaled,
)
from ortho_ref.conformance.private import private

layered = private("ortho_ref.conformance.layered")

MISTAKES = Family()
M = MISTAKES.add

_BIASES = tuple(f"weights.layer{k}{way}.b" for k in range(2) for way in ("", "_reverse"))
BIASES = (*_BIASES, *(f"{name}_*" for name in _BIASES))  # not FastRNN's beta


def layer(**options: Any) -> Predicate:
    """A case of kind layer whose config has these values."""
    return lambda case: case.kind == "layer" and all(case.config.get(name) == value for name, value in options.items())


def _both(*predicates: Predicate) -> Predicate:
    return lambda case: all(applies(case) for applies in predicates)


def padded(case: Case) -> bool:
    """Whether not every step counts."""
    return case.kind == "layer" and case.config["padding"] is not None


def _long(length: int) -> Predicate:
    return lambda case: case.kind == "layer" and len(case.inputs["x"]) > length


def _wide(units: int) -> Predicate:
    return lambda case: case.kind == "layer" and case.inputs["dh_T"].shape[2] > units


# Cells that other kinds have no cases of


def _turned_gate(gate: str) -> Callable[[Case, Base], Arrays]:
    """1 minus a gate: its weights negative."""
    names = tuple(f"weights.layer0.{kind}_{gate}" for kind in "WUb")
    return read_as(negative, negative, *names)


def _zeta_and_nu(case: Case, base: Base) -> Arrays:
    zeta, nu = "weights.layer0.zeta", "weights.layer0.nu"
    found = base(replace(case, inputs={**case.inputs, zeta: case.inputs[nu], nu: case.inputs[zeta]}))
    return {**found, f"d_{zeta}": found[f"d_{nu}"], f"d_{nu}": found[f"d_{zeta}"]}


def _one_bias(case: Case, base: Base) -> Arrays:
    b_z, b_h = "weights.layer0.b_z", "weights.layer0.b_h"
    found = base(replace(case, inputs={**case.inputs, b_h: case.inputs[b_z]}))
    return {**found, f"d_{b_z}": found[f"d_{b_z}"] + found[f"d_{b_h}"], f"d_{b_h}": nothing(found[f"d_{b_h}"])}


def _raw(case: Case, base: Base) -> Arrays:
    """zeta and nu as they stand, not through the sigmoid."""
    names = [f"weights.layer0.{name}" for name in ("zeta", "nu")]
    logits = {name: np.log(np.abs(case.inputs[name]) / (1 - np.abs(case.inputs[name]))) for name in names}
    found = base(replace(case, inputs={**case.inputs, **logits}))
    slopes = {name: np.abs(case.inputs[name]) * (1 - np.abs(case.inputs[name])) for name in names}
    return {**found, **{f"d_{name}": found[f"d_{name}"] / slopes[name] for name in names}}


M("ugrnn-gate-writes", "g the weight of the new content", layer(cell="ugrnn"), _turned_gate("g"))
M("fastgrnn-zeta-nu-exchanged", "zeta and nu exchanged", layer(cell="fastgrnn"), _zeta_and_nu)
M("fastgrnn-one-bias", "one bias for gate and content", layer(cell="fastgrnn"), _one_bias)
M("fastgrnn-raw", "|zeta| and |nu| as they stand, not through the sigmoid", layer(cell="fastgrnn"), _raw)


# What is absent


M(
    "bias-skipped-without-h0",
    "no bias where no initial state is given",
    layer(bias=True, initial_state=False),
    read_as(nothing, nothing, *BIASES),
)


def _bare_first_step(own: Any) -> Any:
    def forward(
        cell: Any, weights: Arrays, x: np.ndarray, state: Any, order: list[int], keep: np.ndarray
    ) -> tuple[np.ndarray, Any, Any]:
        first, parts, tape = own(cell, _bare(weights), x, state, order[:1], keep)
        h, parts, rest = own(cell, weights, x, parts, order[1:], keep)
        h[order[0]] = first[order[0]]
        return h, parts, layered.Pass([*tape.caches, *rest.caches], order, keep)

    return forward


def _bare_first_step_backward(own: Any) -> Any:
    def backward(cell: Any, weights: Arrays, tape: Any, dh: np.ndarray, d_last: Any) -> tuple[Any, Any, Arrays]:
        rest, first = (layered.Pass(tape.caches[part], tape.order[part], tape.keep) for part in _FIRST)
        later, g, dweights = own(cell, weights, rest, dh, d_last)
        earlier, g, bare = own(cell, _bare(weights), first, dh, g)
        dx = np.zeros((*dh.shape[:2], weights_width(weights)))
        dx[rest.order], dx[first.order] = later, earlier
        return dx, g, {name: a + (0 if name == "b_hh" else bare[name]) for name, a in dweights.items()}

    return backward


_FIRST = slice(1, None), slice(0, 1)


def _bare(weights: Arrays) -> Arrays:
    return {**weights, "b_hh": nothing(weights["b_hh"])}


M(
    "b_hh-skipped-in-first-step",
    "no b_hh in the first step where no initial state is given (MLX before 0.31.2)",
    layer(recurrent_bias=True, bias=True, initial_state=False),
    patched((layered, "forward", _bare_first_step), (layered, "backward", _bare_first_step_backward)),
)
M("layer-h0-ignored", "the initial state taken for 0", layer(initial_state=True), read_as(nothing, nothing, "h0", "c0"))


def _filled(value: float, of_biases: bool) -> Callable[[Any], Any]:
    """Something but 0 for what is absent."""

    def weights(own: Any) -> Any:
        def own_weights(cell: Any, way: Any, inputs: Arrays, m: int, n: int) -> Arrays:
            found: Arrays = own(cell, way, inputs, m, n)
            absent = [name for name in found if f"weights.{way.name}.{name}" not in inputs]
            return found | {name: np.full_like(found[name], value) for name in absent}

        return own_weights

    def states(own: Any) -> Any:
        def first_state(cell: Any, way: Any, inputs: Arrays, B: int, n: int) -> tuple[np.ndarray, ...]:
            parts = zip(cell.states, own(cell, way, inputs, B, n), strict=True)
            return tuple(part if f"{name}0" in inputs else np.full_like(part, value) for name, part in parts)

        return first_state

    return weights if of_biases else states


M(
    "absent-h0-ones",
    "ones for an absent initial state",
    layer(initial_state=False),
    patched((layered, "first_state", _filled(1.0, False))),
)
M(
    "absent-bias-ones",
    "ones for absent biases",
    layer(bias=False),
    patched((layered, "own_weights", _filled(1.0, True))),
)


# Padding


M("padding-ignored", "every step counted, padding too", padded, configured(padding=None))


def _counts_all(own: Any) -> Any:
    def forward(
        cell: Any, weights: Arrays, x: np.ndarray, state: Any, order: list[int], keep: np.ndarray
    ) -> tuple[np.ndarray, Any, Any]:
        return own(cell, weights, x, state, order, np.ones_like(keep))

    return forward


M(
    "padding-in-state",
    "y 0 in padding, and the state run on through it",
    layer(padding="lengths"),
    patched((layered, "forward", _counts_all)),
)


def _held(case: Case, base: Base) -> Arrays:
    """Lengths as the mask that they are."""
    config = {**case.config, "padding": "mask"}
    mask = layered.kept(case.config, case.inputs, *case.inputs["x"].shape[:2])
    return base(replace(case, config=config, inputs={**case.inputs, "mask": mask}))


M("padding-held", "y in padding the last state, not 0", layer(padding="lengths"), _held)


def _mask_of(case: Case) -> np.ndarray:
    return np.asarray(case.inputs["mask"][..., None])


M(
    "masked-y-zero",
    "y 0 where the mask is off",
    layer(padding="mask"),
    lambda case, base: altered(lambda c, found: {"y": np.where(_mask_of(c), found["y"], 0)})(
        replace(case, inputs={**case.inputs, "dy": np.where(_mask_of(case), case.inputs["dy"], 0)}), base
    ),
)


def _state_reset(own: Any) -> Any:
    """The state before a step times the mask, as by multiplying h by it."""

    def forward(
        cell: Any, weights: Arrays, x: np.ndarray, state: Any, order: list[int], keep: np.ndarray
    ) -> tuple[np.ndarray, Any, Any]:
        h, parts, tape = own(cell, weights, x, state, order[:1], keep)
        caches = list(tape.caches)
        for before, t in pairwise(order):
            parts = tuple(np.where(keep[before][:, None], part, 0) for part in parts)
            one, parts, tape = own(cell, weights, x, parts, [t], keep)
            h[t] = one[t]
            caches += tape.caches
        return h, parts, layered.Pass(caches, order, keep)

    return forward


M(
    "masked-state-zero",
    "the state set to 0 where the mask is off",
    layer(padding="mask"),
    patched((layered, "forward", _state_reset)),
)


def _turned(case: Case) -> Arrays:
    return {"mask": ~case.inputs["mask"]}


M("mask-inverted", "the mask taken for what is to be left out", layer(padding="mask"), fed(_turned))


def _right_aligned(own: Any) -> Any:
    return lambda config, inputs, T, B: own(config, inputs, T, B)[::-1]


M(
    "padding-first",
    "padding taken to be before each sequence",
    layer(padding="lengths"),
    patched((layered, "kept", _right_aligned)),
)


def _padding_gradient(case: Case, base: Base) -> Arrays:
    """dy in padding added to the gradient of the last state: forward right, backward as of `padding-held`."""
    found = base(case)
    return {name: a if name.startswith("d_") else found[name] for name, a in _held(case, base).items()}


M("padding-gradient", "dL/dy in padding counted, as of the last state", layer(padding="lengths"), _padding_gradient)


# Directions


two_ways = layer(bidirectional=True)


def _halves(array: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
    first, second = np.split(array, 2, axis)
    return first, second


def _exchanged(array: np.ndarray) -> np.ndarray:
    first, second = _halves(array, -1)
    return np.concatenate([second, first], axis=-1)


def _around_y(change: Callable[[np.ndarray], np.ndarray]) -> Callable[[Case, Base], Arrays]:
    """The last layer's y given otherwise, by an orthogonal change that is its own inverse, and dy read so."""

    def outputs(case: Case, base: Base) -> Arrays:
        found = base(replace(case, inputs={**case.inputs, "dy": change(case.inputs["dy"])}))
        return {**found, "y": change(found["y"])}

    return outputs


M("reverse-first", "the reverse direction's half of y before the other", two_ways, _around_y(_exchanged))


def _flipped(array: np.ndarray) -> np.ndarray:
    first, second = _halves(array, -1)
    return np.concatenate([first, second[::-1]], axis=-1)


M("reverse-not-turned-back", "the reverse direction's y in the order of its steps", two_ways, _around_y(_flipped))


def _forwards(own: Any) -> Any:
    return lambda way, keep: own(way._replace(reverse=False), keep)


M("reverse-forwards", "both directions run forwards", two_ways, patched((layered, "order_of", _forwards)))


def _reverse_counts_all(own: Any) -> Any:
    def forward(
        cell: Any, weights: Arrays, x: np.ndarray, state: Any, order: list[int], keep: np.ndarray
    ) -> tuple[np.ndarray, Any, Any]:
        return own(cell, weights, x, state, order, np.ones_like(keep) if order[0] else keep)

    return forward


M(
    "reverse-through-padding",
    "the reverse direction begun at the last step, in the padding",
    _both(two_ways, padded),
    patched((layered, "forward", _reverse_counts_all)),
)


def _same_weights(case: Case, base: Base) -> Arrays:
    other = {name: name.replace("_reverse.", ".") for name in case.inputs if "_reverse." in name}
    found = base(replace(case, inputs={**case.inputs, **{name: case.inputs[o] for name, o in other.items()}}))
    sums = {f"d_{o}": found[f"d_{o}"] + found[f"d_{name}"] for name, o in other.items()}
    return {**found, **sums, **{f"d_{name}": nothing(found[f"d_{name}"]) for name in other}}


M("directions-share-weights", "the weights of the first direction for both", two_ways, _same_weights)


def _last_of_y(case: Case, base: Base) -> Arrays:
    """The reverse direction's h_T read at the last step, which is its first; the gradient goes there too."""
    n = case.inputs["dh_T"].shape[2]
    dy, dh_T = case.inputs["dy"].copy(), case.inputs["dh_T"].copy()
    dy[-1, :, n:] += dh_T[-1]
    dh_T[-1] = 0
    found = base(replace(case, inputs={**case.inputs, "dy": dy, "dh_T": dh_T}))
    h_T = found["h_T"].copy()
    h_T[-1] = found["y"][-1, :, n:]
    return {**found, "h_T": h_T}


M(
    "reverse-last-step",
    "the reverse direction's last state taken from y at the last step, which is its first",
    two_ways,
    _last_of_y,
)


# Layers


two_layers = layer(layers=2)


def _same_states(case: Case, base: Base) -> Arrays:
    ways = 1 + case.config["bidirectional"]
    names = [name for name in ("h0", "c0") if name in case.inputs]
    first: Arrays = {name: np.concatenate([case.inputs[name][:ways]] * 2) for name in names}
    found = base(replace(case, inputs={**case.inputs, **first}))
    for name in names:
        gradient = found[f"d_{name}"]
        found[f"d_{name}"] = np.concatenate([gradient[:ways] + gradient[ways:], nothing(gradient[:ways])])
    return found


M("layers-share-h0", "the first layer's initial state for both", two_layers, _same_states)


def _top_detached(case: Case, base: Base) -> Arrays:
    """Nothing comes back to the first layer; its own input's gradient is what is left of it."""
    calls = []

    def make(own: Any) -> Any:
        def between(dx: np.ndarray) -> np.ndarray:
            calls.append(dx)
            return nothing(dx) if len(calls) == 1 else own(dx)

        return between

    return patched((layered, "between", make))(case, base)


M("layers-detached", "nothing carried back from the second layer to the first", two_layers, _top_detached)


def _by_direction(array: np.ndarray) -> np.ndarray:
    return array[[0, 2, 1, 3]]


def _direction_first(case: Case, base: Base) -> Arrays:
    """(L D, B, n) read and written as (D L, B, n)."""
    names = [name for name in case.inputs if name in ("h0", "c0", "dh_T", "dc_T")]
    found = base(replace(case, inputs={**case.inputs, **{name: _by_direction(case.inputs[name]) for name in names}}))
    return {n: _by_direction(a) if n in ("h_T", "c_T", "d_h0", "d_c0") else a for n, a in found.items()}


M("directions-before-layers", "states by direction, then layer", _both(two_layers, two_ways), _direction_first)
M(
    "last-state-of-first-layer",
    "the last states of the layers exchanged",
    two_layers,
    lambda case, base: altered(lambda c, found: {n: found[n][::-1] for n in ("h_T", "c_T") if n in found})(
        replace(
            case, inputs={**case.inputs, **{n: case.inputs[n][::-1] for n in ("dh_T", "dc_T") if n in case.inputs}}
        ),
        base,
    ),
)


# The layout


def _reshaped(a: np.ndarray) -> np.ndarray:
    return a.reshape((a.shape[1], a.shape[0], *a.shape[2:]))


def _by_reshape(case: Case, base: Base) -> Arrays:
    """(B, T, ...) made (T, B, ...) by reshape, which mixes the sequences."""
    names = [name for name in ("x", "dy", "mask") if name in case.inputs]
    own: Arrays = {name: _reshaped(case.inputs[name]) for name in names}
    found = base(replace(case, config={**case.config, "batch_first": False}, inputs={**case.inputs, **own}))
    return {name: _reshaped(a) if name in ("y", "d_x") else a for name, a in found.items()}


M("batch-first-by-reshape", "batch and time exchanged by a reshape", layer(batch_first=True), _by_reshape)


# A weight that is kept by a map


def kept(case: Case) -> bool:
    """Whether a weight is made of a map's parameters."""
    return case.kind == "layer" and case.config["parametrized"] is not None


def _adjoint(own: Any) -> Any:
    return lambda a: own(a).conj().T


def _transpose(own: Any) -> Any:
    return lambda a: own(a).T


M(
    "map-inverse",
    "U^-1 in place of the map's U, with its gradient",
    kept,
    patched((reference, "of_map", _adjoint), (reference, "to_map", _adjoint)),
)
M("map-gradient-transposed", "dL/dU handed to the map transposed", kept, patched((reference, "to_map", _transpose)))
M(
    "map-gradient-lost",
    "no gradient of the map's parameters",
    kept,
    altered(
        lambda case, found: {
            n: nothing(a)
            for n, a in found.items()
            if n.startswith(f"d_weights.layer0.{case.config['parametrized']['weight']}.")
        }
    ),
)


# Long and wide


def _windows(steps: int) -> Callable[[Case, Base], Arrays]:
    """Nothing comes back over the boundaries of windows of so many steps."""

    def make(own: Any) -> Any:
        def backward(cell: Any, weights: Arrays, tape: Any, dh: np.ndarray, d_last: Any) -> tuple[Any, Any, Arrays]:
            ends = list(range(0, len(tape.order), steps))
            total: Arrays = {}
            g, dx = d_last, np.zeros((*dh.shape[:2], weights_width(weights)))
            for start in reversed(ends):
                part = slice(start, start + steps)
                piece = layered.Pass(tape.caches[part], tape.order[part], tape.keep)
                d, g, dweights = own(cell, weights, piece, dh, g)
                dx[tape.order[part]] = d
                total = {name: total.get(name, 0) + a for name, a in dweights.items()}
                g = tuple(map(nothing, g)) if start else g
            return dx, g, total

        return backward

    return patched((layered, "backward", make))


def weights_width(weights: Arrays) -> int:
    """m, of a cell's weights."""
    return int(next(a.shape[1] for name, a in weights.items() if name.startswith("W")))


for steps in (64, 100, 256):
    M(
        f"windows-of-{steps}",
        f"nothing carried back over the boundaries of windows of {steps} steps",
        _long(steps),
        _windows(steps),
    )


def _tile(units: int) -> Callable[[np.ndarray], np.ndarray]:
    def change(U: np.ndarray) -> np.ndarray:
        return np.where(np.arange(U.shape[1]) < units, U, 0)

    return change


_RECURRENT = tuple(f"weights.layer{k}{way}.U*" for k in range(2) for way in ("", "_reverse"))
for units in (32, 64, 100):
    M(
        f"tile-of-{units}",
        f"units beyond the first {units} left out of U h",
        _wide(units),
        read_as(_tile(units), _tile(units), *_RECURRENT),
    )
M(
    "layer-weights-averaged-over-time",
    "gradients of weights averaged over time",
    layer(),
    scaled(lambda case: 1 / case.inputs["x"].shape[1 if case.config["batch_first"] else 0], "d_weights.*"),
)
