"""The zoo: what each model is made of, its initial values, its size as the papers have it, and that it trains; other
parametrizations in place of its own [ncgru:19] [urnn:init] [goru:2.2] [goru:3.1] [goru:3.2] [goru:3.3] [goru:abl]
[sgornn:1] [sgornn:2] [sgornn:3]."""

import inspect
import math
import pickle
import re
from pathlib import Path
from types import FunctionType
from typing import Literal, get_args, get_origin, get_type_hints

import numpy as np
import pytest

from gradients.problem import perturbed, random_problem, relative_error
from ortho_ref import citations, models
from ortho_ref.activations import ACTIVATIONS
from ortho_ref.backend import complex_dtype, to_device, to_host
from ortho_ref.cells import LSTM, Elman, FastRNN, GRUResetAfter, GRUResetBefore
from ortho_ref.cells.cell import parts_of
from ortho_ref.parametrizations import (
    Exponential,
    FFTRotations,
    Free,
    GeodesicUnitary,
    Householder,
    NeumannCayley,
    ScaledCayley,
    StructuredUnitary,
    TunableRotations,
    VolumePreserving,
)
from ortho_ref.training.optimizers import SGD, Adam, ByName
from ortho_ref.training.runs import TrainingRun
from tasks.parenthesis import Parenthesis
from tests.precision import single

# What they are made of


def test_cells():
    """E-goru-02: which of them take their bias inside; which are complex; which are constrained [goru:2.2]
    [goru:3.1]."""
    assert {name: models.build(name, 3, 4).cell for name in models.names()} == {
        "rnn": Elman("tanh"),
        "irnn": Elman("relu"),
        "lstm": LSTM(),
        "gru": GRUResetBefore("tanh"),
        "gru-cudnn": GRUResetAfter("tanh", recurrent_bias=True),
        "gru-modrelu": GRUResetAfter("modrelu"),
        "scornn": Elman("modrelu"),
        "nc-gru": GRUResetBefore("modrelu"),
        "urnn": Elman("modrelu", complex=True),
        "full-urnn": Elman("modrelu", complex=True),
        "eurnn": Elman("modrelu", complex=True),
        "ornn": Elman("modrelu"),
        "exprnn": Elman("modrelu"),
        "goru": GRUResetAfter("modrelu"),
        "fastrnn": FastRNN("tanh"),
        "vprnn": Elman("relu"),
        "sgornn": FastRNN("relu", "sgornn"),
    }


# model, n, options -> the layer's parametrizations
MAPS = [
    ("nc-gru", 6, {}, {"U_c": NeumannCayley(3, 2, 50)}),
    ("nc-gru", 6, {"order": 3, "reset_every": 7, "negative_ones": 0}, {"U_c": NeumannCayley(0, 3, 7)}),
    ("nc-gru", 7, {"exact": True, "orthogonal": "rc"}, dict.fromkeys(("U_r", "U_c"), ScaledCayley(3))),
    ("nc-gru", 6, {"orthogonal": "ruc"}, dict.fromkeys(("U_r", "U_u", "U_c"), NeumannCayley(3))),
    ("scornn", 7, {}, {"U": ScaledCayley(3)}),
    ("scornn", 6, {"negative_ones": 6}, {"U": ScaledCayley(6)}),
    ("urnn", 5, {}, {"U": StructuredUnitary()}),
    ("full-urnn", 5, {}, {"U": GeodesicUnitary()}),
    ("eurnn", 6, {}, {"U": TunableRotations(2, complex=True)}),
    ("eurnn", 8, {}, {"U": TunableRotations(2, complex=True)}),
    ("eurnn", 6, {"capacity": 4, "complex": False}, {"U": TunableRotations(4)}),
    ("eurnn", 8, {"style": "fft"}, {"U": FFTRotations(complex=True)}),
    ("eurnn", 8, {"style": "fft", "complex": False}, {"U": FFTRotations()}),
    ("ornn", 7, {}, {"U": Householder(3)}),
    ("ornn", 1, {}, {"U": Householder(1)}),
    ("ornn", 7, {"reflections": 7}, {"U": Householder(7)}),
    ("exprnn", 5, {}, {"U": Exponential("henaff")}),
    ("exprnn", 5, {"initial": "cayley"}, {"U": Exponential("cayley")}),
    ("goru", 8, {}, {"U_h": FFTRotations()}),
    ("goru", 6, {}, {"U_h": TunableRotations(2)}),
    ("goru", 6, {"capacity": 4}, {"U_h": TunableRotations(4)}),
    ("goru", 8, {"style": "tunable", "capacity": 6}, {"U_h": TunableRotations(6)}),
    ("goru", 7, {"style": "householder"}, {"U_h": Householder(3)}),
    ("goru", 1, {"style": "householder"}, {"U_h": Householder(1)}),
    ("goru", 8, {"style": "householder", "reflections": 8}, {"U_h": Householder(8)}),
    ("vprnn", 6, {}, {"U": VolumePreserving()}),
    ("vprnn", 6, {"sublayers": 3}, {"U": VolumePreserving(3)}),
    ("sgornn", 6, {}, {"U": VolumePreserving()}),
    ("sgornn", 6, {"sublayers": 3}, {"U": VolumePreserving(3)}),
    ("sgornn", 5, {"phi": "exp"}, {"U": Exponential()}),
    *((name, 5, {}, {}) for name in ("rnn", "irnn", "lstm", "gru", "gru-cudnn", "gru-modrelu", "fastrnn")),
]


@pytest.mark.parametrize(("name", "n", "options", "maps"), MAPS)
def test_options_reach_the_maps(name, n, options, maps):
    """How every recurrent weight is kept, by model and option; sizes may be NumPy integers [ncgru:19]
    [sgornn:2] [goru:3.1]."""
    layer = models.build(name, np.int64(3), n, **options)
    assert layer.parametrizations == maps
    assert (layer.sizes, layer.engine) == ((3, n), "fused")
    _, buffers = layer.init(np.random.default_rng(0))
    assert all(figures["defect"] < 1e-5 for figures in layer.health(buffers).values())


def test_options_reach_the_cells():
    """Activations, gates that are switched off (E-goru-05: reset_gate is r), real in place of complex [goru:abl]
    [sgornn:3]."""
    for name, options, cell in (
        ("goru", {"activation": "tanh"}, GRUResetAfter("tanh")),
        ("goru", {"activation": "relu"}, GRUResetAfter("relu")),
        ("goru", {"reset_gate": False}, GRUResetAfter("modrelu", reset_gate=False)),
        ("goru", {"update_gate": False}, GRUResetAfter("modrelu", update_gate=False)),
        ("goru", {"reset_gate": False, "update_gate": False}, GRUResetAfter("modrelu", False, False)),
        ("ornn", {"activation": "relu"}, Elman("relu")),
        ("eurnn", {"complex": False}, Elman("modrelu")),
        ("fastrnn", {"activation": "relu"}, FastRNN("relu")),
        ("sgornn", {"phi": "exp"}, FastRNN("relu", "sgornn")),
    ):
        assert models.build(name, 3, 8, **options).cell == cell
    params, _ = models.build("goru", 3, 8, reset_gate=False, update_gate=False).init(np.random.default_rng(0))
    assert sorted(params) == ["U_h.theta", "W_h", "b_h", "r", "z"]
    assert (set(params["r"].tolist()), set(params["z"].tolist())) == ({1.0}, {0.5})


# Initial values

M, N = 20, 64


def by_glorot(rows, columns):
    """The limit of Glorot's uniform rule."""
    return math.sqrt(6 / (rows + columns))


ZERO, SMALL = ("constant", 0.0), ("uniform", 0.01)
INPUT, SQUARE = ("uniform", by_glorot(N, M)), ("uniform", by_glorot(N, N))
HE, TORCH, H0 = ("uniform", math.sqrt(6 / (M + N))), ("uniform", 1 / 8), ("uniform", math.sqrt(3 / (2 * N)))
# of GORU's line: all but U_h, which a map of its own keeps
AFTER = dict.fromkeys(("W_r", "U_r", "W_z", "U_z", "W_h"), SMALL)
AFTER |= {"b_r": ("constant", 2.0), "b_z": ("uniform", math.sqrt(3 / N)), "b_h": ("constant", 0.01)}
UNITARY = {"W": ("uniform", by_glorot(2 * N, M)), "b": ZERO, "h0": H0}
ANGLES = ("uniform", math.pi)

# model -> parameter -> its distribution; None: the parametrization's own, tested with it
INITIAL = {
    "rnn": {"W": INPUT, "U": SQUARE, "b": ZERO},
    "irnn": {"W": INPUT, "U": ("identity", None), "b": ZERO},
    "lstm": {f"{kind}_{g}": value for g in "ifgo" for kind, value in (("W", INPUT), ("U", SQUARE), ("b", ZERO))}
    | {"b_f": ("constant", 1.0)},
    "gru": {f"{kind}_{g}": value for g in "ruc" for kind, value in (("W", INPUT), ("U", SQUARE), ("b", ZERO))}
    | {"b_r": ("constant", 1.0), "b_u": ("constant", -1.0)},
    "gru-cudnn": {f"{kind}_{g}": TORCH for g in "rzh" for kind in "WUb"} | {"b_hh": TORCH},
    "gru-modrelu": AFTER | {"U_h": SQUARE},
    "scornn": {"W": SMALL, "b": ZERO, "U.A": None},
    "nc-gru": {f"W_{g}": HE for g in "ruc"} | {f"b_{g}": ZERO for g in "ruc"} | {"U_r": HE, "U_u": HE, "U_c.A": None},
    "urnn": UNITARY | {f"U.w_{j}": ANGLES for j in (1, 2, 3)} | {f"U.v_{j}": ("uniform", 1.0) for j in (1, 2)},
    "full-urnn": UNITARY | {"U.X": None},
    "eurnn": {"W": SMALL, "b": ZERO} | {f"U.{kind}_{g}": ANGLES for kind in ("theta", "phi") for g in "AB"}
    | {"U.omega": ANGLES},
    "ornn": {"W": INPUT, "b": ZERO, "h0": H0, "U.V": None},
    "exprnn": {"W": ("normal", math.sqrt(2 / M)), "b": SMALL, "U.A": None},
    "goru": AFTER | {"U_h.theta": ANGLES},
    "fastrnn": {"W": ("normal", 0.1), "U": ("normal", 0.1), "b": ("constant", 1.0)}
    | {"alpha": ("constant", -3.0), "beta": ("constant", 3.0)},
    "vprnn": {"W": INPUT, "b": ZERO, "U.Theta": ("uniform", 0.05)},
    "sgornn": {"W": INPUT, "b": ZERO, "U.Theta": ("uniform", 0.05)}
    | {"alpha": ("constant", -3.75), "beta": ("constant", 3.0)},
}  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", models.names())
def test_initial_values(name, dtype):
    """Each as the model's description says: constants to the bit, ranges filled and not left, deviations; of a complex
    parameter both parts; and in the precision that was asked for."""
    layer = models.build(name, M, N)
    draws = [layer.init(np.random.default_rng(seed), dtype=dtype)[0] for seed in range(3)]
    assert set(draws[0]) == set(INITIAL[name])
    for key, kind in INITIAL[name].items():
        values = np.stack([draw[key] for draw in draws])
        assert values.dtype == (complex_dtype(dtype) if values.dtype.kind == "c" else dtype)
        if kind is None:
            continue
        rule, size = kind
        for part in (values.real, values.imag) if values.dtype.kind == "c" else (values,):
            if rule == "constant":
                np.testing.assert_array_equal(part, np.array(size, dtype))
            elif rule == "identity":
                np.testing.assert_array_equal(part, np.broadcast_to(np.eye(N), part.shape))
            elif rule == "uniform":
                assert abs(part).max() <= size * (1 + 1e-6)
                assert part.max() > 0.9 * size
                assert part.min() < -0.9 * size
                assert abs(part.std() * math.sqrt(3) / size - 1) < 0.2
            else:
                assert abs(part.std() / size - 1) < 0.05
                assert abs(part.mean()) < 0.1 * size
                assert abs(part).max() > 2.5 * size
        assert rule in ("constant", "identity") or not np.array_equal(values[0], values[1])


def test_initial_values_of_options():
    """EXPRNN's two starts of A; gate biases that are given; a free U beside orthogonal ones."""
    for name, start in (("gru", (0, 0.0)), ("nc-gru", (1, -2.5))):
        given = dict(zip(("reset_bias", "update_bias"), start, strict=True))
        biases, default = (models.build(name, M, N, **own).init(np.random.default_rng(0))[0] for own in (given, {}))
        assert set(biases["b_r"]) == {start[0]}
        assert set(biases["b_u"]) == {start[1]}
        assert all(np.array_equal(value, default[key]) for key, value in biases.items() if key not in ("b_r", "b_u"))
    given = {"reset_bias": 1, "update_bias": 3.0, "modrelu_bias": -0.5}
    params, default = (models.build("goru", M, N, **own).init(np.random.default_rng(0))[0] for own in (given, {}))
    assert [set(params[name]) for name in ("b_r", "b_z", "b_h")] == [{1}, {3}, {-0.5}]
    assert (set(default["b_r"]), set(default["b_h"]), len(set(default["b_z"]))) == ({2}, {default["b_h"][0]}, N)
    for initial, largest in (("henaff", math.pi), ("cayley", 1.0)):
        params, _ = models.build("exprnn", M, N, initial=initial).init(np.random.default_rng(0))
        assert 0.9 * largest < abs(params["U.A"]).max() <= largest
    params, _ = models.build("nc-gru", 3, 50, orthogonal="rc", modrelu_range=0.1).init(np.random.default_rng(0))
    assert 0.09 < abs(params["b_c"]).max() <= 0.1
    assert 0.9 * math.sqrt(6 / 53) < abs(params["U_u"]).max() <= math.sqrt(6 / 53)


# Names, options, errors


@pytest.mark.parametrize("name", models.names())
def test_a_layer_is_what_it_is_made_of(name):
    """Two of the same model are equal, and one is that came from another process."""
    layer = models.build(name, 3, 8)
    assert models.build(name, 3, 8) == layer == pickle.loads(pickle.dumps(layer))
    assert models.build(name, 3, 16) != layer


def test_names_and_descriptions():
    """Every description begins with the model's name, its paper and its equations, of which `cite` has the first
    author; says what every option means, its type and its default; and is not indented."""
    assert len(models.names()) == len(set(models.names())) == 17
    for name in models.names():
        text = models.describe(name)
        head, rest = text.split("\n\nParameters\n----------\n")
        assert re.search(r"\b(?:ncgru|urnn|bp|goru|sgornn):[\w.-]+", head)
        plain = name.replace("-", "").replace("cudnn", "").replace("modrelu", "").replace("full", "")
        assert plain in re.split(r"[(:]", head)[0].lower().replace("-", "")
        (author,) = re.findall(r"([\w-]+)(?: et al\.| and \S+) (?:19|20)\d\d", head) or ["Anonymous"]
        assert author in citations.cite(name)
        parameters, rest = rest.split("\n\nRaises\n------\nValueError\n", 1)
        rows = re.findall(r"^(\w+) : (\S.*)\n    \S.*\.$", parameters, re.M)
        assert len(rows) == parameters.count("\n") // 2 + 1
        signature = inspect.signature(function(name)).parameters.values()
        assert [f"{option}: {said}" for option, said in rows] == list(map(str, signature))
        assert f'`ortho_ref.cite("{name}")`' in rest


def function(name):
    """The function of the model called `name`."""
    return getattr(models, name.replace("-", "_"))


def test_every_model_is_a_public_function():
    """Under its name with _, documented; the module's help lists it; sizes first, options by their names alone, each
    with a type; a layer of it is the one that `build` makes, and bears the name."""
    for name in models.names():
        make = function(name)
        assert make.__name__ in models.__all__
        assert (make.__module__, inspect.getdoc(make)) == ("ortho_ref.models", models.describe(name))
        first, second, *options = inspect.signature(make).parameters.values()
        assert (first.name, second.name) == ("input_size", "hidden_size")
        assert {option.name: option.default for option in options} == models.options_of(name)
        assert all(option.kind is inspect.Parameter.KEYWORD_ONLY for option in options)
        assert set(get_type_hints(make)) == {"input_size", "hidden_size", *models.options_of(name), "return"}
        ours, built = make(3, hidden_size=8), models.build(name, 3, 8)
        drawn = [layer.init(np.random.default_rng(0))[0] for layer in (ours, built)]
        assert all(np.array_equal(value, drawn[1][key]) for key, value in drawn[0].items())
        assert ours.name == built.name == name
        given = models.build(name, 3, 8, **models.options_of(name))
        assert (given.cell, given.parametrizations) == (built.cell, built.parametrizations)
    assert {type(getattr(models, public)) for public in models.__all__} == {FunctionType}


def words_of(hint):
    """The words that a type allows: of a Literal, or of one or None."""
    return [word for kind in (hint, *get_args(hint)) if get_origin(kind) is Literal for word in get_args(kind)]


def test_the_words_of_an_options_type_are_those_that_are_allowed():
    """Each makes a layer, and the error of any other lists them."""
    found = set()
    for name in models.names():
        for option, hint in get_type_hints(function(name)).items():
            words = words_of(hint)
            for word in words:
                function(name)(3, 8, **{option: word}).init(np.random.default_rng(0))
            if words:
                found.add((name, option))
                with pytest.raises(ValueError, match=rf"^{option} is 3; allowed: {', '.join(map(repr, words))}$"):
                    function(name)(3, 8, **{option: 3})
    assert found == {
        *((name, "activation") for name in ("goru", "ornn", "fastrnn")),
        *(("goru", "style"), ("eurnn", "style"), ("nc-gru", "orthogonal"), ("exprnn", "initial"), ("sgornn", "phi")),
    }
    assert list(words_of(get_type_hints(models.goru)["activation"])) == list(ACTIVATIONS)


NO_NUMBER, SWITCH = "allowed: a finite number", "allowed: True, False"
COMPLEX = "parametrizations puts the complex StructuredUnitary() on U_c of the real GRUResetBefore; allowed: one"
REAL = "parametrizations puts the real ScaledCayley(negative_ones=2) on U of the complex Elman; allowed: one that"
# model, options, of which m and n are sizes, 3 and 8 unless given, and what the error says
REFUSED = [
    ("lstm", {"m": 0}, "input_size is 0; allowed: an integer >= 1"),
    ("lstm", {"n": "8"}, "hidden_size is '8'; allowed: an integer >= 1"),
    ("rnn", {"n": True}, "hidden_size is True; allowed: an integer >= 1"),
    ("goru", {"order": 2}, "goru has no option 'order'; allowed: style, capacity, reflections, "),
    ("urnn", {"capacity": 2}, "urnn has no option 'capacity'; allowed: none"),
    ("urnn", {"x" * 5000: 2}, f"urnn has no option '{'x' * 27}...{'x' * 28}'; allowed: none"),
    ("goru", {"n": np.int64(8), "style": "fft", "capacity": 4}, "capacity is 4, which style 'fft' has no use for"),
    ("goru", {"style": "householder", "capacity": 4}, "capacity is 4, which style 'householder' has no use for"),
    ("goru", {"reflections": 4}, "reflections is 4, which style None has no use for"),
    ("sgornn", {"phi": "exp", "sublayers": 4}, "sublayers is 4, which phi 'exp' has no use for"),
    ("nc-gru", {"negative_ones": 9}, "negative_ones is 9; allowed: 0 to n = 8"),
    ("scornn", {"negative_ones": True}, "negative_ones is True; allowed: an integer from 0"),
    ("sgornn", {"sublayers": 0}, "sublayers is 0; allowed: an integer >= 1, or None"),
    ("ornn", {"reflections": 0}, "reflections is 0; allowed: an integer from 1 to n"),
    ("ornn", {"activation": "gelu"}, "activation is 'gelu' (did you mean 'relu'?); allowed: 'tanh', 'relu', 'modrelu'"),
    ("eurnn", {"style": "householder"}, "style is 'householder'; allowed: 'fft', 'tunable'"),
    ("eurnn", {"style": None}, "style is None; allowed: 'fft', 'tunable'"),
    ("nc-gru", {"exact": "no"}, f"exact is 'no'; {SWITCH}"),
    ("eurnn", {"complex": 1}, f"complex is 1; {SWITCH}"),
    ("goru", {"reset_gate": 0}, f"reset_gate is 0; {SWITCH}"),
    ("gru", {"reset_bias": "1"}, f"reset_bias is '1'; {NO_NUMBER}"),
    ("gru", {"reset_bias": 10**400}, NO_NUMBER),
    ("gru", {"update_bias": math.nan}, f"update_bias is nan; {NO_NUMBER}"),
    ("nc-gru", {"update_bias": math.inf}, f"update_bias is inf; {NO_NUMBER}"),
    ("nc-gru", {"modrelu_range": -0.1}, "modrelu_range is -0.1; allowed: a finite number >= 0"),
    ("goru", {"modrelu_bias": math.nan}, f"modrelu_bias is nan; {NO_NUMBER}"),
]


@pytest.mark.parametrize(("name", "options", "message"), REFUSED)
def test_what_cannot_be_built(name, options, message):
    """By `build` or by the model's function: the error names the argument, the value and what is allowed."""
    m, n, own = options.get("m", 3), options.get("n", 8), {k: v for k, v in options.items() if k not in ("m", "n")}
    for make in (lambda: models.build(name, m, n, **own), lambda: function(name)(m, n, **own)):
        with pytest.raises(TypeError if "no option" in message else ValueError, match=re.escape(message)):
            make()


@pytest.mark.parametrize(
    ("name", "parametrize", "message"),
    [
        ("goru", {"W_h": "free"}, "parametrizations names 'W_h'; allowed for "),
        ("gru", {"U_c": "householder"}, "parametrization is 'householder'; allowed: free, scaled_cayley[:K], neumann_"),
        ("gru", {"U_c": "structured_unitary"}, COMPLEX),
        ("urnn", {"U": "scaled_cayley:2"}, REAL),
        *(("rnn", {"U": bad}, f"parametrize['U'] is {bad!r}; allowed: a parametrization, or ") for bad in (3, None)),
        ("rnn", {"U": Householder}, f"parametrize['U'] is {Householder!r}; allowed: a parametrization, or one of free"),
    ],
)
def test_what_no_model_can_be_kept_by(name, parametrize, message):
    """What the weight, the cell or the name does not allow."""
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        models.build(name, 3, 8, parametrize=parametrize)


def test_options_go_by_their_names():
    """A fourth, or third, argument by its place is refused."""
    with pytest.raises(TypeError, match="takes 3 positional arguments but 4 were given"):
        models.build("goru", 3, 8, {})
    with pytest.raises(TypeError, match="takes 2 positional arguments but 3 were given"):
        models.goru(3, 8, {})


def test_parametrize():
    """By name or as an object, in place of the model's own way; then the model's initial value of that weight goes, and
    everything else stays; "free" leaves the initial value, the model's or the cell's, complex where the cell is."""
    layer = models.build("gru-cudnn", 3, 8, parametrize={"U_h": "householder:8", "U_r": NeumannCayley(2, 3)})
    assert layer.parametrizations == {"U_h": Householder(8), "U_r": NeumannCayley(2, 3)}
    assert set(layer.initial) == {"W_r", "b_r", "W_z", "U_z", "b_z", "W_h", "b_h", "b_hh"}
    own, _ = layer.init(np.random.default_rng(0))
    plain, _ = models.build("gru-cudnn", 3, 8).init(np.random.default_rng(0))
    assert all(np.array_equal(own[key], plain[key]) for key in layer.initial)
    assert models.build("nc-gru", 3, 8, orthogonal="rc", parametrize={"U_c": "exponential"}).parametrizations == {
        "U_r": NeumannCayley(4),
        "U_c": Exponential(),
    }
    for n, text, kept in ((7, "scaled_cayley", ScaledCayley(3)), (8, "neumann_cayley:1:3", NeumannCayley(1, 3, 50))):
        assert models.build("rnn", 3, n, parametrize={"U": text}).parametrizations == {"U": kept}
    for name, kept in (("eurnn", FFTRotations(complex=True)), ("rnn", FFTRotations())):
        assert models.build(name, 3, 8, parametrize={"U": "fft_rotations"}).parametrizations == {"U": kept}
    assert models.build("irnn", 3, 8, parametrize={}).initial.keys() == {"U"}
    params, buffers = models.build("irnn", 3, 8, parametrize={"U": "free"}).init(np.random.default_rng(0))
    assert np.array_equal(params["U"], np.eye(8))
    params, buffers = models.build("urnn", 3, 8, parametrize={"U": Free()}).init(np.random.default_rng(0))
    assert (params["U"].dtype, buffers) == (np.complex64, {})
    network = models.network("gru", 3, [8, 6], 2, parametrize={"U_c": "scaled_cayley"})
    assert [layer.parametrizations["U_c"] for layer in network.layers] == [ScaledCayley(4), ScaledCayley(3)]


# Running


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", models.names())
def test_every_model_on_every_device(device, name, dtype):
    """Forward, backward and retraction are the host's in float64; kinds and precisions stay; nothing given changes."""
    layer = models.build(name, 3, 8)
    rng = np.random.default_rng(0)
    params, buffers = layer.init(rng, dtype=np.float64)
    params = perturbed(params, rng, 0.1)
    problem = random_problem(layer.cell, rng, m=3, n=8)
    given = params, layer.rebuild(params, buffers), problem.x, problem.dh, problem.h0
    results = []
    for tree in (given, to_device(given if dtype == np.float64 else single(given), device)):
        params, buffers, x, dh, h0 = tree
        before = to_host((params, buffers))
        kept = [np.array(value) for value in before[0].values()]
        h, tape = layer.forward(params, buffers, x, h0)
        gradients = layer.backward(params, buffers, tape, dh, h0)
        optimizer = ByName({"*.X": SGD(1e-3), "*": Adam(1e-3)})
        deltas = {key: optimizer.delta(key, params[key], value) for key, value in gradients.params.items()}
        new, new_buffers = layer.retract(params, buffers, deltas)
        assert list(new) == list(params)
        for key, value in new.items():
            assert (value.shape, value.dtype) == (params[key].shape, params[key].dtype)
        for old, value in zip(kept, to_host(params).values(), strict=True):
            np.testing.assert_array_equal(old, value)
        us = {f"{key} {i}": own[key]["U"] for i, own in enumerate((buffers, new_buffers)) for key in own}
        parts = {f"h {i}": part for i, part in enumerate(parts_of(layer.cell, h))} | {"dx": gradients.x}
        results.append(to_host({**parts, **gradients.params, **{f"new {key}": v for key, v in new.items()}, **us}))
    theirs, ours = results
    assert set(ours) == set(theirs)
    for key in theirs:
        assert ours[key].dtype == (theirs[key] if dtype == np.float64 else single(theirs[key])).dtype
        floor = max(abs(value).max() for value in theirs.values()) * 1e-3
        assert relative_error(ours[key], theirs[key], floor) < (1e-11 if dtype == np.float64 else 2e-3), key


# model, what its U's are kept by, options: what no paper has put together
COMBINATIONS = [
    ("nc-gru", {"U_c": "householder:3"}, {}),
    ("nc-gru", {"U_r": "fft_rotations", "U_u": "exponential"}, {"orthogonal": "ruc"}),
    ("goru", {"U_h": "neumann_cayley:2:2:5"}, {}),
    ("lstm", {"U_f": "fft_rotations", "U_g": "exponential"}, {}),
    ("lstm", {"U_i": "scaled_cayley", "U_f": "free", "U_g": "householder:8", "U_o": "tunable_rotations:4"}, {}),
    ("eurnn", {"U": "geodesic_unitary"}, {}),
    ("urnn", {"U": "tunable_rotations:4"}, {}),
    ("urnn", {"U": "free"}, {}),
    ("gru-cudnn", {"U_h": "volume_preserving:4", "U_r": "scaled_cayley"}, {}),
    ("irnn", {"U": "scaled_cayley:0"}, {}),
    ("rnn", {"U": Exponential("cayley")}, {}),
    ("goru", {"U_h": "scaled_cayley"}, {"reset_gate": False, "update_gate": False}),
]


@pytest.mark.parametrize(("name", "kept", "options"), [*((name, {}, {}) for name in models.names()), *COMBINATIONS])
def test_training(tmp_path, name, kept, options):
    """Two layers, updates in float32: the loss falls, every parameter moves, every U stays orthogonal or unitary."""
    task = Parenthesis(8, "released")
    form = {"readout": task.readout, "loss": task.loss, "parametrize": kept, **options}
    network = models.network(name, task.input.size, [8, 8], task.output_size, **form)
    optimizer = ByName({"*.X": SGD(1e-2), "layer*.*.*": Adam(1e-3), "*": Adam(1e-2)})
    own = TrainingRun(network, task, optimizer, iterations=20, batch_size=16, log_every=20, evaluate_every=20)
    before, start = dict(own.params), own.evaluate()["evaluation_loss"]
    (record,) = own.run(tmp_path)
    assert math.isfinite(record["loss"])
    assert record["evaluation_loss"] < start
    for key, value in own.params.items():
        assert np.isfinite(value).all()
        assert not np.array_equal(value, before[key]), key
    health = network.health(own.buffers)
    assert set(health) == {f"layer{i}.{key}" for i in (0, 1) for key in network.layers[i].constrained}
    assert all(figures["defect"] < 1e-5 for figures in health.values())


def test_the_models_page_shows_what_a_layer_says():
    """docs/models.md prints the line of the layer in its Python."""
    page = (Path(__file__).parents[2] / "docs/models.md").read_text()
    assert f"\n{models.goru(10, 64, style='householder', reset_gate=False)!r}\n" in page
