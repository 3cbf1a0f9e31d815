"""Bounds on the norm of one step's Jacobian, NC-GRU's as corrected and tighter, GORU's, the LSTM's: they hold, and are
attained [ncgru:8] [ncgru:9] [ncgru:10] [ncgru:11] [ncgru:12] [ncgru:13] [ncgru:14] [ncgru:15] [ncgru:21] [ncgru:22]
[ncgru:thm1-tight] [ncgru:30] [ncgru:31] [ncgru:32] [ncgru:33] [ncgru:34] [ncgru:35] [ncgru:36] [ncgru:37] [ncgru:38]
[ncgru:39] [ncgru:40] [ncgru:41] [goru:jac/bound] [bp:lstm/bound]."""

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from gradients import bounds, gru_reset_after, gru_reset_before, lstm
from gradients.bptt import Bound
from ortho_ref.activations import ACTIVATIONS
from ortho_ref.cells import CELLS, LSTM, GRUResetAfter, GRUResetBefore, by_name
from tests.gradients.matrices import SLACK, orthogonal

DRAWS = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 2**32 - 1),
        "n": st.integers(1, 6),
        "scale": st.sampled_from([0.1, 0.3, 1.0, 3.0, 8.0, 100.0]),
        "saturation": st.sampled_from([0.0, 2.0, 6.0, 20.0, 60.0, 800.0]),
        "activation": st.sampled_from(sorted(ACTIVATIONS)),
        "steps": st.sampled_from([0, 1, 8]),
    }
)


def drawn(seed, n, scale, saturation, activation, steps, h_size=0.0, orthogonal_weights=""):
    """(cell, weights, x, h): h after some steps from h_0, which is 0, or normal numbers of the size given."""
    rng, m = np.random.default_rng(seed), 2
    cell = GRUResetBefore(activation)
    w = {name: rng.standard_normal(shape) * scale / math.sqrt(n) for name, shape in cell.shapes(m, n).items()}
    for gate in "ru":
        w[f"b_{gate}"] = rng.standard_normal(n) + saturation * rng.choice([-1.0, 1.0], n)
    for gate in orthogonal_weights:
        w[f"U_{gate}"] = orthogonal(rng, n)
    h = h_size * rng.standard_normal(n)
    for _ in range(steps):
        h = gru_reset_before.values(cell, w, rng.standard_normal(m), h).h
    return cell, w, rng.standard_normal(m), h


def holds(bound):
    """To rounding; of bounds near the smallest numbers there are, rounding is all there is."""
    return bound.actual <= bound.bound * SLACK + 1e-290


@given(draw=DRAWS, h_size=st.sampled_from([0.0, 1.0, 100.0]))
def test_theorem_1_its_proof_and_the_tighter_form(draw, h_size):
    """ncgru:8 and ncgru:30, ncgru:31, ncgru:32, ncgru:33, ncgru:34, ncgru:35, ncgru:36, ncgru:37, ncgru:38, ncgru:39,
    ncgru:40, ncgru:41, ncgru:42, ncgru:43, ncgru:44 and ncgru:45, every inequality, with absolute values; any
    activation, saturated gates, weights and states of any size [ncgru:9] [ncgru:10] [ncgru:11] [ncgru:12]
    [ncgru:thm1] [ncgru:thm1-tight] [ncgru:23] [ncgru:24] [ncgru:25] [ncgru:26] [ncgru:27] [ncgru:28]."""
    at = drawn(**draw, h_size=h_size)
    for bound in (bounds.theorem_1(*at), bounds.theorem_1_tight(*at), *bounds.proof_of_theorem_1(*at).values()):
        assert holds(bound)
        assert bound.ratio <= SLACK or bound.bound < 1e-290
    # collected from ncgru:41, the theorem can only be larger
    assert bounds.proof_of_theorem_1(*at)["41"].bound <= bounds.theorem_1(*at).bound * SLACK


def test_a_ratio_of_nothing():
    """r rounds to 1 and delta_r to 0: nothing bounds nothing, which is no division by 0; something over nothing is."""
    w = {f"{kind}_{gate}": np.ones((1, 1)) for kind in "WU" for gate in "ruc"}
    w |= {"b_r": np.array([60.0]), "b_u": np.zeros(1), "b_c": np.zeros(1)}
    bound = bounds.proof_of_theorem_1(GRUResetBefore(), w, np.zeros(1), np.zeros(1))["30"]
    assert (bound.bound, bound.actual, bound.ratio) == (0, 0, 0)
    assert Bound(0.0, 1.0).ratio == math.inf


@given(draw=DRAWS, start=st.sampled_from([0.0, 0.3, 1.0]))
def test_corollary_1(draw, start):
    """ncgru:13, tanh and |h_0| <= 1: |h| <= 1, |c| <= 1 step by step [ncgru:47] [ncgru:48] [ncgru:49] [ncgru:50]
    [ncgru:51] [ncgru:52], and the bounds of alpha and beta from U_u and U_r alone [ncgru:cor1] [ncgru:46] [ncgru:53]
    [ncgru:54] [ncgru:55] [ncgru:56] [ncgru:57] [ncgru:58]."""
    cell, w, x, _ = drawn(**(draw | {"activation": "tanh", "steps": 0}))
    rng = np.random.default_rng(draw["seed"])
    h = start * np.sign(rng.standard_normal(draw["n"]))
    largest_alpha, largest_beta = bounds.corollary_1(w)
    for _ in range(8):
        k, v = bounds.constants(cell, w, x, h), gru_reset_before.values(cell, w, x, h)
        assert k.alpha <= largest_alpha * SLACK
        assert k.beta <= largest_beta * SLACK
        assert abs(v.c).max() <= 1
        h, x = v.h, rng.standard_normal(2)
        assert abs(h).max() <= 1


def test_corollary_1_needs_its_conditions():
    """|h_0| = 10, and modReLU, break it."""
    rng = np.random.default_rng(0)
    for activation, h_size in (("tanh", 10.0), ("modrelu", 1.0)):
        broken = 0
        for seed in range(50):
            cell, w, x, h = drawn(seed, 3, 4.0, 0.0, activation, 0 if activation == "tanh" else 6, h_size)
            k, limits = bounds.constants(cell, w, x + rng.standard_normal(2), h), bounds.corollary_1(w)
            broken += k.alpha > limits[0] or k.beta > limits[1]
        assert broken > 5


@given(draw=DRAWS, h_size=st.sampled_from([0.0, 1.0, 100.0]))
def test_corollaries_2_and_3(draw, h_size):
    """With their eps terms: of alpha + beta for any weights; of the norm for orthogonal U_r and U_c, sharper too
    [ncgru:14] [ncgru:15] [ncgru:cor2] [ncgru:21] [ncgru:22] [ncgru:cor3]."""
    bound, total = bounds.corollary_2(*drawn(**draw, h_size=h_size))
    assert total <= bound * SLACK
    at = drawn(**draw, h_size=h_size, orthogonal_weights="rc")
    for own in (bounds.corollary_3(*at), bounds.corollary_3_sharper(*at)):
        assert holds(own)
        assert own.ratio <= SLACK


@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 5),
    eps=st.sampled_from([1e-6, 1e-3, 0.03, 0.2, 0.49]),
    corner=st.sampled_from(["00", "01", "10", "11", "mixed"]),
    activation=st.sampled_from(["tanh", "modrelu"]),
)
def test_gates_within_eps(seed, n, eps, corner, activation):
    """ncgru:14, ncgru:15: nearness is what was asked for, and the uniform bound is used in the four corners alone
    [ncgru:cor2] [ncgru:cor3] [ncgru:21] [ncgru:22] [ncgru:59] [ncgru:60] [ncgru:61] [ncgru:62] [ncgru:63] [ncgru:64]
    [ncgru:65] [ncgru:66] [ncgru:67] [ncgru:68]."""
    cell, w, x, h = drawn(seed, n, 1.0, 0.0, activation, 0, 1.0, "rc")
    rng = np.random.default_rng(seed)
    for gate, side in zip("ur", corner if corner != "mixed" else "mm", strict=True):
        near = eps * rng.uniform(0, 1, n)
        near[rng.integers(n)] = eps
        ones = {"0": np.zeros(n, bool), "1": np.ones(n, bool), "m": np.arange(n) % 2 == 0}[side]
        value = np.where(ones, 1 - near, near)
        w[f"b_{gate}"] = np.log(value / (1 - value)) - w[f"W_{gate}"] @ x - w[f"U_{gate}"] @ h
    v, k = gru_reset_before.values(cell, w, x, h), bounds.constants(cell, w, x, h)
    assert bounds.nearness(v.u) == pytest.approx(eps, rel=1e-6)
    assert bounds.nearness(v.r) == pytest.approx(eps, rel=1e-6)
    bound, total = bounds.corollary_2(cell, w, x, h)
    assert total <= bound * SLACK
    H, C = abs(h).max(), abs(v.c).max()
    constant = 2 if corner == "mixed" and n > 1 else 1 + eps
    assert bound == pytest.approx(constant + eps * ((H + C) * k.U_u + H * k.U_r), rel=1e-5)
    assert holds(bounds.corollary_3(cell, w, x, h))
    assert holds(bounds.corollary_3_sharper(cell, w, x, h))


def test_corollary_3_needs_orthogonal_weights():
    """U_c = 3 I: the norm is 3, whatever the gates; the bounds hold by ||U_c||, far above the printed 1 and sqrt(2)."""
    w = {f"{kind}_{gate}": np.zeros((2, 2)) for kind in "WU" for gate in "ruc"}
    w |= {"b_r": np.full(2, 60.0), "b_u": np.full(2, 60.0), "b_c": np.zeros(2), "U_c": 3 * np.eye(2)}
    at = (GRUResetBefore("modrelu"), w, np.zeros(2), np.ones(2))
    assert bounds.corollary_3(*at).actual == pytest.approx(3)
    assert 2 < bounds.corollary_3(*at).bound == pytest.approx(3)
    assert holds(bounds.corollary_3_sharper(*at))
    assert bounds.theorem_1(*at).ratio == pytest.approx(1, rel=1e-12)


def one_unit(u, r, h, c, U_u, U_r, U_c):
    """Weights of one unit, x = 1, that give these values at h."""
    logit = lambda p: np.log(p / (1 - p))  # noqa: E731
    w = {"W_r": 0.0, "W_u": 0.0, "W_c": c - U_c * r * h, "U_r": U_r, "U_u": U_u, "U_c": U_c}
    w = {name: np.array([[value]]) for name, value in w.items()}
    return w | {"b_r": np.array([logit(r) - U_r * h]), "b_u": np.array([logit(u) - U_u * h]), "b_c": np.zeros(1)}


def test_theorem_1_is_attained():
    """One modReLU unit whose four terms have one sign: equality; tanh within 3 percent; any n with U's of scaled I
    [ncgru:thm1]."""
    x, h = np.ones(1), np.array([-0.7])
    w = one_unit(0.4, 0.6, -0.7, 0.5, U_u=2.0, U_r=-3.0, U_c=1.5)
    at = (GRUResetBefore("modrelu"), w, x, h)
    assert bounds.theorem_1(*at).ratio == pytest.approx(1, rel=1e-12)
    assert bounds.theorem_1(*at, printed=True).ratio > 1
    w["W_c"] = np.array([[0.1 - w["U_c"][0, 0] * 0.6 * -0.7]])
    assert 0.97 < bounds.theorem_1(GRUResetBefore("tanh"), w, x, h).ratio < 1
    n = 4
    w = one_unit(0.4, 0.6, -0.7, 0.5, U_u=2.0, U_r=-3.0, U_c=1.5)
    w = {name: np.kron(np.eye(n), value) if value.ndim == 2 else np.repeat(value, n) for name, value in w.items()}
    at = (GRUResetBefore("modrelu"), w, np.ones(n), np.repeat(h, n))
    assert bounds.theorem_1(*at).ratio == pytest.approx(1, rel=1e-12)
    assert all(
        bound.ratio > 1 - 1e-12 for name, bound in bounds.proof_of_theorem_1(*at).items() if name not in ("31", "34")
    )


def test_the_tighter_form_and_corollary_3_are_attained():
    """U_c swaps two units, u = (0, 1), r = 1: norm sqrt(2), where Theorem 1 says 2 [ncgru:thm1-tight] [ncgru:cor3]."""
    w = {f"{kind}_{gate}": np.zeros((2, 2)) for kind in "WU" for gate in "ruc"}
    w |= {"b_r": np.full(2, 60.0), "b_u": np.array([-60.0, 60.0]), "b_c": np.zeros(2)}
    w |= {"U_c": np.array([[0.0, 1], [1, 0]]), "U_r": np.eye(2)}
    at = (GRUResetBefore("modrelu"), w, np.zeros(2), np.array([0.3, 0.4]))
    for own in (bounds.theorem_1_tight(*at), bounds.corollary_3_sharper(*at)):
        assert own.bound == pytest.approx(math.sqrt(2))
        assert own.ratio == pytest.approx(1, rel=1e-12)
    assert bounds.theorem_1(*at).bound == pytest.approx(2)
    bound, total = bounds.corollary_2(*at)
    assert total == pytest.approx(2) == bound


def test_corollary_1_is_nearly_attained():
    """u = (1/2, 0), h and c near 1 and -1: alpha within 3 percent of ||U_u|| / 2 + 1; r alike for beta [ncgru:13]."""
    w = {f"{kind}_{gate}": np.zeros((2, 1 if kind == "W" else 2)) for kind in "WU" for gate in "ruc"}
    h, x = np.array([1.0, -1.0]), np.ones(1)
    w |= {"U_u": 3 * np.eye(2), "U_r": 2 * np.eye(2), "W_c": np.array([[-6.0], [6.0]]), "b_c": np.zeros(2)}
    at_half_and = lambda U, b: np.array([0.0, b]) - U @ h  # noqa: E731
    for b_u, b_r, name in ((-20.0, 0.0, "alpha"), (20.0, 20.0, "beta")):
        w |= {"b_u": at_half_and(w["U_u"], b_u), "b_r": at_half_and(w["U_r"], b_r)}
        k = bounds.constants(GRUResetBefore("tanh"), w, x, h)
        limit = dict(zip(("alpha", "beta"), bounds.corollary_1(w), strict=True))[name]
        assert 0.97 * limit < getattr(k, name) <= limit


@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 6),
    scale=st.sampled_from([0.1, 1.0, 8.0]),
    saturation=st.sampled_from([0.0, 6.0, 60.0]),
    activation=st.sampled_from(sorted(ACTIVATIONS)),
    options=st.fixed_dictionaries({name: st.booleans() for name in ("reset_gate", "update_gate", "recurrent_bias")}),
    ends=st.sampled_from([(0, 1), (-1.5, 4)]),
)
def test_gorus_bound(seed, n, scale, saturation, activation, options, ends):
    """goru:jac/bound, with both gates, either, or none; a gate that is off is a vector of weights in [0, 1], or, as
    nothing keeps a trained one there, beyond."""
    rng, m = np.random.default_rng(seed), 2
    cell = GRUResetAfter(activation, **options)
    w = {name: rng.standard_normal(shape) * scale / math.sqrt(n) for name, shape in cell.shapes(m, n).items()}
    for gate in "rz":
        if f"b_{gate}" in w:
            w[f"b_{gate}"] = rng.standard_normal(n) + saturation * rng.choice([-1.0, 1.0], n)
        else:
            w[gate] = rng.uniform(*ends, n)
    limit, norm = gru_reset_after.bound(cell, w, rng.standard_normal(m), 3 * rng.standard_normal(n))
    assert norm <= limit * SLACK


def test_gorus_bound_is_nearly_attained():
    """sqrt(2) by U_h that swaps, z = (1, 0); nothing keeps it below 1, U_h orthogonal or not (E-goru-07)."""
    cell = GRUResetAfter("modrelu")
    w = {f"{kind}_{gate}": np.zeros((2, 2)) for kind in "WU" for gate in "rzh"}
    w |= {"b_r": np.full(2, 60.0), "b_z": np.array([60.0, -60.0]), "b_h": np.zeros(2)}
    w["U_h"] = np.array([[0.0, 1], [1, 0]])
    limit, norm = gru_reset_after.bound(cell, w, np.zeros(2), np.array([0.3, 0.4]))
    assert limit == pytest.approx(math.sqrt(2))
    assert norm == pytest.approx(limit, rel=1e-12)
    one = {f"{kind}_{gate}": np.zeros((1, 1)) for kind in "WU" for gate in "rzh"}
    one |= {"b_r": np.array([60.0]), "b_z": np.array([-100.0]), "b_h": np.zeros(1), "U_h": np.ones((1, 1))}
    one |= {"U_z": np.ones((1, 1)), "W_h": np.array([[-200.0]])}  # h = 100, c = -100, z = 1/2
    limit, norm = gru_reset_after.bound(cell, one, np.ones(1), np.array([100.0]))
    assert 0.97 < norm / limit <= 1
    assert norm > 50
    # through r alone: z = 0, r = 1/2, and all of one sign
    one |= {"b_r": np.array([-1.2]), "b_z": np.array([-100.0]), "U_z": np.zeros((1, 1)), "W_h": np.zeros((1, 1))}
    limit, norm = gru_reset_after.bound(cell, one | {"U_r": np.full((1, 1), 4.0)}, np.ones(1), np.array([0.3]))
    assert norm == pytest.approx(limit, rel=1e-12)
    assert norm > 0.7


def test_bounds_by_the_cell_s_name(monkeypatch):
    """Of every cell on the table at least one, and it holds; of another the error lists those there are."""
    rng = np.random.default_rng(0)
    assert set(bounds.BOUNDS) <= set(CELLS)
    for name in bounds.BOUNDS:
        cell = by_name(name)
        w = {key: rng.standard_normal(shape) for key, shape in cell.shapes(2, 3).items()}
        state = rng.standard_normal(3 * len(cell.states))
        found = bounds.of_step(cell, w, rng.standard_normal(2), state)
        assert found
        assert all(0 < bound.ratio <= SLACK for bound in found.values())
        if name == "gru_reset_before":  # as the pictures have them
            assert set(found) == {"Theorem 1", "tighter"}
    monkeypatch.delitem(bounds.BOUNDS, "lstm")
    with pytest.raises(
        ValueError, match=r"the cell is lstm; bounds are for gru_reset_before, gru_reset_after, elman, fastrnn$"
    ):
        bounds.of_step(LSTM(), {}, np.zeros(2), np.zeros(6))


@given(st.integers(1, 6), st.integers(0, 10**6), st.sampled_from([0.3, 1.0, 4.0, 20.0]))
def test_the_bound_of_an_lstm(n, seed, scale):
    """bp:lstm/bound: of any weights and states, and reached where the gates are such that one block is all there is."""
    rng = np.random.default_rng(seed)
    w = {key: scale * rng.standard_normal(shape) for key, shape in LSTM().shapes(2, n).items()}
    found = lstm.bound(LSTM(), w, rng.standard_normal(2), scale * rng.standard_normal(2 * n))
    assert found.ratio <= SLACK
    open_ = {key: np.zeros_like(value) for key, value in w.items()} | {f"b_{k}": np.full(n, 40.0) for k in "ifo"}
    limit, norm = lstm.bound(LSTM(), open_, np.zeros(2), np.zeros(2 * n))  # h_t = tanh(c), c_t = c: sqrt(2)
    assert norm == pytest.approx(limit, rel=1e-12)
    assert norm == pytest.approx(2**0.5, rel=1e-12)


@given(st.integers(0, 10**6), st.floats(0.1, 2))
def test_the_bound_of_an_lstm_of_one_unit_is_its_norm(seed, scale):
    """bp:lstm/bound: where every term is a positive number nothing is lost between the sum and its bound."""
    rng = np.random.default_rng(seed)
    w = {key: abs(scale * rng.standard_normal(shape)) for key, shape in LSTM().shapes(2, 1).items()}
    limit, norm = lstm.bound(LSTM(), w, abs(rng.standard_normal(2)), abs(rng.standard_normal(2)))
    assert limit == pytest.approx(norm, rel=1e-12)
