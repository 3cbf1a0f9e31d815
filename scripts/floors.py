"""The oldest versions that pyproject.toml promises, as constraints for pip: python -m scripts.floors test

Of the core dependencies and of the dependency groups and extras that are named. It needs Python alone, as it runs
before anything is there.
"""

import re
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


def floors(document: dict[str, Any], names: Sequence[str]) -> list[str]:
    """name==version of each dependency.  ValueError for one that names no oldest version."""
    lines = [*document["project"]["dependencies"]]
    for name in names:
        lines += _listed(document, name)
    return list(dict.fromkeys(_floor(line) for line in lines))


def _listed(document: dict[str, Any], name: str) -> Iterator[str]:
    """The dependencies of a group or an extra, with those of what it includes."""
    project = document["project"]
    lists = {**project["optional-dependencies"], **document["dependency-groups"]}
    for line in lists[name]:
        if isinstance(line, dict):
            yield from _listed(document, line["include-group"])
        elif included := re.fullmatch(rf"{project['name']}\[([\w,]+)\]", line):
            for one in included[1].split(","):
                yield from _listed(document, one)
        else:
            yield line


def _floor(line: str) -> str:
    # a constraint names no extras of what it constrains
    found = re.fullmatch(r"([\w-]+)(?:\[[\w,]+\])?(?:>=|==)([\w.]+)(?:,<[\w.]+)?", line)
    if found is None:
        raise ValueError(f"{line!r} in pyproject.toml has no oldest version; expected name>=version")
    return f"{found[1]}=={found[2]}"


def main() -> None:
    """Print the constraints for the groups and extras on the command line."""
    print(*floors(tomllib.loads((ROOT / "pyproject.toml").read_text()), sys.argv[1:]), sep="\n")


if __name__ == "__main__":
    main()
