"""Recurrent and the zoo: dense weights from parametrizations, gradients back to them, errors at the boundary."""

import re
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
    NeumannCayley,
    ScaledCayley,
    StructuredUnitary,
    defect,
)
from ortho_ref.recurrent import Recurrent
from tests.ortho_ref.maps import ORTHOGONAL, one

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


@pytest.mark.parametrize("name", ORTHOGONAL)
def test_real_and_complex_do_not_mix(name):
    """A complex U on a real cell would have its imaginary part cut off; a real one on a complex cell is refused too."""
    p = one(name).p
    is_, of = ("complex", "real") if p.complex else ("real", "complex")
    cell = Elman("modrelu", complex=not p.complex)
    message = f"parametrizations puts the {is_} {p} on U of the {of} Elman; allowed: one that is {of}"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        Recurrent(cell, {"U": p})
    assert Recurrent(cell, {"U": Free()}).constrained == {}


def test_bad_construction():
    """Names of weights the cell does not have."""
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


@pytest.mark.parametrize("name", ["gru, trained h0", "complex, U free, trained h0"])
def test_a_trained_h0(name):
    """Its gradient is the batch's sum of the state's, both parts of it; a given state overrides it, and it gets none
    then."""
    layer = LAYERS[name]
    params, buffers = built(layer)
    x, dh, given = arrays(layer)
    h, tape = layer.forward(params, buffers, x)
    np.testing.assert_array_equal(h[0], np.tile(params["h0"], (3, 1)))
    gradients = layer.backward(params, buffers, tape, dh)
    np.testing.assert_array_equal(gradients.params["h0"], gradients.h0.sum(axis=0))
    assert not layer.cell.complex or abs(gradients.params["h0"].imag).min() > 1e-3
    assert not layer.backward(params, buffers, tape, 0 * dh).params["h0"].any()
    h, tape = layer.forward(params, buffers, x, given)
    np.testing.assert_array_equal(h[0], given)
    unused = layer.backward(params, buffers, tape, dh).params["h0"]
    assert not unused.any()
    assert unused.dtype == params["h0"].dtype


def test_a_layers_output_size():
    """n numbers of a real state, 2 n of a complex one (urnn:9); of a layer without sizes it is not known."""
    assert models.build("urnn", M, N).output_size == 2 * N
    assert models.build("goru", M, N).output_size == models.build("lstm", M, N).output_size == N
    assert Recurrent(Elman()).output_size is None


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
        (Recurrent(LSTM(), trained_h0=True, engine="scan"), "LSTM(), trained h0, c0, by scan"),
        (Recurrent(LSTM(), trained_h0=True, sizes=(3, 4)), "LSTM(), 3 -> 4, trained h0, c0, 136 parameters"),
        (Recurrent(Scanned(), sizes=(3, 4)), "Scanned(), 3 -> 4, by scan, 128 parameters"),
        (  # W and h0 complex, 7 n
            models.urnn(3, 4),
            "urnn: Elman(activation='modrelu', complex=True), 3 -> 4, U: StructuredUnitary(), trained h0, "
            "64 parameters",
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
