"""EdgeML's FastRNNCell, FastGRNNCell and UGRNNLRCell in PyTorch, from a checkout; FastRNN's initial values.

Forward and by autograd, step by step.
"""

from typing import Any

from torch.func import functional_call

from scripts.maintain.scoreboard.fastrnn_family import run_of
from scripts.maintain.scoreboard.sources import importable

importable("microsoft/EdgeML", "81025fce8ba28707eabe72e11bf3987a8d745608", "pytorch")
from edgeml_pytorch.graph.rnn import FastGRNNCell, FastRNNCell, UGRNNLRCell


def _fastrnn(nonlinearity: str) -> Any:
    def step(x: Any, h: Any, w: Any) -> Any:
        cell = FastRNNCell(x.shape[1], h.shape[1], update_nonlinearity=nonlinearity)
        own = {"W": w["W"].T, "U": w["U"].T, "bias_update": w["b"][None]}
        return functional_call(cell, own | {name: w[name][None, None] for name in ("alpha", "beta")}, (x, h))

    return step


def _fastgrnn(x: Any, h: Any, w: Any) -> Any:
    own = {"W": w["W"].T, "U": w["U"].T, "bias_gate": w["b_z"][None], "bias_update": w["b_h"][None]}
    own |= {name: w[name][None, None] for name in ("zeta", "nu")}
    return functional_call(FastGRNNCell(x.shape[1], h.shape[1]), own, (x, h))


def _ugrnn(x: Any, h: Any, w: Any) -> Any:
    own = {f"{letter}{k}": w[f"{letter}_{gate}"].T for letter in "WU" for k, gate in ((1, "g"), (2, "c"))}
    own |= {"bias_gate": w["b_g"][None], "bias_update": w["b_c"][None]}
    return functional_call(UGRNNLRCell(x.shape[1], h.shape[1]), own, (x, h))


def _initial(inputs: int, units: int) -> dict[str, Any]:
    cell = FastRNNCell(inputs, units)
    own = {"W": cell.W.T, "U": cell.U.T, "b": cell.bias_update[0]}
    return own | {"alpha": cell.alpha[0, 0], "beta": cell.beta[0, 0]}


run = run_of(_fastrnn, {"fastgrnn": _fastgrnn, "ugrnn": _ugrnn}, _initial)
