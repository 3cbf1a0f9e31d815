"""The cases that the kit ships: one manifest, and one safetensors file of arrays for each kind."""

import hashlib
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal

from msgspec import Meta
from safetensors import SafetensorError
from safetensors.numpy import load

from ortho_ref import files
from ortho_ref.boundary import kind_of, nearest
from ortho_ref.conformance.cases import drawing
from ortho_ref.conformance.cases.case import KINDS, Arrays, Case, Vector
from ortho_ref.conformance.cases.initial import expected_of
from ortho_ref.formats import Form, Sha256

FORMAT = "ortho_ref conformance cases 4"
VECTORS = Path(__file__).parents[1] / "vectors"
MANIFEST = "manifest.json"

Kind: Any = Literal[KINDS]


class Confirmed(Form):
    """The second route, and how far it was from the answer."""

    route: str
    error: float


class Entry(Form):
    """A case, with the names of its arrays."""

    id: str
    kind: Kind
    config: dict[str, Any]
    inputs: list[str]
    expected: list[str]
    low: list[str]
    high: list[str]
    equations: list[str]
    why: str
    kills: list[str]
    confirmed: Confirmed
    drawn: Annotated[drawing.Drawn | None, Meta(description="in place of arrays, how they are drawn")]
    withdrawn: Annotated[str | None, Meta(description="why the case is run no more")]


class Manifest(Form):
    """What is beside the vectors: their files with their SHA-256, and the cases."""

    files: dict[str, Sha256]
    cases: list[Entry]


def file_of(kind: str) -> str:
    """The file with a kind's arrays."""
    return f"{kind}.safetensors"


def read_manifest(folder: Path | str = VECTORS) -> dict[str, Any]:
    """The manifest of a folder of cases: "files" (name -> SHA-256) and "cases"; `Manifest` is its form.

    OSError, or a ValueError that names the file: of another format, or not what was written.
    """
    folder = Path(folder)
    return files.read_sealed(folder / MANIFEST, FORMAT, Manifest).value


@cache
def vectors(folder: Path | str = VECTORS) -> tuple[Vector, ...]:
    """Every case of a folder but those withdrawn, in the manifest's order.  The arrays are read-only.

    OSError or ValueError for a file that cannot be read, or whose SHA-256 is not the manifest's; the message names it.
    """
    folder = Path(folder)
    manifest, stored = read_manifest(folder), {}
    for name, sha256 in manifest["files"].items():
        data = files.read(folder / name)
        if hashlib.sha256(data).hexdigest() != sha256:
            raise files.DamagedFile(folder / name, "its SHA-256 is not the manifest's; install the kit again")
        try:
            stored[name] = load(data)
        except SafetensorError as error:
            raise files.DamagedFile(folder / name, error) from None
        for array in stored[name].values():
            array.flags.writeable = False
    try:
        return tuple(_vector(entry, stored) for entry in manifest["cases"] if entry["withdrawn"] is None)
    except KeyError as error:
        raise files.DamagedFile(folder / MANIFEST, f"it names {error}, which its files have not") from None


def _vector(entry: dict[str, Any], stored: dict[str, Arrays]) -> Vector:
    def arrays(role: str) -> Arrays:
        own = stored[file_of(entry["kind"])]
        return {name: own[key_of(entry["id"], role, name)] for name in entry[role]}

    if entry["drawn"] is None:
        inputs, low, high = arrays("inputs"), arrays("low"), arrays("high")
        expected = expected_of(entry["config"]) if entry["kind"] == "initial" else arrays("expected")
    else:
        (inputs, expected), low, high = _drawn(entry), {}, {}
    outputs = {name: array.shape for name, array in expected.items()}
    case = Case(entry["id"], entry["kind"], entry["config"], inputs, outputs)
    texts = tuple(entry["equations"]), entry["why"], tuple(entry["kills"])
    return Vector(case, expected, low, high, *texts, entry["confirmed"], entry["drawn"])


def _drawn(entry: dict[str, Any]) -> tuple[Arrays, Arrays]:
    """Inputs, and the answer that the reference gives, which has to be that of when the case was made."""
    from ortho_ref.conformance.cases import reference  # only here: the kit loads no models before they are asked for

    inputs = drawing.inputs_of(entry["drawn"])
    if drawing.hash_of(inputs) != entry["drawn"]["sha256"]:
        raise files.DamagedFile(VECTORS / MANIFEST, f"{entry['id']} is drawn otherwise than it was made")
    expected = reference.outputs(Case(entry["id"], entry["kind"], entry["config"], inputs))
    if not drawing.agree(expected, entry["drawn"]["checks"]):
        raise files.DamagedFile(VECTORS / MANIFEST, f"{entry['id']} is computed otherwise than it was made")
    for array in (*inputs.values(), *expected.values()):
        array.flags.writeable = False
    return inputs, expected


def key_of(id: str, role: str, name: str) -> str:
    """An array's name in its file; role: "inputs", "expected", "low" or "high"."""
    return f"{id}:{role}:{name}"


def select(only: str | Sequence[str] | None = None) -> list[Vector]:
    """The cases whose names, or a folder of them, fit a pattern as of a shell, or several: each once; all for None.

    ValueError for a pattern that fits none, or what `vectors` refuses.
    """
    every = vectors()
    if only is None:
        return list(every)
    if not isinstance(only, Iterable):
        raise TypeError(f"only is {kind_of(only)}; allowed: a pattern, as 'cell/gru*', or a list of patterns")
    patterns, fitting = [only] if isinstance(only, str) else list(only), set()
    for pattern in patterns:
        if not isinstance(pattern, str):
            raise TypeError(f"only has {kind_of(pattern)}; allowed: patterns, as 'cell/gru*'")
        found = {vector.id for vector in every if any(fnmatchcase(vector.id, p) for p in (pattern, f"{pattern}/*"))}
        if not found:
            folders = dict.fromkeys(str(own) for vector in every for own in PurePosixPath(vector.id).parents)
            near = _begun_or_nearest(pattern, [*folders, *(vector.id for vector in every)])
            raise ValueError(
                f"only is {pattern!r}{near}, which fits no case; `python -m ortho_ref.conformance list` has them all"
            )
        fitting |= found
    return [vector for vector in every if vector.id in fitting]


def find(name: str) -> Vector:
    """The case of this name.  ValueError where there is none, which says which is near."""
    every = {vector.id: vector for vector in vectors()}
    if name in every:
        return every[name]
    raise ValueError(
        f"case is {name!r}{_begun_or_nearest(name, every)}, which is no case; "
        "`python -m ortho_ref.conformance list` has their names"
    )


def _begun_or_nearest(name: str, names: Iterable[str]) -> str:
    """What a message says where a name is the beginning of one, "cell/gru": the first that goes on; else `nearest`."""
    begun = [own for own in names if "/" in name.strip("/") and own.startswith(name.rstrip("/"))]
    return f" (did you mean {begun[0]!r}?)" if begun else nearest(name, names)
