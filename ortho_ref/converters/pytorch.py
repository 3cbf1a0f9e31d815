"""nn.RNN, nn.LSTM and nn.GRU, as a state_dict names their arrays; G gates, n units, m inputs.

weight_ih_l0 (G n, m)   weight_hh_l0 (G n, n)   bias_ih_l0 and bias_hh_l0 (G n,)

The next layer's end in _l1 instead: `joined_layers` and `split_layers`.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

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

    def joined_layers(self, layers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """One state_dict of several layers, of each what `to_framework` gives: layer k under names in _lk."""
        return {name.removesuffix("0") + str(k): own[name] for k, own in enumerate(layers) for name in own}

    def split_layers(self, state: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The inverse of `joined_layers`; ValueError for another direction, a projection, or a missing layer."""
        layers: dict[int, dict[str, Any]] = {}
        for name, array in state.items():
            found = re.fullmatch(r"((?:weight|bias)_(?:ih|hh)_l)(0|[1-9][0-9]*)", name)
            if found is None:
                raise ValueError(f"{self.title}: unknown {name!r}; expected {', '.join(NAMES)}, and so on by layer")
            layers.setdefault(int(found[2]), {})[f"{found[1]}0"] = array
        if not layers or sorted(layers) != list(range(len(layers))):
            raise ValueError(f"{self.title}: the state has layers {sorted(layers)}; expected 0, 1, and so on")
        return [layers[k] for k in range(len(layers))]
