"""Equinox's recurrent cells, and cells of a user's; gradients by jax.grad, step by step, the batch by jax.vmap."""

from collections.abc import Callable, Mapping
from typing import Any

from ortho_ref import converters
from ortho_ref.adapters.jax import jax_and_numpy, precision, taken_by_jax
from ortho_ref.adapters.layers import Layer, layer_of
from ortho_ref.adapters.sequence import (
    Adapter,
    Sequence,
    Style,
    Taken,
    adapter,
    check_given,
    known,
    left_out,
    of_yours,
    one_cell,
    sequence_of,
    ways_of,
)
from ortho_ref.adapters.weight_map import TRIAL, Converted, Layout, Spec, check_arrays
from ortho_ref.boundary import kind_of
from ortho_ref.installed import needed

#: The classes of equinox.nn and which cell each is.
CELLS = {"LSTMCell": "lstm", "GRUCell": "gru_reset_after"}


def from_equinox(
    target: Any,
    *,
    cell: str | Mapping[str, Any] | None = None,
    weights: Spec | None = None,
    layers: int | None = None,
    bidirectional: bool = False,
) -> Adapter:
    """An adapter of the conformance kit for a recurrent cell of Equinox, or a module of several layers.

    Parameters
    ----------
    target : class or function
        equinox.nn's LSTMCell or GRUCell: nothing more is needed.  A module class of yours, made by
        target(m, n, key=...), or a function of two arguments that makes one, (input_size, hidden_size): with `cell`
        and `weights`.  It is called cell(x, h) with one sequence's x (m,) and h (n,), of an LSTM (h, c), and returns
        the new state.
    cell : str or mapping, optional
        Which cell it is: a cell's or model's name, or a config.
    weights : mapping, optional
        The path of a parameter, "inner.weight_ih" -> the kit's weights that it is made of.
    layers : int, optional
        How many layers a module of yours has, if it is to be checked as a whole: it is called module(x, h0) with one
        sequence's x (T, m) and h0 (layers, n), layers before directions, and returns (y, h_T), of an LSTM
        (y, (h_T, c_T)); names in `weights` have their direction before them, "layer0.W_r", "layer0_reverse.W_r".
    bidirectional : bool
        Whether these have two directions, of the same layer one after the other in h0.

    Returns
    -------
    callable
        run(case) -> the outputs, or None for what the target is not.

    Raises
    ------
    ImportError
        Equinox is not installed.
    TypeError, ValueError
        A target, a cell or weights that are not as described; the message names them.
    """
    with needed("equinox", "pip install equinox"):
        import equinox
    jax, _ = jax_and_numpy()
    is_class = isinstance(target, type) and issubclass(target, equinox.Module)
    name = known(target, equinox.nn, CELLS) if is_class else None
    if name is not None:
        given = {"cell": cell, "weights": weights, "layers": layers, "bidirectional": bidirectional}
        left_out(f"from_equinox of {target.__name__} knows the cell and its weights", **given)
        return _of_known(target, CELLS[name])
    if isinstance(target, equinox.Module) or not callable(target):
        raise TypeError(
            f"target is {kind_of(target)}; allowed: a class of recurrent cells, or a function "
            "make(input_size, hidden_size)"
        )
    ways = ways_of(layers, bidirectional)
    config, layout = one_cell(cell, weights, "from_equinox", ways)
    check_given(weights, "from_equinox of a cell of yours")

    def made(m: int, n: int) -> Any:
        return target(m, n, key=jax.random.key(0)) if is_class else target(m, n)

    module = made(*TRIAL)
    if not isinstance(module, equinox.Module):
        raise TypeError(f"target made {kind_of(module)}; expected a module of Equinox")
    leaves, _ = jax.tree_util.tree_flatten_with_path(equinox.filter(module, equinox.is_inexact_array))
    shapes = {_name(path): leaf.shape for path, leaf in leaves}
    check_arrays(type(module).__name__, shapes, layout.to_framework(layout.zeros(*TRIAL)))
    read = layer_of if ways else sequence_of
    return _adapter(read, of_yours(config, layout, ways), lambda seq: made(*seq.sizes), config["cell"])


def _of_known(target: type, name: str) -> Adapter:
    """An adapter of Equinox's own, by the converter."""
    jax, _ = jax_and_numpy()

    def supports(seq: Sequence) -> Layout | None:
        if not seq.usual or seq.config["cell"] != name:
            return None
        return Converted(converters.by_name("equinox"), {**seq.config, "bias": seq.bias})

    def made(seq: Sequence) -> Any:
        return target(*seq.sizes, use_bias=seq.bias, key=jax.random.key(0))

    return _adapter(sequence_of, supports, made, name)


def _adapter(
    read: Callable[[Any], Any], supports: Callable[[Any], Layout | None], made: Callable[[Any], Any], cell: str
) -> Adapter:
    jax, _ = jax_and_numpy()

    def take(seq: Sequence | Layer, arrays: Any) -> Taken:
        batch = int(isinstance(seq, Layer))  # of a step the first axis, else behind time or layers
        with precision(seq.dtype):
            module = made(seq)

        @jax.jit  # compiled once for all steps
        def call(own: Any, x: Any, state: Any) -> Any:
            with_weights = jax.tree_util.tree_map_with_path(lambda path, leaf: own.get(_name(path), leaf), module)
            return jax.vmap(lambda x, state: with_weights(x, state), batch, batch)(x, state)

        return taken_by_jax(call, arrays, seq, Style(step=not batch))

    return adapter(read, supports, take, cell)


def _name(path: Any) -> str:
    """A leaf's path, "inner.weight_ih"."""
    return ".".join(str(getattr(key, "name", getattr(key, "idx", getattr(key, "key", key)))) for key in path)
