"""The way back through time, and of complex arrays: the forward pass is right, but where U is conjugated."""

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import numpy as np

from ortho_ref.conformance.cases.case import Arrays, Case
from ortho_ref.conformance.mistakes.applies import AFTER, BEFORE, both, is_complex, longer, off_kinks, on, sequence
from ortho_ref.conformance.mistakes.changes import conjugate, nothing, transposed
from ortho_ref.conformance.mistakes.gates import BIASES
from ortho_ref.conformance.mistakes.mistake import Base, Outputs, by_case, given, table
from ortho_ref.conformance.mistakes.patched import Patched, around, replaced
from ortho_ref.conformance.mistakes.private import private
from ortho_ref.conformance.mistakes.ways import altered, fits, read_as, scaled, through

scan, CELLS = private("ortho_ref.scan"), private("ortho_ref.cells").CELLS


def _first_bias(case: Case, base: Base) -> Arrays:
    upstream: Arrays = {name: nothing(case.inputs[name]) for name in ("dh", "dh_T", "dc_T") if name in case.inputs}
    for name, array in upstream.items():
        first = (slice(None), 0) if name == "dh" else (0,)
        array[first] = case.inputs[name][first]
    one, found = base(given(case, upstream)), base(case)
    return {name: one[name] if fits(name.removeprefix("d_"), BIASES) else a for name, a in found.items()}


# Another adjoint of a step

Adjoint = tuple[Any, Any, dict[str, Any]]  # dx, dh_prev, dweights


def stepping(change: Callable[..., Adjoint]) -> Outputs:
    """Another adjoint of a step: change(right, weights, dh, cache), where right takes all but the first."""

    def step_backward(own: Any, self: Any, *rest: Any) -> Adjoint:
        return change(lambda *arguments: own(self, *arguments), *rest)

    return by_case(lambda case: Patched(around(CELLS[case.config["cell"]], "step_backward", step_backward)))


def carrying(change: Callable[..., Any]) -> Outputs:
    """Another gradient by the state before a step: change(the right one, right, weights, dh, cache)."""

    def adjoint(own: Any, w: Any, dh: Any, cache: Any) -> Adjoint:
        dx, dh_prev, dweights = own(w, dh, cache)
        return dx, change(dh_prev, own, w, dh, cache), dweights

    return stepping(adjoint)


def _nothing(dh: Any, *_: Any) -> Any:
    return tuple(map(nothing, dh)) if isinstance(dh, tuple) else nothing(dh)


def by_place(step: str, change: Callable[..., Any]) -> Callable[..., Any]:
    """A pass, of `scan` or `layered`, whose steps are change(place, right, *arguments); the first one's place is 0.

    step: "step_forward" or "step_backward".
    """

    def whole(own: Any, cell: Any, weights: Any, *rest: Any) -> Any:
        places: Iterator[int] = count() if step == "step_forward" else reversed(range(len(rest[0].caches)))
        patch = around(type(cell), step, lambda right, *arguments: change(next(places), right, *arguments))
        with replaced(patch):
            return own(cell, weights, *rest)

    return whole


def windows(steps: int, owner: Any = scan, name: str = "unroll_back") -> Outputs:
    """Nothing comes back over the boundaries of windows of so many steps; owner.name is the pass back."""

    def change(place: int, right: Any, *arguments: Any) -> Adjoint:
        dx, dh_prev, dweights = right(*arguments)
        return dx, _nothing(dh_prev) if place > 0 and place % steps == 0 else dh_prev, dweights

    return Patched(around(owner, name, by_place("step_backward", change)))


def _cut(w: Any, *names: str) -> Any:
    """The weights, 0 for these."""
    return {name: nothing(a) if name in names else a for name, a in w.items()}


def _without_path(U: str) -> Outputs:
    """Nothing comes back to h_{t-1} through this weight."""
    return carrying(lambda dh_prev, own, w, dh, cache: own(_cut(w, U), dh, cache)[1])


CELLS_OF = {"r": (BEFORE, AFTER), "u": (BEFORE,), "z": (AFTER,), "h": (AFTER,), **dict.fromkeys("ifgo", ("lstm",))}


def _s_constant(dh_prev: Any, own: Any, w: Any, dh: Any, cache: Any) -> Any:
    """Without ds * r; the way through r stays."""
    without_r, without_s = (own(_cut(w, "U_r", *more), dh, cache)[1] for more in ((), ("U_c",)))
    return dh_prev - (without_r - without_s)


def _constant_gate(gate: str) -> Outputs:
    """A gate that counts as a constant in the backward pass."""

    def change(own: Any, w: Any, dh: Any, cache: Any) -> Adjoint:
        dx, dh_prev, dweights = own(_cut(w, f"W_{gate}", f"U_{gate}"), dh, cache)
        return dx, dh_prev, {n: nothing(d) if n.endswith(f"_{gate}") else d for n, d in dweights.items()}

    return stepping(change)


def _no_carry(dh_prev: Any, own: Any, w: Any, dh: Any, cache: Any) -> Any:
    """That is what comes back where every U is 0."""
    if isinstance(dh_prev, tuple):
        return dh_prev[0], nothing(dh_prev[1])
    return dh_prev - own(_cut(w, *(name for name in w if name[0] == "U")), dh, cache)[1]


def _gradient_of(name: str, source: str, **fields: str) -> Outputs:
    """The gradient of one weight as that of another, with other fields of the cache in place of the right ones."""

    def change(own: Any, w: Any, dh: Any, cache: Any) -> Adjoint:
        dx, dh_prev, dweights = own(w, dh, cache)
        wrong = cache._replace(**{field: getattr(cache, other) for field, other in fields.items()})
        return dx, dh_prev, {**dweights, name: own(w, dh, wrong)[2][source]}

    return stepping(change)


def _next_h(own: Any, w: Any, dh: Any, cache: Any) -> Adjoint:
    """h_{t-1} is in nothing but the gradients of the LSTM's U."""
    return own(w, dh, cache._replace(h_prev=cache.o * cache.y))


def _y_constant(own: Any, w: Any, dh: Any, cache: Any) -> Adjoint:
    """Without what dc_t has of dh_t, through y = tanh(c)."""
    through_y = dh[0] * cache.o * (1 - cache.y * cache.y)
    return own(w, (dh[0], dh[1] - through_y), cache)


# Other gradients in, or out


def _last(dh: np.ndarray) -> np.ndarray:
    """0 but at the last step."""
    return np.concatenate([nothing(dh[:-1]), dh[-1:]])


def _averaged(over: str, *names: str) -> Outputs:
    """Gradients divided by the first axis of an input: the batch of h0, the time of x."""
    return scaled(lambda case: 1 / len(case.inputs[over]), *names)


def _first_step_alone(case: Case, base: Base) -> Arrays:
    """The weights' gradients less those of the steps after the first."""
    found = base(case)
    later = {name: case.inputs[name][1:] for name in ("x", "dh")}
    later |= {f"{name}0": found[name][1] for name in ("h", "c") if name in found}
    rest = base(given(case, later))
    return {name: a - rest[name] if name.startswith("d_weights.") else a for name, a in found.items()}


def _dh_one_early(case: Case, base: Base) -> Arrays:
    dh = case.inputs["dh"]
    found = base(given(case, {"dh": np.concatenate([dh[1:], nothing(dh[:1])])}))
    return {**found, "d_h0": found["d_h0"] + dh[0]}


def _shifted(case: Case, found: Arrays) -> Arrays:
    return {name: np.concatenate([found[name][1:], found[name][-1:]]) for name in ("h", "c") if name in found}


ANY, LSTM = sequence(), sequence("lstm")
_several = both(ANY, lambda case: case.inputs["h0"].shape[0] > 1)
_no_tokens = both(ANY, lambda case: case.inputs["x"].dtype.kind != "i")
_complex_elman = sequence("elman", complex=True)
_complex_case = both(is_complex, lambda c: c.kind == "cell" or (c.kind == "activation" and off_kinks(c)))
_COMPLEX = ("d_h0", "d_weights.W", "d_weights.U", "d_a")

MISTAKES = table(
    ("db-not-summed-over-batch", "the bias's gradient of one sequence alone", _several, _first_bias),
    ("detached", "nothing carried back from a step to the one before", ANY, carrying(_nothing)),
    ("detached-in-loop", "the state detached after each step, d_h0 that of the first step alone",
     longer(1), windows(1)),
    ("windows-of-8", "nothing carried back over the boundaries of windows of 8 steps", longer(8), windows(8)),
    ("path-U", "no way back through U", on("", "fastrnn"), _without_path("U")),
    *((f"path-{gate}", f"no way back through U_{gate}", on(gate, *cells), _without_path(f"U_{gate}"))
      for gate, cells in CELLS_OF.items()),
    ("path-c", "no way back through h_{t-1} in r h_{t-1}", sequence(BEFORE), carrying(_s_constant)),
    *((f"constant-{gate}", f"{gate} a constant in the backward pass", on(gate, *CELLS_OF[gate]), _constant_gate(gate))
      for gate in "ruzifo"),
    ("path-carried", "no way back through what is kept of the old state",
     sequence(BEFORE, AFTER, "lstm", "fastrnn"), carrying(_no_carry)),
    ("lstm-c-without-h", "no way from h_t to c_{t-1}",
     LSTM, carrying(lambda before, own, w, dh, cache: (before[0], dh[1] * cache.f))),
    ("lstm-h-detached", "nothing carried back through h_{t-1}, through c_{t-1} alone",
     LSTM, carrying(lambda before, *_: (nothing(before[0]), before[1]))),
    ("lstm-constant-y", "tanh(c) a constant in the backward pass: no way from h_t to c_t", LSTM, stepping(_y_constant)),
    ("dU_c-without-reset", "U_c's gradient formed with h_{t-1} in place of r h_{t-1}",
     sequence(BEFORE), _gradient_of("U_c", "U_c", s="h_prev")),
    ("dU_r-with-reset", "U_r's gradient formed with r h_{t-1} in place of h_{t-1}",
     sequence(BEFORE), _gradient_of("U_r", "W_r", x="s")),  # as if s_t were the input
    ("U_c-fed-U_r", "U_c's gradient taken from U_r (NC-GRU's code with two orthogonal weights)",
     sequence(BEFORE), _gradient_of("U_c", "U_r")),
    ("dU-with-h", "U's gradient formed with h_t in place of h_{t-1}",
     sequence("elman"), _gradient_of("U", "U", h_prev="h")),
    ("lstm-dU-with-h", "every U's gradient formed with h_t in place of h_{t-1}", LSTM, stepping(_next_h)),
    ("dh_T-ignored", "dL/dh_T ignored", ANY, read_as(nothing, "dh_T", "dc_T")),
    ("dc_T-ignored", "dL/dc_T ignored", LSTM, read_as(nothing, "dc_T")),
    ("dh-last-only", "dL/dh_t taken at the last step alone", ANY, read_as(_last, "dh")),
    ("dh-last-ignored", "dL/dh_t ignored at the last step", ANY, read_as(lambda dh: dh - _last(dh), "dh")),
    ("h0-gradient-lost", "d_h0 = 0", ANY, scaled(0.0, "d_h0", "d_c0")),
    ("c0-gradient-lost", "d_c0 = 0", LSTM, scaled(0.0, "d_c0")),
    ("x-gradient-lost", "d_x = 0", _no_tokens, scaled(0.0, "d_x")),
    ("weights-averaged-over-batch", "gradients of weights averaged over the batch",
     _several, _averaged("h0", "d_weights.*")),
    ("weights-averaged-over-time", "gradients of weights averaged over time", ANY, _averaged("x", "d_weights.*")),
    ("all-averaged-over-batch", "every gradient averaged over the batch", _several, _averaged("h0", "d_*")),
    ("weights-first-step-alone", "gradients of weights overwritten from step to step, not added",
     longer(1), _first_step_alone),
    ("dU-transposed", "the gradient of every U transposed",
     ANY, altered(lambda case, found: {n: transposed(a) for n, a in found.items() if n.startswith("d_weights.U")})),
    ("d_x-reversed", "d_x in the order in which it is computed, the last step first",
     _no_tokens, altered(lambda case, found: {"d_x": found["d_x"][::-1]})),
    ("dh-one-early", "dh[t] taken for dL/dh[t], not for dL/dh[t + 1]", ANY, _dh_one_early),
    ("all-clipped", "every entry of every gradient clipped to [-1, 1]",
     ANY, altered(lambda case, found: {n: np.clip(a, -1, 1) for n, a in found.items() if n.startswith("d_")})),
    ("all-halved", "every gradient halved", ANY, scaled(0.5, "d_*")),
    ("all-negative", "every gradient with its sign flipped", ANY, scaled(-1.0, "d_*")),
    ("h-shifted", "the states given one step early, h[t] = h_{t+1}, the last twice", ANY, altered(_shifted)),
    ("gradient-conjugated", "gradients of complex arrays conjugated (JAX, autograd)",
     _complex_case, through(conjugate, (), _COMPLEX)),
    ("U^T-for-U^H", "U^T in place of U^H on the way back", _complex_elman,
     carrying(lambda before, own, w, dh, cache: own({**w, "U": w["U"].conj()}, dh, cache)[1])),
    ("U-conjugated", "U conjugated", _complex_elman, read_as(conjugate, "weights.U")),
)  # fmt: skip
