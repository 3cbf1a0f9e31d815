"""Adapters that crash, hang or write nonsense, each in a process of its own: a failed case that says what happened, and
the others go on.  By the real command line, but where a test says otherwise."""

import contextlib
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ortho_ref.conformance import check
from ortho_ref.conformance.__main__ import main
from ortho_ref.conformance.cases.case_files import select
from ortho_ref.conformance.report import FAILED, PASSED
from ortho_ref.conformance.running.apart import Apart
from tests.line import CHILD, PATIENCE

ROOT = Path(__file__).parents[3]
#: The case on which an adapter does its worst, between two that it answers.
CASE, BEFORE, AFTER = "loss/cross_entropy/large", "loss/cross_entropy/groups", "loss/mean_squared_error/masked"

HEAD = """
import ctypes, io, os, signal, subprocess, sys, threading, time
import numpy as np
from tests.ortho_ref.conformance.adapters import right

def wrong(case):
    return {name: 1.01 * array for name, array in right(case).items()}
"""

# What an adapter does instead of an answer, and what is said of it.
INSTEAD = {
    "os._exit(0)": "ended with exit code 0 without an answer",
    "sys.stderr.write('last words'); sys.stderr.flush(); os._exit(1)": "with exit code 1 without an answer: last words",
    "os.abort()": "was ended by SIGABRT",
    "os.kill(os.getpid(), 9)": "was ended by SIGKILL",
    "signal.raise_signal(signal.SIGTERM)": "was ended by SIGTERM",
    "os.execv('/bin/sh', ['sh', '-c', 'exit 0'])": "ended with exit code 0 without an answer",
    "threading.Thread(target=os._exit, args=(3,)).start(); time.sleep(600)": "ended with exit code 3",
    "os._exit(0) if os.fork() else time.sleep(600)": "ended with exit code 0 without an answer",
    "sys.exit(0)": "raised SystemExit: 0 (mine.py:",
    "raise KeyboardInterrupt": "raised KeyboardInterrupt (mine.py:",
    "raise type('Own', (BaseException,), {})('x')": "raised Own: x (mine.py:",
    "signal.raise_signal(signal.SIGINT)": "raised KeyboardInterrupt (",
    "return []": "returned a list; expected a dict of arrays, or None",
    "open(ANSWER(), 'wb').write(b'nonsense'); time.sleep(600)": "wrote an answer that is not safetensors: ",
    "from safetensors.numpy import save_file; save_file({'loss': np.ones(())}, ANSWER()); time.sleep(600)": "wrote an ",
}
# Where the kit looks for an answer, for an adapter that writes one itself.
FORGING = """
def ANSWER():
    (case,) = sorted(n for n in os.listdir(sys.argv[2]) if n.endswith(".case"))[-1:]
    return os.path.join(sys.argv[2], case.replace(".case", ".answer"))
"""


def adapter_of(folder, act, then="return right(case)", head=""):
    """A file whose adapter does this on `CASE`, and is right on the others."""
    path = folder / "mine.py"
    path.write_text(
        f"{HEAD}{FORGING}{head}\ndef run(case):\n    if case.id == {CASE!r}:\n        {act}\n        {then}\n"
        "    return right(case)\n"
    )
    return path


def results_of(path, *more, timeout=PATIENCE):
    """Case -> its entry in the report of a run of the three cases, by the command line; 1 if one failed."""
    report = path.with_name("out.json")
    words = ["run", "--adapter", str(path), "--report", str(report), *more]
    words += [word for id in (BEFORE, CASE, AFTER) for word in ("--only", id)]
    words += [] if "--in-process" in more else ["--timeout", str(timeout)]
    with contextlib.redirect_stdout(io.StringIO()) as said, contextlib.redirect_stderr(io.StringIO()) as errors:
        code = main(words)
    out, err = said.getvalue(), errors.getvalue()
    document = json.loads(report.read_text())
    found = {case["id"]: case for case in document["cases"]}
    assert list(found) == [vector.id for vector in select([BEFORE, CASE, AFTER])]
    assert (code, err) == (0 if document["ok"] else 1, "")
    rows, *findings, counts = out.split("\n\n")  # and nothing of what the adapter has written
    assert [row.split()[0] for row in rows.split("\n")] == list(found)
    assert len(findings) == any(case["diagnosis"] for case in found.values())
    assert counts.count("\n") == 1
    return found


def one_failed(found):
    """What is said of `CASE`, which failed; the others passed."""
    assert {id: case["status"] for id, case in found.items()} == {BEFORE: PASSED, CASE: FAILED, AFTER: PASSED}
    return found[CASE]["message"]


@pytest.mark.parametrize("act", INSTEAD)
def test_what_is_no_answer_fails(tmp_path, act):
    """The reason is said, and the cases after it are run."""
    assert INSTEAD[act] in one_failed(results_of(adapter_of(tmp_path, act)))


@pytest.mark.parametrize(
    ("act", "says"),
    [("case.inputs['y'] += 1", "modified its inputs: y"), ("case.inputs.clear()", "modified its inputs: ")],
)
def test_inputs_are_not_to_be_changed(tmp_path, act, says):
    """The answers are right, and it fails."""
    assert says in one_failed(results_of(adapter_of(tmp_path, f"found = right(case); {act}", "return found")))


ASIDE = [
    "print('x' * 10**7); print('\\x1b[2J'); sys.stderr.write('x' * 10**7); os.write(1, bytes(10**6))",
    "threading.Thread(target=time.sleep, args=(600,)).start(); subprocess.Popen(['sleep', '600'])",
    "import atexit; atexit.register(lambda: os._exit(5)); signal.signal(signal.SIGTERM, signal.SIG_IGN)",
    "sys.stdout = sys.stderr = None",
    "os.chdir('/'); os.environ.clear(); sys.path.clear(); np.seterr(all='raise'); np.abs = lambda *a, **k: np.zeros(1)",
    "import ortho_ref.conformance.compare as c; c.compare = lambda *a: {}; c.tolerance = lambda *a: 1e9",
    "import ortho_ref.conformance.running.runner as c; c.FAILED = c.PASSED; c.check = None",
    "import ortho_ref.conformance.report as c; c.Report.ok = property(lambda self: True)",
]


@pytest.mark.parametrize("act", ASIDE)
def test_what_is_its_own_affair(tmp_path, act):
    """Nothing of it reaches the kit: not what is printed, nor what it makes of the kit's modules in its own process."""
    found = results_of(adapter_of(tmp_path, act))
    assert {case["status"] for case in found.values()} == {PASSED}
    one_failed(results_of(adapter_of(tmp_path, f"found = wrong(case); {act}", "return found")))


def test_a_case_that_hangs(tmp_path, line):
    """It is ended with what it has started, and the next case has a process of its own."""
    path = adapter_of(tmp_path, "hold()", head=line.source + CHILD)
    with Apart(str(path), timeout=0.2) as run:
        (result,) = check(run, CASE).results
        assert (result.status, result.message) == (FAILED, "did not end within 0.2 seconds")
        assert line.ended()
        run.name = str(adapter_of(tmp_path, "pass"))  # which holds no line
        run.timeout = PATIENCE
        assert check(run, AFTER).ok


def test_three_that_hang_are_enough(tmp_path):
    """Of one kind; the others are tried."""
    (tmp_path / "mine.py").write_text("import time\ndef run(case):\n    while True: time.sleep(600)\n")
    with Apart(str(tmp_path / "mine.py"), timeout=0.05) as run:
        said = {result.id: result.message for result in check(run, ["loss", "optimizer/sgd/momentum"]).results}
    hung, not_tried = (
        "did not end within 0.05 seconds",
        "was not tried: 3 of this kind in a row lost the adapter's process",
    )
    assert said.pop("optimizer/sgd/momentum") == hung
    assert list(said.values()) == [hung] * 3 + [not_tried] * (len(select("loss")) - 3)


def test_a_kit_that_is_killed_leaves_nothing(tmp_path, line):
    """Not even where it cannot clean up."""
    (tmp_path / "mine.py").write_text(f"{line.source}\ndef run(case):\n    line.send(b'ready')\n    hold()\n")
    words = [sys.executable, "-m", "ortho_ref.conformance", "run", "--adapter", str(tmp_path / "mine.py")]
    kit = subprocess.Popen([*words, "--only", CASE], env=os.environ | {"PYTHONPATH": str(ROOT)})
    line.hears("ready")
    kit.kill()
    kit.wait()
    assert line.ended()


def test_an_adapter_that_cannot_be_loaded_again(tmp_path):
    """It is said of three cases of a kind; the others of the kind are not tried."""
    (tmp_path / "mine.py").write_text(
        "import os\nfrom pathlib import Path\nonce = Path(__file__).with_name('once')\n"
        "if once.exists(): os._exit(4)\nonce.touch()\ndef run(case): os._exit(0)\n"
    )
    with Apart(str(tmp_path / "mine.py")) as run:
        said = [result.message for result in check(run, "loss").results]
    ended = "ended with exit code 4 without an answer"
    again = f"adapter is {tmp_path}/mine.py, which cannot be loaded: its process {ended}"
    assert said[:3] == ["ended with exit code 0 without an answer", again, again]
    assert set(said[3:]) == {"was not tried: 3 of this kind in a row lost the adapter's process"}


def test_one_process_for_all_cases_and_its_limit(tmp_path):
    """It is loaded once, and asked again and again."""
    (tmp_path / "mine.py").write_text("import os\ndef run(case): raise ValueError(str(os.getpid()))\n")
    with Apart(str(tmp_path / "mine.py")) as run:
        assert len({result.message for result in check(run, "loss").results}) == 1
    for timeout in (0, "5"):
        with pytest.raises(ValueError, match=f"^timeout is {timeout!r}; allowed: seconds above 0"):
            Apart(str(tmp_path / "mine.py"), timeout)


def test_any_numbers_go_over(tmp_path):
    """Of every width, complex ones too, and what is no array in words."""
    source = """
import numpy as np
def run(case):
    loss = {"loss/cross_entropy": np.longdouble(1), "loss/cross_entropy/large": np.complex128(1j)}.get(case.id, "1")
    return {"loss": np.float16(1) if case.id.endswith("/groups") else loss}
"""
    (tmp_path / "mine.py").write_text(source)
    with Apart(str(tmp_path / "mine.py")) as run:
        report = check(run, ["loss/cross_entropy", "loss/mean_squared_error/masked"])
    said = {result.id: str(result.outputs["loss"].remark) for result in report.results}
    assert said["loss/cross_entropy"] == "" or "off" in said["loss/cross_entropy"]
    assert "complex" in said["loss/cross_entropy/large"]
    assert said["loss/mean_squared_error/masked"] == "is a str; expected a NumPy array"


# An adapter that keeps something from one call to the next

KEEPS = {
    "every second is wrong": ("seen.append(1)", "return right(case) if len(seen) % 2 else wrong(case)"),
    "gradients add up": (
        "",
        "total['d'] = total.get('d', 0) + right(case)['d_outputs']; return right(case) | {'d_outputs': total['d']}",
    ),
    "it is random": ("", "return {n: a + np.random.standard_normal(a.shape) for n, a in right(case).items()}"),
}


@pytest.mark.parametrize("which", KEEPS)
@pytest.mark.parametrize("where", [[], ["--in-process"]])
def test_kept_state_fails(tmp_path, which, where):
    act, then = KEEPS[which]
    path = adapter_of(tmp_path, act or "pass", then, head="seen, total = [], {}\n")
    message = one_failed(results_of(path, *where))
    names = "d_outputs" if which == "gradients add up" else "d_outputs, loss"
    assert message.endswith(f"a second run on the same case gave other outputs: {names}; it keeps state, or is random")


@pytest.mark.parametrize(
    ("second", "says"),
    [
        ("raise ValueError('again')", "run a second time on the same case it raised ValueError: again (mine.py:"),
        ("return None", "run a second time on the same case it gave None; it keeps state"),
        ("os._exit(0)", "run a second time on the same case it ended with exit code 0 without an answer"),
        ("return {'loss': right(case)['loss']}", "gave other outputs: d_outputs; it keeps state"),
    ],
)
def test_a_second_run_that_is_none(tmp_path, second, says):
    path = adapter_of(tmp_path, "seen.append(1)", f"if len(seen) > 1: {second}", head="seen = []\n")
    assert says in one_failed(results_of(path))


def test_rounding_that_differs_passes(tmp_path):
    """As of sums in another order; it is said.  Wrong ones that differ by more are state."""
    act = "seen.append(1); return {n: a * (FACTOR + MORE * len(seen)) for n, a in right(case).items()}"
    for factor, more, says in (
        (1, 1e-15, "differs within tolerance"),
        (2, 1e-15, "differs "),
        (2, 1e-3, "gave other "),
    ):
        own = act.replace("FACTOR", str(factor)).replace("MORE", str(more))
        case = results_of(adapter_of(tmp_path, own, head="seen = []\n"))[CASE]
        assert case["status"] == (PASSED if factor == 1 else FAILED)
        assert f"a second run on the same case {says}" in case["message"]
        assert ("keeps state" in case["message"]) == (more == 1e-3)


@pytest.mark.parametrize("where", [[], ["--in-process"]])
def test_a_buffer_that_is_used_again(tmp_path, where):
    """What was in it counts: right outputs pass, wrong ones are named, though the next case has overwritten them."""
    head = """
buffers = {}
def buffered(found):
    for name, array in found.items():
        buffers.setdefault(name, np.empty(10**5))[: array.size] = array.ravel()
    return {name: buffers[name][: array.size].reshape(array.shape) for name, array in found.items()}
"""
    act = "return buffered(right(case) | {'d_outputs': -right(case)['d_outputs']})"
    path = adapter_of(tmp_path, act, head=head)
    path.write_text(path.read_text().replace("    return right(case)\n", "    return buffered(right(case))\n"))
    found = results_of(path, *where)
    assert one_failed(found) == ""
    assert found[CASE]["outputs"]["d_outputs"]["error"] == pytest.approx(2)
    assert "d_outputs: -1 times what is expected" in found[CASE]["diagnosis"]
