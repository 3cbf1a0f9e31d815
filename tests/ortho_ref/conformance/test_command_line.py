"""python -m ortho_ref.conformance: its commands, and what it says to bad arguments."""

import json
import os
import shlex
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import ortho_ref
from ortho_ref.conformance.__main__ import described, main
from ortho_ref.conformance.cases.case_files import select
from ortho_ref.conformance.report import PASSED, Report, Result
from tests.line import CHILD, PATIENCE
from tests.ortho_ref.conformance.adapters import BY_ID
from tests.streams import FULL, NO_STDERR, harmless

ROOT = Path(__file__).parents[3]
ADAPTER = """
from tests.ortho_ref.conformance.adapters import right
def run(case):
    if case.kind == "loss":
        found = right(case)
        return {"loss": found["loss"]} if case.config["masked"] else found
    if case.id == "optimizer/sgd":
        return {name: -array for name, array in right(case).items()}
    return None
"""


@pytest.fixture
def adapter(tmp_path):
    """An adapter that passes losses without a mask, gives half of those with one, and fails optimizer/sgd."""
    path = tmp_path / "mine.py"
    path.write_text(ADAPTER)
    yield str(path)
    sys.modules.pop("mine", None)
    sys.path[:] = [folder for folder in sys.path if folder != str(tmp_path)]


@pytest.fixture
def call(capsys):
    """Exit code, stdout and stderr of a command line."""

    def of(*arguments):
        try:
            code = main([*map(str, arguments)])
        except SystemExit as end:
            code = end.code
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return of


def statuses(out):
    """Case -> status, from the table; and the summary.  What was found is between the two."""
    lines = out.rstrip("\n").split("\n")
    rows, summary = lines[: lines.index("")], lines[-1]
    return {row.split()[0]: row.split()[1] for row in rows}, summary


def test_check_is_run_of_an_adapter(adapter, call):
    """To the same report; a program is given to `run` alone."""
    only = ("--only", "loss/*", "--in-process")
    assert call("check", adapter, *only) == call("run", "--adapter", adapter, *only)
    code, _, err = call("check", "--command", "mine {input} {output}")
    assert (code, err.splitlines()[0].startswith("error: there is no option --command")) == (2, True)


def test_run(call, adapter):
    """Everything: a row for each case that is supported, the others by kind, and 1 because one failed."""
    code, out, err = call("run", "--adapter", adapter)
    found, summary = statuses(out)
    supported = [id for id, vector in BY_ID.items() if vector.case.kind == "loss" or id == "optimizer/sgd"]
    assert (code, err, list(found)) == (1, "", supported)
    assert [found[id] for id in ("optimizer/sgd", "loss/cross_entropy", "loss/cross_entropy/masked")] == [
        *("failed", "passed", "partial")
    ]
    kinds = Counter(vector.case.kind for id, vector in BY_ID.items() if id not in supported)
    left = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
    assert f", {len(BY_ID) - len(supported)} unsupported; float64, ortho_ref {ortho_ref.__version__}." in summary
    assert f". Unsupported: {left}." in summary
    assert " 2 of 4 cases of loss/cross_entropy; " in summary


@pytest.mark.parametrize(
    ("only", "code", "allowed"),
    [("loss/cross_entropy/large", 0, 0), ("loss/*", 1, 0), ("optimizer/*", 1, 1), ("cell", 1, 1)],
)
def test_exit_codes_of_run(call, adapter, only, code, allowed):
    found, out, _ = call("run", "--adapter", adapter, "--only", only, "--in-process")
    assert found == code
    supported = [vector.id for vector in select(only) if vector.case.kind == "loss" or vector.id == "optimizer/sgd"]
    every = [vector.id for vector in select(only)]
    assert list(statuses(out)[0]) == (supported if len(every) - len(supported) > 10 else every)
    assert call("run", "--adapter", adapter, "--only", only, "--in-process", "--allow-partial")[0] == allowed


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_run_writes_a_report(call, adapter, tmp_path, dtype):
    """Over an older one; it has what the table has."""
    path = tmp_path / "out.json"
    path.write_text("older " * 10_000)
    code, out, _ = call(
        "run", "--adapter", adapter, "--only", "loss/*", "--dtype", dtype, "--report", path, "--in-process"
    )
    document = json.loads(path.read_text())
    assert {case["id"]: case["status"] for case in document["cases"]} == statuses(out)[0]
    assert (document["dtype"], document["ok"], code) == (dtype, False, 1)
    limits = {c["tolerance"] for case in document["cases"] for c in case["outputs"].values()}
    assert limits == {1e-9 if dtype == "float64" else 5e-5}


def test_run_of_a_command(call, tmp_path, line):
    """Its time limit is --timeout."""
    program = tmp_path / "mine.py"
    words = f"{sys.executable} -S {shlex.quote(str(program))} {{input}} {{output}}"
    program.write_text("import sys\nsys.exit(77)\n")
    code, out, _ = call("run", "--command", words, "--only", "cell/lstm/step", "--timeout", PATIENCE)
    assert (code, statuses(out)[0]) == (1, {"cell/lstm/step": "unsupported"})
    program.write_text(f"{line.source}hold()\n")
    code, out, _ = call("run", "--command", words, "--only", "cell/lstm/step", "--timeout", "0.1")
    assert (code, statuses(out)[0]) == (1, {"cell/lstm/step": "failed"})
    assert "did not end within 0.1 seconds" in out


def test_list(call):
    """A line for each case: its name and what it is there for."""
    code, out, err = call("list")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert [tuple(line.split(maxsplit=1)) for line in lines] == [(v.id, v.why) for v in select()]
    assert len({line.index(v.why, len(v.id)) for line, v in zip(lines, select(), strict=True)}) == 1
    _, out, _ = call("list", "--only", "loss/*")
    assert [line.split()[0] for line in out.splitlines()] == [v.id for v in select("loss/*")]


def test_show(call):
    """Everything there is to say of a case; of it alone, though its name begin others'."""
    for id, vector in BY_ID.items():
        out = "".join(f"{line}\n" for line in described(vector))
        assert out.startswith(f"{id}\n")
        assert f"  why        {vector.why}\n" in out
        assert json.dumps(vector.case.config) in out
        for name, array in (vector.case.inputs | vector.expected).items():
            assert f" {name} {array.dtype} {array.shape}\n" in out
        for word in (*vector.equations, *vector.kills, vector.confirmed["route"]):
            assert word in out
        if id in ("cell/lstm", "loss/cross_entropy/large"):
            assert call("show", id) == (0, out, "")


def test_export_and_version(call, tmp_path):
    code, out, err = call("export", tmp_path / "new" / "folder", "--only", "loss/*", "--dtype", "float32")
    assert (code, out, err) == (0, "", f"{len(select('loss/*'))} cases in {tmp_path / 'new' / 'folder'}\n")
    manifest = json.loads((tmp_path / "new" / "folder" / "manifest.json").read_text())
    assert [case["id"] for case in manifest["cases"]] == [v.id for v in select("loss/*")]
    assert manifest["dtype"] == "float32"
    assert call("--version") == (0, f"ortho_ref {ortho_ref.__version__}\n", "")


BAD = {
    "run --adapter no-such-file.py": "adapter is no-such-file.py, which cannot be loaded",
    "run --in-process --adapter no.such.module": "adapter is no.such.module, which cannot be loaded",
    "run --in-process --adapter {folder}": "is a folder; expected a file in it, FILE.py",
    "run --in-process --adapter README.md": "raised ValueError: README.md is a file whose name does not end in .py",
    "run --in-process --adapter {empty}": "which has no function run(case)",
    "run --in-process --adapter {broken}": "ZeroDivisionError",
    "run --adapter {mine} --report {folder}/missing/out.json": "--report is",
    "run --adapter {mine} --report {folder} --only loss": "directory",
    "run --command 'true {input}'": "it has to name {output}",
    "run --command ''": "it has to name {input}",
    "run --adapter {mine} --only loss --only nothing": "only is 'nothing', which fits no case",
    "run --command '/no/such {input} {output}'": "it begins with /no/such, and there is no such program",
    "run --command '{mine} {input} {output}'": "mine.py, which is not executable",
    "run --command '{folder} {input} {output}'": ", and there is no such program",
    "run --command 'true {input} {output}' --timeout 0": "timeout is 0.0; allowed: seconds above 0, at most 86,400",
    "run --command 'true {input} {output}' --timeout nan": "timeout is nan; allowed: ",
    "run --command 'true {input} {output}' --timeout 86401": "timeout is 86401.0; allowed: ",
    "run --adapter {mine} --dtype float16": "--dtype float16 is of forward passes; give --forward too",
    "run --adapter {mine} --in-process --timeout 5": "--in-process has no limit; leave out --timeout",
    "run --command 'true {input} {output}' --in-process": "--in-process is of --adapter; a program has its own process",
    "run --adapter {exits}": "exits.py, which cannot be loaded: its process ended with exit code 0 without an answer",
    "run --command 'true \"{input} {output}'": "No closing quotation",
    "run --adapter {mine} --baseline {mine}": "mine.py is damaged: ",
    "badge {mine} {folder}/new": "mine.py is damaged: ",
    "badge {folder}/none {folder}/new": "none cannot be read",
    "list --only cell/lstmm": "only is 'cell/lstmm' (did you mean 'cell/lstm'?), which fits no case; ",
    "run --adapter {mine} --only cell/gru_rest_after": "'cell/gru_rest_after' (did you mean 'cell/gru_reset_after'?)",
    "run --adaptr x": "there is no option --adaptr (did you mean '--adapter'?); python -m ortho_ref.conformance run --",
    "run --adapter {mine} --nothing-like-it": "there is no option --nothing-like-it; python -m",
    "run --adapter {mine} --dtype float46": "dtype is 'float46' (did you mean 'float64'?); allowed: float64, float32, ",
    "run --adapter {mine} --timeout soon": "timeout is 'soon'; allowed: a number; ",
    "--vrsion": "there is no option --vrsion (did you mean '--version'?); python -m ortho_ref.conformance --help",
    "lst": "command is 'lst' (did you mean 'list'?); allowed: check, run, map, new, list, ",
    "new --torch gruu": "--torch: cell is 'gruu' (did you mean 'gru'?); allowed: elman, ",
    "new --jax gruu": "--jax: cell is 'gruu' (did you mean 'gru'?); allowed: elman, ",
    "map --adapter {mine} --tolerancee 1": "there is no option --tolerancee (did you mean '--tolerance'?); ",
    "show cell/gru_rest_after/tanh": "case is 'cell/gru_rest_after/tanh' (did you mean 'cell/gru_reset_after/tanh'?), ",
    "show cell/gru": "case is 'cell/gru' (did you mean 'cell/gru_reset_before/tanh'?), which is no case",
    "show nothing": "case is 'nothing', which is no case; `python -m ortho_ref.conformance list` has their names",
    "show 'loss/*'": "case is 'loss/*', which is no case",
    "export {folder}": "which is not empty; choose another",
    "export {mine}": "File exists",
    "export {folder}/new --only loss --only nothing": "only is 'nothing', which fits no case",
}


@pytest.mark.parametrize("line", BAD)
def test_bad_arguments(call, adapter, tmp_path, line):
    """One line on stderr and exit code 2; nothing on stdout, and no file."""
    for name, source in (("empty", ""), ("broken", "1 / 0"), ("exits", "import os; os._exit(0)")):
        (tmp_path / f"{name}.py").write_text(source)
    before = sorted(tmp_path.iterdir())
    filled = line.replace("{folder}", str(tmp_path))
    for name in ("mine", "empty", "broken", "exits"):
        filled = filled.replace(f"{{{name}}}", str(tmp_path / f"{name}.py"))
    code, out, err = call(*shlex.split(filled))
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert BAD[line] in err
    assert err.count("\n") == 1
    assert sorted(path for path in tmp_path.iterdir() if path.name != "__pycache__") == before


REFUSED = """
run
run --adapter a.py --command 'b {input} {output}'
run --adapter a.py --adap b.py
run --adapter
show
export a --dtype double
list extra
badge a
run --adapter a.py --unknown
run --adapter a --adapter a          --adapter is given twice
run --adapter a --timeout 1 --timeout 1          --timeout is given twice
new --torch gru --out a --out a          --out is given twice
export a --dtype float32 --dtype float32          --dtype is given twice
badge a b --label a --label a          --label is given twice"""


@pytest.mark.parametrize("row", REFUSED.split("\n"))
def test_arguments_that_argparse_refuses(call, row):
    """Also an option that is given twice where it has a default: the first value would be forgotten."""
    line, _, says = row.partition("          ")
    code, out, err = call(*shlex.split(line))
    assert (code, out) == (2, "")
    assert err.startswith(f"error: {says}")
    assert err.endswith(" --help says what is allowed\n")
    assert err.count("\n") == 1


def test_progress_on_a_terminal_alone(call, adapter, monkeypatch):
    """A line that is written over, on stderr."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    _, out, err = call("run", "--adapter", adapter, "--only", "optimizer/sgd", "--in-process")
    ids = [vector.id for vector in select("optimizer/sgd")]
    for number, id in enumerate(ids, 1):
        assert f"{number} of 3  {id}" in err
    assert "\n" not in err
    assert err.endswith("\r\x1b[K")
    assert list(statuses(out)[0]) == ids


ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
ENVIRONMENT["PYTHONPATH"] = str(ROOT)


def in_shell(line, *arguments):
    """A line of bash in which KIT is the kit with these arguments."""
    kit = shlex.join([sys.executable, "-W", "error", "-m", "ortho_ref.conformance", *map(str, arguments)])
    words = ["bash", "-c", line.replace("KIT", kit)]
    return subprocess.run(words, capture_output=True, text=True, check=False, env=ENVIRONMENT)


@pytest.mark.parametrize(
    ("line", "code", "says"),
    [
        ("run --adapter mine --only loss/cross*/large", 0, ""),
        ("run --adapter mine --only optimizer/sgd --in-process", 1, ""),
        ("show nothing", 2, "error: "),
    ],
)
def test_as_a_program(adapter, tmp_path, line, code, says):
    """Exit codes reach the shell; the working folder's modules are found."""
    result = in_shell(f"cd {shlex.quote(str(tmp_path))} && KIT", *line.split())
    assert (result.returncode, result.stderr.count("\n")) == (code, bool(says))
    assert result.stderr.startswith(says)
    if code == 0:
        assert statuses(result.stdout)[0] == {"loss/cross_entropy/large": "passed"}


def test_the_kit_is_loaded_without_mistakes_or_models():
    """Importing it is quick: what only a failing case needs is loaded then."""
    code = "import sys, ortho_ref.conformance; print([m for m in sys.modules if m.endswith(('mistakes', 'models'))])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=ENVIRONMENT)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(("arguments", "reader"), [("list", "head -1"), ("show cell/lstm", "true")])
def test_a_reader_that_stops(tmp_path, arguments, reader):
    """`list | head -1`, and one that reads nothing: quietly, whether what is printed is more than a buffer or less."""
    errors = tmp_path / "errors"
    line = f"{{ KIT 2>{shlex.quote(str(errors))}; echo $? >&2; }} | {{ {reader}; }}"
    result = in_shell(line, *arguments.split())
    assert (result.returncode, result.stderr, errors.read_text()) == (0, "0\n", "")
    assert result.stdout.count("\n") == (reader == "head -1")


def test_a_reader_that_stops_makes_no_pass(adapter, tmp_path):
    """`run | head` has run's exit code, and the report is written."""
    path = tmp_path / "out.json"
    arguments = ["run", "--adapter", adapter, "--in-process", "--report", path, "--only", "optimizer"]
    result = in_shell("{ KIT; echo $? >&2; } | true", *arguments)
    assert (result.stdout, result.stderr) == ("", "1\n")
    document = json.loads(path.read_text())
    assert document["ok"] is False
    assert [case["id"] for case in document["cases"]] == [v.id for v in select("optimizer")]


def test_a_baseline_and_a_badge(call, adapter, tmp_path):
    """What passed before has to pass: a line below the table, and exit code 1."""
    report, shield = tmp_path / "out.json", tmp_path / "badge.json"
    own = ["run", "--adapter", adapter, "--only", "loss/cross*/large", "--in-process"]
    assert call(*own, "--report", report)[0] == 0
    assert call(*own, "--baseline", report)[0] == 0
    assert call("badge", report, shield, "--label", "mine") == (0, "", "")
    assert json.loads(shield.read_text())["message"] == "1 of 4 cases"
    Path(adapter).write_text("def run(case):\n    return None\n")
    code, out, err = call(*own, "--baseline", report)
    assert (code, err) == (1, "")
    assert "worse than the baseline: loss/cross_entropy/large passed there and is unsupported" in out.splitlines()


# An end by signal

HANGS = f"""
import signal
from pathlib import Path
told = Path(__file__).parent / "told"
count = len(told.read_text().splitlines()) if told.exists() else 0
if count < 2:
    told.write_text("done\\n" * (count + 1))
    raise SystemExit(77)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGINT, signal.SIG_IGN)
%s{CHILD}
line.send(b"ready")
hold()
"""
# In short sleeps: Python looks at a signal between them, at one just before a long wait only after it.
WAITS = """
%simport time
from tests.ortho_ref.conformance.adapters import right
seen = []
def run(case):
    seen.append(case.id)
    if len(set(seen)) == 3:
        try:
            line.send(b"ready")
            while True:
                time.sleep(0.01)
        except Exception:
            pass
        finally:
            line.close()
    return right(case) if len(set(seen)) == 1 else {name: -array for name, array in right(case).items()}
"""


def interrupted(tmp_path, line, number, *arguments):
    """Exit code, stdout, stderr and report of a run that is sent a signal when it says that it is ready; it has no
    temporary folder and no process left."""
    (tmp_path / "tmp").mkdir()
    environment = os.environ | {"PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path / "tmp")}
    command = [sys.executable, "-W", "error", "-m", "ortho_ref.conformance", "run", *arguments]
    command += ["--only", "loss/*", "--report", str(tmp_path / "out.json")]
    # a signal that the shell ignores for what it starts in the background would be ignored by Python too
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    try:
        line.hears("ready")
        process.send_signal(number)
        out, err = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
    assert line.ended()
    assert list((tmp_path / "tmp").iterdir()) == []
    document = json.loads((tmp_path / "out.json").read_text())
    return process.returncode, out, err, document


SIGNALS = {signal.SIGINT: 130, signal.SIGTERM: 143}


@pytest.mark.parametrize(
    ("number", "where", "passing"),
    [
        (signal.SIGINT, [], "len(set(seen)) == 1"),
        (signal.SIGTERM, ["--in-process"], "True"),
    ],
)
def test_an_adapter_that_is_interrupted(tmp_path, line, number, where, passing):
    """What is done is told and written, failed cases too; the exit code says how it ended, never that all passed."""
    (tmp_path / "mine.py").write_text((WAITS % line.source).replace("len(set(seen)) == 1", passing))
    code, out, err, document = interrupted(tmp_path, line, number, "--adapter", str(tmp_path / "mine.py"), *where)
    ids, second = [vector.id for vector in select("loss/*")], "passed" if passing == "True" else "failed"
    assert (code, err) == (SIGNALS[number], f"interrupted after 2 of {len(ids)} cases\n")
    found, summary = statuses(out)
    assert found == dict(zip(ids[:2], ("passed", second), strict=True))
    assert summary.startswith("2 passed, 0 failed" if second == "passed" else "1 passed, 1 failed")
    assert {case["id"]: case["status"] for case in document["cases"]} == found
    assert document["ok"] is False


def test_a_program_that_is_interrupted(tmp_path, line):
    """It and its child are ended, though they hear no signal, and its folder is gone."""
    number = signal.SIGTERM
    (tmp_path / "mine.py").write_text(HANGS % line.source)
    command = f"{sys.executable} -S -E {shlex.quote(str(tmp_path / 'mine.py'))} {{input}} {{output}}"
    code, out, err, document = interrupted(tmp_path, line, number, "--command", command, "--timeout", str(PATIENCE))
    ids = [vector.id for vector in select("loss/*")]
    assert (code, err) == (SIGNALS[number], f"interrupted after 2 of {len(ids)} cases\n")
    assert statuses(out)[0] == dict.fromkeys(ids[:2], "unsupported")
    assert [case["id"] for case in document["cases"]] == ids[:2]


@pytest.mark.parametrize("end", [KeyboardInterrupt, "signal"])
def test_an_interrupt_before_any_case(call, tmp_path, end):
    """In the kit's own process: nothing is done, or said of what is supported, nor is anything worse than before.

    SIGTERM is as it was afterwards.
    """
    before, baseline = signal.getsignal(signal.SIGTERM), tmp_path / "baseline.json"
    baseline.write_text(Report((Result("loss/mean_squared_error", PASSED),), "float64").as_json())
    stop = "raise KeyboardInterrupt" if end is KeyboardInterrupt else "os.kill(os.getpid(), signal.SIGTERM)"
    (tmp_path / "mine.py").write_text(f"import os, signal\ndef run(case):\n    {stop}\n")
    own = ["run", "--adapter", tmp_path / "mine.py", "--only", "loss", "--in-process"]
    code, out, err = call(*own, "--baseline", baseline)
    assert (code, err) == (
        130 if end is KeyboardInterrupt else 143,
        f"interrupted after 0 of {len(select('loss'))} cases\n",
    )
    said = f"0 passed, 0 failed, 0 partial, 0 unsupported; float64, ortho_ref {ortho_ref.__version__}."
    assert out == f"\n{said}\n"
    assert signal.getsignal(signal.SIGTERM) is before


def test_an_interrupt_while_the_adapter_is_loaded(call, tmp_path):
    """Nothing has begun: one line, 130.  In a process of its own it is the adapter's, not the user's."""
    (tmp_path / "mine.py").write_text("raise KeyboardInterrupt\n")
    assert call("run", "--adapter", tmp_path / "mine.py", "--in-process") == (130, "", "interrupted\n")
    code, out, err = call("run", "--adapter", tmp_path / "mine.py")
    assert (code, out) == (2, "")
    assert err.endswith("mine.py, which cannot be loaded: raised KeyboardInterrupt\n")


# Streams that cannot be written, and text that is not to be shown as it is


NOBODY = [
    pytest.param(">&- 2>&-", marks=NO_STDERR),
    *(pytest.param(end, marks=FULL) for end in (">/dev/full", "2>/dev/full")),
]


@pytest.mark.parametrize("end", NOBODY)
def test_nobody_hears_a_run(adapter, tmp_path, end):
    """The report is written and the exit code its own, whatever cannot be said."""
    arguments = ["run", "--adapter", adapter, "--in-process", "--report", tmp_path / "out.json", "--only"]
    only, code = ("loss/cross_entropy/large", 0) if end == "2>/dev/full" else ("optimizer/sgd", 1)
    result = in_shell(f"KIT {end}", *arguments, only)
    lost = "the table cannot be written: No space left on device\n" if end == ">/dev/full" else ""
    assert (result.returncode, result.stderr) == (code, lost)
    assert json.loads((tmp_path / "out.json").read_text())["ok"] is (code == 0)


@FULL
def test_what_is_asked_for_on_a_full_disk():
    """It is not there, which is an error: one line."""
    result = in_shell("KIT >/dev/full", "list", "--only", "loss")
    said = "error: standard output cannot be written: No space left on device\n"
    assert (result.returncode, result.stderr) == (2, said)


@FULL
def test_a_report_that_cannot_be_written(call, adapter, tmp_path):
    """The table is printed, as there is nothing else; then one line, exit code 2.  What is no file is left in place."""
    own = ["run", "--adapter", adapter, "--in-process", "--only"]
    code, out, err = call(*own, "loss/cross_entropy/large", "--report", "/dev/full")
    assert code == 2
    assert statuses(out)[0] == {"loss/cross_entropy/large": "passed"}
    assert err.startswith("error: --report is /dev/full, which cannot be written: ")
    assert err.count("\n") == 1
    assert not Path("/dev/full").is_file()
    (tmp_path / "out.json").symlink_to(tmp_path / "there.json")
    assert call(*own, "optimizer/sgd", "--report", tmp_path / "out.json")[0] == 1
    assert (tmp_path / "out.json").is_symlink()
    assert json.loads((tmp_path / "there.json").read_text())["ok"] is False


SAYS = """
def run(case):
    if case.id == "loss/cross_entropy":
        raise ValueError("\\x1b[2J" + "x" * 1_000_000 + " allowed")
    if case.id == "loss/cross_entropy/large":
        return {"\\x1b[2J" + "y" * 500_000: case.inputs["y"]}
    return type("\\x1b[2J" + "z" * 500_000, (), {})()
"""


def test_a_hostile_adapter(call, tmp_path):
    """A megabyte of exception, long names, escape sequences: a table and a report of some lines."""
    (tmp_path / "mine.py").write_text(SAYS)
    path = tmp_path / "out.json"
    code, out, err = call("run", "--adapter", tmp_path / "mine.py", "--only", "loss", "--report", path)
    assert (code, err) == (1, "")
    assert harmless(out)
    assert len(out) < 20_000
    assert path.stat().st_size < 100_000
    assert "raised ValueError: \\x1b[2Jxxx" in out.splitlines()[0]
    assert " allowed (mine.py:4 in run)" in out.splitlines()[0]
    traced = json.loads(path.read_text())["cases"][0]["traceback"]
    assert traced.startswith("Traceback (most recent call last)")
    assert traced.endswith(" allowed\n")
    # and a program: much on stderr without a line end
    text = "import sys\nsys.stderr.write('\\x1b[2J' + 500_000 * 'x' + '\\x1b[2J')\nsys.exit(1)\n"
    (tmp_path / "mine.py").write_text(text)
    words = f"{sys.executable} -S {shlex.quote(str(tmp_path / 'mine.py'))} {{input}} {{output}}"
    code, out, err = call("run", "--command", words, "--only", "cell/lstm/step", "--timeout", PATIENCE)
    assert (code, err) == (1, "")
    assert harmless(out)
    assert len(out) < 4000
    assert "ended with exit code 1: xxx" in out
    assert "\\x1b[2J" in out
