"""PyTorch's contenders: its own module where it has the cell, and eager cells in the two forms people write.

    torch.nn        nn.RNN, nn.GRU, nn.LSTM (on the host oneDNN's, in float32)
    torch joined    [x_t, h] @ K: one product a step of all the gates that see h; nothing before the loop
    torch hoisted   x W + b of all steps before the loop, then addmm(P_t, h, U)

A gate that is applied before its product (NC-GRU's candidate) is a product of its own in both.  GRUs that reset after
the product have U_h h apart, and W_h x before the loop, in both.  Gradients are autograd's; U is dense.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ortho_ref import converters
from ortho_ref.cells import LSTM, Elman, FastRNN, GRUResetAfter, GRUResetBefore
from ortho_ref.cells.cell import Weights, weight_name
from ortho_ref.converters.config import config_of_cell
from scripts.maintain.timing.steps import CellProblem, Contender, Gradients, Size, first_states, problem

State = tuple[Any, ...]
#: From what the products have of a step, and the state, to the next state.
Body = Callable[[tuple[Any, ...], State], State]


class Joined:
    """[x, h] @ K + b of some gates."""

    def __init__(self, weights: Weights, gates: str, bias: bool, leaf: Callable[[Any], Any]) -> None:
        self.gates, self.m = _suffixes(gates), weights[weight_name("W", _suffixes(gates)[0])].shape[1]
        K = [np.concatenate([weights[weight_name("W", g)], weights[weight_name("U", g)]], axis=1).T for g in self.gates]
        self.K = leaf(np.concatenate(K, axis=1))
        self.b = leaf(np.concatenate([weights[weight_name("b", g)] for g in self.gates])) if bias else None
        self.leaves = [self.K] if self.b is None else [self.K, self.b]  # what gradients are taken by

    def inputs(self, x: Any) -> Any:
        """What each step has of x."""
        return x.to(self.K.dtype).unbind()

    def __call__(self, x_t: Any, h: Any) -> Any:
        """The gates' pre-activations, side by side."""
        import torch

        row = torch.cat((x_t, h), 1)
        return row @ self.K if self.b is None else torch.addmm(self.b, row, self.K)

    def named(self, dK: Any, db: Any = None) -> Gradients:
        """The leaves' gradients by our names."""
        return _cut("W", self.gates, dK[: self.m]) | _cut("U", self.gates, dK[self.m :]) | _cut("b", self.gates, db)


class Hoisted:
    """P_t + h @ U of some gates, P = x W + b before the loop."""

    def __init__(self, weights: Weights, gates: str, bias: bool, leaf: Callable[[Any], Any]) -> None:
        self.gates = _suffixes(gates)
        W, U = ([weights[weight_name(kind, g)].T for g in self.gates] for kind in "WU")
        self.W, self.U = leaf(np.concatenate(W, axis=1)), leaf(np.concatenate(U, axis=1))
        self.b = leaf(np.concatenate([weights[weight_name("b", g)] for g in self.gates])) if bias else None
        self.leaves = [self.W, self.U] if self.b is None else [self.W, self.U, self.b]

    def inputs(self, x: Any) -> Any:
        """What each step has of x; unbind, whose backward is one stack, where P[t] fills an array of zeros a step."""
        import torch

        rows = x.to(self.W.dtype).flatten(0, 1)
        P = rows @ self.W if self.b is None else torch.addmm(self.b, rows, self.W)
        return P.view(*x.shape[:2], -1).unbind()

    def __call__(self, P_t: Any, h: Any) -> Any:
        """The gates' pre-activations, side by side."""
        import torch

        return torch.addmm(P_t, h, self.U)

    def named(self, dW: Any, dU: Any, db: Any = None) -> Gradients:
        """The leaves' gradients by our names."""
        return _cut("W", self.gates, dW) | _cut("U", self.gates, dU) | _cut("b", self.gates, db)


class Apart(Hoisted):
    """P_t and h @ U + b_hh, not added: the candidate of a GRU that resets after the product."""

    def __init__(self, weights: Weights, gates: str, bias: bool, leaf: Callable[[Any], Any]) -> None:
        super().__init__(weights, gates, bias, leaf)
        self.b_hh = leaf(weights["b_hh"]) if "b_hh" in weights else None
        self.leaves += [] if self.b_hh is None else [self.b_hh]

    def __call__(self, P_t: Any, h: Any) -> Any:
        """h's part alone."""
        import torch

        return h @ self.U if self.b_hh is None else torch.addmm(self.b_hh, h, self.U)

    def named(self, *gradients: Any) -> Gradients:
        """The leaves' gradients by our names."""
        if self.b_hh is None:
            return super().named(*gradients)
        *others, db_hh = gradients
        return super().named(*others) | {"b_hh": db_hh.numpy()}


#: The eager forms, by the names of their contenders.
EAGER: dict[str, type[Joined] | type[Hoisted]] = {"torch joined": Joined, "torch hoisted": Hoisted}


def _suffixes(gates: str) -> tuple[str, ...]:
    return tuple(gates) or ("",)


def _cut(kind: str, gates: Sequence[str], joined: Any) -> Gradients:
    """(..., G n) by gate, matrices as ours are."""
    if joined is None:
        return {}
    parts = joined.numpy().T.reshape(len(gates), -1, *joined.shape[:-1])
    return {weight_name(kind, g): part for g, part in zip(gates, parts, strict=True)}


class Eager:
    """A cell's products, its further leaves, and its step."""

    def __init__(self, own: CellProblem, form: type[Joined] | type[Hoisted], device: str = "cpu") -> None:
        self.cell: Any = own.cell
        self.weights, self.device = own.weights, device
        inside = [own.cell.phi_bias] if getattr(own.cell, "activation", "") == "modrelu" else []
        names = [name for name in (*inside, "alpha", "beta") if name in own.weights]
        self.further = {name: self.leaf(own.weights[name]) for name in names}
        self.products, self.body = _CELLS[type(own.cell)](self, form)
        self.leaves = [leaf for product in self.products for leaf in product.leaves] + list(self.further.values())

    def leaf(self, array: Any) -> Any:
        """A weight that a gradient is taken by."""
        return _tensor(array, self.device).requires_grad_()

    def product(self, form: Any, gates: str) -> Any:
        """That of some gates, with their biases but for modReLU's."""
        return form(self.weights, gates, weight_name("b", _suffixes(gates)[0]) not in self.further, self.leaf)

    def phi(self, a: Any) -> Any:
        """The activation; modReLU takes its bias here."""
        import torch

        if self.cell.activation == "tanh":
            return torch.tanh(a)
        if self.cell.activation == "relu":
            return torch.relu(a)
        b = self.further[self.cell.phi_bias]
        return torch.sgn(a) * torch.relu(torch.abs(a) + b)

    def states(self, x: Any, state: State) -> Any:
        """h (T, B, n)."""
        import torch

        history = []
        for inputs in zip(*(product.inputs(x) for product in self.products), strict=True):
            state = self.body(inputs, state)
            history.append(state[0])
        return torch.stack(history)

    def named(self, gradients: Sequence[Any]) -> Gradients:
        """The leaves' gradients by our names."""
        rest, found = list(gradients), Gradients()
        for product in self.products:
            own, rest = rest[: len(product.leaves)], rest[len(product.leaves) :]
            found |= product.named(*own)
        return found | {name: gradient.numpy() for name, gradient in zip(self.further, rest, strict=True)}


_Made = tuple[tuple[Any, ...], Body]


def _gru_reset_before(own: Eager, form: Any) -> _Made:
    import torch

    gates, candidate = own.product(form, "ru"), own.product(form, "c")

    def body(inputs: tuple[Any, ...], state: State) -> State:
        (h,) = state
        r, u = torch.sigmoid(gates(inputs[0], h)).chunk(2, 1)
        return (torch.lerp(h, own.phi(candidate(inputs[1], r * h)), u),)

    return (gates, candidate), body


def _gru_reset_after(own: Eager, form: Any) -> _Made:
    import torch

    gates, candidate = own.product(form, "rz"), own.product(Apart, "h")

    def body(inputs: tuple[Any, ...], state: State) -> State:
        (h,) = state
        r, z = torch.sigmoid(gates(inputs[0], h)).chunk(2, 1)
        c = own.phi(torch.addcmul(inputs[1], r, candidate(inputs[1], h)))
        return (torch.lerp(c, h, z),)

    return (gates, candidate), body


def _lstm(own: Eager, form: Any) -> _Made:
    import torch

    gates = own.product(form, "ifog")
    n = own.weights["U_i"].shape[0]

    def body(inputs: tuple[Any, ...], state: State) -> State:
        h, c = state
        a = gates(inputs[0], h)
        i, f, o = torch.sigmoid(a[:, : 3 * n]).chunk(3, 1)
        c = torch.addcmul(f * c, i, torch.tanh(a[:, 3 * n :]))
        return o * torch.tanh(c), c

    return (gates,), body


def _elman(own: Eager, form: Any) -> _Made:
    product = own.product(form, "")

    def body(inputs: tuple[Any, ...], state: State) -> State:
        return (own.phi(product(inputs[0], state[0])),)

    return (product,), body


def _fastrnn(own: Eager, form: Any) -> _Made:
    import torch

    product = own.product(form, "")
    half = torch.full((), 0.5, dtype=own.further["alpha"].dtype, device=own.further["alpha"].device)

    def body(inputs: tuple[Any, ...], state: State) -> State:
        alpha, beta = torch.sigmoid(own.further["alpha"]), torch.sigmoid(own.further["beta"])
        if own.cell.constraint == "sgornn":
            alpha = torch.minimum(alpha, half)
        if own.cell.constraint is not None:
            beta = torch.minimum(beta, 1 - 2 * alpha)
        return (alpha * own.phi(product(inputs[0], state[0])) + beta * state[0],)

    return (product,), body


_CELLS: dict[type, Callable[..., _Made]] = {
    GRUResetBefore: _gru_reset_before,
    GRUResetAfter: _gru_reset_after,
    LSTM: _lstm,
    Elman: _elman,
    FastRNN: _fastrnn,
}


def plain_float32() -> str:
    """PyTorch's float32 products in float32, as CuPy's; by itself cuDNN rounds to TF32.  What came of it."""
    import torch

    try:
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    except Exception as error:
        return f"as PyTorch has it: {error}"
    return "off"


def _tensor(array: Any, device: str) -> Any:
    import torch

    return torch.from_numpy(np.array(array, order="C")).to(device)


def _contender(
    own: CellProblem,
    device: str,
    leaves: list[Any],
    states: Callable[[Any, State], Any],
    named: Callable[[Sequence[Any]], Gradients],
) -> Contender:
    """Autograd of h = states(x, h0) by the leaves, x and h0; named: the leaves' gradients by our names."""
    import torch

    if device != "cpu":
        plain_float32()
    x, *h0 = (_tensor(array, device).requires_grad_() for array in (own.x, *own.h0))
    dh, points = _tensor(own.dh, device), [*leaves, x, *h0]

    def step() -> Any:
        return torch.autograd.grad(states(x, tuple(h0)), points, dh)

    def gradients(found: Any) -> Gradients:
        on_host = [gradient.cpu() for gradient in found]
        names = ("x", *first_states(own))
        rest = {name: g.numpy() for name, g in zip(names, on_host[-len(names) :], strict=True)}
        return named(on_host[: -len(names)]) | rest

    return Contender(step, gradients)


def eager(own: CellProblem, form: type[Joined] | type[Hoisted], device: str = "cpu") -> Contender:
    """An eager cell."""
    cell = Eager(own, form, device)
    return _contender(own, device, cell.leaves, cell.states, cell.named)


def module(own: CellProblem, device: str = "cpu") -> Contender | None:
    """PyTorch's own module with this cell; None where it has none."""
    import torch

    kind = {"rnn": torch.nn.RNN, "lstm": torch.nn.LSTM, "gru-cudnn": torch.nn.GRU}.get(own.model)
    if kind is None:
        return None
    pytorch, config = converters.by_name("pytorch"), config_of_cell(own.cell)
    state = {name: _tensor(a, "cpu") for name, a in pytorch.to_framework(config, own.weights).items()}
    net = kind(own.x.shape[2], own.dh.shape[2], dtype=state["weight_hh_l0"].dtype)
    net.load_state_dict(state)
    parameters = dict(net.to(device).named_parameters())

    def states(x: Any, h0: State) -> Any:
        first = tuple(part[None] for part in h0)
        return net(x, first if len(first) > 1 else first[0])[0]

    def named(gradients: Sequence[Any]) -> Gradients:
        theirs = {name: gradient.numpy() for name, gradient in zip(parameters, gradients, strict=True)}
        return pytorch.gradients_from(config, theirs)

    return _contender(own, device, [*parameters.values()], states, named)


def contenders(own: CellProblem, device: str = "cpu", threads: int = 1) -> dict[str, Contender]:
    """The module, where there is one, and both eager forms."""
    import torch

    torch.set_num_threads(threads)
    own_module = module(own, device)
    forms = {name: eager(own, form, device) for name, form in EAGER.items()}
    return ({} if own_module is None else {"torch.nn": own_module}) | forms


def torch_step(size: Size, model: str, device: str) -> Callable[[], Any]:
    """PyTorch's module, or its eager cell with the input products before the loop; float32."""
    import torch

    torch.set_num_threads(1)
    own = problem(size, model)
    return (module(own, device) or eager(own, Hoisted, device)).step
