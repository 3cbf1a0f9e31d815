"""An implementation over the cases: a Python function, or any program.

Whatever an implementation does, short of ending the process, is a result of its case, never an error of the kit.
"""

import contextlib
import importlib
import importlib.util
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from ortho_ref.conformance.case import DTYPES, Arrays, Case, Vector, select
from ortho_ref.conformance.compare import compare
from ortho_ref.conformance.report import FAILED, PARTIAL, PASSED, UNSUPPORTED, Report, Result

Run: TypeAlias = Callable[[Case], Any]

REFUSED, NOT_SUPPORTED = 3, 77
_LIBRARIES = tuple(sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib"))


class Refused(Exception):
    """A program said that its input is invalid."""


class Broken(Exception):
    """What a program did instead of giving outputs."""


def check(
    run: Run,
    only: str | Sequence[str] | None = None,
    dtype: str = "float64",
    *,
    allow_partial: bool = False,
    progress: Callable[[Result], None] | None = None,
) -> Report:
    """Run an implementation over the cases and say what is right, what is wrong, and which mistake it looks like.

    run: takes a `Case`, returns a dict of NumPy arrays, or None or NotImplemented where it does not support it.
    only: a pattern of case names, "cell/lstm*", or several; None for every case.
    dtype: "float64" or "float32", of the inputs.
    allow_partial: whether cases with outputs missing count as passed.  progress: told each result, undiagnosed.
    ValueError for a pattern that fits nothing and other dtypes.
    """
    return check_vectors(run, select(only), dtype, allow_partial=allow_partial, progress=progress)


def check_vectors(
    run: Run,
    chosen: Sequence[Vector],
    dtype: str,
    *,
    allow_partial: bool = False,
    progress: Callable[[Result], None] | None = None,
) -> Report:
    """`check` of these cases."""
    if dtype not in DTYPES:
        raise ValueError(f"dtype is {dtype!r}; allowed: {', '.join(map(repr, DTYPES))}")
    # here, not above: it loads the mistakes and every model, which importing the kit need not wait for
    from ortho_ref.conformance.diagnosis import diagnose

    results, given = [], {}
    for vector in chosen:
        result, outputs = run_one(run, vector, dtype)
        if progress is not None:
            progress(result)
        results.append(result)
        given[vector.id] = outputs
    return Report(tuple(diagnose(chosen, results, given, dtype)), dtype, allow_partial)


def run_one(run: Run, vector: Vector, dtype: str) -> tuple[Result, Arrays]:
    """The result of one case, and what of its outputs was given."""
    if vector.case.kind == "invalid":
        return _run_invalid(run, vector, dtype), {}
    case, id = vector.given(dtype), vector.id
    try:
        outputs = run(case)
    except (Exception, SystemExit) as error:
        return _raised(id, error), {}
    outputs = _with_numbers(outputs)
    if outputs is None or outputs is NotImplemented:
        return Result(id, UNSUPPORTED), {}
    if problem := _unlike_outputs(outputs) or _modified(case, vector.given(dtype)):
        return Result(id, FAILED, message=problem), {}
    compared = compare(vector, outputs, dtype)
    known = {name: np.asarray(outputs[name]) for name in compared if isinstance(outputs[name], np.ndarray | np.generic)}
    missing = tuple(name for name in vector.expected if name not in outputs)
    others = [str(name) for name in outputs if name not in vector.expected]
    unknown = f"not outputs of this case: {', '.join(others[:5])}" if missing and others else ""
    if not compared:
        message = "; ".join(filter(None, ("gave none of the case's outputs", unknown)))
        return Result(id, FAILED, missing=missing, message=message), {}
    wrong = [name for name, comparison in compared.items() if not comparison.passed]
    return Result(id, FAILED if wrong else PARTIAL if missing else PASSED, compared, missing, unknown), known


def _run_invalid(run: Run, vector: Vector, dtype: str) -> Result:
    """Passed where the flawed inputs are refused and the mended ones are not."""
    id = vector.id
    try:
        outputs = run(vector.given(dtype, control=True))
    except (Exception, SystemExit) as error:
        return _raised(id, error, "refused the same inputs without the flaw: ")
    if outputs is None or outputs is NotImplemented:
        return Result(id, UNSUPPORTED)
    if problem := _unlike_outputs(outputs):
        return Result(id, FAILED, message=f"without the flaw: {problem}")
    try:
        outputs = run(vector.given(dtype))
    except (Broken, SystemExit) as error:
        return _raised(id, error)
    except Exception:
        return Result(id, PASSED)
    if outputs is None or outputs is NotImplemented:
        return Result(id, UNSUPPORTED)
    return Result(id, FAILED, message=f"accepted what must be refused: {vector.why}")


def _raised(id: str, error: BaseException, before: str = "") -> Result:
    """A failed case: what was raised, and where in the implementation."""
    if isinstance(error, Broken | Refused):
        return Result(id, FAILED, message=before + _said(error))
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename != __file__]
    own = [frame for frame in frames if not frame.filename.startswith(_LIBRARIES)] or frames
    place = f" ({Path(own[-1].filename).name}:{own[-1].lineno} in {own[-1].name})" if own else ""
    whole = "".join(traceback.format_exception(error))
    return Result(id, FAILED, message=f"{before}{_said(error)}{place}", traceback=whole)


def _said(error: BaseException) -> str:
    if isinstance(error, Broken):
        return str(error)
    try:
        lines = str(error).strip().splitlines() or [""]
    except Exception:  # it cannot even be said
        lines = [""]
    return f"raised {type(error).__name__}: {lines[0]}" if lines[0] else f"raised {type(error).__name__}"


def _with_numbers(outputs: Any) -> Any:
    """Python's numbers as 0-d arrays."""
    if not isinstance(outputs, dict):
        return outputs
    return {name: _number(value) if type(value) in (int, float) else value for name, value in outputs.items()}


def _number(value: float) -> np.ndarray:
    try:
        return np.asarray(float(value))
    except OverflowError:
        return np.asarray(np.inf)


def _unlike_outputs(outputs: Any) -> str:
    if not isinstance(outputs, dict):
        return f"returned a {type(outputs).__name__}; expected a dict of arrays, or None"
    return "" if outputs else "returned an empty dict; None says that a case is not supported"


def _modified(case: Case, fresh: Case) -> str:
    def same(name: str) -> bool:
        a, b = case.inputs.get(name), fresh.inputs[name]
        return isinstance(a, np.ndarray) and a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()

    changed = [name for name in fresh.inputs if not same(name)] + [str(n) for n in case.inputs if n not in fresh.inputs]
    return f"modified its inputs: {', '.join(changed)}" if changed else ""


def load_adapter(name: str) -> Run:
    """The `run` of FILE.py, or of a module by its dotted name.

    ValueError where there is none; whatever the module raises while it is loaded is passed on in its message.
    """
    try:
        module = _module(name)
    except (Exception, SystemExit) as error:
        raise ValueError(f"adapter is {name}, which cannot be loaded: {_said(error)}") from error
    run = getattr(module, "run", None)
    if not callable(run):
        raise ValueError(f"adapter is {name}, which has no function run(case)")
    return run


def _module(name: str) -> ModuleType:
    path = Path(name)
    if path.suffix != ".py":
        with _on_path(str(Path.cwd())):
            return importlib.import_module(name)
    own = f"conformance adapter {path.stem}"  # under its own name a file torch.py would be taken for torch
    spec = importlib.util.spec_from_file_location(own, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[own] = module
    try:
        with _on_path(str(path.resolve().parent)):  # what lies beside it, as in `python FILE.py`
            spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[own]
        raise
    return module


@contextlib.contextmanager
def _on_path(folder: str) -> Iterator[None]:
    """A folder to import from, which stays for imports within `run`; not after an error."""
    sys.path.insert(0, folder)
    try:
        yield
    except BaseException:
        sys.path.remove(folder)
        raise


def command_adapter(command: str, timeout: float = 10.0) -> Run:
    """An adapter that runs a program once for each case: {input} and {output} in the command stand for two files.

    timeout: seconds for each case.  ValueError for a command without these two, or a program that is not there.
    """
    words = shlex.split(command)
    for place in ("{input}", "{output}"):
        if not any(place in word for word in words):
            raise ValueError(f"command is {command!r}; it has to name {place}")
    if not timeout > 0:
        raise ValueError(f"timeout is {timeout}; allowed: seconds above 0")
    if shutil.which(words[0]) is None:
        there = Path(words[0]).is_file() and not os.access(words[0], os.X_OK)
        what = "which is not executable" if there else "and there is no such program"
        raise ValueError(f"command is {command!r}; it begins with {words[0]}, {what}")

    def run(case: Case) -> Any:
        with tempfile.TemporaryDirectory(prefix="conformance-") as folder:
            paths = {"{input}": f"{folder}/input.safetensors", "{output}": f"{folder}/output.safetensors"}
            write_case(case, Path(paths["{input}"]))
            own = [_filled(word, paths) for word in words]
            return _outputs_of(own, Path(paths["{output}"]), timeout)

    return run


def _filled(word: str, paths: dict[str, str]) -> str:
    for place, path in paths.items():
        word = word.replace(place, path)
    return word


def _outputs_of(words: list[str], path: Path, timeout: float) -> Any:
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors, start_new_session=True
        )
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise Broken(f"did not end within {timeout:g} seconds") from None
        finally:
            _end(process)
        errors.seek(max(0, errors.seek(0, os.SEEK_END) - 10_000))
        lines = errors.read().decode(errors="replace").strip().splitlines()
    last = f": {lines[-1]}" if lines else ""
    if code == NOT_SUPPORTED:
        return None
    if code == REFUSED:
        raise Refused(f"exit code 3{last}")
    if code < 0:
        raise Broken(f"was ended by signal {_name_of(-code)}{last}")
    if code != 0:
        raise Broken(f"ended with exit code {code}{last}")
    if not path.exists():
        raise Broken("wrote no output file")
    try:
        return load_file(path)
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        raise Broken(f"wrote an output file that is not safetensors: {error}") from error


def _name_of(number: int) -> str:
    """A signal's; real-time signals have none."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)


def _end(process: subprocess.Popen[bytes]) -> None:
    """The program and what it started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        process.kill()
    process.wait()


def write_case(case: Case, path: Path) -> None:
    """A case as a file: its inputs, and id, kind, config, dtype and outputs in the metadata."""
    metadata = {
        "id": case.id,
        "kind": case.kind,
        "config": json.dumps(case.config),
        "dtype": case.dtype,
        "outputs": json.dumps({name: list(shape) for name, shape in case.outputs.items()}),
    }
    save_file({name: np.array(array, order="C") for name, array in case.inputs.items()}, path, metadata)
