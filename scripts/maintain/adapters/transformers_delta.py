"""Transformers' delta rules in PyTorch: Qwen3-Next's gated delta rule and Kimi Linear's KDA; autograd's gradients.

TRANSFORMERS_DELTA says which form: "recurrent", step by step, or "chunk", by chunks of 64.  Both compute in float32
whatever they are given, and know no resets.
"""

import os
from typing import Any

import numpy as np
from transformers.models.kimi_linear import modeling_kimi_linear as kimi
from transformers.models.qwen3_next import modeling_qwen3_next as qwen

from ortho_ref.conformance import Case
from scripts.maintain.scoreboard.by_autograd import by_autograd

FORMS: dict[tuple[str, str], Any] = {
    ("gated_delta_rule", "recurrent"): qwen.torch_recurrent_gated_delta_rule,
    ("gated_delta_rule", "chunk"): qwen.torch_chunk_gated_delta_rule,
    ("kda", "recurrent"): kimi.recurrent_kimi_delta_attention,
    ("kda", "chunk"): kimi.chunk_kimi_delta_attention,
}
FORM = os.environ.get("TRANSFORMERS_DELTA", "recurrent")


def run(case: Case) -> dict[str, np.ndarray] | None:
    """Batch first; the state is (B, H, K, V) as ours."""
    rule = FORMS.get((case.config.get("recurrence", ""), FORM))
    if rule is None or case.config["resets"]:
        return None

    def forward(x: dict[str, Any]) -> dict[str, Any]:
        o, S = rule(
            *(x[name].transpose(0, 1) for name in ("q", "k", "v", "g", "beta")),
            initial_state=x.get("S0"),
            output_final_state=True,
            use_qk_l2norm_in_kernel=case.config["normalise"],
        )
        return {"o": o.transpose(0, 1), "S_T": S}

    return by_autograd(case, forward)
