"""`to_onnx`: the files in ONNX Runtime beside `Network.forward`, whole and in chunks, of every model.

Skipped where onnx or onnxruntime is not installed.
"""

import json
from dataclasses import dataclass

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="onnx is not installed: pip install onnx")
onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install onnxruntime")

import ortho_ref  # noqa: E402
from ortho_ref import converters, models  # noqa: E402
from ortho_ref.cells import Elman  # noqa: E402
from ortho_ref.cells.cell import parts_of  # noqa: E402
from ortho_ref.network import Network  # noqa: E402
from ortho_ref.recurrent import Recurrent  # noqa: E402

ALLOWED = {"float32": 1e-5, "float64": 1e-12}
ABLATIONS = {"reset_gate": False, "update_gate": False}


def drawn(network, dtype="float32"):
    """Random biases too, and free matrices large enough for every state to count."""
    rng = np.random.default_rng(0)
    params, buffers = network.init(rng, dtype=dtype)
    moved = {name: a + 0.2 * rng.standard_normal(a.shape).astype(dtype) for name, a in params.items()}
    kept = {name for name in params if name.rpartition(".")[0] in buffers}
    return {name: params[name] if name in kept else a for name, a in moved.items()}, buffers


def session(path):
    """The file, by the checker and in the runtime."""
    onnx.checker.check_model(onnx.load(path), full_check=True)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # it warns of states that may be left out
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def run(own, **inputs):
    """Name -> output."""
    return dict(zip([value.name for value in own.get_outputs()], own.run(None, inputs), strict=True))


def states(network, last, end):
    """As the file names them."""
    named = {}
    for i, (layer, state) in enumerate(zip(network.layers, last, strict=True)):
        for name, part in zip(layer.cell.states, parts_of(layer.cell, state), strict=True):
            own = f"layer{i}.{name}{end}"
            named |= {own: part} if part.dtype.kind == "f" else {f"{own}.real": part.real, f"{own}.imag": part.imag}
    return {name: np.array(part) for name, part in named.items()}


def distance(found, network, forward):
    """The largest, of outputs and last states, beside 1 or the largest entry."""
    expected = {"outputs": forward.outputs} | states(network, forward.last, "_T")
    assert found.keys() == expected.keys()
    return max(abs(found[name] - a).max() / max(1, abs(a).max()) for name, a in expected.items())


@pytest.fixture
def written(tmp_path):
    """network, params, buffers -> the session of its file."""

    def write(network, params, buffers, **options):
        path = tmp_path / "own.onnx"
        converters.to_onnx(network, params, buffers, path, **options)
        return session(path)

    return write


@pytest.mark.parametrize("dtype", ALLOWED)
@pytest.mark.parametrize("readout", ["every", "last"])
@pytest.mark.parametrize("name", models.names())
def test_every_model(name, readout, dtype, written):
    """Two layers, T and B free; two chunks with the states carried are the whole, and without them are not."""
    network = models.network(name, 3, [8, 4], 2, readout=readout)
    params, buffers = drawn(network, dtype)
    own = written(network, params, buffers)
    x = np.random.default_rng(1).standard_normal((9, 5, 3)).astype(dtype)
    assert distance(run(own, x=x), network, network.forward(params, buffers, x)) < ALLOWED[dtype]
    short = x[:2, :1].copy()
    assert distance(run(own, x=short), network, network.forward(params, buffers, short)) < ALLOWED[dtype]

    first, whole = run(own, x=x[:4]), network.forward(params, buffers, x)
    end = {name.replace("_T", "0"): a for name, a in first.items() if name != "outputs"}
    second = run(own, x=x[4:], **end)
    if readout == "every":
        second["outputs"] = np.concatenate([first["outputs"], second["outputs"]])
    assert distance(second, network, whole) < ALLOWED[dtype]
    assert distance(run(own, x=x[4:]) | {"outputs": second["outputs"]}, network, whole) > 1e-3
    given = [state if len(state) > 1 else state[0] for state in _given(network, np.random.default_rng(2), dtype)]
    found = run(own, x=x, **states(network, given, "0"))
    assert distance(found, network, network.forward(params, buffers, x, given)) < ALLOWED[dtype]


def _given(network, rng, dtype):
    """A random state of each layer, for a batch of 5."""
    for layer in network.layers:
        shape = (5, layer.sizes[1])
        parts = [rng.standard_normal(shape).astype(dtype) for _ in layer.cell.states]
        yield tuple(a + 1j * a[::-1] for a in parts) if layer.cell.complex else tuple(parts)


@pytest.mark.parametrize(
    ("network", "tokens"),
    [
        (models.network("nc-gru", 11, [6, 4], 11, embedding=4, tied=True), False),
        (models.network("lstm", 11, [6], 11, embedding=4, dropout=0.5), False),
        (models.network("urnn", 11, [6, 4], 3, readout="last"), True),
        (models.network("lstm", 11, [6, 4], 3), True),
        (models.network("goru", 3, [6], 2, **ABLATIONS, activation="relu"), False),
        (models.network("nc-gru", 3, [6], 2, parametrize={"U_r": "householder:3"}), False),
    ],
    ids=["tied embedding", "embedding", "tokens, complex", "tokens", "ablations", "another map"],
)
def test_tokens_embeddings_options(network, tokens, written):
    """What else a network may have; dropout is for training alone."""
    params, buffers = drawn(network)
    rng, vectors = np.random.default_rng(1), network.embedding is None and not tokens
    x = rng.standard_normal((9, 5, 3)).astype("f4") if vectors else rng.integers(0, 11, (9, 5))
    own = written(network, params, buffers, tokens=tokens)
    assert distance(run(own, x=x), network, network.forward(params, buffers, x)) < 1e-5


def test_what_the_file_says(written, tmp_path):
    """U itself under its name; nodes after their equations; version and config; h and c in another order are seen."""
    network = models.network("nc-gru", 3, [4], 2)
    params, buffers = drawn(network)
    written(network, params, buffers)
    model = onnx.load(tmp_path / "own.onnx")
    weights = {own.name: onnx.numpy_helper.to_array(own) for own in model.graph.initializer}
    assert (weights["layer0.U_c"] == buffers["layer0.U_c"]["U"]).all()
    assert (weights["readout.W"] == params["readout.W"]).all()
    (scan,) = (node for node in model.graph.node if node.op_type == "Scan")
    (body,) = (own.g for own in scan.attribute if own.name == "body")
    names = [node.name.removeprefix("layer0.") for node in body.node]
    for equation in ("ncgru:1/r Sigmoid", "ncgru:1/s Mul", "ncgru:35 Gemm", "ncgru:20 goru:2.7 Max", "ncgru:1/h Add"):
        assert equation in names
    assert (model.producer_name, model.producer_version) == ("ortho_ref", ortho_ref.__version__)
    ((key, config),) = ((own.key, json.loads(own.value)) for own in model.metadata_props)
    assert key == "config"
    assert config["layers"][0]["model"] == "nc-gru"
    assert config["layers"][0]["kept"] == {"U_c": "NeumannCayley(negative_ones=2, order=2, reset_every=50)"}

    network = models.network("lstm", 3, [4], 2)
    params, buffers = drawn(network)
    own, x = written(network, params, buffers), np.ones((3, 5, 3), "f4")
    ((h, c),) = given = list(_given(network, np.random.default_rng(2), "float32"))
    forward = network.forward(params, buffers, x, given)
    assert distance(run(own, x=x, **states(network, [(h, c)], "0")), network, forward) < 1e-5
    assert distance(run(own, x=x, **states(network, [(c, h)], "0")), network, forward) > 1e-3


@dataclass(frozen=True)
class Arctan(Elman):
    """A step of one's own, with a function that ONNX's table here does not have."""

    def step_forward(self, weights, x, h_prev):
        return np.arctan(x @ weights["W"].T + h_prev @ weights["U"].T + weights["b"]), None


def test_what_cannot_be_written(tmp_path):
    """A function that is not known, and a network that is none; nothing is left behind."""
    layer = Recurrent(Arctan(), engine="scan", sizes=(3, 4))
    network = Network((layer,), 2)
    with pytest.raises(
        converters.UnsupportedError, match=r"function of the cell's step is 'arctan' .*; allowed: add, "
    ):
        converters.to_onnx(network, *network.init(np.random.default_rng(0)), tmp_path / "own.onnx")
    with pytest.raises(TypeError, match=r"network is a Recurrent; allowed: a Network, as models\.network"):
        converters.to_onnx(layer, *layer.init(np.random.default_rng(0)), tmp_path / "own.onnx")
    network = models.network("rnn", 3, [4], 2)
    params, buffers = network.init(np.random.default_rng(0))
    with pytest.raises(ValueError, match=r"params holds no layer0\.U; expected all that init gives"):
        converters.to_onnx(
            network, {k: a for k, a in params.items() if k != "layer0.U"}, buffers, tmp_path / "own.onnx"
        )
    with pytest.raises(ValueError, match="tokens is 1; allowed: True, False"):
        converters.to_onnx(network, params, buffers, tmp_path / "own.onnx", tokens=1)
    assert not list(tmp_path.iterdir())
