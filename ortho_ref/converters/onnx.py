"""ONNX's operators RNN, LSTM and GRU; G gates, n units, m inputs.

W (1, G n, m)   R (1, G n, n)   B (1, 2 G n): biases of the input, then recurrent ones
"""

from typing import ClassVar

import numpy as np

from ortho_ref.converters.framework import BOTH, Arrays, Blocks, Framework, Layout, Layouts, Shapes, by_gate, joined


class ONNX(Framework):
    """Gates stacked: LSTM i o f c, GRU z r h with either place of the reset gate; z = 1 - u."""

    title = "ONNX"
    layouts: ClassVar[Layouts] = {
        "elman": Layout(("",), BOTH),
        "lstm": Layout(("i", "o", "f", "g")),
        "gru_reset_after": Layout(("z", "r", "h"), BOTH),
        "gru_reset_before": Layout(("u", "r", "c"), BOTH, flipped="u"),
    }

    def shapes(self, layout: Layout, n: int, m: int) -> Shapes:
        """W (1, G n, m), R (1, G n, n) and B (1, 2 G n)."""
        k = len(layout.gates) * n
        return {"W": (1, k, m), "R": (1, k, n), "B": (1, 2 * k)}

    def sizes(self, layout: Layout) -> tuple[tuple[str, int], tuple[str, int]]:
        """Off the last axes of R and W."""
        return ("R", -1), ("W", -1)

    def unpack(self, layout: Layout, w: Arrays) -> Blocks:
        """One direction; B is b, then b_hh."""
        biases = np.split(w["B"][0], 2)
        return Blocks(*(by_gate(layout, a) for a in (w["W"][0], w["R"][0], *biases)))

    def pack(self, layout: Layout, blocks: Blocks) -> Arrays:
        """The inverse of `unpack`."""
        W, R, b, b_hh = map(joined, blocks)
        return {"W": W[None], "R": R[None], "B": np.concatenate([b, b_hh])[None]}
