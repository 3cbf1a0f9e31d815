"""The converters against nn.RNN, nn.LSTM and nn.GRU themselves in float64: states and gradients below 1e-12."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
    """The layer, with PyTorch's own initial weights."""
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
    equal = np.isclose(by_name["bias_ih_l0"], by_name["bias_hh_l0"], rtol=1e-13, atol=0)
    assert equal[: 8 if module is torch.nn.GRU else None].all()
    assert module is not torch.nn.GRU or not equal[8:].any()
