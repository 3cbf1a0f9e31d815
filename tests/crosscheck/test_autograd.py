"""Every hand-derived gradient against PyTorch's autograd in float64, below 1e-12."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="torch is not installed: `make crosscheck` installs it")

from gradients.problem import largest_error, random_problem, relative_error  # noqa: E402
from ortho_ref import fused, models, scan  # noqa: E402
from ortho_ref.activations import modrelu, modrelu_pullback  # noqa: E402
from ortho_ref.network import Network  # noqa: E402
from ortho_ref.parametrizations import NeumannCayley, ScaledCayley  # noqa: E402
from scripts import autograd as oracle  # noqa: E402
from scripts.check_gradients import cells  # noqa: E402

CELLS = cells()
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


@pytest.mark.parametrize("name", ["GRUResetBefore modrelu", "LSTM"])
def test_cells_at_real_size(name):
    """n = 56, m = 22, T = 100, B = 16; off the kinks by chance, not by a margin."""
    rng = np.random.default_rng(0)
    problem = random_problem(CELLS[name], rng, T=2, B=2, m=22, n=56)
    T, B = 100, 16
    x, dh = rng.standard_normal((T, B, 22)), rng.standard_normal((T, B, 56))
    state = tuple(rng.standard_normal((B, 56)) for _ in CELLS[name].states)
    state = state if len(state) > 1 else state[0]
    problem = type(problem)(problem.cell, problem.weights, x, state, dh, state)
    error, key = largest_error(problem.gradients(fused), oracle.gradients_of(problem))
    assert error < 1e-12, key


@pytest.mark.parametrize("kind", [ScaledCayley, NeumannCayley])
@settings(max_examples=25)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(2, 20))
def test_maps(kind, seed, n):
    """Value and pullback of the scaled Cayley map by torch.linalg.solve and autograd."""
    rng = np.random.default_rng(seed)
    X, dU, k = np.triu(rng.standard_normal((n, n)), 1), rng.standard_normal((n, n)), int(rng.integers(0, n + 1))
    p, A = kind(negative_ones=k), X - X.T
    state = p.rebuild({"A": A}, p.init(rng, n, np.float64)[1])
    assert relative_error(state["U"], oracle.cayley(torch.tensor(X), k).numpy()) < 1e-12
    theirs = oracle.gradients(lambda leaf: (torch.tensor(dU) * oracle.cayley(leaf["X"], k)).sum(), {"X": X})["X"]
    assert relative_error(np.triu(p.pullback({"A": A}, state, dU)["A"], 1), theirs) < 1e-12


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
    params, states = network.init(rng, np.float64)
    params = {k: v if k.endswith(".A") else v + 0.3 * rng.standard_normal(v.shape) for k, v in params.items()}
    states = network.rebuild(params, states)
    x, y = rng.standard_normal((6, 3, m)), rng.integers(0, q, (6, 3))
    value, ours, _ = network.loss_and_gradients(params, states, x, y)

    def loss(leaf):
        inputs = torch.tensor(x)
        for i, layer in enumerate(network.layers):
            own = {name: leaf[f"layer{i}.{name}"] for name in layer.cell.shapes(1, 1) if f"layer{i}.{name}" in leaf}
            own |= {f"U_{g}": oracle.cayley(leaf[f"layer{i}.U_{g}.A"], n // 2) for g in "rc"}
            inputs = oracle.run(layer.cell, own, inputs, torch.zeros(3, n, dtype=torch.float64))[1:]
        o = inputs @ leaf["readout.W"].T + leaf["readout.b"]
        return torch.nn.functional.cross_entropy(o.reshape(-1, q), torch.tensor(y.reshape(-1)))

    theirs = oracle.gradients(loss, params)
    assert abs(value - float(loss({k: torch.tensor(v) for k, v in params.items()}))) < 1e-13
    for key in params:
        own = np.triu(ours[key], 1) if key.endswith(".A") else ours[key]
        assert relative_error(own, theirs[key]) < 1e-12, key
