"""Keras 3 on any of its backends: its own recurrent layers, layers, cells and functions of a user's.

Gradients are the backend's: autograd, jax.grad or GradientTape.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ortho_ref import converters
from ortho_ref.adapters.jax import precision, taken_by_jax
from ortho_ref.adapters.missing import missing
from ortho_ref.adapters.sequence import (
    Library,
    Sequence,
    Style,
    Taken,
    arrays_of,
    left_out,
    loss_of,
    one_cell,
    outputs_of,
    sequence_of,
    states_of,
    whose,
)
from ortho_ref.adapters.torch import required
from ortho_ref.adapters.weight_map import Converted, Layout, Spec, check_arrays

#: The layers and which cells each is.
CELLS = {"SimpleRNN": ("elman",), "LSTM": ("lstm",), "GRU": ("gru_reset_after", "gru_reset_before")}
BACKENDS = ("torch", "jax", "tensorflow")
_TRIAL = (3, 4)


def from_keras(
    target: Any, *, cell: str | Mapping[str, Any] | None = None, weights: Spec | None = None
) -> Callable[[Any], dict[str, np.ndarray] | None]:
    """An adapter of the conformance kit for a Keras layer or cell, on the backend that Keras has.

    Parameters
    ----------
    target : class, layer or function
        SimpleRNN, LSTM or GRU, or an instance, whose options are taken: nothing more is needed.  A class of layers or
        of cells (with `state_size`) of yours, made by target(units), or a function of one argument that makes one,
        (hidden_size): with `cell` and `weights`.  A layer takes x (B, T, m) and initial_state.
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
    try:
        import keras
    except ImportError as error:
        raise missing(error, "keras", "pip install keras torch, or keras and jax or tensorflow") from None
    if keras.backend.backend() not in BACKENDS:
        raise ValueError(f"Keras runs on {keras.backend.backend()!r}; allowed: {', '.join(map(repr, BACKENDS))}")
    name = _known(target, keras)
    if name is not None:
        left_out(f"from_keras of {name} knows the cell and its weights", cell=cell, weights=weights)
        return _of_known(target, name, keras)
    if isinstance(target, keras.layers.Layer) or not (isinstance(target, type) or required(target) == 1):
        raise TypeError(
            f"target is {target!r}; allowed: a recurrent layer of Keras, a class of layers or cells, or a function "
            "make(hidden_size)"
        )
    config, layout = one_cell(cell, weights, "from_keras")
    if weights is None:
        raise TypeError("from_keras of a layer of yours needs weights=, its variables -> the kit's weights")

    trial = _made(target, *_TRIAL, "float32", keras)
    wanted = {variable.name: tuple(variable.shape) for variable in trial.trainable_variables}
    check_arrays(type(trial).__name__, wanted, layout.to_framework(layout.zeros(*_TRIAL)))

    def bind(seq: Sequence, arrays: Any) -> Any:
        layer = _made(target, *seq.sizes, seq.dtype, keras)
        for variable in layer.trainable_variables:
            variable.assign(arrays[variable.name])
        return layer

    return _adapter(lambda seq: layout if whose(seq, config) else None, bind, keras)


def _known(target: Any, keras: Any) -> str | None:
    """Which of Keras's own layers a target is, or derives from."""
    kind = target if isinstance(target, type) else type(target)
    return next((name for name in CELLS if issubclass(kind, getattr(keras.layers, name))), None)


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


def _of_known(target: Any, name: str, keras: Any) -> Callable[[Any], dict[str, np.ndarray] | None]:
    """An adapter of a layer of Keras's, by the converters."""
    kind: Any = target if isinstance(target, type) else type(target)
    options = _options(target, name)

    def supports(seq: Sequence) -> Layout | None:
        config = seq.config
        if config["cell"] not in CELLS[name] or seq.padding in ("lengths", "resets"):
            return None
        if options.get("use_bias", seq.bias) != seq.bias:
            return None
        after = config["cell"] == "gru_reset_after"
        if config.get("activation") != options.get("activation", config.get("activation")) and name != "LSTM":
            return None
        if name == "GRU" and options.get("reset_after", after) != after:
            return None
        return Converted(converters.by_name("keras"), {**config, "bias": seq.bias})

    def bind(seq: Sequence, arrays: Any) -> Any:
        own: dict[str, Any] = {} if name == "LSTM" else {"activation": seq.config["activation"]}
        own["use_bias"] = seq.bias
        if name == "GRU":
            own["reset_after"] = seq.config["cell"] == "gru_reset_after"
        m, n = seq.sizes
        fixed = {"units": n, "return_sequences": True, "return_state": True, "dtype": seq.dtype}
        layer = kind.from_config(options | own | fixed)
        layer.build((None, None, m))
        layer.set_weights(list(arrays.values()))
        return layer

    return _adapter(supports, bind, keras)


def _adapter(
    supports: Callable[[Sequence], Layout | None], bind: Callable[[Sequence, Any], Any], keras: Any
) -> Callable[[Any], dict[str, np.ndarray] | None]:
    taken_by = {"torch": _by_torch, "jax": _by_jax, "tensorflow": _by_tensorflow}[keras.backend.backend()]

    def run(case: Any) -> dict[str, np.ndarray] | None:
        """The outputs; None for a case of another kind or cell."""
        seq = sequence_of(case)
        layout = None if seq is None else supports(seq)
        if seq is None or layout is None:
            return None
        arrays = arrays_of(layout, seq)
        return None if arrays is None else outputs_of(taken_by(bind, arrays, seq, keras), case, seq, layout)

    return run


_STYLE = Style(batch_first=True)


def _given(seq: Sequence, state: Any) -> dict[str, Any]:
    """What a layer is given beside x: a state, and a mask (B, T)."""
    given: dict[str, Any] = {}
    if seq.state:
        given["initial_state"] = list(state) if isinstance(state, tuple) else [state]
    return given if seq.keep is None else given | {"mask": seq.keep.T}


def _states(layer: Any, seq: Sequence, library: Library, x: Any, start: Any) -> tuple[list[Any], list[Any]]:
    def call(x: Any, state: Any) -> Any:
        return layer(x, **_given(seq, state))

    every, last = states_of(call, seq, _STYLE, library, x, start)
    return every, last


def _library(keras: Any) -> Library:
    ops = keras.ops
    return Library(ops.convert_to_tensor, ops.stack, lambda a: ops.swapaxes(a, 0, 1), ops.sum)


def _by_torch(bind: Any, arrays: Any, seq: Sequence, keras: Any) -> Taken:
    import torch

    layer, library = bind(seq, arrays), _library(keras)
    x, *start = (library.constant(np.array(a)).detach().requires_grad_() for a in (seq.x, *seq.start))
    every, last = _states(layer, seq, library, x, tuple(start))
    values = [variable.value for variable in layer.trainable_variables]
    leaves = [x, *start, *values]
    loss = loss_of(every, last, seq, library)
    taken = [
        gradient.cpu().numpy()
        for gradient in torch.autograd.grad(loss, leaves, allow_unused=True, materialize_grads=True)
    ]
    by_name = dict(zip(arrays, _in_order(arrays, layer, taken[1 + len(start) :]), strict=True))
    states, ends = ([a.detach().cpu().numpy() for a in group] for group in (every, last))
    return Taken(states, by_name, taken[0], tuple(taken[1 : 1 + len(start)]), tuple(ends))


def _in_order(arrays: Any, layer: Any, gradients: list[Any]) -> list[Any]:
    """Gradients of a layer's variables, in the order of the arrays' names, which are the variables'."""
    by_name = {variable.name: gradient for variable, gradient in zip(layer.trainable_variables, gradients, strict=True)}
    return [by_name[name] for name in arrays]


def _by_jax(bind: Any, arrays: Any, seq: Sequence, keras: Any) -> Taken:
    with precision(seq.dtype):
        layer = bind(seq, arrays)
        fixed = [variable.value for variable in layer.non_trainable_variables]
        names = [variable.name for variable in layer.trainable_variables]

        def call(own: Any, x: Any, state: Any) -> Any:
            outputs, _ = layer.stateless_call([own[name] for name in names], fixed, x, **_given(seq, state))
            return outputs

        return taken_by_jax(call, dict(arrays), seq, _STYLE)


def _by_tensorflow(bind: Any, arrays: Any, seq: Sequence, keras: Any) -> Taken:
    import tensorflow as tf

    layer, library = bind(seq, arrays), _library(keras)
    x, *start = (tf.convert_to_tensor(a) for a in (seq.x, *seq.start))
    with tf.GradientTape() as tape:
        tape.watch([x, *start])
        every, last = _states(layer, seq, library, x, tuple(start))
        loss = loss_of(every, last, seq, library)
    sources = [x, *start, *(variable.value for variable in layer.trainable_variables)]
    gradients = tape.gradient(loss, sources, unconnected_gradients=tf.UnconnectedGradients.ZERO)
    taken = [tf.convert_to_tensor(gradient).numpy() for gradient in gradients]
    by_name = dict(zip(arrays, _in_order(arrays, layer, taken[1 + len(start) :]), strict=True))
    ends = tuple(a.numpy() for a in last)
    return Taken([a.numpy() for a in every], by_name, taken[0], tuple(taken[1 : 1 + len(start)]), ends)
