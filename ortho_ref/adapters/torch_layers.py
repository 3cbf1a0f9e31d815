"""PyTorch's layers whole: several, in one direction or two, packed by lengths; a user's modules of that shape too."""

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ortho_ref import converters
from ortho_ref.adapters.layers import ByWay, Layer, layer_of, layer_outputs, of_way
from ortho_ref.adapters.sequence import Call
from ortho_ref.adapters.weight_map import Layout
from ortho_ref.converters.framework import Arrays


class Bound(NamedTuple):
    """An implementation with weights in it."""

    call: Call  # call(x, state)
    weights: dict[str, Any]  # the tensors whose gradients are wanted


class TorchLayers(ByWay):
    """A layout of PyTorch's own layers."""

    def __init__(self, layer: Layer) -> None:
        super().__init__(converters.by_name("pytorch"), layer)

    def to_framework(self, weights: Arrays) -> Arrays:
        """The state_dict."""
        own = {way.name: of_way(self.layer.weights, way) for way in self.layer.ways}
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


def layers_adapter(
    supports: Callable[[Layer], Layout | None],
    bind: Callable[[Layer, Any], Bound],
    batch_first: bool,
    device: Any,
    torch: Any,
) -> Callable[[Any], dict[str, np.ndarray] | None]:
    """Of modules that are called module(x, state) -> (y, last), states (L, B, n) as nn.GRU's."""

    def swapped(a: Any) -> Any:
        return a.transpose(0, 1) if batch_first else a

    def run(case: Any) -> dict[str, np.ndarray] | None:
        """The outputs; None for a case of another kind, cell, number of layers or directions."""
        layer = layer_of(case)
        layout = None if layer is None else supports(layer)
        if layer is None or layout is None:
            return None
        bound, dtype = bind(layer, layout.to_framework(layer.weights)), getattr(torch, layer.dtype)

        def tensor(array: np.ndarray) -> Any:
            return torch.from_numpy(np.array(array)).to(device=device, dtype=dtype)

        x, *start = (tensor(a).requires_grad_() for a in (layer.x, *layer.start))
        y, last = bound.call(swapped(x), (tuple(start) if len(start) > 1 else start[0]) if start else None)
        states = [swapped(y), *(last if isinstance(last, tuple | list) else (last,))]
        found = [(a.float() if a.dtype.itemsize == 2 else a).detach().cpu().numpy() for a in states]
        gradients: dict[str, np.ndarray] = {}
        if "d_x" in case.outputs:
            upstream = (layer.dy, *layer.d_last)
            loss: Any = sum((tensor(d) * a).sum() for d, a in zip(upstream, states, strict=True))
            leaves = {"x": x} | {f"{name}0": a for name, a in zip(layer.names, start, strict=False)}
            arrays = gradients_of(loss, [*leaves.values(), *bound.weights.values()], torch)
            gradients = dict(zip(leaves, arrays, strict=False))
            of_weights = dict(zip(bound.weights, arrays[len(leaves) :], strict=True))
            gradients |= layout.gradients_from(of_weights, layer.weights)
        return layer_outputs(case, found[0], tuple(found[1:]), gradients)

    return run
