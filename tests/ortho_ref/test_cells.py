"""The cells' steps and `scan` [ncgru:1] [ncgru:19] [goru:2.2] [goru:3.1] [goru:abl] [urnn:1] [urnn:7] [urnn:8]
[bp:gru1] [bp:gru2] [bp:rnn] [bp:urnn] [bp:lstm] [bp:bptt]; FastRNN's gates are in test_fastrnn.py."""

import cmath
import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from gradients.checks import cells
from gradients.problem import Problem, random_problem, relative_error
from ortho_ref import backend, fused, scan
from ortho_ref.backend import to_device, to_host
from ortho_ref.cells import LSTM, Cell, Elman, FastRNN, GRUResetAfter, GRUResetBefore
from ortho_ref.cells.by_name import CELLS as LISTED, by_name, options_of
from ortho_ref.cells.cell import parts_of, state_of
from ortho_ref.finite_differences import compare_gradients
from ortho_ref.layers import real_features

CELLS = cells()
SMOOTH = [
    name
    for name, cell in CELLS.items()
    if math.isinf((problem := random_problem(cell, np.random.default_rng(0))).kink_distance(problem.point))
]

problems = {
    "seed": st.integers(0, 2**32 - 1),
    "T": st.integers(3, 5),
    "B": st.integers(3, 4),
    "m": st.integers(1, 3),
    "n": st.integers(1, 4),
    "tokens": st.booleans(),
}


@pytest.mark.parametrize("name", CELLS)
@settings(max_examples=8)
@given(**problems)
def test_every_gradient_against_finite_differences(name, seed, T, B, m, n, tokens):
    """Weights, x and h0, every entry, from upstream at every step and at the last, nonzero biases and h0 [bp:gru1]
    [bp:gru2] [bp:rnn] [bp:urnn] [bp:lstm]."""
    problem = random_problem(CELLS[name], np.random.default_rng(seed), T=T, B=B, m=m, n=n, tokens=tokens)
    ours = problem.gradients(scan)
    # a relu unit may be off throughout, and with n = 1 all of a weight's gradient with it
    report = compare_gradients(
        problem.loss, problem.point, ours, kink_distance=problem.kink_distance, may_vanish=list(ours)
    )
    assert set(ours) == set(problem.point)
    assert report.passed, f"\n{report}"


@pytest.mark.parametrize("name", SMOOTH)
@settings(max_examples=4)
@given(**problems)
def test_smooth_cells_against_the_complex_step(name, seed, T, B, m, n, tokens):
    """No cancellation: 1e-12, five digits past what differences can see."""
    problem = random_problem(CELLS[name], np.random.default_rng(seed), T=T, B=B, m=m, n=n, tokens=tokens)
    report = compare_gradients(problem.loss, problem.point, problem.gradients(scan), complex_step=True, tolerance=1e-12)
    assert report.passed, f"\n{report}"


SIGMOID = lambda a: 1 / (1 + math.exp(-a))  # noqa: E731
# Phi(a, b) of one number
PHI = {
    "tanh": lambda a, b: math.tanh(a + b),
    "relu": lambda a, b: max(a + b, 0),
    "modrelu": lambda a, b: math.copysign(max(abs(a) + b, 0), a),
}


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("update_gate", [True, False])
@pytest.mark.parametrize("reset_gate", [True, False])
@pytest.mark.parametrize("activation", PHI)
def test_gru_reset_after_values_by_hand(activation, reset_gate, update_gate, bias):
    """goru:2.2, goru:2.3, goru:2.4 and goru:3.1, goru:3.2, goru:3.3 with n = m = 1, two steps in plain arithmetic: r on
    the product and b_hh, z weighs the old state, modReLU's bias inside (E-goru-02), a gate that is off a number of its
    own (goru:abl)."""
    cell = GRUResetAfter(activation, reset_gate, update_gate, bias)
    values = {"W_r": 0.5, "U_r": -1.0, "b_r": 0.3, "W_z": 0.7, "U_z": 0.4, "b_z": -0.2, "W_h": 1.5, "U_h": -0.8}
    values |= {"b_h": 0.1, "b_hh": 0.25, "r": 1.7, "z": -0.3}
    w = {name: np.full(shape, values[name]) for name, shape in cell.shapes(1, 1).items()}
    h, expected = np.array([[0.6]]), 0.6
    for x in (2.0, -1.5):
        r = SIGMOID(0.5 * x - 1.0 * expected + 0.3) if reset_gate else 1.7
        z = SIGMOID(0.7 * x + 0.4 * expected - 0.2) if update_gate else -0.3
        a = 1.5 * x + r * (-0.8 * expected + (0.25 if bias else 0))
        expected = z * expected + (1 - z) * PHI[activation](a, 0.1)
        h, _ = cell.step_forward(w, np.array([[x]]), h)
        np.testing.assert_allclose(h, expected, rtol=1e-14)


@pytest.mark.parametrize("engine", [scan, fused], ids=["scan", "fused"])
def test_complex_elman_values_by_hand(engine):
    """urnn:1, goru:2.6 and urnn:8 with n = m = 1 over three steps, in plain complex arithmetic: on, off, and grown by b
    > 0 [goru:2.1]."""
    W, U, h = 0.5 - 0.25j, cmath.exp(0.7j), 0.6 - 0.3j
    for b in (-1.0, 0.3):
        expected = [h]
        for x in (2.0, -0.6, 1.0):
            z = W * x + U * expected[-1]
            expected.append(z / abs(z) * max(abs(z) + b, 0))
        w = {"W": np.array([[W]]), "U": np.array([[U]]), "b": np.array([b])}
        x = np.array([2.0, -0.6, 1.0]).reshape(3, 1, 1)
        ours, _ = engine.forward(Elman("modrelu", complex=True), w, x, np.array([[h]]))
        np.testing.assert_allclose(ours[:, 0, 0], expected, rtol=1e-14, atol=1e-15)
        assert (0 in expected) == (b < 0)


@pytest.mark.parametrize("engine", [scan, fused], ids=["scan", "fused"])
@pytest.mark.parametrize("tokens", [False, True])
def test_complex_elman_is_a_real_network_of_pairs(engine, tokens):
    """urnn:7: on (Re h, Im h) of 2 n real numbers U is (Re U, -Im U; Im U, Re U), and modReLU scales pairs by their
    length.  Values, and every gradient as differences of that real network."""
    cell = Elman("modrelu", complex=True)
    problem = random_problem(cell, np.random.default_rng(1), T=4, n=3, tokens=tokens)

    def pairs(point):
        U, W, h = point["U"], point["W"], point["h0"]
        U, W = np.block([[U.real, -U.imag], [U.imag, U.real]]), np.concatenate([W.real, W.imag])
        x, h = point.get("x", problem.x), np.concatenate([h.real, h.imag], axis=1)
        history = [h]
        for x_t in np.eye(3)[x] if tokens else x:
            z = x_t @ W.T + h @ U.T
            length = np.hypot(z[:, :3], z[:, 3:])
            h = z * np.tile(np.maximum(length + point["b"], 0) / length, 2)
            history.append(h)
        return np.stack(history)

    h, _ = engine.forward(cell, problem.weights, problem.x, problem.h0)
    np.testing.assert_allclose(real_features(h), pairs(problem.point), rtol=1e-13, atol=1e-14)
    weights = (real_features(problem.dh), real_features(problem.dh_T))

    def loss(point):
        h = pairs(point)
        return (weights[0] * h[1:]).sum() + (weights[1] * h[-1]).sum()

    report = compare_gradients(loss, problem.point, problem.gradients(engine), kink_distance=problem.kink_distance)
    assert report.passed, f"\n{report}"


I, F = SIGMOID(0.5 * 2 - 1.0 * 0.6 + 0.3), SIGMOID(0.7 * 2 + 0.4 * 0.6 - 0.2)
LSTM_C = F * -0.4 + I * math.tanh(1.5 * 2 - 0.8 * 0.6 + 0.1)
# A cell with n = m = 1: its weights in their order, x, the state before, and the state after, in plain arithmetic; of
# the GRU the reset is inside the product, and u = F the weight of the new content.
BY_HAND = {
    "LSTM": (
        (0.5, -1.0, 0.3, 0.7, 0.4, -0.2, 1.5, -0.8, 0.1, 0.9, 0.2, -0.6),
        2.0,
        (0.6, -0.4),
        (SIGMOID(0.9 * 2 + 0.2 * 0.6 - 0.6) * math.tanh(LSTM_C), LSTM_C),
    ),
    **{
        f"GRUResetBefore {activation}": (
            (0.5, -1.0, 0.3, 0.7, 0.4, -0.2, 1.5, -0.8, 0.1),
            2.0,
            (0.6,),
            ((1 - F) * 0.6 + F * PHI[activation](1.5 * 2 - 0.8 * (I * 0.6), 0.1),),
        )
        for activation in PHI
    },
    "Elman modrelu": ((0.5, -1.5, -0.3), -2.0, (0.6,), (-(abs(0.5 * -2 - 1.5 * 0.6) - 0.3),)),
}


@pytest.mark.parametrize("name", BY_HAND)
def test_values_by_hand(name):
    """ncgru:1, bp:lstm and urnn:1, and whatever is added: each part of the state [ncgru:19] [ncgru:28]."""
    cell, (weights, x, before, after) = CELLS[name], BY_HAND[name]
    w = {key: np.full(shape, value) for (key, shape), value in zip(cell.shapes(1, 1).items(), weights, strict=True)}
    h, _ = cell.step_forward(w, np.array([[x]]), state_of(tuple(np.array([[part]]) for part in before)))
    np.testing.assert_allclose(np.ravel(parts_of(cell, h)), after, rtol=1e-14)


@pytest.mark.parametrize("name", CELLS)
@pytest.mark.parametrize("tokens", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_every_device_gives_what_the_host_gives(device, name, tokens, dtype):
    """(T+1, B, n) with h[0] = h0, and gradients; float32 in gives float32 out, complex64 of complex; nothing given is
    modified."""
    cell = CELLS[name]
    problem = random_problem(cell, np.random.default_rng(1), dtype=dtype, tokens=tokens)
    given_problem = problem.on(device)
    before = [array.copy() for array in _arrays(given_problem)]
    h, _ = scan.forward(cell, given_problem.weights, given_problem.x, given_problem.h0)
    for state, start in zip(parts_of(cell, h), parts_of(cell, problem.h0), strict=True):
        assert (state.shape, state.dtype) == ((5, 3, 5), backend.complex_dtype(dtype) if cell.complex else dtype)
        np.testing.assert_array_equal(backend.to_host(state)[0], start)
    ours, theirs = backend.to_host(given_problem.gradients(scan)), problem.gradients(scan)
    assert set(ours) == set(problem.point)
    assert "x" in ours or tokens
    for key, gradient in ours.items():
        assert (gradient.shape, gradient.dtype) == (problem.point[key].shape, problem.point[key].dtype)
        assert relative_error(gradient, theirs[key]) < (1e-12 if dtype == np.float64 else 1e-4)
    assert all(relative_error(a, b) == 0 for a, b in zip(before, _arrays(given_problem), strict=True))


def _arrays(problem):
    return [*problem.point.values(), problem.x, problem.dh, *parts_of(problem.cell, problem.dh_T)]


@pytest.mark.parametrize("name", CELLS)
def test_tokens_are_one_hot_vectors(name):
    """bp:bptt/tokens: a token is the one-hot vector it names."""
    cell = CELLS[name]
    problem = random_problem(cell, np.random.default_rng(2), m=4, tokens=True)
    dense = Problem(cell, problem.weights, np.eye(4)[problem.x], problem.h0, problem.dh, problem.dh_T)
    ours, theirs = problem.gradients(scan), dense.gradients(scan)
    assert set(theirs) - set(ours) == {"x"}
    assert all(relative_error(ours[key], theirs[key]) < 1e-13 for key in ours)


@pytest.mark.parametrize("name", CELLS)
def test_no_h0_is_zeros_and_no_dh_T_is_none(name):
    """The defaults of scan are the zero state and no upstream at the last state beyond dh."""
    cell = CELLS[name]
    problem = random_problem(cell, np.random.default_rng(3))
    zero = scan.zero_state(cell, problem.weights, 3)
    h, tape = scan.forward(cell, problem.weights, problem.x)
    h_zero, _ = scan.forward(cell, problem.weights, problem.x, zero)
    np.testing.assert_array_equal(h, h_zero)
    ours = scan.backward(cell, problem.weights, tape, problem.dh)
    theirs = scan.backward(cell, problem.weights, tape, problem.dh, zero)
    assert all(np.array_equal(ours.weights[key], theirs.weights[key]) for key in ours.weights)


@pytest.mark.parametrize("engine", [scan, fused], ids=["scan", "fused"])
@pytest.mark.parametrize(("b", "h0", "dh"), [(-0.75, 0.75, 1.0), (-5.0, 3 + 4j, 1 - 2j)], ids=["real", "complex"])
def test_kinks_carry_no_gradient(device, engine, b, h0, dh):
    """modReLU at z = 0 under b > 0, -0.0 too, and at |z| + b = 0: value and every derivative 0 go through the cell."""
    cell, kind = Elman("modrelu", complex=isinstance(h0, complex)), type(h0)
    w = {"W": np.zeros((3, 1), kind), "U": np.eye(3, dtype=kind), "b": np.array([0.5, 0.5, b])}
    x, start, dh = to_device((np.ones((1, 1, 1)), np.array([[0, -0.0 * h0, h0]]), np.full((1, 1, 3), dh)), device)
    w = to_device(w, device)
    h, tape = engine.forward(cell, w, x, start)
    np.testing.assert_array_equal(to_host(h[1]), 0)
    gradients = to_host(engine.backward(cell, w, tape, dh))
    assert not any(np.any(g) for g in (gradients.x, gradients.h0, *gradients.weights.values()))


GELU = r"activation is 'gelu' \(did you mean 'relu'\?\); allowed: 'tanh', 'relu', 'modrelu'"


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Elman("tanh", complex=True), "activation is 'tanh'; allowed for a complex cell: 'modrelu'"),
        (lambda: Elman(complex=True), "activation is 'tanh'; allowed for a complex cell: 'modrelu'"),
        (lambda: Elman("gelu", complex=True), GELU),
        *((lambda kind=kind: kind("gelu"), GELU) for kind in (GRUResetBefore, GRUResetAfter, Elman, FastRNN)),
        (lambda: Elman("modrelu", complex="false"), "complex is 'false'; allowed: True, False"),
        (lambda: GRUResetAfter(reset_gate=0), "reset_gate is 0; allowed: True, False"),
        (lambda: GRUResetAfter(update_gate="no"), "update_gate is 'no'; allowed: True, False"),
        (lambda: GRUResetAfter(recurrent_bias=None), "recurrent_bias is None; allowed: True, False"),
    ],
)
def test_options_that_cannot_be(build, message):
    """The error names the argument, the value and what is allowed."""
    with pytest.raises(ValueError, match=f"^{message}$"):
        build()


def test_weights_of_the_gates_that_are_on():
    """A gate that is off has its vector and no matrices; b_hh only where asked for; each in its order."""

    def names(*options):
        return " ".join(GRUResetAfter("tanh", *options).shapes(2, 3))

    assert names() == "W_r U_r b_r W_z U_z b_z W_h U_h b_h"
    assert names(False) == "r W_z U_z b_z W_h U_h b_h"
    assert names(True, False, True) == "W_r U_r b_r z W_h U_h b_h b_hh"
    shapes = GRUResetAfter("tanh", False, True, True).shapes(2, 3)
    assert (shapes["r"], shapes["W_z"], shapes["U_h"], shapes["b_hh"]) == ((3,), (3, 2), (3, 3), (3,))


@pytest.mark.parametrize("name", CELLS)
def test_initial_values(name):
    """Matrices of Glorot's range, of a complex cell n outputs as 2 n and both parts drawn (urnn:init); biases real and
    0 but the LSTM's b_f = 1; in place of a gate r = 1 or z = 1/2; SGORNN's scalars."""
    cell, twice = CELLS[name], 2 if CELLS[name].complex else 1
    constants = {"b_f": float(name == "LSTM"), "r": 1, "z": 0.5, "alpha": -3.75, "beta": 3}
    for key, value in cell.init(np.random.default_rng(0), 30, 50, dtype=np.float32).items():
        if value.ndim < 2:
            assert value.dtype == np.float32
            assert set(np.ravel(value).tolist()) == {constants.get(key, 0)}, key
            continue
        assert value.dtype == (np.complex64 if cell.complex else np.float32)
        limit = math.sqrt(6 / (twice * 50 + (twice * 50 if key[0] == "U" else 30)))
        for part in (value.real, value.imag) if cell.complex else (value,):
            assert -limit * (1 + 1e-6) <= part.min() < -0.98 * limit < 0.98 * limit < part.max() <= limit * (1 + 1e-6)
            assert abs(part.mean()) < 0.1 * limit
        if cell.complex:
            assert abs(np.corrcoef(value.real.ravel(), value.imag.ravel())[0, 1]) < 0.1


@pytest.mark.parametrize("name", [name for name in CELLS if name not in SMOOTH])
def test_the_kink_distance_is_the_least_of_a_batch(name):
    """That of the nearest sequence; their distances differ, unless a clipped gate, which all share, is nearer."""
    problem = random_problem(CELLS[name], np.random.default_rng(0), B=4)
    w, x, h = problem.weights, problem.x[0], problem.h0
    parts = [(x[i : i + 1], h[i : i + 1]) for i in range(4)]
    alone = [problem.cell.kink_distance(w, problem.cell.step_forward(w, *part)[1]) for part in parts]
    assert problem.cell.kink_distance(w, problem.cell.step_forward(w, x, h)[1]) == min(alone)
    assert len(set(alone)) > 1 or problem.cell.constraint == "sgornn"


@pytest.mark.parametrize("kind", [Elman, FastRNN, GRUResetBefore, GRUResetAfter])
def test_phi_bias_names_the_bias_of_phi(kind):
    """All weights 0 but this one: relu is as far from its kink as that is from 0."""
    cell = kind("relu")
    zeros = {name: np.zeros(shape) for name, shape in cell.shapes(2, 3).items()}
    _, cache = cell.step_forward(zeros | {cell.phi_bias: np.full(3, 0.3)}, np.zeros((2, 2)), np.zeros((2, 3)))
    assert cell.kink_distance(zeros | {cell.phi_bias: np.full(3, 0.3)}, cache) == 0.3
    assert LSTM().phi_bias is None


@pytest.mark.parametrize("name", CELLS)
def test_a_cell_is_its_options(name):
    """Two of the same options are equal and can be keys; none can be changed."""
    cell = CELLS[name]
    assert dataclasses.replace(cell) == cell
    assert hash(dataclasses.replace(cell)) == hash(cell)
    for option in [*(field.name for field in dataclasses.fields(cell)), "more"]:
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(cell, option, None)


@pytest.mark.parametrize("missing", ["products", "step_forward", "step_backward"])
def test_a_cell_that_is_not_whole(missing):
    """It cannot be made, and the error names what it lacks; whole it can, and is real unless it says otherwise."""
    members = dict.fromkeys(("products", "step_forward", "step_backward"))
    assert not type("Whole", (Cell,), members)().complex
    with pytest.raises(TypeError, match=f"abstract method '?{missing}'?$"):
        type("Half", (Cell,), {name: None for name in members if name != missing})()


def test_cells_by_name():
    """Under the names of their files, with their options; the errors list what there is."""
    assert by_name("elman", activation="relu", complex=False) == Elman("relu")
    assert by_name("lstm") == LSTM()
    assert options_of(FastRNN) == ("activation", "constraint")
    assert {"gru_reset_before", "gru_reset_after", "fastrnn", "lstm", "elman"} <= LISTED.keys()
    with pytest.raises(TypeError, match=r"^elman has no option 'order'; allowed: activation, complex$"):
        by_name("elman", order=2)
    with pytest.raises(TypeError, match=r"^lstm has no option 'activation'; allowed: none$"):
        by_name("lstm", activation="relu")
