"""The zoo: the papers' models by name, as `Recurrent` layers with the papers' initial values and defaults."""

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ortho_ref.cells import LSTM, Elman, FastRNN, GRUResetAfter, GRUResetBefore
from ortho_ref.initial import Initial, constant, identity, normal, uniform
from ortho_ref.network import Network
from ortho_ref.parametrizations import (
    Exponential,
    FFTRotations,
    Free,
    GeodesicUnitary,
    Householder,
    NeumannCayley,
    Parametrization,
    ScaledCayley,
    StructuredUnitary,
    TunableRotations,
    VolumePreserving,
    by_name,
)
from ortho_ref.parametrizations.by_name import FORMS
from ortho_ref.parametrizations.parametrization import is_integer
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
    if not isinstance(exact, bool):
        raise ValueError(f"exact is {exact!r}; allowed: True, False")
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


def _gru_cudnn(m: int, n: int) -> Recurrent:
    """GRU (goru:2.2) with the second bias inside the reset: what cuDNN and PyTorch compute, z keeping the old state.

    Every weight uniform on +-1/sqrt(n), as in PyTorch; b_r and b_z are one vector each where PyTorch adds two.
    """
    cell = GRUResetAfter("tanh", recurrent_bias=True)
    return Recurrent(cell, initial=dict.fromkeys(cell.shapes(1, 1), uniform(1 / math.sqrt(n))), sizes=(m, n))


def _after_initial(n: int) -> dict[str, Initial]:
    """GORU's code: matrices +-0.01, b_r = 2, b_z as Glorot's rule has it for a vector, modReLU's bias 0.01."""
    small = uniform(0.01)
    matrices = dict.fromkeys(("W_r", "U_r", "W_z", "U_z", "W_h"), small)
    return matrices | {"b_r": constant(2.0), "b_z": uniform(math.sqrt(3 / n)), "b_h": constant(0.01)}


def _gru_modrelu(m: int, n: int) -> Recurrent:
    """GRU (goru:2.2) with modReLU for tanh, an ablation of GORU's table 3: GORU with a free U_h, Glorot uniform."""
    return Recurrent(GRUResetAfter("modrelu"), initial=_after_initial(n), sizes=(m, n))


def _goru(
    m: int,
    n: int,
    style: str | None = None,
    capacity: int | None = None,
    reflections: int | None = None,
    activation: str = "modrelu",
    reset_gate: bool = True,
    update_gate: bool = True,
) -> Recurrent:
    """GORU (goru:3.1-3.3): U_h orthogonal, modReLU, reset after the product; z keeps the old state.

    style: "fft"; "tunable" with `capacity` layers, 2 unless given; or "householder" with `reflections`, n // 2 unless
    given.  Without a style: fft, or tunable where n is no power of two or a capacity is given.
    activation, reset_gate, update_gate: table 3's ablations; a gate that is off is a trainable vector (goru:abl).  The
    paper's text on them has the two gates swapped (E-goru-05): here r is the reset gate.

    Initial values as in the released code, whose modReLU adds 0.001 to |z|; here it is exact.
    """
    if style not in (None, "fft", "tunable", "householder"):
        raise ValueError(f"style is {style!r}; allowed: 'fft', 'tunable', 'householder'")
    if style == "householder":
        _refuse("capacity", capacity, "style", style)
        U: Parametrization = Householder(_half(n) if reflections is None else reflections)
    else:
        _refuse("reflections", reflections, "style", style)
        U = _rotations(n, style, capacity, complex=False)
    cell = GRUResetAfter(activation, reset_gate, update_gate)
    initial = {name: value for name, value in _after_initial(n).items() if name in cell.shapes(1, 1)}
    return Recurrent(cell, {"U_h": U}, initial=initial, sizes=(m, n))


def _rotations(n: int, style: str | None, capacity: int | None, complex: bool) -> Parametrization:
    if style is None:
        style = "tunable" if n & (n - 1) or capacity is not None else "fft"
    if style == "fft":
        _refuse("capacity", capacity, "style", style)
        return FFTRotations(complex)
    return TunableRotations(2 if capacity is None else capacity, complex)


def _refuse(option: str, value: object, decided_by: str, choice: object) -> None:
    """ValueError where an option is given that another makes meaningless."""
    if value is not None:
        raise ValueError(f"{option} is {value!r}, which {decided_by} {choice!r} has no use for")


def _half(n: int) -> int:
    return max(1, n // 2)


def _eurnn(m: int, n: int, style: str = "tunable", capacity: int | None = None, complex: bool = True) -> Recurrent:
    """EURNN (goru:tunable, goru:fft): modReLU RNN, U a product of layers of rotations; W uniform +-0.01, b = 0, h0 = 0.

    style: "tunable" with `capacity` layers, 2 unless given, or "fft".  complex: with phases, and complex states.

    Defaults are the released class's.  Its modReLU adds 0.01 to |z|, and it reads Re(h) only; here modReLU is exact and
    complex states are read as [Re h, Im h] (urnn:9).
    """
    if style not in ("fft", "tunable"):
        raise ValueError(f"style is {style!r}; allowed: 'fft', 'tunable'")
    if not isinstance(complex, bool):
        raise ValueError(f"complex is {complex!r}; allowed: True, False")
    cell, U = Elman("modrelu", complex), _rotations(n, style, capacity, complex)
    return Recurrent(cell, {"U": U}, initial={"W": uniform(0.01)}, sizes=(m, n))


def _unitary(m: int, n: int, U: Parametrization) -> Recurrent:
    return Recurrent(
        Elman("modrelu", complex=True),
        {"U": U},
        trained_h0=True,
        initial={"h0": uniform(math.sqrt(3 / (2 * n)))},
        sizes=(m, n),
    )


def _urnn(m: int, n: int) -> Recurrent:
    """uRNN (urnn:6-9): complex states, complex modReLU, U of seven structured factors, trained h0.

    Initial values are the paper's (urnn:init): b = 0, E |h0|^2 = 1, W Glorot uniform with n complex outputs counted as
    2 n.  Released code starts b at +-0.01, divides by |z| + 1e-5 in modReLU, and reflects in the conjugate of v.
    """
    return _unitary(m, n, StructuredUnitary())


def _full_urnn(m: int, n: int) -> Recurrent:
    """Full-capacity uRNN (goru:2.9-2.10, in the descending form of E-goru-03): as urnn, U any unitary matrix.

    U starts as a draw of uRNN's factorisation.  Made for SGD on U.  Released code takes half of U's gradient, and has
    1e-5 inside modReLU's root.
    """
    return _unitary(m, n, GeodesicUnitary())


def _ornn(m: int, n: int, reflections: int | None = None, activation: str = "modrelu") -> Recurrent:
    """oRNN (goru:householder): RNN with U a product of `reflections` Householder reflections (n // 2 unless given).

    activation: "tanh", "relu" or "modrelu".

    W Glorot uniform, b = 0, h0 trained and uniform on +-sqrt(3 / (2 n)).  Released code has a leaky ReLU of slope 0.1
    by default, projects the reflection vectors to unit length after each update, and takes their length for 1 in the
    gradient; here the gradient has the normalisation in it.
    """
    U = Householder(_half(n) if reflections is None else reflections)
    h0 = uniform(math.sqrt(3 / (2 * n)))
    return Recurrent(Elman(activation), {"U": U}, trained_h0=True, initial={"h0": h0}, sizes=(m, n))


def _exprnn(m: int, n: int, initial: str = "henaff") -> Recurrent:
    """EXPRNN (sgornn:2-alt): h = modrelu(W x + U h, b), U = exp(A).

    initial: of A, "henaff" (copying, speech) or "cayley" (MNIST).  W normal with variance 2 / m, b uniform on +-0.01.
    """
    values = {"W": normal(math.sqrt(2 / m)), "b": uniform(0.01)}
    return Recurrent(Elman("modrelu"), {"U": Exponential(initial)}, initial=values, sizes=(m, n))


def _fastrnn(m: int, n: int, activation: str = "tanh") -> Recurrent:
    """FastRNN (sgornn:1 with a free U and no constraint): W, U normal with deviation 0.1, b = 1, alpha = -3, beta = 3.

    activation: "tanh", "relu" or "modrelu".

    As in EdgeML's cell, alpha and beta before the sigmoid.  SGORNN's code starts its FastRNN from -3.75, Glorot uniform
    W, an orthogonal U and b = 0, with ReLU, and clips beta for it too.
    """
    small = normal(0.1)
    values = {"W": small, "U": small, "b": constant(1.0), "alpha": constant(-3.0)}
    return Recurrent(FastRNN(activation), initial=values, sizes=(m, n))


def _vprnn(m: int, n: int, sublayers: int | None = None) -> Recurrent:
    """VPRNN (sgornn:1 with alpha = 1, beta = 0): h = relu(W x + U h + b), U of permutations and paired rotations.

    sublayers: k of sgornn:2; 2 ceil(log2 n) unless given.  W Glorot uniform, b = 0.
    """
    return Recurrent(Elman("relu"), {"U": VolumePreserving(sublayers)}, sizes=(m, n))


def _sgornn(m: int, n: int, phi: str = "vprnn", sublayers: int | None = None) -> Recurrent:
    """SGORNN (sgornn:1-3): FastRNN with ReLU, an orthogonal U, alpha_t <= 1/2 and beta_t <= 1 - 2 alpha_t.

    phi: "vprnn" with `sublayers` (2 ceil(log2 n) unless given), or "exp", the matrix exponential.  W Glorot uniform,
    b = 0, alpha = -3.75, beta = 3 before the sigmoid.  The paper and its code do not clip alpha (E-sgornn-04).
    """
    if phi not in ("vprnn", "exp"):
        raise ValueError(f"phi is {phi!r}; allowed: 'vprnn', 'exp'")
    if phi == "exp":
        _refuse("sublayers", sublayers, "phi", phi)
    U: Parametrization = VolumePreserving(sublayers) if phi == "vprnn" else Exponential()
    return Recurrent(FastRNN("relu", "sgornn"), {"U": U}, sizes=(m, n))


_MODELS: dict[str, Callable[..., Recurrent]] = {
    "rnn": _rnn,
    "irnn": _irnn,
    "lstm": _lstm,
    "gru": _gru,
    "gru-cudnn": _gru_cudnn,
    "gru-modrelu": _gru_modrelu,
    "scornn": _scornn,
    "nc-gru": _nc_gru,
    "urnn": _urnn,
    "full-urnn": _full_urnn,
    "eurnn": _eurnn,
    "ornn": _ornn,
    "exprnn": _exprnn,
    "goru": _goru,
    "fastrnn": _fastrnn,
    "vprnn": _vprnn,
    "sgornn": _sgornn,
}


def names() -> list[str]:
    """Every model's name."""
    return list(_MODELS)


def options_of(name: str) -> dict[str, Any]:
    """The options of the model called `name`, with their defaults; `describe` tells what they mean."""
    parameters = list(inspect.signature(_model(name)).parameters.values())[2:]
    return {parameter.name: parameter.default for parameter in parameters}


def build(
    name: str,
    input_size: int,
    hidden_size: int,
    *,
    parametrize: Mapping[str, str | Parametrization] | None = None,
    **options: object,
) -> Recurrent:
    """The model called `name` as a layer for m = input_size and n = hidden_size; `describe(name)` tells its options.

    parametrize: recurrent weight -> how it is kept, in place of the model's own way: a parametrization, or its name
    for `parametrizations.by_name`, {"U_h": "householder:8"}.

    Raises ValueError for an unknown name and for sizes and option values out of range, TypeError for an unknown option.
    """
    model = _model(name)
    for argument, size in (("input_size", input_size), ("hidden_size", hidden_size)):
        if not is_integer(size) or size < 1:
            raise ValueError(f"{argument} is {size!r}; allowed: an integer >= 1")
    input_size, hidden_size = int(input_size), int(hidden_size)
    allowed = options_of(name)
    for option in options:
        if option not in allowed:
            raise TypeError(f"{name} has no option {option!r}; allowed: {', '.join(allowed) or 'none'}")
    k = options.get("negative_ones")
    if isinstance(k, int | np.integer) and k > hidden_size:
        raise ValueError(f"negative_ones is {k}; allowed: 0 to n = {hidden_size}")
    layer = model(input_size, hidden_size, **options)
    if not parametrize:
        return layer
    given: dict[str, Parametrization] = {}
    for weight, kept in parametrize.items():
        if isinstance(kept, type) or not (isinstance(kept, str) or hasattr(kept, "pullback")):
            raise ValueError(f"parametrize[{weight!r}] is {kept!r}; allowed: a parametrization, or one of {FORMS}")
        given[weight] = by_name(kept, hidden_size, layer.cell.complex) if isinstance(kept, str) else kept
    initial = {w: value for w, value in layer.initial.items() if isinstance(given.get(w, Free()), Free)}
    return replace(layer, parametrizations={**layer.parametrizations, **given}, initial=initial)


def network(
    name: str,
    input_size: int,
    hidden_sizes: Sequence[int],
    output_size: int,
    *,
    readout: str = "every",
    loss: str = "cross_entropy",
    dropout: float = 0.0,
    **options: Any,
) -> Network:
    """Layers of the model called `name`, one for each hidden size, under a dense readout; `build` takes the options."""
    layers: list[Recurrent] = []
    size: int | None = input_size
    for hidden_size in hidden_sizes:
        assert size is not None
        layers.append(build(name, size, hidden_size, **options))
        size = layers[-1].output_size
    return Network(tuple(layers), output_size, readout, loss, dropout)


def describe(name: str) -> str:
    """The model's description: its paper and equations, its options, where public code differs."""
    return inspect.cleandoc(_model(name).__doc__ or "")


def _model(name: str) -> Callable[..., Recurrent]:
    if name not in _MODELS:
        raise ValueError(f"model is {name!r}; allowed: {', '.join(_MODELS)}")
    return _MODELS[name]
