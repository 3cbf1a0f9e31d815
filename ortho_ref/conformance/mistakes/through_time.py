"""The way back through time: the forward pass is right."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ortho_ref.conformance.cases.case import Arrays, Case
from ortho_ref.conformance.mistakes.applies import AFTER, BEFORE, carries, cell, on, sequence, tokens
from ortho_ref.conformance.mistakes.gates import BIASES
from ortho_ref.conformance.mistakes.mistake import (
    Base,
    Family,
    Outputs,
    Predicate,
    altered,
    around,
    fed,
    fits,
    given,
    nothing,
    patched,
    scaled,
    transposed,
)
from ortho_ref.conformance.mistakes.private import private

CELLS = private("ortho_ref.cells").CELLS

MISTAKES = Family()
M, named = MISTAKES.add, MISTAKES.named


def _several(case: Case) -> bool:
    return case.kind == "cell" and case.inputs["h0"].shape[0] > 1


@named("db-not-summed-over-batch", "the bias's gradient of one sequence alone", _several)
def _first_bias(case: Case, base: Base) -> Arrays:
    upstream: Arrays = {name: nothing(case.inputs[name]) for name in ("dh", "dh_T", "dc_T") if name in case.inputs}
    for name, array in upstream.items():
        first = (slice(None), 0) if name == "dh" else (0,)
        array[first] = case.inputs[name][first]
    one, found = base(given(case, upstream)), base(case)
    return {name: one[name] if fits(name.removeprefix("d_"), BIASES) else a for name, a in found.items()}


Adjoint = tuple[Any, Any, dict[str, Any]]  # dx, dh_prev, dweights


def stepping(change: Callable[..., Adjoint]) -> Outputs:
    """Another adjoint of a step: change(right, weights, dh, cache), where right takes all but the first."""

    def step_backward(own: Any, self: Any, *rest: Any) -> Adjoint:
        return change(lambda *arguments: own(self, *arguments), *rest)

    return lambda case, base: patched(around(CELLS[cell(case)], "step_backward", step_backward))(case, base)


@named("detached", "nothing carried back from a step to the one before", sequence(), stepping)
def _detached(own: Any, w: Any, dh: Any, cache: Any) -> Adjoint:
    dx, dh_prev, dweights = own(w, dh, cache)
    return dx, tuple(map(nothing, dh_prev)) if isinstance(dh_prev, tuple) else nothing(dh_prev), dweights


def _long(length: int) -> Predicate:
    return lambda case: case.kind == "cell" and len(case.inputs["x"]) > length


def windows(steps: int) -> Outputs:
    """Nothing comes back over the boundaries of windows of so many steps."""

    def outputs(case: Case, base: Base) -> Arrays:
        inputs, T = case.inputs, len(case.inputs["x"])
        names = [name[:-1] for name in ("h0", "c0") if name in inputs]
        firsts = {f"{name}0": inputs[f"{name}0"] for name in names}
        parts = []
        for start in range(0, T, steps):
            stop = min(start + steps, T)
            own = {**firsts, "x": inputs["x"][start:stop], "dh": inputs["dh"][start:stop]}
            if stop < T:
                own |= {f"d{name}_T": nothing(inputs[f"d{name}_T"]) for name in names}
            parts.append(base(given(case, own)))
            firsts = {f"{name}0": parts[-1][name][-1] for name in names}
        found = dict(parts[0])
        for name in found:
            if name in names:
                found[name] = np.concatenate([parts[0][name], *(part[name][1:] for part in parts[1:])])
            elif name == "d_x":
                found[name] = np.concatenate([part[name] for part in parts])
            elif name.startswith("d_weights."):
                found[name] = np.sum([part[name] for part in parts], axis=0)
        return found

    return outputs


M("detached-in-loop", "the state detached after each step, d_h0 that of the first step alone", _long(1), windows(1))
M("windows-of-8", "nothing carried back over the boundaries of windows of 8 steps", _long(8), windows(8))


def _without_path(U: str) -> Outputs:
    """Nothing comes back to h_{t-1} through this weight."""

    def change(own: Any, w: Any, dh: Any, cache: Any) -> Adjoint:
        dx, _, dweights = own(w, dh, cache)
        return dx, own({**w, U: nothing(w[U])}, dh, cache)[1], dweights

    return stepping(change)


M("path-U", "no way back through U", on("", "fastrnn"), _without_path("U"))


CELLS_OF = {"r": (BEFORE, AFTER), "u": (BEFORE,), "z": (AFTER,), "h": (AFTER,), **dict.fromkeys("ifgo", ("lstm",))}
for gate, cells in CELLS_OF.items():
    M(f"path-{gate}", f"no way back through U_{gate}", on(gate, *cells), _without_path(f"U_{gate}"))


@named("path-c", "no way back through h_{t-1} in r h_{t-1}", sequence(BEFORE), stepping)
def _s_constant(own: Any, w: Any, dh: Any, cache: Any) -> Adjoint:
    """Without ds * r; the way through r stays."""
    dx, dh_prev, dweights = own(w, dh, cache)
    without_r = {**w, "U_r": nothing(w["U_r"])}
    cut = own({**without_r, "U_c": nothing(w["U_c"])}, dh, cache)[1]
    return dx, dh_prev - (own(without_r, dh, cache)[1] - cut), dweights


def _constant_gate(gate: str) -> Outputs:
    """A gate that counts as a constant in the backward pass."""

    def change(own: Any, w: Any, dh: Any, cache: Any) -> Adjoint:
        cut = {name: nothing(a) if name in (f"W_{gate}", f"U_{gate}") else a for name, a in w.items()}
        dx, dh_prev, dweights = own(cut, dh, cache)
        return dx, dh_prev, {n: nothing(d) if n.endswith(f"_{gate}") else d for n, d in dweights.items()}

    return stepping(change)


for gate in "ruzifo":
    M(f"constant-{gate}", f"{gate} a constant in the backward pass", on(gate, *CELLS_OF[gate]), _constant_gate(gate))


@named("path-carried", "no way back through what is kept of the old state", carries, stepping)
def _no_carry(own: Any, w: Any, dh: Any, cache: Any) -> Adjoint:
    """That is what comes back where every U is 0."""
    dx, dh_prev, dweights = own(w, dh, cache)
    carried = own({name: nothing(a) if name[0] == "U" else a for name, a in w.items()}, dh, cache)[1]
    if isinstance(dh_prev, tuple):
        return dx, (dh_prev[0], nothing(dh_prev[1])), dweights
    return dx, dh_prev - carried, dweights


@named("lstm-c-without-h", "no way from h_t to c_{t-1}", sequence("lstm"), stepping)
def _only_carry(own: Any, w: Any, dh: Any, cache: Any) -> Adjoint:
    dx, (dh_prev, _), dweights = own(w, dh, cache)
    return dx, (dh_prev, dh[1] * cache.f), dweights


def _gradient_of(name: str, source: str, **fields: str) -> Outputs:
    """The gradient of one weight as that of another, with other fields of the cache in place of the right ones."""

    def change(own: Any, w: Any, dh: Any, cache: Any) -> Adjoint:
        dx, dh_prev, dweights = own(w, dh, cache)
        wrong = cache._replace(**{field: getattr(cache, other) for field, other in fields.items()})
        return dx, dh_prev, {**dweights, name: own(w, dh, wrong)[2][source]}

    return stepping(change)


DU_C, DU = _gradient_of("U_c", "U_c", s="h_prev"), _gradient_of("U", "U", h_prev="h")
DU_R = _gradient_of("U_r", "W_r", x="s")  # as if s_t were the input
for name, says, of, outputs in (
    ("dU_c-without-reset", "U_c's gradient formed with h_{t-1} in place of r h_{t-1}", BEFORE, DU_C),
    ("dU_r-with-reset", "U_r's gradient formed with r h_{t-1} in place of h_{t-1}", BEFORE, DU_R),
    (
        "U_c-fed-U_r",
        "U_c's gradient taken from U_r (NC-GRU's code with two orthogonal weights)",
        BEFORE,
        _gradient_of("U_c", "U_r"),
    ),
    ("dU-with-h", "U's gradient formed with h_t in place of h_{t-1}", "elman", DU),
):
    M(name, says, sequence(of), outputs)


@named("lstm-dU-with-h", "every U's gradient formed with h_t in place of h_{t-1}", sequence("lstm"), stepping)
def _next_h(own: Any, w: Any, dh: Any, cache: Any) -> Adjoint:
    """h_{t-1} is in nothing but the gradients of the LSTM's U."""
    return own(w, dh, cache._replace(h_prev=cache.o * cache.y))


M(
    "dh_T-ignored",
    "dL/dh_T ignored",
    sequence(),
    fed(lambda case: {n: nothing(case.inputs[n]) for n in ("dh_T", "dc_T") if n in case.inputs}),
)
M("dc_T-ignored", "dL/dc_T ignored", sequence("lstm"), fed(lambda case: {"dc_T": nothing(case.inputs["dc_T"])}))


@named("dh-last-only", "dL/dh_t taken at the last step alone", sequence(), fed)
def _last_alone(case: Case) -> Arrays:
    return {"dh": np.concatenate([nothing(case.inputs["dh"][:-1]), case.inputs["dh"][-1:]])}


@named("dh-last-ignored", "dL/dh_t ignored at the last step", sequence(), fed)
def _last_ignored(case: Case) -> Arrays:
    return {"dh": np.concatenate([case.inputs["dh"][:-1], nothing(case.inputs["dh"][-1:])])}


M("h0-gradient-lost", "d_h0 = 0", sequence(), scaled(lambda case: 0.0, "d_h0", "d_c0"))
M("c0-gradient-lost", "d_c0 = 0", sequence("lstm"), scaled(lambda case: 0.0, "d_c0"))


def _no_tokens(case: Case) -> bool:
    return sequence()(case) and not tokens(case)


M("x-gradient-lost", "d_x = 0", _no_tokens, scaled(lambda case: 0.0, "d_x"))


def _per_sequence(case: Case) -> float:
    return 1 / float(case.inputs["h0"].shape[0])


def _per_step(case: Case) -> float:
    return 1 / float(case.inputs["x"].shape[0])


WEIGHTS = "d_weights.*"
for name, says, applies, factor, names in (
    ("weights-averaged-over-batch", "gradients of weights averaged over the batch", _several, _per_sequence, WEIGHTS),
    ("weights-averaged-over-time", "gradients of weights averaged over time", sequence(), _per_step, WEIGHTS),
    ("all-averaged-over-batch", "every gradient averaged over the batch", _several, _per_sequence, "d_*"),
):
    M(name, says, applies, scaled(factor, names))


@named("weights-first-step-alone", "gradients of weights overwritten from step to step, not added", _long(1))
def _first_step_alone(case: Case, base: Base) -> Arrays:
    """The weights' gradients less those of the steps after the first."""
    found = base(case)
    later = {name: case.inputs[name][1:] for name in ("x", "dh")}
    later |= {f"{name}0": found[name][1] for name in ("h", "c") if name in found}
    rest = base(given(case, later))
    return {name: a - rest[name] if name.startswith("d_weights.") else a for name, a in found.items()}


M(
    "dU-transposed",
    "the gradient of every U transposed",
    sequence(),
    altered(lambda case, found: {n: transposed(a) for n, a in found.items() if n.startswith("d_weights.U")}),
)
M(
    "d_x-reversed",
    "d_x in the order in which it is computed, the last step first",
    _no_tokens,
    altered(lambda case, found: {"d_x": found["d_x"][::-1]}),
)


@named("dh-one-early", "dh[t] taken for dL/dh[t], not for dL/dh[t + 1]", sequence())
def _dh_one_early(case: Case, base: Base) -> Arrays:
    dh = case.inputs["dh"]
    found = base(given(case, {"dh": np.concatenate([dh[1:], nothing(dh[:1])])}))
    return {**found, "d_h0": found["d_h0"] + dh[0]}


M(
    "all-clipped",
    "every entry of every gradient clipped to [-1, 1]",
    sequence(),
    altered(lambda case, found: {n: np.clip(a, -1, 1) for n, a in found.items() if n.startswith("d_")}),
)
M("all-halved", "every gradient halved", sequence(), scaled(lambda case: 0.5, "d_*"))
M("all-negative", "every gradient with its sign flipped", sequence(), scaled(lambda case: -1.0, "d_*"))


@named("h-shifted", "the states given one step early, h[t] = h_{t+1}, the last twice", sequence(), altered)
def _shifted(case: Case, found: Arrays) -> Arrays:
    return {name: np.concatenate([found[name][1:], found[name][-1:]]) for name in ("h", "c") if name in found}
