"""PyTorch's nn.RNN, nn.LSTM and nn.GRU as layers: bias=False, no state, two directions, two layers, packed sequences.

A mask with holes is not for them: a packed sequence is.  Forward alone in float16 and bfloat16:

python -m ortho_ref.conformance run --adapter scripts/maintain/adapters/torch_layers.py --forward --dtype bfloat16
"""

from torch import nn

from ortho_ref.adapters import either, from_torch

run = either(from_torch(nn.RNN), from_torch(nn.LSTM), from_torch(nn.GRU))
