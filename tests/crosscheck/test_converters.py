"""The converters against nn.RNN, nn.LSTM, nn.GRU, their Cells, and the libraries' orthogonal maps, below 1e-12."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

torch = pytest.importorskip("torch", reason="torch is not installed: `make crosscheck` installs it")

from gradients.problem import random_problem, relative_error  # noqa: E402
from ortho_ref import converters, scan  # noqa: E402
from ortho_ref.cells import LSTM, Elman, GRUResetAfter  # noqa: E402
from ortho_ref.cells.cell import parts_of  # noqa: E402

PYTORCH = converters.by_name("pytorch")
CASES = {
    "RNN tanh": ({"cell": "elman", "activation": "tanh"}, Elman("tanh"), torch.nn.RNN),
    "RNN relu": ({"cell": "elman", "activation": "relu"}, Elman("relu"), torch.nn.RNN),
    "LSTM": ({"cell": "lstm"}, LSTM(), torch.nn.LSTM),
    "GRU": ({"cell": "gru_reset_after", "recurrent_bias": True}, GRUResetAfter(recurrent_bias=True), torch.nn.GRU),
    "GRU, no b_hh": ({"cell": "gru_reset_after", "recurrent_bias": False}, GRUResetAfter(), torch.nn.GRU),
}


def layer_of(config, module, m, n):
    """The layer, with PyTorch's own initial weights, the same in every run."""
    torch.manual_seed(0)
    options = {"nonlinearity": config["activation"]} if module is torch.nn.RNN else {}
    return module(m, n, dtype=torch.float64, **options)


def run(layer, problem):
    """States (T+1, B, n), one array by name of state but for c, of which the last alone; and all gradients."""
    start = [torch.from_numpy(part).requires_grad_() for part in parts_of(problem.cell, problem.h0)]
    x = torch.from_numpy(problem.x).requires_grad_()
    packed = tuple(part[None] for part in start)
    y, last = layer(x, packed if len(packed) == 2 else packed[0])
    last = last if len(packed) == 2 else (last,)
    upstream = [torch.from_numpy(a) for a in (problem.dh, *parts_of(problem.cell, problem.dh_T))]
    torch.autograd.backward([y, *(part[0] for part in last)], upstream)
    by_name = {name: p.grad.numpy() for name, p in layer.named_parameters()}
    own = {f"{s}0": part.grad.numpy() for s, part in zip(problem.cell.states, start, strict=True)}
    return y.detach().numpy(), [part[0].detach().numpy() for part in last], by_name, own | {"x": x.grad.numpy()}


@pytest.mark.parametrize("name", CASES)
@settings(max_examples=15)
@given(
    seed=st.integers(0, 2**32 - 1),
    T=st.integers(1, 6),
    B=st.integers(1, 4),
    m=st.integers(1, 5),
    n=st.integers(1, 6),
    theirs=st.booleans(),
)
def test_the_layers_are_our_cells(name, seed, T, B, m, n, theirs):
    """With our weights in the layer, or the layer's in our cell: the same states, and every gradient."""
    config, cell, module = CASES[name]
    problem = random_problem(cell, np.random.default_rng(seed), T=T, B=B, m=m, n=n)
    layer = layer_of(config, module, m, n)
    if theirs and name != "GRU, no b_hh":
        weights = PYTORCH.from_framework(config, {k: p.detach().numpy() for k, p in layer.named_parameters()})
        problem = type(problem)(cell, weights, problem.x, problem.h0, problem.dh, problem.dh_T)
    else:
        layer.load_state_dict(
            {k: torch.from_numpy(a) for k, a in PYTORCH.to_framework(config, problem.weights).items()}
        )
    y, last, by_name, own = run(layer, problem)

    states = parts_of(cell, scan.forward(cell, problem.weights, problem.x, problem.h0)[0])
    assert relative_error(y, states[0][1:]) < 1e-12
    for part, state in zip(last, states, strict=True):
        assert relative_error(part, state[-1]) < 1e-12
    expected = problem.gradients(scan)
    gradients = PYTORCH.gradients_from(config, by_name) | own
    assert gradients.keys() == expected.keys()
    for key, gradient in gradients.items():
        assert relative_error(gradient, expected[key]) < 1e-12, key


@pytest.mark.parametrize("name", CASES)
def test_the_two_biases_of_a_sum_have_one_gradient(name):
    """What `gradients_from` relies on; those of the GRU's candidate differ."""
    config, cell, module = CASES[name]
    problem = random_problem(cell, np.random.default_rng(0), T=3, B=2, m=3, n=4)
    _, _, by_name, _ = run(layer_of(config, module, 3, 4), problem)
    inner, recurrent = by_name["bias_ih_l0"], by_name["bias_hh_l0"]
    sums = 8 if module is torch.nn.GRU else len(inner)
    assert relative_error(inner[:sums], recurrent[:sums]) < 1e-12
    assert not np.isclose(inner[sums:], recurrent[sums:]).any()


LAYERS = {name: case for name, case in CASES.items() if name != "GRU, no b_hh"}


@pytest.mark.parametrize("name", LAYERS)
@settings(max_examples=6)
@given(
    seed=st.integers(0, 2**32 - 1),
    layers=st.integers(1, 3),
    ways=st.integers(1, 2),
    bias=st.booleans(),
    n=st.integers(1, 4),
)
def test_layers_directions_and_modules_without_biases(name, seed, layers, ways, bias, n):
    """Our cells, direction by direction, are PyTorch's module within a module; there and back to the bit."""
    config, cell, module = LAYERS[name]
    torch.manual_seed(seed)
    options = {"nonlinearity": config["activation"]} if module is torch.nn.RNN else {}
    options |= {"num_layers": layers, "bidirectional": ways == 2, "bias": bias, "dtype": torch.float64}
    model = torch.nn.ModuleDict({"rnn": module(3, n, **options), "head": torch.nn.Linear(ways * n, 2)})
    weights = converters.layers_from_torch(config, model.state_dict())
    x = np.random.default_rng(seed).standard_normal((5, 2, 3))
    expected = model["rnn"](torch.from_numpy(x))[0].detach().numpy()
    start = tuple(np.zeros((2, n)) for _ in cell.states)
    for k in range(layers):
        out = []
        for way in ("", "_reverse")[:ways]:
            turn = slice(None, None, -1 if way else 1)
            h, _ = scan.forward(cell, weights[f"layer{k}{way}"], x[turn].copy(), start if len(start) > 1 else start[0])
            out.append(parts_of(cell, h)[0][1:][turn])
        x = np.concatenate(out, axis=2)
    assert relative_error(x, expected) < 1e-12
    back = converters.layers_to_torch(config | {"bias": bias}, weights)
    theirs = model["rnn"].state_dict()
    assert back.keys() == theirs.keys()
    again = converters.layers_from_torch(config, back)
    for layer, own in weights.items():
        assert all((again[layer][key] == a).all() for key, a in own.items())
    model["rnn"].load_state_dict({key: torch.from_numpy(a) for key, a in back.items()})


def test_bfloat16_states():
    """Read exactly, and put back exactly."""
    torch.manual_seed(0)
    own = torch.nn.LSTM(3, 4, dtype=torch.bfloat16)
    weights = converters.layers_from_torch("lstm", own.state_dict())["layer0"]
    assert weights["W_i"].dtype == np.float32
    assert (weights["W_i"] == own.weight_ih_l0[:4].float().detach().numpy()).all()
    bits = own.weight_hh_l0[4:8].detach().view(torch.int16).numpy().view(np.uint16).astype(np.uint32) << 16
    assert (weights["U_f"].view(np.uint32) == bits).all()


def orthogonal_weight(name, n, base):
    """The library's own module for a map: (parameter -> U), with this base where it has one."""
    library, _, kind = name.partition("-")
    if library == "torch":
        layer = torch.nn.Linear(n, n, bias=False, dtype=torch.float64)
        orthogonal_map = kind.replace("-", "_")
        torch.nn.utils.parametrizations.orthogonal(layer, "weight", orthogonal_map)
        layer.parametrizations.weight[0].base = torch.from_numpy(base)
        return layer.parametrizations.weight[0]
    if library == "geotorch":
        SO = pytest.importorskip("geotorch.so").SO
        manifold = SO((n, n), triv=kind).double()
        manifold.base = torch.from_numpy(base)
        return manifold
    if kind == "boft":
        boft = pytest.importorskip("peft.tuners.boft.layer").BOFTLayer
        return lambda R: torch.block_diag(*boft.cayley_batch(boft.__new__(boft), R[0]))
    oft = pytest.importorskip("peft.tuners.oft.layer").OFTRotationModule

    def rotated(weight):
        b = round((1 + (1 + 8 * weight.shape[1]) ** 0.5) / 2)
        module = oft(*weight.shape, b, n, use_cayley_neumann=kind == "oft-neumann")
        del module.weight
        module.weight = weight
        return module.get_weight()

    return rotated


@pytest.mark.parametrize("name", [own for own in converters.OTHER_MAPS if not own.startswith("exprnn")])
@settings(max_examples=8)
@given(seed=st.integers(0, 2**32 - 1), n=st.sampled_from([2, 4, 6]))
def test_the_libraries_make_that_U_of_our_parameters(name, seed, n):
    """Of parameters that `params_of` gives, and of random ones what `matrix_of` says."""
    rng, peft = np.random.default_rng(seed), name.startswith("peft")
    base = np.linalg.qr(rng.standard_normal((n, n)))[0]
    theirs = orthogonal_weight(name, n, base)
    A = rng.standard_normal((n, n)) * 0.3
    U = np.linalg.solve(np.eye(n) + A - A.T, np.eye(n) - A + A.T)
    U = np.kron(np.eye(2), U) if peft else base @ U
    if peft:
        theirs = orthogonal_weight(name, 2 * n, base)
    # torch.matrix_exp of one matrix is up to 2.5e-10 off (docs/maps.md)
    allowed = 1e-9 if name in ("torch-matrix-exp", "geotorch-expm") else 1e-12
    found = converters.params_of(name, U, **({"blocks": 2} if peft else {"base": base}))
    (key,) = (key for key in found.params if key != "base")
    made = theirs(torch.from_numpy(found.params[key])).detach().numpy()
    # PEFT adds an identity in float32 to a double, which is exact
    np.testing.assert_allclose(made, found.U, rtol=0, atol=allowed)
    if name != "peft-oft-neumann":
        np.testing.assert_allclose(made, U, rtol=0, atol=allowed)
    random = {key: 0.3 * rng.standard_normal(found.params[key].shape)} | ({} if peft else {"base": base})
    if name == "torch-householder":
        random[key][np.diag_indices(n)] = rng.choice([-1.0, 1.0], n)
    made = theirs(torch.from_numpy(random[key])).detach().numpy()
    np.testing.assert_allclose(converters.matrix_of(name, random), made, rtol=0, atol=allowed)
