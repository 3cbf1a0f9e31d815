"""Recurrent and the zoo: dense weights from parametrizations, gradients back to them, errors at the boundary."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from gradients.problem import Problem, admissible, perturbed, relative_error, skew, standard_normal
from ortho_ref import backend, models
from ortho_ref.cells import LSTM, Elman, FastRNN, GRUResetAfter, GRUResetBefore
from ortho_ref.cells.cell import state_of
from ortho_ref.finite_differences import compare_gradients
from ortho_ref.parametrizations import (
    Exponential,
    FFTRotations,
    Free,
    GeodesicUnitary,
    Householder,
    NeumannCayley,
    ScaledCayley,
    StructuredUnitary,
    TunableRotations,
    VolumePreserving,
    defect,
)
from ortho_ref.recurrent import Recurrent
from ortho_ref.training.optimizers import Adam
from tests.device import Foreign

M, N = 3, 6


def built(layer, seed=0, dtype=np.float64):
    """Parameters moved off their symmetric start (zero biases), and buffers."""
    rng = np.random.default_rng(seed)
    params, buffers = layer.init(rng, M, N, dtype=dtype)
    params = perturbed(params, rng, 0.3)
    return params, layer.rebuild(params, buffers)


def arrays(layer, seed=1, T=4, B=3):
    """x, dh, and a state."""
    rng = np.random.default_rng(seed)

    state = state_of(tuple(standard_normal(rng, (B, N), layer.cell.complex) for _ in layer.cell.states))
    return rng.standard_normal((T, B, M)), standard_normal(rng, (T, B, N), layer.cell.complex), state


LAYERS = {
    "nc-gru ruc": models.build("nc-gru", M, N, orthogonal="ruc"),
    "nc-gru exact": models.build("nc-gru", M, N, exact=True),
    "gru, trained h0": Recurrent(GRUResetBefore("tanh"), trained_h0=True),
    "gru(tanh), U_r and U_u by different maps": Recurrent(
        GRUResetBefore("tanh"), {"U_r": ScaledCayley(1), "U_u": NeumannCayley(2), "U_c": Free()}
    ),
    "lstm, U_f orthogonal, trained h0 and c0": Recurrent(LSTM(), {"U_f": ScaledCayley(3)}, trained_h0=True),
    "scornn, by scan": Recurrent(Elman("tanh"), {"U": ScaledCayley(3)}, engine="scan"),
    "complex, U free, trained h0": Recurrent(Elman("modrelu", complex=True), trained_h0=True),
    "complex, by scan": Recurrent(Elman("modrelu", complex=True), {"U": StructuredUnitary()}, engine="scan"),
    "goru, householder": models.build("goru", M, N, style="householder"),
    "gru-cudnn, all four kinds of map": models.build(
        "gru-cudnn", M, N, parametrize={"U_r": "scaled_cayley", "U_z": Exponential(), "U_h": "volume_preserving"}
    ),
    "fastrnn, trained h0": Recurrent(FastRNN("tanh"), trained_h0=True),
    **{name: models.build(name, M, N) for name in ("urnn", "full-urnn", "eurnn", "ornn", "vprnn", "sgornn", "goru")},
}


@pytest.mark.parametrize("name", LAYERS)
def test_gradient_of_every_parameter(device, name):
    """Through the cell, the dense U and its map to A; the trained initial state included; one dU for each weight."""
    layer = LAYERS[name]
    params, buffers = built(layer)
    x, dh, last = arrays(layer)
    on = [backend.to_device(value, device) for value in (params, buffers, x, dh, last)]
    _, tape = layer.forward(*on[:3])
    ours = backend.to_host(layer.backward(*on[:2], tape, *on[3:]).params)

    problem = Problem(layer.cell, {}, x, last, dh, last)

    def loss(point):
        point = admissible(point)
        return problem.weigh(layer.forward(point, layer.rebuild(point, buffers), x)[0])

    # this seed's pre-activations stay 1e-3 from the kinks; the step of 2e-5 moves them by less
    report = compare_gradients(loss, params, ours, skew=skew(params), may_vanish=problem.may_vanish)
    assert set(ours) == set(params)
    assert all((ours[key].shape, ours[key].dtype) == (params[key].shape, params[key].dtype) for key in params)
    assert report.passed, f"\n{report}"


def test_each_orthogonal_weight_has_its_own_gradient():
    """Released code drives U_c with U_r's gradient: with the same A in both, ours differ."""
    layer = models.build("nc-gru", M, N, orthogonal="rc")
    params, buffers = built(layer)
    params["U_r.A"] = params["U_c.A"].copy()
    buffers = layer.rebuild(params, buffers)
    x, dh, _ = arrays(layer)
    gradients = layer.backward(params, buffers, layer.forward(params, buffers, x)[1], dh).params
    assert relative_error(gradients["U_r.A"], gradients["U_c.A"]) > 0.1


def test_retract_follows_algorithm_1_and_leaves_its_input_alone(device):
    """Free weights move by their delta, orthogonal ones by their map; old params and buffers keep their values."""
    layer = models.build("nc-gru", M, N)
    params, buffers = backend.to_device(built(layer), device)
    before = backend.to_host((params, buffers))
    deltas = {
        name: 0.01 * (value if name.endswith(".A") else backend.xp_of(value).ones_like(value))
        for name, value in params.items()
    }
    new, new_buffers = layer.retract(params, buffers, deltas)
    assert list(new) == list(params)
    assert relative_error(new["W_r"], before[0]["W_r"] - 0.01) < 1e-15
    assert relative_error(new["U_c.A"], 0.99 * before[0]["U_c.A"]) < 1e-15
    assert new_buffers["U_c"]["step"] == 1
    assert defect(backend.to_host(new_buffers["U_c"]["U"])) < 1e-6
    for old, kept in ((before[0], params), (before[1]["U_c"], buffers["U_c"])):
        assert all(np.array_equal(old[key], backend.to_host(kept[key])) for key in old)


def test_given_h0_overrides_the_trained_one():
    """A carried state is used as it is, and the trained initial state gets no gradient then."""
    layer = Recurrent(GRUResetBefore("tanh"), trained_h0=True)
    params, buffers = built(layer)
    x, dh, h0 = arrays(layer)
    h, tape = layer.forward(params, buffers, x, h0)
    np.testing.assert_array_equal(h[0], h0)
    assert not layer.backward(params, buffers, tape, dh).params["h0"].any()
    assert not layer.backward(params, buffers, tape, 0 * dh).params["h0"].any()  # nor where none arrives
    h, _ = layer.forward(params, buffers, x)
    np.testing.assert_array_equal(h[0], np.tile(params["h0"], (3, 1)))


def test_engines_agree():
    """engine="scan" and engine="fused" are the same layer."""
    layer = models.build("nc-gru", M, N)
    params, buffers = built(layer)
    x, dh, _ = arrays(layer)
    results = []
    for engine in ("fused", "scan"):
        own = Recurrent(layer.cell, layer.parametrizations, engine=engine)
        h, tape = own.forward(params, buffers, x)
        results.append((h, own.backward(params, buffers, tape, dh).params))
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
    there = [array.view(Foreign) for array in (X, H0, DH, PARAMS["W_r"])]
    for call in (
        lambda: layer.forward(PARAMS, STATES, there[0]),
        lambda: layer.forward(PARAMS, STATES, X, there[1]),
        lambda: layer.backward(PARAMS, STATES, TAPE, there[2]),
        lambda: layer.forward(PARAMS | {"W_r": there[3]}, STATES, X),
    ):
        with pytest.raises(TypeError, match="arrays of different libraries in one call"):
            call()


def test_bad_parameters_states_and_upstream():
    """Missing, misshapen and mistyped parameters; buffers of another layer; dh of another width; LSTM's pairs."""
    cases = [
        (lambda: layer.forward({**PARAMS, "b_r": PARAMS["b_r"][:5]}, STATES, X), "b_r has shape (5,); expected (6,)"),
        (lambda: layer.forward({**PARAMS, "b_r": np.float32(PARAMS["b_r"])}, STATES, X), "b_r is float32"),
        (lambda: layer.forward({**PARAMS, "U_u": PARAMS["U_u"] + 0j}, STATES, X), "U_u is complex128"),
        (
            lambda: layer.forward({k: v for k, v in PARAMS.items() if k != "b_r"}, STATES, X),
            "params holds no b_r; the weights are W_r",
        ),
        (lambda: layer.forward(PARAMS, {}, X), "buffers holds no U_c; expected all that init gives"),
        (lambda: layer.forward({**PARAMS, "W_x": X}, STATES, X), "params holds 'W_x'; the weights are W_r, U_r, b_r"),
        (
            lambda: layer.forward(PARAMS | {"U_c": np.eye(N)}, STATES, X),
            "params holds 'U_c', which is built from its own",
        ),
        (lambda: layer.forward(WITHOUT_A, STATES, X), "params holds no U_c.*; the weights are"),
        (
            lambda: layer.forward(HALF, STATES, np.float16(X)),
            "W_r is float16; expected float64",
        ),
        (lambda: layer.backward(PARAMS, STATES, None, DH), "tape is None; expected what forward returned"),
        (
            lambda: LAYERS["gru, trained h0"].backward(*GRU, TAPE, DH),
            "tape is of GRUResetBefore(activation='modrelu') with n = 6; this is GRUResetBefore(activation='tanh')",
        ),
        (lambda: layer.forward({}, STATES, X), "params holds no input weight W (n, m)"),
        (lambda: layer.backward(PARAMS, STATES, TAPE, DH[:, :, :5]), "dh has shape (4, 3, 5); expected (4, 3, 6)"),
        (lambda: layer.backward(PARAMS, STATES, TAPE, DH[0]), "dh has shape (3, 6); expected (4, 3, 6)"),
        (lambda: layer.backward(PARAMS, STATES, TAPE, DH[:3]), "dh has shape (3, 3, 6); expected (4, 3, 6)"),
        (lambda: layer.backward(PARAMS, STATES, TAPE, DH * np.inf), "dh has an entry that is not finite"),
        (lambda: layer.backward(PARAMS, STATES, TAPE, DH, H0[0]), "dh_T has shape (6,); expected (3, 6)"),
        (lambda: layer.retract(PARAMS, STATES, {}), "deltas holds no W_r, no U_r, no b_r, "),
        (lambda: layer.retract(PARAMS, STATES, {**PARAMS, "b_r": np.ones(2)}), "delta of b_r has shape (2,)"),
    ]
    lstm = LAYERS["lstm, U_f orthogonal, trained h0 and c0"]
    params, buffers = built(lstm)
    cases.append((lambda: lstm.forward(params, buffers, X, H0), "h0 is an ndarray; expected the tuple (h, c)"))
    gates, gates_states = built(LAYERS["fastrnn, trained h0"])
    for alpha, message in (
        (1.0, "alpha is a float; expected an array of shape ()"),
        (np.ones(1), "alpha has shape (1,); expected ()"),
    ):
        wrong = gates | {"alpha": alpha}
        cases.append((lambda wrong=wrong: LAYERS["fastrnn, trained h0"].forward(wrong, gates_states, X), message))
    for call, message in cases:
        with pytest.raises((TypeError, ValueError)) as caught:
            call()
        assert message in str(caught.value)


def test_what_is_real_and_what_is_complex():
    """In a complex layer W, U, h0, dh and dh_T are complex, x and b real; a real array in the place of a complex one
    would lose the phase without a word."""
    own = LAYERS["complex, U free, trained h0"]
    params, buffers = built(own)
    x, dh, h0 = arrays(own)
    _, tape = own.forward(params, buffers, x, h0)
    real, complex_h0 = own.forward(params, buffers, x)[1], "h0 is float64; expected complex128"
    for call, message in (
        (lambda: own.forward(params, buffers, x + 0j), "x is complex128; expected float64"),
        (lambda: own.forward(params, buffers, x.astype(np.float32)), "x is float32; expected float64"),
        (lambda: own.forward(params, buffers, x, h0.real), complex_h0),
        (lambda: own.forward(params | {"h0": params["h0"].real}, buffers, x), complex_h0),
        (lambda: own.forward(params | {"b": params["b"] + 0j}, buffers, x), "b is complex128; expected float64"),
        (lambda: own.forward(params | {"U": params["U"].real}, buffers, x), "U is float64; expected complex128"),
        (
            lambda: own.forward(params | {"W": params["W"].real}, buffers, x),
            "W is float64; expected complex128",
        ),
        (lambda: own.backward(params, buffers, real, dh.real), "dh is float64; expected complex128"),
        (lambda: own.backward(params, buffers, tape, dh, h0.real), "dh_T is float64; expected complex128"),
        (lambda: own.backward(params, buffers, tape, dh * complex(1, np.inf)), "dh has an entry that is not finite"),
        (lambda: layer.forward(PARAMS | {"W_r": PARAMS["W_r"] + 0j}, STATES, X), "W_r is complex128; expected float64"),
    ):
        with pytest.raises((TypeError, ValueError)) as caught:
            call()
        assert message in str(caught.value)


@pytest.mark.parametrize(
    ("cell", "p", "kinds"),
    [
        (Elman("modrelu"), StructuredUnitary(), ("complex", "real")),
        (Elman("modrelu"), GeodesicUnitary(), ("complex", "real")),
        (Elman("modrelu"), FFTRotations(complex=True), ("complex", "real")),
        (FastRNN(), TunableRotations(complex=True), ("complex", "real")),
        (GRUResetAfter(), GeodesicUnitary(), ("complex", "real")),
        *(
            (Elman("modrelu", complex=True), p, ("real", "complex"))
            for p in (
                ScaledCayley(1),
                NeumannCayley(1),
                Exponential(),
                Householder(2),
                FFTRotations(),
                TunableRotations(),
                VolumePreserving(),
            )
        ),
    ],
)
def test_real_and_complex_do_not_mix(cell, p, kinds):
    """A complex U on a real cell would have its imaginary part cut off; a real one on a complex cell is refused too."""
    name = "U_h" if isinstance(cell, GRUResetAfter) else "U"
    with pytest.raises(ValueError) as caught:  # noqa: PT011  the whole message is compared
        Recurrent(cell, {name: p})
    assert str(caught.value) == (
        f"parametrizations puts the {kinds[0]} {p} on {name} of the {kinds[1]} {type(cell).__name__}; allowed: one "
        f"that is {kinds[1]}"
    )
    assert Recurrent(cell, {name: Free()}).constrained == {}


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
        (lambda: Recurrent(FastRNN(), {"alpha": Free()}), "parametrizations names 'alpha'; allowed for FastRNN: U"),
        (lambda: Recurrent(GRUResetAfter(), {"U_c": Free()}), "allowed for GRUResetAfter: U_r, U_z, U_h"),
        (
            lambda: Recurrent(GRUResetAfter("modrelu", reset_gate=False), {"U_r": Free()}),
            "parametrizations names 'U_r'; allowed for GRUResetAfter: U_z, U_h",
        ),
        (lambda: Recurrent(Elman(), initial={"h0": None}), "initial names 'h0'; allowed for Elman: W, U, b"),
        (
            lambda: Recurrent(Elman(), trained_h0=True, initial={"c0": None}),
            "initial names 'c0'; allowed for Elman: W, U, b, h0",
        ),
        (lambda: Recurrent(Elman(), engine="c"), "engine is 'c'; allowed: 'fused', 'scan'"),
        (lambda: Recurrent(Elman()).init(rng, 3), "hidden_size is missing"),
        (lambda: Recurrent(Elman()).init(rng, 3, 0), "hidden_size is 0; allowed: an integer >= 1"),
        (lambda: layer.init(rng, 4, N), "input_size is 4; this layer was built for 3"),
        (lambda: layer.init(rng, dtype=np.float16), "dtype is float16; allowed: float32, float64"),
        (lambda: layer.init(rng, dtype=np.complex128), "dtype is complex128; allowed: float32, float64"),
        (
            lambda: models.build("gruu", 3, 4),
            "model is 'gruu' (did you mean 'gru'?); allowed: rnn, irnn, lstm, gru, gru-cudnn, gru-modrelu, ",
        ),
        (lambda: models.build("nc-gru", 3, 4, orthogonal="u"), "orthogonal is 'u'; allowed: 'c', 'rc', 'ruc'"),
        (lambda: models.build("nc-gru", 3, 4, negative_ones=5), "negative_ones is 5; allowed: 0 to n = 4"),
        (lambda: models.build("lstm", 3, 4, order=2), "lstm has no option 'order'; allowed: none"),
        (lambda: models.build("gru", 3, 0), "hidden_size is 0; allowed: an integer >= 1"),
    ]
    for call, message in cases:
        with pytest.raises((TypeError, ValueError)) as caught:
            call()
        assert message in str(caught.value)


def test_trained_h0_and_deltas_are_checked_too():
    """Shape and dtype of the trained initial state; dtype of a delta; a complex parameter counts twice."""
    own = Recurrent(Elman(), trained_h0=True)
    params, buffers = own.init(np.random.default_rng(0), 3, 4)
    for bad, message in (
        (np.zeros(3, np.float32), "h0 has shape"),
        (np.zeros(4), "h0 is float64"),
        (None, "h0 is None; exp"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            own.forward(params | {"h0": bad}, buffers, np.array([[0]]))
    with pytest.raises(TypeError, match="delta of W is float64; expected float32"):
        own.retract(params, buffers, {name: value.astype(np.float64) for name, value in params.items()})
    complex_cell = Recurrent(Elman("modrelu", complex=True))
    params, _ = complex_cell.init(np.random.default_rng(0), 3, 4)
    assert complex_cell.count(params) == 2 * (4 * 3 + 4 * 4) + 4


def test_a_trained_complex_h0():
    """Both its parts are learned: its gradient is the batch's sum of the state's, by finite differences; a given state
    overrides it, and it then gets none."""
    own = LAYERS["complex, U free, trained h0"]
    params, buffers = built(own)
    x, dh, given = arrays(own)
    h, tape = own.forward(params, buffers, x)
    np.testing.assert_array_equal(h[0], np.tile(params["h0"], (3, 1)))
    gradients = own.backward(params, buffers, tape, dh)
    np.testing.assert_array_equal(gradients.params["h0"], gradients.h0.sum(axis=0))
    assert abs(gradients.params["h0"].imag).min() > 1e-3
    h, tape = own.forward(params, buffers, x, given)
    np.testing.assert_array_equal(h[0], given)
    unused = own.backward(params, buffers, tape, dh).params["h0"]
    assert not unused.any()
    assert unused.dtype == np.complex128


def test_a_layers_output_size():
    """n numbers of a real state, 2 n of a complex one (urnn:9); of a layer without sizes it is not known."""
    assert models.build("urnn", M, N).output_size == 2 * N
    assert models.build("goru", M, N).output_size == models.build("lstm", M, N).output_size == N
    assert Recurrent(Elman()).output_size is None


@pytest.mark.parametrize("name", ["sgornn", "urnn"])
def test_scalars_and_complex_arrays_keep_their_kind(device, name):
    """Through init, forward, backward and retract a 0-d weight stays an array, a complex one complex, beside x."""
    own = models.build(name, M, N)
    params, buffers = backend.to_device(own.init(np.random.default_rng(0)), device)
    x, dh, _ = (a.astype(np.complex64 if a.dtype.kind == "c" else np.float32) for a in arrays(own))
    x, dh = backend.to_device((x, dh), device)
    optimizer = Adam(1e-3)
    for _ in range(2):
        tape = own.forward(params, buffers, x)[1]
        gradients = own.backward(params, buffers, tape, dh).params
        for key, value in params.items():
            assert backend.is_array(gradients[key])
            assert (gradients[key].shape, gradients[key].dtype) == (value.shape, value.dtype)
        deltas = {key: optimizer.delta(key, value, gradients[key]) for key, value in params.items()}
        moved, buffers = own.retract(params, buffers, deltas)
        for key, value in params.items():
            assert backend.is_array(moved[key])
            assert (moved[key].shape, moved[key].dtype) == (value.shape, value.dtype)
        params = moved


class Scanned(LSTM):
    """A cell without a fused form."""


@dataclass(frozen=True)
class Counted(ScaledCayley):
    """A map that may be counted, and not drawn."""

    def init(self, rng, n, dtype):
        raise AssertionError


CELL = "GRUResetBefore(activation='modrelu')"


@pytest.mark.parametrize(
    ("layer", "text"),
    [
        (
            models.nc_gru(10, 56, negative_ones=40),
            f"nc-gru: {CELL}, 10 -> 56, "
            "U_c: NeumannCayley(negative_ones=40, order=2, reset_every=50), 9,660 parameters",
        ),
        (models.lstm(3, 4), "lstm: LSTM(), 3 -> 4, 128 parameters"),
        (  # 2 n m + n n of matrices, r, b_z, b_h, and 6 * 3 - 3 of the reflections
            models.goru(2, 6, style="householder", reset_gate=False),
            "goru: GRUResetAfter(activation='modrelu', reset_gate=False, update_gate=True, recurrent_bias=False), "
            "2 -> 6, U_h: Householder(reflections=3), 93 parameters",
        ),
        (Recurrent(GRUResetBefore("modrelu"), {"U_c": Free()}), CELL),
        (Recurrent(GRUResetBefore("modrelu"), {"U_r": Counted(1)}), f"{CELL}, U_r: Counted(negative_ones=1)"),
        (Recurrent(LSTM(), trained_h0=True, engine="scan"), "LSTM(), trained h0, c0, by scan"),
        (Recurrent(LSTM(), trained_h0=True, sizes=(3, 4)), "LSTM(), 3 -> 4, trained h0, c0, 136 parameters"),
        (Recurrent(Scanned(), sizes=(3, 4)), "Scanned(), 3 -> 4, by scan, 128 parameters"),
        (  # W and h0 complex, 7 n
            models.urnn(3, 4),
            "urnn: Elman(activation='modrelu', complex=True), 3 -> 4, U: StructuredUnitary(), trained h0, "
            "64 parameters",
        ),
        (  # W, U and h0 complex
            Recurrent(Elman("modrelu", complex=True), trained_h0=True, sizes=(3, 4)),
            "Elman(activation='modrelu', complex=True), 3 -> 4, trained h0, 68 parameters",
        ),
        (  # 12 is no power of two, which `init` says
            Recurrent(GRUResetBefore("modrelu"), {"U_c": FFTRotations()}, sizes=(3, 12)),
            f"{CELL}, 3 -> 12, U_c: FFTRotations(complex=False)",
        ),
    ],
)
def test_what_a_layer_says_of_itself(layer, text):
    """Model, cell, sizes, how weights are kept, parameters, in one line; what it does not have is left out."""
    assert repr(layer) == f"Recurrent({text})"


def test_sizes_are_a_pair_however_they_were_given():
    """A list is taken as the tuple; so the layer is the same one, and does not change with the list."""
    sizes = [3, 4]
    layer = Recurrent(LSTM(), sizes=sizes)
    sizes[1] = 5
    assert layer == Recurrent(LSTM(), sizes=(3, 4))
    assert layer.sizes == (3, 4)


def test_parameters_are_counted_without_a_draw():
    """From shapes and the maps' own counts; a layer that knows no sizes has none."""
    layer = Recurrent(Elman("modrelu"), {"U": Counted(1)}, sizes=(10, 10**6))
    assert repr(layer).endswith(f", {10**7 + 10**6 + 10**6 * (10**6 - 1) // 2:,} parameters)")
    assert repr(models.urnn(1, 10**6)).endswith(", 12,000,000 parameters)")
    assert Recurrent(Elman()).free_parameters is None


def test_a_layers_name_is_no_part_of_what_it_is():
    """Two layers that differ in it alone are equal, and their tapes may be exchanged."""
    layer = models.rnn(3, 4)
    assert replace(layer, name=None) == layer
    assert replace(layer, name="mine").name == "mine"
