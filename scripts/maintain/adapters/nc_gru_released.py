"""NC-GRU's released code, from a checkout: the cell of its character model, and its update of the skew matrix.

The cell is a PyTorch module; NC_GRU_AS=paper runs it over the cases of the paper's cell, gru_reset_before, and
otherwise over those of the cell it is nearest to, gru_reset_after.  Its second bias of each gate is 0.  The update is
two functions in NumPy, called as its denoise task calls them; A is moved by PyTorch's Adam in place of TensorFlow's.
"""

import contextlib
import io
import os
import runpy
from typing import Any

import numpy as np
import torch
from torch.func import functional_call

from ortho_ref.adapters import either, from_torch
from scripts.maintain.scoreboard.sources import checkout, importable

SOURCE = "emucllari1/NC-GRU", "a290214dd9d7f14c668376315252d8004d23b45d"
PAPER = os.environ.get("NC_GRU_AS") == "paper"


def _step(x: Any, h: Any, w: Any) -> Any:
    n = h.shape[1]
    with contextlib.redirect_stdout(io.StringIO()):  # it prints its sizes
        cell = NCGRUCell(x.shape[1], n, D=torch.eye(n)).to(x.dtype)
    gate, inner = ("u", "c") if PAPER else ("z", "h")
    own = {
        "weight_ih.weight": torch.cat([w["W_r"], w[f"W_{gate}"]]),
        "weight_ih.bias": torch.cat([w["b_r"], w[f"b_{gate}"]]),
        "weight_hh.weight": torch.cat([w["U_r"], w[f"U_{gate}"]]),
        "weight_hh.bias": x.new_zeros(2 * n),
        "weight_in": w[f"W_{inner}"].T,
        "weight_hn": w[f"U_{inner}"].T,
        "bias_C": w[f"b_{inner}"],
    }
    return functional_call(cell, own, (x, h))


def _update(case: Any) -> dict[str, np.ndarray] | None:
    """Algorithm 1 with Adam, without resets, as the series that the function has by default: order 2."""
    config = case.config
    if case.kind != "update" or config["algorithm"] != "neumann_cayley" or config["optimizer"]["name"] != "adam":
        return None
    options = config["optimizer"]
    if (config["order"], config["reset_every"], options["weight_decay"]) != (2, None, 0):
        return None
    parameter = torch.from_numpy(case.inputs["A0"]).clone().requires_grad_()
    n, rate = len(parameter), options["learning_rate"]
    betas = options["beta1"], options["beta2"]
    optimizer = torch.optim.Adam([parameter], rate, betas, options["epsilon"])
    D = np.diag(np.where(np.arange(n) < n - config["negative_ones"], 1.0, -1.0))
    A_tilde = np.linalg.inv(np.eye(n) + case.inputs["A0"])
    W = A_tilde @ (np.eye(n) - case.inputs["A0"]) @ D
    steps = []
    for gradient in case.inputs["dU"]:
        A = parameter.detach().numpy()
        step = updates["Cayley_Transform_Deriv"](gradient, A, W, D, A_tilde)
        parameter.grad = torch.from_numpy(step)
        optimizer.step()
        A = parameter.detach().numpy().copy()
        W, A_tilde = updates["makeW"](A, D, A_tilde, step, rate)
        steps.append((A, A_tilde, W))
    return {name: np.stack(found) for name, found in zip(("A", "A_tilde", "U"), zip(*steps, strict=True), strict=True)}


updates = runpy.run_path(str(checkout(*SOURCE) / "denoise_task" / "utils.py"))  # below, another file has that name
importable(*SOURCE, "character_Penn_TreeBank")
torch.nn.init.constant = torch.nn.init.constant_  # PyTorch's name for it then
from model import NCGRUCell

CELL = "gru_reset_before" if PAPER else "gru_reset_after"
run = either(_update, from_torch(_step, cell={"cell": CELL, "activation": "modrelu"}, step=True))
