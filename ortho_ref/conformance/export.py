"""The cases as files, for languages without Python."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save

import ortho_ref
from ortho_ref import files
from ortho_ref.conformance.case import MANIFEST, Vector, select
from ortho_ref.conformance.compare import scales, tolerance
from ortho_ref.conformance.programs import write_case

INPUT, EXPECTED, CONTROL = "input.safetensors", "expected.safetensors", "control.safetensors"


def export(folder: Path, only: str | Sequence[str] | None = None, dtype: str = "float64") -> int:
    """Write every case that fits to folder/ID/, and the manifest.

    A case's files are its input and its expected outputs, in float64, and for an invalid case the inputs with the flaw
    mended.  The manifest, which is written last, has for each case its kind, config, tolerance, and the scale of each
    output: an output is right where max |given - expected| <= tolerance * scale.

    Parameters
    ----------
    folder : Path
        Where to; made if it is not there.
    only : str or sequence of str, optional
        A pattern of case names, or several; unless given, every case.
    dtype : str
        "float64" or "float32", of the inputs.

    Returns
    -------
    int
        How many cases they are.

    Raises
    ------
    FileExistsError
        The folder holds something.
    ValueError
        A pattern that fits nothing.
    """
    chosen = select(only)
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise FileExistsError(f"DIR is {folder}, which is not empty; choose another")
    for vector in chosen:
        own = folder / vector.id
        own.mkdir(parents=True)
        write_case(vector.given(dtype), own / INPUT)
        if vector.control:
            write_case(vector.given(dtype, control=True), own / CONTROL)
        if vector.expected:
            limits = {f"low:{name}": a for name, a in vector.low.items()}
            limits |= {f"high:{name}": a for name, a in vector.high.items()}
            arrays = {name: np.array(a, order="C") for name, a in (vector.expected | limits).items()}
            files.write(own / EXPECTED, save(arrays))
    manifest = {"kit": ortho_ref.__version__, "dtype": dtype, "cases": [_entry(v, dtype) for v in chosen]}
    files.write(folder / MANIFEST, (json.dumps(manifest, indent=1) + "\n").encode())
    return len(chosen)


def _entry(vector: Vector, dtype: str) -> dict[str, Any]:
    case = vector.case
    return {
        "id": case.id,
        "kind": case.kind,
        "config": case.config,
        "why": vector.why,
        "equations": list(vector.equations),
        "kills": list(vector.kills),
        "refuse": case.kind == "invalid",
        "tolerance": tolerance(case.kind, dtype),
        "scales": scales(vector.expected, vector.scales) if vector.expected else {},
    }
