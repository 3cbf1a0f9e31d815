"""gpu_check on the stand-in, at tiny sizes; on a machine without a GPU; with a runtime that is made up."""

import itertools
import json
import os
import subprocess
import sys
import types
from dataclasses import replace

import numpy as np
import pytest

from ortho_ref import backend, fused, models
from ortho_ref.cells import CELLS, LSTM
from ortho_ref.cells.by_name import name_of
from ortho_ref.fused import kernels
from ortho_ref.optimizers import Adam
from ortho_ref.parametrizations import Exponential, ScaledCayley
from scripts import gpu_check
from scripts.gpu import on_paper, sections, timing
from scripts.gpu.sections import MAP_ERRORS, TRAINED, Settings
from scripts.gpu.watching import percent
from scripts.timing.rounds import synchronizer, time_interleaved
from scripts.timing.steps import SIZES, Size
from tasks.parenthesis import Parenthesis
from tests.device import standin
from tests.line import CHILD, PATIENCE, limits_begin_at
from tests.scripts.runs import ROOT, call


@pytest.fixture
def tiny(tmp_path):
    """Settings of seconds, on the stand-in."""
    return Settings(
        out=tmp_path,
        device="stand-in",
        suite=("tests/ortho_ref/test_layers.py",),
        suite_seconds=PATIENCE,
        suite_processes=1,
        size=Size(2, 4, 3, 8),
        updates=3,
        map_sizes=(6,),
        map_updates=3,
        task_seconds=0,
        task_steps=36,
        task_options={"hidden": 8, "length": 12, "batch": 4},
        timing_sizes={"one": Size(2, 3, 2, 4)},
        rounds=2,
        timing_seconds=0,
        launch_size=Size(2, 3, 2, 4),
    )


def on_standin(array):
    return backend.is_array(array) and backend.library_of(array).device == "stand-in"


def report_in(folder):
    """The JSON, strictly read."""
    text = (folder / "gpu-check.json").read_text()
    return json.loads(text, parse_constant=lambda constant: pytest.fail(f"JSON has {constant}"))


def test_every_section_on_the_standin(tiny):
    """All nine in order, nothing failed, every model, size and task in the JSON; the page has the same."""
    report = gpu_check.report_of(tiny)
    assert report_in(tiny.out) == json.loads(json.dumps(report))
    assert (report["complete"], report["failed"], report["not_begun"]) == (True, [], [])
    sections = report["sections"]
    names = ["versions", "warm-up", "suite", "agreement", "maps", "tasks", "timings", "launches", "persistent"]
    assert list(sections) == names
    assert all(section["seconds"] >= 0 for section in sections.values())
    figures = {name: section["figures"] for name, section in sections.items()}
    assert figures["versions"]["numpy"] == np.__version__
    assert figures["versions"]["blas"]
    counts = figures["suite"]
    assert counts["tests"] > 5
    assert counts["failures"] == counts["errors"] == 0
    assert [row["model"] for row in figures["agreement"]["rows"]] == models.names()
    for row in figures["agreement"]["rows"]:
        for key in ("states", "gradients", "fused against plain"):
            assert row[f"{key}, float64"] <= 1e-10
            assert f"{key}, float32" in row
    assert [row["model"] for row in figures["agreement"]["updates"]] == list(TRAINED.values())
    assert len(figures["maps"]["rows"]) == 6
    assert all(row[key] <= 1e-2 for row in figures["maps"]["rows"] for key in MAP_ERRORS)
    own = ["parenthesis", "denoise", "adding", "copying", "shortest-path"]
    assert [row["task"] for row in figures["tasks"]["rows"]] == own
    assert all(row["loss, last quarter"] < row["loss, first quarter"] for row in figures["tasks"]["rows"])
    assert [row["model"] for row in figures["timings"]["rows"]] == ["nc-gru", "gru", "lstm"]
    assert all(row["ours, ms"] > 0 for row in figures["timings"]["rows"])
    assert figures["timings"]["clock"] == "the host's"
    assert figures["launches"]["not_counted"]
    assert figures["persistent"] == {"not_run": "device 'stand-in' has no persistent kernels"}
    page = (tiny.out / "gpu-check.md").read_text()
    assert page.startswith("# gpu_check on stand-in: complete, 0 failed\n")
    for name in sections:
        assert f"\n## {name} (" in page
    assert "| sgornn | " in page
    assert not list(tiny.out.glob("*.part"))


def test_the_table_on_paper_is_the_programs(capsys):
    """docs/gpu.md has what scripts.gpu.on_paper prints; more work is never less time."""
    on_paper.main()
    assert capsys.readouterr().out in (ROOT / "docs" / "gpu.md").read_text()
    for way in (on_paper.FORWARD, on_paper.BACKWARD):
        sizes = [Size(batch, 100, 10, n) for n in (64, 128, 430, 1000) for batch in (16, 300)]
        took = [on_paper.step(size, way).expected for size in sizes]
        assert all(a <= b for a, b in itertools.pairwise(took[::2]))
        assert all(a <= b for a, b in zip(took[::2], took[1::2], strict=True))
        assert all(one.expected >= max(one[:4]) for one in (on_paper.step(size, way) for size in sizes))


def test_trained_models_are_one_of_each_cell():
    """Each cell that some model has, real or complex; with an orthogonal weight, but for the LSTM, of which no model
    has one."""
    every = {name: models.build(name, 4, 4) for name in models.names()}
    assert {(name_of(layer.cell), layer.cell.complex) for layer in every.values()} == set(TRAINED)
    assert {cell for cell, _ in TRAINED} == set(CELLS)
    for (cell, complex), name in TRAINED.items():
        assert (name_of(every[name].cell), every[name].cell.complex) == (cell, complex)
    assert [name for name in TRAINED.values() if not every[name].constrained] == ["lstm"]


def test_the_defaults_are_the_sizes_asked_for(tmp_path):
    """The papers' six sizes, n = 118 and 430, 100 and 50 updates, four minutes; --scale shrinks what it says."""
    own = Settings(out=tmp_path)
    assert own.timing_sizes == SIZES
    assert (own.map_sizes, own.map_updates, own.updates, own.suite_seconds) == ((118, 430), 50, 100, 240)
    assert own.names == tuple(models.names())
    half = own.scaled(0.5)
    assert (half.updates, half.map_updates, half.task_seconds, half.rounds) == (50, 25, own.task_seconds / 2, 2)
    assert (half.suite_seconds, half.timing_sizes) == (240, SIZES)
    assert (own.task_options, own.small().task_options) == ({}, {"hidden": 12, "length": 12, "batch": 8})
    assert own.seconds < 660


def test_a_section_that_fails_is_recorded_and_the_rest_go_on(tiny, monkeypatch):
    """Its exception on one line, its figures so far kept; what a kill leaves after each section can be read."""
    seen = []

    def broken(own, figures):
        figures["begun"] = float("nan")
        seen.append(report_in(own.out))
        raise RuntimeError("cudaErrorIllegalAddress:\nan illegal memory access")

    monkeypatch.setitem(gpu_check.SECTIONS, "agreement", broken)
    report = gpu_check.report_of(replace(tiny, map_sizes=(5,)), ("versions", "agreement", "maps"))
    assert report["failed"] == [
        {"section": "agreement", "error": "RuntimeError: cudaErrorIllegalAddress: an illegal memory access"}
    ]
    assert list(report["sections"]) == ["versions", "agreement", "maps"]
    assert report["sections"]["maps"]["figures"]["rows"]
    assert report_in(tiny.out)["sections"]["agreement"]["figures"] == {"begun": "nan"}
    (before,) = seen
    assert (before["complete"], before["running"], before["not_begun"]) == (False, "agreement", ["maps"])
    assert list(before["sections"]) == ["versions"]
    page = (tiny.out / "gpu-check.md").read_text()
    assert page.startswith("# gpu_check on stand-in: complete, 1 failed\n\n* FAILED agreement: RuntimeError: cuda")


def test_a_killed_run_leaves_what_it_had(tiny, monkeypatch):
    """An end that no handler sees, in the second section: the first's figures are there, `complete` is false."""

    def killed(own, figures):
        raise KeyboardInterrupt

    monkeypatch.setitem(gpu_check.SECTIONS, "suite", killed)
    with pytest.raises(KeyboardInterrupt):
        gpu_check.report_of(tiny, ("versions", "suite", "maps"))
    report = report_in(tiny.out)
    assert (report["complete"], report["running"], report["not_begun"]) == (False, "suite", ["maps"])
    assert report["sections"]["versions"]["figures"]["numpy"] == np.__version__
    page = (tiny.out / "gpu-check.md").read_text()
    assert "NOT COMPLETE" in page
    assert "* not finished: suite\n* not begun: maps\n" in page


def test_out_of_time(tiny):
    """What no time is left for is a failure that says so."""
    report = gpu_check.report_of(replace(tiny, seconds=0), ("versions",))
    assert report["failed"] == [{"section": "versions", "error": "TimeoutError: not begun: 0 s were over"}]


# What each section must see


def failures(section, own, figures=None):
    return getattr(sections, section)(own, {} if figures is None else figures)


def test_agreement_sees_a_wrong_gradient(tiny, monkeypatch):
    """Off by 1e-8 on the device alone: the model is named; a model that cannot run is named, and the others run."""
    own, backward = replace(tiny, names=("lstm", "gru"), trained=()), fused.backward

    def wrong(cell, *arguments):
        gradients = backward(cell, *arguments)
        if isinstance(cell, LSTM) and on_standin(gradients.weights["W_i"]):
            gradients.weights["W_i"] = gradients.weights["W_i"] * (1 + 1e-8)
        return gradients

    monkeypatch.setattr(fused, "backward", wrong)
    figures = {}
    (message,) = failures("agreement", own, figures)
    assert message.startswith("lstm, float64: ")
    assert [row["model"] for row in figures["rows"]] == ["lstm", "gru"]
    messages = failures("agreement", replace(own, names=("none", "gru")))
    assert [message.split(": ")[0] for message in messages] == ["none, float64", "none, float32"]


def test_agreement_sees_updates_that_drift_apart(tiny, monkeypatch):
    """A delta off by 1e-3 on the device: within the steps of 1e-3 that is 1e-6 and more."""
    delta = Adam.delta

    def wrong(self, name, parameter, gradient):
        return delta(self, name, parameter, gradient) * (1 + 1e-3 * on_standin(gradient))

    own = replace(tiny, names=(), trained=("gru",), updates=20)
    assert failures("agreement", own) == []
    monkeypatch.setattr(Adam, "delta", wrong)
    (message,) = failures("agreement", own)
    assert message.startswith("gru: after 20 updates the parameters differ by ")


@pytest.mark.parametrize("kind", [ScaledCayley, Exponential])
def test_maps_see_a_wrong_value_and_a_defect(tiny, monkeypatch, kind):
    """U off by 1e-8 on the device: value and defect of float64, of that map alone."""
    rebuild = kind.rebuild

    def wrong(self, params, buffers):
        buffers = rebuild(self, params, buffers)
        return {**buffers, "U": buffers["U"] * (1 + 1e-8 * on_standin(params["A"]))}

    monkeypatch.setattr(kind, "rebuild", wrong)
    messages = failures("maps", tiny)
    name = {ScaledCayley: "Cayley, exact", Exponential: "exponential"}[kind]
    assert {message.split(", n = ")[0] for message in messages} == {name}
    assert any(": value is 1.0e-08; allowed: 1.0e-10" in message for message in messages)
    assert any(": defect after is 2.0e-08; allowed: " in message for message in messages)


def test_tasks_see_a_loss_that_does_not_fall_and_an_error(tiny, monkeypatch):
    """One batch again and again at a rate of nothing; a rate that overflows; a task that is none; each for itself."""
    options = tiny.task_options | {"lr": 1e-30}
    batches = Parenthesis.batches

    def constant(self, rng, batch_size):
        return itertools.repeat(next(batches(self, rng, batch_size)))

    monkeypatch.setattr(Parenthesis, "batches", constant)
    (message,) = failures("tasks", replace(tiny, tasks=("parenthesis",), task_options=options))
    assert message.startswith("parenthesis, fused: the loss does not fall: ")
    figures = {}
    options = tiny.task_options | {"lr": 1e30}
    messages = failures("tasks", replace(tiny, tasks=("parenthesis", "none"), task_options=options), figures)
    told = "parenthesis, fused: FloatingPointError: iteration 1: layer0.U_c: ||A_tilde delta|| is inf in update 1 of A"
    assert messages[0].startswith(told)
    assert messages[1].startswith("none, fused: ValueError: task is 'none'; allowed: 'parenthesis', ")
    assert figures == {"rows": []}


@pytest.fixture
def other_suite(tmp_path, monkeypatch):
    """A checkout of three tests, one of which fails, and a file that cannot be collected."""
    (tmp_path / "conftest.py").write_text("def pytest_addoption(parser):\n    parser.addoption('--device')\n")
    (tmp_path / "test_a.py").write_text(
        "def test_1(): pass\ndef test_2(): pass\ndef test_wrong(): assert 1 == 2, 'here'\n"
    )
    (tmp_path / "test_broken.py").write_text("import nothing_of_this_name\n")
    monkeypatch.setattr(sections, "ROOT", tmp_path)


def test_suite_counts_and_names_failures(tiny, other_suite):
    """One test that fails and one file that cannot be collected: both are named, the rest is counted."""
    figures = {}
    messages = failures("suite", replace(tiny, suite=()), figures)
    assert [figures[key] for key in ("tests", "failures", "errors", "skipped")] == [4, 1, 1, 0]
    wrong, broken = sorted(messages, key=lambda message: "test_broken" in message)
    assert wrong.startswith("test_a::test_wrong: AssertionError: here")
    assert "test_broken: " in broken


NOTES_ITS_PROCESSES = """
import pathlib
def pytest_sessionstart(session):
    worker = getattr(session.config, "workerinput", {"workerid": "main"})["workerid"]
    (pathlib.Path(__file__).parent / f"{worker}.process").touch()
"""


@pytest.mark.parametrize(
    ("processes", "xdist", "runs_in"),
    [(2, True, ["gw0", "gw1", "main"]), (1, True, ["main"]), (0, True, ["main"]), (2, False, ["main"])],
)
def test_suite_in_several_processes(tiny, other_suite, tmp_path, monkeypatch, processes, xdist, runs_in):
    """The workers that were asked for, where pytest-xdist is, and the same counts; else one process without it."""
    if xdist:
        pytest.importorskip("xdist")
    else:
        monkeypatch.setitem(sys.modules, "xdist", None)
    with open(tmp_path / "conftest.py", "a") as stream:
        stream.write(NOTES_ITS_PROCESSES)
    figures = {}
    assert len(failures("suite", replace(tiny, suite=(), suite_processes=processes), figures)) == 2
    assert [figures[key] for key in ("tests", "failures", "errors", "skipped")] == [4, 1, 1, 0]
    assert sorted(path.stem for path in tmp_path.glob("*.process")) == runs_in
    assert figures["processes"] == max(1, len(runs_in) - 1)


SAYS = """
import pytest
class Says:
    @pytest.hookimpl(trylast=True)  # when it stands in the log
    def pytest_runtest_logreport(self, report):
        if report.when == "call":
            line.send(f"{report.nodeid} {report.outcome};".encode())
def pytest_configure(config):
    if not hasattr(config, "workerinput"):  # of pytest-xdist's workers
        config.pluginmanager.register(Says())
"""


@pytest.mark.parametrize("processes", [1, 2])
def test_suite_that_hangs(tiny, other_suite, tmp_path, line, monkeypatch, processes):
    """What passed and failed before it was stopped is counted."""
    with open(tmp_path / "conftest.py", "a") as stream:
        stream.write(line.source + SAYS)
    (tmp_path / "test_broken.py").write_text("from conftest import hold\ndef test_long(): hold()\n")
    words = ("test_1 passed;", "test_2 passed;", "test_wrong failed;")
    limits_begin_at(monkeypatch, lambda: [line.hears(word) for word in words])
    (message,) = failures("suite", replace(tiny, suite=(), suite_seconds=0.1, suite_processes=processes))
    assert message.startswith("stopped after 0.1 s; 2 passed, 1 failed until then; ")


def test_suite_is_stopped_after_its_time(tiny, other_suite, tmp_path, line, monkeypatch):
    """Killed with all it started; what passed until then is counted from the log."""
    (tmp_path / "conftest.py").write_text(f"{line.source}{CHILD}line.send(b'loading')\nhold()\n")
    limits_begin_at(monkeypatch, lambda: line.hears("loading"))
    (message,) = failures("suite", replace(tiny, suite=(), suite_seconds=0.1))
    assert message.startswith("stopped after 0.1 s; 0 passed, 0 failed until then; ")
    assert line.ended()


def test_the_warm_up_is_the_suite_apart(tiny, other_suite, monkeypatch):
    """Its failures are the suite's to tell, and its time is not taken from the others'."""
    figures, now = {}, [0.0]
    assert failures("warm_up", replace(tiny, suite=()), figures) == []
    assert figures["seconds"] > 0

    def takes_long(own, figures):
        now[0] += 1000
        return []

    monkeypatch.setattr(gpu_check.time, "perf_counter", lambda: now[0])
    for name, told in (("warm-up", []), ("versions", ["maps"])):
        monkeypatch.setattr(gpu_check, "SECTIONS", {name: takes_long, "maps": lambda own, figures: []})
        report = gpu_check.report_of(replace(tiny, seconds=350))
        assert [entry["section"] for entry in report["failed"]] == told


def test_a_warm_up_that_hangs_is_stopped(tiny, other_suite, tmp_path, line, monkeypatch):
    """After its own time, with all it started."""
    (tmp_path / "conftest.py").write_text(f"{line.source}{CHILD}line.send(b'loading')\nhold()\n")
    limits_begin_at(monkeypatch, lambda: line.hears("loading"))
    assert failures("warm_up", replace(tiny, suite=(), warm_up_seconds=0.1)) == ["stopped after 0.1 s"]
    assert line.ended()


def test_how_far_the_warm_up_is():
    """pytest's last per cent, of one process and of several; 0 before the first."""
    one = "collected 3 items\n\ntest_a.py::test_1 PASSED         [ 33%]\ntest_a.py::test_2 FAILED         [ 66%]\n"
    assert percent(one) == 66
    assert percent("[gw0] [ 50%] PASSED test_a.py::test_1\n[gw1] [100%] PASSED test_a.py::test_2\n") == 100
    assert percent("collected 3 items\n") == 0


def test_suite_without_a_test_is_a_failure(tiny):
    """A selection of nothing, exit code 5, is not a success."""
    (message,) = failures("suite", replace(tiny, suite=("tests/test_project.py",)))
    assert message.startswith("pytest ended with 5: ")


# The command


def test_without_a_gpu(tmp_path, monkeypatch):
    """One line, exit code 2, and no file; so with CuPy but no device."""
    monkeypatch.setitem(sys.modules, "cupy", None)
    monkeypatch.delitem(backend._LOADED, "cupy", raising=False)
    for arguments, message in (
        ([], "error: device 'gpu' needs CuPy: pip install"),
        (["--device", "cpu"], "error: device is 'cpu'; allowed: 'gpu', which is compared with the host"),
        (["--device", "tpu"], "error: device is 'tpu'; allowed: "),
        (["--only", "maps", "--only", "all"], "error: only is 'all'; allowed: versions, warm-up, suite, agreement"),
        (["--scale", "0"], "error: scale is 0.0; allowed: "),
    ):
        code, stdout, stderr = call(gpu_check.main, "--out", tmp_path / "a", *arguments)
        assert (code, stdout, stderr.count("\n")) == (2, "", 1), stderr
        assert stderr.startswith(message)
    assert not (tmp_path / "a").exists()


@pytest.mark.slow
def test_the_real_command_without_a_gpu(tmp_path):
    """As a user gives it, in a process of its own."""
    (tmp_path / "cupy.py").write_text("raise ImportError('no CuPy here', name='cupy')\n")
    command = [sys.executable, "-W", "error", "-m", "scripts.gpu_check", "--out", str(tmp_path / "a")]
    environment = os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("error: device 'gpu' needs CuPy")
    assert result.stderr.count("\n") == 1
    assert not (tmp_path / "a").exists()


def test_exit_codes(tmp_path, monkeypatch):
    """0 where nothing failed, 1 where something did, which is listed last."""
    monkeypatch.setattr(gpu_check, "SECTIONS", {"versions": sections.versions})
    arguments = ["--out", tmp_path / "a", "--device", "stand-in"]
    code, _, stderr = call(gpu_check.main, *arguments)
    assert code == 0, stderr
    assert stderr.endswith(f"0 failed; {tmp_path / 'a' / 'gpu-check.md'}\n")
    monkeypatch.setitem(gpu_check.SECTIONS, "other", lambda own, figures: ["two is three"])
    code, _, stderr = call(gpu_check.main, *arguments)
    assert code == 1
    assert "failed: other: two is three\n1 failed; " in stderr


# With a runtime that is made up


class FakeArray(np.ndarray):
    """Of a library called cupy."""

    __module__ = "cupy"


class Event:
    """Notes where it was recorded on a clock that each step advances."""

    clock = 0.0

    def record(self):
        self.at = Event.clock

    def synchronize(self):
        Event.clock += 1000  # waiting costs nothing that an event would see


@pytest.fixture
def imaginary(monkeypatch):
    """A library on device "gpu" whose arrays are the host's, with the runtime's functions that are used."""
    runtime = types.SimpleNamespace(
        driverGetVersion=lambda: 13000,
        runtimeGetVersion=lambda: 13010,
        getDeviceProperties=lambda i: {"name": b"NVIDIA Imaginary"},
        memGetInfo=lambda: (1, 2),
        deviceSynchronize=lambda: None,
    )
    elapsed = lambda begin, end: end.at - begin.at  # noqa: E731
    device = lambda: types.SimpleNamespace(id=0, compute_capability="90")  # noqa: E731
    cuda = types.SimpleNamespace(runtime=runtime, Event=Event, get_elapsed_time=elapsed, Device=device)
    xp = types.SimpleNamespace(__version__="14.2.0", cuda=cuda, zeros=np.zeros, add=np.add)
    library = backend.ArrayLibrary("gpu", xp, None, lambda a: a.view(FakeArray), lambda a: a.view(np.ndarray))
    monkeypatch.setitem(backend._LOADED, "cupy", library)
    return xp


def test_versions_of_a_gpu(imaginary, tiny, monkeypatch):
    """CuPy's, the driver's and the runtime's; the device heads the report; one that cannot be read is named."""
    report = gpu_check.report_of(replace(tiny, device="gpu"), ("versions",))
    figures = report["sections"]["versions"]["figures"]
    assert report["failed"] == []
    assert report["device"] == figures["device"] == "NVIDIA Imaginary"
    assert (figures["cupy"], figures["cuda_driver"], figures["cuda_runtime"]) == ("14.2.0", 13000, 13010)
    assert figures["memory_free_and_total"] == [1, 2]

    def broken():
        raise RuntimeError("no memory info")

    monkeypatch.setattr(imaginary.cuda.runtime, "memGetInfo", broken)
    report = gpu_check.report_of(replace(tiny, device="gpu"), ("versions",))
    (failed,) = report["failed"]
    assert failed["error"] == "memory_free_and_total: RuntimeError: no memory info"
    assert report["device"] == "NVIDIA Imaginary"


def test_the_device_is_waited_for_before_a_clock_is_read(imaginary, monkeypatch):
    """benchmark's rounds: once before and once after each timed turn, by the runtime; on the host not at all."""
    calls = []
    monkeypatch.setattr(imaginary.cuda.runtime, "deviceSynchronize", lambda: calls.append("wait"))
    wait = synchronizer("gpu")
    time_interleaved({"a": lambda: calls.append("step")}, 2, 0, wait)
    turn = ["step", "step", "wait", "step", "wait"]
    assert calls == ["step", "wait", "step", "wait", *turn, *turn]
    calls.clear()
    synchronizer("cpu")()
    synchronizer("stand-in")()
    assert calls == []


def test_timings_and_versions_with_the_standin_as_the_gpu(imaginary, tiny, monkeypatch):
    """What only a device named gpu goes through, on arrays as strict as CuPy's."""
    monkeypatch.setitem(vars(standin.xp), "cuda", imaginary.cuda)
    monkeypatch.setitem(vars(standin.xp), "__version__", "14.2.0")
    monkeypatch.setitem(backend._LOADED, "standin", replace(standin.LIBRARY, device="gpu"))
    monkeypatch.setitem(backend._DEVICES, "gpu", "standin")
    monkeypatch.setattr(Settings, "engines", ("fused",))  # its kernels are CuPy's own
    clock = itertools.count()
    monkeypatch.setattr(Event, "record", lambda self: setattr(self, "at", next(clock)))
    monkeypatch.setattr(Event, "synchronize", lambda self: None)
    names = ("versions", "agreement", "maps", "timings", "launches")
    report = gpu_check.report_of(replace(tiny, device="gpu", names=("nc-gru",), trained=("gru",)), names)
    assert report["failed"] == []
    assert report["device"] == "NVIDIA Imaginary"
    figures = report["sections"]["timings"]["figures"]
    assert figures["clock"] == "device events"
    assert [row["ours, ms"] > 0 for row in figures["rows"]] == [True] * 3
    assert report["sections"]["launches"]["figures"]["not_counted"]


def test_times_are_between_events(imaginary):
    """The warm-up before the first event and the wait after the last are not in it."""

    taken = iter([100])

    def step():
        Event.clock += next(taken, 3)  # the first compiles

    assert timing.milliseconds(step, 4, "gpu") == 3
    times = timing.interleaved({"a": step, "b": lambda: [step(), step()]}, 3, 0.1, "gpu")
    assert times == {"a": [3, 3, 3], "b": [6, 6, 6]}


def test_timings_go_on_after_a_size_that_fails(tiny, monkeypatch):
    """As one that does not fit in memory; medians and ratios are those of the rounds."""

    def fake(steps, rounds, seconds, device):
        return {name: [1.0, 2.0, 9.0] if name.endswith("ours") else [3.0, 8.0, 9.0] for name in steps}

    monkeypatch.setattr(timing, "interleaved", fake)
    monkeypatch.setattr(timing, "torch_device", lambda device: "cpu")
    monkeypatch.setattr(timing, "torch_step", lambda *arguments: None)
    monkeypatch.setattr(timing, "plain_float32", lambda: "off")  # needs PyTorch
    right = timing.numpy_step

    def numpy_step(engine, size, model, device):
        if size.hidden == 5:
            raise MemoryError("Out of memory allocating 8 bytes")
        return right(engine, size, model, device)

    monkeypatch.setattr(timing, "numpy_step", numpy_step)
    figures, sizes = {}, {"big": Size(1, 1, 1, 5), "small": Size(1, 1, 1, 4)}
    failed = timing.timings(figures, sizes, 3, 0, "stand-in")
    assert failed == ["big: MemoryError: Out of memory allocating 8 bytes"]
    assert [row["model"] for row in figures["rows"]] == list(timing.PEERS)
    row = figures["rows"][0]
    assert (row["size"], row["ours, ms"], row["torch, ms"], row["torch / ours"]) == ("small", 2, 8, 3)


def test_timings_without_torch(tiny, monkeypatch):
    """No ratios, and why; no failure."""
    monkeypatch.setattr(timing, "torch_device", lambda device: None)
    figures = {}
    assert timing.timings(figures, tiny.timing_sizes, 1, 0, "stand-in") == []
    assert figures["torch"] == "not installed, or it finds no GPU: no ratios"
    assert "torch, ms" not in figures["rows"][0]


def test_launches_per_time_step(imaginary, monkeypatch):
    """The slope between T and 2 T steps: what a sequence launches once does not count; zero of ten is "not counted"."""
    counts = iter([10, 7 + 3 * 20, 10, 7 + 6 * 20, 10, 7 + 9 * 20, 10, 7 + 18 * 20] * 3)
    torch = types.SimpleNamespace(
        zeros=lambda *a, **k: None,
        profiler=types.SimpleNamespace(
            ProfilerActivity=types.SimpleNamespace(CUDA="cuda"), supported_activities=lambda: {"cuda"}
        ),
    )
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setattr(timing, "torch_device", lambda device: "cuda")
    seen = []
    monkeypatch.setattr(timing, "numpy_step", lambda *a: lambda: seen.append(kernels.launches(standin.LIBRARY)))
    monkeypatch.setattr(timing, "kernels_in", lambda step, xp: next(counts))
    figures = {}
    assert timing.launches(figures, Size(1, 20, 1, 1), "gpu") == []
    assert [(row["kernels"], row["per step"]) for row in figures["rows"]] == [("fused", 3), ("plain", 9)] * 3
    assert [row["model"] for row in figures["rows"][::2]] == list(timing.PEERS)
    assert seen == ([True] * 2 + [False] * 2) * 3
    monkeypatch.setattr(timing, "kernels_in", lambda step, xp: 0)
    figures = {}
    assert timing.launches(figures, Size(1, 20, 1, 1), "gpu") == []
    assert figures == {"rows": [], "not_counted": "PyTorch's profiler sees 0 of 10 kernels that CuPy launches"}


def test_kernels_are_read_from_a_trace(imaginary, monkeypatch):
    """Events of the category kernel; copies and host calls are none."""
    torch = pytest.importorskip("torch")
    events = [{"cat": "kernel"}, {"cat": "gpu_memcpy"}, {"cat": "cuda_runtime"}, {"ph": "X"}, {"cat": "kernel"}]

    class Profile:
        def __init__(self, activities):
            assert activities == [torch.profiler.ProfilerActivity.CUDA]

        def __enter__(self):
            return self

        def __exit__(self, *exception):
            return None

        def export_chrome_trace(self, path):
            with open(path, "w") as stream:
                json.dump({"traceEvents": events}, stream)

    monkeypatch.setattr(torch.profiler, "profile", Profile)
    assert timing.kernels_in(lambda: None, imaginary) == 2
