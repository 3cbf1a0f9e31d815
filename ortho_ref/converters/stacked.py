"""Frameworks whose layers have their gates stacked, as a table; G gates, n units, m inputs.

            W               U                 biases
PyTorch     weight_ih_l0    weight_hh_l0      bias_ih_l0 and bias_hh_l0 (G n,)
Equinox     weight_ih       weight_hh         bias (G n,), of a GRU also bias_n (n,)
MLX         Wx; RNN Wxh     Wh; RNN Whh       bias (G n,); GRU b (G n,) and bhn (n,)
  (G n, m) and (G n, n)
ONNX        W (1, G n, m)   R (1, G n, n)     B (1, 2 G n): of the input, then recurrent ones
Keras       kernel          recurrent_kernel  bias (G n,), of a GRU with reset_after=True (2, G n)
haste       kernel          recurrent_kernel  bias (G n,), of a GRU also recurrent_bias (G n,)
Flax nnx    dense_i/kernel  dense_h/kernel    dense_i/bias (G n,), of an LSTM dense_h/bias
  (m, G n) and (n, G n)

bias_n and bhn are the candidate's.  PyTorch's names are a state_dict's; of further layers, of a second direction and of
Cells: `torch_state`.  Equinox's are attributes, MLX's of `parameters()`; Keras's stand as `set_weights` takes them.
Flax nnx's are a tree, of SimpleCell, GRUCell and OptimizedLSTMCell; its LSTMCell has the gates apart.  haste runs on a
GPU alone: by the equations of its source, and no test of ours runs it.
"""

from typing import ClassVar

import numpy as np

from ortho_ref.converters.flax import Flax
from ortho_ref.converters.framework import BOTH, Array, Arrays, Blocks, Framework, Kept, Layout, Layouts

_IFGO, _RZH, _ZRH, _URC = ("i", "f", "g", "o"), ("r", "z", "h"), ("z", "r", "h"), ("u", "r", "c")


class Stacked(Framework):
    """What they share: each array cut by gate; recurrent biases that are not there are 0."""

    columns: ClassVar[bool] = False  # whether gates are columns, and rows inputs
    axes: ClassVar[int] = 0  # further axes in front, of one entry each

    def sizes(self, layout: Layout) -> tuple[tuple[str, int], tuple[str, int]]:
        """Off the inputs' axes of the weights."""
        axis = 0 if self.columns else -1
        return (layout.kept.U, axis), (layout.kept.W, axis)

    def unpack(self, layout: Layout, w: Arrays) -> Blocks:
        """Each array cut by gate."""
        kept, G = layout.kept, len(layout.gates)
        W, U = (self._turned(a.reshape(a.shape[self.axes :])) for a in (w[kept.W], w[kept.U]))
        b, b_hh = w[kept.b].reshape(2, -1) if kept.rows else (w[kept.b], np.zeros_like(w[kept.b]))
        if kept.b_hh and not kept.inner:
            b_hh = w[kept.b_hh]
        blocks = Blocks(*(a.reshape(G, -1, *a.shape[1:]) for a in (W, U, b, b_hh)))
        if kept.inner:
            blocks.b_hh[layout.inner] = w[kept.b_hh]
        return blocks

    def pack(self, layout: Layout, blocks: Blocks) -> Arrays:
        """The inverse of `unpack`."""
        kept = layout.kept
        W, U, b, b_hh = (a.reshape(len(a) * a.shape[1], *a.shape[2:]) for a in blocks)  # of no units, too
        own = {name: self._turned(a)[(None,) * self.axes] for name, a in ((kept.W, W), (kept.U, U))}
        own[kept.b] = np.stack([b, b_hh]).reshape(kept.rows, -1) if kept.rows else b
        return own | ({kept.b_hh: blocks.b_hh[layout.inner] if kept.inner else b_hh} if kept.b_hh else {})

    def _turned(self, a: Array) -> Array:
        return a.T if self.columns else a


class PyTorch(Stacked):
    """nn.RNN, nn.LSTM and nn.GRU."""

    title = "PyTorch"
    _kept: ClassVar[Kept] = Kept("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
    layouts: ClassVar[Layouts] = {
        "elman": Layout(("",), BOTH, kept=_kept),
        "lstm": Layout(_IFGO, kept=_kept),
        "gru_reset_after": Layout(_RZH, kept=_kept),
    }


class ONNX(Stacked):
    """RNN, LSTM, and GRU with either place of the reset gate; z = 1 - u."""

    title = "ONNX"
    axes = 1
    _kept: ClassVar[Kept] = Kept("W", "R", "B", rows=1)
    layouts: ClassVar[Layouts] = {
        "elman": Layout(("",), BOTH, kept=_kept),
        "lstm": Layout(("i", "o", "f", "g"), kept=_kept),
        "gru_reset_after": Layout(_ZRH, BOTH, kept=_kept),
        "gru_reset_before": Layout(_URC, BOTH, flipped="u", kept=_kept),
    }


class Keras(Stacked):
    """Keras 3's SimpleRNN, LSTM, and GRU with either place of the reset gate; z = 1 - u."""

    title = "Keras"
    columns = True
    _kept: ClassVar[Kept] = Kept("kernel", "recurrent_kernel", "bias")
    layouts: ClassVar[Layouts] = {
        "elman": Layout(("",), BOTH, kept=_kept),
        "lstm": Layout(_IFGO, kept=_kept),
        "gru_reset_after": Layout(_ZRH, BOTH, kept=_kept._replace(rows=2)),
        "gru_reset_before": Layout(_URC, BOTH, flipped="u", kept=_kept),
    }


class Haste(Stacked):
    """haste_pytorch's LSTM and GRU, its reset gate after the product.  There is no simple RNN."""

    title = "haste"
    columns = True
    _kept: ClassVar[Kept] = Keras._kept
    layouts: ClassVar[Layouts] = {
        "lstm": Layout(("i", "g", "f", "o"), kept=_kept),
        "gru_reset_after": Layout(_ZRH, kept=_kept._replace(b_hh="recurrent_bias")),
    }


class Equinox(Stacked):
    """LSTMCell and GRUCell.  There is no simple RNN."""

    title = "Equinox"
    _kept: ClassVar[Kept] = Kept("weight_ih", "weight_hh", "bias")
    layouts: ClassVar[Layouts] = {
        "lstm": Layout(_IFGO, kept=_kept),
        "gru_reset_after": Layout(_RZH, kept=_kept._replace(b_hh="bias_n", inner=True)),
    }


class MLX(Stacked):
    """nn.RNN, nn.LSTM and nn.GRU."""

    title = "MLX"
    layouts: ClassVar[Layouts] = {
        "elman": Layout(("",), BOTH, kept=Kept("Wxh", "Whh", "bias")),
        "lstm": Layout(_IFGO, kept=Kept("Wx", "Wh", "bias")),
        "gru_reset_after": Layout(_RZH, kept=Kept("Wx", "Wh", "b", "bhn", inner=True)),
    }


class NNX(Stacked, Flax):
    """SimpleCell, OptimizedLSTMCell and GRUCell, which has no recurrent bias of the candidate."""

    title = "Flax nnx"
    columns = True
    _kept: ClassVar[Kept] = Kept("dense_i/kernel", "dense_h/kernel", "dense_i/bias")
    layouts: ClassVar[Layouts] = {
        "elman": Layout(("",), BOTH, kept=_kept),
        "lstm": Layout(_IFGO, kept=_kept._replace(b="dense_h/bias")),
        "gru_reset_after": Layout(_RZH, BOTH, recurrent_bias=False, kept=_kept),
    }
