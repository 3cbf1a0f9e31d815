"""What the library says: errors in one line by the argument's name, short reprs, completion, types, citations."""

import ast
import dataclasses
import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
from dataclasses import replace
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
from ortho_ref.network import Network
from ortho_ref.parametrizations.by_name import PARAMETRIZATIONS
from ortho_ref.printing import ArraysByName, brief
from ortho_ref.recurrent import Recurrent
from ortho_ref.training import checkpoint, trainer as training
from ortho_ref.training.optimizers import SGD, Adam, ByName, RMSprop
from ortho_ref.training.schedules import Step
from scripts.maintain.equations.tags import tags_of
from tasks.adding import Adding
from tests.device import Foreign
from tests.user import PROGRAM

ROOT = Path(__file__).parents[2]
LAYER = models.nc_gru(3, 4)
NETWORK = models.network("nc-gru", 3, [4, 4], 2)
DRAWN = LAYER.init(np.random.default_rng(0), dtype=np.float64)
PARAMS, BUFFERS = DRAWN
LSTM, FASTRNN, COMPLEX = models.lstm(3, 4), models.fastrnn(3, 4), models.build("urnn", 3, 4, parametrize={"U": "free"})
OF_LSTM, OF_FASTRNN, OF_COMPLEX = (
    layer.init(np.random.default_rng(0), dtype=np.float64) for layer in (LSTM, FASTRNN, COMPLEX)
)
OF_TWO = models.network("gru", 2, [4], 1, readout="last", loss="mean_squared_error")
OF_CELL = LAYER.cell.init(np.random.default_rng(0), 3, 4, dtype=np.float64)
WHOLE = NETWORK.init(np.random.default_rng(0), dtype=np.float64)
X, Y, DH, H0 = np.ones((5, 2, 3)), np.zeros((5, 2), int), np.ones((5, 2, 4)), np.zeros((2, 4))
TAPE, NETWORKS_TAPE = LAYER.forward(*DRAWN, X)[1], NETWORK.forward(*WHOLE, X).tape
TWO_LIBRARIES = "TypeError: arrays of different libraries in one call"


def rng():
    """A generator."""
    return np.random.default_rng(0)


def tape_of(network):
    """What its forward leaves."""
    x = X if network.embedding is None else Y
    return network.forward(*network.init(rng(), dtype=np.float64), x).tape


def without(params, name):
    """The parameters but one."""
    return {key: value for key, value in params.items() if key != name}


SEED = "TypeError: rng is 0, a seed; allowed: a numpy.random.Generator, as numpy.random.default_rng(0)"
LISTED = "allowed: 'elman', 'fastrnn', 'gru_reset_after', 'gru_reset_before', 'lstm'"
ALL = "expected all that init gives"
NO_BUFFER = f"ValueError: buffers holds no U_c; {ALL}"
NO_LAYERS_BUFFER = f"ValueError: buffers holds no layer1.U_c; {ALL}"
SIZE = "allowed: an integer >= 1"
NUMBER = "allowed: a finite number >= 0"
MAPS = ("free", "scaled_cayley", "neumann_cayley", "exponential", "householder:2", "tunable_rotations:2")
MAPS += ("fft_rotations", "volume_preserving", "structured_unitary", "geodesic_unitary")


def of_forward(values, layer=LAYER, drawn=DRAWN):
    """Rows of a layer's `forward` with these arguments."""
    return [(lambda own=own: layer.forward(**named(drawn) | own), message) for own, message in values]


def of_backward(values, layer=LAYER, drawn=DRAWN, tape=TAPE):
    """Rows of a layer's `backward` with these arguments."""
    given = {**named(drawn), "tape": tape, "dh": DH if tape is TAPE else DH + 0j}
    given.pop("x")
    return [(lambda own=own: layer.backward(**given | own), message) for own, message in values]


def named(drawn):
    """Parameters, buffers and x by the arguments' names."""
    return {"params": drawn[0], "buffers": drawn[1], "x": X}


# the call, and what its error begins with
ERRORS = [
    # a seed, a dtype, nothing where the generator should be
    *((lambda own=own: own.init(0), SEED) for own in (LAYER, NETWORK, Embedding(3, 2))),
    *((lambda kind=kind: kind().init(0, 3, 4), SEED) for kind in cells.CELLS.values()),
    *((lambda text=text: parametrizations.by_name(text, 4).init(0, 4), SEED) for text in MAPS),
    (lambda: LAYER.init(None), "TypeError: rng is None; allowed: a numpy.random.Generator"),
    (lambda: LAYER.init(np.random), "TypeError: rng is a module; allowed: a numpy.random.Generator"),
    (lambda: LAYER.init(np.float64), "TypeError: rng is float64, a dtype; allowed: a numpy.random.Generator"),
    # a dtype in the place of a size; another dtype
    (
        lambda: LAYER.init(rng(), np.float64),
        f"TypeError: input_size is float64, a dtype; {SIZE}; a dtype goes by its name, dtype=float64",
    ),
    (lambda: parametrizations.Free().init(rng(), np.float32), "TypeError: n is float32, a dtype; allowed: an integer"),
    *(
        (
            lambda dtype=dtype: NETWORK.init(rng(), dtype=dtype),
            f"ValueError: dtype is {said}; allowed: float32, float64",
        )
        for dtype, said in ((3, "3"), ("flot", "'flot'"), (None, "None"), (np.int64, "int64"), (np.float16, "float16"))
    ),
    (lambda: LAYER.init(rng(), dtype=np.complex128), "ValueError: dtype is complex128; allowed: float32, float64"),
    # sizes
    *(
        (lambda kind=kind: kind().init(rng(), 0, 4), f"ValueError: input_size is 0; {SIZE}")
        for kind in cells.CELLS.values()
    ),
    (lambda: cells.LSTM().init(rng(), 3, "4"), f"ValueError: hidden_size is '4'; {SIZE}"),
    (lambda: cells.LSTM().init(rng(), 3, True), f"ValueError: hidden_size is True; {SIZE}"),
    (lambda: cells.LSTM().init(rng(), 3.0, 4), f"ValueError: input_size is 3.0; {SIZE}"),
    (lambda: Recurrent(LAYER.cell, sizes=3), "ValueError: sizes is 3; allowed: a pair, (input_size, hidden_size)"),
    (lambda: Recurrent(LAYER.cell, sizes=(3, 0)), f"ValueError: hidden_size is 0; {SIZE}"),
    (lambda: LAYER.init(rng(), 5, 4), "ValueError: input_size is 5; this layer was built for 3"),
    (
        lambda: Recurrent(LAYER.cell).init(rng(), hidden_size=4),
        f"ValueError: input_size is missing; {SIZE}, as the layer was built without sizes",
    ),
    # networks and layers of something else
    (
        lambda: Recurrent(LAYER.cell, parametrizations.Free()),
        "TypeError: parametrizations is a Free; allowed: a dict by the weights' names",
    ),
    (
        lambda: Recurrent(LAYER.cell, {"U_c": "householder"}),
        "TypeError: parametrizations['U_c'] is 'householder'; allowed: a parametrization, as ",
    ),
    (lambda: Recurrent("gru"), "TypeError: cell is 'gru'; allowed: a cell, as cells.by_name('gru_reset_before')"),
    (lambda: Recurrent(cells.LSTM), "TypeError: cell is the class LSTM; allowed: a cell, as "),
    (lambda: Network((LAYER,), 2, dropout="x"), "ValueError: dropout is 'x'; allowed: 0 <= dropout < 1"),
    (lambda: Network(LAYER, 2), "TypeError: layers is a Recurrent; allowed: a tuple of layers, (layer,) where"),
    (lambda: Network((LAYER.cell,), 2), "TypeError: layers[0] is a GRUResetBefore; allowed: a Recurrent, as"),
    (lambda: Network((LAYER,), 2, embedding=7), "TypeError: embedding is 7; allowed: an Embedding, as"),
    (lambda: models.network("gru", 3, 4, 2), "TypeError: hidden_sizes is 4; allowed: a list with one for each layer"),
    (lambda: training.Trainer(LAYER, Adding(6), Adam(), 2), "TypeError: network is a Recurrent; allowed: a "),
    (lambda: training.Trainer(NETWORK, 3, Adam(), 2), "TypeError: task is 3; allowed: a task, as "),
    (
        lambda: training.Trainer(OF_TWO, Adding(6), 1e-3, 2),
        "TypeError: optimizer is 0.001; allowed: an optimizer, as ",
    ),
    # optimizers and regularizers
    (lambda: Adam("x"), f"ValueError: learning_rate is 'x'; {NUMBER} or a schedule"),
    (lambda: Adam(Step), "ValueError: learning_rate is the class Step; allowed: one made of it"),
    (lambda: Adam(1e-3, "x"), "ValueError: beta1 is 'x'; allowed: 0 <= beta1 < 1"),
    (lambda: Adam(epsilon="x"), "ValueError: epsilon is 'x'; allowed: a finite number above 0 (with 0"),
    (lambda: Adam(weight_decay="x"), f"ValueError: weight_decay is 'x'; {NUMBER}"),
    (lambda: SGD(0.1, "x"), "ValueError: momentum is 'x'; allowed: 0 <= momentum < 1"),
    (lambda: RMSprop(decay=[1, 2]), "ValueError: decay is [1, 2]; allowed: 0 <= decay < 1"),
    (lambda: Step("x", 3), f"ValueError: rate is 'x'; {NUMBER}"),
    (lambda: ByName(Adam()), "TypeError: optimizers is an Adam; allowed: a dict"),
    (lambda: ByName({"*": 3}), "TypeError: the optimizer of '*' is 3; allowed: an optimizer, as Adam(1e-3)"),
    (lambda: Adam().delta("W", X, [1.0]), "TypeError: the gradient of W is a list; expected an array"),
    (lambda: Adam().delta({"W": X}, X, X), "TypeError: name is a dict; allowed: a str, of one parameter"),
    (lambda: Regularizers(alpha=10**400), "ValueError: alpha is 1000"),
    (lambda: Regularizers(alpha="x"), f"ValueError: alpha is 'x'; {NUMBER}"),
    (lambda: Regularizers(words="x"), "ValueError: dropout of words is 'x'; allowed: 0 <= rate < 1"),
    # what a layer's forward is given
    *of_forward(
        [
            ({"x": X.tolist()}, "TypeError: x is a list; expected an array (T, B, 3) or integer tokens (T, B)"),
            ({"x": X[:, 0]}, "ValueError: x has shape (5, 3); expected (T, B, 3), T and B at least 1"),
            ({"x": X[:, :, :2]}, "ValueError: x has shape (5, 2, 2); expected (T, B, 3)"),
            ({"x": X[:0]}, "ValueError: x has shape (0, 2, 3)"),
            ({"x": np.float32(X)}, "TypeError: x is float32; expected float64, or integer tokens (T, B)"),
            ({"x": X + 0j}, "TypeError: x is complex128; expected float64"),
            ({"x": X > 0}, "TypeError: x is bool; expected float64"),
            ({"x": X * np.nan}, "NotFiniteError: x has an entry that is not finite"),
            ({"x": Y + 3}, "ValueError: x holds token 3; allowed: 0 to 2"),
            ({"x": Y - 1}, "ValueError: x holds token -1; allowed: 0 to 2"),
            (
                {"x": np.ones((5, 2, 3), int)},
                "ValueError: x holds tokens of shape (5, 2, 3); expected (T, B), both at least 1; vectors (T, B, 3) ",
            ),
            ({"h0": H0[:1]}, "ValueError: h0 has shape (1, 4); expected (2, 4)"),
            ({"h0": np.float32(H0)}, "TypeError: h0 is float32; expected float64"),
            ({"h0": (H0, H0)}, "TypeError: h0 is a tuple; expected an array of shape (2, 4)"),
            ({"h0": H0 * np.nan}, "NotFiniteError: h0 has an entry that is not finite"),
            ({"params": None}, "TypeError: params is None; expected a dict, as init gives it"),
            ({"params": {}}, "ValueError: params holds no input weight W (n, m)"),
            ({"params": without(PARAMS, "W_r")}, "ValueError: params holds no W_r; the weights are W_r, "),
            ({"params": without(PARAMS, "U_c.A")}, "ValueError: params holds no U_c.*; the weights are"),
            ({"params": PARAMS | {"W_x": X}}, "ValueError: params holds 'W_x'; the weights are W_r, U_r, b_r"),
            ({"params": PARAMS | {"W_r.A": X}}, "ValueError: params holds 'W_r.A'; the weights are W_r"),
            ({"params": PARAMS | {"U_c": X}}, "ValueError: params holds 'U_c', which is built from its own"),
            ({"params": PARAMS | {"W_r": PARAMS["W_r"].T}}, "ValueError: W_r has shape (3, 4); expected (4, 3)"),
            ({"params": PARAMS | {"b_r": np.float32(H0[0])}}, "TypeError: b_r is float32; expected float64"),
            ({"params": PARAMS | {"U_u": PARAMS["U_u"] + 0j}}, "TypeError: U_u is complex128; expected float64"),
            ({"buffers": None}, "TypeError: buffers is None; expected a dict, as init gives it"),
            ({"buffers": {}}, NO_BUFFER),
            ({"buffers": {"U_c": without(BUFFERS["U_c"], "U")}}, f"ValueError: buffers['U_c'] holds no U; {ALL}"),
            # on another device than the weights
            ({"x": X.view(Foreign)}, TWO_LIBRARIES),
            ({"h0": H0.view(Foreign)}, TWO_LIBRARIES),
            ({"params": PARAMS | {"W_r": PARAMS["W_r"].view(Foreign)}}, TWO_LIBRARIES),
        ]
    ),
    *of_forward([({"h0": H0}, "TypeError: h0 is an ndarray; expected the tuple (h, c)")], LSTM, OF_LSTM),
    *of_forward(
        [
            ({"params": OF_FASTRNN[0] | {"alpha": 1.0}}, "TypeError: alpha is a float; expected an array of shape ()"),
            ({"params": OF_FASTRNN[0] | {"alpha": np.ones(1)}}, "ValueError: alpha has shape (1,); expected ()"),
        ],
        FASTRNN,
        OF_FASTRNN,
    ),
    # in a complex layer W, U, h0, dh and dh_T are complex, x and b real: a real array would lose the phase
    *of_forward(
        [
            ({"x": X + 0j}, "TypeError: x is complex128; expected float64"),
            ({"h0": H0}, "TypeError: h0 is float64; expected complex128"),
            ({"params": OF_COMPLEX[0] | {"h0": H0[0]}}, "TypeError: h0 is float64; expected complex128"),
            ({"params": OF_COMPLEX[0] | {"b": H0[0] + 0j}}, "TypeError: b is complex128; expected float64"),
            ({"params": OF_COMPLEX[0] | {"U": np.eye(4)}}, "TypeError: U is float64; expected complex128"),
            (
                {"params": OF_COMPLEX[0] | {"W": np.ones((4, 3), "c8")}},
                "TypeError: W is complex64; expected ",
            ),
        ],
        COMPLEX,
        OF_COMPLEX,
    ),
    *of_backward(
        [
            ({"dh": DH}, "TypeError: dh is float64; expected complex128"),
            ({"dh_T": H0}, "TypeError: dh_T is float64; expected complex128"),
            (
                {"dh": np.full((5, 2, 4), complex(1, np.inf))},
                "NotFiniteError: dh has an entry that is not finite",
            ),
        ],
        COMPLEX,
        OF_COMPLEX,
        COMPLEX.forward(*OF_COMPLEX, X)[1],
    ),
    # and its backward, its updates, its buffers
    *of_backward(
        [
            ({"tape": None}, "TypeError: tape is None; expected what forward returned"),
            ({"dh": DH[:, :, :3]}, "ValueError: dh has shape (5, 2, 3); expected (5, 2, 4)"),
            ({"dh": DH[0]}, "ValueError: dh has shape (2, 4); expected (5, 2, 4)"),
            ({"dh": DH[1:]}, "ValueError: dh has shape (4, 2, 4); expected (5, 2, 4)"),
            ({"dh": DH * np.inf}, "NotFiniteError: dh has an entry that is not finite"),
            ({"dh_T": H0[0]}, "ValueError: dh_T has shape (4,); expected (2, 4)"),
            ({"dh": DH.view(Foreign)}, TWO_LIBRARIES),
        ]
    ),
    (
        lambda: LAYER.backward(*DRAWN, LSTM.forward(*OF_LSTM, X)[1], DH),
        "ValueError: tape is of LSTM() with n = 4; this is GRUResetBefore(activation='modrelu')",
    ),
    (lambda: LAYER.rebuild(without(PARAMS, "U_c.A"), BUFFERS), "ValueError: U_c holds no A; expected all"),
    (lambda: LAYER.rebuild(PARAMS, {}), NO_BUFFER),
    (lambda: LAYER.rebuild(None, BUFFERS), "TypeError: params is None; expected a dict, as init gives it"),
    (lambda: LAYER.weights(PARAMS, {}), NO_BUFFER),
    (
        lambda: LAYER.weights(PARAMS, BUFFERS | {"U_r": BUFFERS["U_c"]}),
        "ValueError: buffers holds 'U_r'; allowed: U_c",
    ),
    (lambda: LAYER.health({}), NO_BUFFER),
    (lambda: LAYER.health({"U_c": without(BUFFERS["U_c"], "P")}), f"ValueError: U_c holds no P; {ALL}"),
    (lambda: LAYER.count({}), "ValueError: params holds no input weight W (n, m)"),
    (lambda: LAYER.retract(PARAMS, {}, PARAMS), NO_BUFFER),
    *(
        (
            lambda name=name: LAYER.retract(PARAMS, {"U_c": without(BUFFERS["U_c"], name)}, PARAMS),
            f"ValueError: U_c holds no {name}; {ALL}",
        )
        for name in ("A_tilde", "D")
    ),
    *(
        (lambda deltas=deltas: LAYER.retract(*DRAWN, deltas), message)
        for deltas, message in (
            (None, "TypeError: deltas is None; expected a dict"),
            ({}, "ValueError: deltas holds no W_r, no U_r, no b_r, "),
            (without(PARAMS, "W_r"), "ValueError: deltas holds no W_r; expected one for each parameter"),
            (PARAMS | {"U_c": X}, "ValueError: deltas holds 'U_c' (did you mean 'U_c.A'?); expected one for each"),
            (PARAMS | {"b_r": np.ones(2)}, "ValueError: delta of b_r has shape (2,)"),
        )
    ),
    (
        lambda: LAYER.retract(PARAMS | {"U_c.B": X}, BUFFERS, PARAMS | {"U_c.B": X}),
        "ValueError: params holds 'U_c.B'; expected what init gives alone",
    ),
    # a network's
    *(
        (lambda params=params: NETWORK.loss_and_gradients(params, WHOLE[1], X, Y), message)
        for params, message in (
            (without(WHOLE[0], "layer1.b_r"), f"ValueError: params holds no layer1.b_r; {ALL}"),
            (without(WHOLE[0], "readout.W"), f"ValueError: params holds no readout.W; {ALL}"),
            ([], "TypeError: params is a list; expected a dict, as init gives it"),
            (WHOLE[0] | {"readout.b": np.ones(1)}, "ValueError: readout.b has shape (1,); expected (2,)"),
            (WHOLE[0] | {"readout.W": np.ones((2, 4), "f4")}, "TypeError: readout.W is float32; expected float64"),
            (WHOLE[0] | {"layer0.W_r": np.ones((4, 3), "f4")}, "TypeError: layer0: W_r is float32; expected float64"),
            (WHOLE[0] | {"readout.c": X}, "ValueError: params holds 'readout.c' (did you mean 'readout."),
            (WHOLE[0] | {"layer2.W_r": X}, "ValueError: params holds 'layer2.W_r'; expected what init gives alone"),
        )
    ),
    *(
        (lambda own=own: NETWORK.loss_and_gradients(*WHOLE, X, **{"y": Y} | own), message)
        for own, message in (
            ({"y": Y.tolist()}, "TypeError: y is a list; expected an array"),
            ({"y": None}, "TypeError: y is None; expected an array"),
            ({"mask": [[True] * 2] * 5}, "TypeError: mask is a list; expected an array"),
        )
    ),
    *(
        (call, NO_LAYERS_BUFFER)
        for call in (
            lambda: NETWORK.forward(WHOLE[0], without(WHOLE[1], "layer1.U_c"), X),
            lambda: NETWORK.rebuild(WHOLE[0], without(WHOLE[1], "layer1.U_c")),
            lambda: NETWORK.retract(WHOLE[0], without(WHOLE[1], "layer1.U_c"), WHOLE[0]),
            lambda: NETWORK.health(without(WHOLE[1], "layer1.U_c")),
        )
    ),
    (
        lambda: NETWORK.rebuild(without(WHOLE[0], "layer0.U_c.A"), WHOLE[1]),
        f"ValueError: params holds no layer0.U_c.*; {ALL}",
    ),
    (lambda: NETWORK.backward(*WHOLE, None, X), "TypeError: tape is None; expected that of what forward"),
    *(
        (
            lambda other=other: NETWORK.backward(*WHOLE, tape_of(other), np.ones((5, 2, 2))),
            "ValueError: tape is another network's; expected that of what this one's forward returned",
        )
        for other in (
            replace(NETWORK, layers=(NETWORK.layers[0],)),
            replace(NETWORK, layers=(NETWORK.layers[0], models.nc_gru(4, 5))),
            replace(NETWORK, layers=(NETWORK.layers[0], models.gru(4, 4))),
            replace(NETWORK, layers=(NETWORK.layers[0], replace(NETWORK.layers[1], engine="scan"))),
            replace(NETWORK, readout="last"),
            models.network("nc-gru", 3, [4, 4], 2, embedding=3),
        )
    ),
    (lambda: NETWORK.forward(*WHOLE, X, rng=0), "TypeError: rng is 0, a seed; allowed: a numpy.random.Generator, as"),
    (lambda: replace(NETWORK, regularizers={"words": 0.1}), "TypeError: regularizers is a dict; allowed: Regularizers"),
    (lambda: replace(NETWORK, tied="false"), "ValueError: tied is 'false'; allowed: True, False"),
    (
        lambda: Regularizers(weights=0.1, weights_of="U_r"),
        "ValueError: weights_of is 'U_r'; allowed: a tuple of",
    ),
    (lambda: Regularizers(alpha=True), "ValueError: alpha is True; allowed: a finite number >= 0"),
    (lambda: SGD(True), "ValueError: learning_rate is True; allowed: a finite number >= 0"),
    (lambda: RMSprop(epsilon_inside="no"), "ValueError: epsilon_inside is 'no'; allowed: True, False"),
    (lambda: replace(LAYER, trained_h0="false"), "ValueError: trained_h0 is 'false'; allowed: True, False"),
    *(
        (lambda own=own: NETWORK.backward(*WHOLE, NETWORKS_TAPE, own), message)
        for own, message in (
            (np.ones((2, 5, 2)), "ValueError: doutputs has shape (2, 5, 2); expected (5, 2, 2)"),
            (np.ones((5, 2, 2), np.float32), "TypeError: doutputs is float32; expected float64"),
            (None, "TypeError: doutputs is None; expected an array of shape (5, 2, 2)"),
        )
    ),
    *(
        (lambda deltas=deltas: NETWORK.retract(*WHOLE, deltas), message)
        for deltas, message in (
            (without(WHOLE[0], "readout.b"), "ValueError: deltas holds no readout.b; expected one for each parameter"),
            (without(WHOLE[0], "layer1.W_r"), "ValueError: deltas holds no layer1.W_r; expected one for each"),
            (WHOLE[0] | {"readout.bb": X}, "ValueError: deltas holds 'readout.bb' (did you mean 'readout.b'?); expec"),
            (WHOLE[0] | {"readout.b": np.ones(1)}, "ValueError: delta of readout.b has shape (1,); expected (2,)"),
            (WHOLE[0] | {"readout.b": np.ones(2, "f4")}, "TypeError: delta of readout.b is float32; expected float64"),
        )
    ),
    # an engine's
    (lambda: fused.forward(LAYER, {}, X), "TypeError: cell is a Recurrent; allowed: a cell, as cells.by_name('gru_"),
    *(
        (call, "ValueError: weights holds no U_r; the weights are W_r, U_r, b_r, W_u, ")
        for run in (scan, fused)
        for call in (
            lambda run=run: run.forward(LAYER.cell, without(OF_CELL, "U_r"), X),
            lambda run=run: run.backward(LAYER.cell, without(OF_CELL, "U_r"), None, X),
        )
    ),
    (lambda: fused.forward(LAYER.cell, None, X), "TypeError: weights is None; expected a dict, as the cell's init"),
    # files and names
    (lambda: checkpoint.save("x.safetensors", DRAWN), "TypeError: tree is a tuple; allowed: a dict, as {'params': "),
    (
        lambda: converters.by_name("pytorch").to_framework("rnn", {"W": X, "U": X}),
        "ValueError: weights: the arrays hold no b; expected W, U, b",
    ),
    (
        lambda: models.build("ncgru", 3, 4),
        "ValueError: model is 'ncgru' (did you mean 'nc-gru'?); allowed: rnn, ",
    ),
    (lambda: models.build("NC-GRU", 3, 4), "ValueError: model is 'NC-GRU' (did you mean 'nc-gru'?); allowed: rnn, "),
    (lambda: models.build(3, 3, 4), "ValueError: model is 3; allowed: rnn, "),
    (lambda: models.describe(LAYER), "ValueError: model is Recurrent("),
    (
        lambda: models.nc_gru(3, 4, negative_one=1),
        "TypeError: nc-gru has no option 'negative_one' (did you mean 'negative_ones'?); allowed: orthogonal, ",
    ),
    (
        lambda: models.build("nc-gru", 3, 4, parametrize="U_c=householder:2"),
        "TypeError: parametrize is 'U_c=householder:2'; allowed: a dict by the weights' names, as {'U_c': 'hous",
    ),
    (lambda: cells.by_name("lstmm"), f"ValueError: cell is 'lstmm' (did you mean 'lstm'?); {LISTED}"),
    (
        lambda: parametrizations.by_name("housholder:2", 4),
        "ValueError: parametrization is 'housholder:2' (did you mean 'householder'?); allowed: free, ",
    ),
    (lambda: parametrizations.by_name(3, 4), "ValueError: parametrization is 3; allowed: free, "),
    (lambda: parametrizations.by_name([3], 4), "ValueError: parametrization is [3]; allowed: free, "),
    (
        lambda: parametrizations.Householder(-(10**5000)),
        "ValueError: reflections is an integer of 16,610 bits; allowed: an integer from 1 to n",
    ),
    (lambda: converters.by_name("torhc"), "ValueError: framework is 'torhc' (did you mean 'pytorch'?); allowed: "),
    (lambda: converters.config_of("lstmm"), "ValueError: cell is 'lstmm' (did you mean 'lstm'?); allowed: elman, "),
    (lambda: converters.config_of(["lstm"]), "ValueError: cell is ['lstm']; allowed: elman, "),
    (lambda: cells.by_name(["lstm"]), "ValueError: cell is ['lstm']; allowed: 'elman', "),
    (lambda: Recurrent(LAYER.cell, engine="fusd"), "ValueError: engine is 'fusd' (did you mean 'fused'?); allowed: "),
    (lambda: Network((LAYER,), 2, "evry"), "ValueError: readout is 'evry' (did you mean 'every'?); allowed: 'every', "),
    (lambda: Network((LAYER,), 2, loss=["mean"]), "ValueError: loss is ['mean']; allowed: 'cross_entropy', "),
    (lambda: NETWORK.forward(*WHOLE, X, True), "TypeError: h0 is True; allowed: a list with a state for each layer"),
    (
        lambda: Network((LAYER,), 2, loss="cross_entrop"),
        "ValueError: loss is 'cross_entrop' (did you mean 'cross_entropy'?); allowed: 'cross_entropy', ",
    ),
    (
        lambda: check(None, "cell/gru_rest_after"),
        "ValueError: only is 'cell/gru_rest_after' (did you mean 'cell/gru_reset_after'?), which fits no case; ",
    ),
    (lambda: check(None, "cell/lstm"), "TypeError: run is None; allowed: a function run(case), which gives a dict"),
    (lambda: check("cell/lstm", np.tanh), "TypeError: only is a ufunc; allowed: a pattern, as 'cell/gru*', or a list"),
    (lambda: ortho_ref.modls, "AttributeError: module 'ortho_ref' has no attribute 'modls' (did you mean 'models'?)"),
    (lambda: models.by_name, "AttributeError: module 'ortho_ref.models' has no attribute 'by_name'"),
    (lambda: citations.cite(3), "TypeError: model is an int; allowed: a layer, a network, a cell, a parametrization"),
    (lambda: citations.cite("ncgru"), "ValueError: model is 'ncgru' (did you mean 'nc-gru'?); allowed: rnn, "),
]


@pytest.mark.parametrize(("call", "message"), ERRORS)
def test_an_error_is_one_line(call, message):
    """It names the argument, what was given and what is allowed."""
    with pytest.raises((TypeError, ValueError, AttributeError)) as caught:
        call()
    said = f"{caught.type.__name__}: {caught.value}"
    assert said.startswith(message)
    assert "\n" not in said


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
    every = [message.partition(": ")[2] for _, message in ERRORS]
    for line in block.splitlines():
        said = line.removesuffix("...").replace("layer0.b_r", "layer1.b_r")
        assert any(said.startswith(message) or message.startswith(said) for message in every), line


@pytest.mark.parametrize("owner", [LAYER, NETWORK, Embedding(3, 2), *cells.CELLS.values(), *PARAMETRIZATIONS.values()])
def test_init_takes_the_same_everywhere(owner):
    """A generator first, and a dtype by its name alone, so that a size or a seed cannot be taken for one."""
    parameters = list(inspect.signature(owner.init).parameters.values())
    first = parameters[1 if inspect.isclass(owner) else 0]
    assert (first.name, parameters[-1].name) == ("rng", "dtype")
    assert parameters[-1].kind is inspect.Parameter.KEYWORD_ONLY
    if not inspect.isclass(owner):
        assert parameters[-1].default is np.float32
        drawn = owner.init(rng(), dtype=np.float64)
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
    own = type("Coupled", (cells.LSTM,), {"__module__": "mine.lstm"})()  # in a file that is called as one of ours
    assert citations.papers_of(own) == ()
    with pytest.raises(ValueError, match=r"'mine\.lstm:Coupled'; allowed: "):
        converters.config_of(converters.config.config_of_cell(own))
    assert set(citations.PAPERS) == {k for n in models.names() for k in citations.papers_of(n)} | {"awd-lstm"}


def test_bibtex_is_whole():
    """Every entry has a key of its own, title, author and year, and its braces close."""
    keys = [re.match(r"@\w+\{(\w+),\n", entry)[1] for entry in citations.PAPERS.values()]
    assert len(set(keys)) == len(keys)
    for entry in citations.PAPERS.values():
        assert {"title", "author", "year"} <= set(re.findall(r"^  (\w+) +=", entry, re.MULTILINE))
        assert entry.count("{") == entry.count("}")
