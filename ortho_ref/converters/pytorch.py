"""nn.RNN, nn.LSTM and nn.GRU, as a state_dict names their arrays; G gates, n units, m inputs.

weight_ih_l0 (G n, m)   weight_hh_l0 (G n, n)   bias_ih_l0 and bias_hh_l0 (G n,)
"""

from typing import ClassVar

from ortho_ref.converters.framework import BOTH, Arrays, Blocks, Framework, Layout, Layouts, Shapes, by_gate, joined

NAMES = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")


class PyTorch(Framework):
    """Gates stacked: LSTM i f g o, GRU r z n."""

    title = "PyTorch"
    layouts: ClassVar[Layouts] = {
        "elman": Layout(("",), BOTH),
        "lstm": Layout(("i", "f", "g", "o")),
        "gru_reset_after": Layout(("r", "z", "h")),
    }

    def shapes(self, layout: Layout, n: int, m: int) -> Shapes:
        """Weights (G n, m) and (G n, n), and two biases (G n,)."""
        k = len(layout.gates) * n
        return dict(zip(NAMES, ((k, m), (k, n), (k,), (k,)), strict=True))

    def sizes(self, layout: Layout) -> tuple[tuple[str, int], tuple[str, int]]:
        """Off the last axes of the weights."""
        return ("weight_hh_l0", -1), ("weight_ih_l0", -1)

    def unpack(self, layout: Layout, w: Arrays) -> Blocks:
        """Each array cut by gate."""
        return Blocks(*(by_gate(layout, w[name]) for name in NAMES))

    def pack(self, layout: Layout, blocks: Blocks) -> Arrays:
        """The inverse of `unpack`."""
        return dict(zip(NAMES, map(joined, blocks), strict=True))
