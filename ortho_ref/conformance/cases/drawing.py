"""Cases too large to be stored: their inputs from a seed, the same everywhere.

Bytes of SHAKE-256, not a library's random numbers, whose stream may change: two make an integer u below 2^16, and

    value = low + (high - low) u / 2^16, to the nearest multiple of 1/4096

which float32 has exactly, times a power of two where that is given; integers are rounded down.  Marks and permutations
are not drawn but listed.  The manifest has their SHA-256, and sums by which their answers are known again.
"""

import hashlib
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import numpy as np
from msgspec import Meta

from ortho_ref.formats import Form, Sha256

GRID = 4096
SAME = 1e-9


class Range(Form):
    """An array's shape, and between which numbers it is drawn."""

    shape: list[Annotated[int, Meta(ge=0, le=1 << 20)]]
    low: float
    high: float
    power: Annotated[int, Meta(description="times 2^power")] = 0
    integer: Annotated[bool, Meta(description="rounded down, int64")] = False
    form: Annotated[
        Literal["skew", "lower"] | None,
        Meta(description="what is kept: below the diagonal (skew: and its negative above)"),
    ] = None
    marks: Annotated[list[list[int]] | None, Meta(description="in place of numbers: true at these")] = None
    listed: Annotated[list[int] | None, Meta(description="in place of numbers: these, int64, in the order of rows")] = (
        None
    )


class Drawn(Form):
    """How a case is drawn: what from, each array's shape and range, the inputs' hash, of each output two sums."""

    seed: str
    arrays: dict[str, Range]
    sha256: Sha256
    checks: dict[str, list[float]]


def inputs_of(drawn: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """The inputs, float64, int64 or bool, by the names of "arrays"; drawn: its "seed" and "arrays", as in `Drawn`."""
    return {name: _array(f"{drawn['seed']} {name}", Range(**entry)) for name, entry in drawn["arrays"].items()}


def _array(seed: str, own: Range) -> np.ndarray:
    if own.marks is not None:
        marked = np.zeros(own.shape, bool)
        marked[tuple(np.transpose(own.marks))] = True
        return marked
    if own.listed is not None:
        return np.array(own.listed, np.int64).reshape(own.shape)
    size = int(np.prod(own.shape, dtype=int))
    u = np.frombuffer(hashlib.shake_256(seed.encode()).digest(2 * size), "<u2").astype(np.float64)
    values = (own.low + (own.high - own.low) * u / 65536).reshape(own.shape)
    if own.integer:
        return np.floor(values).astype(np.int64)
    array = np.asarray(np.round(values * GRID) / GRID * 2.0**own.power)
    if own.form == "skew":
        return np.tril(array, -1) - np.tril(array, -1).T
    return np.tril(array) if own.form == "lower" else array


def hash_of(inputs: Mapping[str, np.ndarray]) -> str:
    """SHA-256 over names, shapes and numbers, little-endian, in the order of the names."""
    whole = hashlib.sha256()
    for name, array in sorted(inputs.items()):
        whole.update(f"{name} {array.shape}".encode())
        whole.update(np.ascontiguousarray(array, "<f8").tobytes())
    return whole.hexdigest()


def checks_of(outputs: Mapping[str, np.ndarray]) -> dict[str, list[float]]:
    """Of each output the sum of its absolute values, and its sum with random signs, which knows where each stands."""
    return {
        name: [float(np.abs(a).sum()), float((_signs(name, a.size) * a.ravel()).sum())] for name, a in outputs.items()
    }


def _signs(name: str, size: int) -> np.ndarray:
    bits = np.unpackbits(np.frombuffer(hashlib.shake_256(name.encode()).digest(size // 8 + 1), np.uint8))
    return 1.0 - 2.0 * bits[:size]


def agree(outputs: Mapping[str, np.ndarray], checks: Mapping[str, list[float]]) -> bool:
    """Whether outputs are those of these checks, but for rounding."""
    found = checks_of(outputs)
    return found.keys() == checks.keys() and all(
        abs(a - b) <= SAME * max(checks[name][0], 1e-300)
        for name in checks
        for a, b in zip(found[name], checks[name], strict=True)
    )
