"""expRNN's released code, from a checkout: its exponential, its Cayley map, its modReLU, and its cell.

torch.solve, which PyTorch has no more, is put back by torch.linalg.solve.  The cell's matrix is its map of 0, times a
base that is ours.
"""

from typing import Any

import numpy as np
import torch

from ortho_ref.adapters import either, from_torch
from scripts.maintain.scoreboard.sources import importable
from scripts.maintain.scoreboard.torch_maps import outputs

importable("Lezcano/expRNN", "830ec836521d0c295436dcafc3f0b3deea36c83c")
setattr(torch, "solve", lambda B, A: (torch.linalg.solve(A, B), None))  # noqa: B010
import orthogonal
import trivializations

MAPS = {"scaled_cayley": trivializations.cayley_map, "exponential": trivializations.expm}


def _maps(case: Any) -> dict[str, np.ndarray] | None:
    if case.kind != "parametrization" or case.config["parametrization"] not in MAPS:
        return None
    if case.config.get("negative_ones"):
        return None  # it has no D

    def map(parameters: Any) -> Any:
        A = parameters["A"]
        layer = orthogonal.Orthogonal(*A.shape, torch.nn.init.zeros_, "static", MAPS[case.config["parametrization"]])
        return layer.retraction(A, torch.eye(len(A), dtype=A.dtype))

    return outputs(case, map)


def _modrelu(case: Any) -> dict[str, np.ndarray] | None:
    if case.kind != "activation" or case.config["activation"] != "modrelu" or case.config["complex"]:
        return None
    a, b, dy = (torch.from_numpy(case.inputs[name]) for name in ("a", "b", "dy"))
    a, b = a.requires_grad_(), b.requires_grad_()
    layer: Any = orthogonal.modrelu(len(b))
    del layer.b
    layer.b = b
    y = layer(a)
    d_a, d_b = torch.autograd.grad(y, (a, b), dy)
    return {"y": y.detach().numpy(), "d_a": d_a.numpy(), "d_b": d_b.numpy()}


def _step(x: Any, h: Any, w: Any) -> Any:
    own: Any = orthogonal.OrthogonalRNN(x.shape[1], h.shape[1], torch.nn.init.zeros_, "static", trivializations.expm)
    own.to(x.dtype)
    own.recurrent_kernel.base = w["U"].T
    for part, name, value in ((own.input_kernel, "weight", w["W"]), (own.nonlinearity, "b", w["b"])):
        delattr(part, name)
        setattr(part, name, value)
    return own(x, h)[0]


run = either(_maps, _modrelu, from_torch(_step, cell={"cell": "elman", "activation": "modrelu"}, step=True))
