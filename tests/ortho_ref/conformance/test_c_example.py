"""docs/examples/gru_reset_before.c, compiled here and run over files in the protocol of docs/check/programs.md."""

import json
import shutil
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from gradients.problem import Problem, random_problem, relative_error
from ortho_ref import scan
from ortho_ref.activations import ACTIVATIONS
from ortho_ref.cells import GRUResetBefore
from ortho_ref.conformance import check, command_adapter, report
from ortho_ref.conformance.cases.case_files import select
from tests.line import PATIENCE
from tests.precision import single

SOURCE = Path(__file__).parents[3] / "docs" / "examples" / "gru_reset_before.c"
FLAGS = ("-std=c99", "-O2", "-Wall", "-Wextra", "-Werror")
DONE, REFUSED, UNSUPPORTED = 0, 3, 77
NAMES = ("x", "h0", "dh", "dh_T", *(f"weights.{kind}_{gate}" for gate in "ruc" for kind in "WUb"))


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """The compiled example."""
    compiler = shutil.which("cc") or shutil.which("gcc") or pytest.skip("no C compiler")
    path = tmp_path_factory.mktemp("c") / "mine"
    subprocess.run([compiler, *FLAGS, "-o", path, SOURCE, "-lm"], check=True)
    return path


@pytest.fixture(scope="module")
def program(compiled):
    """The example as a function: (bytes of an input file, path of the output) -> exit code."""
    folder = compiled.parent

    def run(file, output=folder / "refused.safetensors"):
        (folder / "input.safetensors").write_bytes(file)
        return subprocess.run(
            [folder / "mine", folder / "input.safetensors", output], timeout=PATIENCE, stderr=subprocess.DEVNULL
        ).returncode

    return run


@pytest.fixture
def pack(tmp_path):
    """(arrays, config) -> bytes of an input file."""

    def bytes_of(arrays, config):
        dtype = str(list(arrays.values())[-1].dtype)
        metadata = {"id": "a case", "kind": "cell", "dtype": dtype, "outputs": '{"h": [5, 3, 5]}'}
        config = config if isinstance(config, str) else json.dumps(config)
        arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
        save_file(arrays, tmp_path / "packed", metadata={**metadata, "config": config})
        return (tmp_path / "packed").read_bytes()

    return bytes_of


def case(activation="tanh", **options):
    """A problem, its input arrays by name, and its config."""
    problem = random_problem(GRUResetBefore(activation), np.random.default_rng(0), **options)
    weights = {f"weights.{name}": weight for name, weight in problem.weights.items()}
    arrays = {"x": problem.x, "h0": problem.h0, "dh": problem.dh, "dh_T": problem.dh_T, **weights}
    return problem, arrays, {"cell": "gru_reset_before", "activation": activation}


def expected(cell, arrays):
    """All outputs, by `scan`, in double."""
    arrays = {name: array.astype(np.float64) if array.dtype == np.float32 else array for name, array in arrays.items()}
    weights = {name.removeprefix("weights."): arrays[name] for name in arrays if name.startswith("weights.")}
    problem = Problem(cell, weights, arrays["x"], arrays["h0"], arrays["dh"], arrays["dh_T"])
    gradients = problem.gradients(scan)
    of_weights = {f"d_weights.{name}": gradients.pop(name) for name in weights}
    h, _ = scan.forward(cell, weights, problem.x, problem.h0)
    return {"h": h, **{f"d_{name}": gradient for name, gradient in gradients.items()}, **of_weights}


def compare(outputs, reference, dtype=np.float64, tolerance=1e-12):
    assert set(outputs) == set(reference)
    for name, values in reference.items():
        assert outputs[name].dtype == dtype
        assert relative_error(outputs[name], values) <= tolerance, name


def kinked(arrays):
    """a is 0 or 1; b is -1 or 1/2, or 0: on each kink, and at modrelu's jump."""
    arrays["weights.W_c"] = np.eye(1, 3) * np.ones((6, 1))
    arrays["weights.U_c"] = np.zeros((6, 6))
    arrays["weights.b_c"] = np.array([-1, 0.5, 0, -1, 0.5, 0])
    arrays["x"][..., 0] = np.random.default_rng(1).integers(0, 2, (6, 3))


def large(arrays):
    """Gates at 0 and 1 to the last digit, without an overflow."""
    arrays["x"] *= 1e4


PROBLEMS = [
    *((activation, {"tokens": tokens}, lambda arrays: None) for activation in ACTIVATIONS for tokens in (False, True)),
    *(("tanh", dict(zip("TBmn", sizes, strict=True)), lambda arrays: None) for sizes in ((1, 1, 1, 1), (2, 2, 1, 7))),
    *((activation, {"T": 6, "n": 6}, kinked) for activation in ("relu", "modrelu")),
    ("tanh", {}, large),
]


@pytest.mark.parametrize(
    ("activation", "options", "change", "dtype", "tolerance"),
    [(*problem, np.float64, 1e-12) for problem in PROBLEMS]
    + [(*problem, np.float32, 1e-5) for problem in PROBLEMS[:-1]],
)
def test_outputs_are_those_of_scan(program, pack, tmp_path, activation, options, change, dtype, tolerance):
    """Every output, in the precision of the inputs; sizes of one, kinks, and what overflows among them."""
    problem, arrays, config = case(activation, **options)
    change(arrays)
    arrays = single(arrays) if dtype is np.float32 else arrays
    assert program(pack(arrays, config), tmp_path / "out") == DONE
    compare(load_file(tmp_path / "out"), expected(problem.cell, arrays), dtype, tolerance)


CONFIG = r"""{ "\"}{\\": [1, -2.5E-3, {"cell": "lstm"}, [], {}, [[true]], null], "note": "é \ud83d\ude00 \n\/\b",
    "\u0063ell" : "\u0067ru_reset_before", "activation":"tanh" , "more": false }"""


def test_configs_that_are_read(program, pack, tmp_path):
    """JSON within JSON: escapes of both, a key that stands deeper too, what is not read."""
    problem, arrays, _ = case()
    assert program(pack(arrays, CONFIG), tmp_path / "out") == DONE
    compare(load_file(tmp_path / "out"), expected(problem.cell, arrays))


@pytest.mark.parametrize("name", NAMES)
def test_inputs_that_are_refused(program, pack, name):
    """Missing, of a wrong shape, empty, not finite, of another precision or type; a token out of range."""
    _, arrays, config = case()
    assert set(arrays) == set(NAMES)
    array = arrays.pop(name)
    assert program(pack(arrays, config)) == REFUSED
    wrong = [array[None], array[0], array[:0], array.astype(np.float32), array.astype(int)]
    for axis in range(array.ndim):
        wrong += [array.take(range(array.shape[axis] - 1), axis), np.concatenate([array, array], axis)]
    wrong += [
        np.where(np.arange(array.size).reshape(array.shape) == array.size - 1, v, array) for v in (np.nan, np.inf)
    ]
    _, tokens, _ = case(tokens=True)
    wrong += [np.full_like(tokens["x"], token) for token in (-1, 3, 2**62)] if name == "x" else []
    for array in wrong:
        assert program(pack({**arrays, name: array}, config)) == REFUSED


def parts(file):
    """Header and numbers of a safetensors file."""
    (length,) = struct.unpack("<Q", file[:8])
    return json.loads(file[8 : 8 + length]), file[8 + length :]


def joined(header, numbers):
    header = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(header)) + header + numbers


def test_truncated_and_random_files_are_refused(program, pack):
    """Whole files, and bytes changed in a good one's header; such a file may happen to be a good one still."""
    good, rng = pack(*case()[1:]), np.random.default_rng(0)
    for length in (*range(0, 12, 3), *range(12, len(good), 311), len(good) - 1):
        assert program(good[:length]) == REFUSED, length
    for size in (1, 9, 10_000):
        assert program(struct.pack("<Q", size) + rng.bytes(size)) == REFUSED
    (length,) = struct.unpack("<Q", good[:8])
    codes = set()
    for _ in range(60):
        file = bytearray(good)
        file[rng.integers(0, 8 + length)] = rng.integers(256)
        codes.add(program(bytes(file)))
    assert REFUSED in codes <= {DONE, REFUSED, UNSUPPORTED}


@pytest.mark.parametrize(
    "entry",
    [
        {"data_offsets": [0, 2**64 - 8]},
        {"data_offsets": [10**30, 10**30 + 120]},
        {"data_offsets": [120, 0]},
        {"data_offsets": [0, 119]},
        {"data_offsets": None},
        {"shape": [2**64 + 3, 5]},
        {"shape": [3, 5] + [1] * 100_000},
        {"shape": {}},
        {"dtype": "F64\x00"},
    ],
)
def test_tensors_that_do_not_fit_the_file_are_refused(program, pack, entry):
    """Nor sizes whose product is too large: with 2^62 more sequences every product is the same modulo 2^64."""
    header, numbers = parts(pack(*case(T=4, B=3, m=4, n=5)[1:]))
    assert program(joined(header, numbers)) == DONE
    assert header["h0"]["shape"] == [3, 5]
    assert program(joined(header | {"h0": header["h0"] | entry}, numbers)) == REFUSED
    header, numbers = parts(pack(*case(T=4, B=3, m=4, n=4)[1:]))
    for name, axis in (("x", 1), ("h0", 0), ("dh", 1), ("dh_T", 0)):
        header[name]["shape"][axis] += 2**62
    assert program(joined(header, numbers)) == REFUSED


@pytest.mark.parametrize("text", ["1.", "01", "nul", '"\\x"', "[1,]", "{1:1}", '{"a":}', "1,,", "1}}", '"\0"'])
def test_a_header_that_is_no_json_is_refused(program, pack, text):
    """What the cell does not read may be any value."""
    header, numbers = parts(pack(*case()[1:]))
    for value, code in ((text, REFUSED), (r'[[],{"a":[-1.5e-3,null,"\u12aF"]}]', DONE)):
        own = b' { \n"other" :\t\r' + value.encode() + b" , " + json.dumps(header)[1:].encode() + b"  "
        assert program(joined(own, numbers)) == code
    for metadata in (None, [], {"kind": "cell"}, {"kind": "cell", "config": '{"cell": "gru_reset_before"'}):
        assert program(joined({**header, "__metadata__": metadata}, numbers)) == REFUSED


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_the_kit_s_verdict(compiled, dtype):
    """`--command`: every case of this cell passes, all other cases are not supported."""
    found = check(command_adapter(f"{compiled} {{input}} {{output}}", PATIENCE), dtype=dtype)
    own = {v.id for v in select("cell/gru_reset_before*")}
    assert found.ok
    assert {result.id for result in found.results if result.status == report.PASSED} == own
    assert {result.status for result in found.results} == {report.PASSED, report.UNSUPPORTED}
