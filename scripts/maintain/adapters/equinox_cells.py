"""Equinox's LSTMCell and GRUCell, forward and by jax.grad, step by step.  Tokens are given as one-hot vectors."""

from equinox.nn import GRUCell, LSTMCell

from ortho_ref.adapters import either, from_equinox

run = either(from_equinox(LSTMCell), from_equinox(GRUCell))
