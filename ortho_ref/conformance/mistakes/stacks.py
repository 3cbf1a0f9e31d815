"""What goes wrong where a sequence begins in the middle of a row, between layers, and in the third of them."""

from dataclasses import replace
from typing import Any

import numpy as np

from ortho_ref.conformance.case import Arrays, Case
from ortho_ref.conformance.mistake import Base, Family, configured, fed, nothing, patched
from ortho_ref.conformance.mistakes.layers import layer, layered, weights_width

MISTAKES = Family()
M = MISTAKES.add
resets = layer(padding="resets")


def _a_step_late(case: Case) -> Arrays:
    later = np.roll(case.inputs["resets"], 1, axis=0)
    later[0] = False
    return {"resets": later}


M("resets-ignored", "the state carried on where a sequence begins", resets, configured(padding=None))
M("resets-late", "the state set back after the marked step, not before it", resets, fed(_a_step_late))
M(
    "resets-inverted",
    "the marks taken for where a sequence goes on",
    resets,
    fed(lambda case: {"resets": ~case.inputs["resets"]}),
)
M(
    "resets-h-alone",
    "c carried on where h is set back",
    layer(padding="resets", cell="lstm"),
    patched((layered, "begun", lambda own: lambda state, step: (*own(state, step)[:1], *state[1:]))),
)


def _carried_back(own: Any) -> Any:
    def backward(cell: Any, weights: Arrays, tape: Any, dh: np.ndarray, d_last: Any) -> tuple[Any, Any, Arrays]:
        return own(cell, weights, tape._replace(keep=np.minimum(tape.keep, layered.COUNTS)), dh, d_last)

    return backward


M(
    "resets-gradient",
    "the gradient carried back over the beginning of a sequence",
    resets,
    patched((layered, "backward", _carried_back)),
)


def _begins(step: np.ndarray, state: Any, otherwise: Any) -> Any:
    return tuple(np.where(step[:, None] == layered.ANEW, a, b) for a, b in zip(state, otherwise, strict=True))


def _from_h0(own: Any) -> Any:
    def forward(
        cell: Any, weights: Arrays, x: np.ndarray, state: Any, order: list[int], keep: np.ndarray
    ) -> tuple[np.ndarray, Any, Any]:
        h, caches, parts = np.empty((*keep.shape, state[0].shape[1])), [], state
        for t in order:
            parts = _begins(keep[t], state, parts)
            one, parts, tape = own(cell, weights, x, parts, [t], np.ones_like(keep))
            h[t] = one[t]
            caches += tape.caches
        return h, parts, layered.Pass(caches, order, keep)

    return forward


def _to_h0(own: Any) -> Any:
    def backward(cell: Any, weights: Arrays, tape: Any, dh: np.ndarray, d_last: Any) -> tuple[Any, Any, Arrays]:
        g, zero = d_last, tuple(map(np.zeros_like, d_last))
        first, dx = zero, np.zeros((*dh.shape[:2], weights_width(weights)))
        total = {name: np.zeros_like(a) for name, a in weights.items()}
        for t, cache in zip(reversed(tape.order), reversed(tape.caches), strict=True):
            d, g, own_weights = own(cell, weights, layered.Pass([cache], [t], np.ones_like(tape.keep)), dh, g)
            dx[t], total = d[0], {name: total[name] + a for name, a in own_weights.items()}
            first = tuple(a + b for a, b in zip(first, _begins(tape.keep[t], g, zero), strict=True))
            g = _begins(tape.keep[t], zero, g)
        return dx, tuple(a + b for a, b in zip(first, g, strict=True)), total

    return backward


M(
    "resets-to-h0",
    "the initial state, not 0, where a sequence begins",
    resets,
    patched((layered, "forward", _from_h0), (layered, "backward", _to_h0)),
)


def _as_second(case: Case, base: Base) -> Arrays:
    """The second layer's weights in the third; nothing comes to the third's own."""
    third = [name for name in case.inputs if name.startswith("weights.layer2")]
    second = {name: name.replace("layer2", "layer1") for name in third}
    found = base(replace(case, inputs={**case.inputs, **{name: case.inputs[second[name]] for name in third}}))
    sums = {f"d_{s}": found[f"d_{s}"] + found[f"d_{name}"] for name, s in second.items()}
    return {**found, **sums, **{f"d_{name}": nothing(found[f"d_{name}"]) for name in third}}


M("layers-share-weights", "the second layer's weights for the third too", layer(layers=3), _as_second)

dropout = layer(dropout=True)


def _without(case: Case, base: Base) -> Arrays:
    return base(replace(case, inputs={name: a for name, a in case.inputs.items() if name != "dropout"}))


def _on_the_output(case: Case, base: Base) -> Arrays:
    factors = case.inputs["dropout"][-1]
    found = _without(replace(case, inputs={**case.inputs, "dy": case.inputs["dy"] * factors}), base)
    return {**found, "y": found["y"] * factors}


def _upwards_alone(case: Case, base: Base) -> Arrays:
    ups = case.config["layers"] - 1
    calls = []

    def make(own: Any) -> Any:
        def dropped(y: np.ndarray, inputs: Arrays, layer: int) -> np.ndarray:
            calls.append(layer)
            return y if len(calls) > ups else own(y, inputs, layer)

        return dropped

    return patched((layered, "dropped", make))(case, base)


M("dropout-ignored", "nothing dropped between the layers", dropout, _without)
M("dropout-on-output", "dropout on what the last layer gives, not between the layers", dropout, _on_the_output)
M("dropout-gradient", "dropout left out on the way back", dropout, _upwards_alone)
M(
    "dropout-unscaled",
    "what is kept by dropout not scaled by 1 / (1 - p)",
    dropout,
    fed(lambda case: {"dropout": np.sign(case.inputs["dropout"])}),
)
