"""What goes wrong around a cell: what is absent, padding, directions, layers, resets, long and wide ones."""

from itertools import count, pairwise
from typing import Any

import numpy as np

from ortho_ref.conformance.cases.case import Arrays, Case
from ortho_ref.conformance.mistakes.applies import both, layer
from ortho_ref.conformance.mistakes.cayley import by_D
from ortho_ref.conformance.mistakes.changes import late, negative, nothing
from ortho_ref.conformance.mistakes.gates import BIASES, flipped
from ortho_ref.conformance.mistakes.mistake import (
    Base,
    Outputs,
    Predicate,
    by_case,
    chained,
    given,
    reference,
    table,
    without,
)
from ortho_ref.conformance.mistakes.patched import Patched, around, instead, replaced
from ortho_ref.conformance.mistakes.private import private
from ortho_ref.conformance.mistakes.through_time import by_place, windows
from ortho_ref.conformance.mistakes.ways import configured, fed, read_as, read_through, scaled, swapped, through, tied

layered = private("ortho_ref.conformance.cases.layered")

Pass = tuple[np.ndarray, Any, Any]  # of `layered.forward`
Back = tuple[Any, Any, Arrays]  # of `layered.backward`

_forward, _backward = instead(layered, "forward"), instead(layered, "backward")


# Cells that other kinds have no cases of

UGRNN, FASTGRNN = layer(cell="ugrnn"), layer(cell="fastgrnn")
ZETA, NU = "weights.layer0.zeta", "weights.layer0.nu"


def _logit(a: np.ndarray) -> np.ndarray:
    """Of its size, which the sigmoid then makes of it."""
    return np.log(abs(a) / (1 - abs(a)))


def _logit_derivative(a: np.ndarray) -> np.ndarray:
    return 1 / (abs(a) * (1 - abs(a)))


# What is absent


def _bare(place: int, right: Any, cell: Any, weights: Arrays, *rest: Any) -> Any:
    """The first step without b_hh."""
    return right(cell, weights if place else {**weights, "b_hh": nothing(weights["b_hh"])}, *rest)


def _bare_backward(place: int, *arguments: Any) -> Any:
    dx, dh_prev, dweights = _bare(place, *arguments)
    return dx, dh_prev, dweights if place else {**dweights, "b_hh": nothing(dweights["b_hh"])}


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
    return base(given(case, {"mask": mask}, padding="mask"))


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
    return by_case(lambda case: tied({n: n.replace(part, instead_of) for n in case.inputs if part in n}))


def _last_of_y(case: Case, base: Base) -> Arrays:
    """Its gradient goes there too."""
    n = case.inputs["dh_T"].shape[2]
    dy, dh_T = case.inputs["dy"].copy(), case.inputs["dh_T"].copy()
    dy[-1, :, n:] += dh_T[-1]
    dh_T[-1] = 0
    found = base(given(case, {"dy": dy, "dh_T": dh_T}))
    return {**found, "h_T": np.concatenate([found["h_T"][:-1], found["y"][-1:, :, n:]])}


# Layers


def _first_for_both(states: np.ndarray) -> np.ndarray:
    return np.concatenate(np.split(states, 2)[:1] * 2)


def _to_the_first(gradient: np.ndarray) -> np.ndarray:
    first, second = np.split(gradient, 2)
    return np.concatenate([first + second, nothing(second)])


def _top_detached(case: Case, base: Base) -> Arrays:
    """The gradient of the first layer's own input is what is left of it."""
    first = iter([nothing])
    return instead(layered, "between")(lambda own, dx: next(first, own)(dx))(case, base)


D_LAST, LAST = ("dh_T", "dc_T"), ("h_T", "c_T")
BY_DIRECTION = through(lambda a: a[[0, 2, 1, 3]], ("h0", "c0", *D_LAST), ("d_h0", "d_c0", *LAST))


def _reshaped(a: np.ndarray) -> np.ndarray:
    """(B, T, ...) made (T, B, ...), which mixes the sequences; and the other way round."""
    return a.reshape((a.shape[1], a.shape[0], *a.shape[2:]))


# Long and wide


def _long(length: int) -> Predicate:
    return both(layer(padding=None), lambda case: len(case.inputs["x"]) > length)


def _wide(units: int) -> Predicate:
    return both(layer(parametrized=None), lambda case: case.inputs["dh_T"].shape[2] > units)


def _tile(units: int) -> Outputs:
    return read_as(lambda U: np.where(np.arange(U.shape[1]) < units, U, 0), "weights.layer*.U*")


# Where a sequence begins


def _carried_back(own: Any, cell: Any, weights: Arrays, tape: Any, *upstream: Any) -> Back:
    return own(cell, weights, tape._replace(keep=np.minimum(tape.keep, layered.COUNTS)), *upstream)


def _from_h0(own: Any, cell: Any, weights: Arrays, x: Any, h0: Any, *rest: Any) -> Pass:
    def begun(right: Any, state: Any, step: np.ndarray) -> Any:
        return tuple(np.where(step[:, None] == layered.ANEW, a, b) for a, b in zip(h0, state, strict=True))

    with replaced(around(layered, "begun", begun)):
        return own(cell, weights, x, h0, *rest)


def _to_h0(own: Any, *arguments: Any) -> Back:
    """What does not go to the state before goes to h0."""
    lost = []

    def begun(right: Any, state: Any, step: np.ndarray) -> Any:
        carried = right(state, step)
        lost.append([a - b for a, b in zip(state, carried, strict=True)])
        return carried

    with replaced(around(layered, "begun", begun)):
        dx, g, dweights = own(*arguments)
    return dx, tuple(map(sum, zip(g, *lost, strict=True))), dweights


# Between layers


def _undropped(case: Case, base: Base) -> Arrays:
    return base(without(case, "dropout"))


def _upwards_alone(case: Case, base: Base) -> Arrays:
    calls = count(1)

    def dropped(own: Any, y: np.ndarray, *rest: Any) -> np.ndarray:
        return own(y, *rest) if next(calls) < case.config["layers"] else y

    return instead(layered, "dropped")(dropped)(case, base)


BY_LENGTHS, BY_MASK = layer(padding="lengths"), layer(padding="mask")
padded = both(layer(), lambda case: case.config["padding"] in ("lengths", "mask"))
two_ways, two_layers = layer(bidirectional=True), layer(layers=2)
kept = both(layer(), lambda case: case.config["parametrized"] is not None)
resets, dropout = layer(padding="resets"), layer(dropout=True)

by_cayley = both(kept, lambda case: case.config["parametrized"]["parametrization"] == "scaled_cayley")

MISTAKES = table(
    ("ugrnn-gate-writes", "g the weight of the new content", UGRNN, flipped("g")),
    ("fastgrnn-zeta-nu-exchanged", "zeta and nu exchanged", FASTGRNN, swapped(ZETA, NU)),
    ("fastgrnn-one-bias", "one bias for gate and content",
     FASTGRNN, tied({"weights.layer0.b_h": "weights.layer0.b_z"})),
    ("fastgrnn-raw", "|zeta| and |nu| as they stand, not through the sigmoid", FASTGRNN,
     read_through(_logit, _logit_derivative, ZETA, NU)),
    ("bias-skipped-without-h0", "no bias where no initial state is given",
     layer(bias=True, initial_state=False), read_as(nothing, *BIASES)),
    ("b_hh-skipped-in-first-step", "no b_hh in the first step where no initial state is given (MLX before 0.31.2)",
     layer(recurrent_bias=True, bias=True, initial_state=False),
     Patched(around(layered, "forward", by_place("step_forward", _bare)),
             around(layered, "backward", by_place("step_backward", _bare_backward)))),
    ("layer-h0-ignored", "the initial state taken for 0", layer(initial_state=True), read_as(nothing, "h0", "c0")),
    ("absent-h0-ones", "ones for an absent initial state",
     layer(initial_state=False), instead(layered, "first_state")(_states_of_ones)),
    ("absent-bias-ones", "ones for absent biases", layer(bias=False), instead(layered, "own_weights")(_biases_of_ones)),
    ("padding-ignored", "every step counted, padding too", padded, configured(padding=None)),
    ("padding-in-state", "y 0 in padding, and the state run on through it",
     BY_LENGTHS, _forward(lambda own, *rest: own(*rest[:-1], np.ones_like(rest[-1])))),
    ("padding-held", "y in padding the last state, not 0", BY_LENGTHS, _held),
    ("masked-y-zero", "y 0 where the mask is off", BY_MASK,
     by_case(lambda case: through(lambda y: np.where(case.inputs["mask"][..., None], y, 0), ("dy",), ("y",)))),
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
    ("layers-share-h0", "the first layer's initial state for both", two_layers,
     read_as(_first_for_both, "h0", "c0", adjoint=_to_the_first)),
    ("layers-detached", "nothing carried back from the second layer to the first", two_layers, _top_detached),
    ("directions-before-layers", "states by direction, then layer", both(two_layers, two_ways), BY_DIRECTION),
    ("last-state-of-first-layer", "the last states of the layers exchanged",
     two_layers, through(lambda a: a[::-1], D_LAST, LAST)),
    ("batch-first-by-reshape", "batch and time exchanged by a reshape", layer(batch_first=True),
     chained(configured(batch_first=False), through(_reshaped, ("x", "dy", "mask"), ("y", "d_x")))),
    ("map-inverse", "U^-1 in place of the map's U, with its gradient",
     kept, Patched(*(around(reference, way, lambda own, a: own(a).conj().T) for way in ("of_map", "to_map")))),
    ("map-gradient-transposed", "dL/dU handed to the map transposed",
     kept, instead(reference, "to_map")(lambda own, a: own(a).T)),
    ("map-gradient-lost", "no gradient of the map's parameters", kept, scaled(0.0, "d_weights.layer0.*.*")),
    ("layer-D-left", "D on the left, D (I + A)^-1 (I - A)", by_cayley,
     by_case(lambda case: read_as(lambda M: by_D(M, case.config["parametrized"]), "weights.layer0.*.A"))),
    ("layer-A-negative", "(I - A)^-1 (I + A) D", by_cayley, read_as(negative, "weights.layer0.*.A")),
    *((f"windows-of-{steps}", f"nothing carried back over the boundaries of windows of {steps} steps",
       _long(steps), windows(steps, layered, "backward")) for steps in (64, 100, 256)),
    *((f"tile-of-{units}", f"units beyond the first {units} left out of U h", _wide(units), _tile(units))
      for units in (32, 64, 100)),
    ("layer-weights-averaged-over-time", "gradients of weights averaged over time",
     layer(), scaled(lambda case: 1 / case.inputs["x"].shape[case.config["batch_first"]], "d_weights.*")),
    ("resets-ignored", "the state carried on where a sequence begins", resets, configured(padding=None)),
    ("resets-late", "the state set back after the marked step, not before it", resets, read_as(late, "resets")),
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
    ("dropout-on-output", "dropout on what the last layer gives, not between the layers", dropout, chained(
         by_case(lambda case: through(lambda y: y * case.inputs["dropout"][-1], ("dy",), ("y",))), _undropped)),
    ("dropout-gradient", "dropout left out on the way back", dropout, _upwards_alone),
    ("dropout-unscaled", "what is kept by dropout not scaled by 1 / (1 - p)",
     dropout, fed(lambda case: {"dropout": np.sign(case.inputs["dropout"])})),
)  # fmt: skip
