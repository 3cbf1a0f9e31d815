"""PyTorch's nn.RNN, nn.LSTM and nn.GRU, forward and by autograd.  Tokens are given as one-hot vectors.

The layers return c of the last step only: that of every step is from a second run, one step at a time.
"""

from torch import nn

from ortho_ref.adapters import either, from_torch

run = either(from_torch(nn.RNN), from_torch(nn.LSTM), from_torch(nn.GRU))
