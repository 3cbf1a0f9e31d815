"""What each step begins with, and which state is which on the way back."""

from typing import Any

import numpy as np

from ortho_ref.conformance.cases.case import Arrays, Case
from ortho_ref.conformance.mistakes.applies import longer, sequence
from ortho_ref.conformance.mistakes.changes import Change, nothing, same
from ortho_ref.conformance.mistakes.mistake import Base, Outputs, given, table
from ortho_ref.conformance.mistakes.patched import Patched, around
from ortho_ref.conformance.mistakes.private import private
from ortho_ref.conformance.mistakes.ways import altered, fed

lstm = private("ortho_ref.cells.lstm")


def every_step_from(first: Change) -> Outputs:
    """Every step from first(h_0): the steps are as many sequences of one step."""

    def outputs(case: Case, base: Base) -> Arrays:
        inputs, (T, B) = case.inputs, case.inputs["x"].shape[:2]
        names = [name for name in ("h", "c") if f"{name}0" in inputs]
        own = {name: inputs[name].reshape(1, T * B, *inputs[name].shape[2:]) for name in ("x", "dh")}
        for name in names:
            own[f"{name}0"] = np.concatenate([first(inputs[f"{name}0"])] * T)
            last = inputs[f"d{name}_T"]
            own[f"d{name}_T"] = np.concatenate([nothing(last)] * (T - 1) + [last])
        found = base(given(case, own))
        for name in names:
            zero, states = inputs[f"{name}0"], found[name][1]
            found[name] = np.concatenate([zero[None], states.reshape(T, *zero.shape)])
            found[f"d_{name}0"] = first(found[f"d_{name}0"].reshape(T, *zero.shape).sum(axis=0))
        if "d_x" in found:
            found["d_x"] = found["d_x"].reshape(inputs["x"].shape)
        return found

    return outputs


# Whether a pair of states is (h, c) or (c, h); what was given stands before the steps


def _steps_exchanged(found: Arrays) -> Arrays:
    h, c = found["h"], found["c"]
    return {"h": np.concatenate([h[:1], c[1:]]), "c": np.concatenate([c[:1], h[1:]])}


def _c_for_h(case: Case, base: Base) -> Arrays:
    """The loss of what is returned: dL/dh_t goes into c_t, so it is one of c_T for each number of steps."""
    inputs, dh = case.inputs, case.inputs["dh"]
    found = base(given(case, {"dh": nothing(dh), "dh_T": inputs["dc_T"], "dc_T": inputs["dh_T"]}))
    for t in range(1, len(dh) + 1):
        ends = {"x": inputs["x"][:t], "dh": nothing(dh[:t]), "dh_T": nothing(dh[0]), "dc_T": dh[t - 1]}
        for name, gradient in base(given(case, ends)).items():
            if name == "d_x":
                found[name] = np.concatenate([found[name][:t] + gradient, found[name][t:]])
            elif name not in ("h", "c"):
                found[name] = found[name] + gradient
    return found | _steps_exchanged(found)


def _forward(own: Any, *rest: Any) -> Any:
    state, cache = own(*rest)
    return state[::-1], cache


LSTM = sequence("lstm")

MISTAKES = table(
    ("state-not-carried", "the state not carried on: every step from h_0", longer(1), every_step_from(same)),
    ("state-0-every-step", "the state not carried on: every step from 0", longer(1), every_step_from(nothing)),
    ("dh_T-dc_T-swapped", "dL/dh_T and dL/dc_T exchanged",
     LSTM, fed(lambda case: {"dh_T": case.inputs["dc_T"], "dc_T": case.inputs["dh_T"]})),
    ("d_h0-d_c0-swapped", "d_h0 and d_c0 exchanged",
     LSTM, altered(lambda case, found: {"d_h0": found["d_c0"], "d_c0": found["d_h0"]})),
    ("h-c-swapped", "h and c exchanged in what is returned", LSTM, _c_for_h),
    ("h-c-swapped-forward", "h and c exchanged in what is returned, but not in the loss",
     LSTM, altered(lambda case, found: _steps_exchanged(found)), False),
    ("h-c-swapped-every-step", "h and c exchanged by every step: the next takes the one for the other",
     LSTM, Patched(around(lstm.LSTM, "step_forward", _forward),
                   around(lstm.LSTM, "step_backward", lambda own, self, w, dh, cache: own(self, w, dh[::-1], cache)))),
)  # fmt: skip
