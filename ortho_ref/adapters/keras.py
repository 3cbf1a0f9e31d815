"""Keras 3 on any of its backends: its own recurrent layers, layers, cells and functions of a user's.

Gradients are the backend's: autograd, jax.grad or GradientTape.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ortho_ref import converters
from ortho_ref.adapters.jax import precision, taken_by_jax
from ortho_ref.adapters.layers import ByWay, Layer
from ortho_ref.adapters.sequence import (
    Adapter,
    Bound,
    Call,
    Library,
    Sequence,
    Style,
    Taken,
    adapter,
    check_given,
    in_numpy,
    known,
    left_out,
    loss_of,
    of_yours,
    one_cell,
    sequence_or_layer,
    states_of,
)
from ortho_ref.adapters.torch import required
from ortho_ref.adapters.weight_map import TRIAL, Converted, Layout, Spec, check_arrays
from ortho_ref.installed import needed
from ortho_ref.trees import by_path, nested

#: The layers and which cells each is.
CELLS = {"SimpleRNN": ("elman",), "LSTM": ("lstm",), "GRU": ("gru_reset_after", "gru_reset_before")}
BACKENDS = ("torch", "jax", "tensorflow")


def from_keras(target: Any, *, cell: str | Mapping[str, Any] | None = None, weights: Spec | None = None) -> Adapter:
    """An adapter of the conformance kit for a Keras layer or cell, on the backend that Keras has.

    Parameters
    ----------
    target : class, layer or function
        SimpleRNN, LSTM or GRU, which are checked as one layer, as several and in Bidirectional, or an instance, whose
        options are taken: nothing more is needed.  A class of layers or of cells (with `state_size`) of yours, made by
        target(units), or a function of one argument that makes one, (hidden_size): with `cell` and `weights`.  A layer
        takes x (B, T, m) and initial_state.
    cell : str or mapping, optional
        Which cell it is: a cell's or model's name, or a config.
    weights : mapping, optional
        The name of a trainable variable -> the kit's weights that it is made of.

    Returns
    -------
    callable
        run(case) -> the outputs, or None for what the target is not.

    Raises
    ------
    ImportError
        Keras is not installed.
    TypeError, ValueError
        A target, a cell or weights that are not as described; the message names them.
    """
    with needed("keras", "pip install keras torch, or keras and jax or tensorflow"):
        import keras
    if keras.backend.backend() not in BACKENDS:
        raise ValueError(f"Keras runs on {keras.backend.backend()!r}; allowed: {', '.join(map(repr, BACKENDS))}")
    name = known(target, keras.layers, CELLS)
    if name is not None:
        left_out(f"from_keras of {name} knows the cell and its weights", cell=cell, weights=weights)
        return _of_known(target, name, keras)
    if isinstance(target, keras.layers.Layer) or not (isinstance(target, type) or required(target) == 1):
        raise TypeError(
            f"target is {target!r}; allowed: a recurrent layer of Keras, a class of layers or cells, or a function "
            "make(hidden_size)"
        )
    config, layout = one_cell(cell, weights, "from_keras")
    check_given(weights, "from_keras of a layer of yours", "variables")
    trial = _made(target, *TRIAL, "float32", keras)
    wanted = {variable.name: tuple(variable.shape) for variable in trial.trainable_variables}
    check_arrays(type(trial).__name__, wanted, layout.to_framework(layout.zeros(*TRIAL)))

    def bind(seq: Sequence, arrays: Any) -> Bound:
        return _bound(_made(target, *seq.sizes, seq.dtype, keras), seq, arrays)

    return _adapter(of_yours(config, layout), bind, keras, config["cell"])


def _made(target: Any, m: int, n: int, dtype: str, keras: Any) -> Any:
    """A layer of a user's, built; a cell in a layer."""
    before, policy = keras.config.floatx(), keras.config.dtype_policy()
    keras.config.set_floatx(dtype)  # of what the layer makes inside, too
    keras.config.set_dtype_policy(dtype)
    try:
        layer = target(n)
        if hasattr(layer, "state_size") and not isinstance(layer, keras.layers.RNN):
            layer = keras.layers.RNN(layer, return_sequences=True, return_state=True)
        if not layer.built:
            layer.build((1, 1, m))
    finally:
        keras.config.set_floatx(before)
        keras.config.set_dtype_policy(policy)
    return layer


def _options(target: Any, name: str) -> dict[str, Any]:
    """An instance's options, but for those of its sizes; none of a class."""
    if isinstance(target, type):
        return {}
    options = target.get_config()
    for option, allowed in {"go_backwards": False, "stateful": False}.items():
        if options[option] != allowed:
            raise ValueError(f"{name} has {option}={options[option]!r}; allowed: {allowed!r}")
    return {option: value for option, value in options.items() if option not in ("name", "dtype", "units")}


def _of_known(target: Any, name: str, keras: Any) -> Adapter:
    """An adapter of a layer of Keras's, by the converters."""
    kind: Any = target if isinstance(target, type) else type(target)
    options = _options(target, name)

    def fits(seq: Sequence | Layer) -> bool:
        config = seq.config
        after = config["cell"] == "gru_reset_after"
        given = {"use_bias": seq.bias, "activation": config.get("activation"), "reset_after": after}
        own = {"LSTM": ("use_bias",), "GRU": tuple(given)}.get(name, ("use_bias", "activation"))
        same = all(options.get(key, given[key]) == given[key] for key in own)
        return config["cell"] in CELLS[name] and seq.kept is None and same

    def supports(seq: Sequence | Layer) -> Layout | None:
        if not fits(seq) or seq.padding in ("lengths", "resets"):
            return None
        if isinstance(seq, Layer):  # an instance is one layer
            return _Ways(converters.by_name("keras"), seq) if isinstance(target, type) else None
        return Converted(converters.by_name("keras"), {**seq.config, "bias": seq.bias})

    def made(seq: Sequence | Layer, m: int) -> Any:
        own: dict[str, Any] = {} if name == "LSTM" else {"activation": seq.config["activation"]}
        own["use_bias"] = seq.bias
        if name == "GRU":
            own["reset_after"] = seq.config["cell"] == "gru_reset_after"
        fixed = {"units": seq.sizes[1], "return_sequences": True, "return_state": True, "dtype": seq.dtype}
        fixed["recurrent_initializer"] = "zeros"  # the default is a QR, which backends do not have in half precision
        layer = kind.from_config(options | own | fixed)
        if isinstance(seq, Layer) and seq.bidirectional:
            layer = keras.layers.Bidirectional(layer, dtype=seq.dtype)
        layer.build((None, None, m))
        return layer

    def bind(seq: Sequence | Layer, arrays: Any) -> Bound:
        if isinstance(seq, Layer):
            return _bound_layers([made(seq, m) for m in seq.widths], seq, arrays, keras)
        return _bound(made(seq, seq.sizes[0]), seq, arrays)

    return _adapter(supports, bind, keras, CELLS[name][0] if len(CELLS[name]) == 1 else "")


class _Ways(ByWay):
    """A layout of several layers, with flat names: "layer0/kernel"."""

    def to_framework(self, weights: Any) -> Any:
        return by_path(super().to_framework(weights))

    def gradients_from(self, gradients: Any, weights: Any) -> Any:
        return super().gradients_from(nested(gradients), weights)


def _bound(layer: Any, seq: Sequence, arrays: Any) -> Bound:
    """A layer with weights in it, by the names of its variables."""
    own = {variable.name: variable for variable in layer.trainable_variables}

    def call(x: Any, state: Any) -> Any:
        given: dict[str, Any] = {}
        if seq.state:
            given["initial_state"] = list(state) if isinstance(state, tuple) else [state]
        return layer(x, **given if seq.keep is None else {**given, "mask": seq.keep.T})

    return _filled(call, {name: own[name] for name in arrays}, arrays)


def _bound_layers(modules: list[Any], layer: Layer, arrays: Any, keras: Any) -> Bound:
    """One after the other, in Bidirectional where there are two directions."""
    inner = [(m.forward_layer, m.backward_layer) if layer.bidirectional else (m,) for m in modules]
    found = {
        f"{way.name}/{variable.name}": variable
        for way, own in zip(layer.ways, (one for pair in inner for one in pair), strict=True)
        for variable in own.trainable_variables
    }

    def call(x: Any, state: Any) -> Any:
        parts = state if isinstance(state, tuple) else (state,)
        ends: list[Any] = []
        for number, module in enumerate(modules):
            places = [way.place for way in layer.ways if way.layer == number]
            first = None if state is None else [part[place] for place in places for part in parts]
            x, *last = module(x, initial_state=first, mask=None if layer.keep is None else layer.keep.T)
            ends += last
        count = len(layer.names)
        return x, tuple(keras.ops.stack(ends[i::count]) for i in range(count))

    return _filled(call, {name: found[name] for name in arrays}, arrays)


def _filled(call: Call, variables: dict[str, Any], arrays: Any) -> Bound:
    for name, variable in variables.items():
        variable.assign(arrays[name])
    return Bound(call, variables)


def _adapter(
    supports: Callable[[Any], Layout | None], bind: Callable[[Any, Any], Bound], keras: Any, cell: str
) -> Adapter:
    taken_by = {"torch": _by_torch, "jax": _by_jax, "tensorflow": _by_tensorflow}[keras.backend.backend()]
    return adapter(sequence_or_layer, supports, lambda seq, arrays: taken_by(bind, arrays, seq, keras), cell)


_STYLE = Style(batch_first=True)


def _library(seq: Sequence | Layer, keras: Any) -> Library:
    ops = keras.ops
    return Library(lambda a: ops.convert_to_tensor(a, seq.dtype), ops.stack, lambda a: ops.swapaxes(a, 0, 1), ops.sum)


def _by_torch(bind: Any, arrays: Any, seq: Sequence | Layer, keras: Any) -> Taken:
    import torch

    bound, library = bind(seq, arrays), _library(seq, keras)
    x, *start = (library.constant(np.array(a)).detach().requires_grad_() for a in (seq.x, *seq.start))
    every, last = states_of(bound.call, seq, _STYLE, library, x, tuple(start))
    leaves = [x, *start, *(variable.value for variable in bound.weights.values())]
    loss = loss_of(every, last, seq, library)
    return _taken(
        every, last, torch.autograd.grad(loss, leaves, allow_unused=True, materialize_grads=True), bound, keras
    )


def _taken(every: list[Any], last: list[Any], gradients: Any, bound: Bound, keras: Any) -> Taken:
    """Of gradients by x, the initial states and the variables."""
    states, ends, (x, *rest) = (
        [in_numpy(keras.ops.convert_to_numpy(a)) for a in group] for group in (every, last, gradients)
    )
    count = len(rest) - len(bound.weights)
    return Taken(states, tuple(ends), dict(zip(bound.weights, rest[count:], strict=True)), x, tuple(rest[:count]))


def _by_jax(bind: Any, arrays: Any, seq: Sequence | Layer, keras: Any) -> Taken:
    with precision(seq.dtype):
        bound = bind(seq, arrays)

        def call(own: Any, x: Any, state: Any) -> Any:
            with keras.StatelessScope([(variable, own[name]) for name, variable in bound.weights.items()]):
                return bound.call(x, state)

        return taken_by_jax(call, dict(arrays), seq, _STYLE)


def _by_tensorflow(bind: Any, arrays: Any, seq: Sequence | Layer, keras: Any) -> Taken:
    import tensorflow as tf

    bound, library = bind(seq, arrays), _library(seq, keras)
    x, *start = (library.constant(a) for a in (seq.x, *seq.start))
    with tf.GradientTape() as tape:
        tape.watch([x, *start])
        every, last = states_of(bound.call, seq, _STYLE, library, x, tuple(start))
        loss = loss_of(every, last, seq, library)
    sources = [x, *start, *(variable.value for variable in bound.weights.values())]
    gradients = tape.gradient(loss, sources, unconnected_gradients=tf.UnconnectedGradients.ZERO)
    return _taken(every, last, [tf.convert_to_tensor(gradient) for gradient in gradients], bound, keras)
