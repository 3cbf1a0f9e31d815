"""PyTorch's nn.RNN, nn.LSTM and nn.GRU, forward and by autograd.  Tokens are given as one-hot vectors.

The layers return c of the last step only: that of every step is from a second run, one step at a time.  A mask with
holes is not for them: a packed sequence is.  Forward alone in float16 and bfloat16:

python -m ortho_ref.conformance run --adapter scripts/maintain/adapters/torch_rnn.py --forward --dtype bfloat16
"""

from torch import nn

from ortho_ref.adapters import either, from_torch

run = either(from_torch(nn.RNN), from_torch(nn.LSTM), from_torch(nn.GRU))
