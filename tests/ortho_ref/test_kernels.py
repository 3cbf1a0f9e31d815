"""On a device `fused` has one kernel between two products: counted on the stand-in, held to the plain path, `scan`."""

import contextlib
import importlib
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gradients.checks import cells
from gradients.problem import Problem, largest_error, random_problem, relative_error, single
from ortho_ref import backend, fused, scan
from ortho_ref.cells.by_name import name_of
from ortho_ref.cells.cell import parts_of
from ortho_ref.fused import kernels
from ortho_ref.fused.kernels import launch
from tests.device import standin

ROOT = Path(__file__).parents[2]
CELLS = {name: cell for name, cell in cells().items() if fused.has_form(cell)}
#: Launches in a time step, (forward, backward), products included: each operation by itself, and fused.
PLAIN = {
    "GRUResetBefore tanh": (15, 12),
    "GRUResetBefore relu": (15, 12),
    "GRUResetBefore modrelu": (19, 12),
    "GRUResetAfter tanh": (15, 12),
    "GRUResetAfter relu": (15, 12),
    "GRUResetAfter modrelu": (19, 12),
    "GRUResetAfter tanh, b_hh": (16, 12),
    "GRUResetAfter modrelu, no reset gate": (16, 10),
    "GRUResetAfter modrelu, no update gate": (16, 10),
    "GRUResetAfter tanh, no gates, b_hh": (8, 8),
    "LSTM": (14, 9),
    "Elman tanh": (3, 3),
    "Elman relu": (3, 3),
    "Elman modrelu": (7, 3),
    "Elman modrelu complex": (9, 6),
    "FastRNN tanh": (6, 5),
    "FastRNN relu": (6, 5),
    "FastRNN modrelu": (10, 5),
    "FastRNN relu, sgornn": (6, 5),
    "FastRNN relu, sgornn as printed": (6, 5),
}
FUSED = {name: (4, 4) if name.startswith("GRUResetBefore") else (2, 2) for name in PLAIN}
FUSED |= {"Elman modrelu complex": PLAIN["Elman modrelu complex"]}


def launches(name, T, tokens):
    """Of a forward and of a backward pass over T steps, by kernel."""
    p = random_problem(CELLS[name], np.random.default_rng(0), T=T, tokens=tokens).on("stand-in")
    start = standin.launches.copy()
    _, tape = fused.forward(p.cell, p.weights, p.x, p.h0)
    middle = standin.launches.copy()
    fused.backward(p.cell, p.weights, tape, p.dh, p.dh_T)
    return middle - start, standin.launches - middle


@pytest.mark.parametrize("tokens", [False, True])
@pytest.mark.parametrize("name", CELLS)
def test_launches_per_time_step(name, tokens):
    """The slope between T and 2 T steps; products, and beside them one kernel for each."""
    for expected, within in ((FUSED, contextlib.nullcontext), (PLAIN, kernels.without_kernels)):
        with within():
            once, twice = launches(name, 5, tokens), launches(name, 10, tokens)
        per_step = [{key: (b[key] - a[key]) / 5 for key in b} for a, b in zip(once, twice, strict=True)]
        assert tuple(sum(counts.values()) for counts in per_step) == expected[name]
        if expected is FUSED and not CELLS[name].complex:
            for counts in per_step:
                assert counts["dot"] == counts["fused"] + counts.get("multiply", 0) == sum(counts.values()) / 2


def test_the_table_of_the_docs():
    """docs/gpu.md has the numbers that the tests above and below hold, of every cell with every activation."""
    row = re.compile(
        r"^\| `(\w+)`(?:, ([^(|]+?))?(?: \(`.+?`\))? \| (\d+) and (\d+) \| (.+?) \| (\d+) and (\d+) \|$", re.M
    )
    named = set()
    for cell, which, *plain, loop, there, back in row.findall((ROOT / "docs" / "gpu.md").read_text()):
        for name in [f"{cell} {one}".strip() for one in which.split(" or ")]:
            named.add(name)
            assert tuple(map(int, plain)) == PLAIN[name]
            fused_ones = PLAIN[name] if loop == "not fused" else tuple(map(int, loop.split(" and ")))
            assert fused_ones == FUSED[name]
            products = 1 if CELLS[name].complex else FUSED[name][0] // 2
            assert (int(there), int(back)) == (products, products)
    assert named >= {name for name in CELLS if "no " not in name and "sgornn" not in name and "FastRNN mod" not in name}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", CELLS)
def test_launches_of_cupy(host_device, name, dtype):
    """What the real CuPy launches in a time step is what the stand-in counts, in both precisions; it never waits."""

    def counts(T):
        p = random_problem(CELLS[name], np.random.default_rng(0), T=T)
        p = Problem(p.cell, *(single if dtype == "float32" else tuple)((p.weights, p.x, p.h0, p.dh, p.dh_T))).on("gpu")
        with host_device.counted() as there:
            _, tape = fused.forward(p.cell, p.weights, p.x, p.h0)
        with host_device.counted() as back:
            fused.backward(p.cell, p.weights, tape, p.dh, p.dh_T)
        assert there.waits + there.to_host + back.waits + back.to_host == 0
        return np.array([[own.kernels + own.products, own.products] for own in (there, back)])

    for expected, within in ((FUSED, contextlib.nullcontext), (PLAIN, kernels.without_kernels)):
        with within():
            per_step = (counts(10) - counts(5)) / 5
        assert tuple(per_step[:, 0]) == expected[name]
        if expected is FUSED and not CELLS[name].complex:
            assert tuple(2 * per_step[:, 1]) == expected[name]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", CELLS)
def test_no_stage_falls_back(gpu, name, dtype):
    """cupy.fuse takes another way, without a word, where it cannot make one kernel of a stage."""
    p = random_problem(CELLS[name], np.random.default_rng(0), T=3)
    tree = (p.weights, p.x, p.h0, p.dh, p.dh_T)
    outcome(fused, Problem(p.cell, *(single(tree) if dtype == "float32" else tree)).on(gpu))
    assert kernels.fallen_back() == []


def test_a_stage_that_falls_back_is_seen(monkeypatch, gpu):
    """A sum within a stage is no element-wise kernel; CuPy answers it all the same, by its other way."""
    library = backend.library_of(backend.to_device(np.zeros(1), gpu))

    def total(xp, x, y):
        y[...] = x - xp.sum(x, axis=0)

    monkeypatch.setattr(launch, "_made", [])
    launch.kernel(library, total)(library.xp.ones(3), library.xp.zeros(3))
    assert kernels.fallen_back() == ["test_kernels_total"]


def outcome(engine, problem):
    """States and gradients by name, on the device."""
    h, _ = engine.forward(problem.cell, problem.weights, problem.x, problem.h0)
    return {f"states {i}": part for i, part in enumerate(parts_of(problem.cell, h))} | problem.gradients(engine)


def assert_same(ours, theirs, tolerance):
    assert ours.keys() == theirs.keys()
    assert all(ours[key].dtype == theirs[key].dtype for key in ours)
    error, name = largest_error(backend.to_host(ours), backend.to_host(theirs))
    assert error < tolerance, name


@pytest.mark.parametrize("tokens", [False, True])
@pytest.mark.parametrize("name", CELLS)
@pytest.mark.parametrize(("T", "B"), [(1, 1), (7, 3)])
def test_equals_the_plain_path_and_scan(device, name, tokens, T, B):
    """One step, where nothing is carried within the loop, and several."""
    problem = random_problem(CELLS[name], np.random.default_rng(1), T=T, B=B, tokens=tokens).on(device)
    ours = outcome(fused, problem)
    with kernels.without_kernels():
        assert_same(ours, outcome(fused, problem), 1e-12)
    assert_same(ours, outcome(scan, problem), 1e-12)


@pytest.mark.parametrize("tokens", [False, True])
@pytest.mark.parametrize("name", CELLS)
def test_float32_stays_float32(device, name, tokens):
    """Python scalars in a stage promote nothing; the plain path's numbers within float32's rounding."""
    p = random_problem(CELLS[name], np.random.default_rng(2), T=6, tokens=tokens)
    problem = Problem(p.cell, *single((p.weights, p.x, p.h0, p.dh, p.dh_T))).on(device)
    ours = outcome(fused, problem)
    assert all(value.real.dtype == np.float32 for value in ours.values())
    with kernels.without_kernels():
        assert_same(ours, outcome(fused, problem), 1e-4)


@pytest.mark.parametrize("name", CELLS)
def test_kinks_and_nan_as_on_the_plain_path(device, name):
    """Pre-activations of 0 and -0.0; a NaN goes on into the states."""
    p = random_problem(CELLS[name], np.random.default_rng(3), T=4, B=3)
    zeros = {key: np.zeros_like(value) if key[0] in "WUb" else value for key, value in p.weights.items()}
    p.x[1, 0, 0] = np.nan
    for weights in (zeros, p.weights):
        problem = replace(p, weights=weights).on(device)
        ours = backend.to_host(outcome(fused, problem))
        with kernels.without_kernels():
            theirs = backend.to_host(outcome(fused, problem))
        for key, value in ours.items():
            np.testing.assert_allclose(value, theirs[key], rtol=1e-12, atol=1e-12, err_msg=key)
    assert np.isnan(ours["states 0"][2:, 0]).any()


@pytest.mark.parametrize("name", CELLS)
def test_the_host_has_no_kernels(name):
    """There the lines in place run, and nothing is made; `without_kernels` changes no bit."""
    problem = random_problem(CELLS[name], np.random.default_rng(4), T=5)
    assert not kernels.launches(backend.library_of(problem.x))
    made = launch.kernel.cache_info().misses
    ours = outcome(fused, problem)
    assert launch.kernel.cache_info().misses == made
    with kernels.without_kernels():
        theirs = outcome(fused, problem)
    assert all(relative_error(ours[key], theirs[key]) == 0 for key in ours)


@pytest.mark.parametrize("name", CELLS)
def test_kernels_are_made_once(monkeypatch, name):
    """A second pass, of another length and batch, fuses nothing anew; names are those of the cell and the stage."""
    made = []

    def fuse(function):
        made.append(function.__name__)
        return standin.LIBRARY.fuse(function)

    monkeypatch.setitem(backend._LOADED, "standin", replace(standin.LIBRARY, fuse=fuse))
    outcome(fused, random_problem(CELLS[name], np.random.default_rng(5), T=5, B=2).on("stand-in"))
    first = list(made)
    outcome(fused, random_problem(CELLS[name], np.random.default_rng(5), T=3, B=4).on("stand-in"))
    assert made == first
    assert bool(made) is not CELLS[name].complex
    assert all(one.isidentifier() for one in made)


def test_what_switches_fusing_off():
    """The variable for a whole process, the context manager within, also where it raises."""
    code = "from ortho_ref import backend; from ortho_ref.fused import kernels; from dataclasses import replace\n"
    code += "library = backend.library_of()\n"
    code += "print(kernels.launches(library), kernels.launches(replace(library, fuse=lambda f: f)))"
    for value, expected in (("0", "False False"), ("1", "False True"), (None, "False True")):
        environment = {key: own for key, own in os.environ.items() if key != "ORTHO_REF_KERNELS"}
        environment |= {} if value is None else {"ORTHO_REF_KERNELS": value}
        command = [sys.executable, "-c", code]
        result = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        assert result.stdout.strip() == expected
    with contextlib.suppress(KeyError), kernels.without_kernels(), kernels.without_kernels():
        assert not kernels.launches(standin.LIBRARY)
        raise KeyError
    assert kernels.launches(standin.LIBRARY)


@pytest.mark.parametrize(
    ("module", "stage"),
    [
        ("gru_reset_before", "gates"),
        ("gru_reset_before", "state"),
        ("gru_reset_before", "meet"),
        ("gru_reset_before", "carry"),
        ("gru_reset_after", "state"),
        ("gru_reset_after", "meet"),
        ("gru_reset_after", "carry"),
        ("lstm", "state"),
        ("lstm", "meet"),
        ("elman", "state"),
        ("elman", "meet"),
        ("fastrnn", "state"),
        ("fastrnn", "meet"),
        ("fastrnn", "carry"),
    ],
)
def test_a_wrong_stage_is_seen(monkeypatch, module, stage):
    """A stage that is off by a part in a billion, in the last it writes, is not the plain path."""
    engine = importlib.import_module(f"ortho_ref.fused.kernels.{module}")
    right = getattr(engine, stage)

    def wrong(xp, *arguments):
        right(xp, *arguments)
        target = [a for a in arguments if type(a) is standin.FusedVariable and a._written][-1]
        target[...] = target * (1 + 1e-9)

    cell = next(cell for cell in CELLS.values() if name_of(cell) == module and not cell.complex)
    problem = random_problem(cell, np.random.default_rng(6), T=4).on("stand-in")
    monkeypatch.setattr(engine, stage, wrong)
    ours = outcome(fused, problem)
    with kernels.without_kernels(), pytest.raises(AssertionError):
        assert_same(ours, outcome(fused, problem), 1e-12)
