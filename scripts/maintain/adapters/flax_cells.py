"""Flax linen's recurrent cells, forward and by jax.grad, step by step.  Tokens are given as one-hot vectors.

SimpleCell, LSTMCell or OptimizedLSTMCell (FLAX_LSTM=OptimizedLSTMCell), and GRUCell.
"""

import os

from flax import linen

from ortho_ref.adapters import either, from_flax

LSTM = getattr(linen, os.environ.get("FLAX_LSTM", "LSTMCell"))
run = either(from_flax(linen.SimpleCell), from_flax(LSTM), from_flax(linen.GRUCell))
