"""Where a report comes from: which implementation, on which platform, when, over which cases."""

import hashlib
import platform
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Annotated, TypeAlias

import numpy as np
from msgspec import Meta, Struct
from msgspec.structs import replace

import ortho_ref
from ortho_ref import files
from ortho_ref.conformance.cases.case_files import FORMAT, MANIFEST, VECTORS, Manifest
from ortho_ref.conformance.running.implementation import Elsewhere, Run
from ortho_ref.formats import NO_LINE_END, Form, Sha256
from ortho_ref.terminal import cut

#: A moment, in UTC.
Time: TypeAlias = Annotated[str, Meta(pattern="^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$" + NO_LINE_END)]


class Platform(Form):
    """On what the kit ran."""

    system: str
    machine: str
    python: str
    numpy: str


class Vectors(Form):
    """Of the cases: how many were ever stored, and how many of these are withdrawn; one hash over all of them."""

    version: Annotated[str, Meta(pattern=r"^[0-9]+\.[0-9]+$" + NO_LINE_END, examples=["157.0"])]
    sha256: Sha256


class Origin(Struct, frozen=True, forbid_unknown_fields=True):
    """Which implementation was run, and when."""

    adapter: str  # the file, the module or the command that was given; of a function its own name
    #: Of a command that of its program.
    sha256: Annotated[Sha256 | None, Meta(description="of the adapter's file; null where that is not known")]
    apart: Annotated[bool, Meta(description="whether it ran in a process of its own")]
    started: Time
    ended: Time

    @classmethod
    def begun(cls, run: Run) -> "Origin":
        """Of a run that begins now."""
        name, file = (run.name, run.file) if isinstance(run, Elsewhere) else _of_function(run)
        started = now()
        return cls(cut(name), None if file is None else sha256_of(file), isinstance(run, Elsewhere), started, started)

    def until_now(self) -> "Origin":
        """The same, ended now."""
        return replace(self, ended=now())


def now() -> str:
    """The time in UTC, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def sha256_of(path: Path | str) -> str | None:
    """The hash of a file; None where there is none that can be read."""
    try:
        return hashlib.sha256(files.read(path)).hexdigest()
    except (OSError, ValueError):  # ValueError: a name that no file can have
        return None


def _of_function(run: Run) -> tuple[str, Path | None]:
    """A function's name and its file; of another callable, which may say anything of itself, its type's name."""
    if type(run) is not FunctionType:
        return type.__dict__["__name__"].__get__(type(run)), None  # a metaclass may lie, too
    path = Path(run.__code__.co_filename)
    if path.is_relative_to(Path(ortho_ref.__file__).parent):  # made by ortho_ref.adapters: not the user's file
        return run.__code__.co_qualname, None
    return f"{run.__code__.co_qualname} of {path.name}", path


def platform_now() -> dict[str, str]:
    """System, machine, and the versions of Python and NumPy."""
    return {
        "system": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "python": platform.python_version(),
        "numpy": np.__version__,
    }


@cache
def vectors_now() -> dict[str, str]:
    """The version of the kit's cases, which rises whenever a case is added or withdrawn, and one hash over them."""
    manifest = files.read_sealed(VECTORS / MANIFEST, FORMAT, Manifest)  # it has the hash of every other file
    cases = manifest.value["cases"]
    withdrawn = sum(case["withdrawn"] is not None for case in cases)
    return {"version": f"{len(cases)}.{withdrawn}", "sha256": manifest.sha256}
