"""What goes wrong around a cell: what is absent, padding, directions, layers, resets, long and wide ones."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from ortho_ref.conformance.cases.case import Arrays, Case
from ortho_ref.conformance.mistakes.applies import both, layer
from ortho_ref.conformance.mistakes.mistake import (
    Base,
    Outputs,
    Patched,
    Predicate,
    around,
    configured,
    fed,
    given,
    instead,
    negative,
    nothing,
    read_as,
    reference,
    scaled,
    swapped,
    table,
    through,
    tied,
)
from ortho_ref.conformance.mistakes.private import private

layered = private("ortho_ref.conformance.cases.layered")

Pass = tuple[np.ndarray, Any, Any]  # of `layered.forward`
Back = tuple[Any, Any, Arrays]  # of `layered.backward`

BIASES = ("weights.layer*.b", "weights.layer*.b_*")  # not FastRNN's beta
_forward, _backward = instead(layered, "forward"), instead(layered, "backward")


# Cells that other kinds have no cases of

UGRNN, FASTGRNN = layer(cell="ugrnn"), layer(cell="fastgrnn")
GATE = tuple(f"weights.layer0.{kind}_g" for kind in "WUb")
ZETA, NU = "weights.layer0.zeta", "weights.layer0.nu"


def _raw(case: Case, base: Base) -> Arrays:
    size = {name: np.abs(case.inputs[name]) for name in (ZETA, NU)}
    found = base(given(case, {name: np.log(a / (1 - a)) for name, a in size.items()}))
    return {**found, **{f"d_{name}": found[f"d_{name}"] / (a * (1 - a)) for name, a in size.items()}}


# What is absent


def _bare(weights: Arrays) -> Arrays:
    return {**weights, "b_hh": nothing(weights["b_hh"])}


def _bare_first_step(own: Any, cell: Any, weights: Arrays, x: Any, state: Any, order: list[int], keep: Any) -> Pass:
    first, parts, tape = own(cell, _bare(weights), x, state, order[:1], keep)
    h, parts, rest = own(cell, weights, x, parts, order[1:], keep)
    h[order[0]] = first[order[0]]
    return h, parts, layered.Pass([*tape.caches, *rest.caches], order, keep)


def _part(tape: Any, steps: slice) -> Any:
    return layered.Pass(tape.caches[steps], tape.order[steps], tape.keep)


def _no_dx(weights: Arrays, dh: np.ndarray) -> np.ndarray:
    """Zeros of the shape of dx, (T, B, m)."""
    m = next(a.shape[1] for name, a in weights.items() if name.startswith("W"))
    return np.zeros((*dh.shape[:2], m))


def _bare_backward(own: Any, cell: Any, weights: Arrays, tape: Any, dh: np.ndarray, d_last: Any) -> Back:
    first, rest = _part(tape, slice(0, 1)), _part(tape, slice(1, None))
    later, g, dweights = own(cell, weights, rest, dh, d_last)
    earlier, g, bare = own(cell, _bare(weights), first, dh, g)
    dx = _no_dx(weights, dh)
    dx[rest.order], dx[first.order] = later, earlier
    return dx, g, {name: a + (0 if name == "b_hh" else bare[name]) for name, a in dweights.items()}


def _states_of_ones(own: Any, cell: Any, way: Any, inputs: Arrays, *rest: Any) -> tuple[np.ndarray, ...]:
    parts = zip(cell.states, own(cell, way, inputs, *rest), strict=True)
    return tuple(part if f"{name}0" in inputs else np.ones_like(part) for name, part in parts)


def _biases_of_ones(own: Any, cell: Any, way: Any, inputs: Arrays, *rest: Any) -> Arrays:
    found: Arrays = own(cell, way, inputs, *rest)
    return {name: a if f"weights.{way.name}.{name}" in inputs else np.ones_like(a) for name, a in found.items()}


# Padding


def _held(case: Case, base: Base) -> Arrays:
    """Lengths as the mask that they are."""
    mask = layered.kept(case.config, case.inputs, *case.inputs["x"].shape[:2])
    return base(replace(given(case, {"mask": mask}), config={**case.config, "padding": "mask"}))


def _y_masked(case: Case, base: Base) -> Arrays:
    on = case.inputs["mask"][..., None]
    found = base(given(case, {"dy": np.where(on, case.inputs["dy"], 0)}))
    return {**found, "y": np.where(on, found["y"], 0)}


def _state_reset(own: Any, cell: Any, weights: Arrays, x: Any, state: Any, order: list[int], keep: Any) -> Pass:
    """As by multiplying h by the mask."""
    h, parts, tape = own(cell, weights, x, state, order[:1], keep)
    caches = list(tape.caches)
    for before, t in pairwise(order):
        parts = tuple(np.where(keep[before][:, None], part, 0) for part in parts)
        one, parts, tape = own(cell, weights, x, parts, [t], keep)
        h[t] = one[t]
        caches += tape.caches
    return h, parts, layered.Pass(caches, order, keep)


def _padding_gradient(case: Case, base: Base) -> Arrays:
    """Forward right, backward as of `padding-held`."""
    found = base(case)
    return {name: a if name.startswith("d_") else found[name] for name, a in _held(case, base).items()}


# Directions


def _second_half_reversed(y: np.ndarray) -> np.ndarray:
    first, second = np.split(y, 2, axis=-1)
    return np.concatenate([first, second[::-1]], axis=-1)


def _reverse_counts_all(own: Any, cell: Any, weights: Any, x: Any, state: Any, order: list[int], keep: Any) -> Pass:
    return own(cell, weights, x, state, order, np.ones_like(keep) if order[0] else keep)


def _shared(part: str, instead_of: str) -> Outputs:
    """Weights whose names have this part are those of the names that have the other in its place."""
    return lambda case, base: tied({n: n.replace(part, instead_of) for n in case.inputs if part in n})(case, base)


def _last_of_y(case: Case, base: Base) -> Arrays:
    """Its gradient goes there too."""
    n = case.inputs["dh_T"].shape[2]
    dy, dh_T = case.inputs["dy"].copy(), case.inputs["dh_T"].copy()
    dy[-1, :, n:] += dh_T[-1]
    dh_T[-1] = 0
    found = base(given(case, {"dy": dy, "dh_T": dh_T}))
    return {**found, "h_T": np.concatenate([found["h_T"][:-1], found["y"][-1:, :, n:]])}


# Layers


def _same_states(case: Case, base: Base) -> Arrays:
    ways = 1 + case.config["bidirectional"]
    names = [name for name in ("h0", "c0") if name in case.inputs]
    found = base(given(case, {name: np.concatenate([case.inputs[name][:ways]] * 2) for name in names}))
    for name in names:
        gradient = found[f"d_{name}"]
        found[f"d_{name}"] = np.concatenate([gradient[:ways] + gradient[ways:], nothing(gradient[:ways])])
    return found


def _top_detached(case: Case, base: Base) -> Arrays:
    """The gradient of the first layer's own input is what is left of it."""
    calls = []

    def between(own: Any, dx: np.ndarray) -> np.ndarray:
        calls.append(dx)
        return nothing(dx) if len(calls) == 1 else own(dx)

    return instead(layered, "between")(between)(case, base)


D_LAST, LAST = ("dh_T", "dc_T"), ("h_T", "c_T")
BY_DIRECTION = through(lambda a: a[[0, 2, 1, 3]], ("h0", "c0", *D_LAST), ("d_h0", "d_c0", *LAST))


def _by_reshape(case: Case, base: Base) -> Arrays:
    """(B, T, ...) made (T, B, ...), which mixes the sequences."""

    def reshaped(a: np.ndarray) -> np.ndarray:
        return a.reshape((a.shape[1], a.shape[0], *a.shape[2:]))

    time_first = replace(case, config={**case.config, "batch_first": False})
    return through(reshaped, ("x", "dy", "mask"), ("y", "d_x"))(time_first, base)


# A weight that is kept by a map


def _map_detached(case: Case, base: Base) -> Arrays:
    own = f"d_weights.layer0.{case.config['parametrized']['weight']}.*"
    return scaled(lambda case: 0.0, own)(case, base)


def _D_left(case: Case, base: Base) -> Arrays:
    """D C(A) = C(D A D) D: as D on the right, of D A D."""
    kept = case.config["parametrized"]
    name = f"weights.layer0.{kept['weight']}.A"
    D = reference.signs(len(case.inputs[name]), kept["negative_ones"], np.float64)
    return read_as(lambda A: D[:, None] * A * D, name)(case, base)


# Long and wide


def _long(length: int) -> Predicate:
    return both(layer(), lambda case: len(case.inputs["x"]) > length)


def _windows(steps: int) -> Outputs:
    """Nothing comes back over the boundaries of windows of so many steps."""

    def backward(own: Any, cell: Any, weights: Arrays, tape: Any, dh: np.ndarray, d_last: Any) -> Back:
        total: Arrays = {}
        g, dx = d_last, _no_dx(weights, dh)
        for start in reversed(range(0, len(tape.order), steps)):
            piece = _part(tape, slice(start, start + steps))
            dx[piece.order], g, dweights = own(cell, weights, piece, dh, g)
            total = {name: total.get(name, 0) + a for name, a in dweights.items()}
            g = tuple(map(nothing, g)) if start else g
        return dx, g, total

    return _backward(backward)


def _wide(units: int) -> Predicate:
    return both(layer(parametrized=None), lambda case: case.inputs["dh_T"].shape[2] > units)


def _tile(units: int) -> Outputs:
    def change(U: np.ndarray) -> np.ndarray:
        return np.where(np.arange(U.shape[1]) < units, U, 0)

    return read_as(change, "weights.layer*.U*")


def _per_step(case: Case) -> float:
    return float(1 / case.inputs["x"].shape[1 if case.config["batch_first"] else 0])


# Where a sequence begins


def _a_step_late(case: Case) -> Arrays:
    later = np.roll(case.inputs["resets"], 1, axis=0)
    later[0] = False
    return {"resets": later}


def _carried_back(own: Any, cell: Any, weights: Arrays, tape: Any, *upstream: Any) -> Back:
    return own(cell, weights, tape._replace(keep=np.minimum(tape.keep, layered.COUNTS)), *upstream)


def _begins(step: np.ndarray, state: Any, otherwise: Any) -> Any:
    return tuple(np.where(step[:, None] == layered.ANEW, a, b) for a, b in zip(state, otherwise, strict=True))


def _from_h0(own: Any, cell: Any, weights: Arrays, x: Any, state: Any, order: list[int], keep: Any) -> Pass:
    h, caches, parts = np.empty((*keep.shape, state[0].shape[1])), [], state
    for t in order:
        one, parts, tape = own(cell, weights, x, _begins(keep[t], state, parts), [t], np.ones_like(keep))
        h[t] = one[t]
        caches += tape.caches
    return h, parts, layered.Pass(caches, order, keep)


def _to_h0(own: Any, cell: Any, weights: Arrays, tape: Any, dh: np.ndarray, d_last: Any) -> Back:
    g, zero = d_last, tuple(map(np.zeros_like, d_last))
    first, dx = zero, _no_dx(weights, dh)
    total = {name: np.zeros_like(a) for name, a in weights.items()}
    for t, cache in zip(reversed(tape.order), reversed(tape.caches), strict=True):
        d, g, own_weights = own(cell, weights, layered.Pass([cache], [t], np.ones_like(tape.keep)), dh, g)
        dx[t], total = d[0], {name: total[name] + a for name, a in own_weights.items()}
        first = tuple(a + b for a, b in zip(first, _begins(tape.keep[t], g, zero), strict=True))
        g = _begins(tape.keep[t], zero, g)
    return dx, tuple(a + b for a, b in zip(first, g, strict=True)), total


# Between layers


def _undropped(case: Case, base: Base) -> Arrays:
    return base(replace(case, inputs={name: a for name, a in case.inputs.items() if name != "dropout"}))


def _on_the_output(case: Case, base: Base) -> Arrays:
    factors = case.inputs["dropout"][-1]
    found = _undropped(given(case, {"dy": case.inputs["dy"] * factors}), base)
    return {**found, "y": found["y"] * factors}


def _upwards_alone(case: Case, base: Base) -> Arrays:
    calls = []

    def dropped(own: Any, y: np.ndarray, *rest: Any) -> np.ndarray:
        calls.append(y)
        return y if len(calls) >= case.config["layers"] else own(y, *rest)

    return instead(layered, "dropped")(dropped)(case, base)


BY_LENGTHS, BY_MASK = layer(padding="lengths"), layer(padding="mask")
padded = both(layer(), lambda case: case.config["padding"] in ("lengths", "mask"))
two_ways, two_layers = layer(bidirectional=True), layer(layers=2)
kept = both(layer(), lambda case: case.config["parametrized"] is not None)
resets, dropout = layer(padding="resets"), layer(dropout=True)

by_cayley = both(kept, lambda case: case.config["parametrized"]["parametrization"] == "scaled_cayley")

MISTAKES = table(
    ("ugrnn-gate-writes", "g the weight of the new content", UGRNN, read_as(negative, *GATE)),
    ("fastgrnn-zeta-nu-exchanged", "zeta and nu exchanged", FASTGRNN, swapped(ZETA, NU)),
    ("fastgrnn-one-bias", "one bias for gate and content",
     FASTGRNN, tied({"weights.layer0.b_h": "weights.layer0.b_z"})),
    ("fastgrnn-raw", "|zeta| and |nu| as they stand, not through the sigmoid", FASTGRNN, _raw),
    ("bias-skipped-without-h0", "no bias where no initial state is given",
     layer(bias=True, initial_state=False), read_as(nothing, *BIASES)),
    ("b_hh-skipped-in-first-step", "no b_hh in the first step where no initial state is given (MLX before 0.31.2)",
     layer(recurrent_bias=True, bias=True, initial_state=False),
     Patched(around(layered, "forward", _bare_first_step), around(layered, "backward", _bare_backward))),
    ("layer-h0-ignored", "the initial state taken for 0", layer(initial_state=True), read_as(nothing, "h0", "c0")),
    ("absent-h0-ones", "ones for an absent initial state",
     layer(initial_state=False), instead(layered, "first_state")(_states_of_ones)),
    ("absent-bias-ones", "ones for absent biases", layer(bias=False), instead(layered, "own_weights")(_biases_of_ones)),
    ("padding-ignored", "every step counted, padding too", padded, configured(padding=None)),
    ("padding-in-state", "y 0 in padding, and the state run on through it",
     BY_LENGTHS, _forward(lambda own, *rest: own(*rest[:-1], np.ones_like(rest[-1])))),
    ("padding-held", "y in padding the last state, not 0", BY_LENGTHS, _held),
    ("masked-y-zero", "y 0 where the mask is off", BY_MASK, _y_masked),
    ("masked-state-zero", "the state set to 0 where the mask is off", BY_MASK, _forward(_state_reset)),
    ("mask-inverted", "the mask taken for what is to be left out",
     BY_MASK, fed(lambda case: {"mask": ~case.inputs["mask"]})),
    ("padding-first", "padding taken to be before each sequence",
     BY_LENGTHS, instead(layered, "kept")(lambda own, *rest: own(*rest)[::-1])),
    ("padding-gradient", "dL/dy in padding counted, as of the last state", BY_LENGTHS, _padding_gradient),
    ("reverse-first", "the reverse direction's half of y before the other",
     two_ways, through(lambda y: np.roll(y, y.shape[-1] // 2, axis=-1), ("dy",), ("y",))),
    ("reverse-not-turned-back", "the reverse direction's y in the order of its steps",
     two_ways, through(_second_half_reversed, ("dy",), ("y",))),
    ("reverse-forwards", "both directions run forwards",
     two_ways, instead(layered, "order_of")(lambda own, way, keep: own(way._replace(reverse=False), keep))),
    ("reverse-through-padding", "the reverse direction begun at the last step, in the padding",
     both(two_ways, padded), _forward(_reverse_counts_all)),
    ("directions-share-weights", "the weights of the first direction for both", two_ways, _shared("_reverse.", ".")),
    ("reverse-last-step", "the reverse direction's last state taken from y at the last step, which is its first",
     two_ways, _last_of_y),
    ("layers-share-h0", "the first layer's initial state for both", two_layers, _same_states),
    ("layers-detached", "nothing carried back from the second layer to the first", two_layers, _top_detached),
    ("directions-before-layers", "states by direction, then layer", both(two_layers, two_ways), BY_DIRECTION),
    ("last-state-of-first-layer", "the last states of the layers exchanged",
     two_layers, through(lambda a: a[::-1], D_LAST, LAST)),
    ("batch-first-by-reshape", "batch and time exchanged by a reshape", layer(batch_first=True), _by_reshape),
    ("map-inverse", "U^-1 in place of the map's U, with its gradient",
     kept, Patched(*(around(reference, way, lambda own, a: own(a).conj().T) for way in ("of_map", "to_map")))),
    ("map-gradient-transposed", "dL/dU handed to the map transposed",
     kept, instead(reference, "to_map")(lambda own, a: own(a).T)),
    ("map-gradient-lost", "no gradient of the map's parameters", kept, _map_detached),
    ("layer-D-left", "D on the left, D (I + A)^-1 (I - A)", by_cayley, _D_left),
    ("layer-A-negative", "(I - A)^-1 (I + A) D", by_cayley, read_as(negative, "weights.layer0.*.A")),
    *((f"windows-of-{steps}", f"nothing carried back over the boundaries of windows of {steps} steps",
       _long(steps), _windows(steps)) for steps in (64, 100, 256)),
    *((f"tile-of-{units}", f"units beyond the first {units} left out of U h", _wide(units), _tile(units))
      for units in (32, 64, 100)),
    ("layer-weights-averaged-over-time", "gradients of weights averaged over time",
     layer(), scaled(_per_step, "d_weights.*")),
    ("resets-ignored", "the state carried on where a sequence begins", resets, configured(padding=None)),
    ("resets-late", "the state set back after the marked step, not before it", resets, fed(_a_step_late)),
    ("resets-inverted", "the marks taken for where a sequence goes on",
     resets, fed(lambda case: {"resets": ~case.inputs["resets"]})),
    ("resets-h-alone", "c carried on where h is set back", layer(padding="resets", cell="lstm"),
     instead(layered, "begun")(lambda own, state, step: (*own(state, step)[:1], *state[1:]))),
    ("resets-gradient", "the gradient carried back over the beginning of a sequence", resets, _backward(_carried_back)),
    ("resets-to-h0", "the initial state, not 0, where a sequence begins",
     resets, Patched(around(layered, "forward", _from_h0), around(layered, "backward", _to_h0))),
    ("layers-share-weights", "the second layer's weights for the third too",
     layer(layers=3), _shared("weights.layer2", "weights.layer1")),
    ("dropout-ignored", "nothing dropped between the layers", dropout, _undropped),
    ("dropout-on-output", "dropout on what the last layer gives, not between the layers", dropout, _on_the_output),
    ("dropout-gradient", "dropout left out on the way back", dropout, _upwards_alone),
    ("dropout-unscaled", "what is kept by dropout not scaled by 1 / (1 - p)",
     dropout, fed(lambda case: {"dropout": np.sign(case.inputs["dropout"])})),
)  # fmt: skip
