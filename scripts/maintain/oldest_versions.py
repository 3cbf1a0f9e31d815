"""The oldest versions that pyproject.toml promises, for pip: python -m scripts.maintain.oldest_versions test

Of the core dependencies and of the dependency groups and extras that are named. It needs Python alone, as it runs
before anything is there.
"""

import re
import sys
import textwrap
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ortho_ref.terminal import STDERR, STDOUT, open_standard_streams, shown

ROOT = Path(__file__).parents[2]
USAGE = """Usage: python -m scripts.maintain.oldest_versions [GROUP ...]

The oldest versions that pyproject.toml promises, as constraints for pip: of the
core, and of these groups and extras.
"""


def floors(document: dict[str, Any], names: Sequence[str]) -> list[str]:
    """name==version of each dependency.  ValueError for one that names no oldest version, or a group that is none."""
    lines = [*document["project"]["dependencies"]]
    for name in names:
        lines += _listed(document, name)
    return list(dict.fromkeys(_floor(line) for line in lines))


def _groups(document: dict[str, Any]) -> dict[str, Any]:
    """Every extra and every group of dependencies, by its name."""
    return {**document["project"]["optional-dependencies"], **document["dependency-groups"]}


def _listed(document: dict[str, Any], name: str) -> Iterator[str]:
    """The dependencies of a group or an extra, with those of what it includes."""
    project, lists = document["project"], _groups(document)
    if name not in lists:
        raise ValueError(f"GROUP is {name!r}; allowed: {', '.join(lists)}")
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
    open_standard_streams()
    given = sys.argv[1:]
    document = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    if "--help" in given:
        listed = textwrap.fill(", ".join(_groups(document)), 80, initial_indent="GROUP  ", subsequent_indent=" " * 7)
        STDOUT.say(f"{USAGE}\n{listed}")
        return
    try:
        if options := [word for word in given if word.startswith("-")]:
            raise ValueError(f"there is no option {options[0]}; allowed: --help")
        STDOUT.give("\n".join(floors(document, given)))
    except (ValueError, OSError) as error:
        STDERR.say(f"error: {shown(error)}")
        sys.exit(2)


if __name__ == "__main__":
    main()
