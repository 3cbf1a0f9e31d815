"""Recurrent and the zoo: dense weights from parametrizations, gradients back to them, errors at the boundary."""

import re

import numpy as np
import pytest

from gradients.finite_difference import check
from gradients.problem import relative_error
from ortho_ref import backend, models
from ortho_ref.cells import LSTM, Elman, GRUResetBefore
from ortho_ref.initial import glorot
from ortho_ref.parametrizations import Free, NeumannCayley, ScaledCayley, defect
from ortho_ref.recurrent import Recurrent

M, N = 3, 6


def built(layer, seed=0, dtype=np.float64):
    """Parameters moved off their symmetric start (zero biases), and states."""
    rng = np.random.default_rng(seed)
    params, states = layer.init(rng, M, N, dtype)
    for name, value in params.items():
        if not name.endswith(".A"):
            params[name] = (value + 0.3 * rng.standard_normal(value.shape)).astype(dtype)
    return params, states


def arrays(layer, seed=1, T=4, B=3):
    rng = np.random.default_rng(seed)
    state = tuple(rng.standard_normal((B, N)) for _ in layer.cell.states)
    state = state if len(state) > 1 else state[0]
    return rng.standard_normal((T, B, M)), rng.standard_normal((T, B, N)), state


LAYERS = {
    "nc-gru ruc": models.build("nc-gru", M, N, orthogonal="ruc"),
    "nc-gru exact": models.build("nc-gru", M, N, exact=True),
    "gru, trained h0": Recurrent(GRUResetBefore("tanh"), trained_h0=True),
    "gru(tanh), U_r and U_u by different maps": Recurrent(
        GRUResetBefore("tanh"), {"U_r": ScaledCayley(1), "U_u": NeumannCayley(2), "U_c": Free()}
    ),
    "lstm, U_f orthogonal, trained h0 and c0": Recurrent(LSTM(), {"U_f": ScaledCayley(3)}, trained_h0=True),
    "scornn, by scan": Recurrent(Elman("tanh"), {"U": ScaledCayley(3)}, engine="scan"),
}


@pytest.mark.parametrize("name", LAYERS)
def test_gradient_of_every_parameter(device, name):
    """Through the cell, the dense U and its map to A; the trained initial state included; one dU for each weight."""
    layer = LAYERS[name]
    params, states = built(layer)
    x, dh, last = arrays(layer)
    on = [backend.to_device(value, device) for value in (params, states, x, dh, last)]
    _, tape = layer.forward(*on[:3])
    ours = backend.to_host(layer.backward(*on[:2], tape, *on[3:]).params)

    def loss(point):
        h, _ = layer.forward(point, layer.rebuild(point, states), x)
        parts, lasts = (h, last) if isinstance(h, tuple) else ((h,), (last,))
        return (dh * parts[0][1:]).sum() + sum((d * p[-1]).sum() for d, p in zip(lasts, parts, strict=True))

    skew = [key for key in params if key.endswith(".A")]
    # this seed's modReLU pre-activations stay 1e-3 from the kinks; the step of 2e-5 moves them by less
    report = check(loss, params, ours, skew=skew)
    assert set(ours) == set(params)
    assert report.passed, f"\n{report}"


def test_each_orthogonal_weight_has_its_own_gradient():
    """Released code drives U_c with U_r's gradient: with the same A in both, ours differ."""
    layer = models.build("nc-gru", M, N, orthogonal="rc")
    params, states = built(layer)
    params["U_r.A"] = params["U_c.A"].copy()
    states = layer.rebuild(params, states)
    x, dh, _ = arrays(layer)
    gradients = layer.backward(params, states, layer.forward(params, states, x)[1], dh).params
    assert relative_error(gradients["U_r.A"], gradients["U_c.A"]) > 0.1


def test_retract_follows_algorithm_1_and_leaves_its_input_alone(device):
    """Free weights move by their delta, orthogonal ones by their map; old params and states keep their values."""
    layer = models.build("nc-gru", M, N)
    params, states = backend.to_device(built(layer), device)
    before = backend.to_host((params, states))
    deltas = {
        name: 0.01 * (value if name.endswith(".A") else backend.xp_of(value).ones_like(value))
        for name, value in params.items()
    }
    new, new_states = layer.retract(params, states, deltas)
    assert list(new) == list(params)
    assert relative_error(new["W_r"], before[0]["W_r"] - 0.01) < 1e-15
    assert relative_error(new["U_c.A"], 0.99 * before[0]["U_c.A"]) < 1e-15
    assert new_states["U_c"]["step"] == 1
    assert defect(backend.to_host(new_states["U_c"]["U"])) < 1e-6
    for old, kept in ((before[0], params), (before[1]["U_c"], states["U_c"])):
        assert all(np.array_equal(old[key], backend.to_host(kept[key])) for key in old)


def test_given_h0_overrides_the_trained_one():
    """A carried state is used as it is, and the trained initial state gets no gradient then."""
    layer = Recurrent(GRUResetBefore("tanh"), trained_h0=True)
    params, states = built(layer)
    x, dh, h0 = arrays(layer)
    h, tape = layer.forward(params, states, x, h0)
    np.testing.assert_array_equal(h[0], h0)
    assert not layer.backward(params, states, tape, dh).params["h0"].any()
    h, _ = layer.forward(params, states, x)
    np.testing.assert_array_equal(h[0], np.tile(params["h0"], (3, 1)))


def test_engines_agree():
    """engine="scan" and engine="fused" are the same layer."""
    layer = models.build("nc-gru", M, N)
    params, states = built(layer)
    x, dh, _ = arrays(layer)
    results = []
    for engine in ("fused", "scan"):
        own = Recurrent(layer.cell, layer.parametrizations, engine=engine)
        h, tape = own.forward(params, states, x)
        results.append((h, own.backward(params, states, tape, dh).params))
    assert relative_error(results[0][0], results[1][0]) < 1e-13
    assert all(relative_error(results[0][1][key], results[1][1][key]) < 1e-12 for key in params)


def test_every_weight_is_drawn_from_its_own_child():
    """A parametrization on U_r changes no other draw; dtype float32 rounds the same numbers."""
    plain, constrained = (models.build("nc-gru", M, N, orthogonal=o) for o in ("c", "rc"))
    a, b = (layer.init(np.random.default_rng(3), dtype=np.float64)[0] for layer in (plain, constrained))
    assert set(a) & set(b) == set(a) - {"U_r"} == {"W_r", "b_r", "W_u", "U_u", "b_u", "W_c", "U_c.A", "b_c"}
    assert all(np.array_equal(a[name], b[name]) for name in set(a) & set(b))
    assert not np.array_equal(b["U_r.A"], b["U_c.A"])
    assert not np.array_equal(a["W_r"], a["W_u"])
    for layer in (plain, constrained):
        single = layer.init(np.random.default_rng(3), dtype=np.float32)[0]
        double = layer.init(np.random.default_rng(3), dtype=np.float64)[0]
        assert all(np.array_equal(single[k], double[k].astype(np.float32)) for k in single if not k.endswith(".A"))
        assert all(value.dtype == np.float32 for value in single.values())


@pytest.mark.parametrize(
    ("m", "n", "q", "name", "options", "count"),
    [
        (7, 50, 18, "gru", {}, 9618),
        (7, 42, 18, "lstm", {}, 9174),
        (7, 110, 18, "scornn", {"negative_ones": 20}, 8873),
        (7, 56, 18, "nc-gru", {"negative_ones": 40}, 10182),
        (7, 56, 18, "nc-gru", {"negative_ones": 40, "orthogonal": "rc"}, 8586),
        (10, 118, 10, "nc-gru", {}, 39835),
        (10, 118, 10, "nc-gru", {"orthogonal": "rc"}, 32814),
        (2, 80, 1, "nc-gru", {}, 16761),
        (10, 96, 9, "nc-gru", {"orthogonal": "rc"}, 22377),
        (10, 200, 10, "scornn", {}, 24110),
        (2, 128, 1, "rnn", {}, 256 + 128**2 + 128 + 129),
    ],
)
def test_parameter_counts_of_the_papers(m, n, q, name, options, count):
    """E-ncgru-14: cell and readout, a skew matrix counted as n (n - 1) / 2."""
    layer = models.build(name, m, n, **options)
    params, _ = layer.init(np.random.default_rng(0))
    assert layer.count(params) + n * q + q == count


@pytest.mark.parametrize("name", models.names())
def test_models_start_as_prescribed(name):
    """Each model's stated initial values; a float32 step forward and backward runs; the description names equations."""
    layer = models.build(name, M, N)
    params, states = layer.init(np.random.default_rng(0))
    x, dh, _ = (np.float32(a) if isinstance(a, np.ndarray) else a for a in arrays(layer))
    _, tape = layer.forward(params, states, x)
    gradients = layer.backward(params, states, tape, dh)
    assert set(gradients.params) == set(params)
    assert all(g.dtype == np.float32 for g in gradients.params.values())
    biases = {key: set(value.tolist()) for key, value in params.items() if key.startswith("b")}
    expected = {"gru": {"b_r": {1.0}, "b_u": {-1.0}, "b_c": {0.0}}, "lstm": {"b_f": {1.0}}}.get(name, {})
    assert all(values == expected.get(key, {0.0}) for key, values in biases.items())
    assert re.search(r"\b(ncgru|urnn|bp):", models.describe(name))
    if name == "irnn":
        np.testing.assert_array_equal(params["U"], np.eye(N))
    if name == "scornn":
        assert abs(params["W"]).max() <= 0.01
    if name in ("scornn", "nc-gru"):
        ((_, figures),) = layer.health(states).items()
        assert figures["defect"] < 1e-6


layer = models.build("nc-gru", M, N)
PARAMS, STATES = built(layer)
X, DH, H0 = arrays(layer)
TAPE = layer.forward(PARAMS, STATES, X)[1]

WITHOUT_A = {name: value for name, value in PARAMS.items() if name != "U_c.A"}
HALF = {name: np.float16(value) for name, value in PARAMS.items()}
GRU = built(LAYERS["gru, trained h0"])

FORWARD_ERRORS = {
    "list": (X.tolist(), None, TypeError, "x is a list; expected an array (T, B, 3) or integer tokens (T, B)"),
    "no batch": (X[:, 0], None, ValueError, "x has shape (4, 3); expected (T, B, 3), T and B at least 1"),
    "width": (X[:, :, :2], None, ValueError, "x has shape (4, 3, 2); expected (T, B, 3)"),
    "no steps": (X[:0], None, ValueError, "x has shape (0, 3, 3)"),
    "float32": (X.astype(np.float32), None, TypeError, "x is float32; expected float64, or integer tokens (T, B)"),
    "complex": (X + 0j, None, TypeError, "x is complex128; expected float64"),
    "bool": (X > 0, None, TypeError, "x is bool; expected float64"),
    "nan": (np.where(X[0, 0, 0] == X, np.nan, X), None, ValueError, "x has an entry that is not finite"),
    "token high": (np.array([[0, 3]]), None, ValueError, "x holds token 3; allowed: 0 to 2"),
    "token low": (np.array([[-1, 0]]), None, ValueError, "x holds token -1; allowed: 0 to 2"),
    "token shape": (np.array([0, 1]), None, ValueError, "x holds tokens of shape (2,); expected (T, B)"),
    "h0 shape": (X, H0[:2], ValueError, "h0 has shape (2, 6); expected (3, 6)"),
    "h0 dtype": (X, H0.astype(np.float32), TypeError, "h0 is float32; expected float64"),
    "h0 pair": (X, (H0, H0), TypeError, "h0 is a tuple; expected an array of shape (3, 6)"),
    "h0 nan": (X, H0 * np.nan, ValueError, "h0 has an entry that is not finite"),
}


@pytest.mark.parametrize("case", FORWARD_ERRORS)
def test_bad_input_to_forward(case):
    """The argument, what was given, what is allowed."""
    x, h0, error, message = FORWARD_ERRORS[case]
    with pytest.raises(error) as caught:
        layer.forward(PARAMS, STATES, x, h0)
    assert message in str(caught.value)


def test_devices_may_not_be_mixed():
    """x, h0, dh or a parameter on another device than the weights."""
    there = backend.to_device((X, H0, DH, PARAMS["W_r"]), "stand-in")
    for call in (
        lambda: layer.forward(PARAMS, STATES, there[0]),
        lambda: layer.forward(PARAMS, STATES, X, there[1]),
        lambda: layer.backward(PARAMS, STATES, TAPE, there[2]),
        lambda: layer.forward(PARAMS | {"W_r": there[3]}, STATES, X),
    ):
        with pytest.raises(TypeError, match="arrays of different libraries in one call"):
            call()


def test_bad_parameters_states_and_upstream():
    """Missing, misshapen and mistyped parameters; states of another layer; dh of another width; LSTM's pairs."""
    cases = [
        (lambda: layer.forward({**PARAMS, "b_r": PARAMS["b_r"][:5]}, STATES, X), "b_r has shape (5,); expected (6,)"),
        (lambda: layer.forward({**PARAMS, "b_r": np.float32(PARAMS["b_r"])}, STATES, X), "b_r is float32"),
        (lambda: layer.forward({**PARAMS, "U_u": PARAMS["U_u"] + 0j}, STATES, X), "U_u is complex128"),
        (lambda: layer.forward({k: v for k, v in PARAMS.items() if k != "b_r"}, STATES, X), "b_r is a NoneType"),
        (lambda: layer.forward(PARAMS, {}, X), "states are of []; expected ['U_c']"),
        (lambda: layer.forward({**PARAMS, "W_x": X}, STATES, X), "params holds 'W_x'; the weights are W_r, U_r, b_r"),
        (
            lambda: layer.forward(PARAMS | {"U_c": np.eye(N)}, STATES, X),
            "params holds 'U_c', which is built from its own",
        ),
        (lambda: layer.forward(WITHOUT_A, STATES, X), "params holds no parameter of U_c"),
        (lambda: layer.forward(HALF, STATES, np.float16(X)), "the parameters are float16; allowed: float32, float64"),
        (lambda: layer.backward(PARAMS, STATES, None, DH), "tape is a NoneType; expected what forward returned"),
        (lambda: LAYERS["gru, trained h0"].backward(*GRU, TAPE, DH), "tape is of GRUResetBefore(activation='modrelu')"),
        (lambda: layer.forward({}, STATES, X), "params holds no input weight W (n, m)"),
        (lambda: layer.backward(PARAMS, STATES, TAPE, DH[:, :, :5]), "dh has shape (4, 3, 5); expected (4, 3, 6)"),
        (lambda: layer.backward(PARAMS, STATES, TAPE, DH[0]), "dh has shape (3, 6); expected (4, 3, 6)"),
        (lambda: layer.backward(PARAMS, STATES, TAPE, DH[:3]), "dh has shape (3, 3, 6); expected (4, 3, 6)"),
        (lambda: layer.backward(PARAMS, STATES, TAPE, DH * np.inf), "dh has an entry that is not finite"),
        (lambda: layer.backward(PARAMS, STATES, TAPE, DH, H0[0]), "dh_T has shape (6,); expected (3, 6)"),
        (lambda: layer.retract(PARAMS, STATES, {}), "deltas differ from the parameters in ['U_c.A', 'U_r'"),
        (lambda: layer.retract(PARAMS, STATES, {**PARAMS, "b_r": np.ones(2)}), "delta of b_r has shape (2,)"),
    ]
    lstm = LAYERS["lstm, U_f orthogonal, trained h0 and c0"]
    params, states = built(lstm)
    cases.append((lambda: lstm.forward(params, states, X, H0), "h0 is a ndarray; expected the tuple (h, c)"))
    for call, message in cases:
        with pytest.raises((TypeError, ValueError)) as caught:
            call()
        assert message in str(caught.value)


def test_bad_construction():
    """Names of weights the cell does not have, engines, sizes, dtypes."""
    rng = np.random.default_rng(0)
    cases = [
        (lambda: Recurrent(Elman(), {"U_c": Free()}), "parametrizations names 'U_c'; allowed for Elman: U"),
        (lambda: Recurrent(Elman(), {"W": Free()}), "parametrizations names 'W'; allowed for Elman: U"),
        (lambda: Recurrent(Elman(), initial={"c": None}), "initial names 'c'; allowed for Elman: W, U, b"),
        (
            lambda: Recurrent(Elman(), {"U": ScaledCayley(0)}, initial={"U": None}),
            "initial names 'U'; allowed for Elman: W, b",
        ),
        (lambda: Recurrent(Elman(), engine="c"), "engine is 'c'; allowed: 'fused', 'scan'"),
        (lambda: Recurrent(Elman()).init(rng, 3), "hidden_size is missing"),
        (lambda: Recurrent(Elman()).init(rng, 3, 0), "hidden_size is 0; allowed: an integer >= 1"),
        (lambda: layer.init(rng, 4, N), "input_size is 4; this layer was built for 3"),
        (lambda: layer.init(rng, dtype=np.float16), "dtype is float16; allowed: float32, float64"),
        (lambda: layer.init(rng, dtype=np.complex128), "dtype is complex128; allowed: float32, float64"),
        (lambda: models.build("gruu", 3, 4), "model is 'gruu'; allowed: rnn, irnn, lstm, gru, scornn, nc-gru"),
        (lambda: models.build("nc-gru", 3, 4, orthogonal="u"), "orthogonal is 'u'; allowed: 'c', 'rc', 'ruc'"),
        (lambda: models.build("nc-gru", 3, 4, negative_ones=5), "negative_ones is 5; allowed: 0 to n = 4"),
        (lambda: models.build("gru", 3, 4, order=2), "gru has no option 'order'; allowed: none"),
        (lambda: models.build("gru", 3, 0), "hidden_size is 0; allowed: an integer >= 1"),
    ]
    for call, message in cases:
        with pytest.raises((TypeError, ValueError)) as caught:
            call()
        assert message in str(caught.value)


def test_options_reach_the_maps_and_cells():
    """What a model is made of, by name and option; E-goru-02: which of them take their bias inside."""

    def maps(*arguments, **options):
        return models.build(*arguments, **options).parametrizations

    assert maps("nc-gru", 3, 6) == {"U_c": NeumannCayley(3, 2, 50)}
    assert maps("nc-gru", 3, 6, order=3, reset_every=7, negative_ones=0) == {"U_c": NeumannCayley(0, 3, 7)}
    assert maps("nc-gru", 3, 7, exact=True, orthogonal="rc") == dict.fromkeys(("U_r", "U_c"), ScaledCayley(3))
    assert maps("scornn", 3, 7) == {"U": ScaledCayley(3)}
    assert maps("scornn", np.int64(3), 6, negative_ones=6) == {"U": ScaledCayley(6)}
    assert {name: models.build(name, 3, 4).cell for name in models.names()} == {
        "rnn": Elman("tanh"),
        "irnn": Elman("relu"),
        "lstm": LSTM(),
        "gru": GRUResetBefore("tanh"),
        "scornn": Elman("modrelu"),
        "nc-gru": GRUResetBefore("modrelu"),
    }


def test_ranges_of_initial_values():
    """Glorot +-sqrt(6 / (rows + columns)); NC-GRU's free matrices +-sqrt(6 / (m + n)); scoRNN's W +-0.01: filled."""
    limit = np.sqrt(6 / 80)
    w = glorot(np.random.default_rng(0), (50, 30), np.float64)
    assert -limit <= w.min() < -0.95 * limit < 0.95 * limit < w.max() < limit
    params, _ = models.build("nc-gru", 3, 50).init(np.random.default_rng(0))
    for name in ("W_r", "W_u", "W_c", "U_r", "U_u"):
        assert 0.9 * np.sqrt(6 / 53) < abs(params[name]).max() <= np.sqrt(6 / 53)
    params, _ = models.build("scornn", 3, 50).init(np.random.default_rng(0))
    assert 0.009 < abs(params["W"]).max() <= 0.01


def test_trained_h0_and_deltas_are_checked_too():
    """Shape and dtype of the trained initial state; dtype of a delta; a complex parameter counts twice."""
    own = Recurrent(Elman(), trained_h0=True)
    params, states = own.init(np.random.default_rng(0), 3, 4)
    for bad, message in (
        (np.zeros(3, np.float32), "h0 has shape"),
        (np.zeros(4), "h0 is float64"),
        (None, "h0 is a Non"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            own.forward(params | {"h0": bad}, states, np.array([[0]]))
    with pytest.raises(TypeError, match="delta of W is float64; expected float32"):
        own.retract(params, states, {name: value.astype(np.float64) for name, value in params.items()})
    assert Recurrent(Elman()).count({"W": np.zeros((4, 3), complex)}) == 24
