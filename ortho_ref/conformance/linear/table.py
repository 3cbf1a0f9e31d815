"""The list of recurrences: of each its inputs with their ranges, its state, and the options of its config."""

import math
from typing import Any

from ortho_ref.conformance.linear import delta, diagonal, xlstm
from ortho_ref.conformance.linear.recurrence import Input, Recurrence

_QKV = {"q": Input("TBHK"), "k": Input("TBHK"), "v": Input("TBHV")}
_BETA, _HEAD = Input("TBH", 0.0, 1.0), Input("HDD", -0.5, 0.5)
_GATE, _GATES = Input("TBH", -2.0, 2.0), Input("TBHD", -2.0, 2.0)
_MATRIX: dict[str, Any] = {"states": {"S": Input("BHKV")}, "output": "TBHV"}
_DELTA: dict[str, Any] = {
    **_MATRIX, "decay": "g", "slow": {"g": (-0.02, 0.0)}, "strong": {"g": (-30.0, -4.0)},
    "options": {"normalise": True, "eps": 1e-6, "scale": None},
}  # fmt: skip

_ALL = (
    Recurrence(
        "gated_delta_rule", delta.gated_delta_rule, {**_QKV, "beta": _BETA, "g": Input("TBH", -1.0, 0.0)}, **_DELTA,
    ),
    Recurrence(
        "delta_product", delta.delta_product, {
            "q": Input("TBHK"), "k": Input("TNBHK"), "v": Input("TNBHV"), "beta": Input("TNBH", 0.0, 2.0),
            "g": Input("TBH", -1.0, 0.0),
        }, **_DELTA,
    ),
    Recurrence("kda", delta.gated_delta_rule, {**_QKV, "beta": _BETA, "g": Input("TBHK", -1.0, 0.0)}, **_DELTA),
    Recurrence(
        "rwkv7", delta.rwkv7, {
            "r": Input("TBHK"), "w": Input("TBHK", -math.exp(-0.5), 0.0), "k": Input("TBHK"), "v": Input("TBHV"),
            "kappa": Input("TBHK"), "a": Input("TBHK", 0.0, 1.0),
        },
        **_MATRIX, decay="w", slow={"w": (-0.02, 0.0)}, strong={"w": (-30.0, -4.0)},
        options={"normalise": True, "eps": 1e-24},
    ),
    Recurrence(
        "lru", diagonal.lru, {
            "u": Input("TBD"), "nu_log": Input("D", -2.0, 0.0), "theta_log": Input("D", -2.0, 1.0),
            "gamma_log": Input("D", -1.0, 0.0),
        },
        states={"x": Input("BD")}, output="TBD", decay="nu_log", slow={"nu_log": (-6.0, -4.0)},
        strong={"nu_log": (1.25, 3.0)}, options={"gamma": "learned"}, complex=("u", "x0", "do", "dx_T"),
    ),
    Recurrence(
        "mingru", diagonal.mingru, {"a": Input("TBD", -2.0, 2.0), "c": Input("TBD", -2.0, 2.0)},
        states={"h": Input("BD", 0.25, 2.0)}, output="TBD", decay="a", slow={"a": (-6.0, -4.0)},
        strong={"a": (4.0, 30.0)}, options={"activation": "g"},
    ),
    Recurrence(
        "mlstm", xlstm.mlstm, {**_QKV, "i": _GATE, "f": _GATE},
        states={"C": Input("BHKV"), "n": Input("BHK"), "m": Input("BH")}, output="TBHV",
        decay="f", slow={"f": (4.0, 6.0)}, strong={"f": (-30.0, -4.0), "i": (2.0, 4.0)},
        options={"forget": "sigmoid", "eps": 0.0, "scale": None},
    ),
    Recurrence(
        "slstm", xlstm.slstm, {f"x_{g}": _GATES for g in "ifzo"} | {f"R_{g}": _HEAD for g in "ifzo"},
        states={"h": Input("BHD"), "c": Input("BHD"), "n": Input("BHD", 0.5, 2.0), "m": Input("BHD")}, output="TBHD",
        decay="x_f", slow={"x_f": (4.0, 6.0)}, strong={"x_f": (-30.0, -4.0)},
        options={"forget": "sigmoid"}, empty={"m": -math.inf},
    ),
)  # fmt: skip

#: Name in a config -> the recurrence.
RECURRENCES: dict[str, Recurrence] = {own.name: own for own in _ALL}
