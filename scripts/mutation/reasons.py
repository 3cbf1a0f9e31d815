"""Mutants that survive, each with its reason: scripts/mutation/survivors.toml."""

import tomllib
from pathlib import Path
from typing import NamedTuple

from scripts.mutation.mutant import Mutant

LISTED = Path(__file__).parent / "survivors.toml"


class Reason(NamedTuple):
    """Why a mutant survives; equivalent: no test can tell it from the code.

    It is found by its file, the class and function it is in, its operator, and the changed lines before and after.
    """

    file: str
    within: str
    operator: str
    before: str
    after: str
    equivalent: bool
    why: str

    @property
    def mutant(self) -> tuple[str, ...]:
        """What it is found by."""
        return self[:5]


def name_of(mutant: Mutant) -> tuple[str, ...]:
    """What a mutant's reason is found by."""
    return mutant.place.file, mutant.place.within, mutant.place.operator, mutant.before, mutant.after


def read(path: Path = LISTED) -> list[Reason]:
    """All of them.  ValueError for one that is not whole, gives no reason, or stands twice."""
    reasons = []
    for entry in tomllib.loads(path.read_text(encoding="utf-8")).get("survivor", []):
        if set(entry) != set(Reason._fields) or not entry["why"].strip():
            raise ValueError(f"{path.name}: an entry of {entry.get('file')} needs {', '.join(Reason._fields)}")
        reasons.append(Reason(**entry))
    names = [reason.mutant for reason in reasons]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ValueError(f"{path.name}: {' '.join(twice[0])} stands twice")
    return reasons


def write_entry(mutant: Mutant) -> str:
    """An entry to be filled in."""
    lines = [f"{key} = {_quoted(value)}" for key, value in zip(Reason._fields[:5], name_of(mutant), strict=True)]
    return "\n".join(["[[survivor]]", *lines, "equivalent = false", 'why = ""', ""])


def _quoted(text: str) -> str:
    return f"'{text}'" if "'" not in text else '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
