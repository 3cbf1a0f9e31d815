"""The zoo: the papers' models, each a function that makes a `Recurrent` layer, with the paper's initial values.

`nc_gru(10, 56, orthogonal="rc")` and `build("nc-gru", 10, 56, orthogonal="rc")` are the same layer: a model's name is
its function's, with - for _.  `own("mine.py:MyCell")` puts a cell of a file of yours beside them.  m is the number of
inputs, n that of units.
"""

import functools
import hashlib
import inspect
import math
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypeAlias, TypeGuard

import numpy as np

from ortho_ref import files
from ortho_ref.boundary import (
    check_choice,
    check_has,
    check_integer,
    check_number,
    check_switch,
    nearest,
    not_among,
    short,
)
from ortho_ref.cells import LSTM, Cell, Elman, FastRNN, GRUResetAfter, GRUResetBefore
from ortho_ref.initial import Initial, constant, identity, normal, uniform
from ortho_ref.language.embedding import Embedding
from ortho_ref.language.reader import QUESTION, STORY, Reader
from ortho_ref.language.regularizers import Regularizers
from ortho_ref.network import Network
from ortho_ref.own_file import module_of
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
)
from ortho_ref.parametrizations.by_name import FORMS, by_name as _parametrization
from ortho_ref.recurrent import Recurrent
from ortho_ref.terminal import shown

Activation: TypeAlias = Literal["tanh", "relu", "modrelu"]
_P = ParamSpec("_P")
_MODELS: dict[str, Callable[..., Recurrent]] = {}
#: Those of files, by "FILE.py:NAME#SHA-256's beginning".
_OWN: dict[str, Callable[..., Recurrent]] = {}
#: What an option means, whichever model has it; its default is in the function's signature.
_OPTIONS = {
    "input_size": "m, the size of x, or the number of tokens.",
    "hidden_size": "n, the number of units.",
    "orthogonal": "Which recurrent weights are: U_c, U_r and U_c, or U_r, U_u and U_c.",
    "order": "Of the Neumann series, 1 to 3.",
    "reset_every": "Updates after which the inverse is computed afresh; None: never.",
    "negative_ones": "Entries -1 of D, 0 to n; None: n // 2.",
    "exact": "The exact scaled Cayley transform in place of the series.",
    "reset_bias": "What b_r starts with.",
    "update_bias": "What b_u or b_z starts with; b_u below 0, b_z above 0 keeps the old state at first; None: drawn.",
    "modrelu_bias": "What modReLU's b starts with.",
    "modrelu_range": "modReLU's b starts uniform on +- this.",
    "style": "Rotations of neighbours, `capacity` layers (tunable), or log2 n layers of them as in the FFT (fft).",
    "capacity": "Layers of rotations in tunable style, an even number from 2 to n; None: 2.",
    "complex": "With phases, and complex states.",
    "reflections": "How many, 1 to n; None: n // 2.",
    "activation": "Phi of the new content.",
    "initial": "Where A starts: rotations by any angle (copying, speech), or scoRNN's A (MNIST).",
    "reset_gate": "False: a trainable vector in place of the gate r (goru:abl).",
    "update_gate": "False: a trainable vector in place of the gate z (goru:abl).",
    "phi": "How U is kept: as in VPRNN, or by the matrix exponential.",
    "sublayers": "k of sgornn:2, permutations and layers of rotations; None: 2 ceil(log2 n).",
}


def _listed(model: Callable[_P, Recurrent]) -> Callable[_P, Recurrent]:
    """The model in the list, under its name."""
    name = model.__name__.replace("_", "-")
    _MODELS[name] = make = _checked(name, model)
    make.__doc__ = _described(name, model)
    return make


def _checked(name: str, model: Callable[_P, Recurrent]) -> Callable[_P, Recurrent]:
    """The model; what it is called with is checked, and its layers bear the name."""
    hints = typing.get_type_hints(model)
    allowed = list(inspect.signature(model).parameters)[2:]

    @functools.wraps(model)
    def make(input_size: int, hidden_size: int, **options: Any) -> Recurrent:
        for argument, size in (("input_size", input_size), ("hidden_size", hidden_size)):
            check_integer(argument, size)
        for option, value in options.items():
            if option not in allowed:
                near = nearest(option, allowed)
                raise TypeError(f"{name} has no option {short(option)}{near}; allowed: {', '.join(allowed) or 'none'}")
            _check_option(option, value, hints.get(option))
        k = options.get("negative_ones")
        if isinstance(k, int | np.integer) and k > hidden_size:
            raise ValueError(f"negative_ones is {k}; allowed: 0 to n = {hidden_size}")
        layer = model(int(input_size), int(hidden_size), **options)  # type: ignore[arg-type]
        check_has(f"what {name} makes", layer, "run_back", "a Recurrent")
        return replace(layer, name=name)

    return typing.cast(Callable[_P, Recurrent], make)


def _described(name: str, model: Callable[..., Recurrent]) -> str:
    """A model's docstring in numpydoc's form: what the function says, its options, its papers."""
    parameters = inspect.signature(model).parameters
    rows = [f"{own} : {str(parameters[own]).partition(': ')[2]}\n    {_OPTIONS[own]}" for own in parameters]
    sections = {
        "Parameters": rows,
        "Raises": ["ValueError\n    For sizes below 1 and values that are not allowed."],
        "References": [f'The papers, as BibTeX: `ortho_ref.cite("{name}")`.'],
    }
    blocks = ["\n".join([title, "-" * len(title), *lines]) for title, lines in sections.items()]
    return "\n\n".join([inspect.cleandoc(model.__doc__ or ""), *blocks])


def _check_option(option: str, value: object, hint: Any) -> None:
    """ValueError unless a switch is on or off and a word is one of its type's; what numbers go to checks them."""
    if hint is bool:
        check_switch(option, value)
    kinds = typing.get_args(hint) if type(None) in typing.get_args(hint) else (hint,)
    words = [word for kind in kinds if typing.get_origin(kind) is Literal for word in typing.get_args(kind)]
    if words and not (value is None and type(None) in kinds):
        check_choice(option, value, words)


@_listed
def rnn(input_size: int, hidden_size: int) -> Recurrent:
    """tanh RNN (urnn:1, Arjovsky et al. 2016): h = tanh(W x + U h + b).

    W and U are Glorot uniform, b = 0.
    """
    return Recurrent(Elman("tanh"), sizes=(input_size, hidden_size))


@_listed
def irnn(input_size: int, hidden_size: int) -> Recurrent:
    """IRNN (Le et al. 2015; urnn:1 with relu): h = relu(W x + U h + b), where U starts as I.

    W is Glorot uniform, b = 0.
    """
    return Recurrent(Elman("relu"), initial={"U": identity}, sizes=(input_size, hidden_size))


@_listed
def lstm(input_size: int, hidden_size: int) -> Recurrent:
    """LSTM (bp:lstm, Hochreiter and Schmidhuber 1997), the papers' baseline: no peepholes.

    Matrices are Glorot uniform, the forget bias is 1, as in their code, the other biases 0.  The LSTM of the uRNN code
    is another: it has a full peephole.
    """
    return Recurrent(LSTM(), sizes=(input_size, hidden_size))


@_listed
def gru(input_size: int, hidden_size: int, *, reset_bias: float = 1.0, update_bias: float = -1.0) -> Recurrent:
    """GRU (ncgru:1, Cho et al. 2014): tanh, reset before the product, u the weight of the new content.

    Gate biases are as in the TensorFlow cell that the NC-GRU paper compares with, which starts both gates at +1.  Its
    update gate keeps the old state where ncgru:1 writes the new one, so that here b_r = 1 and b_u = -1 unless given.
    Matrices are Glorot uniform.
    """
    initial = _gate_biases(reset_bias, update_bias)
    return Recurrent(GRUResetBefore("tanh"), initial=initial, sizes=(input_size, hidden_size))


def _gate_biases(reset_bias: float, update_bias: float) -> dict[str, Initial]:
    """What b_r and b_u start with; ValueError for what is no finite number."""
    for option, bias in (("reset_bias", reset_bias), ("update_bias", update_bias)):
        check_number(option, bias, math.isfinite, "a finite number")
    return {"b_r": constant(reset_bias), "b_u": constant(update_bias)}


@_listed
def gru_cudnn(input_size: int, hidden_size: int) -> Recurrent:
    """GRU (goru:2.2, Jing et al. 2019) as cuDNN and PyTorch compute it: the second bias inside the reset, z keeping h.

    Every weight is uniform on +-1/sqrt(n), as in PyTorch; b_r and b_z are one vector each where PyTorch adds two.
    """
    cell = GRUResetAfter("tanh", recurrent_bias=True)
    initial = dict.fromkeys(cell.shapes(1, 1), uniform(1 / math.sqrt(hidden_size)))
    return Recurrent(cell, initial=initial, sizes=(input_size, hidden_size))


@_listed
def gru_modrelu(input_size: int, hidden_size: int) -> Recurrent:
    """GRU (goru:2.2) with modReLU for tanh, an ablation of table 3 of Jing et al. 2019: GORU with a free U_h.

    Initial values are those of `goru`; U_h is Glorot uniform.
    """
    return Recurrent(GRUResetAfter("modrelu"), initial=_after_initial(hidden_size), sizes=(input_size, hidden_size))


def _after_initial(n: int) -> dict[str, Initial]:
    """GORU's code: matrices +-0.01, b_r = 2, b_z as Glorot's rule has it for a vector, modReLU's bias 0.01."""
    small = uniform(0.01)
    matrices = dict.fromkeys(("W_r", "U_r", "W_z", "U_z", "W_h"), small)
    return matrices | {"b_r": constant(2.0), "b_z": uniform(math.sqrt(3 / n)), "b_h": constant(0.01)}


@_listed
def scornn(input_size: int, hidden_size: int, *, negative_ones: int | None = None) -> Recurrent:
    """scoRNN (Helfrich et al. 2018): h = modrelu(W x + U h, b), U by the exact scaled Cayley transform.

    ncgru:2, ncgru:3, ncgru:4, ncgru:5, ncgru:6.  W is uniform on +-0.01, b = 0.  Half of D is -1 unless given, as in
    scoRNN's adding and copying scripts.
    """
    U = ScaledCayley(hidden_size // 2 if negative_ones is None else negative_ones)
    return Recurrent(Elman("modrelu"), {"U": U}, initial={"W": uniform(0.01)}, sizes=(input_size, hidden_size))


@_listed
def nc_gru(
    input_size: int,
    hidden_size: int,
    *,
    orthogonal: Literal["c", "rc", "ruc"] = "c",
    order: int = 2,
    reset_every: int | None = 50,
    negative_ones: int | None = None,
    exact: bool = False,
    reset_bias: float = 0.0,
    update_bias: float = 0.0,
    modrelu_range: float = 0.0,
) -> Recurrent:
    """NC-GRU (ncgru:19, Mucllari et al. 2024): GRU with modReLU, bias inside, its U kept orthogonal by Algorithm 1.

    The paper has 40 entries -1 of 56, and 50 of 118.  Free matrices are uniform with variance 2 / (m + n), as in the
    authors' released cell, biases 0 unless given: the paper names neither, the released b_c is uniform on +-0.1.
    Released code departs in its gate (u keeps the old state), its Neumann step (fed lr * gradient although Adam moves
    A) and, with two orthogonal weights, its gradients (both take that of U_r).
    """
    k = hidden_size // 2 if negative_ones is None else negative_ones
    neumann = NeumannCayley(k, order, reset_every)  # made in any case: it checks order and reset_every
    U: Parametrization = ScaledCayley(k) if exact else neumann
    glorot = uniform(math.sqrt(6 / (input_size + hidden_size)))
    free = {f"U_{g}": glorot for g in "ruc" if g not in orthogonal}
    biases = _gate_biases(reset_bias, update_bias)
    check_number("modrelu_range", modrelu_range, lambda value: value >= 0, "a finite number >= 0")
    if modrelu_range:
        biases["b_c"] = uniform(modrelu_range)
    return Recurrent(
        GRUResetBefore("modrelu"),
        {f"U_{g}": U for g in orthogonal},
        initial={"W_r": glorot, "W_u": glorot, "W_c": glorot} | free | biases,
        sizes=(input_size, hidden_size),
    )


@_listed
def urnn(input_size: int, hidden_size: int) -> Recurrent:
    """uRNN (Arjovsky et al. 2016): complex states, complex modReLU, U of eight structured factors, trained h0.

    urnn:6, urnn:7, urnn:8, urnn:9.  Initial values are the paper's (urnn:init): b = 0, E |h0|^2 = 1, W Glorot uniform
    with n complex outputs counted as 2 n.  Released code starts b at +-0.01, divides by |z| + 1e-5 in modReLU, and
    reflects in the conjugate of v.
    """
    return _unitary(input_size, hidden_size, StructuredUnitary())


def _unitary(m: int, n: int, U: Parametrization) -> Recurrent:
    h0 = uniform(math.sqrt(3 / (2 * n)))
    return Recurrent(Elman("modrelu", complex=True), {"U": U}, trained_h0=True, initial={"h0": h0}, sizes=(m, n))


@_listed
def full_urnn(input_size: int, hidden_size: int) -> Recurrent:
    """Full-capacity uRNN (Wisdom et al. 2016): as urnn, U any unitary matrix.

    goru:2.9 and goru:2.10, in the descending form of E-goru-03.  U starts as a draw of uRNN's factorisation.  Made for
    SGD on U.  Released code takes half of U's gradient, and has 1e-5 inside modReLU's root.
    """
    return _unitary(input_size, hidden_size, GeodesicUnitary())


@_listed
def eurnn(
    input_size: int,
    hidden_size: int,
    *,
    style: Literal["fft", "tunable"] = "tunable",
    capacity: int | None = None,
    complex: bool = True,
) -> Recurrent:
    """EURNN (goru:tunable, goru:fft, Jing et al. 2017): RNN with modReLU, U a product of layers of rotations.

    W is uniform on +-0.01, b = 0, h0 = 0.  Defaults are the released class's.  Its modReLU adds 0.01 to |z|, and it
    reads Re(h) only; here modReLU is exact and complex states are read as [Re h, Im h] (urnn:9).
    """
    cell, U = Elman("modrelu", complex), _rotations(hidden_size, style, capacity, complex)
    return Recurrent(cell, {"U": U}, initial={"W": uniform(0.01)}, sizes=(input_size, hidden_size))


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


@_listed
def ornn(
    input_size: int,
    hidden_size: int,
    *,
    reflections: int | None = None,
    activation: Activation = "modrelu",
) -> Recurrent:
    """oRNN (goru:householder, Mhammedi et al. 2017): RNN with U a product of Householder reflections, trained h0.

    W is Glorot uniform, b = 0, h0 uniform on +-sqrt(3 / (2 n)).  Released code has a leaky ReLU of slope 0.1 by
    default, projects the reflection vectors to unit length after each update, and takes their length for 1 in the
    gradient; here the gradient has the normalisation in it.
    """
    U = Householder(_half(hidden_size) if reflections is None else reflections)
    h0 = uniform(math.sqrt(3 / (2 * hidden_size)))
    sizes = (input_size, hidden_size)
    return Recurrent(Elman(activation), {"U": U}, trained_h0=True, initial={"h0": h0}, sizes=sizes)


def _half(n: int) -> int:
    return max(1, n // 2)


@_listed
def exprnn(input_size: int, hidden_size: int, *, initial: Literal["henaff", "cayley"] = "henaff") -> Recurrent:
    """EXPRNN (sgornn:2-alt, Lezcano-Casado and Martínez-Rubio 2019): h = modrelu(W x + U h, b), U = exp(A).

    W is normal with variance 2 / m, b uniform on +-0.01.
    """
    values = {"W": normal(math.sqrt(2 / input_size)), "b": uniform(0.01)}
    sizes = (input_size, hidden_size)
    return Recurrent(Elman("modrelu"), {"U": Exponential(initial)}, initial=values, sizes=sizes)


@_listed
def goru(
    input_size: int,
    hidden_size: int,
    *,
    style: Literal["fft", "tunable", "householder"] | None = None,
    capacity: int | None = None,
    reflections: int | None = None,
    activation: Activation = "modrelu",
    reset_gate: bool = True,
    update_gate: bool = True,
    reset_bias: float = 2.0,
    update_bias: float | None = None,
    modrelu_bias: float = 0.01,
) -> Recurrent:
    """GORU (Jing et al. 2019): GRU with U_h orthogonal, modReLU, reset after the product; z keeps the old state.

    goru:3.1, goru:3.2, goru:3.3.  U_h is rotations, or reflections in householder style; unless style is given: fft, or
    tunable where n is no power of two or a capacity is given.  Table 3's ablations are other activations, and gates
    that are off; the text on these has the two swapped (E-goru-05): here r is the reset gate.  Initial values are the
    released code's, whose modReLU adds 0.001 to |z|; here it is exact.
    """
    n = hidden_size
    if style == "householder":
        _refuse("capacity", capacity, "style", style)
        U: Parametrization = Householder(_half(n) if reflections is None else reflections)
    else:
        _refuse("reflections", reflections, "style", style)
        U = _rotations(n, style, capacity, complex=False)
    cell = GRUResetAfter(activation, reset_gate, update_gate)
    values = _after_initial(n)
    for option, name, bias in (
        ("reset_bias", "b_r", reset_bias),
        ("update_bias", "b_z", update_bias),
        ("modrelu_bias", "b_h", modrelu_bias),
    ):
        if bias is not None:
            check_number(option, bias, math.isfinite, "a finite number")
            values[name] = constant(bias)
    initial = {name: value for name, value in values.items() if name in cell.shapes(1, 1)}
    return Recurrent(cell, {"U_h": U}, initial=initial, sizes=(input_size, n))


@_listed
def fastrnn(input_size: int, hidden_size: int, *, activation: Activation = "tanh") -> Recurrent:
    """FastRNN (Kusupati et al. 2018; sgornn:1, U free, no constraint): an RNN with two scalar gates, alpha and beta.

    W and U are normal with deviation 0.1, b = 1, and before the sigmoid alpha = -3, beta = 3, as in EdgeML's cell.
    SGORNN's code starts its FastRNN from -3.75, Glorot uniform W, an orthogonal U and b = 0, with ReLU, and clips beta
    for it too.
    """
    small = normal(0.1)
    values = {"W": small, "U": small, "b": constant(1.0), "alpha": constant(-3.0)}
    return Recurrent(FastRNN(activation), initial=values, sizes=(input_size, hidden_size))


@_listed
def vprnn(input_size: int, hidden_size: int, *, sublayers: int | None = None) -> Recurrent:
    """VPRNN (SGORNN 2022): h = relu(W x + U h + b), U of permutations and paired rotations.

    sgornn:1 with alpha = 1, beta = 0, and sgornn:2.  W is Glorot uniform, b = 0.
    """
    return Recurrent(Elman("relu"), {"U": VolumePreserving(sublayers)}, sizes=(input_size, hidden_size))


@_listed
def sgornn(
    input_size: int,
    hidden_size: int,
    *,
    phi: Literal["vprnn", "exp"] = "vprnn",
    sublayers: int | None = None,
) -> Recurrent:
    """SGORNN (ICLR 2022 submission): FastRNN with ReLU, an orthogonal U, alpha_t <= 1/2 and beta_t <= 1 - 2 alpha_t.

    sgornn:1, sgornn:2, sgornn:3.  W is Glorot uniform, b = 0, and before the sigmoid alpha = -3.75, beta = 3.  The
    paper and its code do not clip alpha (E-sgornn-04).
    """
    if phi == "exp":
        _refuse("sublayers", sublayers, "phi", phi)
    U: Parametrization = VolumePreserving(sublayers) if phi == "vprnn" else Exponential()
    return Recurrent(FastRNN("relu", "sgornn"), {"U": U}, sizes=(input_size, hidden_size))


def own(place: str) -> str:
    """A cell of a file, for `build`, `network` and whatever loads a run of it, in this process.

    Parameters
    ----------
    place : str
        "mine.py:MyCell": a file, which is executed, and a class of cells in it, whose fields are the model's options;
        or a function of input_size, hidden_size and options that makes a `Recurrent`.

    Returns
    -------
    str
        The model's name: the file's, and the beginning of its SHA-256, so that no weights are read into another cell.

    Raises
    ------
    ValueError
        Where there is no such file or name, or what is there is neither; whatever the file raises is in the message.
    """
    place = str(place)
    path, _, name = place.rpartition(":")
    if not path.endswith(".py") or not name.isidentifier():
        raise ValueError(f"model is {place!r}; allowed for a file: FILE.py:NAME")
    try:
        model = getattr(module_of(Path(path), "model"), name, None)
        full = f"{Path(path).name}:{name}#{hashlib.sha256(files.read(path)).hexdigest()[:12]}"
        if isinstance(model, type) and issubclass(model, Cell) and not inspect.isabstract(model):
            _OWN[full] = _checked(full, _of_cell(model))
            return full
        if inspect.isfunction(model):
            _OWN[full] = _checked(full, model)
            return full
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        reason = f"{type(error).__name__}: {shown(error)}"
        raise ValueError(f"model is {place!r}, which cannot be loaded: {reason}") from error
    missing = ", ".join(sorted(getattr(model, "__abstractmethods__", ())))
    is_none = f"lacks {missing}" if missing else f"is {short(model)}" if model else f"has no {name}"
    allowed = "a class that derives from ortho_ref.cells.Cell, or a function of (m, n)"
    raise ValueError(f"model is {place!r}, which {is_none}; allowed: {allowed}")


def is_of_file(name: object) -> TypeGuard[str]:
    """Whether a model's name is that of a file, "mine.py:MyCell", as it is given or as `own` gives it."""
    return isinstance(name, str) and ".py:" in name


def _of_cell(kind: type[Cell]) -> Callable[..., Recurrent]:
    """A cell's fields as a model's options."""

    def model(input_size: int, hidden_size: int, **options: Any) -> Recurrent:
        return Recurrent(kind(**options), sizes=(input_size, hidden_size))

    sizes = list(inspect.signature(model).parameters.values())[:2]
    fields = list(inspect.signature(kind).parameters.values())
    model.__signature__ = inspect.Signature([*sizes, *fields])  # type: ignore[attr-defined]
    model.__doc__ = kind.__doc__
    return model


def names() -> list[str]:
    """Every model's name, of the papers'."""
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
    layer = _model(name)(input_size, hidden_size, **options)
    if parametrize is not None and not isinstance(parametrize, Mapping):
        given_as = "a dict by the weights' names, as {'U_c': 'householder:8'}"
        raise TypeError(f"parametrize is {short(parametrize)}; allowed: {given_as}")
    if not parametrize:
        return layer
    given: dict[str, Parametrization] = {}
    for weight, kept in parametrize.items():
        if isinstance(kept, type) or not (isinstance(kept, str) or hasattr(kept, "pullback")):
            raise ValueError(f"parametrize[{weight!r}] is {kept!r}; allowed: a parametrization, or one of {FORMS}")
        given[weight] = _parametrization(kept, int(hidden_size), layer.cell.complex) if isinstance(kept, str) else kept
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
    embedding: int | None = None,
    tied: bool = False,
    regularizers: Regularizers | Mapping[str, Any] | None = None,
    reader: str | None = None,
    **options: Any,
) -> Network:
    """Layers of the model called `name`, one for each hidden size, under a dense readout; `build` takes the options.

    An option that is a list has a value for each layer: negative_ones=[100, 310, 100].  embedding: the length of the
    vectors that stand for the input_size tokens.  regularizers: `language.regularizers.Regularizers`, or its arguments.
    reader: "once" or "steps", for a `Reader` that joins a story and a question so; its three sizes are of the story's
    encoder, the question's, and the third layer.
    """
    if not hasattr(hidden_sizes, "__len__") or isinstance(hidden_sizes, str):
        raise TypeError(f"hidden_sizes is {short(hidden_sizes)}; allowed: a list with one for each layer, [56]")
    if reader is not None and len(hidden_sizes) != 3:
        raise ValueError(f"hidden_sizes has {len(hidden_sizes)} values; a reader has 3: of story, question and both")
    if "hidden_size" in options:
        raise TypeError("there is no option hidden_size (did you mean 'hidden_sizes'?)")
    for option, value in options.items():
        if isinstance(value, list | tuple) and len(value) != len(hidden_sizes):
            raise ValueError(f"{option} has {len(value)} values; expected one for each of {len(hidden_sizes)} layers")
    layers: list[Recurrent] = []
    rows = None if embedding is None else Embedding(input_size, embedding)
    words = input_size if rows is None else rows.size
    size: int | None = words
    for i, hidden_size in enumerate(hidden_sizes):
        if reader is not None and i > STORY:
            size = words if i == QUESTION else sum(layer.output_size or 0 for layer in layers)
        assert size is not None
        own = {option: value[i] if isinstance(value, list | tuple) else value for option, value in options.items()}
        layers.append(build(name, size, hidden_size, **own))
        size = layers[-1].output_size
    if not isinstance(regularizers, Regularizers):
        regularizers = Regularizers(**regularizers or {})
    arguments = (tuple(layers), output_size, readout, loss, dropout, rows, tied, regularizers)
    return Network(*arguments) if reader is None else Reader(*arguments, reader)


def describe(name: str) -> str:
    """The model's description: its paper and equations, its options, where public code differs."""
    return inspect.cleandoc(_model(name).__doc__ or "")


def _model(name: str) -> Callable[..., Recurrent]:
    if not isinstance(name, str) or name not in _MODELS | _OWN:
        if is_of_file(name):
            place, _, sha256 = name.partition("#")
            asked = f"say --model {place}, or models.own({place!r})"
            raise ValueError(f"model is {place!r}, a file's with the SHA-256 {sha256}..., which nobody loaded; {asked}")
        raise ValueError(not_among("model", name, _MODELS, str))
    return (_MODELS | _OWN)[name]


__all__ = [
    "build",
    "describe",
    "is_of_file",
    "names",
    "network",
    "options_of",
    "own",
    *(model.__name__ for model in _MODELS.values()),
]
