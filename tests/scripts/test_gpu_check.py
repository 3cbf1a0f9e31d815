"""gpu_check at tiny sizes: of the host beside itself, of the device where there is one, and of a made-up runtime."""

import json
import sys
import types
from dataclasses import replace

import numpy as np
import pytest

from ortho_ref import backend, fused, models
from ortho_ref.cells import CELLS, LSTM
from ortho_ref.cells.by_name import name_of
from ortho_ref.parametrizations import Exponential, ScaledCayley
from ortho_ref.training.optimizers import Adam
from scripts import gpu_check
from scripts.gpu import sections, timing
from scripts.gpu.sections import TRAINED, Settings
from scripts.maintain.timing import steps
from scripts.maintain.timing.rounds import synchronizer, time_interleaved
from scripts.maintain.timing.steps import SIZES, Size
from tests.device import Foreign
from tests.line import CHILD, PATIENCE, limits_begin_at
from tests.scripts.runs import call, refusal


@pytest.fixture
def tiny(tmp_path):
    """Settings of seconds, on the host."""
    return Settings(
        out=tmp_path,
        device="cpu",
        suite=("tests/ortho_ref/test_layers.py",),
        suite_seconds=PATIENCE,
        suite_processes=1,
        names=("nc-gru", "lstm", "urnn"),
        size=Size(2, 4, 3, 8),
        updates=3,
        trained=("gru",),
        map_sizes=(6,),
        map_updates=3,
        task_seconds=0,
        task_steps=36,
        task_options={"hidden": 8, "length": 12, "batch": 4},
        timing_sizes={"one": Size(2, 3, 2, 4)},
        form_sizes={},
        rounds=2,
        timing_seconds=0,
    )


@pytest.fixture
def on_device(tiny, gpu):
    return replace(tiny, device=gpu)


def is_there(array):
    return backend.is_array(array) and backend.library_of(array).device == "gpu"


def report_in(folder):
    """The JSON, strictly read."""
    text = (folder / "gpu-check.json").read_text()
    return json.loads(text, parse_constant=lambda constant: pytest.fail(f"JSON has {constant}"))


def failures(section, own, figures=None):
    return getattr(sections, section)(own, {} if figures is None else figures)


def test_every_section(tiny):
    """All eight in order, of the host beside itself: nothing failed; the page has what the JSON has."""
    report = gpu_check.report_of(tiny)
    assert report_in(tiny.out) == json.loads(json.dumps(report))
    assert (report["complete"], report["failed"], report["not_begun"]) == (True, [], [])
    assert list(report["sections"]) == list(gpu_check.SECTIONS)
    figures = {name: section["figures"] for name, section in report["sections"].items()}
    assert figures["versions"]["numpy"] == np.__version__
    assert figures["suite"]["tests"] > 5
    assert [row["model"] for row in figures["agreement"]["rows"]] == list(tiny.names)
    assert all(row["states, float64"] == row["gradients, float32"] == 0 for row in figures["agreement"]["rows"])
    assert len(figures["maps"]["rows"]) == 6
    own = ["parenthesis", "denoise", "adding", "copying", "shortest-path"]
    assert [row["task"] for row in figures["tasks"]["rows"]] == own
    assert [row["model"] for row in figures["timings"]["rows"]] == ["nc-gru", "gru", "lstm"]
    assert all(row["ours, ms"] > 0 for row in figures["timings"]["rows"])
    assert figures["persistent"] == {"not_run": "device 'cpu' has no persistent kernels"}
    page = (tiny.out / "gpu-check.md").read_text()
    assert page.startswith("# gpu_check on cpu: complete, 0 failed\n")
    assert all(f"\n## {name} (" in page for name in figures)
    assert not list(tiny.out.glob("*.part"))


def test_what_is_measured_on_a_device(tmp_path):
    """The papers' six sizes; of each cell a model, with an orthogonal weight if there is one; what --scale shrinks."""
    own = Settings(out=tmp_path)
    assert (own.timing_sizes, own.names, own.suite_seconds) == (SIZES, tuple(models.names()), 240)
    assert own.seconds < 660
    half = own.scaled(0.5)
    assert (half.updates, half.map_updates, half.task_seconds, half.rounds) == (50, 25, own.task_seconds / 2, 2)
    assert (half.suite_seconds, half.timing_sizes) == (240, SIZES)
    assert own.small().task_options == {"hidden": 12, "length": 12, "batch": 8}
    every = {name: models.build(name, 4, 4) for name in models.names()}
    assert {(name_of(layer.cell), layer.cell.complex) for layer in every.values()} == set(TRAINED)
    assert {cell for cell, _ in TRAINED} == set(CELLS)
    assert [name for name in TRAINED.values() if not every[name].constrained] == ["lstm"]


def test_a_section_that_fails_is_recorded_and_the_rest_go_on(tiny, monkeypatch):
    """Its exception on one line, its figures so far kept; what a kill leaves after each section can be read."""
    seen = []

    def broken(own, figures):
        figures["begun"] = float("nan")
        seen.extend([report_in(own.out), (own.out / "gpu-check.md").read_text()])
        raise RuntimeError("cudaErrorIllegalAddress:\nan illegal memory access")

    monkeypatch.setitem(gpu_check.SECTIONS, "agreement", broken)
    report = gpu_check.report_of(tiny, ("versions", "agreement", "maps"))
    told = "RuntimeError: cudaErrorIllegalAddress: an illegal memory access"
    assert report["failed"] == [{"section": "agreement", "error": told}]
    assert report["sections"]["maps"]["figures"]["rows"]
    assert report_in(tiny.out)["sections"]["agreement"]["figures"] == {"begun": "nan"}
    page = (tiny.out / "gpu-check.md").read_text()
    assert page.startswith("# gpu_check on cpu: complete, 1 failed\n\n* FAILED agreement: RuntimeError: cuda")
    before, page = seen
    assert (before["complete"], before["running"], before["not_begun"]) == (False, "agreement", ["maps"])
    assert before["sections"]["versions"]["figures"]["numpy"] == np.__version__
    assert "NOT COMPLETE" in page
    assert "* not finished: agreement\n* not begun: maps\n" in page
    report = gpu_check.report_of(replace(tiny, seconds=0), ("versions",))
    assert report["failed"] == [{"section": "versions", "error": "TimeoutError: not begun: 0 s were over"}]


# What each section must see


def test_agreement_sees_what_is_wrong_on_the_device_alone(on_device, monkeypatch):
    """A gradient off by 1e-8, steps off by 1e-3 of themselves: the model is named; one that cannot run is named too."""
    own = replace(on_device, names=("lstm", "none"), updates=20)
    assert [message.split(": ")[0] for message in failures("agreement", own)] == ["none, float64", "none, float32"]
    lstm = fused.form_of(LSTM())
    backward, delta = lstm.unroll_back, Adam.delta

    def wrong(cell, *arguments):
        gradients = backward(cell, *arguments)
        name = next(iter(gradients.weights))
        gradients.weights[name] = gradients.weights[name] * (1 + 1e-8 * is_there(gradients.weights[name]))
        return gradients

    monkeypatch.setattr(lstm, "unroll_back", wrong)
    monkeypatch.setattr(Adam, "delta", lambda self, *given: delta(self, *given) * (1 + 1e-3 * is_there(given[2])))
    first, *_, by_fused, by_persistent = failures("agreement", own)
    assert first.startswith("lstm, float64: ")
    assert by_fused.startswith("gru, fused: after 20 updates the parameters differ by ")
    assert by_persistent.startswith("gru, persistent: after 20 updates the parameters differ by ")


@pytest.mark.parametrize(("kind", "name"), [(ScaledCayley, "Cayley, exact"), (Exponential, "exponential")])
def test_maps_see_a_wrong_value_and_a_defect(on_device, monkeypatch, kind, name):
    """U off by 1e-8 on the device: value and defect of float64, of that map alone."""
    rebuild = kind.rebuild

    def wrong(self, params, buffers):
        buffers = rebuild(self, params, buffers)
        return {**buffers, "U": buffers["U"] * (1 + 1e-8 * is_there(params["A"]))}

    monkeypatch.setattr(kind, "rebuild", wrong)
    messages = failures("maps", on_device)
    assert {message.split(", n = ")[0] for message in messages} == {name}
    assert any(": value is 1.0e-08; allowed: 1.0e-10" in message for message in messages)
    assert any(": defect after is 2.0e-08; allowed: " in message for message in messages)


def test_tasks_see_a_loss_that_does_not_fall_and_an_error(tiny, monkeypatch):
    """A rate that overflows; a task that is none; a loss that stays; each for itself."""
    own = replace(tiny, tasks=("parenthesis", "none"), task_options=tiny.task_options | {"lr": 1e30})
    figures = {}
    overflows, none = failures("tasks", own, figures)
    assert overflows.startswith("parenthesis, fused: FloatingPointError: iteration 1: layer0.U_c: ")
    assert none.startswith("none, fused: ValueError: task is 'none'; allowed: 'parenthesis', ")
    assert figures == {"rows": []}
    records = [{"loss": 1.0, "steps_per_second": 1.0, "iteration": i} for i in range(8)]
    monkeypatch.setattr(sections, "_run", lambda *given: (records, 1.0))
    (message,) = failures("tasks", replace(tiny, tasks=("adding",)))
    assert message.startswith("adding, fused: the loss does not fall: ")


@pytest.fixture
def other_suite(tmp_path, monkeypatch):
    """A checkout of three tests, one of which fails, and a file that cannot be collected."""
    (tmp_path / "conftest.py").write_text("def pytest_addoption(parser):\n    parser.addoption('--device')\n")
    (tmp_path / "test_a.py").write_text(
        "def test_1(): pass\ndef test_2(): pass\ndef test_wrong(): assert 1 == 2, 'here'\n"
    )
    (tmp_path / "test_broken.py").write_text("import nothing_of_this_name\n")
    monkeypatch.setattr(sections, "ROOT", tmp_path)


@pytest.mark.parametrize("processes", [1, 2])
def test_suite_counts_and_names_failures(tiny, other_suite, processes):
    """One test that fails and one file that cannot be collected: both are named, the rest is counted."""
    if processes > 1:
        pytest.importorskip("xdist")
    figures = {}
    messages = failures("suite", replace(tiny, suite=(), suite_processes=processes), figures)
    counted = [figures[key] for key in ("tests", "failures", "errors", "skipped", "processes")]
    assert counted == [4, 1, 1, 0, processes]
    wrong, broken = sorted(messages, key=lambda message: "test_broken" in message)
    assert wrong.startswith("test_a::test_wrong: AssertionError: here")
    assert "test_broken: " in broken
    (message,) = failures("suite", replace(tiny, suite=("--deselect=test_a.py", "test_a.py")))  # none is left
    assert message.startswith("pytest ended with 5: ")


@pytest.mark.parametrize("section", ["suite", "warm_up"])
def test_suite_is_stopped_after_its_time(tiny, other_suite, tmp_path, line, monkeypatch, section):
    """Killed with all it started; what passed until then is counted from the log."""
    (tmp_path / "conftest.py").write_text(f"{line.source}{CHILD}line.send(b'loading')\nhold()\n")
    limits_begin_at(monkeypatch, lambda: line.hears("loading"))
    (message,) = failures(section, replace(tiny, suite=(), suite_seconds=0.1, warm_up_seconds=0.1))
    assert message.startswith("stopped after 0.1 s")
    assert section == "warm_up" or "; 0 passed, 0 failed until then; " in message
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


# The command


def test_without_a_gpu(tmp_path, monkeypatch):
    """One line, exit code 2, and no file."""
    monkeypatch.setitem(sys.modules, "cupy", None)
    monkeypatch.delitem(backend._LOADED, "cupy", raising=False)
    for arguments, message in (
        ([], "error: device 'gpu' needs CuPy: pip install"),
        (["--device", "cpu"], "error: device is 'cpu'; allowed: 'gpu', which is compared with the host"),
        (["--device", "tpu"], "error: device is 'tpu'; allowed: "),
        (["--only", "maps", "--only", "all"], "error: only is 'all'; allowed: versions, warm-up, suite, agreement"),
        (["--scale", "0"], "error: scale is 0.0; allowed: "),
    ):
        assert refusal(gpu_check.main, "--out", tmp_path / "a", *arguments).startswith(message)
    assert not (tmp_path / "a").exists()


def test_exit_codes(imaginary, tmp_path, monkeypatch):
    """0 where nothing failed, 1 where something did, which is listed last."""
    monkeypatch.setattr(gpu_check, "SECTIONS", {"versions": sections.versions})
    code, _, stderr = call(gpu_check.main, "--out", tmp_path / "a")
    assert code == 0, stderr
    assert stderr.endswith(f"0 failed; {tmp_path / 'a' / 'gpu-check.md'}\n")
    monkeypatch.setitem(gpu_check.SECTIONS, "other", lambda own, figures: ["two is three"])
    code, _, stderr = call(gpu_check.main, "--out", tmp_path / "a")
    assert code == 1
    assert "failed: other: two is three\n1 failed; " in stderr


# With a runtime that is made up


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
    library = backend.ArrayLibrary("gpu", xp, None, lambda a: a.view(Foreign), lambda a: a.view(np.ndarray))
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
    monkeypatch.setattr(imaginary.cuda.runtime, "memGetInfo", lambda: 1 // 0)
    (failed,) = gpu_check.report_of(replace(tiny, device="gpu"), ("versions",))["failed"]
    assert failed["error"].startswith("memory_free_and_total: ZeroDivisionError: ")


def test_the_device_is_waited_for_before_a_clock_is_read(imaginary, monkeypatch):
    """benchmark's rounds: once before and once after each timed turn, by the runtime; on the host not at all."""
    calls = []
    monkeypatch.setattr(imaginary.cuda.runtime, "deviceSynchronize", lambda: calls.append("wait"))
    time_interleaved({"a": lambda: calls.append("step")}, 2, 0, synchronizer("gpu"))
    turn = ["step", "step", "wait", "step", "wait"]
    assert calls == ["step", "wait", "step", "wait", *turn, *turn]
    calls.clear()
    synchronizer("cpu")()
    assert calls == []


def test_times_are_between_events(imaginary):
    """The warm-up before the first event and the wait after the last are not in it."""
    taken = iter([100])

    def step():
        Event.clock += next(taken, 3)  # the first compiles

    assert timing.milliseconds(step, 4, "gpu") == 3
    times = timing.interleaved({"a": step, "b": lambda: [step(), step()]}, 3, 0.1, "gpu")
    assert times == {"a": [3, 3, 3], "b": [6, 6, 6]}


def test_timings_go_on_after_a_size_that_fails(tiny, monkeypatch):
    """As one that does not fit in memory; medians and ratios are those of the rounds; without PyTorch no ratios."""

    def problem(size, model):
        if size.hidden == 5:
            raise MemoryError("Out of memory allocating 8 bytes")
        return steps.problem(size, model)

    taken = {"ours": [1.0, 2.0, 9.0], "torch": [3.0, 8.0, 9.0]}
    monkeypatch.setattr(timing, "interleaved", lambda steps, *_: {name: taken[name.split()[-1]] for name in steps})
    monkeypatch.setattr(timing, "torch_device", lambda device: "cpu")
    monkeypatch.setattr(timing, "torch_step", lambda *arguments: None)
    monkeypatch.setattr(timing, "plain_float32", lambda: "off")  # needs PyTorch
    monkeypatch.setattr(timing, "problem", problem)
    figures, own = {}, replace(tiny, timing_sizes={"big": Size(1, 1, 1, 5), "small": Size(1, 1, 1, 4)})
    assert timing.timings(own, figures) == ["big: MemoryError: Out of memory allocating 8 bytes"]
    assert [row["model"] for row in figures["rows"]] == list(timing.PEERS)
    row = figures["rows"][0]
    assert (row["size"], row["ours, ms"], row["torch, ms"], row["torch / ours"]) == ("small", 2, 8, 3)
    monkeypatch.setattr(timing, "torch_device", lambda device: None)
    figures = {}
    assert len(timing.timings(own, figures)) == 1
    assert figures["torch"] == "not installed, or it finds no GPU: no ratios"
    assert "torch, ms" not in figures["rows"][0]
