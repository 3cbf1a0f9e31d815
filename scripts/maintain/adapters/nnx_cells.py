"""Flax nnx's recurrent cells, forward and by jax.grad, step by step.  Tokens are given as one-hot vectors."""

from flax import nnx

from ortho_ref.adapters import either, from_flax

run = either(*(from_flax(cell) for cell in (nnx.SimpleCell, nnx.LSTMCell, nnx.OptimizedLSTMCell, nnx.GRUCell)))
