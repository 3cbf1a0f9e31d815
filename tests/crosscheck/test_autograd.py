"""Every hand-derived gradient against PyTorch's autograd in float64, below 1e-12."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="torch is not installed: `make crosscheck` installs it")

from gradients.checks import cells  # noqa: E402
from gradients.map_problem import free_entries, random_map_problem  # noqa: E402
from gradients.problem import largest_error, perturbed, random_problem, relative_error, standard_normal  # noqa: E402
from ortho_ref import fused, models, scan  # noqa: E402
from ortho_ref.activations import modrelu, modrelu_pullback  # noqa: E402
from ortho_ref.cells import CELLS as KINDS  # noqa: E402
from ortho_ref.cells import LSTM, FastRNN, GRUResetAfter  # noqa: E402
from ortho_ref.cells.cell import state_of  # noqa: E402
from ortho_ref.conformance.small_cells import SMALL_CELLS  # noqa: E402
from ortho_ref.network import Network  # noqa: E402
from ortho_ref.parametrizations import Free, NeumannCayley, ScaledCayley  # noqa: E402
from ortho_ref.parametrizations.by_name import PARAMETRIZATIONS  # noqa: E402
from scripts.maintain.oracle import autograd as oracle  # noqa: E402
from tests.ortho_ref.maps import ORTHOGONAL, problems  # noqa: E402

CELLS = {name: cell for name, cell in cells().items() if oracle.has_form(cell)}
ENGINES = {"scan": scan, "fused": fused}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", CELLS)
@settings(max_examples=15)
@given(
    seed=st.integers(0, 2**32 - 1),
    T=st.integers(1, 8),
    B=st.integers(1, 5),
    m=st.integers(1, 6),
    n=st.integers(1, 7),
    tokens=st.booleans(),
)
def test_cells(engine, name, seed, T, B, m, n, tokens):
    """Weights, x and h0 of every cell x activation, by both engines."""
    problem = random_problem(CELLS[name], np.random.default_rng(seed), T=T, B=B, m=m, n=n, tokens=tokens)
    error, key = largest_error(problem.gradients(ENGINES[engine]), oracle.gradients_of(problem))
    assert error < 1e-12, key


REAL_SIZE = ["GRUResetBefore modrelu", "LSTM", "GRUResetAfter modrelu", "FastRNN relu, sgornn", "Elman modrelu complex"]


@pytest.mark.parametrize("name", REAL_SIZE)
def test_cells_at_real_size(name):
    """n = 56, m = 22, T = 100, B = 16; off the kinks by chance, not by a margin."""
    cell, rng = CELLS[name], np.random.default_rng(0)
    problem = random_problem(cell, rng, T=2, B=2, m=22, n=56)
    T, B = 100, 16

    x, dh = rng.standard_normal((T, B, 22)), standard_normal(rng, (T, B, 56), cell.complex)
    state = state_of(tuple(standard_normal(rng, (B, 56), cell.complex) for _ in cell.states))
    problem = type(problem)(cell, problem.weights, x, state, dh, state)
    error, key = largest_error(problem.gradients(fused), oracle.gradients_of(problem))
    assert error < 1e-12, key


REGIMES = {"nothing clipped": (-2.0, -1.0), "beta clipped": (-1.0, 3.0), "alpha beyond 1/2": (1.0, -3.0)}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize("constraint", ["sgornn", "sgornn-as-printed"])
def test_fastrnn_clipped_or_not(engine, regime, constraint):
    """sgornn:3 as torch.minimum in the graph: whatever is clipped, the same gradients of alpha and beta."""
    problem = random_problem(FastRNN("relu", constraint), np.random.default_rng(0))
    alpha, beta = REGIMES[regime]
    problem = replace(problem, weights=problem.weights | {"alpha": np.array(alpha), "beta": np.array(beta)})
    ours, theirs = problem.gradients(ENGINES[engine]), oracle.gradients_of(problem)
    error, key = largest_error(ours, theirs)
    assert error < 1e-12, key
    zero = {name for name in ("alpha", "beta") if theirs[name] == 0}
    assert zero == {name for name in ("alpha", "beta") if ours[name] == 0}
    assert bool(zero) == (regime != "nothing clipped")


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("m", "n", "T", "B"), [(3, 5, 7, 4), (1, 1, 1, 1), (6, 8, 30, 2)])
def test_gru_reset_after_is_torchs_gru(engine, m, n, T, B):
    """goru:2.2 with b_hh is what PyTorch and cuDNN compute: torch.nn.GRU, its rows in the order r, z, n, its two biases
    of r and of z added up.  States, and the gradient of every weight, of x and of h0."""
    cell = GRUResetAfter("tanh", recurrent_bias=True)
    problem = random_problem(cell, np.random.default_rng(0), T=T, B=B, m=m, n=n)
    w, rng = problem.weights, np.random.default_rng(1)
    split = {g: rng.standard_normal(n) for g in "rz"}  # how torch's two biases share ours
    gru = torch.nn.GRU(m, n).double()
    values = {f"weight_{at}h_l0": [w[f"{kind}_{g}"] for g in "rzh"] for at, kind in (("i", "W"), ("h", "U"))}
    values["bias_ih_l0"] = [w["b_r"] - split["r"], w["b_z"] - split["z"], w["b_h"]]
    values["bias_hh_l0"] = [split["r"], split["z"], w["b_hh"]]
    with torch.no_grad():
        for name, blocks in values.items():
            getattr(gru, name).copy_(torch.tensor(np.concatenate(blocks)))
    x, h0 = (torch.tensor(value, requires_grad=True) for value in (problem.x, problem.h0[None]))
    states, last = gru(x, h0)
    ours, _ = ENGINES[engine].forward(cell, w, problem.x, problem.h0)
    np.testing.assert_allclose(ours[1:], states.detach().numpy(), rtol=1e-12, atol=1e-13)
    loss = (torch.tensor(problem.dh) * states).sum() + (torch.tensor(problem.dh_T) * last[0]).sum()
    loss.backward()
    blocks = {name: dict(zip("rzh", np.split(getattr(gru, name).grad.numpy(), 3), strict=True)) for name in values}
    theirs = {"x": x.grad.numpy(), "h0": h0.grad.numpy()[0], "b_hh": blocks["bias_hh_l0"]["h"]}
    for g in "rzh":
        theirs |= {f"W_{g}": blocks["weight_ih_l0"][g], f"U_{g}": blocks["weight_hh_l0"][g]}
        theirs[f"b_{g}"] = blocks["bias_ih_l0"][g]
    error, key = largest_error(problem.gradients(ENGINES[engine]), theirs)
    assert error < 1e-12, key
    other, _ = scan.forward(GRUResetAfter("tanh"), {k: v for k, v in w.items() if k != "b_hh"}, problem.x, problem.h0)
    assert relative_error(other[1:], states.detach().numpy()) > 0.01  # without b_hh it is not


@pytest.mark.parametrize("name", ORTHOGONAL)
@settings(max_examples=25)
@given(data=st.data())
def test_maps(name, data):
    """Value and pullback of every parametrization against its equations in PyTorch; 1e-11."""
    problem = data.draw(problems(name))
    leaves = {key: torch.tensor(value) for key, value in problem.params.items()}
    assert relative_error(problem.buffers["U"], oracle.matrix(problem.p, leaves, problem.buffers).numpy()) < 1e-11
    error, key = largest_error(free_entries(problem.gradients()), oracle.gradients_of_map(problem))
    assert error < 1e-11, key


@pytest.mark.parametrize("n", [20, 56])
@pytest.mark.parametrize("kind", [ScaledCayley, NeumannCayley])
def test_cayley_at_real_size(kind, n):
    """The scaled Cayley map below 1e-12 at the sizes it is trained at."""
    problem = random_map_problem(kind(n // 2), n, np.random.default_rng(n))
    assert largest_error(free_entries(problem.gradients()), oracle.gradients_of_map(problem))[0] < 1e-12


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_modrelu(dtype):
    """Real and complex, both signs of b; dz = dL/dRe + i dL/dIm is what torch stores."""
    rng = np.random.default_rng(0)

    def draw():
        value = rng.standard_normal((50, 8))
        return value + 1j * rng.standard_normal((50, 8)) if dtype == np.complex128 else value

    z, dy, b = draw(), draw(), rng.standard_normal(8)

    def loss(leaf):
        z, b = leaf["z"], leaf["b"]
        y = z / torch.abs(z) * torch.relu(torch.abs(z) + b)
        return (torch.tensor(dy).conj() * y).real.sum() if dtype == np.complex128 else (torch.tensor(dy) * y).sum()

    theirs = oracle.gradients(loss, {"z": z, "b": b})
    dz, db = modrelu_pullback(dy, z, b, modrelu(z, b))
    assert relative_error(dz, theirs["z"]) < 1e-12
    assert relative_error(db.sum(axis=0), theirs["b"]) < 1e-12


def test_modrelu_at_its_kinks():
    """sign(a) relu(|a| + b) in torch has the same values and derivatives at z = 0 and |z| + b = 0."""
    z, b = np.array([0.0, 0.0, 0.5, -0.5, 0.0]), np.array([0.5, -0.5, -0.5, -0.5, 0.0])

    def loss(leaf):
        return (torch.sign(leaf["z"]) * torch.relu(torch.abs(leaf["z"]) + leaf["b"])).sum()

    theirs = oracle.gradients(loss, {"z": z, "b": b})
    dz, db = modrelu_pullback(np.ones(5), z, b, modrelu(z, b))
    np.testing.assert_array_equal(dz, theirs["z"])
    np.testing.assert_array_equal(db, theirs["b"])


def test_a_network_of_two_nc_grus():
    """Two layers with two orthogonal weights each, readout, cross-entropy: every parameter against autograd."""
    rng = np.random.default_rng(0)
    m, n, q = 4, 6, 5
    network = Network(tuple(models.build("nc-gru", size, n, orthogonal="rc") for size in (m, n)), q)
    params, buffers = network.init(rng, dtype=np.float64)
    params = perturbed(params, rng, 0.3)
    buffers = network.rebuild(params, buffers)
    x, y = rng.standard_normal((6, 3, m)), rng.integers(0, q, (6, 3))
    value, ours, _ = network.loss_and_gradients(params, buffers, x, y)

    def loss(leaf):
        inputs = torch.tensor(x)
        for i, layer in enumerate(network.layers):
            own = {name: leaf[f"layer{i}.{name}"] for name in layer.cell.shapes(1, 1) if f"layer{i}.{name}" in leaf}
            for name, p in layer.parametrizations.items():
                own[name] = oracle.matrix(p, {"A": leaf[f"layer{i}.{name}.A"]}, buffers[f"layer{i}.{name}"])
            inputs = oracle.run(layer.cell, own, inputs, torch.zeros(3, n, dtype=torch.float64))[1:]
        o = inputs @ leaf["readout.W"].T + leaf["readout.b"]
        return torch.nn.functional.cross_entropy(o.reshape(-1, q), torch.tensor(y.reshape(-1)))

    theirs = oracle.gradients(loss, params)
    assert abs(value - float(loss({k: torch.tensor(v) for k, v in params.items()}))) < 1e-13
    for key in params:
        own = np.triu(ours[key], 1) if key.endswith(".A") else ours[key]
        assert relative_error(own, theirs[key]) < 1e-12, key


def test_a_network_of_two_complex_layers():
    """Full-capacity uRNN: complex W, U and trained h0, [Re h, Im h] read on (urnn:9): every gradient by autograd."""
    rng = np.random.default_rng(0)
    m, n, q = 4, 5, 3
    network = models.network("full-urnn", m, [n, n], q)
    params, buffers = network.init(rng, dtype=np.float64)
    params = perturbed(params, rng, 0.3)
    buffers = network.rebuild(params, buffers)
    x, y = rng.integers(0, m, (6, 3)), rng.integers(0, q, (6, 3))
    value, ours, _ = network.loss_and_gradients(params, buffers, x, y)

    def loss(leaf):
        inputs = torch.tensor(x)
        for i, layer in enumerate(network.layers):
            own = {name: leaf[f"layer{i}.{name}"] for name in ("W", "b")} | {"U": leaf[f"layer{i}.U.X"]}
            h = oracle.run(layer.cell, own, inputs, leaf[f"layer{i}.h0"].expand(3, n))[1:]
            inputs = torch.cat([h.real, h.imag], dim=-1)
        o = inputs @ leaf["readout.W"].T + leaf["readout.b"]
        return torch.nn.functional.cross_entropy(o.reshape(-1, q), torch.tensor(y.reshape(-1)))

    theirs = oracle.gradients(loss, params)
    assert abs(value - float(loss({k: torch.tensor(v) for k, v in params.items()}))) < 1e-13
    error, key = largest_error(ours, theirs)
    assert error < 1e-12, key


def test_the_routes_recipe_for_pytorch():
    """The bound of a step of torch.nn.GRUCell, from its weights as the route converts them: the norm is autograd's."""
    page = (Path(__file__).parents[2] / "docs/routes/ncgru.md").read_text()
    recipe, *_ = re.findall(r"```py\n(.*?)```", page, re.DOTALL)
    *lines, call = recipe.strip().splitlines()
    rng = np.random.default_rng(0)
    gru, x, h = torch.nn.GRUCell(3, 5).double(), rng.standard_normal(3), rng.standard_normal(5)
    names = {"gru": gru, "x": x, "h": h}
    exec("\n".join(lines), names)
    bound = eval(call.split("#")[0], names)
    step = lambda h: gru(torch.tensor(x)[None], h[None])[0]  # noqa: E731
    jacobian = torch.autograd.functional.jacobian(step, torch.tensor(h)).numpy()
    assert bound.actual == pytest.approx(np.linalg.norm(jacobian, 2), rel=1e-12)
    assert bound.ratio <= 1


def test_what_the_oracle_has():
    """No form of a cell that is not on the list, every parametrization but `Free`, which is no map; others by name."""
    assert {"elman", "fastrnn", "gru_reset_after", "gru_reset_before", "lstm"} <= set(oracle.STEPS)
    assert set(oracle.STEPS) <= set(KINDS) | set(SMALL_CELLS)
    assert set(oracle.MATRICES) == set(PARAMETRIZATIONS) - {"free"}
    assert oracle.has_form(ScaledCayley(2))
    assert not oracle.has_form(Free())

    class Unknown(LSTM):
        pass

    assert not oracle.has_form(Unknown())
    with pytest.raises(TypeError, match="no PyTorch form of test_autograd; there are: elman, fastrnn, gru_reset_after"):
        oracle.run(Unknown(), {}, [], None)
    with pytest.raises(TypeError, match="no PyTorch form of free; there are: scaled_cayley"):
        oracle.matrix(Free(), {}, {})
