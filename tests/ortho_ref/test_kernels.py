"""On a device `fused` has one kernel between two products: counted under CuPy, held to the plain path."""

import contextlib
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from gradients.checks import cells
from gradients.problem import Problem, largest_error, random_problem, relative_error
from ortho_ref import backend, fused
from ortho_ref.cells.cell import parts_of
from ortho_ref.fused import kernels
from ortho_ref.fused.kernels import launch
from tests.precision import single

CELLS = {name: cell for name, cell in cells().items() if fused.has_form(cell)}
REAL = [name for name, cell in CELLS.items() if not cell.complex]


def problem_of(name, dtype="float64", seed=0, **sizes):
    p = random_problem(CELLS[name], np.random.default_rng(seed), **sizes)
    return Problem(p.cell, *(single if dtype == "float32" else tuple)((p.weights, p.x, p.h0, p.dh, p.dh_T)))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", CELLS)
def test_launches_per_time_step(host_device, name, dtype):
    """The slope between 5 and 10 steps: one or two products each way, and beside each one kernel; CuPy never waits.

    The complex cell has a launch for each operation.
    """

    def counts(T):
        p = problem_of(name, dtype, T=T).on("gpu")
        loops = fused.form_of(p.cell)
        with host_device.counted() as there:
            _, tape = loops.unroll(p.cell, p.weights, p.x, p.h0)
        with host_device.counted() as back:
            loops.unroll_back(p.cell, p.weights, tape, p.dh, p.dh_T)
        assert there.waits + there.to_host + back.waits + back.to_host == 0
        return np.array([[own.kernels, own.products] for own in (there, back)])

    of_each = 2 if name.startswith("GRUResetBefore") else 1
    expected = [[8, 1], [5, 1]] if CELLS[name].complex else [[of_each, of_each]] * 2
    np.testing.assert_array_equal((counts(10) - counts(5)) / 5, expected)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", CELLS)
def test_no_stage_falls_back(gpu, name, dtype):
    """cupy.fuse takes another way, without a word, where it cannot make one kernel of a stage."""
    outcome(fused, problem_of(name, dtype, T=3).on(gpu))
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
    """States and gradients by name, on the device, behind the door: a NaN is let in."""
    cell, weights = problem.cell, problem.weights
    loops = fused.form_of(cell) if engine is fused else engine
    h, tape = loops.unroll(cell, weights, problem.x, problem.h0)
    own = loops.unroll_back(cell, weights, tape, problem.dh, problem.dh_T)
    states = {f"states {i}": part for i, part in enumerate(parts_of(cell, h))}
    first = {f"first {i}": part for i, part in enumerate(parts_of(cell, own.h0))}
    return states | own.weights | ({} if own.x is None else {"x": own.x}) | first


@pytest.mark.parametrize("tokens", [False, True])
@pytest.mark.parametrize("name", REAL)
def test_equals_the_plain_path(gpu, name, tokens):
    """One step, where nothing is carried within the loop, and several, in both precisions."""
    for T, B, dtype, tolerance in ((1, 1, "float64", 1e-12), (7, 3, "float64", 1e-12), (6, 4, "float32", 1e-4)):
        problem = problem_of(name, dtype, 1, T=T, B=B, tokens=tokens).on(gpu)
        ours = outcome(fused, problem)
        with kernels.without_kernels():
            theirs = outcome(fused, problem)
        assert all(ours[key].dtype == theirs[key].dtype for key in theirs)
        error, what = largest_error(backend.to_host(ours), backend.to_host(theirs))
        assert error < tolerance, what


@pytest.mark.parametrize("name", REAL)
def test_kinks_and_nan_as_on_the_plain_path(gpu, name):
    """Pre-activations of 0 and -0.0; a NaN goes on into the states."""
    p = problem_of(name, seed=3, T=4, B=3)
    zeros = {key: np.zeros_like(value) if key[0] in "WUb" else value for key, value in p.weights.items()}
    p.x[1, 0, 0] = np.nan
    for weights in (zeros, p.weights):
        problem = replace(p, weights=weights).on(gpu)
        ours = backend.to_host(outcome(fused, problem))
        with kernels.without_kernels():
            theirs = backend.to_host(outcome(fused, problem))
        for key, value in ours.items():
            np.testing.assert_allclose(value, theirs[key], rtol=1e-12, atol=1e-12, err_msg=key)
    assert np.isnan(ours["states 0"][2:, 0]).any()


@pytest.mark.parametrize("name", CELLS)
def test_the_host_has_no_kernels(name):
    """There the lines in place run, and nothing is made; `without_kernels` changes no bit."""
    problem = problem_of(name, seed=4, T=5)
    assert not kernels.launches(backend.library_of(problem.x))
    made = launch.kernel.cache_info().misses
    ours = outcome(fused, problem)
    assert launch.kernel.cache_info().misses == made
    with kernels.without_kernels():
        theirs = outcome(fused, problem)
    assert all(relative_error(ours[key], theirs[key]) == 0 for key in ours)


@pytest.mark.parametrize("name", REAL)
def test_kernels_are_made_once(gpu, name):
    """A second pass, of another length and batch, fuses nothing anew."""
    outcome(fused, problem_of(name, T=5, B=2).on(gpu))
    made = launch.kernel.cache_info().misses
    outcome(fused, problem_of(name, T=3, B=4).on(gpu))
    assert launch.kernel.cache_info().misses == made > 0


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
    device = replace(backend.library_of(), fuse=lambda function: function)
    with contextlib.suppress(KeyError), kernels.without_kernels(), kernels.without_kernels():
        assert not kernels.launches(device)
        raise KeyError
    assert kernels.launches(device)
