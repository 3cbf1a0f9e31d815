"""JAX: a function of a user's; gradients by jax.grad.  Also what Flax's cells, and Keras on JAX, are run by."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from ortho_ref.adapters.layers import Layer, layer_of
from ortho_ref.adapters.linear import is_recurrence, linear_adapter
from ortho_ref.adapters.sequence import (
    Adapter,
    Library,
    Sequence,
    Style,
    Taken,
    adapter,
    in_numpy,
    loss_of,
    of_yours,
    one_cell,
    sequence_of,
    states_of,
    ways_of,
)
from ortho_ref.adapters.weight_map import Spec
from ortho_ref.installed import needed


def from_jax(
    function: Callable[..., Any],
    *,
    cell: str | Mapping[str, Any] | None = None,
    weights: Spec | None = None,
    step: bool = False,
    batch_first: bool = False,
    layers: int | None = None,
    bidirectional: bool = False,
) -> Adapter:
    """An adapter of the conformance kit for a forward pass in JAX, jitted or not.

    float64 is switched on while it runs, and off again after.

    Parameters
    ----------
    function : callable
        function(x, h0, weights) -> h: x (T, B, m), h0 (B, n), h (T, B, n), weights a dict; of an LSTM h0 is the pair
        (h0, c0), and it returns (h, c) or (h, (h_T, c_T)).  Of a linear recurrence function(x, config) -> {"o": ...,
        "S_T": ...}, as for `from_torch`.
    cell : str or mapping
        Which cell it is: a cell's or model's name, or a config; or a linear recurrence, "kda".
    weights : mapping, optional
        The function's weight -> the kit's weights that it is made of; unless given they are the kit's.
    step : bool
        Whether it is one step, x (B, m), and returns the new state.
    batch_first : bool
        Whether it takes x (B, T, m) and returns h (B, T, n).
    layers : int, optional
        How many layers it has, if it is to be checked as a whole: it takes h0 (layers, B, n), layers before directions,
        and returns (y, h_T), of an LSTM (y, (h_T, c_T)); names of weights have their direction before them,
        "layer0.W_r", "layer0_reverse.W_r".
    bidirectional : bool
        Whether these have two directions, of the same layer one after the other in h0.

    Returns
    -------
    callable
        run(case) -> the outputs, or None for another cell.

    Raises
    ------
    ImportError
        JAX is not installed.
    TypeError, ValueError
        A cell or weights that are not as described; the message names them.
    """
    jax_and_numpy()
    if is_recurrence(cell):
        given = {"weights": weights, "step": step, "batch_first": batch_first, "layers": layers}
        return linear_adapter(function, str(cell), _taken_linear, bidirectional=bidirectional, **given)
    if not callable(function):
        raise TypeError(f"function is {function!r}; allowed: a function (x, h0, weights)")
    ways = ways_of(layers, bidirectional)
    config, layout = one_cell(cell, weights, "from_jax", ways)

    def take(seq: Sequence | Layer, arrays: Any) -> Taken:
        return taken_by_jax(lambda own, x, state: function(x, state, own), arrays, seq, Style(step, batch_first))

    return adapter(layer_of if ways else sequence_of, of_yours(config, layout, ways), take, config["cell"])


def _taken_linear(forward: Any, inputs: Any, upstream: Any, wanted: list[str]) -> Any:
    """What a linear recurrence gave, and the gradients by jax.grad."""
    jax, jnp = jax_and_numpy()
    rest = {name: a for name, a in inputs.items() if name not in wanted}

    def loss(own: Any) -> Any:
        found = forward({**{name: jnp.asarray(a) for name, a in rest.items()}, **own})
        return sum((jnp.sum(upstream[name] * a) for name, a in (found or {}).items()), jnp.zeros(())), found

    with precision(str(upstream["o"].dtype)):
        gradients, found = jax.grad(loss, has_aux=True)({name: jnp.asarray(inputs[name]) for name in wanted})
        return None if found is None else jax.tree.map(in_numpy, (found, gradients))


def jax_and_numpy() -> tuple[Any, Any]:
    """The modules jax and jax.numpy; ImportError in one line where they are not installed."""
    with needed("jax", "pip install jax"):
        import jax
        import jax.numpy as jnp
    return jax, jnp


@contextlib.contextmanager
def precision(dtype: str) -> Iterator[None]:
    """Within, JAX keeps float64, where that is the dtype."""
    if dtype != "float64":
        yield
        return
    jax, _ = jax_and_numpy()
    if hasattr(jax, "enable_x64"):
        context = jax.enable_x64(True)
    else:  # before 0.8
        import jax.experimental as before_it

        context = before_it.enable_x64()  # type: ignore[attr-defined, unused-ignore]
    with context:
        yield


def taken_by_jax(call: Callable[[Any, Any, Any], Any], weights: Any, seq: Sequence | Layer, style: Style) -> Taken:
    """States and gradients, in NumPy, of a forward pass: call(weights, x, state), a layer's or one step's."""
    jax, jnp = jax_and_numpy()

    def constant(a: np.ndarray) -> Any:
        return jnp.asarray(a, seq.dtype)

    library = Library(constant, jnp.stack, lambda a: jnp.swapaxes(a, 0, 1), jnp.sum)

    def loss(own: Any, x: Any, start: Any) -> Any:
        every, last = states_of(lambda x, state: call(own, x, state), seq, style, library, x, start)
        return loss_of(every, last, seq, library), (every, last)

    with precision(seq.dtype):
        point = jax.tree.map(constant, (weights, seq.x, seq.start))
        taken = jax.grad(loss, argnums=(0, 1, 2), has_aux=True) if seq.gradients else lambda *at: ((), loss(*at)[1])
        # of several layers each has loops of its own, which are compiled together or one by one
        gradients, (states, last) = (jax.jit(taken) if isinstance(seq, Layer) else taken)(*point)
        return Taken(list(map(in_numpy, states)), tuple(map(in_numpy, last)), *jax.tree.map(in_numpy, gradients))
