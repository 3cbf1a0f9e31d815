"""One loop over time for every recurrence, forwards and backwards.

s_t, o_t = step(x_t, (1 - reset_t) s_{t-1})
"""

from collections.abc import Collection

import numpy as np

from ortho_ref.conformance.cases.case import Arrays, Config
from ortho_ref.conformance.linear.recurrence import Back, Recurrence, State
from ortho_ref.conformance.linear.table import RECURRENCES


def recurrence_of(config: Config) -> Recurrence:
    """The recurrence of a config: by its name, or a changed one as it is."""
    own = config["recurrence"]
    return own if isinstance(own, Recurrence) else RECURRENCES[own]


def _replaced(state: State, marks: np.ndarray | None, values: Collection[float]) -> State:
    """The state where no mark is, elsewhere these values."""
    if marks is None:
        return state
    return tuple(np.where(marks.reshape(-1, *[1] * (s.ndim - 1)), v, s) for s, v in zip(state, values, strict=True))


def forward(config: Config, inputs: Arrays) -> tuple[Arrays, list[Back]]:
    """o (T, ...), s_T of every state s, and the adjoints of the steps.

    Inputs: those of the recurrence, time first; s0 of every state s, or of none, which is the empty state; resets, bool
    (T, B), if there are any: a marked step begins with the empty state.
    """
    r, resets = recurrence_of(config), inputs.get("resets")
    state, empty = r.first(inputs), [r.empty.get(name, 0.0) for name in r.states]
    o, tape = [], []
    for t in range(len(inputs[next(iter(r.inputs))])):
        state = _replaced(state, None if resets is None else resets[t], empty)
        o_t, state, back = r.step(config, r.at(inputs, t), state, **r.parts)
        state = tuple(r.kept(s) for s in state)
        o.append(o_t)
        tape.append(back)
    return {"o": np.stack(o), **{f"{name}_T": s for name, s in zip(r.states, state, strict=True)}}, tape


def backward(config: Config, inputs: Arrays, tape: list[Back], upstream: Arrays) -> Arrays:
    """d_NAME of every input and d_s0 of every state s, from do and ds_T; complex ones are dL/dRe + i dL/dIm."""
    r, resets = recurrence_of(config), inputs.get("resets")
    d_state, steps = tuple(upstream[f"d{name}_T"] for name in r.states), []
    for t in reversed(range(len(tape))):
        d, d_state = tape[t](upstream["do"][t], d_state)
        d_state = _replaced(d_state, None if resets is None else resets[t], [0.0] * len(d_state))
        steps.append(d)
    found = {name: np.stack([d[name] for d in reversed(steps)]) for name in steps[0]}
    weights = {name for name in found if r.inputs[name].axes[0] != "T"}
    found = {f"d_{name}": a.sum(axis=0) if name in weights else a for name, a in found.items()}
    return found | {f"d_{name}0": d for name, d in zip(r.states, d_state, strict=True)}


def outputs(config: Config, inputs: Arrays) -> Arrays:
    """The answer to a case of kind `linear`: o, s_T of every state s, and d_NAME of all that is given.

    do and ds_T are among the inputs.
    """
    found, tape = forward(config, inputs)
    gradients = backward(config, inputs, tape, inputs)
    return found | {name: d for name, d in gradients.items() if name.removeprefix("d_") in inputs}
