"""The programs, with a line each: python -m scripts"""

import sys

from ortho_ref.boundary import nearest
from ortho_ref.terminal import STDERR, STDOUT, shown
from scripts.start import programs


def main() -> None:
    """Print them."""
    found = programs()
    if (given := sys.argv[1:]) not in ([], ["--help"], ["-h"]):
        near = nearest(given[0].removeprefix("scripts."), found)
        STDERR.say(f"error: a program is started as python -m scripts.NAME; given: {shown(' '.join(given))}{near}")
        sys.exit(2)
    width = max(map(len, found))
    lines = [f"python -m scripts.{name:{width}}  {line}" for name, line in found.items()]
    more = "python -m scripts.NAME --help has a program's options; python -m ortho_ref.conformance is the kit's."
    try:
        STDOUT.give("\n".join([*lines, "", more]))
    except OSError as error:
        STDERR.say(f"error: {error}")
        sys.exit(2)


if __name__ == "__main__":
    main()
