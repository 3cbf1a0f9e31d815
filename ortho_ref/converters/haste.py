"""haste's LSTM and GRU (haste_pytorch), by the names of their parameters; G gates, n units, m inputs.

kernel (m, G n)   recurrent_kernel (n, G n)   bias (G n,)   of a GRU also recurrent_bias (3 n,)

By the equations of its source: it runs on a GPU alone, and no test of ours runs it.
"""

from typing import ClassVar

import numpy as np

from ortho_ref.converters.framework import Arrays, Blocks, Framework, Layout, Layouts, Shapes, by_gate, joined


class Haste(Framework):
    """Gates stacked: LSTM i g f o, GRU z r g, its reset gate after the product.  There is no simple RNN."""

    title = "haste"
    layouts: ClassVar[Layouts] = {
        "lstm": Layout(("i", "g", "f", "o")),
        "gru_reset_after": Layout(("z", "r", "h")),
    }

    def shapes(self, layout: Layout, n: int, m: int) -> Shapes:
        """The kernels (m, G n) and (n, G n), bias (G n,), of a GRU recurrent_bias too."""
        k = len(layout.gates) * n
        own: Shapes = {"kernel": (m, k), "recurrent_kernel": (n, k), "bias": (k,)}
        return own if layout.inner is None else own | {"recurrent_bias": (k,)}

    def sizes(self, layout: Layout) -> tuple[tuple[str, int], tuple[str, int]]:
        """Off the kernels, whose rows are inputs."""
        return ("recurrent_kernel", 0), ("kernel", 0)

    def unpack(self, layout: Layout, w: Arrays) -> Blocks:
        """Kernels transposed; b_hh is 0 of an LSTM."""
        b_hh = np.zeros_like(w["bias"]) if layout.inner is None else w["recurrent_bias"]
        return Blocks(*(by_gate(layout, a) for a in (w["kernel"].T, w["recurrent_kernel"].T, w["bias"], b_hh)))

    def pack(self, layout: Layout, blocks: Blocks) -> Arrays:
        """The inverse of `unpack`."""
        W, U, b, b_hh = map(joined, blocks)
        own = {"kernel": W.T, "recurrent_kernel": U.T, "bias": b}
        return own if layout.inner is None else own | {"recurrent_bias": b_hh}
