"""What a case is, and the cases that the kit ships: one manifest, and one safetensors file of arrays for each kind.

Complex arrays are stored as real ones with a last axis of 2, real and imaginary part.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any, TypeAlias

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load

from ortho_ref import files
from ortho_ref.boundary import kind_of, nearest
from ortho_ref.conformance import drawing
from ortho_ref.printing import brief
from ortho_ref.schema import NUMBER, SHA256, TEXT, list_of, mapping, one_of, optional, record

Arrays: TypeAlias = dict[str, np.ndarray]
Config: TypeAlias = dict[str, Any]

KINDS = (
    "cell",
    "layer",
    "parametrization",
    "update",
    "optimizer",
    "activation",
    "loss",
    "jacobian",
    "task",
    "initial",
    "train",
    "invalid",
)
DTYPES = ("float64", "float32")
HALF = ("float16", "bfloat16")  # for forward passes alone
FORMAT = "ortho_ref conformance cases 3"
VECTORS = Path(__file__).parent / "vectors"
MANIFEST = "manifest.json"

_TEXTS = list_of(TEXT)
#: The manifest: its files with their SHA-256, its cases with the names of their arrays.
MANIFEST_FORM = record(
    {
        "files": mapping(SHA256),
        "cases": list_of(
            record(
                {
                    "id": TEXT,
                    "kind": one_of(*KINDS),
                    "config": {"type": "object"},
                    **dict.fromkeys(("inputs", "expected", "low", "high", "control"), _TEXTS),
                    "scales": mapping(NUMBER),
                    "equations": _TEXTS,
                    "why": TEXT,
                    "kills": _TEXTS,
                    "confirmed": record({"route": TEXT, "error": NUMBER}),
                    "drawn": optional(drawing.FORM) | {"description": "in place of arrays, how they are drawn"},
                    "withdrawn": optional(TEXT) | {"description": "why the case is run no more"},
                }
            )
        ),
    }
)


class Precision(str):
    """The name of a dtype, which equals NumPy's dtype and scalar type as well as the name.

    `case.dtype == np.float32` were silently False for a plain str.  It hashes as the name, so a dict is asked by names.
    """

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        """Equal to the name, to numpy.dtype of it, and to its scalar type."""
        if isinstance(other, type | np.dtype) and str(self) == "bfloat16":
            return False  # NumPy has none
        if isinstance(other, type):
            return other is np.dtype(str(self)).type
        return other == np.dtype(str(self)) if isinstance(other, np.dtype) else str.__eq__(self, other) is True

    def __ne__(self, other: object) -> bool:
        """As ==."""
        return not self == other


@dataclass(frozen=True)
class Case:
    """What an implementation gets.

    Attributes
    ----------
    id : str
        Its name, "cell/lstm".
    kind : str
        One of `KINDS`.
    config : dict
        What is to be computed: plain JSON values, one for each option.
    inputs : dict of str to array
        int64, bool, or floating-point in `dtype`, bfloat16's in float32; complex arrays as real ones, with a last axis
        of 2.
    outputs : dict of str to tuple of int
        The shape of what is expected; empty for a case that is to be refused.
    dtype : Precision
        "float64" or "float32", of forward passes also "float16" or "bfloat16"; equal to NumPy's dtypes of the names.
    """

    id: str
    kind: str
    config: Config
    inputs: Arrays
    outputs: dict[str, tuple[int, ...]] = field(default_factory=dict)
    dtype: str = "float64"

    __repr__ = brief

    def __post_init__(self) -> None:
        """A name that dtypes can be compared with."""
        object.__setattr__(self, "dtype", Precision(self.dtype))


@dataclass(frozen=True)
class Vector:
    """A case and its answer, in float64.

    Attributes
    ----------
    case : Case
        What an implementation gets.
    expected : dict of str to array
        The answer.
    scales : dict of str to float
        Of outputs that are compared on a scale of their own instead of their largest entry.
    low, high : dict of str to array
        Of outputs that may be anything between the two, entry by entry: at a kink.
    control : dict of str to array
        Of an invalid case, the inputs with the flaw mended.
    equations : tuple of str
        Tags of docs/equations.md.
    why : str
        What the case is there for.
    kills : tuple of str
        Names of the mistakes it shows.
    confirmed : dict
        "route", the second route, and "error", how far it was from the answer.
    drawn : dict, optional
        Of a case too large to be stored, how its inputs are drawn, and their hash; `drawing.FORM` is its schema.
    """

    case: Case
    expected: Arrays
    scales: dict[str, float]
    low: Arrays
    high: Arrays
    control: Arrays
    equations: tuple[str, ...]
    why: str
    kills: tuple[str, ...]
    confirmed: dict[str, Any]
    drawn: dict[str, Any] | None = None

    @property
    def id(self) -> str:
        """The case's name."""
        return self.case.id

    def given(self, dtype: str, control: bool = False) -> Case:
        """A fresh copy of the case.

        Parameters
        ----------
        dtype : str
            The precision of its floating-point inputs, "float64" or "float32".
        control : bool
            Whether with the flaw mended, of an invalid case.

        Returns
        -------
        Case
            Its arrays may be written to.
        """
        inputs = self.control if control else self.case.inputs
        config = json.loads(json.dumps(self.case.config))
        own = {name: in_precision(array, dtype) for name, array in inputs.items()}
        return replace(self.case, config=config, inputs=own, dtype=dtype)


@dataclass(frozen=True, kw_only=True)
class Departed(Vector):
    """A case whose answer is that of the reference with departures that are known, and assumed.

    Attributes
    ----------
    whole : Vector
        The case with the answer that the kit ships.
    assumed : tuple of Mistake
        Those that apply to the case, the first around the next.
    """

    whole: Vector
    assumed: tuple[Any, ...]


def in_precision(array: np.ndarray, dtype: str) -> np.ndarray:
    """A copy, of floating-point numbers in that precision; bfloat16's, which NumPy does not have, as float32."""
    if array.dtype.kind != "f":
        return array.copy()
    if dtype != "bfloat16":
        return array.astype(dtype)
    bits = array.astype(np.float32).view(np.uint32)  # the upper half of float32, to nearest, ties to even
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)).view(np.float32)


def joined(array: np.ndarray) -> np.ndarray:
    """(..., 2) real -> (...) complex."""
    whole = np.empty(array.shape[:-1], np.result_type(array.dtype, np.complex64))
    whole.real, whole.imag = array[..., 0], array[..., 1]
    return whole


def parted(array: np.ndarray) -> np.ndarray:
    """(...) complex -> (..., 2) real; a real array as it is."""
    return np.stack([array.real, array.imag], axis=-1) if array.dtype.kind == "c" else array


def file_of(kind: str) -> str:
    """The file with a kind's arrays."""
    return f"{kind}.safetensors"


def read_manifest(folder: Path | str = VECTORS) -> dict[str, Any]:
    """The manifest of a folder of cases.

    Parameters
    ----------
    folder : Path or str
        By default the kit's own.

    Returns
    -------
    dict
        "files" (name -> SHA-256) and "cases"; `MANIFEST_FORM` is its schema.

    Raises
    ------
    OSError
        It cannot be read.
    ValueError
        It is of another format, or not what was written; the message names the file.
    """
    folder = Path(folder)
    return files.read_sealed(folder / MANIFEST, FORMAT, MANIFEST_FORM).value


@cache
def vectors(folder: Path | str = VECTORS) -> tuple[Vector, ...]:
    """Every case of a folder but those withdrawn.

    Parameters
    ----------
    folder : Path or str
        By default the kit's own.

    Returns
    -------
    tuple of Vector
        In the manifest's order. The arrays are read-only.

    Raises
    ------
    OSError, ValueError
        A file that cannot be read, or whose SHA-256 is not the manifest's; the message names it.
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
    if entry["drawn"] is not None:
        return _drawn_vector(entry)
    own = stored[file_of(entry["kind"])]

    def arrays(role: str) -> Arrays:
        return {name: own[key_of(entry["id"], role, name)] for name in entry[role]}

    expected = arrays("expected")
    if entry["kind"] == "initial":
        from ortho_ref.conformance.initial import expected_of  # here: it takes its arrays from this file

        expected = expected_of(entry["config"])
    outputs = {name: array.shape for name, array in expected.items()}
    return Vector(
        Case(entry["id"], entry["kind"], entry["config"], arrays("inputs"), outputs),
        expected,
        entry["scales"],
        arrays("low"),
        arrays("high"),
        arrays("control"),
        tuple(entry["equations"]),
        entry["why"],
        tuple(entry["kills"]),
        entry["confirmed"],
    )


def _drawn_vector(entry: dict[str, Any]) -> Vector:
    """A case that is drawn: the reference gives its answer, which has to be that of when it was made."""
    # here, not above: the reference takes its arrays from this file
    from ortho_ref.conformance import reference

    inputs = drawing.inputs_of(entry["drawn"])
    if drawing.hash_of(inputs) != entry["drawn"]["sha256"]:
        raise files.DamagedFile(VECTORS / MANIFEST, f"{entry['id']} is drawn otherwise than it was made")
    case = Case(entry["id"], entry["kind"], entry["config"], inputs)
    expected = reference.outputs(case)
    if not drawing.agree(expected, entry["drawn"]["checks"]):
        raise files.DamagedFile(VECTORS / MANIFEST, f"{entry['id']} is computed otherwise than it was made")
    for array in (*inputs.values(), *expected.values()):
        array.flags.writeable = False
    texts = (tuple(entry["equations"]), entry["why"], tuple(entry["kills"]))
    whole = replace(case, outputs={name: array.shape for name, array in expected.items()})
    return Vector(whole, expected, entry["scales"], {}, {}, {}, *texts, entry["confirmed"], entry["drawn"])


def key_of(id: str, role: str, name: str) -> str:
    """An array's name in its file.

    Parameters
    ----------
    id : str
        The case's name.
    role : str
        "inputs", "expected", "low", "high" or "control".
    name : str
        The input's or output's.

    Returns
    -------
    str
        id:role:name.
    """
    return f"{id}:{role}:{name}"


def select(only: str | Sequence[str] | None = None, folder: Path | str = VECTORS) -> list[Vector]:
    """The cases whose names fit.

    Parameters
    ----------
    only : str or sequence of str, optional
        A pattern as of a shell, or several, that the name or a folder of it has to fit; unless given, every case.
    folder : Path or str
        By default the kit's own.

    Returns
    -------
    list of Vector
        In the manifest's order, each once.

    Raises
    ------
    ValueError
        A pattern that fits none, or what `vectors` refuses.
    """
    folder = Path(folder)
    every = vectors(folder)
    if only is None:
        return list(every)
    if not isinstance(only, Iterable):
        raise TypeError(f"only is {kind_of(only)}; allowed: a pattern, as 'cell/gru*', or a list of patterns")
    patterns, fitting = [only] if isinstance(only, str) else list(only), set()
    for pattern in patterns:
        found = {vector.id for vector in every if any(fnmatchcase(vector.id, p) for p in (pattern, f"{pattern}/*"))}
        if not found:
            raise ValueError(
                f"only is {pattern!r}{_near(pattern, every)}, which fits no case; "
                "`python -m ortho_ref.conformance list` has them all"
            )
        fitting |= found
    return [vector for vector in every if vector.id in fitting]


def find(name: str) -> Vector:
    """The case of this name.

    Parameters
    ----------
    name : str
        As `select` lists it.

    Returns
    -------
    Vector
        Of the kit's own.

    Raises
    ------
    ValueError
        There is none; the message says which is near.
    """
    every = {vector.id: vector for vector in vectors(VECTORS)}
    if name in every:
        return every[name]
    raise ValueError(
        f"case is {name!r}{_begun_or_nearest(name, every)}, which is no case; "
        "`python -m ortho_ref.conformance list` has their names"
    )


def _near(pattern: str, every: Iterable[Vector]) -> str:
    """What a message says where a case, or a folder of cases, is near."""
    folders = (PurePosixPath(vector.id).parents for vector in every)
    names = dict.fromkeys(str(own) for parents in folders for own in parents)
    ids = [vector.id for vector in every]
    return _begun_or_nearest(pattern, [*names, *ids])


def _begun_or_nearest(name: str, names: Iterable[str]) -> str:
    """What a message says where a name is the beginning of one, "cell/gru": the first that goes on; else `nearest`."""
    begun = [own for own in names if "/" in name.strip("/") and own.startswith(name.rstrip("/"))]
    return f" (did you mean {begun[0]!r}?)" if begun else nearest(name, names)
