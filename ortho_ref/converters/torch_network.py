"""A trained layer or network as the state_dict of nn.RNN, nn.LSTM or nn.GRU, and such a state_dict as parameters.

The readout is not part of it: "readout.W" and "readout.b" are the weight and the bias of nn.Linear as they are.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ortho_ref.converters.config import config_of_cell
from ortho_ref.converters.framework import Arrays
from ortho_ref.converters.torch_state import layers_from_torch, layers_to_torch
from ortho_ref.language.reader import Reader
from ortho_ref.network import Network
from ortho_ref.recurrent import Recurrent


def to_torch(
    network: Network | Recurrent,
    params: Mapping[str, Any],
    buffers: Mapping[str, Any] | None = None,
    *,
    prefix: str = "",
    bias: bool = True,
) -> Arrays:
    """What the module with the same layers takes, `load_state_dict({k: torch.from_numpy(a) for k, a in ...})`.

    Parameters
    ----------
    network : Network or Recurrent
        Layers of one cell that PyTorch has, of one hidden size: nn.GRU is "gru-cudnn", or any GRU with the reset gate
        after the product.
    params : mapping of str to array
        Its parameters, on the host.
    buffers : mapping, optional
        Its buffers, where a weight is kept orthogonal: the matrix itself goes to the module.
    prefix : str
        Of the module within another, "encoder.rnn".
    bias : bool
        The module's: False leaves the biases out, which have to be 0.

    Returns
    -------
    dict of str to array
        Fresh arrays, "weight_ih_l0" and so on.

    Raises
    ------
    UnsupportedError
        PyTorch has no such cell.
    ValueError
        The layers differ in their cell or hidden size, an initial state is trained, or params and buffers do not fit.
    """
    layers = _layers(network)
    weights = {
        f"layer{k}": layer.weights(_of(params, own), _of(buffers or {}, own))
        for k, (own, layer) in enumerate(layers.items())
    }
    config = {**config_of_cell(next(iter(layers.values())).cell), "bias": bias}
    state = layers_to_torch(config, weights, prefix=prefix)
    sizes = [array.shape[1] for name, array in state.items() if "weight_hh" in name]
    if len(set(sizes)) > 1:
        raise ValueError(f"network has hidden sizes {sizes}; allowed: one, as PyTorch's modules have")
    return state


def from_torch(network: Network | Recurrent, state: Mapping[str, Any], *, prefix: str | None = None) -> Arrays:
    """The parameters of the layers, from a module's state_dict.

    Parameters
    ----------
    network : Network or Recurrent
        The layers that the state is for; none of their weights may be kept orthogonal.
    state : mapping of str to array or tensor
        As `state_dict()` of nn.RNN, nn.LSTM, nn.GRU or a Cell gives it, or of a module that one is in, on the host.
    prefix : str, optional
        Where it is in there; needed if there are several.

    Returns
    -------
    dict of str to array
        Fresh arrays, "W_r" ... of a layer, "layer0.W_r" ... of a network; a readout's are not among them.

    Raises
    ------
    UnsupportedError
        PyTorch has no such cell.
    ValueError
        Other layers or directions, a name or shape that does not fit, or a weight that is kept orthogonal.
    """
    layers = _layers(network)
    given = layers_from_torch(config_of_cell(next(iter(layers.values())).cell), state, prefix=prefix)
    if list(given) != [f"layer{k}" for k in range(len(layers))]:
        raise ValueError(f"state has {', '.join(given)}; the network has {len(layers)} layers in one direction")
    params: Arrays = {}
    for (path, layer), weights in zip(layers.items(), given.values(), strict=True):
        if layer.constrained:
            raise ValueError(f"{path}{next(iter(layer.constrained))} is kept orthogonal; allowed: free weights")
        _check_sizes(path, layer, weights)
        params |= {path + name: a for name, a in weights.items()}
    return params


def _layers(network: Network | Recurrent) -> dict[str, Recurrent]:
    """Prefix of its parameters -> layer."""
    if isinstance(network, Reader):
        raise ValueError("network is a Reader, whose layers are no stack; allowed: each of them by itself")
    if isinstance(network, Recurrent):
        layers = {"": network}
    else:
        layers = {f"layer{i}.": layer for i, layer in enumerate(network.layers)}
    cells = {str(layer.cell) for layer in layers.values()}
    if len(cells) > 1:
        raise ValueError(f"network has the cells {', '.join(sorted(cells))}; allowed: one, as PyTorch's modules have")
    for prefix, layer in layers.items():
        if layer.trained_h0:
            raise ValueError(f"{prefix}h0 is trained; allowed: none, as PyTorch's modules have")
    return layers


def _of(values: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    return {name.removeprefix(prefix): value for name, value in values.items() if name.startswith(prefix)}


def _check_sizes(prefix: str, layer: Recurrent, weights: Arrays) -> None:
    """ValueError where the layer was built for others; of tokens, m is their number."""
    if layer.sizes is None:
        return
    for name, shape in layer.cell.shapes(*layer.sizes).items():
        if np.shape(weights[name]) != shape:
            raise ValueError(f"{prefix}{name} would have shape {np.shape(weights[name])}; the layer has {shape}")
