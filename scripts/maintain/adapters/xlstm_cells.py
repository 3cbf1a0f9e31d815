"""xLSTM's two memories in PyTorch: the mLSTM of mlstm_kernels and of xlstm, and xlstm's "vanilla" sLSTM.

XLSTM_MLSTM says which mLSTM: "recurrent" and "chunkwise" are mlstm_kernels' native ones under autograd, "chunkwise-own"
the chunkwise one with the backward pass that is written beside it, "step" and "simple" xlstm's `backends`, step by step
and by chunks, which take K = V alone.  Chunks are of the largest size up to 64 that divides T.  None knows resets or an
exponential forget gate.
"""

import os
from collections.abc import Callable
from typing import Any

import torch
from mlstm_kernels.torch.chunkwise.native.fwbw import mlstm_chunkwise__native_autograd, mlstm_chunkwise__native_custbw
from mlstm_kernels.torch.recurrent.native_sequence import mlstm_recurrent_sequence__native_fw
from xlstm.blocks.mlstm.backends import chunkwise_simple, recurrent_step_stabilized_simple
from xlstm.blocks.slstm.src.vanilla import slstm_forward, slstm_pointwise_function_registry

from ortho_ref.adapters import either, from_torch
from scripts.maintain.scoreboard.sources import chunk

WHICH = os.environ.get("XLSTM_MLSTM", "recurrent")
GATES = "ifzo"
Tensors = dict[str, Any]


def _is_known(config: dict[str, Any]) -> bool:
    return not config["resets"] and config["forget"] == "sigmoid"


def mlstm(x: Tensors, config: dict[str, Any]) -> Tensors | None:
    """Of mlstm_kernels: (B, H, T, K); states as ours, m (B, H, 1)."""
    if not _is_known(config):
        return None
    q, k, v, i, f = (x[name].movedim(0, 2) for name in ("q", "k", "v", "i", "f"))
    state: dict[str, Any] = {}
    if config["initial_state"]:
        state = {"c_initial": x["C0"], "n_initial": x["n0"], "m_initial": x["m0"][..., None]}
    wide: dict[str, Callable[..., Any]] = {
        "recurrent": lambda *a, **o: mlstm_recurrent_sequence__native_fw(*a, **o, dtype_state=q.dtype),
        "chunkwise": lambda *a, **o: mlstm_chunkwise__native_autograd(*a, **o, chunk_size=chunk(q.shape[2])),
        "chunkwise-own": lambda *a, **o: mlstm_chunkwise__native_custbw(*a, **o, chunk_size=chunk(q.shape[2])),
    }
    o, (C, n, m) = wide[WHICH](q, k, v, i, f, **state, return_last_states=True, eps=config["eps"])
    return {"o": o.movedim(2, 0), "C_T": C, "n_T": n, "m_T": m.reshape(x["i"].shape[1:])}


def mlstm_of_xlstm(x: Tensors, config: dict[str, Any]) -> Tensors | None:
    """Of xlstm's backends: (B, H, T, K)."""
    if not _is_known(config):
        return None
    q, k, v, i, f = (x[name].movedim(0, 2) for name in ("q", "k", "v", "i", "f"))
    if q.shape[-1] != v.shape[-1]:
        return None
    B, H, _, K = k.shape
    shapes = {"C": (B, H, K, K), "n": (B, H, K), "m": (B, H)}
    first = [x[f"{name}0"] if f"{name}0" in x else k.new_zeros(shape) for name, shape in shapes.items()]
    if WHICH == "simple":
        own = dict(zip(("initial_C", "initial_n", "initial_m"), (*first[:2], first[2][..., None]), strict=True))
        arrays = (a.contiguous() for a in (q, k, v, i, f))
        o, (C, n, m) = chunkwise_simple(
            *arrays, **own, chunk_size=chunk(q.shape[2]), return_last_state=True, eps=config["eps"]
        )
    else:
        C, n, m = first[0], first[1][..., None], first[2][..., None, None]
        outputs = []
        for t in range(q.shape[2]):
            # copies: the step squeezes what it is given in place
            step = [a[:, :, t : t + 1].clone() for a in (q, k, v)] + [a[:, :, t, None, None] for a in (i, f)]
            h, (C, n, m) = recurrent_step_stabilized_simple(C, n, m, *step, eps=config["eps"])
            outputs.append(h[:, :, 0])
        o = torch.stack(outputs, dim=2)
    last = {"C_T": C, "n_T": n.reshape(x["k"].shape[1:]), "m_T": m.reshape(x["i"].shape[1:])}
    return {"o": o.movedim(2, 0), **last}


def slstm(x: Tensors, config: dict[str, Any]) -> Tensors | None:
    """Of xlstm: the pre-activations of all gates side by side, each with all heads; states (4, B, H D)."""
    if not _is_known(config):
        return None
    T, B, H, D = x["x_i"].shape
    gates = torch.cat([x[f"x_{g}"].reshape(T, B, H * D) for g in GATES], dim=-1)
    R = torch.cat([x[f"R_{g}"] for g in GATES], dim=1)
    zero = torch.zeros_like(x["x_i"][0])
    states = torch.stack([x.get(f"{s}0", zero).reshape(B, H * D) for s in "hcnm"])
    run_step = slstm_pointwise_function_registry["slstm"]
    every, _, _ = slstm_forward(gates, states, R, torch.zeros(4 * H * D, dtype=gates.dtype), run_step)
    last = {f"{s}_T": a.reshape(B, H, D) for s, a in zip("hcnm", every[:, -1], strict=True)}
    return {"o": every[0, 1:].reshape(T, B, H, D), **last}


run = either(
    from_torch(mlstm_of_xlstm if WHICH in ("step", "simple") else mlstm, cell="mlstm"), from_torch(slstm, cell="slstm")
)
