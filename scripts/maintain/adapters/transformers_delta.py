"""Transformers' delta rules in PyTorch: Qwen3-Next's gated delta rule and Kimi Linear's KDA; autograd's gradients.

TRANSFORMERS_DELTA says which form: "recurrent", step by step, or "chunk", by chunks of 64.  Both compute in float32
whatever they are given, and know no resets.
"""

import os
from typing import Any

from transformers.models.kimi_linear import modeling_kimi_linear as kimi
from transformers.models.qwen3_next import modeling_qwen3_next as qwen

from ortho_ref.adapters import either, from_torch

FORMS: dict[tuple[str, str], Any] = {
    ("gated_delta_rule", "recurrent"): qwen.torch_recurrent_gated_delta_rule,
    ("gated_delta_rule", "chunk"): qwen.torch_chunk_gated_delta_rule,
    ("kda", "recurrent"): kimi.recurrent_kimi_delta_attention,
    ("kda", "chunk"): kimi.chunk_kimi_delta_attention,
}
FORM = os.environ.get("TRANSFORMERS_DELTA", "recurrent")


def _forward(x: dict[str, Any], config: dict[str, Any]) -> dict[str, Any] | None:
    """Batch first; the state is (B, H, K, V) as ours."""
    if config["resets"]:
        return None
    o, S = FORMS[config["recurrence"], FORM](
        *(x[name].transpose(0, 1) for name in ("q", "k", "v", "g", "beta")),
        initial_state=x.get("S0"),
        output_final_state=True,
        use_qk_l2norm_in_kernel=config["normalise"],
    )
    return {"o": o.transpose(0, 1), "S_T": S}


run = either(from_torch(_forward, cell="gated_delta_rule"), from_torch(_forward, cell="kda"))
