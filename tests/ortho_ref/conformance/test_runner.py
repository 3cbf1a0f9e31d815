"""Whatever an implementation does is a result of its case: Python adapters, and programs."""

import json
import os
import re
import shlex
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open

from ortho_ref.conformance import check, command_adapter, load_adapter
from ortho_ref.conformance.cases.case_files import select
from ortho_ref.conformance.report import FAILED, PARTIAL, PASSED, UNSUPPORTED
from ortho_ref.conformance.running.implementation import Broken
from ortho_ref.conformance.running.outputs import modified
from ortho_ref.conformance.running.runner import run_one
from tests.line import CHILD, PATIENCE, limits_begin_at
from tests.ortho_ref.conformance.adapters import BY_ID, answering, right, vector_of

ID = "cell/fastrnn/sgornn-square"
ROOT = Path(__file__).parents[3]


def result_of(run, id=ID, dtype="float64"):
    """The result of one case, undiagnosed."""
    return run_one(run, BY_ID[id], dtype)[0]


# Python


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_right_answers_pass(dtype):
    """Every case, in both precisions; none is diagnosed."""
    report = check(right, dtype=dtype)
    assert [result.id for result in report.results] == list(BY_ID)
    assert {result.status for result in report.results} == {PASSED}
    assert all(result.remarks == "" for result in report.results)
    assert report.dtype == dtype
    for result in report.results:
        assert result.outputs.keys() == BY_ID[result.id].expected.keys()


def test_the_report_has_the_chosen_cases():
    """Of one pattern or several, each case once, run twice and told; partial ones are allowed where that is asked."""
    half, told, seen = answering(lambda found: {"loss": found["loss"]}), [], []
    for only in ("loss/*", ["loss/*", "loss/*/large"]):
        seen.clear()
        report = check(lambda case: seen.append(case.id) or half(case), only, progress=told.append)
        assert [result.id for result in report.results] == [v.id for v in select("loss/*")]
        assert seen == [v.id for v in select("loss/*") for _ in range(2)]
    assert told[-len(report.results) :] == list(report.results)
    assert not report.ok
    assert check(half, "loss/*", allow_partial=True).ok


def test_another_dtype_is_refused():
    for dtype in ("float16", "double", "", None, np.float64):
        with pytest.raises(ValueError, match=r"dtype is .*; allowed: 'float64', 'float32'"):
            check(right, ID, dtype)


@pytest.mark.parametrize("value", [None, NotImplemented])
def test_not_supported(value):
    result = result_of(lambda case: value)
    assert (result.status, result.outputs, result.message, result.missing) == (UNSUPPORTED, {}, "", ())
    assert not check(lambda case: value, "loss/*").ok


def test_missing_outputs():
    """Right ones alone: partial, and which are missing; a wrong one beside them: failed."""
    result = result_of(answering(lambda found: {"h": found["h"], "d_x": found["d_x"]}))
    assert result.status == PARTIAL
    assert result.missing == tuple(name for name in BY_ID[ID].expected if name not in ("h", "d_x"))
    assert set(result.outputs) == {"h", "d_x"}
    assert result_of(answering(lambda found: {"h": found["h"], "d_x": -found["d_x"]})).status == FAILED


def test_one_wrong_output_of_many():
    """Each in turn."""
    for name in BY_ID[ID].expected:
        result = result_of(answering(lambda found, name=name: found | {name: found[name] * 1.001}))
        assert result.status == FAILED
        assert [n for n, c in result.outputs.items() if not c.passed] == [name]


@pytest.mark.parametrize(
    ("change", "status", "message"),
    [
        (lambda found: found | {"more": "text", 7: None}, PASSED, ""),
        (lambda found: found | {"d_x": -found["d_x"], "more": "text"}, FAILED, ""),
        (lambda found: {"h": found["h"]}, PARTIAL, ""),
        (lambda found: {"h": found["h"], "grad_d_x": 0, 7: None}, PARTIAL, "not outputs of this case: grad_d_x, 7"),
        (
            lambda found: {"h": found["h"]} | dict.fromkeys("abcdefg"),
            PARTIAL,
            "not outputs of this case: a, b, c, d, e",
        ),
        (lambda found: {"more": np.ones(2)}, FAILED, "gave none of the case's outputs; not outputs of this case: more"),
    ],
)
def test_outputs_of_no_case_are_ignored(change, status, message):
    """And named where others are missing, five of them at most: they may be meant for those."""
    result = result_of(answering(change))
    assert (result.status, result.message) == (status, message)
    assert (result.missing == ()) == ("d_x" in change(right(BY_ID[ID].case)))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_numbers_are_outputs_without_axes(dtype):
    """Python's; bool is none, nor is a number the output of a shape; 2 is 2.0."""
    id = "loss/mean_squared_error"
    right_loss = BY_ID[id].expected["loss"]

    def of(value, name="loss"):
        result = result_of(answering(lambda found: found | {name: value}), id, dtype)
        return result.status, result.outputs[name].remark

    assert of(float(right_loss)) == (PASSED, "")
    assert [of(value) for value in (float(right_loss) * 1.01, 3, 0, -1.0)] == [(FAILED, "")] * 4
    for value in (float("nan"), float("inf"), 10**400, -(10**400)):
        assert of(value) == (FAILED, "is not finite")
    assert of(True)[1] == "is a bool; expected a NumPy array"
    assert of(0.5, "d_outputs")[1] == f"has shape (); expected {BY_ID[id].expected['d_outputs'].shape}"
    vector = vector_of({"loss": np.array(2.0)}, "loss")
    found = [run_one(lambda case, v=value: {"loss": v}, vector, dtype)[0].status for value in (2, 3, np.int64(2))]
    assert found == [PASSED, FAILED, FAILED]


@pytest.mark.parametrize("value", [3, "text", [], True, np.zeros(3), object(), Exception("no"), {1, 2}, {}])
def test_what_is_no_dict_fails(value):
    result = result_of(lambda case: value)
    name = type(value).__name__
    article = "an" if name in ("int", "ndarray", "object", "Exception") else "a"
    said = f"returned {article} {name}; expected a dict of arrays, or None"
    if name == "dict":
        said = "returned an empty dict; None says that a case is not supported"
    assert (result.status, result.outputs, result.message) == (FAILED, {}, said)


class Mute(Exception):
    """Which has no words."""

    def __str__(self):
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (ValueError("no\nsecond line"), "raised ValueError: no"),
        (RuntimeError(), "raised RuntimeError"),
        (
            ValueError("Exception encountered when calling GRU.call().\n\n\x1b[1m4 != 3\x1b[0m\n"),
            "raised ValueError: 4 != 3",
        ),
        (KeyError("cell"), "raised KeyError: 'cell'"),
        (AssertionError("\n  indented  "), "raised AssertionError: indented"),
        (StopIteration(), "raised StopIteration"),
        (Mute(), "raised Mute"),
    ],
)
def test_an_exception_fails(error, says):
    """Where it was, and the whole of it beside."""

    def run(case):
        raise error

    result = result_of(run)
    line = run.__code__.co_firstlineno + 1
    assert (result.status, result.message, result.outputs) == (FAILED, f"{says} (test_runner.py:{line} in run)", {})
    assert result.traceback.startswith("Traceback (most recent call last):\n")
    assert f'File "{__file__}", line {line}, in run\n    raise error\n' in result.traceback
    assert type(error).__name__ in result.traceback


def test_the_user_s_interrupt_goes_through():
    def run(case):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        check(run, ID)


FRAMES = {
    "of numpy": ("return np.linalg.inv(np.zeros((2, 2)))", "raised LinAlgError: Singular matrix", "mine.py:5 in run"),
    "of the standard library": ("return json.loads('{')", "raised JSONDecodeError: ", "mine.py:5 in run"),
    "of what it calls": (
        "return beside.within()",
        "raised ZeroDivisionError: division by zero",
        "beside.py:2 in within",
    ),
    "of another cause": (
        "\n    try: {}['x']\n    except KeyError as error: raise ValueError('no x') from error",
        "raised ValueError: no x",
        "mine.py:7 in run",
    ),
}


@pytest.mark.parametrize("which", FRAMES)
def test_where_an_exception_came_from(tmp_path, which):
    """The last line that is the adapter's own, or of what lies beside it, not a library's; in the report as JSON the
    whole, with its cause."""
    (tmp_path / "beside.py").write_text("def within():\n    return 1 / 0\n")
    body, says, place = FRAMES[which]
    path = written(tmp_path, f"import json\nimport numpy as np\nimport beside\ndef run(case):\n    {body}\n")
    report = check(load_adapter(str(path)), ID)
    (result,) = report.results
    assert result.message.startswith(says)
    assert result.message.endswith(f" ({place})")
    document = json.loads(report.as_json())
    assert document["cases"][0]["traceback"] == result.traceback
    assert f'File "{path}", line' in result.traceback
    assert ("KeyError: 'x'" in result.traceback) == (which == "of another cause")
    assert "Traceback" not in str(report)


def test_only_exceptions_have_a_traceback():
    """Not wrong answers, or what a program does; an exit is one."""
    for run in (answering(lambda found: found | {"d_x": -found["d_x"]}), lambda case: None, lambda case: 3):
        assert result_of(run).traceback == ""
    result = result_of(lambda case: exit(3))
    assert result.message.startswith("raised SystemExit: 3 (")
    assert result.traceback.endswith("SystemExit: 3\n")


class Unsayable(Exception):
    """Whoever says it ends the process."""

    def __str__(self):
        raise SystemExit(0)


ENDS = [SystemExit(0), SystemExit("bye"), GeneratorExit(), BaseException("x"), Unsayable()]


@pytest.mark.parametrize("end", ENDS, ids=repr)
def test_an_adapter_that_exits_fails(end):
    """Not with its own exit code, which may be 0; nor is it the kit that ends."""

    def run(case):
        raise end

    assert result_of(run).status == FAILED


def test_an_exception_that_cannot_be_told_fails():
    """Of a class without a module the name is said, and the run goes on."""
    made = {}
    exec("Homeless = type('Homeless', (Exception,), {})", made)

    def run(case):
        raise made["Homeless"]("x")

    result = result_of(run)
    assert result.status == FAILED
    assert result.message.startswith("raised Homeless: x")


class Strange(dict):
    """A dict whose methods raise."""

    def items(self):
        raise KeyError("items")

    __iter__ = __contains__ = items


class Liar(np.ndarray):
    """An array that is right whatever it is compared with."""

    def __array_ufunc__(self, *arguments, **options):
        return np.zeros(())

    def astype(self, *arguments, **options):
        return self

    def __sub__(self, other):
        return np.zeros(())

    __rsub__ = __sub__


@pytest.mark.parametrize("wrong", [1.0, 1.01])
@pytest.mark.parametrize("dress", [Strange, lambda found: {k: v.view(Liar) for k, v in found.items()}])
def test_outputs_with_methods_of_their_own(wrong, dress):
    """What is in them counts: right numbers pass, wrong ones do not."""
    result = result_of(lambda case: dress({name: wrong * array for name, array in right(case).items()}))
    assert result.status == (PASSED if wrong == 1.0 else FAILED)


WAYS = {
    "x += 1": "x",
    "h0.flat[-1] = np.nextafter(h0.flat[-1], 9)": "h0",
    "del inputs['x']": "x",
    "inputs['x'] = x * 2": "x",
    "inputs['x'] = x.tolist()": "x",
    "x.shape = (-1,)": "x",
    "inputs['weights.U'] = U.astype(np.float32)": "weights.U",
    "inputs['cache'] = np.zeros(3)": "cache",
    "inputs['weights.U'], inputs['weights.W'] = inputs['weights.W'], U": "weights.U, weights.W",
    "U[...] = U.T.copy()": "weights.U",
    "inputs['x'] = x.view(np.int64)": "x",
    "inputs['dh'][...] = np.nan": "dh",
    "inputs.clear()": ", ".join(BY_ID[ID].case.inputs),
}


@pytest.mark.parametrize("change", WAYS)
@pytest.mark.filterwarnings("ignore:Setting the shape")
def test_modified_inputs_fail(change):
    """Right answers or not, and which inputs they were; the next run gets fresh ones."""

    def run(case):
        found, i = right(case), case.inputs
        exec(change, {"np": np, "inputs": i, "x": i["x"], "h0": i["h0"], "U": i["weights.U"]})
        return found

    result = result_of(run)
    said, _, listed = result.message.partition(": ")
    assert (result.status, said, result.outputs) == (FAILED, "modified its inputs", {})
    assert sorted(listed.split(", ")) == sorted(WAYS[change].split(", "))
    assert result_of(right).status == PASSED


def test_what_is_modified_to_the_bit():
    """NaN stays NaN; the sign of a zero is an input too; outputs may be the inputs themselves."""

    def times(name, factor):
        def run(case):
            case.inputs[name] *= factor(case.inputs[name])
            return right(case)

        return run

    assert modified({"A": np.array([np.nan])}, {"A": np.array([np.nan])}) == ""
    flipped = result_of(times("params.V", lambda a: np.where(a == 0, -1, 1)), "parametrization/householder")
    assert flipped.message == "modified its inputs: params.V"
    result, outputs = run_one(lambda case: {"y": case.inputs["a"]}, BY_ID["activation/relu"], "float64")
    assert (result.status, result.message, set(outputs)) == (FAILED, "", {"y"})


# Loading


def written(folder, text, name="mine.py"):
    path = folder / name
    path.write_text(text)
    return path


@pytest.fixture(autouse=True)
def modules():
    """What a test imports and puts on the path is gone after it."""
    before, path = set(sys.modules), list(sys.path)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - before:
        if not name.startswith(("numpy", "scipy", "ortho_ref", "hypothesis", "_pytest", "rich")):
            del sys.modules[name]


DATACLASS = "from __future__ import annotations\nfrom dataclasses import dataclass\n@dataclass\nclass A:\n    x: int\n"
LOADED = {
    "with what lies beside it, at its head and later on": (
        "from h4_beside import value\ndef run(case):\n    import h4_late\n    return value, h4_late.value\n",
        (5, 6),
    ),
    "it may extend the path, and still finds what is there when it runs": (
        "import sys\nfrom pathlib import Path\nsys.path.insert(0, str(Path(__file__).parent / 'src'))\n"
        "def run(case):\n    import h4_in_src\n    return h4_in_src.value\n",
        7,
    ),
    "dataclasses look their module up": (DATACLASS + "def run(case):\n    return A(3).x\n", 3),
    "called as a module that is there it does not take its place": ("def run(case):\n    return 8\n", 8),
}


@pytest.mark.parametrize("what", LOADED)
def test_an_adapter_is_a_file(tmp_path, what):
    (tmp_path / "src").mkdir()
    for name, value in (("h4_beside", 5), ("h4_late", 6), ("src/h4_in_src", 7)):
        written(tmp_path, f"value = {value}\n", f"{name}.py")
    source, expected = LOADED[what]
    assert load_adapter(str(written(tmp_path, source, "json.py")))(None) == expected
    assert sys.modules["json"] is json


def test_an_adapter_is_a_module_by_its_dotted_name(tmp_path, monkeypatch):
    """Of the working folder, and any other that can be imported."""
    (tmp_path / "h4package").mkdir()
    written(tmp_path / "h4package", "", "__init__.py")
    written(tmp_path / "h4package", "def run(case):\n    return 4\n", "module.py")
    monkeypatch.chdir(tmp_path)
    assert load_adapter("h4package.module")(None) == 4
    assert load_adapter("tests.ortho_ref.conformance.as_adapter")(BY_ID[ID].given("float64")) is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        *(
            (text, "which has no function run(case)")
            for text in ("", "run = 3\n", "def runs(case):\n    return None\n")
        ),
        ("def run(case)\n", "SyntaxError: expected ':'"),
        ("import no_such_module_at_all\n", "ModuleNotFoundError: No module named 'no_such_module_at_all'"),
        ("raise Exception\n", "which cannot be loaded: raised Exception"),
        ("import sys\nsys.exit(0)\n", "SystemExit"),
    ],
)
def test_an_adapter_that_cannot_be_loaded_is_refused(tmp_path, text, says):
    path, before = list(sys.path), set(sys.modules)
    with pytest.raises(ValueError, match=r"adapter is .*mine\.py, which ") as raised:
        load_adapter(str(written(tmp_path, text)))
    assert says in str(raised.value)
    assert "\n" not in str(raised.value)
    if "no function" not in says:
        assert sys.path == path
        assert not any("mine" in name.split() for name in sys.modules.keys() - before)


@pytest.mark.parametrize("name", ["no.py", "no_such_module", "os.no_such", "", ".", "a b", "folder.py"])
def test_an_adapter_that_is_not_there_is_refused(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.py").mkdir()
    with pytest.raises(ValueError, match="adapter is"):
        load_adapter(name)


# Programs


@pytest.fixture
def program(tmp_path):
    """A small Python program as an adapter: of its source, which finds its two files in `input` and `output`."""

    def adapter(source, timeout=PATIENCE, more="", isolated=True):
        path = tmp_path / "a program.py"
        path.write_text(f"import sys\n*more, input, output = sys.argv[1:]\n{source}\n")
        options = ["-S", "-E"] if isolated else []
        words = shlex.join([sys.executable, *options, str(path)])
        return command_adapter(f"{words} {more} {{input}} {{output}}", timeout)

    return adapter


GOOD = """
import json
from pathlib import Path
import numpy as np
from safetensors import safe_open
from safetensors.numpy import save_file
from ortho_ref.conformance import Case
from ortho_ref.conformance.cases import reference
with safe_open(input, "numpy") as file:
    metadata = file.metadata()
    inputs = {name: file.get_tensor(name) for name in file.keys()}
case = Case(metadata["id"], metadata["kind"], json.loads(metadata["config"]), inputs)
found = reference.outputs(case)
shapes = {name: tuple(shape) for name, shape in json.loads(metadata["outputs"]).items()}
assert {name: a.shape for name, a in found.items()} == shapes
assert {str(a.dtype) for a in inputs.values() if a.dtype.kind == "f"} <= {metadata["dtype"]}
print("not read by anybody")
save_file({name: np.array(a, order="C") for name, a in found.items()}, output)
"""


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_good_program(program, monkeypatch, dtype):
    """That computes everything again, from the files alone."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    run = program(GOOD, isolated=False)
    result = result_of(run, "cell/fastrnn/sgornn-tokens", dtype)
    assert (result.status, result.message) == (PASSED, "")


def test_a_command_that_is_no_text():
    with pytest.raises(TypeError, match="command is an int; allowed: a text"):
        command_adapter(5)


def test_the_input_file_is_the_case(program, tmp_path):
    """Its inputs by name, and what else it is in the metadata."""
    case, kept = BY_ID["cell/elman/complex-tokens"].given("float32"), tmp_path / "kept"
    run = program(f"open({str(kept)!r}, 'wb').write(open(input, 'rb').read())\nsys.exit(77)")
    assert run(case) is None
    with safe_open(kept, "numpy") as file:
        assert sorted(file.keys()) == sorted(case.inputs)
        for name, array in case.inputs.items():
            np.testing.assert_array_equal(file.get_tensor(name), array, strict=True)
        metadata = file.metadata()
    assert metadata == {
        "format": "ortho_ref conformance case 1",
        "id": case.id,
        "kind": "cell",
        "config": metadata["config"],
        "dtype": "float32",
        "outputs": metadata["outputs"],
    }
    assert json.loads(metadata["config"]) == case.config
    assert json.loads(metadata["outputs"]) == {name: list(shape) for name, shape in case.outputs.items()}


def bytes_of(array, dtype="F64", name="h"):
    """A safetensors file's bytes, made without the library."""
    data = array.tobytes()[: array.size * {"F64": 8, "U64": 8, "BF16": 2, "F8_E4M3": 1}[dtype]]
    header = f'{{"{name}":{{"dtype":"{dtype}","shape":{list(array.shape)},"data_offsets":[0,{len(data)}]}}}}'.encode()
    return len(header).to_bytes(8, "little") + header + data


STATES = BY_ID[ID].expected["h"]
NO_FILE, NOT_SAFETENSORS = "made an output that is no file", "wrote an output file that is not safetensors"
WRITES = f"open(output, 'wb').write({bytes_of(np.zeros(1), name='U')!r})\n"
# A program, what becomes of a case, and what is said of it.
PROGRAMS = [
    ("sys.exit(78)", FAILED, "ended with exit code 78"),
    ("print('a', 'last', sep='\\n', file=sys.stderr)\nsys.exit(4)", FAILED, "ended with exit code 4: last"),
    ("sys.stderr.buffer.write(b'\\xff no')\nsys.exit(1)", FAILED, "ended with exit code 1: "),
    ("1 / 0", FAILED, "ended with exit code 1: ZeroDivisionError: division by zero"),
    ("import os; os.abort()", FAILED, "was ended by SIGABRT"),
    ("import os; os.kill(os.getpid(), 9)", FAILED, "was ended by SIGKILL"),
    ("import os, signal; os.kill(os.getpid(), signal.SIGRTMIN + 2)", FAILED, "was ended by signal 36"),
    ("", FAILED, "wrote no output file"),
    ("sys.stdin.read() and 1 / 0", FAILED, "wrote no output file"),
    ("open(output, 'wb')", FAILED, NOT_SAFETENSORS),
    ("open(output, 'wb').write(b'no such thing' * 9)", FAILED, NOT_SAFETENSORS),
    ("open(output, 'wb').write((2).to_bytes(8, 'little') + b'{}')", FAILED, "returned an empty dict"),
    ("import os; os.mkdir(output)", FAILED, NO_FILE),
    ("import os; os.mkfifo(output)", FAILED, NO_FILE),
    ("import os; os.symlink('/dev/zero', output)", FAILED, NO_FILE),
    ("import os; os.symlink('/nowhere/at/all', output)", FAILED, "wrote no output file"),
    # the exit codes that mean something, whatever was written
    ("open(output, 'w').write('x')\nsys.exit(77)", UNSUPPORTED, ""),
    # outputs, whole ones and truncated, of types that NumPy has and has not
    (f"open(output, 'wb').write({bytes_of(STATES)!r})", PARTIAL, ""),
    *((f"open(output, 'wb').write({bytes_of(STATES)[:n]!r})", FAILED, NOT_SAFETENSORS) for n in (7, 8, 20, -1)),
    *((f"open(output, 'wb').write({bytes_of(STATES, of)!r})", FAILED, "") for of in ("BF16", "F8_E4M3", "U64")),
    (WRITES, FAILED, "gave none of the case's outputs"),
]


@pytest.mark.parametrize(("source", "status", "says"), PROGRAMS)
def test_what_becomes_of_a_program(program, source, status, says):
    run = program(source)
    result = result_of(run)
    assert result.message.startswith(says)
    assert result.status == status
    assert not (says and result.traceback)
    if says.startswith(("ended", "wrote", "made", "was")):
        with pytest.raises(Broken, match=re.escape(says)):
            run(BY_ID[ID].given("float64"))


def test_a_program_that_hangs(program, line, monkeypatch):
    """It and its child are ended at the time limit, though it does not listen to SIGTERM."""
    limits_begin_at(monkeypatch, lambda: line.hears("deaf"))
    source = f"{line.source}{CHILD}import signal\nsignal.signal(15, signal.SIG_IGN)\nline.send(b'deaf')\nhold()"
    result = result_of(program(source, timeout=0.1))
    assert (result.status, result.message) == (FAILED, "did not end within 0.1 seconds")
    assert line.ended()


def test_a_program_that_leaves_a_child_behind(program, line):
    """Which holds stderr: the result does not wait for it, and it is ended; of much that is said the last is told."""
    noise = "for f in (sys.stdout, sys.stderr): f.write('line of noise\\n' * 200_000)\n"
    result = result_of(program(f"{line.source}{CHILD}{noise}print('the reason', file=sys.stderr)\nsys.exit(5)"))
    assert result.message == "ended with exit code 5: the reason"
    assert line.ended()


def test_each_case_has_a_time_limit_and_an_output_file_of_its_own(program, monkeypatch):
    """Each of three has the whole of it, whatever the one before took; what one wrote is not there for the next."""
    limits = limits_begin_at(monkeypatch, lambda: None)
    source = "import os\nif os.path.exists(output): sys.exit(9)\nopen(output, 'w')\nsys.exit(77)"
    report = check(program(source), "optimizer/sgd")
    assert [result.status for result in report.results] == [UNSUPPORTED] * 3
    assert limits == [PATIENCE] * 3


def test_a_program_reads_nothing_from_the_kit_s_stdin(program):
    """It is at its end at once, though the kit's own is open."""
    own, (end, other) = os.dup(0), os.pipe()
    os.dup2(end, 0)
    try:
        assert result_of(program("sys.stdin.read()\nsys.exit(77)")).status == UNSUPPORTED
    finally:
        os.dup2(own, 0)
        for file in (own, end, other):
            os.close(file)


def test_no_shell_is_involved(program, tmp_path, monkeypatch):
    """What a shell would read reaches the program as it stands; quotes group words."""
    told = tmp_path / "told"
    monkeypatch.chdir(tmp_path)
    literal = [";", "touch", "oops", "$HOME", "`touch oops`", "$(touch oops)", "*", "~", "|", "&&", ">", "oops", "a b"]
    more = " ".join(f"'{word}'" if " " in word else word for word in literal)
    run = program(f"open({str(told)!r}, 'w').write(repr(more))\nsys.exit(77)", more=more)
    assert result_of(run).status == UNSUPPORTED
    assert told.read_text() == repr(literal)
    assert not (tmp_path / "oops").exists()


def test_paths_with_spaces(program, tmp_path, monkeypatch):
    """Of the program and of the folder for the files, which is empty again after it; it runs where the kit runs."""
    folder, told = tmp_path / "with spaces; and more $HOME", tmp_path / "told"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.chdir(folder)
    data = bytes_of(BY_ID[ID].expected["h"])
    source = f"import os\nopen({str(told)!r}, 'w').write(os.getcwd())\nassert ' ' in input\n"
    assert result_of(program(f"{source}open(output, 'wb').write({data!r})")).status == PARTIAL
    assert list(folder.iterdir()) == []
    assert os.path.samefile(told.read_text(), folder)


def test_the_places_may_be_within_words_and_come_twice(tmp_path):
    path = tmp_path / "program.py"
    path.write_text("import sys\na, b, c = sys.argv[1:]\nassert a == '--in=' + b + ',' + b and c != b\nsys.exit(77)")
    run = command_adapter(f"{sys.executable} -S {path} --in={{input}},{{input}} {{input}} {{output}}", PATIENCE)
    assert run(BY_ID[ID].given("float64")) is None


def test_a_program_that_cannot_be_started(tmp_path):
    """Executable, but no program: failed cases, not an error of the kit."""
    path = tmp_path / "mine"
    path.write_bytes(b"\x00\x01")
    path.chmod(0o755)
    report = check(command_adapter(f"{path} {{input}} {{output}}"), ID)
    assert [result.status for result in report.results] == [FAILED]
