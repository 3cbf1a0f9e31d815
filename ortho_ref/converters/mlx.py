"""MLX's nn.RNN, nn.LSTM and nn.GRU, as `parameters()` names their arrays; G gates, n units, m inputs.

RNN: Wxh (n, m), Whh (n, n), bias (n,)   LSTM: Wx (4 n, m), Wh (4 n, n), bias (4 n,)
GRU: Wx (3 n, m), Wh (3 n, n), b (3 n,), bhn (n,), the candidate's recurrent bias
"""

from typing import ClassVar

from ortho_ref.converters.framework import (
    BOTH,
    Arrays,
    Blocks,
    Framework,
    Layout,
    Layouts,
    Shapes,
    by_gate,
    inner,
    joined,
)


class MLX(Framework):
    """Gates stacked: LSTM i f g o, GRU r z n."""

    title = "MLX"
    layouts: ClassVar[Layouts] = {
        "elman": Layout(("",), BOTH),
        "lstm": Layout(("i", "f", "g", "o")),
        "gru_reset_after": Layout(("r", "z", "h")),
    }

    def shapes(self, layout: Layout, n: int, m: int) -> Shapes:
        """Weights (G n, m) and (G n, n), the bias (G n,), of a GRU bhn (n,)."""
        k = len(layout.gates) * n
        own: Shapes = dict(zip(_names(layout), ((k, m), (k, n), (k,)), strict=True))
        return own if layout.inner is None else own | {"bhn": (n,)}

    def sizes(self, layout: Layout) -> tuple[tuple[str, int], tuple[str, int]]:
        """Off the last axes of the weights."""
        W, U, _ = _names(layout)
        return (U, -1), (W, -1)

    def unpack(self, layout: Layout, w: Arrays) -> Blocks:
        """Each array cut by gate; b_hh is 0 but the candidate's."""
        W, U, b = (by_gate(layout, w[name]) for name in _names(layout))
        return Blocks(W, U, b, inner(layout, b, w.get("bhn")))

    def pack(self, layout: Layout, blocks: Blocks) -> Arrays:
        """The inverse of `unpack`."""
        own = dict(zip(_names(layout), map(joined, blocks[:3]), strict=True))
        return own if layout.inner is None else own | {"bhn": blocks.b_hh[layout.inner]}


def _names(layout: Layout) -> tuple[str, str, str]:
    """The weight of the input, that of the state, the bias."""
    if layout.gates == ("",):
        return "Wxh", "Whh", "bias"
    return "Wx", "Wh", "bias" if layout.inner is None else "b"
