"""PyTorch: its own recurrent layers and cells, modules and functions of a user's; gradients by autograd."""

import contextlib
import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from ortho_ref import converters
from ortho_ref.adapters.layers import Layer, layer_of
from ortho_ref.adapters.linear import is_recurrence, linear_adapter
from ortho_ref.adapters.sequence import (
    Adapter,
    Bound,
    Library,
    Sequence,
    Style,
    Taken,
    adapter,
    check_given,
    known,
    left_out,
    loss_of,
    of_yours,
    one_cell,
    sequence_of,
    states_of,
    ways_of,
)
from ortho_ref.adapters.torch_layers import TorchLayers, called, gradients_of
from ortho_ref.adapters.weight_map import TRIAL, Converted, Layout, Spec, WeightMap, check_arrays
from ortho_ref.installed import needed

#: The classes of torch.nn, without Cell, and which cell each is.
CELLS = {"RNN": "elman", "LSTM": "lstm", "GRU": "gru_reset_after"}
#: What of an instance is taken.
_OPTIONS = ("num_layers", "bidirectional", "bias", "batch_first", "nonlinearity")


def from_torch(
    target: Any,
    *,
    cell: str | Mapping[str, Any] | None = None,
    weights: Spec | None = None,
    step: bool = False,
    batch_first: bool = False,
    layers: int | None = None,
    bidirectional: bool = False,
    call: Callable[..., Any] | None = None,
    device: Any = None,
) -> Adapter:
    """An adapter of the conformance kit for a PyTorch layer, module or function.

    Parameters
    ----------
    target : class, module or function
        nn.RNN, nn.LSTM, nn.GRU or their Cell, or an instance, whose options are taken, layers, directions and biases
        among them: nothing more is needed.  A module class of yours, or a function of two arguments that makes one,
        (input_size, hidden_size): with `cell` and `weights`.  Or a function of three, the forward pass (x, h0,
        weights): with `cell`.  h0 is (B, n), of an LSTM the pair (h0, c0); it returns h (T, B, n), of an LSTM (h, c)
        or, as PyTorch, (h, (h_T, c_T)).  Of a linear recurrence the function is of two, (x, config): x has the case's
        inputs by name, {"q": (T, B, H, K), ...}; it returns {"o": ..., "S_T": ...}, or None for what it has not.
    cell : str or mapping, optional
        Which cell it is: a cell's or model's name, or a config; or a linear recurrence, "kda".
    weights : mapping, optional
        The module's parameter, or the function's weight -> the kit's weights that it is made of; unless given they are
        the kit's.
    step : bool
        Whether the module or function is one step, x (B, m), and returns the new state.
    batch_first : bool
        Whether it takes x (B, T, m) and returns h (B, T, n).
    layers : int, optional
        How many layers a module of yours has, if it is to be checked as a whole: it takes h0 (layers, B, n), layers
        before directions, and returns (y, h_T), of an LSTM (y, (h_T, c_T)); names in `weights` have their direction
        before them, "layer0.W_r", "layer0_reverse.W_r".
    bidirectional : bool
        Whether these have two directions, of the same layer one after the other in h0.
    call : callable, optional
        How a module of yours is called, call(module, x, state); module(x, state) unless given.  Where it takes no
        state, call(module, x) or module(x), the answers are those of h0 = 0.
    device : torch.device or str, optional
        Where it runs; an instance's own unless given, else the CPU.

    Returns
    -------
    callable
        run(case) -> the outputs, or None for what the target is not.

    Raises
    ------
    ImportError
        PyTorch is not installed.
    TypeError, ValueError
        A target, a cell or weights that are not as described; the message names them.
    """
    with needed("torch", "pip install torch"):
        import torch
    name = known(target, torch.nn, (*CELLS, *(f"{name}Cell" for name in CELLS)))
    if name is not None:
        given = {"cell": cell, "weights": weights, "call": call, "layers": layers, "bidirectional": bidirectional}
        left_out(f"from_torch of nn.{name} knows the cell and its weights", **given)
        return _Known(target, name, device, torch).adapter()
    if is_recurrence(cell):
        given = {"weights": weights, "call": call, "step": step, "batch_first": batch_first, "layers": layers}
        gradients = partial(_taken_linear, torch, device)
        return linear_adapter(target, str(cell), gradients, bidirectional=bidirectional, **given)
    ways = ways_of(layers, bidirectional)
    config, layout = one_cell(cell, weights, "from_torch", ways)
    style = Style(step, batch_first)

    if _makes_modules(target, torch):
        check_given(weights, "from_torch of a module")
        where = "cpu" if device is None else device
        trial = target(*TRIAL)
        state = _takes_state(trial, call, step)
        bind = _bound_to_modules(target, trial, call, layout, state, where, torch)
        supports = of_yours(config, layout, ways, state)
        assumes = () if state else ("h0-ignored", "layer-h0-ignored")
        read = layer_of if ways else sequence_of
        return _adapter(read, supports, bind, style, where, torch, config["cell"], assumes)
    left_out("a function is called as it is, (x, h0, weights)", call=call, layers=layers)

    def bind_function(seq: Sequence, arrays: Any) -> Bound:
        own = {name: _tensor(a, seq, torch, device).requires_grad_() for name, a in arrays.items()}
        return Bound(lambda x, state: target(x, state, own), own)

    return _adapter(sequence_of, of_yours(config, layout), bind_function, style, device, torch, config["cell"])


def _taken_linear(
    torch: Any, device: Any, forward: Any, inputs: Any, upstream: Any, wanted: list[str]
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]] | None:
    """What a linear recurrence gave, and autograd's gradients; none by what it does not depend on."""
    x = {name: torch.tensor(a, device=device) for name, a in inputs.items()}
    found = forward({name: a.requires_grad_(a.is_floating_point()) for name, a in x.items()})
    if found is None:
        return None
    loss = sum((torch.tensor(upstream[name], device=device) * a).sum() for name, a in found.items())
    leaves = [x[name] for name in wanted]
    gradients = torch.autograd.grad(loss, leaves, allow_unused=True) if leaves else ()
    taken = {name: _numpy(a) for name, a in zip(wanted, gradients, strict=True) if a is not None}
    return {name: _numpy(a) for name, a in found.items()}, taken


def _takes_state(trial: Any, call: Callable[..., Any] | None, step: bool) -> bool:
    """Whether a module of a user's takes (x, h0), or x alone; TypeError where it takes neither."""
    kind = type(trial)
    function, before = call or getattr(kind, "forward", None), "call(module, " if call else f"{kind.__name__}.forward("
    needed, most = required(function), taken(function)
    if needed is None or most is None:
        return True
    if needed > 3 or most < 2:
        raise TypeError(
            f"{before}...) takes {needed - 1} arguments; it is called (x, h0), or (x) where there is no initial state: "
            "call= can say how, call=lambda module, x, h0: ..."
        )
    if step and most == 2:
        raise TypeError(f"{before}x) takes no state, which step=True has to be given; leave step out, or take (x, h)")
    return most > 2


def _bound_to_modules(
    make: Any, trial: Any, call: Callable[..., Any] | None, layout: WeightMap, state: bool, device: Any, torch: Any
) -> Callable[[Any, Any], Bound]:
    """How a module of a user's gets its weights; what does not fit is said now."""
    arrays = layout.to_framework(layout.zeros(*TRIAL))
    try:
        _loaded(trial, arrays, torch, torch.float64, "cpu")
    except ValueError as error:
        with contextlib.suppress(Exception):
            _loaded(make(*reversed(TRIAL)), arrays, torch, torch.float64, "cpu")
            error.args = (f"{error}; made of (hidden_size, input_size) it fits: give lambda m, n: ...(n, m)",)
        raise
    made: dict[Any, Any] = {}  # one for all cases of a size: what it keeps from one run to the next shows

    def bind(seq: Sequence | Layer, arrays: Any) -> Bound:
        key = *seq.sizes, seq.dtype
        if key not in made:
            made[key] = make(*seq.sizes)
        module = made[key]
        own = _loaded(module, arrays, torch, getattr(torch, seq.dtype), device)
        called = module if call is None else partial(call, module)
        return Bound(called if state else lambda x, _: called(x), own)

    return bind


def _makes_modules(target: Any, torch: Any) -> bool:
    """Whether a module class, or a function of two arguments; TypeError for what is neither this nor a function."""
    if isinstance(target, type) and issubclass(target, torch.nn.Module):
        return True
    if isinstance(target, torch.nn.Module):
        raise TypeError(
            f"target is an instance of {type(target).__name__}, whose sizes are fixed; give its class, or a function "
            "make(input_size, hidden_size)"
        )
    count = required(target)
    if count not in (2, 3):
        raise TypeError(
            f"target is {target!r}; allowed: a layer of torch.nn, a module class, a function make(input_size, "
            "hidden_size), or a forward pass (x, h0, weights)"
        )
    return count == 2


def required(function: Any) -> int | None:
    """How many arguments a function has to be given; None for what is no function."""
    own = _positional(function)
    return None if own is None else sum(p.default is p.empty and p.kind is not p.VAR_POSITIONAL for p in own)


def taken(function: Any) -> int | None:
    """How many arguments a function can be given; None for any number, and for what is no function."""
    own = _positional(function)
    return None if own is None or any(p.kind is p.VAR_POSITIONAL for p in own) else len(own)


def _positional(function: Any) -> list[inspect.Parameter] | None:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    return [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.VAR_POSITIONAL)]


class _Known:
    """A layer of torch.nn's, "GRU" or "GRUCell", by the converters; of an instance, its options and device."""

    def __init__(self, target: Any, name: str, device: Any, torch: Any) -> None:
        self._torch, self._one_step = torch, name.endswith("Cell")
        self._kind: Any = target if isinstance(target, type) else type(target)
        self._cell = CELLS[name.removesuffix("Cell")]
        self._options: dict[str, Any] = {}
        self._device = device
        if not isinstance(target, type):
            if getattr(target, "proj_size", 0):
                raise ValueError(f"nn.{name} has proj_size={target.proj_size}; allowed: 0")
            self._options = {option: getattr(target, option) for option in _OPTIONS if hasattr(target, option)}
            self._device = next(target.parameters()).device if device is None else device
        self._batch_first = bool(self._options.get("batch_first"))

    def adapter(self) -> Adapter:
        """Of cells, and of all that a layer can be but a Cell cannot."""
        read = sequence_of if self._one_step else lambda case: layer_of(case) or sequence_of(case)
        style = Style(self._one_step, self._batch_first)
        return _adapter(read, self._supports, self._bind, style, self._device, self._torch, self._cell)

    def _fits(self, seq: Sequence | Layer, **shape: Any) -> bool:
        """Whether it is of this cell, with the instance's options."""
        activation = seq.config.get("activation")
        if seq.config["cell"] != self._cell or activation not in (None, "tanh", "relu") or seq.kept is not None:
            return False
        own = {"bias": seq.bias, "nonlinearity": activation, **shape}
        return all(self._options.get(name, value) == value for name, value in own.items())

    def _supports(self, seq: Sequence | Layer) -> Layout | None:
        if isinstance(seq, Layer):
            shape = {"num_layers": seq.layers, "bidirectional": seq.bidirectional}
            other = seq.padding == "mask" or (seq.padding == "resets" and seq.bidirectional)
            return None if other or not self._fits(seq, **shape) else TorchLayers(seq)
        if not seq.usual or not self._fits(seq, num_layers=1, bidirectional=False):
            return None
        return Converted(converters.by_name("pytorch"), {**seq.config, "bias": seq.bias})

    def _loaded(self, seq: Sequence | Layer, arrays: Any, **more: Any) -> tuple[Any, dict[str, Any]]:
        """A module, and its parameters, which are these arrays."""
        own = {"nonlinearity": seq.config["activation"]} if self._cell == "elman" else {}
        module = self._kind(*seq.sizes, bias=seq.bias, **own, **more)
        return module, _loaded(module, arrays, self._torch, getattr(self._torch, seq.dtype), self._device)

    def _bind(self, seq: Sequence | Layer, arrays: Any) -> Bound:
        if isinstance(seq, Layer):
            more = {"num_layers": seq.layers, "bidirectional": seq.bidirectional, "batch_first": self._batch_first}
            module, leaves = self._loaded(seq, arrays, **more)
            return Bound(called(module, seq, self._torch), leaves)
        if not self._one_step:
            module, leaves = self._loaded(seq, arrays, batch_first=self._batch_first)
            return Bound(lambda x, state: module(x, _layered(state)), leaves)
        module, leaves = self._loaded(seq, {name.removesuffix("_l0"): a for name, a in arrays.items()})
        return Bound(module, {f"{name}_l0": tensor for name, tensor in leaves.items()})


def _layered(state: Any) -> Any:
    """As the layers take a state: (1, B, n), or the pair of such."""
    return tuple(part[None] for part in state) if isinstance(state, tuple) else state[None]


def _loaded(module: Any, arrays: Mapping[str, np.ndarray], torch: Any, dtype: Any, device: Any) -> dict[str, Any]:
    """The parameters of a module, which has these arrays for them now; ValueError where they do not fit."""
    if not isinstance(module, torch.nn.Module):
        raise TypeError(f"a function of two arguments, which should make a module, returned {type(module).__name__}")
    if pairs := [name for name, parameter in module.named_parameters() if parameter.is_complex()]:
        raise ValueError(
            f"{type(module).__name__} has complex {', '.join(pairs)}; allowed: real parameters, of a complex weight "
            "with a last axis of 2 (torch.view_as_complex)"
        )
    module.to(dtype=dtype, device=device)
    own = dict(module.named_parameters())
    every = {name: b for name, b in module.named_buffers() if name in arrays} | own
    check_arrays(type(module).__name__, {name: tuple(p.shape) for name, p in every.items()}, arrays)
    with torch.no_grad():
        for name, tensor in every.items():
            tensor.copy_(torch.from_numpy(arrays[name]))
    return {name: parameter.requires_grad_() for name, parameter in own.items()}


def _tensor(array: np.ndarray, seq: Sequence | Layer, torch: Any, device: Any) -> Any:
    return torch.from_numpy(np.array(array)).to(device=device, dtype=getattr(torch, seq.dtype))


def _numpy(a: Any) -> np.ndarray:
    return np.asarray((a.float() if a.dtype.itemsize == 2 else a).detach().cpu())  # NumPy has no bfloat16


def _adapter(
    read: Callable[[Any], Sequence | Layer | None],
    supports: Callable[[Any], Layout | None],
    bind: Callable[[Any, Any], Bound],
    style: Style,
    device: Any,
    torch: Any,
    cell: str,
    assumes: tuple[str, ...] = (),
) -> Adapter:
    def take(seq: Sequence | Layer, arrays: Any) -> Taken:
        def tensor(a: np.ndarray) -> Any:
            return _tensor(a, seq, torch, device)

        library = Library(tensor, torch.stack, lambda a: a.transpose(0, 1), torch.sum)
        bound = bind(seq, arrays)
        x, *start = (tensor(a).requires_grad_() for a in (seq.x, *seq.start))
        every, last = states_of(bound.call, seq, style, library, x, tuple(start))
        forward = list(map(_numpy, every)), tuple(map(_numpy, last))
        if not seq.gradients:
            return Taken(*forward)
        d_x, *rest = gradients_of(loss_of(every, last, seq, library), [x, *start, *bound.weights.values()], torch)
        by_name = dict(zip(bound.weights, rest[len(start) :], strict=True))
        return Taken(*forward, by_name, d_x, tuple(rest[: len(start)]))

    return adapter(read, supports, take, cell, assumes)
