"""What the library says: errors in one line by the argument's name, short reprs, completion, types, citations."""

import ast
import dataclasses
import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import ortho_ref
from ortho_ref import cells, citations, converters, fused, models, parametrizations, scan
from ortho_ref.boundary import kind_of
from ortho_ref.cells.cell import state_of
from ortho_ref.conformance import Case, check
from ortho_ref.language.embedding import Embedding
from ortho_ref.language.regularizers import Regularizers
from ortho_ref.layers import Dense
from ortho_ref.network import Network
from ortho_ref.parametrizations.by_name import PARAMETRIZATIONS
from ortho_ref.printing import ArraysByName, brief
from ortho_ref.recurrent import Recurrent
from ortho_ref.training import checkpoint
from ortho_ref.training import trainer as training
from ortho_ref.training.optimizers import SGD, Adam, ByName, RMSprop
from ortho_ref.training.schedules import Step
from scripts.maintain.equations.tags import tags_of
from tasks.adding import Adding
from tests.user import PROGRAM

ROOT = Path(__file__).parents[2]
LAYER = models.nc_gru(3, 4)
NETWORK = models.network("nc-gru", 3, [4, 4], 2)
DRAWN = LAYER.init(np.random.default_rng(0), dtype=np.float64)
ELMAN, UNITARY = models.rnn(3, 4), models.full_urnn(3, 4)
ELMANS = ELMAN.init(np.random.default_rng(0), dtype=np.float64)
UNITARYS = UNITARY.init(np.random.default_rng(0), dtype=np.float64)
OF_TWO = models.network("gru", 2, [4], 1, readout="last", loss="mean_squared_error")
OF_CELL = LAYER.cell.init(np.random.default_rng(0), 3, 4, dtype=np.float64)
WHOLE = NETWORK.init(np.random.default_rng(0), dtype=np.float64)
X, Y = np.ones((5, 2, 3)), np.zeros((5, 2), int)
TAPE = NETWORK.forward(*WHOLE, X).tape


def rng():
    """A generator."""
    return np.random.default_rng(0)


def zeros(cell):
    """A state of the cell, for two sequences and n = 4."""
    return state_of((np.zeros((2, 4)),) * len(cell.states))


def without(params, name):
    """The parameters but one."""
    return {key: value for key, value in params.items() if key != name}


SEED = "rng is 0, a seed; allowed: a numpy.random.Generator, as numpy.random.default_rng(0)"
LISTED = "allowed: 'elman', 'fastrnn', 'gru_reset_after', 'gru_reset_before', 'lstm'"
ERRORS = [
    # a seed, a dtype, nothing where the generator should be
    (lambda: LAYER.init(0), TypeError, SEED),
    (lambda: NETWORK.init(0), TypeError, SEED),
    (lambda: Dense(3, 2).init(0), TypeError, SEED),
    (lambda: Embedding(3, 2).init(0), TypeError, SEED),
    *((lambda own=own: own.init(0, 3, 4), TypeError, SEED) for own in (kind() for kind in cells.CELLS.values())),
    *(
        (lambda text=text: parametrizations.by_name(text, 4).init(0, 4), TypeError, SEED)
        for text in ("free", "scaled_cayley", "neumann_cayley", "exponential", "householder:2", "tunable_rotations:2")
    ),
    *(
        (lambda text=text: parametrizations.by_name(text, 4).init(0, 4), TypeError, SEED)
        for text in ("fft_rotations", "volume_preserving", "structured_unitary", "geodesic_unitary")
    ),
    (lambda: LAYER.init(None), TypeError, "rng is None; allowed: a numpy.random.Generator"),
    (lambda: LAYER.init(np.random), TypeError, "rng is a module; allowed: a numpy.random.Generator"),
    (lambda: LAYER.init(np.float64), TypeError, "rng is float64, a dtype; allowed: a numpy.random.Generator"),
    (lambda: LAYER.init(np.random.Generator), TypeError, "rng is a type; allowed: a numpy.random.Generator"),
    (lambda: LAYER.init([]), TypeError, "rng is a list; allowed: a numpy.random.Generator"),
    # a dtype in the place of a size; another dtype
    (
        lambda: LAYER.init(rng(), np.float64),
        TypeError,
        "input_size is float64, a dtype; allowed: an integer >= 1; a dtype goes by its name, dtype=float64",
    ),
    (
        lambda: parametrizations.Free().init(rng(), np.float32),
        TypeError,
        "n is float32, a dtype; allowed: an integer",
    ),
    (lambda: NETWORK.init(rng(), dtype=3), ValueError, "dtype is 3; allowed: float32, float64"),
    (lambda: NETWORK.init(rng(), dtype="flot"), ValueError, "dtype is 'flot'; allowed: float32, float64"),
    (lambda: LAYER.init(rng(), dtype=None), ValueError, "dtype is None; allowed: float32, float64"),
    (lambda: LAYER.init(rng(), dtype=np.int64), ValueError, "dtype is int64; allowed: float32, float64"),
    # sizes
    *(
        (lambda own=own: own.init(rng(), 0, 4), ValueError, "input_size is 0; allowed: an integer >= 1")
        for own in (kind() for kind in cells.CELLS.values())
    ),
    *(
        (lambda own=own: own.init(rng(), 3, "4"), ValueError, "hidden_size is '4'; allowed: an integer >= 1")
        for own in (kind() for kind in cells.CELLS.values())
    ),
    (lambda: cells.LSTM().init(rng(), 3, True), ValueError, "hidden_size is True; allowed: an integer >= 1"),
    (lambda: cells.LSTM().init(rng(), 3.0, 4), ValueError, "input_size is 3.0; allowed: an integer >= 1"),
    (lambda: Dense(np.float32(3), 2), ValueError, f"input_size is {np.float32(3)!r}; allowed: an integer >= 1"),
    (lambda: LAYER.init(rng(), dtype=np.float64(1)), ValueError, f"dtype is {np.float64(1)!r}; allowed: float32"),
    (lambda: LAYER.init(rng(), dtype=object), ValueError, "dtype is <class 'object'>; allowed: float32, float64"),
    (
        lambda: cells.LSTM().init(rng(), 3, np.float64),
        TypeError,
        "hidden_size is float64, a dtype; allowed: an integer",
    ),
    (lambda: Dense(0, 2), ValueError, "input_size is 0; allowed: an integer >= 1"),
    (lambda: Dense(3, "2"), ValueError, "output_size is '2'; allowed: an integer >= 1"),
    (lambda: Recurrent(LAYER.cell, sizes=3), ValueError, "sizes is 3; allowed: a pair, (input_size, hidden_size)"),
    (lambda: Recurrent(LAYER.cell, sizes=(3, 0)), ValueError, "hidden_size is 0; allowed: an integer >= 1"),
    # networks and layers of something else
    (
        lambda: Recurrent(LAYER.cell, parametrizations.Free()),
        TypeError,
        "parametrizations is a Free; allowed: a dict by the weights' names",
    ),
    (lambda: Network((LAYER,), 2, dropout="x"), ValueError, "dropout is 'x'; allowed: 0 <= dropout < 1"),
    (lambda: Network(LAYER, 2), TypeError, "layers is a Recurrent; allowed: a tuple of layers, (layer,) where"),
    (lambda: Network("gru", 2), TypeError, "layers is a str; allowed: a tuple of layers"),
    (lambda: Network((LAYER.cell,), 2), TypeError, "layers[0] is a GRUResetBefore; allowed: a Recurrent, as"),
    (lambda: Network((LAYER,), 2, embedding=7), TypeError, "embedding is 7; allowed: an Embedding, as"),
    (lambda: Recurrent("gru"), TypeError, "cell is 'gru'; allowed: a cell, as cells.by_name('gru_reset_before')"),
    (lambda: Recurrent(cells.LSTM), TypeError, "cell is the class LSTM; allowed: a cell, as "),
    (
        lambda: Recurrent(LAYER.cell, {"U_c": "householder"}),
        TypeError,
        "parametrizations['U_c'] is 'householder'; allowed: a parametrization, as ",
    ),
    (lambda: models.network("gru", 3, 4, 2), TypeError, "hidden_sizes is 4; allowed: a list with one for each layer"),
    (
        lambda: training.Trainer(LAYER, Adding(6), Adam(), 2),
        TypeError,
        "network is a Recurrent; allowed: a ",
    ),
    (lambda: training.Trainer(NETWORK, 3, Adam(), 2), TypeError, "task is 3; allowed: a task, as "),
    (lambda: training.Trainer(OF_TWO, Adding(6), 1e-3, 2), TypeError, "optimizer is 0.001; allowed: an optimizer, as "),
    # optimizers
    (lambda: Adam("x"), ValueError, "learning_rate is 'x'; allowed: a finite number >= 0 or a schedule"),
    (lambda: Adam(None), ValueError, "learning_rate is None; allowed: a finite number >= 0 or a schedule"),
    (lambda: Adam(Step), ValueError, "learning_rate is the class Step; allowed: one made of it"),
    (lambda: Adam(1e-3, "x"), ValueError, "beta1 is 'x'; allowed: 0 <= beta1 < 1"),
    (lambda: Adam(epsilon="x"), ValueError, "epsilon is 'x'; allowed: a finite number above 0 (with 0"),
    (lambda: Adam(weight_decay="x"), ValueError, "weight_decay is 'x'; allowed: a finite number >= 0"),
    (lambda: SGD(0.1, "x"), ValueError, "momentum is 'x'; allowed: 0 <= momentum < 1"),
    (lambda: RMSprop(decay=[1, 2]), ValueError, "decay is [1, 2]; allowed: 0 <= decay < 1"),
    (lambda: Step("x", 3), ValueError, "rate is 'x'; allowed: a finite number >= 0"),
    (lambda: ByName(Adam()), TypeError, "optimizers is an Adam; allowed: a dict"),
    (lambda: ByName({"*": 3}), TypeError, "the optimizer of '*' is 3; allowed: an optimizer, as Adam(1e-3)"),
    (lambda: Adam().delta("W", X, [1.0]), TypeError, "the gradient of W is a list; expected an array"),
    (lambda: Adam().delta({"W": X}, X, X), TypeError, "name is a dict; allowed: a str, of one parameter"),
    # parameters and tapes
    (lambda: LAYER.forward(without(DRAWN[0], "W_r"), DRAWN[1], X), ValueError, "params holds no W_r; the weights are"),
    (lambda: LAYER.forward(without(DRAWN[0], "U_c.A"), DRAWN[1], X), ValueError, "params holds no U_c.*; the weights"),
    (
        lambda: NETWORK.forward(without(WHOLE[0], "layer1.b_r"), WHOLE[1], X),
        ValueError,
        "params holds no layer1.b_r; expected all that init gives",
    ),
    (
        lambda: NETWORK.forward(without(WHOLE[0], "readout.b"), WHOLE[1], X),
        ValueError,
        "params holds no readout.b; expected all that init gives",
    ),
    *(
        (lambda own=own: NETWORK.loss_and_gradients(own, WHOLE[1], X, Y), error, message)
        for own, error, message in (
            (without(WHOLE[0], "readout.W"), ValueError, "params holds no readout.W; expected all that init gives"),
            ({}, ValueError, "params holds no readout.W"),
            ([], TypeError, "params is a list; expected a dict, as init gives it"),
        )
    ),
    *(
        (lambda own=own: NETWORK.loss_and_gradients(*WHOLE, X, **{"y": Y} | own), TypeError, message)
        for own, message in (
            ({"y": Y.tolist()}, "y is a list; expected an array"),
            ({"y": None}, "y is None; expected an array"),
            ({"mask": [[True] * 2] * 5}, "mask is a list; expected an array"),
        )
    ),
    *(
        (lambda own=own: NETWORK.forward({**WHOLE[0], **own}, WHOLE[1], X), error, message)
        for own, error, message in (
            ({"readout.b": np.ones(1)}, ValueError, "readout.b has shape (1,); expected (2,)"),
            ({"readout.W": np.ones((2, 4), np.float32)}, TypeError, "readout.W is float32; expected float64"),
            ({"layer0.W_r": WHOLE[0]["layer0.W_r"].astype(np.float32)}, TypeError, "W_r is float32; expected float64"),
            ({"readout.c": X}, ValueError, "params holds 'readout.c' (did you mean 'readout."),
            ({"layer2.W_r": X}, ValueError, "params holds 'layer2.W_r'; expected what init gives alone"),
        )
    ),
    *(
        (
            lambda run=run: run(LAYER.cell, without(OF_CELL, "U_r"), X),
            ValueError,
            "weights holds no U_r; the weights are",
        )
        for run in (scan.forward, fused.forward)
    ),
    *(
        (
            lambda run=run: run(LAYER.cell, without(OF_CELL, "U_r"), None, X),
            ValueError,
            "weights holds no U_r; the weights are W_r, U_r, b_r, ",
        )
        for run in (scan.backward, fused.backward)
    ),
    (lambda: fused.forward(LAYER.cell, None, X), TypeError, "weights is None; expected a dict, as the cell's init"),
    (lambda: LAYER.rebuild(without(DRAWN[0], "U_c.A"), DRAWN[1]), ValueError, "U_c holds no A; expected all"),
    (lambda: LAYER.rebuild(DRAWN[0], {}), ValueError, "buffers holds no U_c; expected all that init gives"),
    (lambda: LAYER.rebuild(None, DRAWN[1]), TypeError, "params is None; expected a dict, as init gives it"),
    (lambda: LAYER.retract(DRAWN[0], {}, DRAWN[0]), ValueError, "buffers holds no U_c; expected all that init gives"),
    (lambda: LAYER.retract(*DRAWN, None), TypeError, "deltas is None; expected a dict"),
    (lambda: LAYER.health({}), ValueError, "buffers holds no U_c; expected all that init gives"),
    (
        lambda: LAYER.health({"U_c": without(DRAWN[1]["U_c"], "P")}),
        ValueError,
        "U_c holds no P; expected all that init gives",
    ),
    (
        lambda: LAYER.forward(DRAWN[0] | {"W_r.A": X}, DRAWN[1], X),
        ValueError,
        "params holds 'W_r.A'; the weights are W_r",
    ),
    (
        lambda: LAYER.retract(DRAWN[0] | {"U_c.B": X}, DRAWN[1], DRAWN[0] | {"U_c.B": X}),
        ValueError,
        "params holds 'U_c.B'; expected what init gives alone",
    ),
    (lambda: LAYER.count({}), ValueError, "params holds no input weight W (n, m)"),
    *(
        (
            lambda name=name: LAYER.retract(DRAWN[0], {"U_c": without(DRAWN[1]["U_c"], name)}, DRAWN[0]),
            ValueError,
            f"U_c holds no {name}; expected all that init gives",
        )
        for name in ("A_tilde", "D")
    ),
    (
        lambda: LAYER.forward(DRAWN[0], {"U_c": without(DRAWN[1]["U_c"], "U")}, X),
        ValueError,
        "buffers['U_c'] holds no U; expected all that init gives",
    ),
    *(
        (call, ValueError, "buffers holds no layer1.U_c; expected all that init gives")
        for call in (
            lambda: NETWORK.forward(WHOLE[0], without(WHOLE[1], "layer1.U_c"), X),
            lambda: NETWORK.rebuild(WHOLE[0], without(WHOLE[1], "layer1.U_c")),
            lambda: NETWORK.retract(WHOLE[0], without(WHOLE[1], "layer1.U_c"), WHOLE[0]),
            lambda: NETWORK.health(without(WHOLE[1], "layer1.U_c")),
        )
    ),
    (
        lambda: NETWORK.rebuild(without(WHOLE[0], "layer0.U_c.A"), WHOLE[1]),
        ValueError,
        "params holds no layer0.U_c.*; expected all that init gives",
    ),
    (lambda: LAYER.forward(None, DRAWN[1], X), TypeError, "params is None; expected a dict, as init gives it"),
    (lambda: LAYER.forward(DRAWN[0], None, X), TypeError, "buffers is None; expected a dict, as init gives it"),
    (lambda: NETWORK.forward(None, WHOLE[1], X), TypeError, "params is None; expected a dict, as init gives it"),
    # the weight that differs is named, not those that fit
    (
        lambda: LAYER.forward({**DRAWN[0], "W_r": DRAWN[0]["W_r"].T}, DRAWN[1], X),
        ValueError,
        "W_r has shape (3, 4); expected (4, 3)",
    ),
    (
        lambda: LAYER.forward({**DRAWN[0], "W_r": DRAWN[0]["W_r"].astype("f4")}, DRAWN[1], X),
        TypeError,
        "W_r is float32; expected float64",
    ),
    (
        lambda: ELMAN.forward({**ELMANS[0], "W": ELMANS[0]["W"].T}, ELMANS[1], X),
        ValueError,
        "W has shape (3, 4); expected (4, 3)",
    ),
    (
        lambda: UNITARY.forward({**UNITARYS[0], "W": UNITARYS[0]["W"].astype("c8")}, UNITARYS[1], X),
        TypeError,
        "W is complex64; expected complex128",
    ),
    (
        lambda: LAYER.forward(*DRAWN, np.ones((5, 2, 3), int)),
        ValueError,
        "x holds tokens of shape (5, 2, 3); expected (T, B), both at least 1; vectors (T, B, 3) are float64",
    ),
    (lambda: LAYER.backward(*DRAWN, None, X), TypeError, "tape is None; expected what forward returned"),
    (lambda: NETWORK.backward(*WHOLE, None, X), TypeError, "tape is None; expected that of what forward"),
    *(
        (lambda own=own: NETWORK.backward(*WHOLE, TAPE, own), error, f"doutputs {message}")
        for own, error, message in (
            (np.ones((2, 5, 2)), ValueError, "has shape (2, 5, 2); expected (5, 2, 2)"),
            (np.ones((5, 2, 2), np.float32), TypeError, "is float32; expected float64"),
            (None, TypeError, "is None; expected an array of shape (5, 2, 2)"),
        )
    ),
    (lambda: LAYER.weights(DRAWN[0], {}), ValueError, "buffers holds no U_c; expected all that init gives"),
    (
        lambda: LAYER.weights(DRAWN[0], {**DRAWN[1], "U_r": DRAWN[1]["U_c"]}),
        ValueError,
        "buffers holds 'U_r'; allowed: U_c",
    ),
    (
        lambda: LAYER.retract(*DRAWN, without(DRAWN[0], "W_r")),
        ValueError,
        "deltas holds no W_r; expected one for each parameter",
    ),
    (
        lambda: LAYER.retract(*DRAWN, {**DRAWN[0], "U_c": X}),
        ValueError,
        "deltas holds 'U_c' (did you mean 'U_c.A'?); expected one for each parameter",
    ),
    *(
        (
            lambda name=name: NETWORK.retract(*WHOLE, without(WHOLE[0], name)),
            ValueError,
            f"deltas holds no {name}; expected one for each parameter",
        )
        for name in ("readout.b", "layer1.W_r")
    ),
    (
        lambda: NETWORK.retract(*WHOLE, {**WHOLE[0], "readout.bb": X}),
        ValueError,
        "deltas holds 'readout.bb' (did you mean 'readout.b'?); expected one for each parameter",
    ),
    (
        lambda: NETWORK.retract(*WHOLE, {**WHOLE[0], "readout.b": np.ones(1)}),
        ValueError,
        "delta of readout.b has shape (1,); expected (2,)",
    ),
    (
        lambda: NETWORK.retract(*WHOLE, {**WHOLE[0], "readout.b": np.ones(2, np.float32)}),
        TypeError,
        "delta of readout.b is float32; expected float64",
    ),
    (
        lambda: Recurrent(LAYER.cell).init(rng(), hidden_size=4),
        ValueError,
        "input_size is missing; allowed: an integer >= 1, as the layer was built without sizes",
    ),
    (lambda: Regularizers(alpha=10**400), ValueError, "alpha is 1000"),
    (lambda: Regularizers(alpha="x"), ValueError, "alpha is 'x'; allowed: a finite number >= 0"),
    (lambda: Regularizers(words="x"), ValueError, "dropout of words is 'x'; allowed: 0 <= rate < 1"),
    (lambda: checkpoint.save("x.safetensors", DRAWN), TypeError, "tree is a tuple; allowed: a dict, as {'params': "),
    (
        lambda: converters.by_name("pytorch").to_framework("rnn", {"W": X, "U": X}),
        ValueError,
        "weights: the arrays hold no b; expected W, U, b",
    ),
    # near names
    (lambda: models.build("ncgru", 3, 4), ValueError, "model is 'ncgru' (did you mean 'nc-gru'?); allowed: rnn, "),
    (
        lambda: models.nc_gru(3, 4, negative_one=1),
        TypeError,
        "nc-gru has no option 'negative_one' (did you mean 'negative_ones'?); allowed: orthogonal, ",
    ),
    (lambda: cells.by_name("lstmm"), ValueError, f"cell is 'lstmm' (did you mean 'lstm'?); {LISTED}"),
    (
        lambda: parametrizations.by_name("housholder:2", 4),
        ValueError,
        "parametrization is 'housholder:2' (did you mean 'householder'?); allowed: free, ",
    ),
    (lambda: models.build(3, 3, 4), ValueError, "model is 3; allowed: rnn, "),
    (lambda: parametrizations.by_name(3, 4), ValueError, "parametrization is 3; allowed: free, "),
    (lambda: converters.by_name("torhc"), ValueError, "framework is 'torhc' (did you mean 'pytorch'?); allowed: "),
    (lambda: converters.config_of("lstmm"), ValueError, "cell is 'lstmm' (did you mean 'lstm'?); allowed: elman, "),
    (lambda: Recurrent(LAYER.cell, engine="fusd"), ValueError, "engine is 'fusd' (did you mean 'fused'?); allowed: "),
    (lambda: Network((LAYER,), 2, "evry"), ValueError, "readout is 'evry' (did you mean 'every'?); allowed: 'every', "),
    (
        lambda: Network((LAYER,), 2, loss="cross_entrop"),
        ValueError,
        "loss is 'cross_entrop' (did you mean 'cross_entropy'?); allowed: 'cross_entropy', ",
    ),
    (
        lambda: check(None, "cell/gru_rest_after"),
        ValueError,
        "only is 'cell/gru_rest_after' (did you mean 'cell/gru_reset_after'?), which fits no case; ",
    ),
    (lambda: check(None, "cell/lstm"), TypeError, "run is None; allowed: a function run(case), which gives a dict"),
    (lambda: check("cell/lstm", np.tanh), TypeError, "only is a ufunc; allowed: a pattern, as 'cell/gru*', or a list"),
    (lambda: models.build("NC-GRU", 3, 4), ValueError, "model is 'NC-GRU' (did you mean 'nc-gru'?); allowed: rnn, "),
    (lambda: models.describe(LAYER), ValueError, "model is Recurrent("),
    (
        lambda: models.build("nc-gru", 3, 4, parametrize="U_c=householder:2"),
        TypeError,
        "parametrize is 'U_c=householder:2'; allowed: a dict by the weights' names, as {'U_c': 'householder:8'}",
    ),
    (lambda: fused.forward(LAYER, {}, X), TypeError, "cell is a Recurrent; allowed: a cell, as cells.by_name('gru_"),
    (
        lambda: scan.forward(LAYER.cell, LAYER.weights(*DRAWN), X[0]),
        ValueError,
        "x has shape (2, 3); expected (T, B, 3), T and B at least 1",
    ),
    (
        lambda: NETWORK.forward({**WHOLE[0], "readout.W": WHOLE[0]["readout.W"].T}, WHOLE[1], X),
        ValueError,
        "readout.W has shape (4, 2); expected (2, 4)",
    ),
    (lambda: ortho_ref.modls, AttributeError, "module 'ortho_ref' has no attribute 'modls' (did you mean 'models'?)"),
    (lambda: models.by_name, AttributeError, "module 'ortho_ref.models' has no attribute 'by_name'"),
    (lambda: citations.cite(3), TypeError, "model is an int; allowed: a layer, a network, a cell, a parametrization"),
    (lambda: citations.cite("ncgru"), ValueError, "model is 'ncgru' (did you mean 'nc-gru'?); allowed: rnn, "),
]


@pytest.mark.parametrize(("call", "error", "message"), ERRORS)
def test_an_error_is_one_line(call, error, message):
    """It names the argument, what was given and what is allowed."""
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("owner", [LAYER, NETWORK, Dense(3, 2), Embedding(3, 2), LAYER.cell, parametrizations.Free()])
def test_a_dtype_goes_by_its_name_alone(owner):
    """In every init; so a size or a seed in its place cannot be taken for one."""
    assert inspect.signature(owner.init).parameters["dtype"].kind is inspect.Parameter.KEYWORD_ONLY


@pytest.mark.parametrize("kind", [*cells.CELLS.values(), *PARAMETRIZATIONS.values()])
def test_every_cell_and_parametrization_takes_a_dtype_by_its_name(kind):
    """As its base class does."""
    assert inspect.signature(kind.init).parameters["dtype"].kind is inspect.Parameter.KEYWORD_ONLY


@pytest.mark.parametrize(
    ("value", "called"),
    [
        *((None, "None"), (3, "an int"), ("x", "a str"), (X, "an ndarray"), (Adam(), "an Adam"), ((), "a tuple")),
        *((cells.LSTM(), "an LSTM"), (cells.GRUResetBefore(), "a GRUResetBefore"), (SGD(0.1), "an SGD")),
        *((RMSprop(0.1), "an RMSprop"), (object(), "an object"), (np.uint8(1), "a uint8"), ([], "a list")),
    ],
)
def test_a_type_has_its_article(value, called):
    """The one that is spoken."""
    assert kind_of(value) == called


def test_no_message_has_an_article_of_its_own():
    """`kind_of` puts it: "is a {type(x).__name__}" would say "a int"."""
    for folder in ("ortho_ref", "tasks", "gradients", "scripts"):
        for path in (ROOT / folder).rglob("*.py"):
            found = re.findall(r"\ba \{(?:type\(|kind\b|name\}; expected)[^}]*\}?", path.read_text("utf-8"))
            assert found in ([], ["a {kind}"]), path


def test_a_name_that_the_package_has_not_is_said_once():
    """Python's own advice in a traceback does not come on top."""
    code = "import ortho_ref; ortho_ref.modls"
    end = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)
    assert (
        end.stderr.splitlines()[-1]
        == "AttributeError: module 'ortho_ref' has no attribute 'modls' (did you mean 'models'?)"
    )


def test_the_page_says_what_is_said():
    """docs/library.md: every message there is one of the list, as far as the page has it."""
    (block,) = re.findall(r"```text\n(.*?)```", (ROOT / "docs/library.md").read_text(), re.DOTALL)
    every = [message for _, _, message in ERRORS]
    for line in block.splitlines():
        said = line.removesuffix("...").replace("layer0.b_r", "layer1.b_r")
        assert any(said.startswith(message) or message.startswith(said) for message in every), line


@pytest.mark.parametrize("make", [lambda: LAYER, lambda: NETWORK, lambda: Dense(3, 2), lambda: Embedding(3, 2)])
def test_init_takes_the_same_everywhere(make):
    """A generator first, and a dtype by its name, float32 unless given."""
    parameters = list(inspect.signature(make().init).parameters.values())
    assert (parameters[0].name, parameters[-1].name) == ("rng", "dtype")
    assert parameters[-1].default is np.float32
    drawn = make().init(rng(), dtype=np.float64)
    params = drawn[0] if isinstance(drawn, tuple) else drawn
    assert {value.dtype for value in params.values()} == {np.dtype(np.float64)}


def test_a_list_of_layers_is_as_good_as_a_tuple():
    """And becomes one."""
    assert Network([LAYER], 2) == Network((LAYER,), 2)


# reprs

NUMBERS = re.compile(r"\[ *-?\d+\.|array\(")


def test_no_repr_is_of_numbers():
    """Of layers, networks, parameters, buffers, states, tapes, gradients, batches, optimizers, trainers and cases."""
    task = Adding(6)
    batch = next(task.batches(rng(), 2))
    network = Network((models.lstm(2, 4), LAYER_OF_4), 1, task.readout, task.loss)
    params, buffers = network.init(rng())
    loss, gradients, result = network.loss_and_gradients(params, buffers, batch.x, batch.y)
    h, tape = LAYER.forward(*DRAWN, X)
    scan = Recurrent(LAYER.cell, LAYER.parametrizations, engine="scan", sizes=(3, 4))
    shown = [network, params, buffers, gradients, result, result.tape, result.last[0][:0], batch, LAYER, *DRAWN, tape]
    shown += [LAYER.backward(*DRAWN, tape, h[1:]), scan.forward(*DRAWN, X)[1], Adam(), ByName({"*": SGD(0.1)})]
    shown += [network.retract(params, buffers, gradients), network.rebuild(params, buffers), LAYER.rebuild(*DRAWN)]
    shown += [training.Trainer(network, task, Adam(), 2), Case("a", "cell", {}, {"x": X})]
    pairs = models.lstm(3, 4)
    shown += [dataclasses.replace(pairs, engine=engine).forward(*pairs.init(rng()), np.float32(X))[0] for engine in TWO]
    assert np.isfinite(loss)
    for value in shown:
        text = repr(value)
        assert not NUMBERS.search(text), text
        assert "\n" not in text
        assert len(text) < 3000


LAYER_OF_4 = models.nc_gru(4, 4)
TWO = ("scan", "fused")


def test_what_a_repr_says():
    """Names, shapes, and a dtype once where it is the same."""
    gradients = LAYER.backward(*DRAWN, LAYER.forward(*DRAWN, X)[1], X[..., :1] * np.ones(4))
    assert repr(gradients).startswith("RecurrentGradients(params={W_r (4, 3), ")
    assert repr(gradients).endswith("U_c.A (4, 4): float64}, x=float64 (5, 2, 3), h0=float64 (2, 4))")
    assert brief({"a": X, "b": np.ones(2, np.float32)}) == "{a: float64 (5, 2, 3), b: float32 (2,)}"
    assert brief([X] * 9) == "[float64 (5, 2, 3), float64 (5, 2, 3), float64 (5, 2, 3), ... 9]"
    assert repr(ArraysByName(a=X) | {"b": X}) == "{a (5, 2, 3), b (5, 2, 3): float64}"
    assert repr(Adam(1e-3)).startswith("Adam(learning_rate=0.001, ")
    assert repr(state_of((X, X))) == "(float64 (5, 2, 3), float64 (5, 2, 3))"
    assert "1 output at the last step" in repr(OF_TWO)
    assert "2 outputs at every step" in repr(NETWORK)


def test_every_tuple_of_arrays_is_brief():
    """Each tape, cache, batch and result of the core."""
    seen = []
    for info in pkgutil.walk_packages(ortho_ref.__path__, "ortho_ref."):
        if info.name.startswith(("ortho_ref.conformance", "ortho_ref.adapters", "ortho_ref.converters")):
            continue
        for kind in vars(importlib.import_module(info.name)).values():
            if isinstance(kind, type) and kind.__module__ == info.name and HOLDS_ARRAYS.search(kind.__name__):
                seen.append(kind.__name__)
                assert "brief" in kind.__repr__.__code__.co_names, kind
    assert {"Tape", "Cache", "Batch", "Forward", "RecurrentGradients", "NetworkTape", "Loaded"} <= set(seen)


HOLDS_ARRAYS = re.compile(
    "^(Recurrent|Network|)Tape$|^(Recurrent|Sequence)Gradients$|^(Cache|Batch|Padded|Forward|Loaded|Recomputed)$"
)


# the package


def test_the_package_completes():
    """`dir` is what users take from it, each can be had, is typed, and is imported only then."""
    assert dir(ortho_ref) == sorted(ortho_ref.__all__)
    for name in ortho_ref.__all__:
        assert getattr(ortho_ref, name) is not None
    tree = ast.parse((ROOT / "ortho_ref/__init__.py").read_text())
    (typed,) = (node for node in tree.body if isinstance(node, ast.If))
    assert {alias.name for node in typed.body for alias in node.names} == set(ortho_ref.__all__)
    with pytest.raises(AttributeError, match=r"has no attribute 'modells' \(did you mean 'models'\?\)$"):
        ortho_ref.modells  # noqa: B018
    code = "import sys, ortho_ref; assert 'numpy' not in sys.modules; print(ortho_ref.models.gru(2, 3).name)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "gru\n"


def test_weights_are_saved_and_loaded(tmp_path):
    """Two calls, by a str as by a Path, to the bit; buffers too, so that the run goes on as it would have."""
    path = f"{tmp_path}/mine.safetensors"
    checkpoint.save(path, {"params": DRAWN[0], "buffers": DRAWN[1]})
    tree = checkpoint.load(path)
    assert np.array_equal(LAYER.forward(tree["params"], tree["buffers"], X)[0], LAYER.forward(*DRAWN, X)[0])
    with pytest.raises(OSError, match=r"mine2\.safetensors cannot be read: No such file"):
        checkpoint.load(f"{tmp_path}/mine2.safetensors")


@pytest.mark.slow
@pytest.mark.skipif(find_spec("mypy") is None, reason="mypy is in the extra dev")
def test_a_users_program_is_typed(tmp_path):
    """mypy, strict, on layers, networks, optimizers, tasks, converters and the kit; and on a file with two mistakes."""
    assert (ROOT / "ortho_ref/py.typed").exists()

    def checked(text):
        (tmp_path / "mine.py").write_text(text)
        words = ["--strict", "--follow-imports=silent", "--cache-dir", tmp_path / "cache", tmp_path / "mine.py"]
        command = [sys.executable, "-m", "mypy", "--config-file=", *map(str, words)]
        own = {"MYPYPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
        return subprocess.run(command, cwd=tmp_path, env=own, capture_output=True, text=True, check=False).stdout

    assert "Success" in checked(PROGRAM)
    wrong = checked(PROGRAM.replace('orthogonal="rc"', 'orthogonal="x"').replace("delta(name,", "delta(3,"))
    assert 'Argument "orthogonal" to "nc_gru"' in wrong
    assert 'Argument 1 to "delta"' in wrong


# papers


def test_every_cell_and_parametrization_has_its_papers():
    """Of the one table, those of the tags in its header among them; `free` alone has none."""
    assert citations.CELLS.keys() <= cells.CELLS.keys()
    assert citations.PARAMETRIZATIONS.keys() == PARAMETRIZATIONS.keys()
    for name, kind in (cells.CELLS | PARAMETRIZATIONS).items():
        keys = {**citations.CELLS, **citations.PARAMETRIZATIONS}[name]
        assert set(keys) <= set(citations.PAPERS)
        papers = {tag.split(":")[0] for tag in tags_of(inspect.getdoc(sys.modules[kind.__module__]) or "")} - {"bp"}
        assert bool(papers & set(keys)) == bool(papers)
        assert bool(keys) == (name != "free")


@pytest.mark.parametrize("name", models.names())
def test_a_model_cites_its_papers(name):
    """In the order in which they are named."""
    assert citations.cite(name) == "\n\n".join(citations.PAPERS[key] for key in citations.papers_of(name))


def test_a_network_cites_its_regularizers_and_its_reader():
    """Beside its layers'; what is one's own has no paper."""
    plain = models.network("lstm", 5, [4], 5)
    assert citations.papers_of(plain) == ("lstm",)
    dropped = models.network("lstm", 5, [4], 5, regularizers=Regularizers(alpha=1.0))
    assert citations.papers_of(dropped) == ("lstm", "awd-lstm")
    reader = models.network("lstm", 5, [4, 4, 4], 5, readout="last", embedding=3, reader="once")
    assert citations.papers_of(reader) == ("goru", "lstm")
    assert citations.papers_of(parametrizations.Free()) == ()
    assert set(citations.PAPERS) == {k for n in models.names() for k in citations.papers_of(n)} | {"awd-lstm"}


def test_bibtex_is_whole():
    """Every entry has a key of its own, title, author and year, and its braces close."""
    keys = [re.match(r"@\w+\{(\w+),\n", entry)[1] for entry in citations.PAPERS.values()]
    assert len(set(keys)) == len(keys)
    for entry in citations.PAPERS.values():
        assert {"title", "author", "year"} <= set(re.findall(r"^  (\w+) +=", entry, re.MULTILINE))
        assert entry.count("{") == entry.count("}")
