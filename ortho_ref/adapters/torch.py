"""PyTorch: its own recurrent layers and cells, modules and functions of a user's; gradients by autograd."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from ortho_ref import converters
from ortho_ref.adapters.missing import missing
from ortho_ref.adapters.sequence import (
    Call,
    Library,
    Sequence,
    Style,
    Taken,
    arrays_of,
    loss_of,
    one_cell,
    outputs_of,
    sequence_of,
    states_of,
    whose,
)
from ortho_ref.adapters.weight_map import Converted, Layout, Spec, check_arrays

#: The classes of torch.nn, without Cell, and which cell each is.
CELLS = {"RNN": "elman", "LSTM": "lstm", "GRU": "gru_reset_after"}
_TRIAL = (3, 4)


class Bound(NamedTuple):
    """An implementation with weights in it."""

    call: Call  # call(x, state)
    weights: dict[str, Any]  # the tensors whose gradients are wanted


def from_torch(
    target: Any,
    *,
    cell: str | Mapping[str, Any] | None = None,
    weights: Spec | None = None,
    step: bool = False,
    batch_first: bool = False,
    call: Callable[..., Any] | None = None,
    device: Any = None,
) -> Callable[[Any], dict[str, np.ndarray] | None]:
    """An adapter of the conformance kit for a PyTorch layer, module or function.

    Parameters
    ----------
    target : class, module or function
        nn.RNN, nn.LSTM, nn.GRU or their Cell, or an instance, whose options are taken: nothing more is needed.  A
        module class of yours, or a function of two arguments that makes one, (input_size, hidden_size): with `cell` and
        `weights`.  Or a function of three, the forward pass (x, h0, weights): with `cell`.  h0 is (B, n), of an LSTM
        the pair (h0, c0); it returns h (T, B, n), of an LSTM (h, c) or, as PyTorch, (h, (h_T, c_T)).
    cell : str or mapping, optional
        Which cell it is: a cell's or model's name, or a config.
    weights : mapping, optional
        The module's parameter, or the function's weight -> the kit's weights that it is made of; unless given they are
        the kit's.
    step : bool
        Whether the module or function is one step, x (B, m), and returns the new state.
    batch_first : bool
        Whether it takes x (B, T, m) and returns h (B, T, n).
    call : callable, optional
        How a module of yours is called, call(module, x, state); module(x, state) unless given.
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
    try:
        import torch
    except ImportError as error:
        raise missing(error, "torch", "pip install torch") from None
    known = _known(target, torch)
    if known is not None:
        given = {"cell": cell, "weights": weights, "call": call}
        if extra := [name for name, value in given.items() if value is not None]:
            raise TypeError(f"from_torch of {known} knows the cell and its weights; leave out {', '.join(extra)}")
        return _of_known(target, known, device, torch)
    config, layout = one_cell(cell, weights, "from_torch")
    style = Style(step, batch_first)
    if _makes_modules(target, torch):
        if weights is None:
            raise TypeError("from_torch of a module needs weights=, its parameters -> the kit's weights")
        where = "cpu" if device is None else device

        def make(m: int, n: int) -> Any:
            return target(m, n)

        _loaded(make(*_TRIAL), layout.to_framework(layout.zeros(*_TRIAL)), torch, torch.float64, "cpu")

        def bind_module(seq: Sequence, arrays: Any) -> Bound:
            module = make(*seq.sizes)
            own = _loaded(module, arrays, torch, getattr(torch, seq.dtype), where)
            return Bound(module if call is None else lambda x, state: call(module, x, state), own)

        return _adapter(lambda seq: layout if whose(seq, config) else None, bind_module, style, where, torch)
    if call is not None:
        raise TypeError("call is for modules; a function is called as it is, (x, h0, weights)")

    def bind_function(seq: Sequence, arrays: Any) -> Bound:
        own = {name: _leaf(a, torch, device) for name, a in arrays.items()}
        return Bound(lambda x, state: target(x, state, own), own)

    return _adapter(lambda seq: layout if whose(seq, config) else None, bind_function, style, device, torch)


def _known(target: Any, torch: Any) -> str | None:
    """Which of torch.nn's classes a target is, or derives from."""
    kind = target if isinstance(target, type) else type(target)
    for name in (*CELLS, *(f"{name}Cell" for name in CELLS)):
        if issubclass(kind, getattr(torch.nn, name)):
            return f"nn.{name}"
    return None


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
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    return sum(p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters)


def _of_known(target: Any, known: str, device: Any, torch: Any) -> Callable[[Any], dict[str, np.ndarray] | None]:
    """An adapter of a layer of torch.nn's, by the converters."""
    one_step, kind = known.endswith("Cell"), target if isinstance(target, type) else type(target)
    cell = CELLS[known.removeprefix("nn.").removesuffix("Cell")]
    options: dict[str, Any] = {}
    if not isinstance(target, type):
        only = {"num_layers": 1, "bidirectional": False, "proj_size": 0, "bias": True}
        for option, allowed in only.items():
            if getattr(target, option, allowed) != allowed:
                raise ValueError(f"{known} has {option}={getattr(target, option)!r}; allowed: {allowed!r}")
        if cell == "elman":
            options["nonlinearity"] = target.nonlinearity
        if getattr(target, "batch_first", False):
            options["batch_first"] = True
        device = next(target.parameters()).device if device is None else device

    def supports(seq: Sequence) -> Layout | None:
        if seq.config["cell"] != cell or seq.config.get("activation") not in (None, "tanh", "relu"):
            return None
        if "nonlinearity" in options and options["nonlinearity"] != seq.config["activation"]:
            return None
        return Converted(converters.by_name("pytorch"), seq.config)

    def bind(seq: Sequence, arrays: Any) -> Bound:
        own = options | ({"nonlinearity": seq.config["activation"]} if cell == "elman" else {})
        module = kind(*seq.sizes, **own)
        names = {name.removesuffix("_l0") if one_step else name: a for name, a in arrays.items()}
        loaded = _loaded(module, names, torch, getattr(torch, seq.dtype), device)
        leaves = {f"{name}_l0" if one_step else name: tensor for name, tensor in loaded.items()}
        return Bound(module if one_step else lambda x, state: module(x, _layered(state)), leaves)

    style = Style(one_step, bool(options.get("batch_first")))
    return _adapter(supports, bind, style, device, torch)


def _layered(state: Any) -> Any:
    """As the layers take a state: (1, B, n), or the pair of such."""
    return tuple(part[None] for part in state) if isinstance(state, tuple) else state[None]


def _loaded(module: Any, arrays: Mapping[str, np.ndarray], torch: Any, dtype: Any, device: Any) -> dict[str, Any]:
    """The parameters of a module, which has these arrays for them now; ValueError where they do not fit."""
    if not isinstance(module, torch.nn.Module):
        raise TypeError(f"a function of two arguments, which should make a module, returned {type(module).__name__}")
    module.to(dtype=dtype, device=device)
    own = dict(module.named_parameters())
    check_arrays(type(module).__name__, {name: tuple(p.shape) for name, p in own.items()}, arrays)
    with torch.no_grad():
        for name, parameter in own.items():
            parameter.copy_(torch.from_numpy(arrays[name]))
            parameter.requires_grad_()
    return own


def _leaf(array: np.ndarray, torch: Any, device: Any) -> Any:
    return torch.from_numpy(np.array(array)).to(device=device).requires_grad_()


def _adapter(
    supports: Callable[[Sequence], Layout | None],
    bind: Callable[[Sequence, Any], Bound],
    style: Style,
    device: Any,
    torch: Any,
) -> Callable[[Any], dict[str, np.ndarray] | None]:
    library = Library(
        lambda a: torch.from_numpy(a).to(device=device), torch.stack, lambda a: a.transpose(0, 1), torch.sum
    )

    def run(case: Any) -> dict[str, np.ndarray] | None:
        """The outputs; None for a case of another kind or cell."""
        seq = sequence_of(case)
        layout = None if seq is None else supports(seq)
        if seq is None or layout is None:
            return None
        arrays = arrays_of(layout, seq)
        if arrays is None:
            return None
        bound = bind(seq, arrays)
        x, start = _leaf(seq.x, torch, device), tuple(_leaf(part, torch, device) for part in seq.start)
        every, last = states_of(bound.call, seq, style, library, x, start)
        loss = loss_of(every, last, seq, library)
        if not loss.requires_grad:
            raise ValueError("no gradient can be taken of what was returned: it is detached from x, h0 and the weights")
        leaves = [x, *start, *bound.weights.values()]
        gradients = torch.autograd.grad(loss, leaves, allow_unused=True, materialize_grads=True)
        taken = iter(g.cpu().numpy() for g in gradients)
        d_x, d_start = next(taken), tuple(next(taken) for _ in start)
        by_name = dict(zip(bound.weights, taken, strict=True))
        return outputs_of(Taken([a.detach().cpu().numpy() for a in every], by_name, d_x, d_start), seq, layout)

    return run
