"""Every hand-derived gradient against PyTorch's autograd in float64, below 1e-12."""

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

torch = pytest.importorskip("torch", reason="torch is not installed: `make crosscheck` installs it")

from gradients.checks import cells  # noqa: E402
from gradients.map_problem import free_entries, random_map_problem  # noqa: E402
from gradients.problem import largest_error, perturbed, random_problem, relative_error, standard_normal  # noqa: E402
from ortho_ref import fused, models, scan  # noqa: E402
from ortho_ref.cells import CELLS as KINDS, LSTM  # noqa: E402
from ortho_ref.cells.cell import state_of  # noqa: E402
from ortho_ref.conformance.cases.small_cells import SMALL_CELLS  # noqa: E402
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


NETWORKS = {
    "nc-gru": ({"orthogonal": "rc"}, lambda rng: rng.standard_normal((6, 3, 4))),
    "full-urnn": ({}, lambda rng: rng.integers(0, 4, (6, 3))),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_of_two_layers(name):
    """Two orthogonal weights in each, or complex W, U and trained h0, [Re h, Im h] read on (urnn:9); readout and
    cross-entropy: every parameter against autograd."""
    rng, n, q = np.random.default_rng(0), 6, 5
    options, draw = NETWORKS[name]
    network = models.network(name, 4, [n, n], q, **options)
    params, buffers = network.init(rng, dtype=np.float64)
    params = perturbed(params, rng, 0.3)
    buffers = network.rebuild(params, buffers)
    x, y = draw(rng), rng.integers(0, q, (6, 3))
    value, ours, _ = network.loss_and_gradients(params, buffers, x, y)

    def loss(leaf):
        inputs = torch.tensor(x)
        for i, layer in enumerate(network.layers):
            own = {name: leaf[f"layer{i}.{name}"] for name in layer.cell.shapes(1, 1) if f"layer{i}.{name}" in leaf}
            for name, p in layer.parametrizations.items():
                kept = {key: leaf[f"layer{i}.{name}.{key}"] for key in ("A", "X") if f"layer{i}.{name}.{key}" in leaf}
                own[name] = oracle.matrix(p, kept, buffers[f"layer{i}.{name}"])
            h0 = leaf[f"layer{i}.h0"].expand(3, n) if layer.trained_h0 else torch.zeros(3, n, dtype=torch.float64)
            inputs = oracle.run(layer.cell, own, inputs, h0)[1:]
            if layer.cell.complex:
                inputs = torch.cat([inputs.real, inputs.imag], dim=-1)
        o = inputs @ leaf["readout.W"].T + leaf["readout.b"]
        return torch.nn.functional.cross_entropy(o.reshape(-1, q), torch.tensor(y.reshape(-1)))

    theirs = oracle.gradients(loss, params)
    assert abs(value - float(loss({k: torch.tensor(v) for k, v in params.items()}))) < 1e-13
    for key in params:
        own = np.triu(ours[key], 1) if key.endswith(".A") else ours[key]
        assert relative_error(own, theirs[key]) < 1e-12, key


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
    with pytest.raises(
        TypeError, match=r"no PyTorch form of tests\.crosscheck\.test_autograd:Unknown; there are: elman"
    ):
        oracle.run(Unknown(), {}, [], None)
    with pytest.raises(TypeError, match="no PyTorch form of free; there are: scaled_cayley"):
        oracle.matrix(Free(), {}, {})
