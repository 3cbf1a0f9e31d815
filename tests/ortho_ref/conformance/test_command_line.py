"""python -m ortho_ref.conformance: its five commands, and what it says to bad arguments."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

import ortho_ref
from ortho_ref.conformance.__main__ import described, main
from ortho_ref.conformance.case import select
from ortho_ref.conformance.schema import schema
from tests.ortho_ref.conformance.adapters import BY_ID

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
    """Case -> status, from the table; and the summary."""
    *rows, empty, summary = out.rstrip("\n").split("\n")
    assert empty == ""
    return {row.split()[0]: row.split()[1] for row in rows}, summary


def test_run(call, adapter):
    """Everything: a row for each case, and 1 because one failed."""
    code, out, err = call("run", "--adapter", adapter)
    found, summary = statuses(out)
    assert (code, err) == (1, "")
    assert list(found) == list(BY_ID)
    assert found["optimizer/sgd"] == "failed"
    assert found["cell/lstm"] == "unsupported"
    assert found["loss/cross_entropy"] == "passed"
    assert found["loss/cross_entropy/masked"] == "partial"
    assert summary.endswith(f"; float64, ortho_ref {ortho_ref.__version__}.")


@pytest.mark.parametrize(
    ("only", "code", "allowed"),
    [
        ("loss/cross_entropy/large", 0, 0),
        ("loss/*", 1, 0),
        ("optimizer/*", 1, 1),
        ("cell", 1, 1),
        ("loss/cross_entropy/masked", 1, 0),
    ],
)
def test_exit_codes_of_run(call, adapter, only, code, allowed):
    found, out, _ = call("run", "--adapter", adapter, "--only", only)
    assert found == code
    assert list(statuses(out)[0]) == [vector.id for vector in select(only)]
    assert call("run", "--adapter", adapter, "--only", only, "--allow-partial")[0] == allowed


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_run_writes_a_report(call, adapter, tmp_path, dtype):
    """Over an older one; it has what the table has."""
    path = tmp_path / "out.json"
    path.write_text("older " * 10_000)
    code, out, _ = call("run", "--adapter", adapter, "--only", "loss/*", "--dtype", dtype, "--report", path)
    document = json.loads(path.read_text())
    jsonschema.validate(document, schema()["$defs"]["report"])
    assert {case["id"]: case["status"] for case in document["cases"]} == statuses(out)[0]
    assert (document["dtype"], document["ok"], code) == (dtype, False, 1)
    limits = {c["tolerance"] for case in document["cases"] for c in case["outputs"].values()}
    assert limits == {1e-9 if dtype == "float64" else 5e-5}


def test_run_of_a_command(call, tmp_path):
    """Its time limit is --timeout."""
    program = tmp_path / "mine.py"
    program.write_text("import sys, time\ntime.sleep(float(sys.argv[3]))\nsys.exit(77)\n")
    words = f"{sys.executable} -S {shlex.quote(str(program))} {{input}} {{output}}"
    code, out, _ = call("run", "--command", f"{words} 0", "--only", "task/adding")
    assert (code, statuses(out)[0]) == (1, {"task/adding": "unsupported"})
    code, out, _ = call("run", "--command", f"{words} 9", "--only", "task/adding", "--timeout", "0.2")
    assert (code, statuses(out)[0]) == (1, {"task/adding": "failed"})
    assert "did not end within 0.2 seconds" in out


def test_list(call):
    """A line for each case: its name and what it is there for."""
    code, out, err = call("list")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert [tuple(line.split(maxsplit=1)) for line in lines] == [(v.id, v.why) for v in select()]
    assert len({line.index(v.why, len(v.id)) for line, v in zip(lines, select(), strict=True)}) == 1
    _, out, _ = call("list", "--only", "loss/*")
    assert [line.split()[0] for line in out.splitlines()] == [v.id for v in select("loss/*")]


@pytest.mark.parametrize("id", BY_ID)
def test_show(call, id):
    """Everything there is to say of a case; of it alone, though its name begin others'."""
    code, out, err = call("show", id)
    assert (code, err, out.splitlines()) == (0, "", described(BY_ID[id]))
    vector = BY_ID[id]
    assert out.splitlines()[0] == id
    assert f"  why        {vector.why}\n" in out
    assert json.dumps(vector.case.config) in out
    for name, array in (vector.case.inputs | vector.expected).items():
        assert f" {name} {array.dtype} {array.shape}\n" in out
    for word in (*vector.equations, *vector.kills, vector.confirmed["route"]):
        assert word in out


def test_export(call, tmp_path):
    code, out, err = call("export", tmp_path / "new" / "folder", "--only", "loss/*", "--dtype", "float32")
    assert (code, out, err) == (0, "", f"7 cases in {tmp_path / 'new' / 'folder'}\n")
    manifest = json.loads((tmp_path / "new" / "folder" / "manifest.json").read_text())
    assert [case["id"] for case in manifest["cases"]] == [v.id for v in select("loss/*")]
    assert manifest["dtype"] == "float32"


def test_schema(call):
    code, out, err = call("schema")
    assert (code, err, json.loads(out)) == (0, "", schema())


def test_version(call):
    assert call("--version") == (0, f"ortho_ref {ortho_ref.__version__}\n", "")


BAD = {
    "run --adapter no-such-file.py": "adapter is no-such-file.py, which cannot be loaded",
    "run --adapter 'no such\nfile.py'": "adapter is no such file.py, which cannot be loaded",
    "run --adapter no.such.module": "adapter is no.such.module, which cannot be loaded",
    "run --adapter {empty}": "which has no function run(case)",
    "run --adapter {broken}": "ZeroDivisionError",
    "run --adapter {mine} --only nothing": "only is 'nothing', which fits no case",
    "run --adapter {mine} --report {folder}/missing/out.json": "--report is",
    "run --adapter {mine} --report {folder} --only loss": "directory",
    "run --command 'true {input}'": "it has to name {output}",
    "run --command '/no/such {input} {output}'": "there is no program /no/such",
    "run --command 'true {input} {output}' --timeout 0": "timeout is 0.0",
    "run --command 'true \"{input} {output}'": "No closing quotation",
    "list --only nothing": "fits no case",
    "show nothing": "'nothing', which fits no case",
    "show cell": "case is 'cell', which is a pattern",
    "show 'loss/*'": "case is 'loss/*', which is a pattern",
    "export {folder}": "which is not empty; choose another",
    "export {mine}": "File exists",
    "export {folder}/new --only nothing": "fits no case",
}


@pytest.mark.parametrize("line", BAD)
def test_bad_arguments(call, adapter, tmp_path, line):
    """One line on stderr and exit code 2; nothing on stdout, and no file."""
    (tmp_path / "empty.py").write_text("")
    (tmp_path / "broken.py").write_text("1 / 0")
    before = sorted(tmp_path.iterdir())
    places = {"mine": adapter, "folder": tmp_path, "empty": tmp_path / "empty.py", "broken": tmp_path / "broken.py"}
    filled = line
    for name, path in places.items():
        filled = filled.replace(f"{{{name}}}", str(path))
    code, out, err = call(*shlex.split(filled))
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert BAD[line] in err
    assert err.count("\n") == 1
    assert sorted(path for path in tmp_path.iterdir() if path.name != "__pycache__") == before


@pytest.mark.parametrize(
    "line",
    [
        "",
        "check",
        "run",
        "run --adapter a.py --command 'b {input} {output}'",
        "run --adapter a.py --dtype float16",
        "run --command 'true {input} {output}' --timeout soon",
        "run --adapter",
        "show",
        "export",
        "export a --dtype double",
        "list extra",
        "run --adapter a.py --unknown",
    ],
)
def test_arguments_that_argparse_refuses(call, line):
    code, out, err = call(*shlex.split(line))
    assert (code, out) == (2, "")
    assert err.startswith("usage: python -m ortho_ref.conformance")
    assert "Traceback" not in err


def test_progress_on_a_terminal_alone(call, adapter, monkeypatch):
    """A line that is written over, on stderr."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    _, out, err = call("run", "--adapter", adapter, "--only", "optimizer/sgd")
    ids = [vector.id for vector in select("optimizer/sgd")]
    for number, id in enumerate(ids, 1):
        assert f"{number} of 3  {id}" in err
    assert "\n" not in err
    assert err.endswith("\r\x1b[K")
    assert list(statuses(out)[0]) == ids


def python(*arguments, **options):
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    line = [sys.executable, "-W", "error", "-m", "ortho_ref.conformance", *map(str, arguments)]
    return subprocess.run(line, capture_output=True, text=True, check=False, env=environment, **options)


def test_as_a_program(adapter, tmp_path):
    """Exit codes reach the shell; the working folder's modules are found."""
    result = python("run", "--adapter", adapter, "--only", "loss/*/large")
    assert (result.returncode, result.stderr) == (0, "")
    assert statuses(result.stdout)[0] == {"loss/cross_entropy/large": "passed"}
    result = python("run", "--adapter", "mine", "--only", "optimizer/sgd", cwd=tmp_path)
    assert (result.returncode, result.stderr) == (1, "")
    result = python("show", "nothing")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
