"""Equinox's LSTMCell and GRUCell, by the names of their attributes; G gates, n units, m inputs.

weight_ih (G n, m)   weight_hh (G n, n)   bias (G n,)   of a GRU also bias_n (n,), the candidate's recurrent bias
"""

from typing import ClassVar

from ortho_ref.converters.framework import Arrays, Blocks, Framework, Layout, Layouts, Shapes, by_gate, inner, joined


class Equinox(Framework):
    """Gates stacked: LSTM i f g o, GRU r z n.  There is no simple RNN."""

    title = "Equinox"
    layouts: ClassVar[Layouts] = {
        "lstm": Layout(("i", "f", "g", "o")),
        "gru_reset_after": Layout(("r", "z", "h")),
    }

    def shapes(self, layout: Layout, n: int, m: int) -> Shapes:
        """Weights (G n, m) and (G n, n), bias (G n,), of a GRU bias_n (n,)."""
        k = len(layout.gates) * n
        own: Shapes = {"weight_ih": (k, m), "weight_hh": (k, n), "bias": (k,)}
        return own if layout.inner is None else own | {"bias_n": (n,)}

    def sizes(self, layout: Layout) -> tuple[tuple[str, int], tuple[str, int]]:
        """Off the last axes of the weights."""
        return ("weight_hh", -1), ("weight_ih", -1)

    def unpack(self, layout: Layout, w: Arrays) -> Blocks:
        """Each array cut by gate; b_hh is 0 but the candidate's."""
        W, U, b = (by_gate(layout, w[name]) for name in ("weight_ih", "weight_hh", "bias"))
        return Blocks(W, U, b, inner(layout, b, w.get("bias_n")))

    def pack(self, layout: Layout, blocks: Blocks) -> Arrays:
        """The inverse of `unpack`."""
        own = dict(zip(("weight_ih", "weight_hh", "bias"), map(joined, blocks[:3]), strict=True))
        return own if layout.inner is None else own | {"bias_n": blocks.b_hh[layout.inner]}
