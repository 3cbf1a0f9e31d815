"""Departures that are known: the implementation is held to the reference with these, and everything else is checked.

    --assume u-keeps,reset-after          names of mistakes, as `mistakes` lists them
    --assume departures.txt               a file: one line a name, and after it the reason

    # departures.txt
    u-keeps       u is the weight of the old state, as in PyTorch
    reset-after   as cuDNN does

Empty lines, and what follows a # at the beginning of a line, are left out.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice, permutations
from pathlib import Path

import numpy as np

from ortho_ref import files
from ortho_ref.boundary import kind_of, nearest
from ortho_ref.conformance.cases.case import Arrays, Vector
from ortho_ref.conformance.findings import Assume, Assumed
from ortho_ref.conformance.mistakes import MISTAKES
from ortho_ref.conformance.mistakes.mistake import Combination, tried

#: Orders of departures that are tried.
_ORDERS = 120


def held(chosen: Sequence[Vector], assume: Assume, own: Sequence[str] = ()) -> tuple[list[Vector], tuple[Assumed, ...]]:
    """Cases with the answers of an implementation with known departures, and each departure with those that it changes.

    own is what the implementation says of itself; told where it matters.  ValueError for a name that is no mistake's,
    or twice, a file that is no such list, and departures that do not go together.
    """
    reasons = dict.fromkeys(own, "") | _reasons(assume)
    named = {mistake.name: mistake for mistake in MISTAKES}
    for name in reasons:
        if name not in named:
            near = nearest(name, named)
            raise ValueError(f"assume has {name!r}{near}, which is no mistake; `ortho-ref mistakes` lists them")
    assumed = tuple(named[name] for name in reasons)
    vectors = [_held(vector, tuple(m for m in assumed if m.applies(vector.case))) for vector in chosen]
    departed = [(v.id, {mistake.name for mistake in v.assumed}) for v in vectors]
    changed = {name: tuple(id for id, names in departed if name in names) for name in reasons}
    told = tuple(
        Assumed(m.name, m.says, reasons[m.name], changed[m.name])
        for m in assumed
        if changed[m.name] or m.name not in own
    )
    return vectors, told


def _reasons(assume: Assume) -> dict[str, str]:
    """Name -> reason, "" for none."""
    if assume is None:
        return {}
    if isinstance(assume, Mapping):
        return dict(assume)
    if isinstance(assume, str):
        if "," not in assume and os.path.isfile(assume):  # a Path raises for a name that is too long for a file
            return _listed(Path(assume))
        assume = assume.split(",")
    if not isinstance(assume, Iterable):
        raise TypeError(f"assume is {kind_of(assume)}; allowed: names of mistakes, or names with reasons")
    names = [str(name).strip() for name in assume]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ValueError(f"assume has {twice[0]!r} twice")
    return dict.fromkeys(names, "")


def _listed(path: Path) -> dict[str, str]:
    """What a file lists."""
    found: dict[str, str] = {}
    try:
        lines = files.read(path).decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is no text in UTF-8: {error.reason} at byte {error.start}") from None
    for number, line in enumerate(lines, 1):
        name, reason = (*line.split(maxsplit=1), "", "")[:2]
        if not name or name.startswith("#"):
            continue
        if not reason:
            raise ValueError(f"{path}, line {number}: {name} has no reason; expected one after it")
        if name in found:
            raise ValueError(f"{path}, line {number}: {name} is there twice")
        found[name] = reason.strip()
    return found


def _held(vector: Vector, assumed: Combination) -> Vector:
    """A case with what applies to it."""
    if not assumed:
        return vector
    assumed, outputs = _together(vector, assumed)
    expected = {name: np.asarray(outputs[name]) for name in vector.expected}
    kept = {name for name, array in expected.items() if np.array_equal(array, vector.expected[name])}
    low, high = ({name: a for name, a in limits.items() if name in kept} for limits in (vector.low, vector.high))
    case = replace(vector.case, outputs={name: array.shape for name, array in expected.items()})
    return replace(vector, case=case, expected=expected, low=low, high=high, assumed=assumed, whole=vector)


def _together(vector: Vector, assumed: Combination) -> tuple[Combination, Arrays]:
    """Departures in an order in which each has its effect, and their outputs: of two, one may hide the other."""
    active = [m for m in assumed if not _equal(tried((m,), vector), vector.expected)]
    for ordered in islice(permutations(assumed), _ORDERS):
        outputs = tried(ordered, vector)
        if outputs is None or not all(np.isfinite(array).all() for array in outputs.values()):
            continue
        rest = (tuple(m for m in ordered if m is not one) for one in active)
        if not any(_equal(tried(own, vector), outputs) for own in rest):
            return ordered, outputs
    names = " and ".join(mistake.name for mistake in assumed)
    raise ValueError(f"assume has {names}, which do not go together in {vector.id}")


def _equal(outputs: Arrays | None, other: Arrays) -> bool:
    return outputs is not None and all(np.allclose(outputs[name], other[name], 1e-12, 1e-12) for name in other)
