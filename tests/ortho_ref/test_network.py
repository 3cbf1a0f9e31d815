"""Networks of layers: every gradient through readout, dropout and layers; what dropout drops, and what it leaves alone
[bp:bptt] [bp:heads]."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import Phase, given, settings, strategies as st

from gradients.checks import VARIANTS
from gradients.problem import admissible, largest_error, network_kink_distance, perturbed, skew
from ortho_ref import models
from ortho_ref.backend import complex_dtype, to_device, to_host
from ortho_ref.cells import LSTM, GRUResetAfter
from ortho_ref.cells.cell import parts_of
from ortho_ref.finite_differences import compare_gradients
from ortho_ref.layers import real_features
from ortho_ref.losses import LOSSES
from ortho_ref.network import Network
from ortho_ref.recurrent import Recurrent
from tests.precision import single

MODELS = ["gru", "lstm", "nc-gru", "goru", "sgornn", "urnn"]
EVEN = ["goru", "sgornn"]  # their matrices turn pairs of coordinates

# hypothesis draws the seed only, the same ones for every parameter of a test; a smaller seed is no smaller case.
DRAW = [Phase.reuse, Phase.generate]

# The whole zoo, with other options too.
ZOO = {name: (name, {}) for name in models.names()} | {
    f"{name} {options}": (name, options) for name, options in VARIANTS
}

# What a task may ask for: the loss, and y for the entries, for four outputs.
TARGETS = {
    "cross-entropy": ("cross_entropy", lambda rng, entries: rng.integers(0, 4, entries)),
    "cross-entropy of two groups": ("cross_entropy", lambda rng, entries: rng.integers(0, 2, (*entries, 2))),
    "squared error of numbers": ("mean_squared_error", lambda rng, entries: rng.standard_normal((*entries, 4))),
    "squared error of classes": ("mean_squared_error", lambda rng, entries: rng.integers(0, 4, entries)),
    "squared error of two groups": ("mean_squared_error", lambda rng, entries: rng.integers(0, 2, (*entries, 2))),
}


def network_of(name, m, n, q, layers=2, readout="every", **options):
    """`layers` copies of a model, of n units each, under a readout."""
    return models.network(name, m, [n] * layers, q, readout=readout, **options)


def generic(network, rng, size=0.5):
    """Parameters and buffers in float64, with no bias left at 0 and A no longer made of blocks."""
    params, buffers = network.init(rng, dtype=np.float64)
    params = perturbed(params, rng, size)
    return params, network.rebuild(params, buffers)


def may_vanish(network, carried):
    """Names whose gradients may be 0: scalar gates that a constraint holds, a trained h0 where a state was given."""
    names = []
    for i, layer in enumerate(network.layers):
        if getattr(layer.cell, "constraint", None) is not None:
            names += [f"layer{i}.alpha", f"layer{i}.beta"]
        if carried and layer.trained_h0:
            names.append(f"layer{i}.h0")
    return names


def measurable(network, rng, y, mask, tokens, carried, T=3, B=3):
    """Parameters, buffers, x, h0, a seed for the dropout, and the distance to the nearest kink.

    Drawn until the differences' step, 1/500 of that distance, can measure the gradients: not so small that the loss's
    rounding shows, nor so large that the step reaches the kink.  A squared error's gradients grow with it.
    """
    m, _ = network.layers[0].sizes
    size = 0.6 if isinstance(network.layers[0].cell, GRUResetAfter) else 0.3  # GORU's matrices begin at +-0.01

    def inputs():
        return rng.integers(0, m, (T, B)) if tokens else rng.standard_normal((T, B, m))

    for _ in range(500):
        params, buffers = generic(network, rng, size)
        x, seed = inputs(), int(rng.integers(2**32))
        h0 = network.forward(params, buffers, inputs()).last if carried else None

        class Given(Network):
            def forward(self, params, buffers, x, h0=h0, rng=None, seed=seed):
                return super().forward(params, buffers, x, h0, np.random.default_rng(seed))

        distance = network_kink_distance(Given(**vars(network)), params, buffers, x)
        loss, gradients, _ = network.loss_and_gradients(params, buffers, x, y, mask, h0, np.random.default_rng(seed))
        held = [name for name in may_vanish(network, carried) if not gradients[name].any()]
        sizes = [abs(gradient).max() for name, gradient in gradients.items() if name not in held]
        scale = max(1, loss)
        largest = 5 * (scale if network.loss == "mean_squared_error" else 1)
        if distance > 2e-3 and min(distance, 0.1) * min(sizes) > 5e-6 * scale and max(sizes) < largest:
            return params, buffers, x, h0, seed, distance
    return pytest.fail("no draw off the kinks with gradients large enough")


def report_of(network, ours, y, mask, params, buffers, x, h0, seed, distance, **options):
    """The gradients against differences of the loss of what `forward` returns, and that loss."""

    def f(point):
        point = admissible(point)
        outputs = network.forward(point, network.rebuild(point, buffers), x, h0, np.random.default_rng(seed)).outputs
        return LOSSES[network.loss](outputs, y, mask)[0]

    options |= {
        "skew": skew(params),
        "may_vanish": may_vanish(network, h0 is not None),
        "kink_distance": lambda _: distance,
    }
    return compare_gradients(f, params, ours, **options), f(params)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("readout", ["every", "last"])
@settings(max_examples=1, phases=DRAW)
@given(seed=st.integers(0, 2**32 - 1))
def test_gradients_against_finite_differences(device, name, readout, seed):
    """Every free entry of every parameter, through readout, two layers and the Cayley pullback; given states too
    [bp:heads] [bp:bptt]."""
    rng = np.random.default_rng([seed, *device.encode(), *name.encode(), *readout.encode()])
    network = network_of(name, 3, 4 if name in EVEN else 3, 6, readout=readout)
    tokens, masked, carried = rng.random(3) < 0.5
    y = rng.integers(0, 3, (3, 3, 2) if readout == "every" else (3, 2))
    mask = np.arange(y.size // 2).reshape(y.shape[:-1]) != 1 if masked else None
    point = params, buffers, x, h0, *_ = measurable(network, rng, y, mask, tokens, carried)
    loss, ours, _ = network.loss_and_gradients(*to_device((params, buffers, x, y, mask, h0), device))
    report, expected = report_of(network, to_host(ours), y, mask, *point)
    assert report.passed, f"{tokens=}, {masked=}, {carried=}\n{report}"
    assert list(ours) == list(params)
    np.testing.assert_allclose(float(loss), expected, rtol=1e-14)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ZOO)
@settings(max_examples=3, phases=DRAW)
@given(seed=st.integers(0, 2**32 - 1))
def test_gradients_of_every_model_and_loss(name, target, seed):
    """Every parameter along a random direction, dropout by the same draw in every evaluation."""
    rng = np.random.default_rng([seed, *name.encode(), *target.encode()])
    last, drops, tokens, masked, carried = rng.random(5) < 0.5
    readout, dropout, layers = "last" if last else "every", 0.3 if drops else 0.0, int(rng.integers(1, 4))
    model, options = ZOO[name]
    loss, draw = TARGETS[target]
    network = models.network(model, 3, [4] * layers, 4, readout=readout, loss=loss, dropout=dropout, **options)
    entries = (3, 3) if readout == "every" else (3,)
    y, mask = draw(rng, entries), np.arange(3 ** len(entries)).reshape(entries) != 1 if masked else None
    point = *arguments, h0, dropout_seed, _ = measurable(network, rng, y, mask, tokens, carried)
    value, ours, _ = network.loss_and_gradients(*arguments, y, mask, h0, np.random.default_rng(dropout_seed))
    report, expected = report_of(network, ours, y, mask, *point, directions=1, rng=rng)
    assert report.passed, f"{network}, {tokens=}, {masked=}, {carried=}\n{report}"
    np.testing.assert_allclose(value, expected, rtol=1e-14)


@pytest.mark.parametrize("name", MODELS)
def test_carried_state(device, name):
    """Two windows, the second from the first's last states, are one long window; forgetting them is not [bp:bptt]."""
    rng = np.random.default_rng(0)
    network = network_of(name, 4, 6 if name in EVEN else 5, 3)
    params, buffers = to_device(generic(network, rng), device)
    x = to_device(rng.standard_normal((7, 3, 4)), device)
    whole, first = network.forward(params, buffers, x), network.forward(params, buffers, x[:4])
    second = network.forward(params, buffers, x[4:], first.last)
    together = np.concatenate([to_host(first.outputs), to_host(second.outputs)])
    np.testing.assert_allclose(together, to_host(whole.outputs), rtol=1e-13, atol=1e-14)
    for ours, theirs in zip(to_host(second.last), to_host(whole.last), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-13, atol=1e-14)
    forgotten = to_host(network.forward(params, buffers, x[4:]).outputs)
    assert abs(forgotten - together[4:]).max() > 1e-3


@pytest.mark.parametrize("name", MODELS)
def test_a_layer_more_leaves_the_other_draws_alone(name):
    """Every layer, and the readout, draws from its own child of the generator; so does every weight of other sizes."""
    (one, _), (three, _) = (network_of(name, 5, 4, 3, layers).init(np.random.default_rng(7)) for layers in (1, 3))
    assert set(one) < set(three)
    for key, value in one.items():
        assert value.dtype == (np.complex64 if value.dtype.kind == "c" else np.float32)
        np.testing.assert_array_equal(value, three[key])
    matrix = next(key for key in one if key.startswith("layer0.U"))[len("layer0.") :]
    assert not np.array_equal(three[f"layer1.{matrix}"], three[f"layer2.{matrix}"])


# Dropout


def dropping(name, layers=2, readout="every", dtype=np.float64):
    """A network that drops 0.4, the same without dropout, parameters, buffers, and x."""
    rng = np.random.default_rng(0)
    network = network_of(name, 3, 6 if name in EVEN else 5, 4, layers, readout, dropout=0.4)
    params, buffers = generic(network, rng)
    x = rng.standard_normal((6, 3, 3))
    if dtype == np.float32:
        params, buffers, x = single((params, buffers, x))
        buffers = network.rebuild(params, buffers)
    return network, replace(network, dropout=0.0), params, buffers, x


@pytest.mark.parametrize("readout", ["every", "last"])
@pytest.mark.parametrize("name", MODELS)
def test_no_generator_and_no_rate_drop_nothing(device, name, readout):
    """Without a generator, everything is to the bit as without dropout; that takes nothing from a generator."""
    network, without, *arguments = dropping(name, readout=readout)
    y = np.random.default_rng(1).integers(0, 4, (6, 3) if readout == "every" else 3)
    *arguments, y = to_device((*arguments, y), device)
    rng = np.random.default_rng(2)
    loss, gradients, expected = to_host(without.loss_and_gradients(*arguments, y))
    for own, generator in ((network, None), (without, rng)):
        own_loss, own_gradients, result = to_host(own.loss_and_gradients(*arguments, y, rng=generator))
        assert float(own_loss) == float(loss)
        np.testing.assert_array_equal(result.outputs, expected.outputs)
        assert result.tape.scales == [None, None]
        for key, gradient in gradients.items():
            np.testing.assert_array_equal(own_gradients[key], gradient)
    assert rng.random() == np.random.default_rng(2).random()
    dropped = to_host(network.loss_and_gradients(*arguments, y, rng=rng))
    assert abs(dropped[2].outputs - expected.outputs).max() > 0.01
    assert abs(dropped[0] - loss) > 1e-3


@pytest.mark.parametrize("carried", [False, True])
@pytest.mark.parametrize("readout", ["every", "last"])
@pytest.mark.parametrize("name", MODELS)
def test_dropout_layer_by_layer(device, name, readout, carried):
    """After every layer, the last one too, s * h is read on, s drawn in the layers' order; the states handed on are
    whole.  Of a complex h it is the real features that are dropped.  The same entries on every device."""
    network, without, params, buffers, x = dropping(name, 3, readout)
    h0 = without.forward(params, buffers, x[:2]).last if carried else None
    result = to_host(network.forward(*to_device((params, buffers, x, h0), device), np.random.default_rng(7)))
    rng, read = np.random.default_rng(7), x
    for i, layer in enumerate(network.layers):
        own, own_buffers = (
            {key.removeprefix(f"layer{i}."): value for key, value in values.items() if key.startswith(f"layer{i}.")}
            for values in (params, buffers)
        )
        h = parts_of(layer.cell, layer.forward(own, own_buffers, read, None if h0 is None else h0[i])[0])
        for ours, theirs in zip(parts_of(layer.cell, result.last[i]), h, strict=True):
            np.testing.assert_allclose(ours, theirs[-1], rtol=1e-12, atol=1e-14)
        dropped = rng.random((6, 3, layer.output_size), np.float32) < 0.4
        np.testing.assert_array_equal(result.tape.scales[i] == 0, dropped)
        assert 0.2 < dropped.mean() < 0.6
        read = np.where(dropped, 0, real_features(h[0][1:]) / 0.6)
    read = read if readout == "every" else read[-1]
    expected = read @ params["readout.W"].T + params["readout.b"]
    np.testing.assert_allclose(result.outputs, expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("name", MODELS)
def test_dropout_leaves_the_recurrence_alone(name):
    """Layer 0's states are to the bit those without dropout, step by step and window by window; layer 1 reads what was
    dropped."""
    network, without, params, buffers, x = dropping(name)
    for t in range(1, len(x) + 1):
        dropped = network.forward(params, buffers, x[:t], rng=np.random.default_rng(t)).last
        expected = without.forward(params, buffers, x[:t]).last
        np.testing.assert_array_equal(np.array(dropped[0]), np.array(expected[0]))
        assert abs(np.array(dropped[1]) - np.array(expected[1])).max() > 1e-3
    rng = np.random.default_rng(0)
    first = network.forward(params, buffers, x[:3], rng=rng)
    second = network.forward(params, buffers, x[3:], first.last, rng)
    np.testing.assert_allclose(np.array(second.last[0]), np.array(expected[0]), rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", MODELS)
def test_dropout_on_every_device_and_in_every_dtype(device, name, dtype):
    """Loss and gradients of one seed are the host's in float64; everything stays in its dtype."""
    network, _, *arguments = dropping(name)
    y = np.random.default_rng(1).integers(0, 4, (6, 3))
    loss, gradients, _ = network.loss_and_gradients(*arguments, y, rng=np.random.default_rng(5))
    own = to_device((*dropping(name, dtype=dtype)[2:], y), device)
    own_loss, own_gradients, result = to_host(network.loss_and_gradients(*own, rng=np.random.default_rng(5)))
    assert {array.dtype for array in (own_loss, result.outputs, *result.tape.scales)} == {np.dtype(dtype)}
    for key, gradient in own_gradients.items():
        assert gradient.dtype == (complex_dtype(dtype) if gradients[key].dtype.kind == "c" else dtype)
    tolerance = 1e-12 if dtype == np.float64 else 1e-4
    np.testing.assert_allclose(own_loss, loss, rtol=tolerance)
    assert largest_error(own_gradients, gradients)[0] < tolerance


# Networks by name


@pytest.mark.parametrize("name", ZOO)
def test_a_network_by_name_is_the_network_by_hand(name):
    """models.network: a layer of the model for each hidden size, options to every layer, the same draws."""
    model, options = ZOO[name]
    form = {"readout": "last", "loss": "mean_squared_error", "dropout": 0.2}
    reads = 2 if models.build(model, 3, 4, **options).cell.complex else 1
    ours = models.network(model, 3, (4, 8, 4), 5, **form, **options)
    layers = tuple(
        models.build(model, m * twice, n, **options) for m, n, twice in ((3, 4, 1), (4, 8, reads), (8, 4, reads))
    )
    by_hand = Network(layers, 5, "last", "mean_squared_error", 0.2)
    assert replace(ours, layers=layers) == by_hand
    assert [(layer.cell, layer.parametrizations, layer.sizes) for layer in ours.layers] == [
        (layer.cell, layer.parametrizations, layer.sizes) for layer in layers
    ]
    plain = models.network(model, 3, [4], 5, **options)
    assert (plain.readout, plain.loss, plain.dropout) == ("every", "cross_entropy", 0.0)
    (params, _), (expected, _) = (network.init(np.random.default_rng(0)) for network in (ours, by_hand))
    assert list(params) == list(expected)
    for key, value in expected.items():
        np.testing.assert_array_equal(params[key], value)
    assert (params["readout.W"].shape, params["readout.b"].shape) == ((5, 4 * reads), (5,))


# What cannot be built


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"layers": ()}, "layers is empty; expected at least one Recurrent"),
        (
            {"layers": (Recurrent(LSTM()),)},
            r"layers\[0\] has no sizes; build it with sizes=\(input_size, hidden_size\)",
        ),
        (
            {"layers": (Recurrent(LSTM(), sizes=(3, 5)), Recurrent(LSTM(), sizes=(4, 5)))},
            r"layers\[1\] takes 4 inputs; the layer before gives 5",
        ),
        (
            {"layers": (models.build("urnn", 3, 5), Recurrent(LSTM(), sizes=(5, 5)))},
            r"layers\[1\] takes 5 inputs; the layer before gives 10",
        ),
        ({"output_size": 0}, "output_size is 0; allowed: an integer >= 1"),
        ({"dropout": -0.1}, "dropout is -0.1; allowed: 0 <= dropout < 1"),
        ({"dropout": 1.0}, "dropout is 1.0; allowed: 0 <= dropout < 1"),
        ({"dropout": float("nan")}, "dropout is nan; allowed: 0 <= dropout < 1"),
    ],
)
def test_networks_that_cannot_be(arguments, message):
    """The error names the argument, the value and what is allowed."""
    with pytest.raises(ValueError, match=f"^{message}$"):
        Network(**{"layers": (Recurrent(LSTM(), sizes=(3, 5)),), "output_size": 2} | arguments)


def test_states_of_another_network():
    """One state too few or too many is refused: the rest would begin from zero, or be cut, without a word."""
    network = network_of("gru", 3, 4, 2)
    params, buffers = network.init(np.random.default_rng(0))
    for count in (1, 3):
        with pytest.raises(ValueError, match=rf"^h0 holds {count} states; expected one for each of the 2 layers$"):
            network.forward(params, buffers, np.zeros((2, 1), int), [np.zeros((1, 4), np.float32)] * count)


@pytest.mark.parametrize(
    ("network", "text"),
    [
        (
            models.network("goru", 10, [8, 4], 9, dropout=0.3),
            "goru 10 -> 8, goru 8 -> 4, 9 outputs at every step, cross_entropy, dropout 0.3, 593 parameters",
        ),
        (
            Network((models.urnn(3, 5), Recurrent(LSTM(), sizes=(10, 4))), 2, "last", "mean_squared_error"),
            "urnn 3 -> 5, LSTM 10 -> 4, 2 outputs at the last step, mean_squared_error, 330 parameters",
        ),
        (models.network("goru", 3, [5], 2), "goru 3 -> 5, 2 outputs at every step, cross_entropy"),  # no even number
    ],
)
def test_what_a_network_says_of_itself(network, text):
    """One line: its layers by their models or cells, outputs, loss, parameters where they can be counted."""
    assert repr(network) == f"Network({text})"
    if network.free_parameters is not None:
        assert network.free_parameters == network.count(network.init(np.random.default_rng(0))[0])
