"""Keras 3's SimpleRNN, LSTM and GRU, forward and by the gradients of its backend.  Tokens as one-hot vectors.

KERAS_BACKEND is the backend: torch unless set, or jax, tensorflow.  The layers return c of the last step only: that of
every step is from a second run, one step at a time.  Operations of some backends give float32 for float64 (3.15.1):
keras.ops.matmul on torch (Keras issue 23704), keras.ops.tanh on jax.  See it with --dtype float32 too.
"""

import os

os.environ.setdefault("KERAS_BACKEND", "torch")

from keras.layers import GRU, LSTM, SimpleRNN

from ortho_ref.adapters import either, from_keras

run = either(from_keras(SimpleRNN), from_keras(LSTM), from_keras(GRU))
