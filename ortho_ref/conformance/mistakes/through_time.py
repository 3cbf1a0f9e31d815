"""The way back through time: the forward pass is right."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ortho_ref.conformance.case import Arrays, Case
from ortho_ref.conformance.mistake import (
    Base,
    Family,
    Predicate,
    altered,
    fed,
    fits,
    nothing,
    patched,
    scaled,
    transposed,
)
from ortho_ref.conformance.mistakes.applies import AFTER, BEFORE, carries, cell, on, sequence, tokens
from ortho_ref.conformance.mistakes.gates import BIASES
from ortho_ref.conformance.private import private

CELLS = private("ortho_ref.cells").CELLS

MISTAKES = Family()
M = MISTAKES.add


def _several(case: Case) -> bool:
    return case.kind == "cell" and case.inputs["h0"].shape[0] > 1


def _first_bias(case: Case, base: Base) -> Arrays:
    """Biases' gradients of the batch's first sequence; the rest is right."""
    upstream: Arrays = {name: nothing(case.inputs[name]) for name in ("dh", "dh_T", "dc_T") if name in case.inputs}
    for name, array in upstream.items():
        first = (slice(None), 0) if name == "dh" else (0,)
        array[first] = case.inputs[name][first]
    one, found = base(replace(case, inputs={**case.inputs, **upstream})), base(case)
    return {name: one[name] if fits(name.removeprefix("d_"), BIASES) else a for name, a in found.items()}


M("db-not-summed-over-batch", "the bias's gradient of one sequence alone", _several, _first_bias)


StepBackward = Callable[..., tuple[Any, Any, dict[str, Any]]]


def stepping(change: Callable[..., tuple[Any, Any, dict[str, Any]]]) -> Callable[[Case, Base], Arrays]:
    """Another adjoint of a step.

    Parameters
    ----------
    change : callable
        change(right, weights, dh, cache) -> (dx, dh_prev, dweights), where right(weights, dh, cache) gives the right
        ones.

    Returns
    -------
    callable
        The `outputs` of a mistake.
    """

    def outputs(case: Case, base: Base) -> Arrays:
        def make(own: StepBackward) -> StepBackward:
            def step_backward(self: Any, weights: Any, dh: Any, cache: Any) -> tuple[Any, Any, dict[str, Any]]:
                return change(lambda *arguments: own(self, *arguments), weights, dh, cache)

            return step_backward

        return patched((CELLS[cell(case)], "step_backward", make))(case, base)

    return outputs


def _detached(own: Any, w: Any, dh: Any, cache: Any) -> tuple[Any, Any, dict[str, Any]]:
    """Nothing comes back to the state before."""
    dx, dh_prev, dweights = own(w, dh, cache)
    return dx, tuple(map(nothing, dh_prev)) if isinstance(dh_prev, tuple) else nothing(dh_prev), dweights


M("detached", "nothing carried back from a step to the one before", sequence(), stepping(_detached))


def _long(length: int) -> Predicate:
    return lambda case: case.kind == "cell" and len(case.inputs["x"]) > length


def steps(case: Case) -> float:
    """T, the number of steps."""
    return float(case.inputs["x"].shape[0])


def windows(steps: int) -> Callable[[Case, Base], Arrays]:
    """Nothing comes back over the boundaries of windows of so many steps."""

    def outputs(case: Case, base: Base) -> Arrays:
        inputs, T = case.inputs, len(case.inputs["x"])
        names = [name[:-1] for name in ("h0", "c0") if name in inputs]
        firsts = {f"{name}0": inputs[f"{name}0"] for name in names}
        parts = []
        for start in range(0, T, steps):
            stop = min(start + steps, T)
            own = {**inputs, **firsts, "x": inputs["x"][start:stop], "dh": inputs["dh"][start:stop]}
            if stop < T:
                own |= {f"d{name}_T": nothing(inputs[f"d{name}_T"]) for name in names}
            parts.append(base(replace(case, inputs=own)))
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


def _recurrent(gates: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"U_{g}" if g else "U" for g in gates)


def without_path(*gates: str) -> Callable[[Case, Base], Arrays]:
    """Nothing comes back to h_{t-1} through these gates' U."""

    def change(own: Any, w: Any, dh: Any, cache: Any) -> tuple[Any, Any, dict[str, Any]]:
        dx, _, dweights = own(w, dh, cache)
        cut = {name: nothing(a) if name in _recurrent(gates) else a for name, a in w.items()}
        return dx, own(cut, dh, cache)[1], dweights

    return stepping(change)


M("path-U", "no way back through U", on("", "fastrnn"), without_path(""))


for gate, cells in (
    ("r", (BEFORE, AFTER)),
    ("u", (BEFORE,)),
    ("z", (AFTER,)),
    ("h", (AFTER,)),
    ("i", ("lstm",)),
    ("f", ("lstm",)),
    ("g", ("lstm",)),
    ("o", ("lstm",)),
):
    M(f"path-{gate}", f"no way back through U_{gate}", on(gate, *cells), without_path(gate))


def _s_constant(own: Any, w: Any, dh: Any, cache: Any) -> tuple[Any, Any, dict[str, Any]]:
    """Without ds * r; the way through r stays."""
    dx, dh_prev, dweights = own(w, dh, cache)
    without_r = {**w, "U_r": nothing(w["U_r"])}
    cut = own({**without_r, "U_c": nothing(w["U_c"])}, dh, cache)[1]
    return dx, dh_prev - (own(without_r, dh, cache)[1] - cut), dweights


M("path-c", "no way back through h_{t-1} in r h_{t-1}", sequence(BEFORE), stepping(_s_constant))


def constant_gate(gate: str) -> Callable[[Case, Base], Arrays]:
    """A gate that counts as a constant in the backward pass."""

    def change(own: Any, w: Any, dh: Any, cache: Any) -> tuple[Any, Any, dict[str, Any]]:
        cut = {name: nothing(a) if name in (f"W_{gate}", f"U_{gate}") else a for name, a in w.items()}
        dx, dh_prev, dweights = own(cut, dh, cache)
        return dx, dh_prev, {n: nothing(d) if n.endswith(f"_{gate}") else d for n, d in dweights.items()}

    return stepping(change)


for gate, cells in (
    ("r", (BEFORE, AFTER)),
    ("u", (BEFORE,)),
    ("z", (AFTER,)),
    ("i", ("lstm",)),
    ("f", ("lstm",)),
    ("o", ("lstm",)),
):
    M(f"constant-{gate}", f"{gate} a constant in the backward pass", on(gate, *cells), constant_gate(gate))


def _no_carry(own: Any, w: Any, dh: Any, cache: Any) -> tuple[Any, Any, dict[str, Any]]:
    """Without the path through what is kept of the old state: what comes back where every U is 0."""
    dx, dh_prev, dweights = own(w, dh, cache)
    carried = own({name: nothing(a) if name[0] == "U" else a for name, a in w.items()}, dh, cache)[1]
    if isinstance(dh_prev, tuple):
        return dx, (dh_prev[0], nothing(dh_prev[1])), dweights
    return dx, dh_prev - carried, dweights


M("path-carried", "no way back through what is kept of the old state", carries, stepping(_no_carry))


def _only_carry(own: Any, w: Any, dh: Any, cache: Any) -> tuple[Any, Any, dict[str, Any]]:
    """dc_{t-1} without what reaches c_t through h_t."""
    dx, (dh_prev, _), dweights = own(w, dh, cache)
    return dx, (dh_prev, dh[1] * cache.f), dweights


M("lstm-c-without-h", "no way from h_t to c_{t-1}", sequence("lstm"), stepping(_only_carry))


def _gradient_of(name: str, **fields: str) -> Callable[[Case, Base], Arrays]:
    """The gradient of one weight formed with another field of the cache in place of the right one."""

    def change(own: Any, w: Any, dh: Any, cache: Any) -> tuple[Any, Any, dict[str, Any]]:
        dx, dh_prev, dweights = own(w, dh, cache)
        wrong = cache._replace(**{field: getattr(cache, other) for field, other in fields.items()})
        return dx, dh_prev, {**dweights, name: own(w, dh, wrong)[2][name]}

    return stepping(change)


M(
    "dU_c-without-reset",
    "U_c's gradient formed with h_{t-1} in place of r h_{t-1}",
    sequence(BEFORE),
    _gradient_of("U_c", s="h_prev"),
)


def _r_gradient_with_s(own: Any, w: Any, dh: Any, cache: Any) -> tuple[Any, Any, dict[str, Any]]:
    """U_r's gradient from s_t for h_{t-1}: what W_r's would be, were s_t the input."""
    dx, dh_prev, dweights = own(w, dh, cache)
    return dx, dh_prev, {**dweights, "U_r": own(w, dh, cache._replace(x=cache.s))[2]["W_r"]}


M(
    "dU_r-with-reset",
    "U_r's gradient formed with r h_{t-1} in place of h_{t-1}",
    sequence(BEFORE),
    stepping(_r_gradient_with_s),
)


def _r_gradient_to_c(own: Any, w: Any, dh: Any, cache: Any) -> tuple[Any, Any, dict[str, Any]]:
    dx, dh_prev, dweights = own(w, dh, cache)
    return dx, dh_prev, {**dweights, "U_c": dweights["U_r"]}


M(
    "U_c-fed-U_r",
    "U_c's gradient taken from U_r (NC-GRU's code with two orthogonal weights)",
    sequence(BEFORE),
    stepping(_r_gradient_to_c),
)
M("dU-with-h", "U's gradient formed with h_t in place of h_{t-1}", sequence("elman"), _gradient_of("U", h_prev="h"))


def _next_h(own: Any, w: Any, dh: Any, cache: Any) -> tuple[Any, Any, dict[str, Any]]:
    """h_{t-1} is in nothing but the gradients of the LSTM's U."""
    return own(w, dh, cache._replace(h_prev=cache.o * cache.y))


M("lstm-dU-with-h", "every U's gradient formed with h_t in place of h_{t-1}", sequence("lstm"), stepping(_next_h))
M(
    "dh_T-ignored",
    "dL/dh_T ignored",
    sequence(),
    fed(lambda case: {n: nothing(case.inputs[n]) for n in ("dh_T", "dc_T") if n in case.inputs}),
)
M("dc_T-ignored", "dL/dc_T ignored", sequence("lstm"), fed(lambda case: {"dc_T": nothing(case.inputs["dc_T"])}))


def _last_alone(case: Case) -> Arrays:
    dh = nothing(case.inputs["dh"])
    dh[-1] = case.inputs["dh"][-1]
    return {"dh": dh}


M("dh-last-only", "dL/dh_t taken at the last step alone", sequence(), fed(_last_alone))


def _last_ignored(case: Case) -> Arrays:
    dh = case.inputs["dh"].copy()
    dh[-1] = 0
    return {"dh": dh}


M("dh-last-ignored", "dL/dh_t ignored at the last step", sequence(), fed(_last_ignored))
M("h0-gradient-lost", "d_h0 = 0", sequence(), scaled(lambda case: 0.0, "d_h0", "d_c0"))
M("c0-gradient-lost", "d_c0 = 0", sequence("lstm"), scaled(lambda case: 0.0, "d_c0"))
M("x-gradient-lost", "d_x = 0", lambda case: sequence()(case) and not tokens(case), scaled(lambda case: 0.0, "d_x"))


def batch(case: Case) -> float:
    """B, the number of sequences."""
    return float(case.inputs["h0"].shape[0])


M(
    "weights-averaged-over-batch",
    "gradients of weights averaged over the batch",
    _several,
    scaled(lambda case: 1 / batch(case), "d_weights.*"),
)
M(
    "weights-averaged-over-time",
    "gradients of weights averaged over time",
    sequence(),
    scaled(lambda case: 1 / steps(case), "d_weights.*"),
)
M(
    "all-averaged-over-batch",
    "every gradient averaged over the batch",
    _several,
    scaled(lambda case: 1 / batch(case), "d_*"),
)


def _first_step_alone(case: Case, base: Base) -> Arrays:
    """The weights' gradients less those of the steps after the first."""
    found = base(case)
    later = {name: case.inputs[name][1:] for name in ("x", "dh")}
    later |= {f"{name}0": found[name][1] for name in ("h", "c") if name in found}
    rest = base(replace(case, inputs={**case.inputs, **later}))
    return {name: a - rest[name] if name.startswith("d_weights.") else a for name, a in found.items()}


M(
    "weights-first-step-alone",
    "gradients of weights overwritten from step to step, not added",
    _long(1),
    _first_step_alone,
)
M(
    "dU-transposed",
    "the gradient of every U transposed",
    sequence(),
    altered(lambda case, found: {n: transposed(a) for n, a in found.items() if n.startswith("d_weights.U")}),
)
M(
    "d_x-reversed",
    "d_x in the order in which it is computed, the last step first",
    lambda case: sequence()(case) and not tokens(case),
    altered(lambda case, found: {"d_x": found["d_x"][::-1]}),
)


def _dh_one_early(case: Case, base: Base) -> Arrays:
    """dh[t] taken for the gradient of h[t], not of h[t + 1]."""
    dh = case.inputs["dh"]
    found = base(replace(case, inputs={**case.inputs, "dh": np.concatenate([dh[1:], nothing(dh[:1])])}))
    return {**found, "d_h0": found["d_h0"] + dh[0]}


M("dh-one-early", "dh[t] taken for dL/dh[t], not for dL/dh[t + 1]", sequence(), _dh_one_early)
M(
    "all-clipped",
    "every entry of every gradient clipped to [-1, 1]",
    sequence(),
    altered(lambda case, found: {n: np.clip(a, -1, 1) for n, a in found.items() if n.startswith("d_")}),
)
M("all-halved", "every gradient halved", sequence(), scaled(lambda case: 0.5, "d_*"))
M("all-negative", "every gradient with its sign flipped", sequence(), scaled(lambda case: -1.0, "d_*"))


def _shifted(case: Case, found: Arrays) -> Arrays:
    return {name: np.concatenate([found[name][1:], found[name][-1:]]) for name in ("h", "c") if name in found}


M("h-shifted", "the states given one step early, h[t] = h_{t+1}, the last twice", sequence(), altered(_shifted))
