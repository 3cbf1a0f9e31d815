"""The oldest versions that pyproject.toml promises, as constraints for pip: python -m scripts.floors test

Of the core dependencies and of the extras that are named. It needs Python alone, as it runs before anything is there.
"""

import re
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


def floors(project: dict[str, Any], extras: Sequence[str]) -> list[str]:
    """name==version of each dependency.  ValueError for one that names no oldest version."""
    lines = [*project["dependencies"]]
    for extra in extras:
        lines += _listed(project, extra)
    return list(dict.fromkeys(_floor(line) for line in lines))


def _listed(project: dict[str, Any], extra: str) -> Iterator[str]:
    """An extra's dependencies, with those of the extras that it includes."""
    for line in project["optional-dependencies"][extra]:
        if included := re.fullmatch(rf"{project['name']}\[([\w,]+)\]", line):
            for one in included[1].split(","):
                yield from _listed(project, one)
        else:
            yield line


def _floor(line: str) -> str:
    # a constraint names no extras of what it constrains
    found = re.fullmatch(r"([\w-]+)(?:\[[\w,]+\])?(?:>=|==)([\w.]+)(?:,<[\w.]+)?", line)
    if found is None:
        raise ValueError(f"{line!r} in pyproject.toml has no oldest version; expected name>=version")
    return f"{found[1]}=={found[2]}"


def main() -> None:
    """Print the constraints for the extras on the command line."""
    print(*floors(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"], sys.argv[1:]), sep="\n")


if __name__ == "__main__":
    main()
