"""torchrecurrent's FastRNNCell, FastGRNNCell and UGRNNCell, forward and by autograd; FastRNN's initial values.

Each has two biases, of which the second is 0.  FASTGRNN_GATE=sigmoid gives FastGRNNCell that nonlinearity; unless set,
it has its default.
"""

import os
from typing import Any

import torch
from torch.func import functional_call
from torchrecurrent import FastGRNNCell, FastRNNCell, UGRNNCell

from scripts.maintain.scoreboard.fastrnn_family import run_of


def _called(cell: Any, x: Any, h: Any, W: Any, U: Any, b: Any, **scalars: Any) -> Any:
    own = {"weight_ih": W, "weight_hh": U, "bias_ih": b, "bias_hh": torch.zeros_like(b)}
    return functional_call(cell, own | {name: value[None] for name, value in scalars.items()}, (x, h))


def _fastrnn(nonlinearity: str) -> Any:
    def step(x: Any, h: Any, w: Any) -> Any:
        cell = FastRNNCell(x.shape[1], h.shape[1], nonlinearity=nonlinearity, dtype=x.dtype)
        return _called(cell, x, h, w["W"], w["U"], w["b"], alpha=w["alpha"], beta=w["beta"])

    return step


def _fastgrnn(x: Any, h: Any, w: Any) -> Any:
    given = {"nonlinearity": os.environ["FASTGRNN_GATE"]} if "FASTGRNN_GATE" in os.environ else {}
    cell = FastGRNNCell(x.shape[1], h.shape[1], dtype=x.dtype, **given)
    return _called(cell, x, h, w["W"], w["U"], torch.cat([w["b_z"], w["b_h"]]), zeta=w["zeta"], nu=w["nu"])


def _ugrnn(x: Any, h: Any, w: Any) -> Any:
    cell = UGRNNCell(x.shape[1], h.shape[1], dtype=x.dtype)
    return _called(cell, x, h, *(torch.cat([w[f"{letter}_c"], w[f"{letter}_g"]]) for letter in "WUb"))


def _initial(inputs: int, units: int) -> dict[str, Any]:
    cell = FastRNNCell(inputs, units)
    own = {"W": cell.weight_ih, "U": cell.weight_hh, "b": cell.bias_ih}
    return own | {"alpha": cell.alpha[0], "beta": cell.beta[0]}


run = run_of(_fastrnn, {"fastgrnn": _fastgrnn, "ugrnn": _ugrnn}, _initial)
