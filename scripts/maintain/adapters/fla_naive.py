"""flash-linear-attention's naive.py in PyTorch: RWKV-7 (DPLR) and gated DeltaProduct; autograd's gradients.

FLA_DPLR says which form of the former: "recurrence", step by step, or "chunkwise".  Each file is loaded by itself, as
the package needs Triton.  They compute in float32 whatever they are given, and know no resets.  Keys come normalised;
RWKV-7 takes -kappa and a * kappa, and divides q by sqrt(K).
"""

import os
from importlib.util import module_from_spec, spec_from_file_location
from typing import Any

import numpy as np

from ortho_ref.conformance import Case
from scripts.maintain.scoreboard.by_autograd import by_autograd, chunk
from scripts.maintain.scoreboard.sources import checkout

ROOT = checkout("fla-org/flash-linear-attention", "bc3b101dcb713ddc5bd8924b66754eb68b5ccf89")
FORM = os.environ.get("FLA_DPLR", "recurrence")


def _naive(folder: str) -> Any:
    spec: Any = spec_from_file_location("naive", ROOT / "fla" / "ops" / folder / "naive.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


DPLR, DELTA_PRODUCT = _naive("generalized_delta_rule/dplr"), _naive("gated_delta_product")


def _unit(case: Case, a: Any) -> Any:
    return a / (a.square().sum(-1, keepdim=True) + case.config["eps"]).sqrt() if case.config["normalise"] else a


def _rwkv7(case: Case, x: dict[str, Any]) -> dict[str, Any]:
    """(B, H, T, K)."""
    kappa = _unit(case, x["kappa"])
    q = x["r"] * x["r"].shape[-1] ** 0.5
    arrays = (a.movedim(0, 2) for a in (q, x["k"], x["v"], -kappa, x["a"] * kappa, x["w"]))
    sizes = {"chunk_size": chunk(len(q))} if FORM == "chunkwise" else {}
    o, S = getattr(DPLR, f"dplr_{FORM}")(*arrays, initial_state=x.get("S0"), **sizes)
    return {"o": o.movedim(2, 0), "S_T": S}


def _delta_product(case: Case, x: dict[str, Any]) -> dict[str, Any]:
    """(B, T, H, K), the writes of a step one after the other on the axis of time."""
    q, k = _unit(case, x["q"]) * case.config["scale"], _unit(case, x["k"])
    k, v, beta = (a.flatten(0, 1).transpose(0, 1) for a in (k, x["v"], x["beta"]))
    q, g = q.transpose(0, 1), x["g"].transpose(0, 1)
    o, S = DELTA_PRODUCT.naive_recurrent_gated_delta_product(
        q, k, v, g, beta, None, None, initial_state=x.get("S0"), num_householder=x["k"].shape[1]
    )
    return {"o": o.transpose(0, 1), "S_T": S}


def run(case: Case) -> dict[str, np.ndarray] | None:
    """What case.config["recurrence"] says, under autograd."""
    own = {"rwkv7": _rwkv7, "delta_product": _delta_product}.get(case.config.get("recurrence", ""))
    return None if own is None or case.config["resets"] else by_autograd(case, lambda x: own(case, x))
