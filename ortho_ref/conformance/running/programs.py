"""Programs in any language as adapters: a case goes to them and their outputs come back as files."""

import json
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load_file, save

from ortho_ref.boundary import check_number, kind_of
from ortho_ref.conformance.cases.case import Arrays, Case, joined, parted
from ortho_ref.conformance.running.implementation import Broken, Elsewhere, Run
from ortho_ref.terminal import cut

#: Of the file with a case's inputs, in its metadata.
FORMAT = "ortho_ref conformance case 1"
NOT_SUPPORTED = 77  # exit code
DAY = 86_400
_UNREADABLE = (OSError, ValueError, KeyError, TypeError, AttributeError, SafetensorError)


def command_adapter(command: str, timeout: float = 10.0) -> Run:
    """An adapter that runs a program once for each case.

    Parameters
    ----------
    command : str
        The program and its arguments; {input} and {output} in them stand for two files. No shell is involved.
    timeout : float
        Seconds for each case, at most a day.

    Returns
    -------
    callable
        The adapter, as `check` takes it. It gives None for exit code 77, and raises `Broken` for what is neither that
        nor outputs.

    Raises
    ------
    TypeError
        A command that is no text.
    ValueError
        A command without these two, a program that is not there, a timeout that is not above 0, or more than a day.
    """
    if not isinstance(command, str):
        raise TypeError(f"command is {kind_of(command)}; allowed: a text, 'PROGRAM {{input}} {{output}}'")
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ValueError(f"command is {command!r}: {error}") from None
    for place in ("{input}", "{output}"):
        if not any(place in word for word in words):
            raise ValueError(f"command is {command!r}; it has to name {place}")
    check_timeout(timeout)
    if shutil.which(words[0]) is None:
        there = Path(words[0]).is_file() and not os.access(words[0], os.X_OK)
        what = "which is not executable" if there else "and there is no such program"
        raise ValueError(f"command is {command!r}; it begins with {words[0]}, {what}")

    return _Command(command, words, timeout)


class _Command(Elsewhere):
    """A program, its {input} and {output} not yet filled in."""

    fresh = True

    def __init__(self, command: str, words: list[str], timeout: float) -> None:
        self.words, self.timeout = words, timeout
        self.name, self.file = command, Path(shutil.which(words[0]) or words[0])

    def __call__(self, case: Case) -> Any:
        with tempfile.TemporaryDirectory(prefix="conformance-") as folder:
            given, answer, said = (Path(folder, name) for name in ("input.safetensors", "output.safetensors", "stderr"))
            given.write_bytes(case_file(case))
            own = [word.replace("{input}", str(given)).replace("{output}", str(answer)) for word in self.words]
            process = start(own, said)
            try:
                code = process.wait(self.timeout)
            except subprocess.TimeoutExpired:
                raise Broken(f"did not end within {self.timeout:g} seconds") from None
            finally:
                end(process)
            if code == NOT_SUPPORTED:
                return None
            if code != 0:
                raise Broken(f"{how_ended(code)}{last_line(said)}")
            if not answer.is_file():  # a FIFO would be waited for
                raise Broken("made an output that is no file" if answer.exists() else "wrote no output file")
            try:
                return load_file(answer)
            except _UNREADABLE as error:
                raise Broken(f"wrote an output file that is not safetensors: {error}") from error


def check_timeout(timeout: float) -> None:
    """ValueError unless it is above 0, and at most a day."""
    check_number("timeout", timeout, lambda own: 0 < own <= DAY, f"seconds above 0, at most {DAY:,}, a day")


def start(words: list[str], said: Path) -> subprocess.Popen[bytes]:
    """A program that leads a group of its own; what it says on standard error goes into a file."""
    nothing = subprocess.DEVNULL
    with said.open("wb") as errors:
        return subprocess.Popen(words, stdin=nothing, stdout=nothing, stderr=errors, start_new_session=True)


def last_line(path: Path) -> str:
    """The last line of what was said on standard error, ": " before it; "" of nothing."""
    with path.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - 10_000))
        lines = file.read().decode(errors="replace").strip().splitlines()
    return f": {cut(lines[-1], 1000)}" if lines else ""


def how_ended(code: int) -> str:
    """Of an exit code, by the signal's name, or its number: real-time signals have none."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"


def end(process: subprocess.Popen[bytes]) -> None:
    """The program and what it started; on Windows the program alone."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (AttributeError, ProcessLookupError, PermissionError):
        process.kill()
    process.wait()


# A case and its answer as files.  Complex arrays are stored as the kit's cases have them, (..., 2), and named.


def case_file(case: Case) -> bytes:
    """A case as a safetensors file: its inputs, and id, kind, config, dtype and outputs in the metadata."""
    outputs = {name: list(shape) for name, shape in case.outputs.items()}
    own = {"format": FORMAT, "id": case.id, "kind": case.kind, "dtype": str(case.dtype)}
    return _file(case.inputs, own | {"config": json.dumps(case.config), "outputs": json.dumps(outputs)})


def read_case(path: Path) -> Case:
    """What `case_file` has written."""
    arrays, about = _read(path)
    shapes = {name: tuple(shape) for name, shape in json.loads(about["outputs"]).items()}
    return Case(about["id"], about["kind"], json.loads(about["config"]), arrays, shapes, about["dtype"])


def answer_file(arrays: Arrays, about: dict[str, Any]) -> bytes:
    """An adapter's answer: arrays, and what is said of them."""
    return _file({name: _storable(array) for name, array in arrays.items()}, {"about": json.dumps(about)})


def read_answer(path: Path) -> tuple[Arrays, dict[str, Any]]:
    """What `answer_file` has written.  `Broken` where it is something else."""
    try:
        arrays, metadata = _read(path)
        return arrays, json.loads(metadata["about"])
    except _UNREADABLE as error:
        raise Broken(f"wrote an answer that is not safetensors: {error}") from None


def write_whole(path: Path, data: bytes) -> None:
    """Write a file that is there whole or not at all for who looks for it."""
    part = path.with_suffix(".part")
    part.write_bytes(data)
    part.replace(path)


def _storable(array: np.ndarray) -> np.ndarray:
    """safetensors has nothing above 64 bits."""
    wide = {"f": np.float64, "c": np.complex128}.get(array.dtype.kind)
    return array.astype(wide) if wide is not None and array.dtype.itemsize > np.dtype(wide).itemsize else array


def _file(arrays: Arrays, metadata: dict[str, str]) -> bytes:
    names = [name for name, array in arrays.items() if array.dtype.kind == "c"]
    own = {name: np.array(parted(array), order="C") for name, array in arrays.items()}
    return save(own, metadata | ({"complex": json.dumps(names)} if names else {}))


def _read(path: Path) -> tuple[Arrays, dict[str, str]]:
    with safe_open(path, "np") as file:
        metadata = file.metadata()
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    return arrays | {name: joined(arrays[name]) for name in json.loads(metadata.get("complex", "[]"))}, metadata
