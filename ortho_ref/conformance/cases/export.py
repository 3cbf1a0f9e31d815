"""The cases as files, for languages without Python."""

import json
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from safetensors.numpy import save

import ortho_ref
from ortho_ref import files
from ortho_ref.conformance.cases.case import Vector
from ortho_ref.conformance.cases.case_files import MANIFEST, select
from ortho_ref.conformance.compare import scales, tolerance
from ortho_ref.conformance.running.origin import now, platform_now, vectors_now
from ortho_ref.conformance.running.programs import case_file

#: Of the manifest.
FORMAT = "ortho_ref exported cases 3"
INPUT, EXPECTED = "input.safetensors", "expected.safetensors"


def export(folder: Path | str, only: str | Sequence[str] | None = None, dtype: str = "float64") -> int:
    """Write every case that fits to folder/ID/, and the manifest; how many they are.

    A case's files are its input, in dtype, and its expected outputs, in float64; of initial values there are none.  The
    manifest has for each case its kind, config, tolerance, and the scale of each output: an output is right where
    max |given - expected| <= tolerance * scale.  Errors are those of `put` and `select`.
    """
    chosen = select(only)
    put(folder, lambda part: _fill(part, chosen, dtype))
    return len(chosen)


def put(folder: Path | str, fill: Callable[[Path], None]) -> None:
    """A folder, whole or not at all: fill(part) writes all of it into a folder beside, which then takes the name.

    FileExistsError where the folder holds something, or is a file; OSError where it cannot be written.
    """
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise FileExistsError(f"DIR is {folder}: File exists")
    if folder.is_dir() and any(folder.iterdir()):
        raise FileExistsError(f"DIR is {folder}, which is not empty; choose another")
    try:
        whole = folder.resolve()
        whole.parent.mkdir(parents=True, exist_ok=True)
        part = _made_beside(whole)
        try:
            fill(part)
            _take_its_place(part, whole)
        finally:
            shutil.rmtree(part, ignore_errors=True)  # after a rename it is not there
    except OSError as error:
        why = next((e.strerror for e in (error.__cause__, error) if isinstance(e, OSError) and e.strerror), str(error))
        raise type(error)(f"DIR is {folder}, which cannot be written: {why}") from error


def _made_beside(folder: Path) -> Path:
    """A fresh folder beside this one, or within it where only that can be written."""
    name = f"{folder.name}.part-{os.getpid()}"
    try:
        (part := folder.with_name(name)).mkdir()
    except OSError:
        if not folder.is_dir():
            raise
        (part := folder / name).mkdir()
    return part


def _fill(folder: Path, chosen: Sequence[Vector], dtype: str) -> None:
    entries = []
    for vector in chosen:
        own, case, size = folder / vector.id, vector.case, {}
        own.mkdir(parents=True)
        files.write(own / INPUT, case_file(vector.given(dtype)))
        if case.kind != "initial":  # whose config says what is right
            limits = {f"low:{name}": a for name, a in vector.low.items()}
            limits |= {f"high:{name}": a for name, a in vector.high.items()}
            arrays = {name: np.array(a, order="C") for name, a in (vector.expected | limits).items()}
            files.write(own / EXPECTED, save(arrays))
            size = scales(vector.expected)
        entry = {"id": case.id, "kind": case.kind, "config": case.config, "why": vector.why}
        entry |= {"equations": list(vector.equations), "kills": list(vector.kills)}
        entries.append({**entry, "tolerance": tolerance(case.kind, dtype), "scales": size})
    manifest = {
        "format": FORMAT,
        "kit": ortho_ref.__version__,
        "vectors": vectors_now(),
        "platform": platform_now(),
        "written": now(),
        "dtype": dtype,
        "cases": entries,
    }
    files.write(folder / MANIFEST, (json.dumps(manifest, indent=1) + "\n").encode())


def _take_its_place(part: Path, folder: Path) -> None:
    """The folder becomes what `part` is; the manifest comes last where that takes several steps."""
    if not (folder.is_dir() and os.path.samefile(folder, os.curdir)):  # whoever is in it would be nowhere
        try:
            os.replace(part, folder)
            files.sync_folder(folder.parent)
            return
        except OSError:
            if not folder.is_dir():
                raise
    # the folder we are in, or one that another disk is mounted on
    moved = []
    try:
        for path in sorted(part.iterdir(), key=lambda path: path.name == MANIFEST):
            moved.append(folder / path.name)
            shutil.move(path, moved[-1])
    except BaseException:
        for path in moved:
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        raise
    files.sync_folder(folder)
