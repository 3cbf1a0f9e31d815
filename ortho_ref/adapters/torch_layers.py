"""PyTorch's layers whole: several, in one direction or two, packed by lengths; a user's modules of that shape too."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from ortho_ref import converters
from ortho_ref.adapters.layers import ByWay, Layer
from ortho_ref.adapters.sequence import Call
from ortho_ref.converters.framework import Arrays
from ortho_ref.trees import under


class TorchLayers(ByWay):
    """A layout of PyTorch's own layers."""

    def __init__(self, layer: Layer) -> None:
        super().__init__(converters.by_name("pytorch"), layer)

    def to_framework(self, weights: Arrays) -> Arrays:
        """The state_dict."""
        own = {way.name: under(f"{way.name}.", weights) for way in self.layer.ways}
        return converters.layers_to_torch(self.config, own)

    def gradients_from(self, gradients: Mapping[str, np.ndarray], weights: Arrays) -> Arrays:
        """Back, a direction after the other."""
        by_way: dict[str, Arrays] = {}
        for way in self.layer.ways:
            end = f"_l{way.layer}{'_reverse' if way.reverse else ''}"
            own = {f"{name.removesuffix(end)}_l0": g for name, g in gradients.items() if name.endswith(end)}
            by_way[way.name] = own
        return super().gradients_from(by_way, weights)


def gradients_of(loss: Any, leaves: list[Any], torch: Any) -> list[np.ndarray]:
    """The gradients by the leaves, 0 for one that the loss does not depend on."""
    if not loss.requires_grad:
        raise ValueError("no gradient can be taken of what was returned: it is detached from x, h0 and the weights")
    return [g.cpu().numpy() for g in torch.autograd.grad(loss, leaves, allow_unused=True, materialize_grads=True)]


def packed_by(module: Any, layer: Layer, torch: Any) -> Call:
    """A call with the sequences packed by their lengths."""
    rnn, lengths = torch.nn.utils.rnn, torch.from_numpy(np.array(layer.keep))

    def call(x: Any, state: Any) -> Any:
        packed = rnn.pack_padded_sequence(x, lengths, module.batch_first, enforce_sorted=False)
        y, last = module(packed, state)
        return rnn.pad_packed_sequence(y, module.batch_first, total_length=len(layer.x))[0], last

    return call


def set_back_by(module: Any, layer: Layer, torch: Any) -> Call:
    """A call in pieces, up to the next step before which the state of any sequence is set back."""
    anew = np.array(layer.keep)
    cuts = [0, *(t for t in range(1, len(anew)) if anew[t].any()), len(anew)]
    goes_on = torch.from_numpy(~anew)

    def call(x: Any, state: Any) -> Any:
        time, pieces = int(module.batch_first), []
        for begin, end in pairwise(cuts):
            kept = goes_on[begin][:, None].to(x.device)
            state = tuple(part * kept for part in state) if isinstance(state, tuple) else state * kept
            y, state = module(x.narrow(time, begin, end - begin), state)
            pieces.append(y)
        return torch.cat(pieces, dim=time), state

    return call


def called(module: Any, layer: Layer, torch: Any) -> Call:
    """A module as it is, or with sequences that end or begin in the middle."""
    around = {"lengths": packed_by, "resets": set_back_by}
    return around[layer.padding](module, layer, torch) if layer.padding else module
