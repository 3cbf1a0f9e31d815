"""Keras 3's SimpleRNN, LSTM and GRU on its PyTorch backend, forward and by autograd.  Tokens as one-hot vectors.

The layers return c of the last step only: that of every step is from a second run, one step at a time.  On this
backend keras.ops.matmul gives float32 for float64 (3.15.1; Keras issue 23704): see it with --dtype float32 too.
"""

import os

os.environ["KERAS_BACKEND"] = "torch"

from keras.layers import GRU, LSTM, SimpleRNN

from ortho_ref.adapters import either, from_keras

run = either(from_keras(SimpleRNN), from_keras(LSTM), from_keras(GRU))
