"""Flax's recurrent cells, linen's and nnx's, and cells of a user's in either; gradients by jax.grad, step by step."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ortho_ref import converters
from ortho_ref.adapters.jax import jax_and_numpy, precision, taken_by_jax
from ortho_ref.adapters.layers import ByWay, Layer
from ortho_ref.adapters.sequence import (
    Adapter,
    Sequence,
    Style,
    Taken,
    adapter,
    check_given,
    left_out,
    of_yours,
    one_cell,
    sequence_or_layer,
)
from ortho_ref.adapters.weight_map import TRIAL, Converted, Layout, Spec, check_arrays
from ortho_ref.boundary import kind_of
from ortho_ref.installed import needed
from ortho_ref.trees import by_path, nested

#: The classes and which cell each is.
CELLS = {"SimpleCell": "elman", "LSTMCell": "lstm", "OptimizedLSTMCell": "lstm", "GRUCell": "gru_reset_after"}


class Flavour(NamedTuple):
    """linen or nnx: how a cell is made, and how it is called with its parameters."""

    base: type  # of every module
    cells: dict[str, type]  # its own recurrent cells
    make: Callable[[Any, int, int, str, dict[str, Any]], Any]  # (kind, m, n, dtype, options) -> the cell
    shapes: Callable[[Any, int, int], dict[str, tuple[int, ...]]]  # (cell, m, n) -> path -> a parameter's shape
    call: Callable[[Any, Any, Any, Any], Any]  # (cell, tree, carry, x) -> the new carry
    scan: Callable[[Any, Any, Any, Any, bool], Any]  # its RNN: (cell, tree, carry or None, x, reverse) -> (carry, y)
    converter: Callable[[str], str]  # the class's name -> the converter's


def from_flax(target: Any, *, cell: str | Mapping[str, Any] | None = None, weights: Spec | None = None) -> Adapter:
    """An adapter of the conformance kit for a recurrent cell of Flax.

    A module of yours of several layers: `from_jax`, with a function that calls module.apply.

    Parameters
    ----------
    target : class or function
        linen's or nnx's SimpleCell, LSTMCell, OptimizedLSTMCell or GRUCell: nothing more is needed, and Flax's RNN is
        checked with it, several layers in both directions.  A module class of yours, linen's made by
        target(features=n), nnx's by target(m, n, rngs=...), or a function of two arguments that makes one,
        (input_size, hidden_size): with `cell` and `weights`.  It is called cell(carry, x) and returns (carry, y); the
        carry is h, of an LSTM (c, h).
    cell : str or mapping, optional
        Which cell it is: a cell's or model's name, or a config.
    weights : mapping, optional
        The path of a parameter, "hr/kernel" -> the kit's weights that it is made of.

    Returns
    -------
    callable
        run(case) -> the outputs, or None for what the target is not.

    Raises
    ------
    ImportError
        Flax is not installed.
    TypeError, ValueError
        A target, a cell or weights that are not as described; the message names them.
    """
    with needed("flax", "pip install flax"):
        import flax  # noqa: F401
    flavours = (_linen(), _nnx())
    known = _known(target, flavours)
    if known is not None:
        left_out(f"from_flax of {known[0]} knows the cell and its weights", cell=cell, weights=weights)
        return _of_known(target, *known)
    if isinstance(target, tuple(flavour.base for flavour in flavours)) or not callable(target):
        raise TypeError(
            f"target is {kind_of(target)}; allowed: a class of recurrent cells, or a function "
            "make(input_size, hidden_size)"
        )
    config, layout = one_cell(cell, weights, "from_flax")
    check_given(weights, "from_flax of a cell of yours")
    module, flavour = _made(target, flavours, *TRIAL, "float32")
    check_arrays(type(module).__name__, flavour.shapes(module, *TRIAL), layout.to_framework(layout.zeros(*TRIAL)))

    def bind(sizes: tuple[int, int], dtype: str, _: Any) -> Any:
        return _made(target, flavours, *sizes, dtype)[0]

    def supports(seq: Sequence | Layer) -> Layout | None:
        return _Nested(layout) if of_yours(config, layout)(seq) else None

    return _adapter(supports, bind, flavour, config["cell"])


def _known(target: Any, flavours: tuple[Flavour, ...]) -> tuple[str, Flavour] | None:
    """Which of Flax's own cells a target is, or derives from."""
    for flavour in flavours:
        for name, kind in flavour.cells.items():
            if isinstance(target, type) and issubclass(target, kind):
                return name, flavour
    return None


def _made(target: Any, flavours: tuple[Flavour, ...], m: int, n: int, dtype: str) -> tuple[Any, Flavour]:
    """A cell of a user's, by its class or by the function that makes it."""
    for flavour in flavours:
        if isinstance(target, type) and issubclass(target, flavour.base):
            return flavour.make(target, m, n, dtype, {}), flavour
    made = target(m, n)
    for flavour in flavours:
        if isinstance(made, flavour.base):
            return made, flavour
    raise TypeError(f"target made {kind_of(made)}; expected a module of flax.linen or flax.nnx")


class _Nested(NamedTuple):
    """A layout whose names are paths, as a tree."""

    layout: Layout

    def to_framework(self, weights: Any) -> Any:
        return nested(self.layout.to_framework(weights))

    def gradients_from(self, gradients: Any, weights: Any) -> Any:
        return self.layout.gradients_from(by_path(gradients), weights)


def _of_known(target: type, name: str, flavour: Flavour) -> Adapter:
    """An adapter of Flax's own, by the converters."""
    jax, jnp = jax_and_numpy()
    activations = {"tanh": jnp.tanh, "relu": jax.nn.relu}

    def supports(seq: Sequence | Layer) -> Layout | None:
        if seq.config["cell"] != CELLS[name] or seq.config.get("activation") not in (None, *activations):
            return None
        converter = converters.by_name(flavour.converter(name))
        if isinstance(seq, Layer):
            return ByWay(converter, seq) if seq.bias and seq.padding is None and seq.kept is None else None
        return Converted(converter, seq.config) if seq.usual and seq.bias else None

    def bind(sizes: tuple[int, int], dtype: str, config: Any) -> Any:
        options = {} if CELLS[name] == "lstm" else {"activation_fn": activations[config["activation"]]}
        return flavour.make(target, *sizes, dtype, options)

    return _adapter(supports, bind, flavour, CELLS[name])


def _adapter(
    supports: Callable[[Any], Layout | None],
    bind: Callable[[tuple[int, int], str, Any], Any],
    flavour: Flavour,
    cell: str,
) -> Adapter:
    _, jnp = jax_and_numpy()

    def by_steps(seq: Sequence, tree: Any) -> Taken:
        with precision(seq.dtype):
            cell = bind(seq.sizes, seq.dtype, seq.config)

        def call(own: Any, x: Any, state: Any) -> Any:
            return _turned(flavour.call(cell, own, _turned(state), x))

        return taken_by_jax(call, tree, seq, Style(step=True))

    def whole(layer: Layer, trees: Any) -> Taken:
        with precision(layer.dtype):
            cells = [bind((layer.widths[way.layer], layer.n), layer.dtype, layer.config) for way in layer.ways]

        def call(own: Any, x: Any, state: Any) -> Any:
            parts = state if isinstance(state, tuple) else (state,)
            ends, outputs = [], list[Any]()
            for way, cell in zip(layer.ways, cells, strict=True):
                if way.layer and not way.reverse:
                    x, outputs = jnp.concatenate(outputs, -1), []
                first = None if state is None else tuple(part[way.place] for part in parts)
                carry = first[0] if first is not None and len(first) == 1 else _turned(first)
                last, y = flavour.scan(cell, own[way.name], carry, x, way.reverse)
                outputs.append(y)
                ends.append(_turned(last) if isinstance(last, tuple) else (last,))
            return jnp.concatenate(outputs, -1), tuple(map(jnp.stack, zip(*ends, strict=True)))

        return taken_by_jax(call, trees, layer, Style())

    def take(seq: Sequence | Layer, arrays: Any) -> Taken:
        return whole(seq, arrays) if isinstance(seq, Layer) else by_steps(seq, arrays)

    return adapter(sequence_or_layer, supports, take, cell)


def _turned(state: Any) -> Any:
    """(h, c) as (c, h), which Flax has, or back; what is no pair as it is."""
    return state[::-1] if isinstance(state, tuple) else state


def _linen() -> Flavour:
    import flax.linen

    linen: Any = flax.linen

    jax, jnp = jax_and_numpy()

    def make(kind: Any, m: int, n: int, dtype: str, options: dict[str, Any]) -> Any:
        known = any(issubclass(kind, getattr(linen, name)) for name in CELLS)
        return kind(features=n, **({"dtype": dtype, "param_dtype": dtype} if known else {}), **options)

    def shapes(cell: Any, m: int, n: int) -> dict[str, tuple[int, ...]]:
        def init(carry: Any) -> Any:
            return cell.init(jax.random.key(0), carry, jnp.zeros((1, m)))["params"]

        try:
            tree = init(jnp.zeros((1, n)))
        except (TypeError, ValueError):  # of an LSTM the carry is a pair
            tree = init((jnp.zeros((1, n)),) * 2)
        return {path: array.shape for path, array in by_path(tree).items()}

    def call(cell: Any, tree: Any, carry: Any, x: Any) -> Any:
        return cell.apply({"params": tree}, carry, x)[0]

    def scan(cell: Any, tree: Any, carry: Any, x: Any, reverse: bool) -> Any:
        rnn = linen.RNN(cell, time_major=True, return_carry=True, reverse=reverse, keep_order=reverse)
        return rnn.apply({"params": {"cell": tree}}, x, initial_carry=carry)

    own = {name: getattr(linen, name) for name in CELLS}
    return Flavour(linen.Module, own, make, shapes, call, scan, lambda name: "flax")


def _nnx() -> Flavour:
    import flax.nnx

    nnx: Any = flax.nnx

    def make(kind: Any, m: int, n: int, dtype: str, options: dict[str, Any]) -> Any:
        known = any(issubclass(kind, getattr(nnx, name)) for name in CELLS)
        return kind(m, n, **({"dtype": dtype, "param_dtype": dtype} if known else {}), **options, rngs=nnx.Rngs(0))

    def shapes(cell: Any, m: int, n: int) -> dict[str, tuple[int, ...]]:
        return {path: a.shape for path, a in by_path(nnx.to_pure_dict(nnx.state(cell, nnx.Param))).items()}

    def loaded(cell: Any, tree: Any) -> Any:
        graph, state, rest = nnx.split(cell, nnx.Param, ...)
        nnx.replace_by_pure_dict(state, tree)
        return nnx.merge(graph, state, rest)

    def call(cell: Any, tree: Any, carry: Any, x: Any) -> Any:
        return loaded(cell, tree)(carry, x)[0]

    def scan(cell: Any, tree: Any, carry: Any, x: Any, reverse: bool) -> Any:
        around = {"time_major": True, "return_carry": True, "reverse": reverse, "keep_order": reverse}
        return nnx.RNN(loaded(cell, tree), rngs=nnx.Rngs(0), **around)(x, initial_carry=carry)

    def converter(name: str) -> str:
        return "nnx-by-gate" if name == "LSTMCell" else "nnx"

    own = {name: getattr(nnx, name) for name in CELLS}
    return Flavour(nnx.Module, own, make, shapes, call, scan, converter)
