"""The converters against the frameworks' own equations, written out here on their own layouts."""

import sys

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ortho_ref import converters, models, scan
from ortho_ref.activations import sigmoid
from ortho_ref.cells import CELLS
from ortho_ref.converters.config import cell_of
from ortho_ref.trees import by_path, nested

PHI = {"tanh": np.tanh, "relu": lambda a: np.maximum(a, 0)}


def configs(framework):
    """Everything that a framework has."""
    both = ("tanh", "relu")
    for activation in both if framework not in ("equinox", "haste", "nnx-by-gate") else ():
        yield {"cell": "elman", "activation": activation, "complex": False}
    yield {"cell": "lstm"}
    if framework == "nnx-by-gate":
        return
    for activation in both if framework not in ("pytorch", "equinox", "mlx", "haste") else ("tanh",):
        for recurrent_bias in (False, True) if framework != "nnx" else (False,):
            on = {"reset_gate": True, "update_gate": True, "recurrent_bias": recurrent_bias}
            yield {"cell": "gru_reset_after", "activation": activation, **on}
        if framework in ("onnx", "keras"):
            yield {"cell": "gru_reset_before", "activation": activation}


FRAMEWORKS = tuple(converters.FRAMEWORKS)
TREES = ("flax", "nnx", "nnx-by-gate")
PAIRS = [(framework, config) for framework in FRAMEWORKS for config in configs(framework)]
EVERY = pytest.mark.parametrize(
    ("framework", "config"), PAIRS, ids=[" ".join(map(str, [f, *c.values()])) for f, c in PAIRS]
)
SIZES = {"seed": st.integers(0, 2**32 - 1), "m": st.integers(1, 5), "n": st.integers(1, 6)}


def of(framework):
    """from_framework, to_framework and gradients_from of a framework."""
    own = converters.by_name(framework)
    return own.from_framework, own.to_framework, own.gradients_from


def draw(config, rng, m, n, dtype=np.float64):
    """Our weights, all of them random."""
    return {k: rng.standard_normal(s).astype(dtype) for k, s in cell_of(config).shapes(m, n).items()}


def like(arrays, value):
    """The same names, nested alike, with value(array) for every array."""
    return {k: like(a, value) if isinstance(a, dict) else value(a) for k, a in arrays.items()}


# One step of each framework as its documentation has it, on its own arrays: products of input and state by gate, each
# with its bias, in the order of the documentation's names.


# Of LSTMs and GRUs the gates in the order of the documentation, and where W, U and the biases stand: stacked by rows
# (R), by columns (C), each gate by itself (T, a tree), or with a first axis of directions (D).
LAYOUTS = {
    "pytorch": ("ifgo", "rzn", "R", "weight_ih_l0", "weight_hh_l0"),
    "onnx": ("iofg", "zrn", "D", "W", "R"),
    "keras": ("ifgo", "zrn", "C", "kernel", "recurrent_kernel"),
    "flax": ("ifgo", "rzn", "T", "i{}", "h{}"),
    "nnx": ("ifgo", "rzn", "C", "dense_i/kernel", "dense_h/kernel"),
    "nnx-by-gate": ("ifgo", "", "T", "i{}", "h{}"),
    "equinox": ("ifgo", "rzn", "R", "weight_ih", "weight_hh"),
    "mlx": ("ifgo", "rzn", "R", "Wx", "Wh"),
    "haste": ("igfo", "zrn", "C", "kernel", "recurrent_kernel"),
}
ELMAN = {"mlx": ("Wxh", "Whh")}


def parts_of(framework, config, w):
    """W, U, b, b_hh by gate, and the gates."""
    lstm, gru, how, *matrices = LAYOUTS[framework]
    gates = {"elman": "h", "lstm": lstm}.get(config["cell"], gru)
    w, k = by_path(w), len(gates)
    if how == "T":
        names = [{"h": "", "f": "f_" if framework == "nnx-by-gate" else "f"}.get(g, g) for g in gates]
        hidden = [name.rstrip("_") for name in names]
        W, U = [w[f"i{g}/kernel"].T for g in names], [w[f"h{g}/kernel"].T for g in hidden]
        zero = np.zeros(len(U[0]))
        b, b_hh = ([w.get(f"{side}{g}/bias", zero) for g in own] for side, own in (("i", names), ("h", hidden)))
        return W, U, b, b_hh, gates
    matrices = ELMAN.get(framework, matrices) if gates == "h" else matrices
    each = [w[name][0] if how == "D" else w[name] for name in matrices]
    W, U = ([p.T if how == "C" else p for p in np.split(a, k, axis=int(how == "C"))] for a in each)
    zero = np.zeros(len(U[0]))
    if framework == "pytorch":
        b, b_hh = np.split(w["bias_ih_l0"], k), np.split(w["bias_hh_l0"], k)
    elif framework == "onnx":
        both = np.split(w["B"][0], 2 * k)
        b, b_hh = both[:k], both[k:]
    elif (framework == "keras" and w["bias"].ndim == 2) or (framework == "haste" and "recurrent_bias" in w):
        b, b_hh = w["bias"] if framework == "keras" else (w["bias"], w["recurrent_bias"])
        b, b_hh = np.split(b, k), np.split(b_hh, k)
    else:
        name = "b" if framework == "mlx" and gates == "rzn" else "bias"
        name = f"dense_{'h' if gates == 'ifgo' else 'i'}/bias" if framework == "nnx" else name
        b, b_hh = np.split(w[name], k), [zero] * k
        b_hh = [zero, zero, w.get("bias_n", w.get("bhn", zero))] if gates == "rzn" else b_hh
    return W, U, b, b_hh, gates


def framework_states(framework, config, w, x, start):
    """h (T+1, B, n), of LSTM the pair (h, c), by the framework's equations on its own arrays."""
    W, U, b, b_hh, names = parts_of(framework, config, w)
    phi = PHI[config.get("activation", "tanh")]
    history = [start]
    for x_t in x:
        h = history[-1][0] if config["cell"] == "lstm" else history[-1]
        i = {g: x_t @ W[k].T + b[k] for k, g in enumerate(names)}
        r = {g: h @ U[k].T + b_hh[k] for k, g in enumerate(names)}
        if config["cell"] == "elman":
            history.append(phi(i["h"] + r["h"]))
        elif config["cell"] == "lstm":
            gate = {g: sigmoid(i[g] + r[g]) for g in "ifo"}
            c = gate["f"] * history[-1][1] + gate["i"] * np.tanh(i["g"] + r["g"])
            history.append((gate["o"] * np.tanh(c), c))
        else:
            reset, z = sigmoid(i["r"] + r["r"]), sigmoid(i["z"] + r["z"])
            k = names.index("n")
            inner = reset * r["n"] if config["cell"] == "gru_reset_after" else (reset * h) @ U[k].T + b_hh[k]
            history.append((1 - z) * phi(i["n"] + inner) + z * h)
    return np.stack(history) if config["cell"] != "lstm" else tuple(np.stack(s) for s in zip(*history, strict=True))


def start_and_x(config, rng, m, n, T=3, B=2):
    """A random initial state and x (T, B, m)."""
    h0, c0 = rng.standard_normal((2, B, n))
    return (h0, c0) if config["cell"] == "lstm" else h0, rng.standard_normal((T, B, m))


@EVERY
@settings(max_examples=4)
@given(**SIZES)
def test_weights_run_on_both_sides(framework, config, seed, m, n):
    """to_framework: the framework's equations on what it gives are our cell; from_framework undoes it to the bit.

    With all of the framework's arrays random, both biases too, our cell is the framework's. gradients_from is the
    transpose of the linear map to_framework: <g, to(w)> = <gradients_from(g), w>.
    """
    from_, to, gradients_from = of(framework)
    rng = np.random.default_rng(seed)
    weights = draw(config, rng, m, n)
    start, x = start_and_x(config, rng, m, n)
    arrays = to(config, weights)
    back = from_(config, arrays)
    assert {k: a.tolist() for k, a in back.items()} == {k: a.tolist() for k, a in weights.items()}
    g = like(arrays, lambda a: rng.standard_normal(a.shape))
    left = sum((by_path(g)[k] * a).sum() for k, a in by_path(arrays).items())
    ours = gradients_from(config, g)
    assert ours.keys() == weights.keys()
    assert left == pytest.approx(sum((ours[k] * a).sum() for k, a in weights.items()), abs=1e-11)
    both = config | {"recurrent_bias": True} if "recurrent_bias" in config and framework != "nnx" else config
    theirs = like(to(both, draw(both, rng, m, n)), lambda a: rng.standard_normal(a.shape))
    for own, w, given_ in ((config, weights, arrays), (both, from_(both, theirs), theirs)):
        states, _ = scan.forward(cell_of(own), w, x, start)
        np.testing.assert_allclose(framework_states(framework, own, given_, x, start), states, rtol=0, atol=1e-13)


@EVERY
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_pure(framework, config, dtype):
    """Precision kept; fresh, contiguous arrays that share no memory with the given ones, which stay as they are."""
    from_, to, gradients_from = of(framework)
    weights = draw(config, np.random.default_rng(0), 3, 4, dtype)
    before = {k: a.copy() for k, a in weights.items()}
    arrays = to(config, weights)
    given = {k: a.copy() for k, a in by_path(arrays).items()}
    results = [arrays, from_(config, arrays), gradients_from(config, arrays)]
    for a in [a for result in results for a in by_path(result).values()]:
        assert a.dtype == dtype
        assert a.flags.c_contiguous
        assert a.flags.owndata
        a += 1
    for k, a in before.items():
        assert (weights[k] == a).all()
    assert all((by_path(arrays)[k] == a + 1).all() for k, a in given.items())


NOBODYS = [
    {"cell": "fastrnn", "activation": "tanh", "constraint": None},
    {"cell": "no such"},
    {},
    {"cell": "elman", "activation": "modrelu", "complex": False},
    {"cell": "elman", "activation": "tanh", "complex": True},
    {"cell": "gru_reset_after", "reset_gate": False},
    {"cell": "gru_reset_after", "update_gate": False},
    {"cell": "gru_reset_after", "activation": "modrelu"},
    {"cell": "gru_reset_before", "activation": "modrelu"},
]
LACKS = [
    ("pytorch", {"cell": "gru_reset_before"}, "PyTorch has: elman, lstm, gru_reset_after"),
    ("flax", {"cell": "gru_reset_before"}, "Flax has: elman, lstm, gru_reset_after"),
    ("pytorch", {"cell": "gru_reset_after", "activation": "relu"}, "activation is 'relu'; PyTorch has"),
    ("equinox", {"cell": "elman"}, "Equinox has: lstm, gru_reset_after"),
    ("nnx", {"cell": "gru_reset_after", "recurrent_bias": True}, "recurrent_bias is True; Flax nnx has"),
    *((framework, config, ".") for framework in FRAMEWORKS for config in NOBODYS),
]


@pytest.mark.parametrize(("framework", "config", "message"), LACKS)
def test_what_a_framework_lacks(framework, config, message):
    """UnsupportedError, both ways, before anything is looked at; it says what there is."""
    for function in of(framework):
        with pytest.raises(converters.UnsupportedError, match=message):
            function(config, {})


@pytest.mark.parametrize("framework", [own for own in FRAMEWORKS if own != "nnx-by-gate"])  # which has no GRU
def test_an_option_that_is_misspelt(framework):
    """It is not left out, both ways, and the error has the right one; what a layer has besides its cell is let be."""
    message = r"^gru_reset_after has no option 'recurent_bias' \(did you mean 'recurrent_bias'\?\); allowed: "
    for function in of(framework):
        with pytest.raises(TypeError, match=message):
            function({"cell": "gru_reset_after", "recurent_bias": True}, {})
        with pytest.raises(ValueError, match="the arrays hold no "):
            function({"cell": "gru_reset_after", "bias": True, "bidirectional": False, "layers": 1}, {})


@EVERY
def test_errors_name_what_is_wrong(framework, config):
    """A name missing or unknown; a shape; a dtype; of the framework's arrays and of ours."""
    from_, to, gradients_from = of(framework)
    weights = draw(config, np.random.default_rng(0), 3, 4)
    arrays = to(config, weights)
    theirs = nested if framework in TREES else dict
    for source, functions, prepare in ((by_path(arrays), (from_, gradients_from), theirs), (weights, (to,), dict)):
        for function in functions:
            for name, a in source.items():
                with pytest.raises(ValueError, match=f"the arrays hold no {name}; expected "):
                    function(config, prepare({k: v for k, v in source.items() if k != name}))
                for wrong in (a[None], np.zeros([s + 1 for s in a.shape]), np.array(0.0)):
                    with pytest.raises(ValueError, match=r"has shape \(.*\); expected \("):
                        function(config, prepare(source | {name: wrong}))
                with pytest.raises(ValueError, match=f"{name} is int64; expected a floating-point"):
                    function(config, prepare(source | {name: a.astype(int)}))
            other = "x/y" if prepare is nested else "weight_ih_l1"
            with pytest.raises(ValueError, match=f"the arrays hold '{other}'( \\(did you mean .*\\))?; expected "):
                function(config, prepare(source | {other: np.zeros(1)}))


@pytest.mark.parametrize("framework", [name for name in FRAMEWORKS if not name.startswith("nnx")])
def test_a_recurrent_bias_that_we_do_not_have(framework):
    """from_framework refuses one of the candidate that is not 0; one of a gate is added."""
    from_, to, _ = of(framework)
    config = {"cell": "gru_reset_after", "recurrent_bias": True}
    arrays = to(config, draw(config, np.random.default_rng(0), 3, 4))
    with pytest.raises(ValueError, match="recurrent bias is not 0; allowed: recurrent_bias true"):
        from_(config | {"recurrent_bias": False}, arrays)


def test_flax_needs_a_tree():
    """Two levels deep; options left out have the cell's defaults: no activation is tanh, no recurrent_bias is none."""
    with pytest.raises(ValueError, match="Flax: i is ndarray; expected a dict"):
        converters.by_name("flax").from_framework({"cell": "elman"}, {"i": np.zeros((3, 4))})
    weights = draw({"cell": "gru_reset_after"}, np.random.default_rng(0), 3, 4)
    keras = converters.by_name("keras").to_framework({"cell": "gru_reset_after"}, weights)
    assert keras["bias"].shape == (2, 12)


def test_values_by_hand():
    """ONNX's GRU, reset before, n = m = 1: the update gate first, its sign changed; Keras's in one row."""
    config = {"cell": "gru_reset_before", "activation": "tanh"}
    names = ["W_r", "U_r", "b_r", "W_u", "U_u", "b_u", "W_c", "U_c", "b_c"]
    weights = {k: np.full((1, 1) if k[0] != "b" else 1, float(v)) for v, k in enumerate(names, 1)}
    onnx = converters.by_name("onnx").to_framework(config, weights)
    assert onnx["W"].tolist() == [[[-4], [1], [7]]]
    assert onnx["R"].tolist() == [[[-5], [2], [8]]]
    assert onnx["B"].tolist() == [[-6, 3, 9, 0, 0, 0]]
    keras = converters.by_name("keras").to_framework(config, weights)
    assert {k: a.tolist() for k, a in keras.items()} == {
        "kernel": [[-4, 1, 7]],
        "recurrent_kernel": [[-5, 2, 8]],
        "bias": [-6, 3, 9],
    }


def test_models_by_name():
    """A model's name stands for its cell, a cell's for its defaults; every option is there."""
    after = {"cell": "gru_reset_after", "activation": "tanh", "reset_gate": True, "update_gate": True}
    assert converters.config_of("gru-cudnn") == after | {"recurrent_bias": True}
    assert converters.config_of("gru_reset_after") == after | {"recurrent_bias": False}
    assert converters.config_of({"cell": "elman"}) == {"cell": "elman", "activation": "tanh", "complex": False}
    for name in models.names():
        assert converters.config_of(name)["cell"] in CELLS
    weights = draw({"cell": "gru_reset_after", "recurrent_bias": True}, np.random.default_rng(0), 3, 4)
    pytorch = converters.by_name("pytorch")
    arrays = pytorch.to_framework("gru-cudnn", weights)
    assert (pytorch.from_framework("gru-cudnn", arrays)["b_hh"] == weights["b_hh"]).all()
    assert (pytorch.gradients_from("gru-cudnn", arrays)["W_r"] == weights["W_r"]).all()
    with pytest.raises(ValueError, match=r"cell is 'gru-torch' .*; allowed: elman, .*, gru-cudnn"):
        pytorch.to_framework("gru-torch", weights)


def test_a_network_goes_to_pytorch_s_names_and_back():
    """Two layers; and one alone."""
    network = models.network("lstm", 3, [4, 4], 2)
    params, buffers = network.init(np.random.default_rng(0), dtype=np.float64)
    state = converters.to_torch(network, params, buffers)
    assert [name for name in state if name.startswith("weight")] == [
        f"weight_{side}_l{k}" for k in (0, 1) for side in ("ih", "hh")
    ]
    assert state["weight_ih_l1"].shape == (16, 4)
    back, buffers = converters.from_torch(network, state)
    assert buffers == {}
    assert back.keys() == {name for name in params if name.startswith("layer")}
    assert all((params[name] == a).all() for name, a in back.items())
    alone = models.lstm(3, 4)
    own = {name.removeprefix("layer0."): a for name, a in params.items() if name.startswith("layer0.")}
    assert converters.from_torch(alone, converters.to_torch(alone, own))[0].keys() == own.keys()


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (models.network("lstm", 3, [4, 5], 2), r"hidden sizes \[4, 5\]; allowed: one"),
        (models.network("gru", 3, [4], 2), "cell is 'gru_reset_before'; PyTorch has"),
        (models.ornn(3, 4, activation="tanh"), "h0 is trained; allowed: none, .* or names='ours'"),
    ],
    ids=["sizes", "cell", "trained h0"],
)
def test_networks_that_pytorch_does_not_have(network, message):
    """And which they are."""
    params, buffers = network.init(np.random.default_rng(0), dtype=np.float64)
    with pytest.raises(ValueError, match=message):
        converters.to_torch(network, params, buffers, names="pytorch")
    state = converters.to_torch(network, params, buffers, names="ours")
    assert all((state[name] == a).all() for name, a in params.items() if name in state)


def test_states_that_do_not_fit_a_network():
    """Other layers, names, shapes."""
    network = models.network("rnn", 3, [4, 4], 2)
    state = converters.to_torch(network, *network.init(np.random.default_rng(0), dtype=np.float64))
    first = {name: a for name, a in state.items() if name.endswith("l0")}
    with pytest.raises(ValueError, match="state has layer0; the network has 2 layers in one direction"):
        converters.from_torch(network, first)
    with pytest.raises(ValueError, match="the state has layer1; expected layer0, layer1"):
        converters.from_torch(network, {name: a for name, a in state.items() if name.endswith("l1")})
    with pytest.raises(ValueError, match="the state has layer0, layer0_reverse, layer1; expected"):
        converters.from_torch(network, state | {"weight_ih_l0_reverse": np.zeros((4, 3))})
    with pytest.raises(ValueError, match="state has layer0, layer0_reverse, layer1, layer1_reverse; the network has 2"):
        converters.from_torch(network, state | {f"{name}_reverse": a for name, a in state.items()})
    with pytest.raises(ValueError, match="unknown 'weight_hr_l0'; expected weight_ih_l0"):
        converters.from_torch(network, state | {"weight_hr_l0": np.zeros((4, 3))})
    with pytest.raises(ValueError, match=r"layer0.W would have shape \(4, 3\); the layer has \(4, 5\)"):
        converters.from_torch(models.network("rnn", 5, [4, 4], 2), state)


def drawn(network):
    """Parameters that have moved from where they begin, maps' too, float64."""
    rng = np.random.default_rng(0)
    params, buffers = network.init(rng, dtype=np.float64)
    deltas = {name: 0.05 * rng.standard_normal(a.shape) for name, a in params.items()}
    deltas |= {name: a - a.T for name, a in deltas.items() if name.endswith(".A")}
    deltas |= {name: np.tril(a) for name, a in deltas.items() if name.endswith(".V")}
    return network.retract(params, buffers, {name: d.astype(params[name].dtype) for name, d in deltas.items()})


#: Whose maps have no way back: layers of rotations, fewer than give every matrix.
ONE_WAY = {"vprnn", "sgornn", "urnn", "eurnn"}


@pytest.mark.parametrize("name", models.names())
def test_every_model_goes_to_pytorch_and_back(name):
    """To the bit where the network's own parameters are given, all that buffers carry too; by the map where not."""
    network = models.network(name, 3, [4, 4], 2)
    params, buffers = drawn(network)
    state = converters.to_torch(network, params, buffers, prefix="rnn", readout="head")
    assert {key.partition(".")[0] for key in state} == {"rnn", "head"}
    where = {"prefix": "rnn", "readout": "head"}
    back, own = converters.from_torch(network, state, params, buffers, **where)
    assert list(back) == list(params)
    assert own.keys() == buffers.keys()
    for key, a in params.items():
        assert (back[key] == a).all()
        assert back[key] is not a
    for key, kept in buffers.items():
        assert own[key].keys() == kept.keys()
        assert all(np.array_equal(own[key][inner], value) for inner, value in kept.items())

    if name in ONE_WAY:
        with pytest.raises(ValueError, match=r"^layer0\.U: (kept|capacity) is .*; allowed: "):
            converters.from_torch(network, state, **where)
        return
    buffers = network.rebuild(params, buffers)  # Neumann's series leaves U a little off the orthogonal matrices
    state = converters.to_torch(network, params, buffers, **where)
    again, found = converters.from_torch(network, state, **where)
    assert again.keys() == params.keys()
    for key in found:
        assert abs(found[key]["U"] - buffers[key]["U"]).max() < 1e-12
    x = np.random.default_rng(1).standard_normal((5, 2, 3))
    expected = network.forward(params, buffers, x).outputs
    np.testing.assert_allclose(network.forward(again, found, x).outputs, expected, rtol=0, atol=1e-12)
    network.retract(again, found, {key: 0 * a for key, a in again.items()})  # training goes on


def test_a_map_of_a_state():
    """D stays; a U that it does not reach, or that is none, is refused by name."""
    network = models.network("scornn", 3, [4], 2, negative_ones=1)
    params, buffers = drawn(network)
    state = converters.to_torch(network, params, buffers)
    D = np.array([-1.0, 1, 1, 1])
    had = {"layer0.U": buffers["layer0.U"] | {"D": D}}
    turned = {"layer0.U": state["layer0.U"] * buffers["layer0.U"]["D"] * D}
    _, own = converters.from_torch(network, state | turned, params, had)
    assert (own["layer0.U"]["D"] == D).all()
    alone, _ = converters.from_torch(network, state, buffers=buffers)
    np.testing.assert_allclose(alone["layer0.U.A"], params["layer0.U.A"], rtol=0, atol=1e-12)
    np.testing.assert_allclose(own["layer0.U"]["U"], turned["layer0.U"], rtol=0, atol=1e-12)
    for U, message in (
        (
            np.eye(4),
            r"U is not reached by ScaledCayley\(negative_ones=1\): .* eigenvalue -1, .*; allowed: no eigenvalue",
        ),
        (2 * np.eye(4), r"U is not orthogonal: .* is 3; allowed: at most 0\.01"),
    ):
        with pytest.raises(ValueError, match=r"^layer0\.U: " + message):
            converters.from_torch(network, state | {"layer0.U": U}, params, buffers)
    vprnn = models.vprnn(3, 4)
    params, buffers = drawn(vprnn)
    state = converters.to_torch(vprnn, params, buffers)
    assert (state["weight_hh_l0"] == buffers["U"]["U"]).all()
    with pytest.raises(ValueError, match=r"^U: kept is 'volume_preserving'; allowed: scaled_cayley, "):
        converters.from_torch(vprnn, state | {"weight_hh_l0": -state["weight_hh_l0"]}, params, buffers)


def test_readouts_and_embeddings_go_along():
    """Where they are said to be; a tied matrix once, and two that differ are refused."""
    network = models.network("nc-gru", 7, [4], 7, embedding=4, tied=True)
    params, buffers = drawn(network)
    where = {"readout": "head", "embedding": "words"}
    state = converters.to_torch(network, params, buffers, **where)
    assert (state["words.weight"] == params["embedding.E"]).all()
    assert (state["head.weight"] == params["embedding.E"]).all()
    assert converters.from_torch(network, state, **where)[0].keys() == params.keys()
    with pytest.raises(ValueError, match=r"^words\.weight is another matrix than that of the readout"):
        converters.from_torch(network, state | {"words.weight": 2 * state["words.weight"]}, **where)
    with pytest.raises(ValueError, match=r"^state holds no head\.bias; expected head\.weight, head\.bias, words"):
        converters.from_torch(network, {key: a for key, a in state.items() if key != "head.bias"}, **where)
    with pytest.raises(ValueError, match=r"^head\.bias has shape \(3,\); the network has \(7,\)"):
        converters.from_torch(network, state | {"head.bias": np.zeros(3)}, **where)
    for own, argument in ((models.gru(3, 4), "readout"), (models.network("gru", 3, [4], 2), "embedding")):
        with pytest.raises(ValueError, match=f"^{argument} is 'x'; allowed: None, as a .* here has none"):
            converters.to_torch(own, *own.init(np.random.default_rng(0)), **{argument: "x"})


def test_states_under_our_names_that_do_not_fit():
    """A name that is missing or unknown, a shape, an option of PyTorch's layers."""
    network = models.network("nc-gru", 3, [4, 4], 2)
    params, buffers = drawn(network)
    state = converters.to_torch(network, params, buffers)
    with pytest.raises(ValueError, match=r"^state holds no layer1\.W_r, no layer1\.U_r, .*; expected layer0\.W_r, "):
        converters.from_torch(network, {name: a for name, a in state.items() if not name.startswith("layer1")})
    with pytest.raises(ValueError, match=r"^state holds layer2\.W_r; expected layer0\.W_r, "):
        converters.from_torch(network, state | {"layer2.W_r": np.zeros((4, 4))})
    with pytest.raises(ValueError, match=r"^U_r has shape \(4, 3\); expected \(4, 4\)"):
        converters.from_torch(network, state | {"layer0.U_r": np.zeros((4, 3))})
    with pytest.raises(ValueError, match=r"^layer0\.W_r would have shape \(4, 3\); the layer has \(4, 5\)"):
        converters.from_torch(models.network("nc-gru", 5, [4, 4], 2), state)
    with pytest.raises(ValueError, match=r"^bias is False; allowed with names='ours': True"):
        converters.to_torch(network, params, buffers, bias=False)
    with pytest.raises(ValueError, match=r"^names is 'mine'; allowed: 'pytorch', 'ours'"):
        converters.to_torch(network, params, buffers, names="mine")


@EVERY
@settings(max_examples=2)
@given(**SIZES)
def test_modules_without_biases(framework, config, seed, m, n):
    """bias False: theirs come without, ours are 0 and need not be there; a bias that is not 0 is refused, both ways."""
    from_, to, gradients_from = of(framework)
    rng, without = np.random.default_rng(seed), config | {"bias": False}
    weights = {k: a * (k[0] != "b") for k, a in draw(config, rng, m, n).items()}
    whole = by_path(to(config, weights))
    given_ = by_path(to(without, {k: a for k, a in weights.items() if k[0] != "b"}))
    theirs = nested if framework in TREES else dict
    assert given_.keys() < whole.keys()
    assert all(a.any() for a in given_.values())
    back = from_(without, theirs(given_))
    assert {k: a.tolist() for k, a in back.items()} == {k: a.tolist() for k, a in weights.items()}
    assert gradients_from(without, theirs(given_)).keys() == {k for k in weights if k[0] != "b"}
    assert from_(without, theirs(whole)).keys() == weights.keys()
    some = next(k for k in whole if k not in given_)
    with pytest.raises(ValueError, match="is not 0; allowed with bias=False in the config: 0, or none"):
        from_(without, theirs(whole | {some: np.ones_like(whole[some])}))
    with pytest.raises(ValueError, match=r"is not 0; allowed with bias=False"):
        to(without, {k: np.ones_like(a) for k, a in weights.items()})
    with pytest.raises(ValueError, match="; without biases: bias=False in the config"):
        from_(config, theirs(given_))


def layers_of(config, rng, layers, ways, m, n):
    """Random weights of every layer and direction; further layers have as many inputs as the ways have units."""
    names = [f"layer{k}{way}" for k in range(layers) for way in ("", "_reverse")[:ways]]
    return {name: draw(config, rng, m if name.startswith("layer0") else ways * n, n) for name in names}


@pytest.mark.parametrize("config", [c for c in configs("pytorch") if c.get("recurrent_bias", True)], ids=str)
@settings(max_examples=8)
@given(layers=st.integers(1, 12), ways=st.integers(1, 2), step=st.booleans(), bias=st.booleans(), **SIZES)
def test_layers_directions_prefixes_cells(config, layers, ways, step, bias, seed, m, n):
    """There and back to the bit: named as PyTorch does, found in the module that it is in."""
    rng, prefix = np.random.default_rng(seed), ["", "rnn", "encoder.0.rnn"][seed % 3]
    layers, ways = (1, 1) if step else (layers, ways)
    given_ = layers_of(config, rng, layers, ways, m, n)
    if not bias:
        given_ = {name: {k: a * (k[0] != "b") for k, a in own.items()} for name, own in given_.items()}
    state = converters.layers_to_torch(config | {"bias": bias}, given_, prefix=prefix, step=step)
    dot = f"{prefix}." if prefix else ""
    ends = [""] if step else [f"_l{k}{way}" for k in range(layers) for way in ("", "_reverse")[:ways]]
    arrays = ["weight_ih", "weight_hh"] + ["bias_ih", "bias_hh"] * bias
    assert state.keys() == {f"{dot}{array}{end}" for array in arrays for end in ends}
    state |= {"head.weight": np.ones((2, 2)), "head.bias": np.ones(2)}
    for said in (None, prefix, dot):
        back = converters.layers_from_torch(config, state, prefix=said)
        assert list(back) == list(given_)
        for name, own in given_.items():
            assert {k: a.tolist() for k, a in back[name].items()} == {k: a.tolist() for k, a in own.items()}


class BFloat16(np.ndarray):
    """As ml_dtypes has it: an array whose dtype is called bfloat16."""

    @property
    def dtype(self):
        return "bfloat16"


def test_bfloat16_is_read_by_its_bits():
    """Exactly, subnormals and both zeros too."""
    values = np.array([[1.0, -2.5, 3.0e38, -1e-40, -0.0, 0.15625]] * 4, np.float32)
    bits = (values.view(np.uint32) >> 16).astype(np.uint16)
    exact = (bits.astype(np.uint32) << 16).view(np.float32)
    state = {"weight_ih": np.ones((4, 6), np.float32), "weight_hh": np.ones((4, 4), np.float32)}
    read = converters.layers_from_torch("elman", state | {"weight_ih": bits.view(BFloat16)})
    W = read["layer0"]["W"]
    assert W.dtype == np.float32
    np.testing.assert_array_equal(W.view(np.uint32), exact.view(np.uint32))


ONE = {"weight_ih_l0": np.zeros((4, 3)), "weight_hh_l0": np.zeros((4, 4))}
TWO = {f"{name}.{key}": a for name in ("encoder", "decoder") for key, a in ONE.items()}


@pytest.mark.parametrize(
    ("state", "prefix", "message"),
    [
        ({"head.weight": np.ones((2, 2))}, None, "state holds no recurrent layer; expected weight_ih_l0, "),
        (TWO, None, "prefix is None; allowed: 'encoder', 'decoder'"),
        (TWO, "encode", r"prefix is 'encode' \(did you mean 'encoder'\?\); allowed: 'encoder', 'decoder'"),
        (ONE | {"weight_ih": ONE["weight_ih_l0"]}, None, "the state has layer0; expected layer0"),
        (ONE | {"weight_ih_l2": ONE["weight_ih_l0"]}, None, "the state has layer0, layer2; expected layer0, layer1"),
        (ONE | {"bias_ih_l0": np.zeros(4)}, None, "the arrays hold no bias_hh_l0; expected "),
        ({"weight_hh_l0": np.zeros((4, 4))}, None, "the arrays hold no weight_ih_l0"),
        ({"weight_ih_l0_reverse": np.zeros((4, 3))}, None, "the state has layer0_reverse; expected layer0, layer1"),
    ],
)
def test_states_that_are_no_module_s(state, prefix, message):
    """No layer, several modules, some of a Cell and some of a layer, a layer or an array that is missing."""
    with pytest.raises(ValueError, match=message):
        converters.layers_from_torch("elman", state, prefix=prefix)


def test_layers_that_pytorch_does_not_have():
    """Other names; several of a Cell."""
    own = draw({"cell": "lstm"}, np.random.default_rng(0), 3, 4)
    with pytest.raises(ValueError, match="layers holds 'layer01'; allowed: layer0, layer0_reverse, layer1, and so on"):
        converters.layers_to_torch("lstm", {"layer01": own})
    with pytest.raises(ValueError, match="layers holds 'layer1'; allowed: layer0, as a Cell has"):
        converters.layers_to_torch("lstm", {"layer0": own, "layer1": own}, step=True)


def test_a_file_of_onnx_without_onnx(tmp_path, monkeypatch):
    """One line, and no file; a reader is refused before that."""
    monkeypatch.setitem(sys.modules, "onnx", None)
    network = models.network("rnn", 3, [4], 2)
    params, buffers = network.init(np.random.default_rng(0))
    with pytest.raises(ImportError, match=r"^onnx is not installed: pip install onnx$"):
        converters.to_onnx(network, params, buffers, tmp_path / "own.onnx")
    reader = models.network("rnn", 11, [4, 4, 4], 11, readout="last", embedding=3, reader="once")
    with pytest.raises(TypeError, match=r"network is a Reader; allowed: a Network"):
        converters.to_onnx(reader, *reader.init(np.random.default_rng(0)), tmp_path / "own.onnx")
    assert not list(tmp_path.iterdir())
