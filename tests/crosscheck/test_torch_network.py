"""What `to_torch` gives in the modules that it is for: what `new --torch` writes, nn.RNN, nn.LSTM and nn.GRU."""

import re
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: `make crosscheck` installs it")

from ortho_ref import converters, models  # noqa: E402
from ortho_ref.adapters.starting_point import cells, starting_point  # noqa: E402
from ortho_ref.cells.cell import parts_of  # noqa: E402

SIZES = [4, 4]
REAL = [name for name in models.names() if name in cells()]


def module_of(names, name, layer):
    """One for layers of one kind: PyTorch's own, or the `Layer` that is written for a model."""
    if names == "pytorch":
        kind = {"LSTM": torch.nn.LSTM, "GRUResetAfter": torch.nn.GRU, "Elman": torch.nn.RNN}[type(layer.cell).__name__]
        options = {"nonlinearity": layer.cell.activation} if kind is torch.nn.RNN else {}
        return kind(3, SIZES[0], num_layers=len(SIZES), **options)
    written = {"__name__": "written"}
    exec(starting_point("torch", name, "cell.py"), written)
    made = zip([3, *SIZES], SIZES, strict=False)
    return torch.nn.ModuleDict({f"layer{k}": written["Layer"](m, n) for k, (m, n) in enumerate(made)})


def tensors(state):
    return {key: torch.from_numpy(a) for key, a in state.items()}


def moved(network):
    """Parameters beside those it begins with, float64."""
    rng = np.random.default_rng(0)
    params, buffers = network.init(rng, dtype=np.float64)
    kept = {name for name in params if name.rpartition(".")[0] in buffers}
    return {k: a if k in kept else a + 0.2 * rng.standard_normal(a.shape) for k, a in params.items()}, buffers


@pytest.mark.parametrize("name", REAL)
def test_every_real_model_in_its_module(name):
    """The same outputs and last states, to 1e-12; what the module has comes back; of another network they differ."""
    network = models.network(name, 3, SIZES, 2)
    params, buffers = moved(network)
    plain = converters.PyTorch().has(converters.config_of(name)) and not network.layers[0].trained_h0
    x = np.random.default_rng(1).standard_normal((6, 5, 3))
    forward = network.forward(params, buffers, x)
    for names in ("pytorch", "ours") if plain else ("ours",):
        own = torch.nn.ModuleDict({"rnn": module_of(names, name, network.layers[0]), "head": torch.nn.Linear(4, 2)})
        own.double()
        where = {"names": names, "prefix": "rnn", "readout": "head"}
        own.load_state_dict(tensors(converters.to_torch(network, params, buffers, **where)))  # no name more, none less
        with torch.no_grad():
            y, last = torch.from_numpy(x), []
            if names == "pytorch":
                y, state = own["rnn"](y)
                parts = state if isinstance(state, tuple) else (state,)
                last = [tuple(part[k] for part in parts) for k in range(len(SIZES))]
            else:
                for layer in own["rnn"].values():
                    y, state = layer(y)
                    last.append(state if isinstance(state, tuple) else (state,))
            outputs = own["head"](y).numpy()
        np.testing.assert_allclose(outputs, forward.outputs, rtol=0, atol=1e-12)
        for layer, ours, theirs in zip(network.layers, forward.last, last, strict=True):
            for part, tensor in zip(parts_of(layer.cell, ours), theirs, strict=True):
                np.testing.assert_allclose(tensor.numpy(), part, rtol=0, atol=1e-12)
        back, _ = converters.from_torch(network, own.state_dict(), params, buffers, **where)
        assert all((back[key] == a).all() for key, a in params.items())
        start = network.init(np.random.default_rng(2), dtype=np.float64)
        assert abs(outputs - network.forward(*start, x).outputs).max() > 1e-3


def test_a_map_that_pytorch_trained():
    """A step in PyTorch with its own orthogonal map of U: the parameters of ours are those of the new U."""
    network = models.network("scornn", 3, [4], 2)
    params, buffers = moved(network)
    layer = module_of("ours", "scornn", network.layers[0])["layer0"].double()
    own = {key.removeprefix("layer0."): a for key, a in converters.to_torch(network, params, buffers).items()}
    layer.load_state_dict(tensors(own))
    torch.nn.utils.parametrizations.orthogonal(layer, "U", orthogonal_map="cayley")
    x = torch.from_numpy(np.random.default_rng(1).standard_normal((6, 5, 3)))
    for a in layer.parametrizations.U.parameters():
        a.data += 0.1 * torch.randn(a.shape, dtype=a.dtype, generator=torch.Generator().manual_seed(0))
    state = {f"layer0.{key}": getattr(layer, key).detach() for key in ("W", "U", "b")}
    back, found = converters.from_torch(network, state, params, buffers)
    assert abs(found["layer0.U"]["U"] - buffers["layer0.U"]["U"]).max() > 1e-2
    assert (found["layer0.U"]["D"] == buffers["layer0.U"]["D"]).all()
    assert (back["layer0.U.A"] == -back["layer0.U.A"].T).all()
    np.testing.assert_allclose(found["layer0.U"]["U"], state["layer0.U"].numpy(), rtol=0, atol=1e-12)
    U, b, W = (state[f"layer0.{key}"].numpy() for key in "UbW")
    h = np.zeros((5, 4))
    for x_t in x.numpy():
        a = x_t @ W.T + h @ U.T
        h = np.sign(a) * np.maximum(abs(a) + b, 0)
    np.testing.assert_allclose(network.forward(back, found, x.numpy()).last[0], h, rtol=0, atol=1e-12)


def test_the_page_on_own_data(tmp_path, monkeypatch, capsys):
    """docs/own-data.md, on the way out: PyTorch and ONNX Runtime say what the network says."""
    onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install onnxruntime")
    pytest.importorskip("onnx", reason="onnx is not installed: pip install onnx")
    onnxruntime.set_default_logger_severity(3)
    page = (Path(__file__).parents[2] / "docs/own-data.md").read_text()
    (tmp_path / "cell.py").write_text(starting_point("torch", "nc-gru", "cell.py"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    network = models.network("nc-gru", 1, [16], 2, readout="last")
    params, buffers = network.init(np.random.default_rng(0))
    x = np.random.default_rng(0).integers(0, 2, (8, 30, 1)).astype("f4")
    own = {"network": network, "params": params, "buffers": buffers, "x": x}
    exec("\n".join(re.findall(r"```py\n(.*?)```", page, re.DOTALL)), own)
    expected = network.forward(params, buffers, x[:5].swapaxes(0, 1)).outputs
    np.testing.assert_allclose(own["outputs"], expected, rtol=0, atol=1e-5)
    assert capsys.readouterr().out == f"tensor({expected.argmax(axis=-1).tolist()})\n"
    assert (own["params"]["layer0.U_c.A"] == params["layer0.U_c.A"]).all()
