"""flash-linear-attention's naive.py in PyTorch: RWKV-7 (DPLR) and gated DeltaProduct; autograd's gradients.

FLA_DPLR says which form of the former: "recurrence", step by step, or "chunkwise".  Each file is loaded by itself, as
the package needs Triton.  They compute in float32 whatever they are given, and know no resets.  Keys come normalised;
RWKV-7 takes -kappa and a * kappa, and divides q by sqrt(K).
"""

import os
from importlib.util import module_from_spec, spec_from_file_location
from typing import Any

from ortho_ref.adapters import either, from_torch
from scripts.maintain.scoreboard.sources import checkout, chunk

ROOT = checkout("fla-org/flash-linear-attention", "bc3b101dcb713ddc5bd8924b66754eb68b5ccf89")
FORM = os.environ.get("FLA_DPLR", "recurrence")


def _naive(folder: str) -> Any:
    spec: Any = spec_from_file_location("naive", ROOT / "fla" / "ops" / folder / "naive.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


DPLR, DELTA_PRODUCT = _naive("generalized_delta_rule/dplr"), _naive("gated_delta_product")


def _unit(config: dict[str, Any], a: Any) -> Any:
    return a / (a.square().sum(-1, keepdim=True) + config["eps"]).sqrt() if config["normalise"] else a


def _rwkv7(x: dict[str, Any], config: dict[str, Any]) -> dict[str, Any] | None:
    """(B, H, T, K)."""
    if config["resets"]:
        return None
    kappa = _unit(config, x["kappa"])
    q = x["r"] * x["r"].shape[-1] ** 0.5
    arrays = (a.movedim(0, 2) for a in (q, x["k"], x["v"], -kappa, x["a"] * kappa, x["w"]))
    sizes = {"chunk_size": chunk(len(q))} if FORM == "chunkwise" else {}
    o, S = getattr(DPLR, f"dplr_{FORM}")(*arrays, initial_state=x.get("S0"), **sizes)
    return {"o": o.movedim(2, 0), "S_T": S}


def _delta_product(x: dict[str, Any], config: dict[str, Any]) -> dict[str, Any] | None:
    """(B, T, H, K), the writes of a step one after the other on the axis of time."""
    if config["resets"]:
        return None
    q, k = _unit(config, x["q"]) * config["scale"], _unit(config, x["k"])
    k, v, beta = (a.flatten(0, 1).transpose(0, 1) for a in (k, x["v"], x["beta"]))
    q, g = q.transpose(0, 1), x["g"].transpose(0, 1)
    o, S = DELTA_PRODUCT.naive_recurrent_gated_delta_product(
        q, k, v, g, beta, None, None, initial_state=x.get("S0"), num_householder=x["k"].shape[1]
    )
    return {"o": o.transpose(0, 1), "S_T": S}


run = either(from_torch(_rwkv7, cell="rwkv7"), from_torch(_delta_product, cell="delta_product"))
