"""What goes wrong around a cell: what is absent, padding, directions, layers, long and wide ones."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from ortho_ref.conformance.cases.case import Arrays, Case
from ortho_ref.conformance.mistakes.applies import layer
from ortho_ref.conformance.mistakes.mistake import (
    Base,
    Family,
    Outputs,
    Predicate,
    around,
    configured,
    fed,
    given,
    instead,
    negative,
    nothing,
    patched,
    read_as,
    reference,
    scaled,
    swapped,
    through,
    tied,
)
from ortho_ref.conformance.mistakes.private import private

layered = private("ortho_ref.conformance.cases.layered")

MISTAKES = Family()
M, named = MISTAKES.add, MISTAKES.named

Pass = tuple[np.ndarray, Any, Any]  # of `layered.forward`
Back = tuple[Any, Any, Arrays]  # of `layered.backward`

BIASES = ("weights.layer*.b", "weights.layer*.b_*")  # not FastRNN's beta


def _both(*predicates: Predicate) -> Predicate:
    return lambda case: all(applies(case) for applies in predicates)


def padded(case: Case) -> bool:
    """Whether not every step counts."""
    return case.kind == "layer" and case.config["padding"] in ("lengths", "mask")


# Cells that other kinds have no cases of

UGRNN, FASTGRNN = layer(cell="ugrnn"), layer(cell="fastgrnn")
GATE = tuple(f"weights.layer0.{kind}_g" for kind in "WUb")
ZETA, NU = "weights.layer0.zeta", "weights.layer0.nu"

M("ugrnn-gate-writes", "g the weight of the new content", UGRNN, read_as(negative, negative, *GATE))
M("fastgrnn-zeta-nu-exchanged", "zeta and nu exchanged", FASTGRNN, swapped(ZETA, NU))
M("fastgrnn-one-bias", "one bias for gate and content", FASTGRNN, tied({"weights.layer0.b_h": "weights.layer0.b_z"}))


@named("fastgrnn-raw", "|zeta| and |nu| as they stand, not through the sigmoid", FASTGRNN)
def _raw(case: Case, base: Base) -> Arrays:
    size = {name: np.abs(case.inputs[name]) for name in (ZETA, NU)}
    found = base(given(case, {name: np.log(a / (1 - a)) for name, a in size.items()}))
    return {**found, **{f"d_{name}": found[f"d_{name}"] / (a * (1 - a)) for name, a in size.items()}}


# What is absent

M(
    "bias-skipped-without-h0",
    "no bias where no initial state is given",
    layer(bias=True, initial_state=False),
    read_as(nothing, nothing, *BIASES),
)


def _bare(weights: Arrays) -> Arrays:
    return {**weights, "b_hh": nothing(weights["b_hh"])}


def _bare_first_step(own: Any, cell: Any, weights: Arrays, x: Any, state: Any, order: list[int], keep: Any) -> Pass:
    first, parts, tape = own(cell, _bare(weights), x, state, order[:1], keep)
    h, parts, rest = own(cell, weights, x, parts, order[1:], keep)
    h[order[0]] = first[order[0]]
    return h, parts, layered.Pass([*tape.caches, *rest.caches], order, keep)


def _part(tape: Any, steps: slice) -> Any:
    return layered.Pass(tape.caches[steps], tape.order[steps], tape.keep)


def _bare_backward(own: Any, cell: Any, weights: Arrays, tape: Any, dh: np.ndarray, d_last: Any) -> Back:
    first, rest = _part(tape, slice(0, 1)), _part(tape, slice(1, None))
    later, g, dweights = own(cell, weights, rest, dh, d_last)
    earlier, g, bare = own(cell, _bare(weights), first, dh, g)
    dx = np.zeros((*dh.shape[:2], weights_width(weights)))
    dx[rest.order], dx[first.order] = later, earlier
    return dx, g, {name: a + (0 if name == "b_hh" else bare[name]) for name, a in dweights.items()}


M(
    "b_hh-skipped-in-first-step",
    "no b_hh in the first step where no initial state is given (MLX before 0.31.2)",
    layer(recurrent_bias=True, bias=True, initial_state=False),
    patched(around(layered, "forward", _bare_first_step), around(layered, "backward", _bare_backward)),
)
M("layer-h0-ignored", "the initial state taken for 0", layer(initial_state=True), read_as(nothing, nothing, "h0", "c0"))


@named(
    "absent-h0-ones", "ones for an absent initial state", layer(initial_state=False), instead(layered, "first_state")
)
def _states_of_ones(own: Any, cell: Any, way: Any, inputs: Arrays, *rest: Any) -> tuple[np.ndarray, ...]:
    parts = zip(cell.states, own(cell, way, inputs, *rest), strict=True)
    return tuple(part if f"{name}0" in inputs else np.ones_like(part) for name, part in parts)


@named("absent-bias-ones", "ones for absent biases", layer(bias=False), instead(layered, "own_weights"))
def _biases_of_ones(own: Any, cell: Any, way: Any, inputs: Arrays, *rest: Any) -> Arrays:
    found: Arrays = own(cell, way, inputs, *rest)
    return {name: a if f"weights.{way.name}.{name}" in inputs else np.ones_like(a) for name, a in found.items()}


# Padding

BY_LENGTHS, BY_MASK = layer(padding="lengths"), layer(padding="mask")

M("padding-ignored", "every step counted, padding too", padded, configured(padding=None))
M(
    "padding-in-state",
    "y 0 in padding, and the state run on through it",
    BY_LENGTHS,
    instead(layered, "forward")(lambda own, *rest: own(*rest[:-1], np.ones_like(rest[-1]))),
)


@named("padding-held", "y in padding the last state, not 0", BY_LENGTHS)
def _held(case: Case, base: Base) -> Arrays:
    """Lengths as the mask that they are."""
    mask = layered.kept(case.config, case.inputs, *case.inputs["x"].shape[:2])
    return base(replace(given(case, {"mask": mask}), config={**case.config, "padding": "mask"}))


@named("masked-y-zero", "y 0 where the mask is off", BY_MASK)
def _y_masked(case: Case, base: Base) -> Arrays:
    on = case.inputs["mask"][..., None]
    found = base(given(case, {"dy": np.where(on, case.inputs["dy"], 0)}))
    return {**found, "y": np.where(on, found["y"], 0)}


@named("masked-state-zero", "the state set to 0 where the mask is off", BY_MASK, instead(layered, "forward"))
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


@named("mask-inverted", "the mask taken for what is to be left out", BY_MASK, fed)
def _mask_inverted(case: Case) -> Arrays:
    return {"mask": ~case.inputs["mask"]}


@named("padding-first", "padding taken to be before each sequence", BY_LENGTHS, instead(layered, "kept"))
def _right_aligned(own: Any, *rest: Any) -> Any:
    return own(*rest)[::-1]


@named("padding-gradient", "dL/dy in padding counted, as of the last state", BY_LENGTHS)
def _padding_gradient(case: Case, base: Base) -> Arrays:
    """Forward right, backward as of `padding-held`."""
    found = base(case)
    return {name: a if name.startswith("d_") else found[name] for name, a in _held(case, base).items()}


# Directions

two_ways = layer(bidirectional=True)


def _halves_exchanged(y: np.ndarray) -> np.ndarray:
    return np.roll(y, y.shape[-1] // 2, axis=-1)


def _second_half_reversed(y: np.ndarray) -> np.ndarray:
    first, second = np.split(y, 2, axis=-1)
    return np.concatenate([first, second[::-1]], axis=-1)


for name, says, change in (
    ("reverse-first", "the reverse direction's half of y before the other", _halves_exchanged),
    ("reverse-not-turned-back", "the reverse direction's y in the order of its steps", _second_half_reversed),
):
    M(name, says, two_ways, through(change, ("dy",), ("y",)))


@named("reverse-forwards", "both directions run forwards", two_ways, instead(layered, "order_of"))
def _never_reversed(own: Any, way: Any, keep: np.ndarray) -> Any:
    return own(way._replace(reverse=False), keep)


@named(
    "reverse-through-padding",
    "the reverse direction begun at the last step, in the padding",
    _both(two_ways, padded),
    instead(layered, "forward"),
)
def _reverse_counts_all(own: Any, cell: Any, weights: Any, x: Any, state: Any, order: list[int], keep: Any) -> Pass:
    return own(cell, weights, x, state, order, np.ones_like(keep) if order[0] else keep)


@named("directions-share-weights", "the weights of the first direction for both", two_ways)
def _same_weights(case: Case, base: Base) -> Arrays:
    return tied({n: n.replace("_reverse.", ".") for n in case.inputs if "_reverse." in n})(case, base)


@named(
    "reverse-last-step",
    "the reverse direction's last state taken from y at the last step, which is its first",
    two_ways,
)
def _last_of_y(case: Case, base: Base) -> Arrays:
    """Its gradient goes there too."""
    n = case.inputs["dh_T"].shape[2]
    dy, dh_T = case.inputs["dy"].copy(), case.inputs["dh_T"].copy()
    dy[-1, :, n:] += dh_T[-1]
    dh_T[-1] = 0
    found = base(given(case, {"dy": dy, "dh_T": dh_T}))
    return {**found, "h_T": np.concatenate([found["h_T"][:-1], found["y"][-1:, :, n:]])}


# Layers

two_layers = layer(layers=2)


@named("layers-share-h0", "the first layer's initial state for both", two_layers)
def _same_states(case: Case, base: Base) -> Arrays:
    ways = 1 + case.config["bidirectional"]
    names = [name for name in ("h0", "c0") if name in case.inputs]
    found = base(given(case, {name: np.concatenate([case.inputs[name][:ways]] * 2) for name in names}))
    for name in names:
        gradient = found[f"d_{name}"]
        found[f"d_{name}"] = np.concatenate([gradient[:ways] + gradient[ways:], nothing(gradient[:ways])])
    return found


@named("layers-detached", "nothing carried back from the second layer to the first", two_layers)
def _top_detached(case: Case, base: Base) -> Arrays:
    """The gradient of the first layer's own input is what is left of it."""
    calls = []

    def between(own: Any, dx: np.ndarray) -> np.ndarray:
        calls.append(dx)
        return nothing(dx) if len(calls) == 1 else own(dx)

    return instead(layered, "between")(between)(case, base)


D_LAST, LAST = ("dh_T", "dc_T"), ("h_T", "c_T")
BY_DIRECTION = through(lambda a: a[[0, 2, 1, 3]], ("h0", "c0", *D_LAST), ("d_h0", "d_c0", *LAST))
LAST_TURNED = through(lambda a: a[::-1], D_LAST, LAST)
M("directions-before-layers", "states by direction, then layer", _both(two_layers, two_ways), BY_DIRECTION)
M("last-state-of-first-layer", "the last states of the layers exchanged", two_layers, LAST_TURNED)


# The layout


def _reshaped(a: np.ndarray) -> np.ndarray:
    return a.reshape((a.shape[1], a.shape[0], *a.shape[2:]))


@named("batch-first-by-reshape", "batch and time exchanged by a reshape", layer(batch_first=True))
def _by_reshape(case: Case, base: Base) -> Arrays:
    """(B, T, ...) made (T, B, ...), which mixes the sequences."""
    time_first = replace(case, config={**case.config, "batch_first": False})
    return through(_reshaped, ("x", "dy", "mask"), ("y", "d_x"))(time_first, base)


# A weight that is kept by a map


def kept(case: Case) -> bool:
    """Whether a weight is made of a map's parameters."""
    return case.kind == "layer" and case.config["parametrized"] is not None


def _adjoint(own: Any, a: Any) -> Any:
    return own(a).conj().T


M(
    "map-inverse",
    "U^-1 in place of the map's U, with its gradient",
    kept,
    patched(around(reference, "of_map", _adjoint), around(reference, "to_map", _adjoint)),
)


@named("map-gradient-transposed", "dL/dU handed to the map transposed", kept, instead(reference, "to_map"))
def _transposed(own: Any, a: Any) -> Any:
    return own(a).T


@named("map-gradient-lost", "no gradient of the map's parameters", kept)
def _map_detached(case: Case, base: Base) -> Arrays:
    own = f"d_weights.layer0.{case.config['parametrized']['weight']}.*"
    return scaled(lambda case: 0.0, own)(case, base)


# Long and wide


def _long(length: int) -> Predicate:
    return lambda case: case.kind == "layer" and len(case.inputs["x"]) > length


def weights_width(weights: Arrays) -> int:
    """m, of a cell's weights."""
    return int(next(a.shape[1] for name, a in weights.items() if name.startswith("W")))


def _windows(steps: int) -> Outputs:
    """Nothing comes back over the boundaries of windows of so many steps."""

    def backward(own: Any, cell: Any, weights: Arrays, tape: Any, dh: np.ndarray, d_last: Any) -> Back:
        total: Arrays = {}
        g, dx = d_last, np.zeros((*dh.shape[:2], weights_width(weights)))
        for start in reversed(range(0, len(tape.order), steps)):
            piece = _part(tape, slice(start, start + steps))
            dx[piece.order], g, dweights = own(cell, weights, piece, dh, g)
            total = {name: total.get(name, 0) + a for name, a in dweights.items()}
            g = tuple(map(nothing, g)) if start else g
        return dx, g, total

    return instead(layered, "backward")(backward)


for steps in (64, 100, 256):
    M(
        f"windows-of-{steps}",
        f"nothing carried back over the boundaries of windows of {steps} steps",
        _long(steps),
        _windows(steps),
    )


def _wide(units: int) -> Predicate:
    return _both(layer(parametrized=None), lambda case: case.inputs["dh_T"].shape[2] > units)


def _tile(units: int) -> Outputs:
    def change(U: np.ndarray) -> np.ndarray:
        return np.where(np.arange(U.shape[1]) < units, U, 0)

    return read_as(change, change, "weights.layer*.U*")


for units in (32, 64, 100):
    M(f"tile-of-{units}", f"units beyond the first {units} left out of U h", _wide(units), _tile(units))
M(
    "layer-weights-averaged-over-time",
    "gradients of weights averaged over time",
    layer(),
    scaled(lambda case: 1 / case.inputs["x"].shape[1 if case.config["batch_first"] else 0], "d_weights.*"),
)
