"""A trained layer or network as the state_dict of a PyTorch module, and such a state_dict as parameters and buffers.

    state = converters.to_torch(network, params, buffers)
    params, buffers = converters.from_torch(network, module.state_dict(), params, buffers)

names        the module
"pytorch"    nn.RNN, nn.LSTM or nn.GRU, weight_ih_l0 ...: where PyTorch has the cell
"ours"       a `Layer` as `ortho-ref new --torch nc-gru` writes it, W_r ...; of a network one each under layer0, layer1
             ...: for every other cell, and for any where it is asked for

A weight that is kept orthogonal is the dense U there.  On the way back it becomes its map's parameters again: those it
had, with all that the buffers carry, where it is U to the bit; else by `params_of`, so that training can go on.  The
readout is an nn.Linear, the embedding an nn.Embedding; where they are in the module is said, or they stay out.
"""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from ortho_ref.boundary import check_choice, check_dense, kind_of
from ortho_ref.converters.config import config_of_cell
from ortho_ref.converters.framework import Arrays, on_host
from ortho_ref.converters.parameters import params_of
from ortho_ref.converters.stacked import PyTorch
from ortho_ref.converters.torch_state import dotted, layers_from_torch, layers_to_torch
from ortho_ref.language.reader import Reader
from ortho_ref.network import Network
from ortho_ref.parametrizations import Buffers, Parametrization, Params
from ortho_ref.recurrent import NamedBuffers, Recurrent
from ortho_ref.trees import prefixed, under

NAMES = ("pytorch", "ours")


def to_torch(
    network: Network | Recurrent,
    params: Mapping[str, Any],
    buffers: Mapping[str, Any] | None = None,
    *,
    names: str | None = None,
    prefix: str = "",
    bias: bool = True,
    readout: str | None = None,
    embedding: str | None = None,
) -> Arrays:
    """What the module with the same layers takes, `load_state_dict({k: torch.from_numpy(a) for k, a in ...})`.

    Parameters
    ----------
    network : Network or Recurrent
        The layers.
    params : mapping of str to array
        Its parameters, on the host.
    buffers : mapping, optional
        Its buffers, where a weight is kept orthogonal: the matrix itself goes to the module.
    names : str, optional
        "pytorch", for layers of one cell that PyTorch has, of one hidden size: nn.GRU is "gru-cudnn", or any GRU with
        the reset gate after the product; or "ours".  Unless given, "pytorch" where PyTorch has the cell.
    prefix : str
        Of the layers' module within another, "encoder.rnn".
    bias : bool
        Of nn.RNN, nn.LSTM or nn.GRU: False leaves the biases out, which have to be 0.
    readout, embedding : str, optional
        Where the module has its nn.Linear and its nn.Embedding, "head": these go along.

    Returns
    -------
    dict of str to array
        Fresh arrays.

    Raises
    ------
    UnsupportedError
        PyTorch has no such cell, and names is "pytorch".
    ValueError
        Of "pytorch" layers that differ in their cell or hidden size, or a trained initial state; a readout or embedding
        that the network does not have; or params and buffers that do not fit.
    """
    layers, around = _layers(network), _around(network, readout, embedding)
    weights = {own: layer.weights(under(own, params), under(own, buffers or {})) for own, layer in layers.items()}
    state = {theirs: np.array(params[ours], order="C") for theirs, ours in around.items()}
    if _names(layers, names) == "ours":
        if not bias:
            raise ValueError("bias is False; allowed with names='ours': True")
        for own, layer in layers.items():
            every = weights[own] | under(own, params)
            state |= {f"{dotted(prefix)}{own}{name}": np.array(every[name], order="C") for name in _wanted(layer)}
        return state
    config = {**_pytorch_config(layers), "bias": bias}
    found = layers_to_torch(config, {f"layer{k}": w for k, w in enumerate(weights.values())}, prefix=prefix)
    sizes = [array.shape[1] for name, array in found.items() if "weight_hh" in name]
    if len(set(sizes)) > 1:
        raise ValueError(f"network has hidden sizes {sizes}; allowed: one, as PyTorch's modules have, or names='ours'")
    return state | found


def from_torch(
    network: Network | Recurrent,
    state: Mapping[str, Any],
    params: Mapping[str, Any] | None = None,
    buffers: Mapping[str, Any] | None = None,
    *,
    names: str | None = None,
    prefix: str | None = None,
    readout: str | None = None,
    embedding: str | None = None,
) -> tuple[Params, NamedBuffers]:
    """The parameters and buffers of the layers, from a module's state_dict.

    Parameters
    ----------
    network : Network or Recurrent
        The layers that the state is for.
    state : mapping of str to array or tensor
        As `state_dict()` of the module gives it, or of one that it is in, on the host.
    params, buffers : mapping, optional
        What the network had: of a weight that is kept orthogonal D stays, and where U is the same to the bit all else
        does too.  Parameters that the state does not tell are taken from here.
    names : str, optional
        As of `to_torch`.
    prefix : str, optional
        Where the layers are in there; of "pytorch" needed if there are several.
    readout, embedding : str, optional
        Where its nn.Linear and its nn.Embedding are.

    Returns
    -------
    params : dict of str to array
        Fresh arrays, "W_r", "U_c.A" ... of a layer, "layer0.W_r" ... of a network.
    buffers : dict of dict
        Of each weight that is kept orthogonal.

    Raises
    ------
    UnsupportedError
        PyTorch has no such cell, and names is "pytorch".
    ValueError
        Other layers or directions, a name or shape that does not fit, or a U that its map does not reach: one that is
        not orthogonal, or of a map without a way back not the one of buffers.
    """
    layers, around = _layers(network), _around(network, readout, embedding)
    if _names(layers, names) == "ours":
        found = _ours(network, layers, state, dotted(prefix or ""))
    else:
        given = layers_from_torch(_pytorch_config(layers), state, prefix=prefix)
        if list(given) != [f"layer{k}" for k in range(len(layers))]:
            raise ValueError(f"state has {', '.join(given)}; the network has {len(layers)} layers in one direction")
        found = dict(zip(layers, given.values(), strict=True))
    own_params: Params = {name: np.array(a) for name, a in (params or {}).items()}
    own_buffers: NamedBuffers = {}
    for path, layer in layers.items():
        _check_sizes(path, layer, found[path])
        for name, a in found[path].items():
            own = path + name
            if name not in layer.constrained:
                own_params[own] = a
                continue
            try:
                had = under(f"{own}.", params or {}), (buffers or {}).get(own)
                kept, own_buffers[own] = _kept(layer.constrained[name], a, *had)
            except ValueError as error:
                raise ValueError(f"{own}: {error}") from None
            own_params |= prefixed(f"{own}.", kept)
    return own_params | _read_around(network, around, state), own_buffers


def _kept(kept: Parametrization, U: Any, params: Params, buffers: Buffers | None) -> tuple[Params, Buffers]:
    """The parameters and buffers of a U: those there were where it is theirs, else what gives it, with the same D."""
    if params and buffers is not None and np.array_equal(U, buffers["U"]):
        return {name: np.array(a) for name, a in params.items()}, dict(buffers)
    if buffers is None:
        _, buffers = kept.init(np.random.default_rng(0), len(U), dtype=U.real.dtype)
    found = params_of(kept, U, D=buffers.get("D"))
    return found.params, found.buffers


def _ours(
    network: Network | Recurrent, layers: Mapping[str, Recurrent], state: Mapping[str, Any], prefix: str
) -> dict[str, Arrays]:
    """Layer by layer, under its own names."""
    expected = [prefix + own + name for own, layer in layers.items() for name in _wanted(layer)]
    if lacking := [name for name in expected if name not in state]:
        raise ValueError(f"state holds no {', no '.join(lacking)}; expected {', '.join(expected)}")
    of_layers = re.compile(re.escape(prefix) + (r"\w+" if isinstance(network, Recurrent) else r"layer\d+\.\w+"))
    if unknown := [name for name in state if of_layers.fullmatch(name) and name not in expected]:
        raise ValueError(f"state holds {', '.join(unknown)}; expected {', '.join(expected)}")
    found: dict[str, Arrays] = {}
    for own, layer in layers.items():
        found[own] = {name: np.array(on_host(state[prefix + own + name]), order="C") for name in _wanted(layer)}
        check_dense(layer.cell, {name: found[own][name] for name in layer.cell.shapes(1, 1)})
    return found


def _wanted(layer: Recurrent) -> list[str]:
    """A layer's weights, and its trained initial states."""
    return [*layer.cell.shapes(1, 1), *(f"{name}0" for name in layer.cell.states if layer.trained_h0)]


def _names(layers: Mapping[str, Recurrent], names: str | None) -> str:
    """As given; "pytorch" unless given, where PyTorch has the first layer's cell."""
    if names is None:
        return NAMES[not PyTorch().has(config_of_cell(next(iter(layers.values())).cell))]
    check_choice("names", names, NAMES)
    return names


def _layers(network: Network | Recurrent) -> dict[str, Recurrent]:
    """Prefix of its parameters -> layer."""
    if isinstance(network, Reader):
        raise ValueError("network is a Reader, whose layers are no stack; allowed: each of them by itself")
    if isinstance(network, Recurrent):
        return {"": network}
    return {f"layer{i}.": layer for i, layer in enumerate(network.layers)}


def _pytorch_config(layers: Mapping[str, Recurrent]) -> dict[str, Any]:
    """Of the one cell that all layers have."""
    cells = {str(layer.cell): layer.cell for layer in layers.values()}
    if len(cells) > 1:
        every = ", ".join(sorted(cells))
        raise ValueError(f"network has the cells {every}; allowed: one, as PyTorch's modules have, or names='ours'")
    for prefix, layer in layers.items():
        if layer.trained_h0:
            raise ValueError(f"{prefix}h0 is trained; allowed: none, as PyTorch's modules have, or names='ours'")
    return config_of_cell(*cells.values())


def _around(network: Network | Recurrent, readout: str | None, embedding: str | None) -> dict[str, str]:
    """Name in the state -> the parameter of readout or embedding that it is."""
    shapes = {} if isinstance(network, Recurrent) else network.shapes_around()
    W = "readout.W" if "readout.W" in shapes else "embedding.E"  # tied
    found: dict[str, str] = {}
    for argument, place, own in (
        ("readout", readout, {"weight": W, "bias": "readout.b"}),
        ("embedding", embedding, {"weight": "embedding.E"}),
    ):
        if place is not None and not shapes.keys() >= set(own.values()):
            raise ValueError(f"{argument} is {place!r}; allowed: None, as {kind_of(network)} here has none")
        found |= {f"{dotted(place)}{theirs}": ours for theirs, ours in own.items()} if place is not None else {}
    return found


def _read_around(network: Network | Recurrent, around: Mapping[str, str], state: Mapping[str, Any]) -> Arrays:
    """The parameters of readout and embedding."""
    found: Arrays = {}
    for theirs, ours in around.items():
        if theirs not in state:
            raise ValueError(f"state holds no {theirs}; expected {', '.join(around)}")
        a = np.array(on_host(state[theirs]), order="C")
        shape = network.shapes_around()[ours]  # type: ignore[union-attr]  # a layer by itself has nothing around it
        if a.shape != shape:
            raise ValueError(f"{theirs} has shape {a.shape}; the network has {shape}")
        if ours in found and not np.array_equal(a, found[ours]):
            raise ValueError(
                f"{theirs} is another matrix than that of the readout; allowed: the same, as they are tied"
            )
        found[ours] = a
    return found


def _check_sizes(prefix: str, layer: Recurrent, weights: Arrays) -> None:
    """ValueError where the layer was built for others; of tokens, m is their number."""
    if layer.sizes is None:
        return
    starts = dict.fromkeys(_wanted(layer), (layer.sizes[1],))
    for name, shape in (starts | layer.cell.shapes(*layer.sizes)).items():
        if np.shape(weights[name]) != shape:
            raise ValueError(f"{prefix}{name} would have shape {np.shape(weights[name])}; the layer has {shape}")
