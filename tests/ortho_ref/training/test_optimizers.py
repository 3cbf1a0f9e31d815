"""Optimizers, name patterns and clipping [bp:opt] [ncgru:skew] (E-ncgru-11)."""

import math
from re import escape

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ortho_ref.backend import to_device, to_host
from ortho_ref.training.optimizers import (
    OPTIMIZERS,
    SGD,
    Adam,
    ByName,
    RMSprop,
    clip_by_global_norm,
    clip_by_value,
    global_norm,
)
from ortho_ref.training.schedules import LinearToZero, Step
from tests.device import Foreign

RMSPROPS = [name for name in OPTIMIZERS if name.startswith("rmsprop")]


def run(optimizer, gradients, name="w", device="cpu", start=None):
    """The deltas of a parameter that begins at `start` (None: at 0) and has these gradients, one after the other."""
    p = to_device(np.zeros_like(gradients[0]) if start is None else start, device)
    deltas = []
    for g in gradients:
        deltas.append(optimizer.delta(name, p, to_device(g, device)))
        p = p - deltas[-1]
    return [to_host(delta) for delta in deltas]


# The recursions for one real number in plain Python: parameter, gradients, rates -> deltas.


def sgd_textbook(p, gradients, rates, momentum):
    """The velocity begins as the first gradient."""
    velocity = None
    for g, rate in zip(gradients, rates, strict=True):
        gradient = g(p)
        velocity = gradient if velocity is None else momentum * velocity + gradient
        p -= rate * velocity
        yield rate * velocity


def rmsprop_textbook(p, gradients, rates, decay, initial, epsilon, epsilon_inside):
    """Hinton's running mean of squares, epsilon where it is told."""
    mean = initial
    for g, rate in zip(gradients, rates, strict=True):
        gradient = g(p)
        mean = decay * mean + (1 - decay) * gradient**2
        root = math.sqrt(mean + epsilon) if epsilon_inside else math.sqrt(mean) + epsilon
        p -= rate * gradient / root
        yield rate * gradient / root


def adam_textbook(p, gradients, rates, beta1, beta2, epsilon):
    """Algorithm 1 of Kingma and Ba, with hatted moments."""
    m = v = 0.0
    for t, (g, rate) in enumerate(zip(gradients, rates, strict=True), 1):
        gradient = g(p)
        m, v = beta1 * m + (1 - beta1) * gradient, beta2 * v + (1 - beta2) * gradient**2
        m_hat, v_hat = m / (1 - beta1**t), v / (1 - beta2**t)
        delta = rate * m_hat / (math.sqrt(v_hat) + epsilon)
        p -= delta
        yield delta


EPSILON, INITIAL, DECAY = st.floats(1e-12, 1), st.floats(1e-6, 1), st.floats(0.1, 0.9999)
START = {"initial": st.one_of(st.just(0.0), INITIAL), "epsilon_inside": st.booleans()}
KINDS = {
    "sgd": (SGD, sgd_textbook, {"momentum": st.one_of(st.just(0.0), st.floats(0, 0.99))}),
    "rmsprop": (RMSprop, rmsprop_textbook, START | {"decay": st.floats(0, 0.9999), "epsilon": EPSILON}),
    "rmsprop0": (RMSprop, rmsprop_textbook, START | {"decay": DECAY, "initial": INITIAL, "epsilon": st.just(0.0)}),
    "adam": (Adam, adam_textbook, dict.fromkeys(("beta1", "beta2"), st.floats(0, 0.999)) | {"epsilon": EPSILON}),
}


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=10)
@given(data=st.data())
def test_the_textbook_recursions(device, kind, data):
    """Entry by entry over 7 updates, under weight decay and a schedule; two names keep two histories and counts
    [bp:opt]."""
    make, textbook, strategies = KINDS[kind]
    options = data.draw(st.fixed_dictionaries(strategies))
    shape = data.draw(st.sampled_from([(), (1,), (3,), (2, 3)]))
    rate = data.draw(st.floats(0, 10))
    weight_decay = data.draw(st.one_of(st.just(0.0), st.floats(0, 0.1)))
    schedule = data.draw(st.sampled_from([rate, LinearToZero(rate, 5), Step(rate, 2, 0.5), lambda k: rate / (1 + k)]))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    start = np.asarray(rng.standard_normal(shape))
    gradients = [np.asarray(rng.standard_normal(shape) * 10.0 ** rng.integers(-6, 3)) for _ in range(7)]
    rates = [schedule(k) if callable(schedule) else schedule for k in range(7)]
    optimizer = make(schedule, **options, weight_decay=weight_decay)
    run(optimizer, gradients[:2], "other", device)
    ours = np.stack(run(optimizer, gradients, "w", device, start))
    assert ours.shape == (7, *shape)
    for index in np.ndindex(shape):
        entries = [lambda p, g=float(g[index]): g + weight_decay * p for g in gradients]
        theirs = np.array(list(textbook(float(start[index]), entries, rates, **options)))
        scale = abs(theirs).max()  # where a momentum or a weight decay cancels, digits are lost
        np.testing.assert_allclose(ours[(slice(None), *index)], theirs, rtol=1e-10, atol=1e-13 * scale + 1e-300)


# The first and the second delta of the gradient 3 at the rate 1, by hand
BY_HAND = {
    "sgd": (3.0, 3.0),
    "momentum": (3.0, 5.7),
    "adam": (1 / (1 + 1e-8 / 3), 1 / (1 + 1e-8 / 3)),
    "rmsprop": (3 / (0.3 + 1e-8), 3 / (3 * math.sqrt(0.0199) + 1e-8)),
    "rmsprop-tensorflow": (3 / math.sqrt(1.8 + 1e-10), 3 / math.sqrt(2.52 + 1e-10)),
    "rmsprop-theano": (3 / math.sqrt(0.9009), 3 / math.sqrt(1.71081)),
    "rmsprop-keras": (3 / (math.sqrt(0.9) + 1e-7), 3 / (math.sqrt(1.71) + 1e-7)),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_named_variants(device, name):
    """Two updates with the gradient 3, by hand; weight_decay adds to the gradient what is told."""
    g, (first, second) = np.full(1, 3.0), BY_HAND[name]
    np.testing.assert_allclose(run(OPTIMIZERS[name](1.0), [g, g], device=device), [[first], [second]], rtol=1e-14)
    decayed = run(OPTIMIZERS[name](1.0, weight_decay=0.5), [g - 2], device=device, start=np.full(1, 4.0))
    np.testing.assert_allclose(decayed, [[first]], rtol=1e-14)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("weight_decay", [0.0, 0.01])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_skew_stays_skew_bit_by_bit(device, name, weight_decay, dtype):
    """E-ncgru-11: over random skew gradients A + A^T is 0, and A is what its upper triangle alone gives, which does not
    notice the diagonal's zero gradients; for long where v falls by a factor at each of them [ncgru:skew]."""
    rng = np.random.default_rng(0)
    updates = 1000 if name in RMSPROPS and dtype == np.float32 and not weight_decay else 300

    def skew():
        X = rng.standard_normal((17, 17)) * 10.0 ** rng.integers(-6, 3)
        return (X - X.T).astype(dtype)

    optimizer = OPTIMIZERS[name](1e-2, weight_decay=weight_decay)
    A, upper = to_device(skew(), device), np.triu_indices(17, 1)
    a = to_device(to_host(A)[upper], device)
    for _ in range(updates):
        g = skew()
        A = A - optimizer.delta("A", A, to_device(g, device))
        a = a - optimizer.delta("a", a, to_device(g[upper], device))
    A = to_host(A)
    assert A.dtype == dtype
    np.testing.assert_array_equal(A, -A.T)
    np.testing.assert_array_equal(A[upper], to_host(a))
    assert abs(A).max() > 0.1


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("shape", [(), (3,), (4, 3)])
@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_complex_is_two_real_parameters(device, shape, dtype, name):
    """A complex parameter moves as its real and its imaginary part would alone, to the bit, in any memory order."""
    rng = np.random.default_rng(1)

    def draw():
        return np.asarray(rng.standard_normal(shape[::-1]) + 1j * rng.standard_normal(shape[::-1]), dtype).T

    start, gradients = np.ascontiguousarray(draw()).reshape(shape), [draw() for _ in range(5)]
    make = lambda: OPTIMIZERS[name](0.1, weight_decay=0.3)  # noqa: E731
    ours = run(make(), gradients, device=device, start=start)
    parts = [run(make(), [np.array(p(g)) for g in gradients], start=np.array(p(start))) for p in (np.real, np.imag)]
    for delta, re, im in zip(ours, *parts, strict=True):
        assert (delta.shape, delta.dtype) == (shape, dtype)
        np.testing.assert_array_equal(delta.real, re)
        np.testing.assert_array_equal(delta.imag, im)
    assert not np.array_equal(ours[-1].real, ours[-1].imag)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_delta_is_fresh_and_the_inputs_untouched(device, name):
    """What the caller does to a delta or a gradient afterwards does not reach the buffers; dtype in is dtype out."""
    gradients = [np.random.default_rng(k).standard_normal(4).astype(np.float32) for k in range(3)]
    one = np.ones(4, np.float32)
    for weight_decay in (0.0, 0.1):
        plain, optimizer = (OPTIMIZERS[name](0.1, weight_decay=weight_decay) for _ in range(2))
        for g in gradients:
            expected = plain.delta("w", one, g)
            given_g, given_p = to_device(g.copy(), device), to_device(one.copy(), device)
            ours = optimizer.delta("w", given_p, given_g)
            np.testing.assert_array_equal(to_host(given_g), g)
            np.testing.assert_array_equal(to_host(given_p), one)
            assert ours.dtype == np.float32
            np.testing.assert_array_equal(to_host(ours), expected)
            ours *= 0
            given_g *= 0


@pytest.mark.parametrize("shape", [(), (2,)])
@pytest.mark.parametrize(
    "make",
    [
        lambda x: SGD(x, x, x),
        lambda x: RMSprop(x, x, x, x, False, x),
        lambda x: RMSprop(lambda k: x, x, x, x, True),
        lambda x: Adam(x, x, x, x, x),
    ],
)
def test_numpy_scalars_as_options_leave_float32(device, shape, make):
    """float64 scalars of NumPy would promote; they count as Python's numbers, to the bit."""
    gradients = [np.full(shape, 0.1 * k, np.float32) for k in range(1, 5)]
    ours, plain = run(make(np.float64(0.3)), gradients, device=device), run(make(0.3), gradients, device=device)
    assert {(delta.dtype, delta.shape) for delta in ours} == {(np.dtype(np.float32), shape)}
    np.testing.assert_array_equal(ours, plain)
    gradients = {"w": to_device(gradients[0], device)}
    for clipped in (clip_by_value(gradients, np.float64(0.03)), clip_by_global_norm(gradients, np.float64(0.03))[0]):
        assert (clipped["w"].dtype, clipped["w"].shape) == (np.float32, shape)


MAKERS = {name: lambda name=name: OPTIMIZERS[name](LinearToZero(0.1, 6), weight_decay=0.1) for name in OPTIMIZERS}
MAKERS["ByName"] = lambda: ByName({"*.A": RMSprop(0.1), "*": Adam(Step(0.1, 3))})


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())
def test_state_and_load_continue_bit_by_bit(device, make):
    """The state is everything the next delta depends on; neither side of it shares memory with an optimizer."""
    gradients = [np.random.default_rng(k).standard_normal((3, 2)) for k in range(8)]
    start, names = np.ones((3, 2)), ("U.A", "W")
    whole, first, second = make(), make(), make()
    expected = {name: run(whole, gradients, name, device, start) for name in names}
    for name in names:
        run(first, gradients[:4], name, device, start)
    state = first.state()
    for name in names:
        run(first, gradients, name, device)  # must not reach the state
    second.load(state)
    for own in [state] if "buffers" in state else state.values():
        assert own.keys() == {"step", "buffers"}
        assert set(own["step"].values()) == {4}
        for buffers in own["buffers"].values():
            for array in buffers.values():
                array *= float("nan")  # must not reach the second optimizer
            buffers.clear()
        own["step"].clear()
        own["buffers"].clear()
    for name in names:
        middle = start.copy()
        for delta in expected[name][:4]:
            middle = middle - delta
        np.testing.assert_array_equal(run(second, gradients[4:], name, device, middle), expected[name][4:])


def test_the_state_of_another_optimizer():
    """Refused, before anything is taken up."""
    g, adam, rmsprop, named = np.ones(2), Adam(), RMSprop(), ByName({"*.A": Adam(), "*": Adam()})
    adam.delta("w", g, g)
    with pytest.raises(ValueError, match=r"^state holds buffers \['m', 'v'\] of w; expected \['v'\]$"):
        rmsprop.load(adam.state())
    assert rmsprop.state() == {"step": {}, "buffers": {}}
    with pytest.raises(ValueError, match=r"^state holds step or buffers of w; expected both$"):
        adam.load(adam.state() | {"step": {}})
    with pytest.raises(ValueError, match=r"^state has no step, buffers$"):
        adam.load(named.state())
    with pytest.raises(ValueError, match=r"^state is of the patterns \['\*'\]; expected \['\*', '\*\.A'\]$"):
        named.load({"*": adam.state()})


def test_delta_refuses_a_gradient_that_is_not_the_parameters(device):
    """Another shape would broadcast against the buffers or the weight decay, another dtype promote."""
    p = to_device(np.zeros((2, 3)), device)
    for g, given_as in ((p[0], "float64 of shape (3,)"), (p.astype(np.float32), "float32 of shape (2, 3)")):
        told = f"the gradient of W is {given_as}; expected float64 of shape (2, 3), as the parameter"
        with pytest.raises(ValueError, match=f"^{escape(told)}$"):
            SGD(0.1).delta("W", p, g)


# Where v = 0.


@pytest.mark.parametrize("epsilon_inside", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.complex64, np.float64])
def test_no_epsilon_where_v_has_become_0(device, dtype, epsilon_inside):
    """With decay 1/2 v underflows to 0 (with 0.9 it would halt at 4 times the smallest number): delta is 0 there, also
    for a gradient whose square underflows, and the entry moves again with the first gradient that is larger."""
    optimizer = RMSprop(0.1, decay=0.5, initial=1e-3, epsilon=0.0, epsilon_inside=epsilon_inside)
    p = to_device(np.ones(3, dtype), device)
    g = to_device(np.array([0, 1e-200, 1]).astype(dtype), device)
    for _ in range(1100 if dtype == np.float64 else 200):
        delta = optimizer.delta("w", p, g)
    v = to_host(optimizer.state()["buffers"]["w"]["v"]).reshape(3, -1)
    assert (v[:2] == 0).all()
    np.testing.assert_array_equal(to_host(delta)[:2], 0)
    np.testing.assert_allclose(to_host(delta)[2], 0.1, rtol=1e-6)
    delta = to_host(optimizer.delta("w", p, to_device(np.array([1, -1, 0]).astype(dtype), device)))
    np.testing.assert_allclose(delta, 0.1 * np.array([math.sqrt(2), -math.sqrt(2), 0]), rtol=1e-6)


def test_no_epsilon_where_v_was_flushed_to_0(device):
    """A v that is 0 because subnormal numbers are flushed to 0, with decay 0.9."""
    optimizer, zero = OPTIMIZERS["rmsprop-theano"](0.1), to_device(np.zeros(2, np.float32), device)
    optimizer.load({"step": {"w": 900}, "buffers": {"w": {"v": zero}}})
    np.testing.assert_array_equal(to_host(optimizer.delta("w", zero, zero)), 0)


# Name patterns and rates.


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
    with pytest.raises(ValueError, match=r"^the optimizer of '\*' is a ByName; allowed: one optimizer per pattern$"):
        ByName({"*.A": slow, "*": both})


def test_rates():
    """Of the update that follows so many updates: rates(0) is what the first delta takes; patterns keep their names."""
    g, schedule = np.ones(1), LinearToZero(1.0, 4)
    optimizer = SGD(schedule)
    for k in range(6):
        assert optimizer.rates(k) == {"*": schedule(k)}
        assert optimizer.delta("w", g, g) == [schedule(k)]
    both = ByName({"*.A": RMSprop(Step(0.5, 2)), "*": Adam(0.25)})
    assert both.rates(0) == {"*.A": 0.5, "*": 0.25}
    assert both.rates(3) == {"*.A": 0.05, "*": 0.25}
    assert type(SGD(np.float32(0.5)).rates(0)["*"]) is float


# Refused.

OPEN, NUMBERS = [(Adam, "beta1"), (Adam, "beta2"), (SGD, "momentum"), (RMSprop, "decay")], (-1e-3, math.inf, math.nan)
BAD = [
    (make, {name: v}) for make in (SGD, RMSprop, Adam) for name in ("learning_rate", "weight_decay") for v in NUMBERS
]
BAD += [(make, {"epsilon": v}) for make in (RMSprop, Adam) for v in (0, 0.0, *NUMBERS)]
BAD += [(make, {name: v}) for make, name in OPEN for v in (-0.1, 1.0, math.nan)]
BAD += [(RMSprop, {"initial": v}) for v in NUMBERS]
BAD += [(RMSprop, {"initial": 1e-3, "epsilon": -1e-8})]
#: What the errors say is allowed.
ALLOWED = {
    **{name: f"0 <= {name} < 1" for name in ("beta1", "beta2", "momentum", "decay")},
    **dict.fromkeys(("weight_decay", "initial"), "a finite number >= 0"),
    "learning_rate": "a finite number >= 0 or a schedule",
    (RMSprop, "epsilon"): "a finite number above 0; 0 too where initial is above 0",
    (Adam, "epsilon"): "a finite number above 0 (with 0 the zero diagonal of A would give 0 / 0)",
}


@pytest.mark.parametrize(("make", "options"), BAD)
def test_bad_arguments(make, options):
    """Named with the value and with what is allowed; epsilon = 0, which would make A's zero diagonal 0 / 0, is among
    them (E-ncgru-11)."""
    argument, value = [*options.items()][-1]
    allowed = ALLOWED.get(argument) or ALLOWED[make, argument]
    with pytest.raises(ValueError, match=f"^{escape(f'{argument} is {value}; allowed: {allowed}')}$"):
        make(**{"learning_rate": 0.1} | options)


@pytest.mark.parametrize(
    ("make", "argument"),
    [
        (lambda: Adam(epsilon=1e-46), "epsilon"),
        (lambda: RMSprop(epsilon=1e-46), "epsilon"),
        (lambda: RMSprop(initial=1.0, epsilon=1e-46), "epsilon"),
        (lambda: RMSprop(initial=1e-46, epsilon=0.0), "initial"),
    ],
)
def test_epsilon_that_vanishes_in_the_parameters_precision(make, argument):
    """1e-46 is above 0 but 0 in float32, where the zero diagonal of A would give 0 / 0."""
    make().delta("A", np.zeros(2), np.zeros(2))
    for dtype in (np.float32, np.complex64):
        with pytest.raises(ValueError, match=f"^{argument} is 1e-46, which is 0 in float32, the precision of A$"):
            make().delta("A", np.zeros(2, dtype), np.zeros(2, dtype))


@pytest.mark.parametrize("make", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_a_parameter_of_integers(make):
    """Is refused as that, by its name and dtype; not for an epsilon that is 0 among them."""
    with pytest.raises(TypeError, match=r"^the parameter W is int64; allowed: floating-point numbers$"):
        make(learning_rate=0.1).delta("W", np.zeros(2, np.int64), np.zeros(2, np.int64))


# Clipping.


def draw_gradients(rng, dtype):
    """Entries of both signs on both sides of 1; an array without axes, a transposed one, a complex one."""

    def draw(*shape):
        return np.asarray(2 * rng.standard_normal(shape), dtype)

    complex_dtype = np.result_type(dtype, np.complex64)
    return {"scalar": draw(), "W": draw(3, 4).T, "z": (draw(5, 2) + 1j * draw(5, 2)).astype(complex_dtype)}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_clip_by_value(device, dtype):
    """min and max of every entry, of the real and imaginary part apart; fresh arrays of the same kind."""
    gradients = draw_gradients(np.random.default_rng(0), dtype)
    moved = to_device({name: g.copy(order="K") for name, g in gradients.items()}, device)
    clipped = clip_by_value(moved, 0.7)
    bound = dtype(0.7)
    for name, g in gradients.items():
        np.testing.assert_array_equal(to_host(moved[name]), g)
        ours = to_host(clipped[name])
        assert (ours.dtype, ours.shape) == (g.dtype, g.shape)
        for part in (np.real, np.imag) if name == "z" else (np.real,):
            expected = [max(-bound, min(bound, entry)) for entry in part(g).ravel()]
            np.testing.assert_array_equal(part(ours).ravel(), expected)
        clipped[name] *= 0
        np.testing.assert_array_equal(to_host(moved[name]), g)
    assert (abs(gradients["W"]) < 0.7).any()
    for name, g in to_host(clip_by_value(moved, 1e300)).items():  # above every float32: nothing is clipped
        np.testing.assert_array_equal(g, gradients[name])
        assert g.dtype == gradients[name].dtype


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_clip_by_global_norm(device, dtype):
    """limit / norm of every array, the norm before clipping; nothing below the limit; inputs untouched."""
    gradients = draw_gradients(np.random.default_rng(1), dtype)
    moved = to_device({name: g.copy(order="K") for name, g in gradients.items()}, device)
    expected = math.sqrt(math.fsum(abs(complex(entry)) ** 2 for g in gradients.values() for entry in g.ravel()))
    tolerance = 1e-5 if dtype == np.float32 else 1e-14
    assert global_norm(moved) == pytest.approx(expected, rel=1e-14)
    for limit in (1e-3, 0.9 * expected):
        clipped, norm = clip_by_global_norm(moved, limit)
        assert (type(norm), norm) == (float, global_norm(moved))
        for name, g in gradients.items():
            np.testing.assert_array_equal(to_host(moved[name]), g)
            ours = to_host(clipped[name])
            assert (ours.dtype, ours.shape) == (g.dtype, g.shape)
            np.testing.assert_allclose(ours, g * (limit / expected), rtol=tolerance)
        assert global_norm(clipped) == pytest.approx(limit, rel=tolerance)
    for limit in (global_norm(moved), 1.1 * expected, 1e300):
        clipped, norm = clip_by_global_norm(moved, limit)
        assert norm == global_norm(moved)
        for name, g in gradients.items():
            np.testing.assert_array_equal(to_host(clipped[name]), g)


def test_global_norm_of_large_float32(device):
    """Squares of 1e25 overflow in float32; the norm does not, and the clipped gradient is what it should be."""
    gradients = to_device({"a": np.full(3, 1e25, np.float32), "z": np.full(1, 1e25j, np.complex64)}, device)
    clipped, norm = clip_by_global_norm(gradients, 1.0)
    assert norm == pytest.approx(2e25, rel=1e-6)
    np.testing.assert_allclose(to_host(clipped["a"]), np.full(3, 0.5), rtol=1e-6)
    np.testing.assert_allclose(to_host(clipped["z"]), [0.5j], rtol=1e-6)


def test_clipping_keeps_skewness_to_the_bit(device):
    """E-ncgru-11: symmetric limits and one factor for all; the norm takes A's gradient with both its halves."""
    X = np.random.default_rng(2).standard_normal((17, 17)).astype(np.float32)
    gradients = to_device({"A": X - X.T}, device)
    norm = global_norm(gradients)
    assert norm == pytest.approx(math.sqrt(2) * np.linalg.norm(np.triu(X - X.T).astype(float)), rel=1e-12)
    for clipped in (clip_by_value(gradients, 0.3), clip_by_global_norm(gradients, 0.3)[0]):
        A = to_host(clipped["A"])
        assert (A.tobytes(), A.dtype) == (np.where(np.eye(17), A, -A.T).astype(np.float32).tobytes(), np.float32)
        np.testing.assert_array_equal(np.diag(A), 0)
        assert 0 < abs(A).max() <= np.float32(0.3)


@pytest.mark.parametrize("bad", [math.inf, -math.inf, math.nan])
def test_a_gradient_that_is_not_finite_shows_in_the_norm(device, bad):
    """The norm says so, and no array is scaled, so that the caller can see where it comes from."""
    host = {"good": np.full(2, 9.0), "bad": np.array([bad, 1.0])}
    clipped, norm = clip_by_global_norm(to_device(host, device), 1.0)
    assert not math.isfinite(norm)
    for name, g in host.items():
        np.testing.assert_array_equal(to_host(clipped[name]), g)


def test_nothing_to_clip():
    """No arrays: norm 0.  Zeros: norm 0, and no 0 / 0."""
    assert global_norm({}) == 0
    assert clip_by_global_norm({}, 1.0) == ({}, 0.0)
    clipped, norm = clip_by_global_norm({"w": np.zeros(3)}, 1e-300)
    assert norm == 0
    np.testing.assert_array_equal(clipped["w"], 0)


def test_gradients_on_two_devices():
    """An error, as everywhere."""
    with pytest.raises(TypeError, match="arrays of different libraries"):
        global_norm({"w": np.ones(2), "b": np.ones(2).view(Foreign)})


@pytest.mark.parametrize("clip", [clip_by_value, clip_by_global_norm])
@pytest.mark.parametrize("limit", [0, -1.0, math.inf, math.nan])
def test_bad_limits(clip, limit):
    """Named with the value."""
    with pytest.raises(ValueError, match=rf"^limit is {limit}; allowed: a finite number above 0$"):
        clip({"w": np.ones(2)}, limit)


def test_a_limit_that_is_0_in_a_gradients_precision():
    """1e-60 clips float64; float32 cannot hold it, and the error names the gradient."""
    np.testing.assert_array_equal(clip_by_value({"w": np.ones(2)}, 1e-60)["w"], [1e-60, 1e-60])
    with pytest.raises(ValueError, match=r"^limit is 1e-60, which is 0 in float32, the precision of w$"):
        clip_by_value({"w": np.ones(2, np.float32)}, 1e-60)
