"""A cell forward + backward as one call: `fused`'s or `scan`'s, and PyTorch's beside it.

The peer is PyTorch's own module where it has the cell (rnn, lstm, gru-cudnn), and an eager cell where it has not: gate
products joined into one, input products before the loop, a dense U, autograd.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ortho_ref import models
from ortho_ref.backend import to_device
from ortho_ref.cells.cell import state_of


class Size(NamedTuple):
    """A problem size.  batch B, length T, inputs m, hidden n."""

    batch: int
    length: int
    inputs: int
    hidden: int


SIZES = {
    "parenthesis": Size(16, 100, 22, 56),
    "denoise": Size(128, 200, 10, 118),
    "adding": Size(50, 200, 2, 80),
    "copying": Size(50, 1020, 10, 96),
    "char-PTB layer": Size(32, 100, 200, 430),
    "big layer": Size(32, 100, 430, 1000),
}

#: The models that have a peer in `torch_step`.
MODELS = ("nc-gru", "goru", "urnn", "sgornn", "gru-cudnn", "lstm", "rnn")


def numpy_step(engine: Any, size: Size, model: str = "nc-gru", device: str = "cpu") -> Callable[[], None]:
    """Forward + backward of a model's cell by `engine`: gradients of every dense weight, of x and of h0, float32."""
    B, T, m, n = size
    rng = np.random.default_rng(0)
    layer = models.build(model, m, n)
    weights = layer.weights(*layer.init(rng))
    x = rng.normal(size=(T, B, m)).astype(np.float32)
    dtype = np.complex64 if layer.cell.complex else np.float32
    h0 = state_of(tuple(rng.normal(size=(B, n)).astype(dtype) for _ in layer.cell.states))
    dh = rng.normal(size=(T, B, n)).astype(dtype)
    weights, x, h0, dh = to_device((weights, x, h0, dh), device)

    kept: list[Any] = [None]

    def step() -> None:
        h, tape = engine.forward(layer.cell, weights, x, h0)
        engine.backward(layer.cell, weights, tape, dh)
        kept[0] = h, tape  # as the trainer does until the next step's are there: the memory is not handed back between

    return step


def torch_step(size: Size, model: str = "nc-gru", device: str = "cpu") -> Callable[[], None]:
    """The same in PyTorch; device: PyTorch's name of it, "cpu" or "cuda"."""
    import torch

    B, T, m, n = size
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    dtype = torch.complex64 if model == "urnn" else torch.float32

    def leaf(*shape: int, dtype: Any = dtype) -> Any:
        return (torch.randn(shape, generator=generator, dtype=dtype) / n**0.5).to(device).requires_grad_()

    x, h0 = leaf(T, B, m, dtype=torch.float32), leaf(B, n)
    dh = torch.randn(T, B, n, generator=generator, dtype=dtype).to(device)
    modules = {"rnn": torch.nn.RNN, "lstm": torch.nn.LSTM, "gru-cudnn": torch.nn.GRU}
    if model in modules:
        leaves, states = _module(modules[model](m, n).to(device), x, h0)
    else:
        leaves, states = _eager(model, x, h0, leaf)

    def step() -> None:
        for tensor in leaves:
            tensor.grad = None
        states().backward(dh)

    return step


#: What gradients are taken by, and the function that computes the states (T, B, n).
_Peer = tuple[list[Any], Callable[[], Any]]


def _module(module: Any, x: Any, h0: Any) -> _Peer:
    """PyTorch's own module; the LSTM's memory begins where its state does."""
    import torch

    def states() -> Any:
        return module(x, (h0[None], h0[None]) if isinstance(module, torch.nn.LSTM) else h0[None])[0]

    return [*module.parameters(), x, h0], states


def _eager(model: str, x: Any, h0: Any, leaf: Callable[..., Any]) -> _Peer:
    """The cell from PyTorch's operations, step by step."""
    import torch

    m, n = x.shape[2], h0.shape[1]
    gates = 2 if model in ("nc-gru", "goru") else 0
    W, U_G, U, b_G = leaf((gates + 1) * n, m), leaf(gates * n, n), leaf(n, n), leaf(gates * n)
    b, alpha, beta = (leaf(*shape, dtype=torch.float32) for shape in ((n,), (), ()))

    def simple(P: Any, h: Any) -> Any:
        z = P + h @ U.T
        if model == "urnn":
            return torch.sgn(z) * torch.relu(torch.abs(z) + b)
        return torch.sigmoid(alpha) * torch.relu(z + b) + torch.sigmoid(beta) * h

    def gated(P_G: Any, P: Any, h: Any) -> Any:
        r, u = torch.sigmoid(P_G + h @ U_G.T).chunk(2, dim=1)
        a = P + ((r * h) @ U.T if model == "nc-gru" else r * (h @ U.T))
        return h + u * (torch.sign(a) * torch.relu(torch.abs(a) + b) - h)

    def states() -> Any:
        products, h, history = x.to(W.dtype) @ W.T, h0, []
        # unbind: its backward is one stack, where that of P[t] would fill a (T, B, n) array of zeros at every step
        for P_G, P in zip((products[..., :-n] + b_G).unbind(), products[..., -n:].unbind(), strict=True):
            h = gated(P_G, P, h) if gates else simple(P, h)
            history.append(h)
        return torch.stack(history)

    return [W, U_G, U, b_G, b, alpha, beta, x, h0], states
