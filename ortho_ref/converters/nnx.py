"""Flax nnx's SimpleCell, LSTMCell, OptimizedLSTMCell and GRUCell: the tree of their state; G gates, n units, m inputs.

{"dense_i": {"kernel": (m, G n), "bias": (G n,)}, "dense_h": {"kernel": (n, G n)}}   SimpleCell, GRUCell
{"dense_i": {"kernel": (m, 4 n)}, "dense_h": {"kernel": (n, 4 n), "bias": (4 n,)}}   OptimizedLSTMCell

LSTMCell has the gates apart, {"ii": {"kernel": (m, n)}, "hi": {"kernel": (n, n), "bias": (n,)}, "if_": ...}: that is
NNXByGate.
"""

from typing import ClassVar

import numpy as np

from ortho_ref.converters.flax import Flax
from ortho_ref.converters.framework import BOTH, Arrays, Blocks, Layout, Layouts, Shapes, by_gate, joined


class NNX(Flax):
    """Two dense layers, of the input and of the state, gates side by side; the bias is the input's, an LSTM's not.

    GRUCell has no recurrent bias of the candidate: gru_reset_after with `recurrent_bias` is not there.
    """

    title = "Flax nnx"
    layouts: ClassVar[Layouts] = {
        "elman": Layout(("",), BOTH),
        "lstm": Layout(("i", "f", "g", "o")),
        "gru_reset_after": Layout(("r", "z", "h"), BOTH, recurrent_bias=False),
    }

    def shapes(self, layout: Layout, n: int, m: int) -> Shapes:
        """Two kernels, (m, G n) and (n, G n), and a bias (G n,)."""
        k = len(layout.gates) * n
        return {"dense_i/kernel": (m, k), "dense_h/kernel": (n, k), _bias(layout): (k,)}

    def sizes(self, layout: Layout) -> tuple[tuple[str, int], tuple[str, int]]:
        """Off the kernels, whose rows are inputs."""
        return ("dense_h/kernel", 0), ("dense_i/kernel", 0)

    def unpack(self, layout: Layout, w: Arrays) -> Blocks:
        """Kernels transposed; b_hh is 0."""
        W, U, b = (by_gate(layout, a) for a in (w["dense_i/kernel"].T, w["dense_h/kernel"].T, w[_bias(layout)]))
        return Blocks(W, U, b, np.zeros_like(b))

    def pack(self, layout: Layout, blocks: Blocks) -> Arrays:
        """The inverse of `unpack`."""
        W, U, b, _ = map(joined, blocks)
        return {"dense_i/kernel": W.T, "dense_h/kernel": U.T, _bias(layout): b}


class NNXByGate(Flax):
    """LSTMCell of Flax nnx: linen's layout with the attribute if_ for the dense layer if, a word of Python's."""

    title = "Flax nnx's LSTMCell"
    layouts: ClassVar[Layouts] = {"lstm": Flax.layouts["lstm"]}
    input_forget: ClassVar[str] = "if_"


def _bias(layout: Layout) -> str:
    """Which dense layer has the bias."""
    return "dense_h/bias" if "f" in layout.gates else "dense_i/bias"
