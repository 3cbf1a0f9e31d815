"""The programs, with a line each: python -m scripts"""

import sys

from scripts.start import programs


def main() -> None:
    """Print them."""
    if given := sys.argv[1:]:
        sys.stderr.write(f"error: a program is started as python -m scripts.NAME; given: {' '.join(given)}\n")
        sys.exit(2)
    found = programs()
    width = max(map(len, found))
    print("\n".join(f"python -m scripts.{name:{width}}  {line}" for name, line in found.items()))
    print("\npython -m scripts.NAME --help has a program's options; python -m ortho_ref.conformance is the kit's.")


if __name__ == "__main__":
    main()
