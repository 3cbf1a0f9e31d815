"""The engine "factored" is `scan`, U by its factors: the same to 1e-12 in float64.

urnn:6 and its pullback bp:urnnW; rotations, goru:rot, goru:tunable, goru:fft, sgornn:2, and their pullback bp:rotation.
"""

import importlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st

from gradients.problem import relative_error
from ortho_ref import models
from ortho_ref.fused import factored, sequence
from ortho_ref.initial import uniform
from ortho_ref.parametrizations import FFTRotations, StructuredUnitary
from ortho_ref.recurrent import Recurrent
from scripts.evaluate import _engine as engine_here
from scripts.grid.settled import settled

pytest.importorskip("numba")
loops = importlib.import_module("ortho_ref.fused.compiled.sequence")


#: Model, its options, and n of a number: FFT style has powers of two, the others of rotations even ones.
MODELS = [
    ("urnn", {}, lambda k: k),
    ("eurnn", {"style": "fft"}, lambda k: 2 ** (1 + k % 6)),
    ("eurnn", {"style": "fft", "complex": False}, lambda k: 2 ** (1 + k % 6)),
    ("eurnn", {"capacity": 4}, lambda k: 2 * k + 2),
    ("eurnn", {"capacity": 2, "complex": False}, lambda k: 2 * k),
    ("vprnn", {"sublayers": 3}, lambda k: 2 * k),
    ("sgornn", {}, lambda k: 2 * k),
]


class Case:
    """A model with biases that switch units off, its input, and cotangents, of any size; results by an engine."""

    def __init__(self, seed, T=9, B=4, m=3, k=7, tokens=False, dtype=np.float64, h0=True, model=MODELS[0]):
        rng, (name, options, size) = np.random.default_rng(seed), model
        self.layer, n = models.build(name, m, size(k), **options), size(k)
        self.params, self.buffers = self.layer.init(rng, dtype=dtype)
        self.params["b"] = rng.standard_normal(n).astype(dtype)
        # EURNN's own +-0.01 gives z near 0, where a complex modReLU enlarges rounding b / |z| times
        self.params["W"] = uniform(1)(rng, (n, m), self.params["W"].dtype)
        self.x = rng.integers(0, m, (T, B)) if tokens else rng.standard_normal((T, B, m)).astype(dtype)
        h0_, self.dh, dh_T = (rng.standard_normal((k, B, n, 2)).astype(dtype) for k in (1, T, 1))
        if self.layer.cell.complex:
            h0_, self.dh, dh_T = (a.view(a.dtype.char.upper()) for a in (h0_, self.dh, dh_T))
        h0_, self.dh, dh_T = (np.ascontiguousarray(a[..., 0]) for a in (h0_, self.dh, dh_T))
        self.h0, self.dh_T = h0_[0] if h0 else None, dh_T[0]

    def by(self, engine):
        layer = replace(self.layer, engine=engine)
        h, tape = layer.forward(self.params, self.buffers, self.x, self.h0)
        found = layer.backward(self.params, self.buffers, tape, self.dh, self.dh_T)
        return {"h": h, **found.params, "x": found.x, "h0": found.h0}


def assert_same(case, tolerance=1e-12):
    ours, theirs = case.by("factored"), case.by("scan")
    assert ours.keys() == theirs.keys()
    for name, value in theirs.items():
        if value is None:
            assert ours[name] is None
        else:
            assert (ours[name].dtype, ours[name].shape) == (value.dtype, value.shape)
            # of one unit v has no part in U, and its gradient is nothing but rounding
            assert abs(ours[name] - value).max(initial=0) < tolerance * max(1, abs(value).max(initial=0)), name


@settings(max_examples=150)
@example(seed=0, T=1, B=1, m=1, k=1, tokens=False, h0=False, model=MODELS[0])
@example(seed=0, T=9, B=6, m=3, k=64, tokens=True, h0=True, model=MODELS[0])
@example(seed=0, T=2, B=33, m=3, k=3, tokens=False, h0=True, model=MODELS[1])
@given(
    seed=st.integers(0, 2**32 - 1), T=st.integers(1, 9), B=st.integers(1, 19), m=st.integers(1, 5),
    k=st.integers(1, 40), tokens=st.booleans(), h0=st.booleans(), model=st.sampled_from(MODELS),
)  # fmt: skip
def test_equals_scan(seed, T, B, m, k, tokens, h0, model):
    """Any shape, vectors and tokens, a state that is given or trained, upstream at every step and at the last."""
    assert_same(Case(seed, T, B, m, k, tokens, h0=h0, model=model))


@pytest.mark.parametrize("rows", [1, 10, 10**6])
@pytest.mark.parametrize("model", MODELS[:2])
def test_equals_scan_however_time_is_cut(monkeypatch, rows, model):
    """Chunks of one step, of several with a shorter one left over, and a single one."""
    monkeypatch.setattr(sequence, "_CHUNK_ROWS", rows)
    monkeypatch.setattr(loops, "CHUNK", rows)
    assert_same(Case(1, T=8, B=3, model=model))


@pytest.fixture
def any_threads():
    yield
    factored.compiled.set_threads(None)


@pytest.mark.usefixtures("any_threads")
@pytest.mark.parametrize("model", MODELS[1:])
def test_the_bits_do_not_depend_on_the_threads(monkeypatch, model):
    """Slices of the batch, one after another and side by side; each has rows left over beside eights."""
    monkeypatch.setattr(loops, "WORTH", 0)
    case, found = Case(5, B=27, k=20, model=model), []
    for count in (1, 2):
        factored.compiled.set_threads(count)
        found.append(case.by("factored"))
    assert all(np.array_equal(own, found[1][name]) for name, own in found[0].items())


@pytest.mark.parametrize("model", [MODELS[0], MODELS[1], MODELS[6]])
def test_float32_stays_float32_and_nothing_is_modified(model):
    """dtype in = dtype out, within float32's rounding; a tape serves twice, inputs keep their bits, in any order."""
    case, exact = Case(2, k=16, dtype=np.float32, model=model), Case(2, k=16, model=model)
    exact.params = {name: value.astype(np.result_type(value, np.float64)) for name, value in case.params.items()}
    exact.buffers = exact.layer.rebuild(exact.params, exact.buffers)
    for name in ("x", "h0", "dh", "dh_T"):
        setattr(exact, name, getattr(case, name).astype(np.result_type(getattr(case, name), np.float64)))
    before = [a.copy() for a in (case.x, case.h0, case.dh, case.dh_T, *case.params.values())]
    first, theirs = case.by("factored"), exact.by("scan")
    assert all(value.real.dtype == np.float32 for value in first.values())
    assert all(relative_error(first[name], theirs[name]) < 1e-4 for name in theirs)
    layer = replace(case.layer, engine="factored")
    _, tape = layer.forward(case.params, case.buffers, case.x, case.h0)
    pulled = [layer.backward(case.params, case.buffers, tape, case.dh, case.dh_T) for _ in range(2)]
    assert all(np.array_equal(pulled[0].params[name], own) for name, own in pulled[1].params.items())
    after = (case.x, case.h0, case.dh, case.dh_T, *case.params.values())
    assert all(map(np.array_equal, before, after))
    case.x, case.dh = (np.asfortranarray(a) for a in (case.x, case.dh))
    case.params |= {name: np.repeat(own, 2, axis=-1)[..., ::2] for name, own in case.params.items() if own.ndim}
    assert all(np.array_equal(first[name], own) for name, own in case.by("factored").items())


@pytest.mark.parametrize("model", MODELS)
def test_a_state_of_0_and_not_a_number(model):
    """A unit that is off, or at z = 0, passes nothing on; NaN is not turned into a number, and stays in its row."""
    case = Case(3, h0=False, model=model)
    case.x[:], case.params["b"][:] = 0, -1
    if "h0" in case.params:
        case.params["h0"][:] = 0
    found = case.by("factored")
    assert not found["h"].any()
    assert not any(found[name].any() for name in found if name in ("W", "b", "x") or name.startswith("U."))
    case = Case(3, model=model)
    case.x[1, 0, 0] = np.nan
    layer = replace(case.layer, engine="factored")
    h, _ = layer.run(case.params, layer.run_on(case.params, case.buffers), case.x, case.h0)
    assert np.isnan(h[2:, 0]).any()
    assert not np.isnan(h[:, 1:]).any()


class Own(StructuredUnitary):
    """One's own kind: what its factors are the engine does not know."""


class OwnRotations(FFTRotations):
    """The same."""


@pytest.mark.parametrize(
    "layer",
    [
        models.gru(3, 4),
        models.goru(3, 4),
        models.full_urnn(3, 4),
        models.sgornn(3, 4, phi="exp"),
        Recurrent(models.urnn(3, 4).cell, {"U": Own()}),
        Recurrent(models.urnn(3, 4).cell, {"U": OwnRotations(complex=True)}),
    ],
)
def test_others_are_refused(layer):
    """By name, with what is allowed."""
    ours = "urnn, eurnn, vprnn and sgornn"
    message = rf"^engine is 'factored', which is for {ours}; allowed for .*: 'compiled', 'fused', 'scan'$"
    with pytest.raises(ValueError, match=message):
        replace(layer, engine="factored")


def test_without_numba(monkeypatch):
    """The extra is named."""
    monkeypatch.setattr(factored.compiled, "is_installed", lambda: False)
    with pytest.raises(ValueError, match=r"^engine is 'factored', which needs Numba: pip install 'ortho-ref\[fast\]'$"):
        replace(models.urnn(3, 4), engine="factored")


@pytest.mark.parametrize(
    ("model", "options", "least"),
    [
        ("urnn", {}, 128),
        ("eurnn", {"style": "tunable"}, 128),
        ("eurnn", {"style": "fft"}, 256),
        ("eurnn", {"style": "tunable", "complex": False}, 256),
        ("eurnn", {"style": "fft", "complex": False}, 512),
        ("vprnn", {}, 512),
        ("sgornn", {}, 512),
    ],
)
def test_who_takes_it(model, options, least):
    """A run of the model takes it where it is quicker: from so large an n on, for all layers, on the host."""

    def engine(hidden, **more):
        return settled("adding", model=model, model_options=options, hidden=hidden, **more)["engine"]

    assert (engine(least // 2), engine(least)) == ("compiled", "factored")
    assert engine([least, least // 2], layers=2) == "compiled"
    assert engine([least, 2 * least], layers=2) == "factored"
    assert engine(least, device="gpu") != "factored"


def test_who_evaluates_a_run():
    """By the run's engine where it is, else by `fused`."""
    assert engine_here({"engine": "factored"}, "cpu") == "factored"
    assert engine_here({"engine": "factored"}, "gpu") == "fused"


@pytest.mark.parametrize("model", ["urnn", "eurnn", "sgornn"])
def test_a_network_of_two(model):
    """Loss and every gradient of a network, whose second layer reads the first, of complex states Re h and Im h."""
    network = models.network(model, 3, [6, 4], 2, readout="last", loss="mean_squared_error")
    rng = np.random.default_rng(4)
    params, buffers = network.init(rng, dtype=np.float64)
    x, y = rng.standard_normal((7, 4, 3)), rng.standard_normal((4, 2))
    found = {}
    for engine in ("scan", "factored"):
        own = replace(network, layers=tuple(replace(layer, engine=engine) for layer in network.layers))
        loss, found[engine], _ = own.loss_and_gradients(params, buffers, x, y)
        found[engine]["loss"] = loss
    for name, value in found["scan"].items():
        assert relative_error(np.asarray(found["factored"][name]), np.asarray(value)) < 1e-12, name
