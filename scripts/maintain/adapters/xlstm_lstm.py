"""xLSTM's own LSTM: the sLSTM layer's loop in PyTorch ("vanilla"), with its function "lstm"; one head.

The exponential gates of sLSTM are another recurrence, of kind linear; `xlstm_cells` asks for it.
"""

from typing import Any

import torch
from xlstm.blocks.slstm.src.vanilla import slstm_forward, slstm_pointwise_function_registry

from ortho_ref.adapters import from_torch

GATES = "ifgo"


def _forward(x: Any, state: Any, w: Any) -> Any:
    W, U, b = (torch.cat([w[f"{letter}_{gate}"] for gate in GATES]) for letter in "WUb")
    states, _, _ = slstm_forward(x @ W.T, torch.stack(state), U[None], b, slstm_pointwise_function_registry["lstm"])
    return states[0, 1:], states[1, 1:]


run = from_torch(_forward, cell="lstm")
