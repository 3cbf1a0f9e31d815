"""What goes wrong where a sequence begins in the middle of a row, between layers, and in the third of them."""

from dataclasses import replace
from typing import Any

import numpy as np

from ortho_ref.conformance.cases.case import Arrays, Case
from ortho_ref.conformance.mistakes.applies import layer
from ortho_ref.conformance.mistakes.layers import Back, Pass, layered, weights_width
from ortho_ref.conformance.mistakes.mistake import Base, Family, around, configured, fed, given, instead, patched, tied

MISTAKES = Family()
M, named = MISTAKES.add, MISTAKES.named


# Where a sequence begins

resets = layer(padding="resets")

M("resets-ignored", "the state carried on where a sequence begins", resets, configured(padding=None))


@named("resets-late", "the state set back after the marked step, not before it", resets, fed)
def _a_step_late(case: Case) -> Arrays:
    later = np.roll(case.inputs["resets"], 1, axis=0)
    later[0] = False
    return {"resets": later}


@named("resets-inverted", "the marks taken for where a sequence goes on", resets, fed)
def _resets_inverted(case: Case) -> Arrays:
    return {"resets": ~case.inputs["resets"]}


@named(
    "resets-h-alone",
    "c carried on where h is set back",
    layer(padding="resets", cell="lstm"),
    instead(layered, "begun"),
)
def _h_alone(own: Any, state: Any, step: np.ndarray) -> Any:
    return (*own(state, step)[:1], *state[1:])


@named(
    "resets-gradient",
    "the gradient carried back over the beginning of a sequence",
    resets,
    instead(layered, "backward"),
)
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
    first, dx = zero, np.zeros((*dh.shape[:2], weights_width(weights)))
    total = {name: np.zeros_like(a) for name, a in weights.items()}
    for t, cache in zip(reversed(tape.order), reversed(tape.caches), strict=True):
        d, g, own_weights = own(cell, weights, layered.Pass([cache], [t], np.ones_like(tape.keep)), dh, g)
        dx[t], total = d[0], {name: total[name] + a for name, a in own_weights.items()}
        first = tuple(a + b for a, b in zip(first, _begins(tape.keep[t], g, zero), strict=True))
        g = _begins(tape.keep[t], zero, g)
    return dx, tuple(a + b for a, b in zip(first, g, strict=True)), total


M(
    "resets-to-h0",
    "the initial state, not 0, where a sequence begins",
    resets,
    patched(around(layered, "forward", _from_h0), around(layered, "backward", _to_h0)),
)


# The third layer


@named("layers-share-weights", "the second layer's weights for the third too", layer(layers=3))
def _as_second(case: Case, base: Base) -> Arrays:
    return tied({n: n.replace("layer2", "layer1") for n in case.inputs if n.startswith("weights.layer2")})(case, base)


# Between layers

dropout = layer(dropout=True)


@named("dropout-ignored", "nothing dropped between the layers", dropout)
def _undropped(case: Case, base: Base) -> Arrays:
    return base(replace(case, inputs={name: a for name, a in case.inputs.items() if name != "dropout"}))


@named("dropout-on-output", "dropout on what the last layer gives, not between the layers", dropout)
def _on_the_output(case: Case, base: Base) -> Arrays:
    factors = case.inputs["dropout"][-1]
    found = _undropped(given(case, {"dy": case.inputs["dy"] * factors}), base)
    return {**found, "y": found["y"] * factors}


@named("dropout-gradient", "dropout left out on the way back", dropout)
def _upwards_alone(case: Case, base: Base) -> Arrays:
    calls = []

    def dropped(own: Any, y: np.ndarray, *rest: Any) -> np.ndarray:
        calls.append(y)
        return y if len(calls) >= case.config["layers"] else own(y, *rest)

    return instead(layered, "dropped")(dropped)(case, base)


@named("dropout-unscaled", "what is kept by dropout not scaled by 1 / (1 - p)", dropout, fed)
def _unscaled(case: Case) -> Arrays:
    return {"dropout": np.sign(case.inputs["dropout"])}
