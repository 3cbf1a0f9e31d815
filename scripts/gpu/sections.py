"""Sections of `scripts.gpu_check`: versions, warm-up, the test suite, agreement with the host, orthogonal maps, tasks.

A section gets its settings and a dict, which it fills with figures as it goes, and returns what failed, a line each;
what it raises is a failure too, and the figures so far are kept.
"""

import importlib.util
import itertools
import os
import platform
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import scipy

from gradients.problem import largest_error, perturbed, relative_error
from ortho_ref import models
from ortho_ref.backend import Array, library_of, to_device, to_host
from ortho_ref.cells import CELLS
from ortho_ref.cells.by_name import name_of
from ortho_ref.cells.cell import parts_of, state_of
from ortho_ref.fused import persistent
from ortho_ref.fused.kernels import fallen_back, without_kernels
from ortho_ref.fused.persistent import launch
from ortho_ref.fused.persistent.plan import FORMS
from ortho_ref.parametrizations import Exponential, NeumannCayley, Parametrization, ScaledCayley
from ortho_ref.parametrizations.parametrization import defect
from ortho_ref.recurrent import Recurrent
from ortho_ref.training.trainer import Record
from scripts.grid.build import make_trainer
from scripts.grid.config import config_of
from scripts.grid.experiment.sessions import commit
from scripts.maintain.timing.steps import SIZES, Size
from scripts.program import blas, one_line
from tasks import by_name

ROOT = Path(__file__).parents[2]
PERSISTENT = "persistent"
LOG, XML = "log", "junit.xml"
TOLERANCE, TOLERANCE_SINGLE, TOLERANCE_UPDATES = 1e-10, 1e-2, 1e-6
MAP_ERRORS = ("value", "pullback", "value after", "pullback after")
AGREEMENT_SIZE = Size(4, 20, 5, 16)
#: Where one form of the persistent kernels becomes slower than another.
FORM_SIZES = {
    f"B = {B}, n = {n}": Size(B, 100, 16, n) for B, n in [(32, 192), (32, 256), (32, 320), (128, 192), (128, 256)]
}


def model_of_each_cell() -> dict[tuple[str, bool], str]:
    """(Cell, complex) -> the first model of its kind, one that keeps a weight orthogonal if there is."""
    found: dict[tuple[str, bool], str] = {}
    layers = {name: models.build(name, 4, 4) for name in models.names()}
    by_weights = sorted(layers, key=lambda name: not layers[name].constrained)
    for cell in CELLS:
        for name in by_weights:
            own = layers[name].cell
            if name_of(own) == cell:
                found.setdefault((cell, own.complex), name)
    return found


#: (Cell, complex) -> the model that is trained on both devices.
TRAINED = model_of_each_cell()


@dataclass(frozen=True)
class Settings:
    """Where the sections run and how long, as on a GPU; tests take less.

    seconds: all sections but the warm-up.  suite: further arguments of pytest.
    suite_processes: at once, where pytest-xdist is; below 2: one, without it.
    size: of the models in `agreement`.  task_steps: time steps between two lines of a task's metrics.
    task_options: as of `scripts.train`, beside the task's defaults.
    """

    out: Path
    device: str = "gpu"
    seed: int = 0
    seconds: float = 640.0
    warm_up_seconds: float = 1200.0
    suite_seconds: float = 240.0
    suite: tuple[str, ...] = ()
    suite_processes: int = field(default_factory=lambda: min(16, os.cpu_count() or 1))
    names: tuple[str, ...] = field(default_factory=lambda: tuple(models.names()))
    size: Size = AGREEMENT_SIZE
    updates: int = 100
    trained: tuple[str, ...] = tuple(TRAINED.values())
    map_sizes: tuple[int, ...] = (118, 430)
    map_updates: int = 50
    tasks: tuple[str, ...] = by_name.GENERATED
    task_seconds: float = 8.0
    task_steps: int = 2000
    task_options: Record = field(default_factory=dict)
    timing_sizes: dict[str, Size] = field(default_factory=lambda: dict(SIZES))
    form_sizes: dict[str, Size] = field(default_factory=lambda: dict(FORM_SIZES))
    rounds: int = 5
    timing_seconds: float = 0.2
    repeats: int = 20

    @property
    def engines(self) -> tuple[str, ...]:
        """Those that the device has."""
        return ("fused", PERSISTENT) if self.device == "gpu" else ("fused",)

    def scaled(self, scale: float) -> "Settings":
        """With `scale` times the seconds and updates, each at least one round."""
        return replace(
            self,
            updates=max(1, round(scale * self.updates)),
            map_updates=max(1, round(scale * self.map_updates)),
            task_seconds=scale * self.task_seconds,
            timing_seconds=scale * self.timing_seconds,
            rounds=max(1, round(scale * self.rounds)),
            repeats=max(2, round(scale * self.repeats)),
        )

    def small(self) -> "Settings":
        """With tasks of n = 12, twelve steps and eight sequences, forty updates: for a device that is slow."""
        return replace(self, task_options={"hidden": 12, "length": 12, "batch": 8}, task_steps=120)


def versions(own: Settings, figures: Record) -> list[str]:
    """Versions and the device."""
    failed: list[str] = []

    def note(name: str, read: Callable[[], Any]) -> None:
        try:
            figures[name] = read()
        except Exception as error:
            failed.append(f"{name}: {type(error).__name__}: {one_line(error)}")

    figures |= {"python": platform.python_version(), "numpy": np.__version__, "scipy": scipy.__version__}
    figures |= {"blas": ", ".join(blas()), "machine": f"{platform.system()} {platform.machine()}"}
    figures["commit"] = commit() or "unknown"
    if own.device == "gpu":
        cupy = library_of(to_device(np.zeros(1), own.device)).xp
        runtime = cupy.cuda.runtime
        figures |= {"cupy": cupy.__version__, "CUPY_TF32": os.environ.get("CUPY_TF32", "not set")}
        note("cuda_driver", runtime.driverGetVersion)
        note("cuda_runtime", runtime.runtimeGetVersion)
        note("device", lambda: os.fsdecode(runtime.getDeviceProperties(cupy.cuda.Device().id)["name"]))
        note("compute_capability", lambda: cupy.cuda.Device().compute_capability)
        note("memory_free_and_total", lambda: [int(size) for size in runtime.memGetInfo()])
    try:
        import torch

        figures["torch"] = torch.__version__
        figures["torch_cuda"] = str(torch.version.cuda)
        figures["torch_sees_gpu"] = torch.cuda.is_available()
        note("cudnn", lambda: torch.backends.cudnn.version())
    except ImportError:
        figures["torch"] = "not installed"
    return failed


def warm_up(own: Settings, figures: Record) -> list[str]:
    """The suite once, its outcome not looked at: what CuPy compiles, some 450 kernels, is in its cache after it."""
    with tempfile.TemporaryDirectory() as folder:
        code = _run_suite(own, figures, Path(folder), own.warm_up_seconds, shown=True)
    return [f"stopped after {own.warm_up_seconds:g} s"] if code is None else []


def suite(own: Settings, figures: Record) -> list[str]:
    """The tests with the device fixture; counts from their JUnit file, or from the log if they were stopped."""
    with tempfile.TemporaryDirectory() as folder:
        code = _run_suite(own, figures, Path(folder), own.suite_seconds)
        log, xml = Path(folder) / LOG, Path(folder) / XML
        text = log.read_text(errors="replace")
        if code is None or not xml.exists():
            for word in ("PASSED", "FAILED", "ERROR", "SKIPPED"):
                figures[word.lower()] = len(re.findall(rf"^(?=.*::).*\b{word}\b", text, re.M))
            what = f"stopped after {own.suite_seconds:g} s" if code is None else f"pytest ended with {code}"
            return [f"{what}; {figures['passed']} passed, {figures['failed']} failed until then; {_last(text)}"]
        failed = _counted(figures, xml)
    if code and not failed:
        return [f"pytest ended with {code}: {_last(text)}"]
    return failed if figures["tests"] else ["no test ran"]


def _run_suite(own: Settings, figures: Record, folder: Path, seconds: float, shown: bool = False) -> int | None:
    """The exit code of pytest, which leaves its log and its JUnit file in the folder; None where it was stopped.

    shown: on standard error instead of a log.
    """
    # what else is installed does not take part; hypothesis's own plugin has its options
    plugins = ["-p", "no:cacheprovider", "-p", "_hypothesis_pytestplugin"]
    command = [sys.executable, "-m", "pytest", "-q" if shown else "-v", "--device", own.device, *plugins]
    command += ["--continue-on-collection-errors", f"--junitxml={folder / XML}"]
    figures["processes"] = max(1, own.suite_processes) if importlib.util.find_spec("xdist") else 1
    if figures["processes"] > 1:
        command += ["-p", "xdist.plugin", "--numprocesses", str(figures["processes"])]
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": path}
    start = time.perf_counter()
    with open(folder / LOG, "w", encoding="utf-8") as log:
        process = subprocess.Popen(
            [*command, *own.suite],
            cwd=ROOT,
            env=environment,
            stdout=2 if shown else log,
            stderr=subprocess.STDOUT,
            process_group=0,
        )
        try:
            code: int | None = process.wait(seconds)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    figures["seconds"] = time.perf_counter() - start
    return code


def _last(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "no output")


def _counted(figures: Record, xml: Path) -> list[str]:
    """Counts of a JUnit file; its failures, one line each, thirty at most."""
    suites = list(ElementTree.parse(xml).getroot().iter("testsuite"))
    for name in ("tests", "failures", "errors", "skipped"):
        figures[name] = sum(int(one.get(name, 0)) for one in suites)
    wrong = [
        f"{case.get('classname')}::{case.get('name')}: {one_line(found.get('message') or found.tag)[:200]}"
        for one in suites
        for case in one.iter("testcase")
        for found in case
        if found.tag in ("failure", "error")
    ]
    return wrong[:30] + ([f"and {len(wrong) - 30} more"] if len(wrong) > 30 else [])


def agreement(own: Settings, figures: Record) -> list[str]:
    """Every model on the host and on the device, from the same bits; float64 must agree to TOLERANCE."""
    failed = []
    rows: list[Record] = figures.setdefault("rows", [])
    for name in own.names:
        row: Record = {"model": name}
        for dtype in ("float64", "float32"):
            try:
                errors = _compared(own, name, np.dtype(dtype))
            except Exception as error:
                failed.append(f"{name}, {dtype}: {type(error).__name__}: {one_line(error)}")
                continue
            row |= {f"{key}, {dtype}": value for key, value in errors.items()}
            if not max(errors.values()) <= (TOLERANCE if dtype == "float64" else np.finfo(float).max):
                failed.append(f"{name}, {dtype}: {errors}")
        rows.append(row)
    updates: list[Record] = figures.setdefault("updates", [])
    for name, engine in itertools.product(own.trained, own.engines):
        row = {"model": name, "engine": engine, "updates": own.updates}
        try:
            row["largest difference of a parameter"] = largest = _trained(own, name, engine)
        except Exception as error:
            failed.append(f"{name}, {engine}, {own.updates} updates: {type(error).__name__}: {one_line(error)}")
            continue
        updates.append(row)
        if not largest <= TOLERANCE_UPDATES:
            failed.append(f"{name}, {engine}: after {own.updates} updates the parameters differ by {largest:.1e}")
    return failed + [f"{name} is more than one kernel: cupy.fuse fell back from it" for name in fallen_back()]


def _compared(own: Settings, name: str, dtype: np.dtype) -> dict[str, float]:
    """Largest relative errors of the states, of all gradients, and of both between fused kernels and none.

    And of both by persistent kernels, in each form that fits, on a device that has them.
    """
    B, T, m, n = own.size
    layer, rng = models.build(name, m, n), np.random.default_rng(own.seed)
    params, buffers = layer.init(rng, dtype=dtype)
    params = perturbed(params, rng, 0.1)
    buffers = layer.rebuild(params, buffers)
    state_dtype = np.result_type(dtype, np.complex64) if layer.cell.complex else dtype
    x = rng.standard_normal((T, B, m)).astype(dtype)
    dh = rng.standard_normal((T, B, n)).astype(state_dtype)
    h0 = state_of(tuple(rng.standard_normal((B, n)).astype(state_dtype) for _ in layer.cell.states))

    def course(device: str, layer: Recurrent = layer) -> tuple[list[Array], dict[str, Array]]:
        p, s, x_d, dh_d, h0_d = to_device((params, buffers, x, dh, h0), device)
        h, tape = layer.forward(p, s, x_d, h0_d)
        gradients = layer.backward(p, s, tape, dh_d, h0_d)
        parts = {f"h0 {i}": part for i, part in enumerate(parts_of(layer.cell, gradients.h0))}
        found: tuple[list[Array], dict[str, Array]] = to_host(
            (list(parts_of(layer.cell, h)), {**gradients.params, **parts, "x": gradients.x})
        )
        return found

    def states_error(ours: list[Array], theirs: list[Array]) -> float:
        return max(relative_error(a, b) for a, b in zip(ours, theirs, strict=True))

    (h_host, ours_host), (h_device, ours_device) = course("cpu"), course(own.device)
    with without_kernels():
        h_plain, ours_plain = course(own.device)
    plain_error = max(states_error(h_device, h_plain), largest_error(ours_device, ours_plain)[0])
    errors = {"states": states_error(h_device, h_host), "gradients": largest_error(ours_device, ours_host)[0]}
    errors["fused against plain"] = plain_error
    if PERSISTENT in own.engines and persistent.has_form(layer.cell):
        for form in FORMS:
            with launch.using(form):
                h_own, ours_own = course(own.device, replace(layer, engine=PERSISTENT))
            errors[f"persistent, {form}"] = max(states_error(h_own, h_host), largest_error(ours_own, ours_host)[0])
    return errors


def _trained(own: Settings, name: str, engine: str) -> float:
    """The largest difference of a parameter after the same updates by fused on the host and an engine on the device."""
    B, T, _, n = own.size
    options: Record = {"model": name, "hidden": n, "length": T, "batch": B, "dtype": "float64", "seed": own.seed}
    found = []
    for device, by in (("cpu", "fused"), (own.device, engine)):
        trainer = make_trainer(config_of("parenthesis", **options, device=device, engine=by))
        batches = trainer.task.batches(np.random.default_rng(own.seed), B)
        for _ in range(own.updates):
            trainer.update(next(batches))
        found.append(to_host(trainer.params))
    return max(float(np.abs(found[0][key] - found[1][key]).max()) for key in found[0])


def maps(own: Settings, figures: Record) -> list[str]:
    """Orthogonal maps on the device against the host: value, pullback, defect, and all of it after updates."""
    failed = []
    rows: list[Record] = figures.setdefault("rows", [])
    for n in own.map_sizes:
        for name, p in (
            ("Cayley, exact", ScaledCayley(n // 2)),
            ("Neumann-Cayley, order 2", NeumannCayley(n // 2, reset_every=None)),
            ("exponential", Exponential()),
        ):
            for dtype in ("float64", "float32"):
                row: Record = {"map": name, "n": n, "dtype": dtype}
                try:
                    row |= _mapped(own, p, n, np.dtype(dtype))
                except Exception as error:
                    failed.append(f"{name}, n = {n}, {dtype}: {type(error).__name__}: {one_line(error)}")
                    continue
                rows.append(row)
                allowed = TOLERANCE if dtype == "float64" else TOLERANCE_SINGLE
                failed += [
                    f"{name}, n = {n}, {dtype}: {key} is {row[key]:.1e}; allowed: {limit:.1e}"
                    for key, limit in {
                        **dict.fromkeys(MAP_ERRORS, allowed),
                        "defect after": 10 * row["defect after, host"] + allowed,
                    }.items()
                    if not row[key] <= limit
                ]
    return failed


def _mapped(own: Settings, p: Parametrization, n: int, dtype: np.dtype) -> Record:
    """Relative errors of the device against the host, under MAP_ERRORS, and the defects of both after the updates."""
    rng = np.random.default_rng(own.seed)
    start, upstream = p.init(rng, n, dtype=dtype), rng.standard_normal((n, n)).astype(dtype)
    steps = [rng.standard_normal((n, n)).astype(dtype) * dtype.type(1e-3) for _ in range(own.map_updates)]

    def course(device: str) -> tuple[tuple[Array, ...], float]:
        (params, buffers), dU = to_device((start, upstream), device)
        buffers = p.rebuild(params, buffers)
        before = buffers["U"], p.pullback(params, buffers, dU)["A"]
        for X in steps:
            params, buffers = p.retract(params, buffers, {"A": to_device(X - X.T, device)})
        after = buffers["U"], p.pullback(params, buffers, dU)["A"]
        return to_host(before + after), float(defect(buffers["U"]))

    (theirs, host_defect), (ours, its_defect) = course("cpu"), course(own.device)
    errors = (relative_error(a, b) for a, b in zip(ours, theirs, strict=True))
    row: Record = dict(zip(MAP_ERRORS, errors, strict=True))
    return row | {"defect after": its_defect, "defect after, host": host_defect}


def tasks(own: Settings, figures: Record) -> list[str]:
    """NC-GRU on each task at the paper's size, as `scripts.train` runs it: the loss stays finite and falls.

    By each engine: updates per second.
    """
    failed = []
    rows: list[Record] = figures.setdefault("rows", [])
    for task, engine in itertools.product(own.tasks, own.engines):
        try:
            records, baseline = _run(own, task, engine)
        except Exception as error:
            failed.append(f"{task}, {engine}: {type(error).__name__}: {one_line(error)}")
            continue
        losses = [record["loss"] for record in records]
        part = max(1, len(losses) // 4)
        first, last = statistics.fmean(losses[:part]), statistics.fmean(losses[-part:])
        speed = statistics.median(record["steps_per_second"] for record in records[1:])
        rows.append({"task": task, "engine": engine, "updates": records[-1]["iteration"], "updates per second": speed})
        rows[-1] |= {"loss, first quarter": first, "loss, last quarter": last, "baseline": baseline}
        if not last < first:
            failed.append(
                f"{task}, {engine}: the loss does not fall: {first:.4g} in the first quarter, {last:.4g} in the last"
            )
    return failed


def _run(own: Settings, task: str, engine: str) -> tuple[list[Record], float]:
    """Lines of the metrics of a run that is stopped after own.task_seconds, its first update not counted."""
    endless = 10**6
    of_task = by_name.options_of(task)
    options: Record = {"length": of_task.get("length", 100)} | own.task_options
    log_every = max(1, own.task_steps // options["length"])
    if "length" not in of_task:
        del options["length"]
    options |= {"iterations": endless, "eval_every": endless, "log_every": log_every, "seed": own.seed}
    options["engine"] = engine
    trainer = make_trainer(config_of(task, device=own.device, **options))
    began: list[float] = []

    def over() -> bool:
        began.append(time.perf_counter())
        return trainer.iteration >= 4 * log_every and began[-1] - began[0] >= own.task_seconds

    with tempfile.TemporaryDirectory() as folder, np.errstate(all="ignore"):
        return trainer.run(Path(folder) / "run", should_stop=over), trainer.task.baseline
