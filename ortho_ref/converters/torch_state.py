"""The layers in a state_dict of PyTorch: of nn.RNN, nn.LSTM, nn.GRU and their Cells, within any module.

    layers = converters.layers_from_torch("lstm", model.state_dict())      # {"layer0": weights, "layer0_reverse": ...}
    state = converters.layers_to_torch("lstm", layers, prefix="encoder.rnn")

encoder.rnn.weight_ih_l1_reverse is the module's prefix, the array, the layer and, of the second direction, _reverse; a
Cell's names end after the array.  A state without biases is of a module with bias=False.  bfloat16 becomes float32.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from ortho_ref.boundary import not_among
from ortho_ref.converters.config import Config, config_of
from ortho_ref.converters.framework import Arrays, is_bias
from ortho_ref.converters.stacked import PyTorch

_NAME = re.compile(r"((?:.*\.)?)((?:weight|bias)_(?:ih|hh))(?:_l(0|[1-9][0-9]*)(_reverse)?)?")
_LAYER = re.compile(r"layer(0|[1-9][0-9]*)(_reverse)?")
_PYTORCH = PyTorch()
_NAMES = "weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0"


def layers_from_torch(
    config: str | Config, state: Mapping[str, Any], *, prefix: str | None = None
) -> dict[str, Arrays]:
    """Our weights of every layer and direction.

    Parameters
    ----------
    config : mapping or str
        The cell and its options; or the name of a cell or of a model.
    state : mapping of str to array or tensor
        A state_dict on the host, of the module or of one that it is in.
    prefix : str, optional
        Where it is in there, "encoder.rnn"; needed if there are several.

    Returns
    -------
    dict
        "layer0", "layer0_reverse", "layer1" ... -> fresh arrays under our names; absent biases are 0.

    Raises
    ------
    UnsupportedError
        PyTorch has no such cell.
    ValueError
        No module or several, a layer or an array that is missing or unknown, or a shape that does not fit.
    """
    prefix = _prefix_in(state, prefix)
    layers: dict[tuple[int, bool], dict[str, Any]] = {}
    steps = set()
    for name, array in state.items():
        found = _NAME.fullmatch(name)
        if found and found[1] == prefix:
            steps.add(found[3] is None)
            layers.setdefault((int(found[3] or 0), bool(found[4])), {})[f"{found[2]}_l0"] = array
        elif name.startswith(prefix) and "." not in name.removeprefix(prefix):
            raise ValueError(f"PyTorch: unknown {name!r}; expected {_NAMES}, and so on by layer")
    numbers, ways = ({key[k] for key in layers} for k in (0, 1))
    each_way = len(layers) == len(numbers) * len(ways) and False in ways
    if numbers != set(range(len(numbers))) or not each_way or len(steps) > 1:
        given = ", ".join(sorted(map(_called, layers)))
        raise ValueError(f"PyTorch: the state has {given}; expected layer0, layer1, and so on, in one way or both")
    own = config_of(config) if isinstance(config, str) else config
    if not any(map(is_bias, layers[0, False])):
        own = {**own, "bias": False}
    return {_called(key): _PYTORCH.from_framework(own, layers[key]) for key in sorted(layers)}


def layers_to_torch(
    config: str | Config, layers: Mapping[str, Mapping[str, Any]], *, prefix: str = "", step: bool = False
) -> Arrays:
    """The state_dict of a module with these layers; of {"bias": False} in the config one without biases.

    Parameters
    ----------
    config : mapping or str
        The cell and its options; or the name of a cell or of a model.
    layers : mapping
        "layer0", "layer0_reverse", "layer1" ... -> our weights.
    prefix : str
        Of the module, "encoder.rnn".
    step : bool
        Whether it is a Cell.

    Returns
    -------
    dict of str to array
        Fresh arrays.

    Raises
    ------
    UnsupportedError
        PyTorch has no such cell.
    ValueError
        Another name of a layer, several layers of a Cell, or weights that do not fit.
    """
    prefix, own = dotted(prefix), config_of(config) if isinstance(config, str) else config
    state: Arrays = {}
    for name, weights in layers.items():
        found = _LAYER.fullmatch(name)
        if found is None or (step and name != "layer0"):
            allowed = "layer0, as a Cell has" if step else "layer0, layer0_reverse, layer1, and so on"
            raise ValueError(f"layers holds {name!r}; allowed: {allowed}")
        end = "" if step else f"_l{found[1]}{found[2] or ''}"
        arrays = _PYTORCH.to_framework(own, weights)
        state |= {prefix + array.removesuffix("_l0") + end: value for array, value in arrays.items()}
    return state


def _prefix_in(state: Iterable[str], prefix: str | None) -> str:
    """The prefix, which is there; ValueError where there is none, or it is not said which."""
    there = list(dict.fromkeys(found[1] for found in map(_NAME.fullmatch, state) if found))
    if prefix is not None and dotted(prefix) in there:
        return dotted(prefix)
    if prefix is None and len(there) == 1:
        return there[0]
    if not there:
        raise ValueError(f"state holds no recurrent layer; expected {_NAMES}, after any prefix")
    raise ValueError(not_among("prefix", prefix, [name.removesuffix(".") for name in there]))


def dotted(prefix: str) -> str:
    """The prefix with the dot that names go on after; "" stays."""
    return prefix if prefix.endswith(".") or not prefix else f"{prefix}."


def _called(key: tuple[int, bool]) -> str:
    return f"layer{key[0]}{'_reverse' if key[1] else ''}"
