"""Adam and name patterns [bp:opt/m] [bp:opt/v] [bp:opt/delta] (E-ncgru-11)."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ortho_ref.backend import to_device, to_host
from ortho_ref.optimizers import Adam, ByName


def run(optimizer, gradients, name="w", device="cpu"):
    """The deltas for these gradients, one after the other."""
    moved = [to_device(g, device) for g in gradients]
    return [to_host(optimizer.delta(name, g, g)) for g in moved]


def textbook(gradients, rate, beta1, beta2, epsilon):
    """Algorithm 1 of Kingma and Ba for one real number, with hatted moments, in plain Python."""
    m = v = 0.0
    for t, g in enumerate(map(float, gradients), 1):
        m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g**2
        m_hat, v_hat = m / (1 - beta1**t), v / (1 - beta2**t)
        yield rate * m_hat / (math.sqrt(v_hat) + epsilon)


@settings(max_examples=15)
@given(
    seed=st.integers(0, 2**32 - 1),
    shape=st.sampled_from([(), (1,), (3,), (2, 3)]),
    rate=st.floats(0, 10),
    beta1=st.floats(0, 0.99),
    beta2=st.floats(0, 0.9999),
    epsilon=st.floats(1e-12, 1),
)
def test_adam_is_the_textbook_recursion(device, seed, shape, rate, beta1, beta2, epsilon):
    """[bp:opt/m] [bp:opt/v] [bp:opt/delta] entry by entry over 7 steps; two names keep two histories."""
    rng = np.random.default_rng(seed)
    gradients = [np.asarray(rng.standard_normal(shape) * 10.0 ** rng.integers(-6, 3)) for _ in range(7)]
    adam = Adam(rate, beta1, beta2, epsilon)
    run(adam, gradients[:2], "other", device)
    ours = np.stack(run(adam, gradients, "w", device))
    assert ours.shape == (7, *shape)
    for index in np.ndindex(shape):
        theirs = list(textbook([g[index] for g in gradients], rate, beta1, beta2, epsilon))
        np.testing.assert_allclose(ours[(slice(None), *index)], theirs, rtol=1e-10, atol=1e-300)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_skew_stays_skew_bit_by_bit(device, dtype):
    """E-ncgru-11: over 300 random skew gradients A + A^T is 0, and A is what its upper triangle alone gives."""
    rng = np.random.default_rng(0)

    def skew():
        X = rng.standard_normal((17, 17)) * 10.0 ** rng.integers(-6, 3)
        return (X - X.T).astype(dtype)

    A, upper, adam = to_device(skew(), device), np.triu_indices(17, 1), Adam(1e-2)
    a = to_device(to_host(A)[upper], device)
    for _ in range(300):
        g = skew()
        A = A - adam.delta("A", A, to_device(g, device))
        a = a - adam.delta("a", a, to_device(g[upper], device))
    A = to_host(A)
    assert A.dtype == dtype
    np.testing.assert_array_equal(A, -A.T)
    np.testing.assert_array_equal(A[upper], to_host(a))
    assert abs(A).max() > 0.1


@pytest.mark.parametrize("shape", [(), (3,), (4, 3)])
@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_complex_is_two_real_parameters(device, shape, dtype):
    """A complex parameter moves as its real and its imaginary part would alone, to the bit, in any memory order."""
    rng = np.random.default_rng(1)
    gradients = [
        np.asarray(rng.standard_normal(shape[::-1]) + 1j * rng.standard_normal(shape[::-1]), dtype).T for _ in range(5)
    ]
    ours = run(Adam(), gradients, device=device)
    parts = [run(Adam(), [np.array(part(g)) for g in gradients]) for part in (np.real, np.imag)]
    for delta, re, im in zip(ours, *parts, strict=True):
        assert (delta.shape, delta.dtype) == (shape, dtype)
        np.testing.assert_array_equal(delta.real, re)
        np.testing.assert_array_equal(delta.imag, im)
    assert not np.array_equal(ours[-1].real, ours[-1].imag)


def test_delta_is_fresh_and_the_gradient_untouched(device):
    """What the caller does to a delta or a gradient afterwards does not reach the moments; dtype in is dtype out."""
    gradients = [np.random.default_rng(k).standard_normal(4).astype(np.float32) for k in range(3)]
    expected, adam = run(Adam(), gradients), Adam()
    for g, delta in zip(gradients, expected, strict=True):
        given_g = to_device(g.copy(), device)
        ours = adam.delta("w", given_g, given_g)
        np.testing.assert_array_equal(to_host(given_g), g)
        assert ours.dtype == np.float32
        np.testing.assert_array_equal(to_host(ours), delta)
        ours *= 0
        given_g *= 0


@pytest.mark.parametrize("make", [Adam, lambda: ByName({"*.A": Adam(0.1), "*": Adam()})], ids=["Adam", "ByName"])
def test_state_and_load_continue_bit_by_bit(device, make):
    """The state is everything the next delta depends on; neither side of it shares memory with an optimizer."""
    gradients = [np.random.default_rng(k).standard_normal((3, 2)) for k in range(8)]
    names = ("U.A", "W")
    whole, first, second = make(), make(), make()
    expected = {name: run(whole, gradients, name, device) for name in names}
    for name in names:
        run(first, gradients[:4], name, device)
    state = first.state()
    for name in names:
        run(first, gradients, name, device)  # must not reach the state
    second.load(state)
    for moments in [state] if "m" in state else state.values():
        for array in (*moments["m"].values(), *moments["v"].values()):
            array *= float("nan")  # must not reach the second optimizer
        moments["step"].clear()
    for name in names:
        np.testing.assert_array_equal(run(second, gradients[4:], name, device), expected[name][4:])


def test_by_name_takes_the_first_pattern():
    """The order of the patterns decides, case counts, and an unknown name is an error that lists them."""
    slow, fast = Adam(1e-3), Adam(1.0)
    assert ByName({"*.A": slow, "*": fast}).optimizer("layer0.U_c.A") is slow
    assert ByName({"*": fast, "*.A": slow}).optimizer("layer0.U_c.A") is fast
    assert ByName({"*.A": slow, "*": fast}).optimizer("layer0.U_c.a") is fast
    g = np.ones(1)
    both = ByName({"*.A": slow, "*": fast})
    np.testing.assert_allclose([both.delta("U.A", g, g), both.delta("W", g, g)], [[1e-3], [1.0]], rtol=1e-7)
    with pytest.raises(KeyError, match=r"no pattern fits the parameter 'readout.W': \*\.A, layer0\.\*"):
        ByName({"*.A": slow, "layer0.*": fast}).delta("readout.W", g, g)


@pytest.mark.parametrize(
    ("argument", "value"),
    [("learning_rate", v) for v in (-1e-3, math.inf, math.nan)]
    + [(beta, v) for beta in ("beta1", "beta2") for v in (-0.1, 1.0, math.nan)]
    + [("epsilon", v) for v in (0, 0.0, -1e-8, math.nan)],
)
def test_bad_arguments(argument, value):
    """Named with the value; epsilon = 0 is among them, which would make A's zero diagonal 0 / 0 (E-ncgru-11)."""
    with pytest.raises(ValueError, match=rf"^{argument} is {value}; allowed: "):
        Adam(**{argument: value})


def test_epsilon_that_vanishes_in_the_parameters_precision():
    """1e-46 is above 0 but 0 in float32, where the zero diagonal of A would give 0 / 0."""
    Adam(epsilon=1e-46).delta("A", np.zeros(2), np.zeros(2))
    with pytest.raises(ValueError, match="epsilon is 1e-46, which is 0 in float32, the precision of A"):
        Adam(epsilon=1e-46).delta("A", np.zeros(2, np.float32), np.zeros(2, np.float32))
