"""Persistent kernels: a recurrence in one launch each way gives what `fused` gives on the host.

float64 to 1e-12 of the largest entry, float32 to 1e-5, in every form of `plan`: rows with weights of a block's own,
rows with weights through L2, units spread over blocks.
"""

import contextlib
import itertools
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from gradients.checks import cells
from gradients.problem import Problem, largest_error, random_problem
from ortho_ref import backend, conformance, fused, models
from ortho_ref.cells import GRUResetBefore
from ortho_ref.cells.by_name import name_of
from ortho_ref.cells.cell import parts_of
from ortho_ref.fused import persistent, sequence
from ortho_ref.fused.kernels import without_kernels
from ortho_ref.fused.persistent import launch
from ortho_ref.fused.persistent.plan import FORMS, Limits, padded, plan
from ortho_ref.network import Network
from ortho_ref.recurrent import Recurrent
from scripts import gpu_check
from scripts.gpu import repeated
from scripts.gpu.sections import Settings
from scripts.maintain.timing.steps import Size
from tests.ortho_ref.conformance.adapters import cell_by
from tests.precision import single

CELLS = {name: cell for name, cell in cells().items() if persistent.has_form(cell)}
#: A cell of each source: modrelu, or what there is.
SOURCES = {name_of(c) + "_complex" * c.complex: name for name, c in CELLS.items() if "no " not in name}
TOLERANCE = {np.float64: 1e-12, np.float32: 1e-5}
#: A device with less room than there are sequences in these tests, and fewer blocks than units.
SMALL = Limits(3, 100_000)
H100 = Limits(132, 232_448)
ORDERS = [("in order", 0), ("reversed", 0), *(("shuffled", seed) for seed in range(4))]


def problem_of(name, dtype=np.float64, seed=0, **sizes):
    p = random_problem(CELLS[name], np.random.default_rng(seed), **sizes)
    return p if dtype is np.float64 else Problem(p.cell, *single((p.weights, p.x, p.h0, p.dh, p.dh_T)))


def outcome(engine, p):
    """States and gradients by name, on the host."""
    loops = fused.form_of(p.cell) if engine is fused else engine  # behind the door, which would refuse a NaN
    h, tape = loops.unroll(p.cell, p.weights, p.x, p.h0)
    own = loops.unroll_back(p.cell, p.weights, tape, p.dh, p.dh_T)
    named = {f"states {i}": part for i, part in enumerate(parts_of(p.cell, h))}
    named |= {f"first {i}": part for i, part in enumerate(parts_of(p.cell, own.h0))}
    return backend.to_host(named | own.weights | ({} if own.x is None else {"x": own.x}))


def error_of(p, dtype=np.float64):
    """The largest relative error of what the kernels give of a host's problem, and its name."""
    ours = outcome(persistent, p.on("gpu"))
    assert all(value.real.dtype == dtype for value in ours.values())
    return largest_error(ours, outcome(fused, p))


@contextlib.contextmanager
def laid_out(form, limits=SMALL):
    """Recurrences of one form, on a device of these limits."""
    with pytest.MonkeyPatch.context() as patch, launch.using(form):
        patch.setattr(launch, "limits_of", lambda xp, device: limits)
        yield


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name", CELLS)
def test_equals_fused_on_the_host(gpu, name, dtype):
    """Every cell, with every option, at the device's own limits: n no multiple of a warp, one step, one sequence."""
    for sizes in ({"T": 7, "B": 3, "n": 37}, {"T": 1, "B": 1, "n": 1}, {"T": 3, "B": 1, "n": 6}):
        error, what = error_of(problem_of(name, dtype, **sizes), dtype)
        assert error < TOLERANCE[dtype], (sizes, what)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", SOURCES.values())
def test_every_form(gpu, form, name):
    """Also with more sequences than the device has room for at once, and units that do not divide by the blocks."""
    for sizes in ({"T": 4, "B": 3, "n": 21}, {"T": 2, "B": 19, "n": 10}):
        with laid_out(form):
            error, what = error_of(problem_of(name, **sizes))
        assert error < TOLERANCE[np.float64], (sizes, what)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", SOURCES.values())
def test_no_order_of_threads_matters(host_device, form, name):
    """Threads, warps and blocks in order, reversed and shuffled: the same bits."""
    p = problem_of(name, T=4, B=5, n=19).on("gpu")
    with laid_out(form):
        first = outcome(persistent, p)
    for order in ORDERS[1:]:
        with host_device.ordered(*order), laid_out(form):
            ours = outcome(persistent, p)
        assert all(np.array_equal(ours[key], first[key]) for key in first), order


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.sampled_from(list(CELLS)),
    form=st.sampled_from(FORMS),
    dtype=st.sampled_from(list(TOLERANCE)),
    T=st.integers(1, 6),
    B=st.integers(1, 14),
    n=st.integers(1, 33),
    tokens=st.booleans(),
)
def test_any_size(gpu, name, form, dtype, T, B, n, tokens):
    """And tokens."""
    with laid_out(form):
        error, what = error_of(problem_of(name, dtype, T=T, B=B, n=n, tokens=tokens), dtype)
    assert error < TOLERANCE[dtype], what


@pytest.mark.parametrize("name", SOURCES.values())
def test_however_time_is_cut(gpu, monkeypatch, name):
    """A sequence of more rows than a chunk has goes back in several launches; one chunk is shorter than the others."""
    monkeypatch.setattr(sequence, "_DEVICE_ROWS", 12)
    error, what = error_of(problem_of(name, T=8, B=4, n=9))
    assert error < TOLERANCE[np.float64], what


@pytest.mark.parametrize("name", SOURCES.values())
def test_arrays_that_are_not_contiguous(gpu, name):
    """x, dh and h0 by columns, and dh as a part of something larger."""
    p = problem_of(name, T=5, B=4, n=9)
    xp = backend.library_of(p.on("gpu").x).xp
    q = p.on("gpu")
    larger = xp.zeros((10, 4, 18), q.dh.dtype)
    larger[::2, :, ::2] = q.dh
    states = tuple(xp.asfortranarray(part) for part in parts_of(p.cell, q.h0))
    h0 = states if len(states) > 1 else states[0]
    q = replace(q, x=xp.asfortranarray(q.x), dh=larger[::2, :, ::2], h0=h0)
    assert not q.dh.flags.c_contiguous
    ours, theirs = outcome(persistent, q), outcome(fused, p)
    assert largest_error(ours, theirs)[0] < TOLERANCE[np.float64]


@pytest.mark.parametrize("name", SOURCES.values())
def test_infinity_and_nan(gpu, name):
    """A NaN goes on in its own sequence and in no other; a shut gate, whose exp overflows, is 0."""
    p = problem_of(name, np.float32, T=4, B=3, n=7)
    p.x[1, 0, 0] = np.nan
    ours, theirs = outcome(persistent, p.on("gpu")), outcome(fused, p)
    for key in ours:
        assert np.array_equal(np.isnan(ours[key]), np.isnan(theirs[key])), key
    assert np.isnan(ours["states 0"][2:, 0]).any()
    assert np.isfinite(ours["states 0"][:, 1:]).all()
    p = problem_of(name, np.float32, T=2, B=1, n=3)
    for key, value in p.weights.items():
        if key[:2] == "b_":
            value -= 200
    ours, theirs = outcome(persistent, p.on("gpu")), outcome(fused, p)
    assert largest_error(ours, theirs)[0] < TOLERANCE[np.float32]


@pytest.mark.parametrize("name", SOURCES.values())
def test_one_launch_each_way_and_no_wait(host_device, name):
    """What a sequence asks of the device does not depend on its length: one kernel for all steps forward, one back."""
    counts = []
    for T in (3, 9):
        p = problem_of(name, T=T, B=2, n=8).on("gpu")
        outcome(persistent, p)  # compiled
        with host_device.counted() as forward:
            _, tape = persistent.unroll(p.cell, p.weights, p.x, p.h0)
        with host_device.counted() as backward:
            persistent.unroll_back(p.cell, p.weights, tape, p.dh, p.dh_T)
        counts.append((forward, backward))
        assert forward.waits == backward.waits == forward.to_host == backward.to_host == 0
    assert counts[0] == counts[1]


def without(text, word, which):
    """A source in which each kernel lacks one of its barriers, or None where there are not so many."""
    head, *kernels = re.split(r'(?=extern "C")', text)
    places = [[m.span() for m in re.finditer(re.escape(word), kernel)] for kernel in kernels]
    assert len(places[0]) == len(places[1]) > 0
    if which == len(places[0]):
        return None
    cut = [kernel[: own[which][0]] + kernel[own[which][1] :] for kernel, own in zip(kernels, places, strict=True)]
    return head + "".join(cut)


@pytest.mark.parametrize(("word", "form"), [("__syncthreads();", "own"), ("across_blocks();", "spread")])
@pytest.mark.parametrize("cell", SOURCES)
def test_each_barrier_that_is_removed_is_seen(monkeypatch, host_device, cell, word, form):
    """Without any one barrier, of a block or of the grid, some order of threads gives other numbers, each way."""
    text, p = launch.source(cell), problem_of(SOURCES[cell], T=3, B=5, n=37).on("gpu")
    with laid_out(form):
        theirs = outcome(persistent, p)
        _, tape = persistent.forward(p.cell, p.weights, p.x, p.h0)
    for which in itertools.count():
        broken = without(text, word, which)
        if broken is None:
            break
        seen = {"forward": False, "backward": False}
        with monkeypatch.context() as patch, laid_out(form):
            patch.setattr(launch, "source", lambda cell, broken=broken: broken)
            launch.kernel.cache_clear()
            for order in ORDERS:
                with host_device.ordered(*order), host_device.guarded():  # nothing right is left from before
                    h = persistent.forward(p.cell, p.weights, p.x, p.h0)[0]
                    gradients = persistent.backward(p.cell, p.weights, tape, p.dh, p.dh_T)  # of the right tape
                h, weights = backend.to_host((parts_of(p.cell, h)[0], gradients.weights))
                seen["forward"] |= not np.array_equal(h, theirs["states 0"])
                seen["backward"] |= any(not np.array_equal(weights[key], theirs[key]) for key in weights)
        launch.kernel.cache_clear()
        assert all(seen.values()), (which, seen)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_passes_the_conformance_kit(gpu, dtype):
    """Every case of a cell."""
    report = conformance.check(lambda case: cell_by(persistent, case, "gpu"), "cell/*", dtype)
    assert report.ok, str(report)


def test_a_network_with_a_mask(gpu, monkeypatch):
    """Loss and gradients of a masked batch are those of the host by `fused`; a backward pass in chunks of time."""
    rng = np.random.default_rng(1)
    host = Network((models.nc_gru(4, 8), replace(models.build("lstm", 8, 6), engine="fused")), output_size=3)
    device = replace(host, layers=tuple(replace(layer, engine="persistent") for layer in host.layers))
    params, buffers = host.init(rng, dtype=np.float64)
    x, y, mask = rng.standard_normal((6, 3, 4)), rng.integers(0, 3, (6, 3)), rng.random((6, 3)) < 0.6
    loss, theirs, _ = host.loss_and_gradients(params, buffers, x, y, mask)
    moved = backend.to_device((params, buffers, x, y, mask), "gpu")
    monkeypatch.setattr(sequence, "_DEVICE_ROWS", 6)
    own, ours, _ = device.loss_and_gradients(*moved)
    assert abs(float(own) - float(loss)) < 1e-12
    assert largest_error(backend.to_host(ours), theirs)[0] < 1e-12


def test_gpu_check_compares_engines_and_repeats(host_device, monkeypatch, tmp_path):
    """Every form in its agreement; timings and tasks of both engines; a missing barrier of the grid is found."""
    own = Settings(
        out=tmp_path,
        names=("nc-gru",),
        trained=(),
        size=Size(2, 3, 2, 8),
        tasks=("parenthesis",),
        task_seconds=0,
        task_steps=36,
        task_options={"hidden": 8, "length": 12, "batch": 4},
        timing_sizes={"one": Size(5, 3, 2, 38)},
        form_sizes={},
        rounds=1,
        timing_seconds=0,
        repeats=2,
    )
    report = gpu_check.report_of(own, ("agreement", "tasks", "timings", "persistent"))
    assert report["failed"] == []
    figures = {name: section["figures"] for name, section in report["sections"].items()}
    assert all(figures["agreement"]["rows"][0][f"persistent, {form}, float64"] < 1e-12 for form in FORMS)
    assert [row["engine"] for row in figures["tasks"]["rows"]] == ["fused", "persistent"]
    assert all(row["persistent, ms"] > 0 for row in figures["timings"]["rows"])
    assert {row["form"] for row in figures["persistent"]["rows"]} == set(FORMS)
    broken = without(launch.source("lstm"), "across_blocks();", 0)
    monkeypatch.setattr(launch, "source", lambda cell: broken)
    monkeypatch.setattr(repeated, "MODELS", ("lstm",))
    launch.kernel.cache_clear()
    with host_device.ordered("shuffled"), host_device.guarded():
        (failure,) = repeated.persistent(own, {})
    launch.kernel.cache_clear()
    assert failure.startswith("lstm, one, spread: ")


def test_what_is_refused(gpu):
    """The host's arrays, and kernels that are switched off: by name, with what is allowed."""
    p = problem_of("LSTM", T=2)
    with pytest.raises(ValueError, match=r"engine is 'persistent', which is for device 'gpu', .*'cpu'; allowed there"):
        persistent.forward(p.cell, p.weights, p.x, p.h0)
    q = p.on("gpu")
    with without_kernels(), pytest.raises(ValueError, match=r"engine is 'persistent', and kernels are switched off"):
        persistent.forward(q.cell, q.weights, q.x, q.h0)


def test_the_host_refuses_the_engine():
    """A layer may be built anywhere and says its engine; on the host it does not run."""
    layer = Recurrent(GRUResetBefore("modrelu"), engine="persistent", sizes=(2, 3))
    assert "by persistent" in repr(layer)
    params, buffers = layer.init(np.random.default_rng(0))
    with pytest.raises(ValueError, match=r"engine is 'persistent', which is for device 'gpu'"):
        layer.forward(params, buffers, np.ones((2, 1, 2), np.float32))


def test_a_cell_without_kernels_is_refused():
    """When the layer is built."""

    class Own(GRUResetBefore):
        pass

    words = r"engine is 'persistent', which has no kernels of .*; allowed for it: 'fused', 'scan'"
    with pytest.raises(ValueError, match=words):
        Recurrent(Own(), engine="persistent")


#: As `launch` is called by each cell: slots, and the products of a step; FastRNN as Elman.
FORWARD = {"gru_reset_before": (1, ((1, 2), (1, 1))), "gru_reset_after": (1, ((1, 3),))}
FORWARD |= {"lstm": (1, ((1, 4),)), "elman": (1, ((1, 1),))}
BACKWARD = {"gru_reset_before": (2, ((2, 1), (1, 1))), "gru_reset_after": (3, ((3, 1),))}
BACKWARD |= {"lstm": (4, ((4, 1),)), "elman": (1, ((1, 1),))}


@pytest.mark.parametrize(("slots", "products"), [*FORWARD.values(), *BACKWARD.values()])
@given(
    batch=st.integers(1, 5000),
    n=st.integers(1, 1500),
    itemsize=st.sampled_from([4, 8]),
    limits=st.sampled_from([H100, SMALL, Limits(108, 166_912)]),
    together=st.sampled_from([1, 2]),
    form=st.sampled_from([None, *FORMS]),
)
def test_a_plan_fits_and_covers(slots, products, batch, n, itemsize, limits, together, form):
    """Shared memory, threads, blocks; all rows and units are somebody's, and what a kernel assumes of them holds."""
    n *= together
    try:
        own = plan(batch, n, itemsize, slots, products, limits, together, form)
    except ValueError:
        own = None
    if own is None:
        assert limits is not H100 or n > 1000 or form in ("own", "L2")
        return
    assert form in (None, "spread" if own.spread else "own" if own.own else "L2")
    assert own.shared <= limits.shared
    assert 0 < own.blocks <= limits.blocks
    assert own.threads <= 512
    assert own.threads % 32 == 0
    assert own.rows * own.units <= own.threads
    assert own.rows % own.tile == 0
    assert own.units % together == 0
    assert own.blocks * own.units >= n if own.spread else own.units == n
    weights = sum(a * b for a, b in products) * padded(n) * own.units if own.own else 0
    assert own.shared == itemsize * (own.rows * slots * padded(n) + own.partial + weights)
    for _, gates in products:  # the parts of a product's sums
        outputs = gates * own.units
        slices = max(1, own.threads // (outputs * (own.rows // own.tile)))
        assert slices * own.rows * outputs <= own.partial


def test_the_plans_of_the_papers_sizes():
    """On an H100: the synthetic tasks have their weights in shared memory; n = 430 and 1000 are spread."""

    def form(n, batch, itemsize=4, way=FORWARD):
        own = plan(batch, n, itemsize, *way["gru_reset_before"], H100)
        return "spread" if own.spread else "own" if own.own else "L2"

    for way in (FORWARD, BACKWARD):
        assert [form(n, 50, way=way) for n in (56, 96, 118, 128, 136)] == ["own"] * 5
        assert [form(n, 50, way=way) for n in (148, 188, 192, 430, 1000)] == ["L2", "L2", "spread", "spread", "spread"]
        assert (
            [form(n, 8, way=way) for n in (152, 153)] == [form(n, 32, way=way) for n in (152, 153)] == ["L2", "spread"]
        )
        assert [form(n, 128, way=way) for n in (304, 430)] == ["L2", "spread"]
        assert [form(n, 50, 8, way) for n in (90, 97, 134, 136)] == ["own", "L2", "L2", "spread"]


def test_an_n_that_does_not_fit_is_refused():
    """Naming it."""
    with pytest.raises(ValueError, match=r"engine is 'persistent' with n = 100000: .*; allowed for it: 'fused'"):
        plan(1, 100_000, 8, 4, ((4, 1),), H100)


def test_a_persistent_kernel_says_how_large_its_blocks_are():
    """As large as a plan's largest, so that the compiler leaves registers for that."""
    for path in sorted(Path(persistent.__file__).parent.glob("*.cu")):
        assert re.findall(r"__launch_bounds__\s*\(\s*(\d+)", path.read_text()) == ["512", "512"], path.name
