"""The zoo: the papers' models by name, as `Recurrent` layers with the papers' initial values and defaults."""

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np

from ortho_ref.cells import LSTM, Elman, GRUResetBefore
from ortho_ref.initial import constant, identity, uniform
from ortho_ref.network import Network
from ortho_ref.parametrizations import NeumannCayley, Parametrization, ScaledCayley
from ortho_ref.recurrent import Recurrent


def _rnn(m: int, n: int) -> Recurrent:
    """tanh RNN (urnn:1): Glorot uniform, bias 0."""
    return Recurrent(Elman("tanh"), sizes=(m, n))


def _irnn(m: int, n: int) -> Recurrent:
    """IRNN (urnn:1 with relu, U_0 = I): the identity start of Le et al. 2015; W Glorot uniform, bias 0."""
    return Recurrent(Elman("relu"), initial={"U": identity}, sizes=(m, n))


def _lstm(m: int, n: int) -> Recurrent:
    """LSTM (bp:lstm): the papers' baseline, forget bias 1; not the one of the uRNN code, which has a full peephole."""
    return Recurrent(LSTM(), sizes=(m, n))


def _gru(m: int, n: int) -> Recurrent:
    """GRU (ncgru:1), tanh.

    Gate biases as in the TensorFlow cell the NC-GRU paper compares with, which starts both gates at +1; its update gate
    keeps the old state where ncgru:1 writes the new one, so that here b_r = 1 and b_u = -1.
    """
    return Recurrent(GRUResetBefore("tanh"), initial={"b_r": constant(1.0), "b_u": constant(-1.0)}, sizes=(m, n))


def _scornn(m: int, n: int, negative_ones: int | None = None) -> Recurrent:
    """scoRNN: h = modrelu(W x + U h, b), U by the exact scaled Cayley transform (ncgru:2-6); W ~ U(+-0.01), b = 0.

    negative_ones: n // 2 unless given, the ratio of scoRNN's adding and copying scripts.
    """
    U = ScaledCayley(n // 2 if negative_ones is None else negative_ones)
    return Recurrent(Elman("modrelu"), {"U": U}, initial={"W": uniform(0.01)}, sizes=(m, n))


def _nc_gru(
    m: int,
    n: int,
    orthogonal: str = "c",
    order: int = 2,
    reset_every: int | None = 50,
    negative_ones: int | None = None,
    exact: bool = False,
) -> Recurrent:
    """NC-GRU (ncgru:19): modReLU, bias inside; the recurrent weights named in `orthogonal` by Algorithm 1.

    orthogonal: "c", "rc" or "ruc": NC-GRU(U_c), (U_r, U_c), (U_r, U_u, U_c).
    order, reset_every: of the Neumann series.  negative_ones: of D; n // 2 unless given (paper: 40 of 56, 50 of 118).
    exact: the exact scaled Cayley transform in place of the series.

    Free matrices are uniform with variance 2 / (m + n), as in the authors' released cell, biases 0: the paper names
    neither.  Released code departs in its gate (u keeps the old state), its Neumann step (fed lr * gradient although
    Adam moves A) and, with two orthogonal weights, its gradients (both take that of U_r).
    """
    if orthogonal not in ("c", "rc", "ruc"):
        raise ValueError(f"orthogonal is {orthogonal!r}; allowed: 'c', 'rc', 'ruc'")
    k = n // 2 if negative_ones is None else negative_ones
    neumann = NeumannCayley(k, order, reset_every)
    U: Parametrization = ScaledCayley(k) if exact else neumann
    he = uniform(math.sqrt(6 / (m + n)))
    return Recurrent(
        GRUResetBefore("modrelu"),
        {f"U_{g}": U for g in orthogonal},
        initial={"W_r": he, "W_u": he, "W_c": he} | {f"U_{g}": he for g in "ruc" if g not in orthogonal},
        sizes=(m, n),
    )


_MODELS: dict[str, Callable[..., Recurrent]] = {
    "rnn": _rnn,
    "irnn": _irnn,
    "lstm": _lstm,
    "gru": _gru,
    "scornn": _scornn,
    "nc-gru": _nc_gru,
}


def names() -> list[str]:
    """Every model's name."""
    return list(_MODELS)


def build(name: str, input_size: int, hidden_size: int, **options: object) -> Recurrent:
    """The model called `name` as a layer for m = input_size and n = hidden_size; `describe(name)` tells its options.

    Raises ValueError for an unknown name and for sizes and option values out of range, TypeError for an unknown option.
    """
    if name not in _MODELS:
        raise ValueError(f"model is {name!r}; allowed: {', '.join(_MODELS)}")
    for argument, size in (("input_size", input_size), ("hidden_size", hidden_size)):
        if not isinstance(size, int | np.integer) or size < 1:
            raise ValueError(f"{argument} is {size!r}; allowed: an integer >= 1")
    model = _MODELS[name]
    allowed = model.__code__.co_varnames[2 : model.__code__.co_argcount]
    for option in options:
        if option not in allowed:
            raise TypeError(f"{name} has no option {option!r}; allowed: {', '.join(allowed) or 'none'}")
    k = options.get("negative_ones")
    if isinstance(k, int | np.integer) and k > hidden_size:
        raise ValueError(f"negative_ones is {k}; allowed: 0 to n = {hidden_size}")
    return model(input_size, hidden_size, **options)


def network(
    name: str,
    input_size: int,
    hidden_sizes: Sequence[int],
    output_size: int,
    *,
    readout: str = "every",
    loss: str = "cross_entropy",
    dropout: float = 0.0,
    **options: object,
) -> Network:
    """Layers of the model called `name`, one for each hidden size, under a dense readout; `build` takes the options."""
    sizes = itertools.pairwise([input_size, *hidden_sizes])
    layers = tuple(build(name, m, n, **options) for m, n in sizes)
    return Network(layers, output_size, readout, loss, dropout)


def describe(name: str) -> str:
    """The model's description: its paper and equations, its options, where public code differs."""
    if name not in _MODELS:
        raise ValueError(f"model is {name!r}; allowed: {', '.join(_MODELS)}")
    return _MODELS[name].__doc__ or ""
