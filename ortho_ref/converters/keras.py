"""Keras 3's SimpleRNN, LSTM and GRU; G gates, n units, m inputs.  `set_weights` takes the arrays in this order.

kernel (m, G n)   recurrent_kernel (n, G n)   bias (G n,); of a GRU with reset_after=True (2, G n)
"""

from typing import ClassVar

import numpy as np

from ortho_ref.converters.framework import BOTH, Arrays, Blocks, Framework, Layout, Layouts, Shapes, by_gate, joined


class Keras(Framework):
    """Gates stacked: LSTM i f c o, GRU z r h with either place of the reset gate; z = 1 - u."""

    title = "Keras"
    layouts: ClassVar[Layouts] = {
        "elman": Layout(("",), BOTH),
        "lstm": Layout(("i", "f", "g", "o")),
        "gru_reset_after": Layout(("z", "r", "h"), BOTH),
        "gru_reset_before": Layout(("u", "r", "c"), BOTH, flipped="u"),
    }

    def shapes(self, layout: Layout, n: int, m: int) -> Shapes:
        """The kernels (m, G n) and (n, G n), and bias (G n,), of gru_reset_after (2, G n)."""
        k = len(layout.gates) * n
        return {"kernel": (m, k), "recurrent_kernel": (n, k), "bias": (k,) if layout.inner is None else (2, k)}

    def sizes(self, layout: Layout) -> tuple[tuple[str, int], tuple[str, int]]:
        """Off the kernels, whose rows are inputs."""
        return ("recurrent_kernel", 0), ("kernel", 0)

    def unpack(self, layout: Layout, w: Arrays) -> Blocks:
        """Kernels transposed; b_hh is 0 but gru_reset_after's."""
        bias = w["bias"]
        biases = (bias, np.zeros_like(bias)) if layout.inner is None else bias
        return Blocks(*(by_gate(layout, a) for a in (w["kernel"].T, w["recurrent_kernel"].T, *biases)))

    def pack(self, layout: Layout, blocks: Blocks) -> Arrays:
        """The inverse of `unpack`; of gru_reset_after both biases, one above the other."""
        W, U, b, b_hh = map(joined, blocks)
        return {"kernel": W.T, "recurrent_kernel": U.T, "bias": b if layout.inner is None else np.stack([b, b_hh])}
