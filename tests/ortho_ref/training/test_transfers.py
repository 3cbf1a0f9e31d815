"""What an update waits for on a device, counted under the real CuPy on the host device.

An update copies its batch there, and waits for the loss and the gradients' norm in one copy, once for each U that
Algorithm 1 keeps, and for what the exact methods ask: whether a parameter is what it should be, LU's codes, norms.
"""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from gradients.checks import cells
from gradients.problem import random_problem
from ortho_ref import fused, models, scan
from ortho_ref.backend import NotFiniteError, library_of, to_device, to_host
from ortho_ref.fused import persistent
from ortho_ref.fused.persistent import launch
from ortho_ref.parametrizations import ScaledCayley
from ortho_ref.parametrizations.cayley import inverse
from ortho_ref.training.optimizers import Adam
from ortho_ref.training.runs import TrainingRun
from ortho_ref.training.task import Batch, Tokens, Vectors
from tests.ortho_ref.training.test_trainer import Fixed

LU = {"lu_factor", "lu_solve"}
#: CuPy's functions that wait in an update of a layer, and how often in all.
WAITING = {"scornn": (LU, 3), "full-urnn": (LU, 3), "exprnn": ({"expm"} | LU, 6)}
#: Model -> what its U asks in an update: of each parameter whether it is finite (uRNN's v: whether its square is, too),
#: of A whether it is skew, of U whether it is orthogonal; the norm of A, twice; Algorithm 1 has one number.
ASKED = {
    "nc-gru": 1,
    "scornn": 2,
    "full-urnn": 1,
    "exprnn": 4,
    "ornn": 3,
    "goru": 1,
    "urnn": 7,
    "eurnn": 5,
    "vprnn": 1,
    "sgornn": 1,
}


def tokens(rng, masked=False, T=6):
    """A batch of tokens below 5 and classes below 4, B = 3."""
    mask = rng.random((T, 3)) < 0.6 if masked else None
    return Batch(rng.integers(0, 5, (T, 3)), rng.integers(0, 4, (T, 3)), mask, carries_state=True)


def vectors(rng, masked=False, T=6):
    """A batch of vectors (T, 3, 5) and numbers (T, 3, 4)."""
    return tokens(rng, masked, T)._replace(x=rng.standard_normal((T, 3, 5)), y=rng.standard_normal((T, 3, 4)))


def trainer_for(batches, model="gru", device="gpu", optimizer=None, layers=1, engine=None, **options):
    """A trainer on given batches, over and over."""
    own, loss = {"i": (Tokens(5), "cross_entropy"), "f": (Vectors(5), "mean_squared_error")}[batches[0].x.dtype.kind]
    task = Fixed(batches, own, 4, loss=loss, metric="accuracy" if loss == "cross_entropy" else "within_0.04")
    kinds = {key: options.pop(key) for key in ("reset_every", "orthogonal", "dropout") if key in options}
    network = models.network(model, 5, [8] * layers, 4, loss=loss, **kinds)
    if engine is not None:
        network = replace(network, layers=tuple(replace(layer, engine=engine) for layer in network.layers))
    form = {"iterations": 12, "batch_size": 3, "log_every": 5, "evaluate_every": 100, "dtype": np.float64}
    return TrainingRun(network, task, optimizer or Adam(1e-2), device=device, **form | options)


@pytest.fixture
def inside(monkeypatch, host_device):
    """Names of CuPy's functions of linear algebra that wait, call by call, and what was asked of the device in each."""
    linalg, counts, within = library_of(to_device(np.zeros(1), "gpu")).linalg, [], []

    def counting(name, function):
        def call(*args, **kwargs):
            if within:  # one of them calls another
                return function(*args, **kwargs)
            within.append(name)
            try:
                with host_device.counted() as count:
                    return function(*args, **kwargs)
            finally:
                counts.append((within.pop(), count))

        return call

    for name in {"expm"} | LU:
        monkeypatch.setattr(linalg, name, counting(name, getattr(linalg, name)))
    return counts


def assert_waits(count, inside, model, uploads=3):
    """What was asked of the device in an update of two layers, without what CuPy's own functions waited for."""
    for _, theirs in inside:
        for kind in ("waits", "to_host", "to_device"):
            setattr(count, kind, getattr(count, kind) - getattr(theirs, kind))
    assert count.waits == count.to_host == 1 + 2 * ASKED.get(model, 0)
    assert count.to_device == uploads
    names, waits = WAITING.get(model, (set(), 0))
    assert {name for name, _ in inside} == names
    assert sum(theirs.waits for _, theirs in inside) == 2 * waits


@pytest.mark.parametrize("make", [tokens, vectors])
@pytest.mark.parametrize("model", models.names())
def test_what_an_update_waits_for(host_device, inside, model, make):
    """Of two layers: x, y and the mask go there; loss and norm come back in one copy, and what each U asks."""
    batch = make(np.random.default_rng(0), True)
    own = trainer_for([batch], model, layers=2)
    for _ in range(2):
        inside.clear()
        with host_device.counted() as count:
            own.update(batch)
        assert_waits(count, inside, model)


@pytest.mark.parametrize("options", [{"clip_value": 1e-3}, {"clip_norm": 1e-3}, {"dropout": 0.5}])
def test_what_options_ask(host_device, inside, options):
    """Clipping asks nothing more; dropout is drawn on the host, an array for each layer."""
    batch = tokens(np.random.default_rng(0), True)
    own = trainer_for([batch], layers=2, **options)
    own.update(batch)
    with host_device.counted() as count:
        own.update(batch)
    assert_waits(count, inside, "gru", 5 if "dropout" in options else 3)


#: Models whose cell has persistent kernels.
PERSISTENT = [name for name in models.names() if persistent.has_form(models.build(name, 4, 4).cell)]


@pytest.mark.parametrize("model", PERSISTENT)
def test_an_update_by_persistent_kernels(monkeypatch, host_device, inside, model):
    """Of two layers: a launch forward and one back for each, whatever T is, and not one launch more of anything for
    twice the steps."""
    launched, compiled, asked = [], launch.kernel, []

    class Kernel:
        def __init__(self, xp, device, cell, way, dtype):
            self.own, self.name = compiled(xp, device, cell, way, dtype), (cell, way)

        def __getattr__(self, name):
            return getattr(self.own, name)

        def __call__(self, *args, **kwargs):
            launched.append(self.name)
            return self.own(*args, **kwargs)

    monkeypatch.setattr(launch, "kernel", Kernel)
    for T in (6, 12):
        batch = tokens(np.random.default_rng(0), True, T)
        own = trainer_for([batch], model, layers=2, engine="persistent")
        own.update(batch)  # compiled, moments made
        inside.clear()
        launched.clear()
        with host_device.counted() as count:
            own.update(batch)
        assert_waits(count, inside, model)
        (cell,) = {cell for cell, _ in launched}
        assert launched == [(cell, "forward")] * 2 + [(cell, "backward")] * 2
        asked.append((count.kernels, count.products, count.libraries))
    assert asked[0] == asked[1]


def test_an_exact_inverse_waits_three_times(host_device):
    """For the codes of factorization and solution; CuPy's own looks for what is not finite, in A and in I, are off.
    What is not finite is found by name."""
    A, buffers = ScaledCayley(2).init(np.random.default_rng(0), 6, dtype=np.float64)
    A, buffers = to_device((A["A"], buffers), "gpu")
    for _ in range(2):
        with host_device.counted() as count:
            inverse(A)
    assert count.waits == count.to_host == 3
    A[0, 1], A[1, 0] = np.nan, np.nan
    assert not np.isfinite(to_host(inverse(A))).all()
    with pytest.raises(NotFiniteError, match=r"^A has an entry that is not finite$"):
        ScaledCayley(2).rebuild({"A": A}, buffers)


@pytest.mark.parametrize("engine", [scan, fused])
@pytest.mark.parametrize("name", cells())
@pytest.mark.parametrize("as_tokens", [False, True])
def test_sequences_copy_nothing(host_device, name, engine, as_tokens):
    """Behind the door, forward and backward of every cell, inside the loop over time and around it."""
    p = random_problem(cells()[name], np.random.default_rng(0), T=7, tokens=as_tokens).on("gpu")
    loops = scan if engine is scan else fused.form_of(p.cell)
    for h0 in (p.h0, None):
        loops.unroll_back(p.cell, p.weights, loops.unroll(p.cell, p.weights, p.x, h0)[1], p.dh, p.dh_T)
        with host_device.counted() as count:
            _, tape = loops.unroll(p.cell, p.weights, p.x, h0)
            loops.unroll_back(p.cell, p.weights, tape, p.dh, p.dh_T)
        assert (count.to_host, count.waits) == (0, 0)


@pytest.mark.parametrize("make", [tokens, vectors])
@pytest.mark.parametrize("model", ["nc-gru", "goru", "urnn", "sgornn", "ornn"])
def test_host_and_device_agree(gpu, tmp_path, model, make):
    """50 updates, clipped, in which nothing is forced: every line of metrics and every parameter to 1e-10."""
    rng, ends = np.random.default_rng(5), {}
    batches = [make(rng, masked) for masked in (False, True, False)]
    for where in ("cpu", gpu):
        own = trainer_for(batches, model, where, iterations=50, evaluate_every=20, clip_norm=0.05, optimizer=Adam(1e-3))
        ends[where] = (own.run(tmp_path / where), to_host(own.params))
    for here, there in zip(ends["cpu"][0], ends[gpu][0], strict=True):
        assert here.keys() == there.keys()
        for key in {"loss", "gradient_norm", "evaluation_loss"} & here.keys():
            assert there[key] == pytest.approx(here[key], rel=1e-10)
        for name, figures in here["weights"].items():
            assert there["weights"][name] == pytest.approx(figures, rel=1e-8, abs=1e-10)
    for name, value in ends["cpu"][1].items():
        np.testing.assert_allclose(ends[gpu][1][name], value, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    ("field", "entry", "told"),
    [
        ("x", -1, "x holds token -1; allowed: 0 to 4"),
        ("y", -2, "y holds class -2; allowed: 0 to 3"),
        ("mask", False, "mask leaves no entry to count"),
    ],
)
def test_a_wrong_batch_is_told_before_it_moves(device, field, entry, told):
    """A device would read beyond its arrays: what is wrong is said, and no parameter has moved."""
    good = tokens(np.random.default_rng(6), masked=True)
    own = trainer_for([good], device=device)
    own.update(good)
    before = to_host(own.params)
    bad = good._replace(**{field: np.full_like(getattr(good, field), entry)})
    with pytest.raises(ValueError, match=f"^{told}$"):
        own.update(bad)
    for name, value in to_host(own.params).items():
        np.testing.assert_array_equal(value, before[name])


def test_a_periodic_reset(host_device, inside):
    """Every third update of this NC-GRU: one factorisation, one solution."""
    batch = tokens(np.random.default_rng(2))
    own = trainer_for([batch], "nc-gru", reset_every=3)
    for k in range(1, 5):
        inside.clear()
        own.update(batch)
        assert Counter(name for name, _ in inside) == Counter({} if k % 3 else dict.fromkeys(LU, 1))
