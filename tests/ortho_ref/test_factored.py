"""The engine "factored" is `scan`, U by its factors: the same to 1e-12 in float64 (urnn:6, its pullback bp:urnnW)."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gradients.problem import relative_error
from ortho_ref import models
from ortho_ref.fused import factored, sequence
from ortho_ref.parametrizations import StructuredUnitary
from ortho_ref.recurrent import Recurrent
from scripts.evaluate import _engine as engine_here
from scripts.grid.config import settled

pytest.importorskip("numba")


class Case:
    """A uRNN with biases that switch units off, its input, and cotangents, of any size; results by an engine."""

    def __init__(self, seed, T=9, B=4, m=3, n=7, tokens=False, dtype=np.float64, h0=True):
        rng = np.random.default_rng(seed)
        self.layer = models.urnn(m, n)
        self.params, self.buffers = self.layer.init(rng, dtype=dtype)
        self.params["b"] = rng.standard_normal(n).astype(dtype)
        self.x = rng.integers(0, m, (T, B)) if tokens else rng.standard_normal((T, B, m)).astype(dtype)
        complex_ = [rng.standard_normal((k, B, n, 2)).astype(dtype) for k in (1, T, 1)]
        h0_, self.dh, dh_T = (a.view(a.dtype.char.upper())[..., 0] for a in complex_)
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
            assert abs(ours[name] - value).max() < tolerance * max(1, abs(value).max()), name


@settings(max_examples=60)
@example(seed=0, T=1, B=1, m=1, n=1, tokens=False, h0=False)
@example(seed=0, T=9, B=6, m=3, n=64, tokens=True, h0=True)
@given(
    seed=st.integers(0, 2**32 - 1), T=st.integers(1, 9), B=st.integers(1, 6), m=st.integers(1, 5),
    n=st.integers(1, 40), tokens=st.booleans(), h0=st.booleans(),
)  # fmt: skip
def test_equals_scan(seed, T, B, m, n, tokens, h0):
    """Any shape, vectors and tokens, a state that is given or trained, upstream at every step and at the last."""
    assert_same(Case(seed, T, B, m, n, tokens, h0=h0))


@pytest.mark.parametrize("rows", [1, 10, 10**6])
def test_equals_scan_however_time_is_cut(monkeypatch, rows):
    """Chunks of one step, of several with a shorter one left over, and a single one."""
    monkeypatch.setattr(sequence, "_CHUNK_ROWS", rows)
    assert_same(Case(1, T=8, B=3))


def test_float32_stays_float32_and_nothing_is_modified():
    """dtype in = dtype out, within float32's rounding; a tape serves twice, inputs keep their bits, in any order."""
    case, exact = Case(2, n=16, dtype=np.float32), Case(2, n=16)
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
    case.params |= {name: np.repeat(case.params[name], 2)[::2] for name in ("b", "U.w_2", "U.v_1")}
    assert all(np.array_equal(first[name], own) for name, own in case.by("factored").items())


def test_a_state_of_0_and_not_a_number():
    """A unit that is off, or at z = 0, passes nothing on; NaN is not turned into a number, and stays in its row."""
    case = Case(3, h0=False)
    case.x[:], case.params["b"][:] = 0, -1
    case.params["h0"][:] = 0
    found = case.by("factored")
    assert not found["h"].any()
    assert not any(found[name].any() for name in ("W", "b", "x", "U.w_1", "U.v_2"))
    case = Case(3)
    case.x[1, 0, 0] = np.nan
    layer = replace(case.layer, engine="factored")
    h, _ = layer.run(case.params, layer.run_on(case.params, case.buffers), case.x, case.h0)
    assert np.isnan(h[2:, 0]).any()
    assert not np.isnan(h[:, 1:]).any()


class Own(StructuredUnitary):
    """One's own kind: what its factors are the engine does not know."""


@pytest.mark.parametrize(
    "layer",
    [models.gru(3, 4), models.full_urnn(3, 4), models.eurnn(3, 4), Recurrent(models.urnn(3, 4).cell, {"U": Own()})],
)
def test_others_are_refused(layer):
    """By name, with what is allowed."""
    with pytest.raises(ValueError, match=r"^engine is 'factored', which is for urnn; allowed for .*: 'fused', 'scan'$"):
        replace(layer, engine="factored")


def test_without_numba(monkeypatch):
    """The extra is named."""
    monkeypatch.setattr(factored.compiled, "is_installed", lambda: False)
    with pytest.raises(ValueError, match=r"^engine is 'factored', which needs Numba: pip install 'ortho-ref\[fast\]'$"):
        replace(models.urnn(3, 4), engine="factored")


def test_who_takes_it():
    """A run of uRNN takes it from n = 128 on, as it is quicker there; and who evaluates the run does, where it is."""
    for hidden, engine in ((127, "compiled"), (128, "factored"), ([128, 64], "compiled")):
        layers = len(hidden) if isinstance(hidden, list) else 1
        assert settled("adding", model="urnn", hidden=hidden, layers=layers)["engine"] == engine
    assert settled("adding", model="eurnn", hidden=128)["engine"] == "compiled"
    assert settled("adding", model="urnn", hidden=512, device="gpu")["engine"] != "factored"
    assert engine_here({"engine": "factored"}, "cpu") == "factored"
    assert engine_here({"engine": "factored"}, "gpu") == "fused"


def test_a_network_of_two():
    """Loss and every gradient of a network, whose second layer reads Re h and Im h of the first."""
    network = models.network("urnn", 3, [6, 5], 2, readout="last", loss="mean_squared_error")
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
