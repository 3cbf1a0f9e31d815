"""The kit's command `map`: its arguments, and what it does."""

import argparse
from collections.abc import Callable
from pathlib import Path

from ortho_ref.conformance.maps.check import TOLERANCE, check_limits, check_run
from ortho_ref.conformance.running.implementation import Run
from ortho_ref.conformance.written import check_places, write
from ortho_ref.terminal import STDOUT, shown_lines

HELP = "any orthogonal map Q -> U: which it is, how orthogonal, and its gradient"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Those of the command."""
    parser.add_argument("--adapter", required=True, metavar="FILE.py|package.module", help="a module with map(Q)")
    parser.add_argument(
        "--tolerance",
        type=float,
        default=TOLERANCE,
        metavar="DEFECT",
        help=f"the largest that passes (default: {TOLERANCE:g}; in float32 at least 1e-4)",
    )
    parser.add_argument(
        "--range",
        type=_range,
        metavar="LOW:HIGH",
        help="of ||Q||_2, where it has to (default: 1e-12:1; where the scale of Q does not matter, of its condition "
        "number, 1:100)",
    )
    parser.add_argument("--complex", action="store_true", help="complex Q count as well")
    parser.add_argument("--svg", type=Path, metavar="OUT.svg", help="draw the defect over the size of Q")
    parser.add_argument("--report", type=Path, metavar="OUT.json", help="write the report as JSON")
    parser.add_argument("--timeout", type=float, metavar="SECONDS", help="for each call (default: 60)")
    parser.add_argument("--in-process", action="store_true", help="run it in the kit's own process, to debug it")
    parser.set_defaults(command=None)


def _range(text: str) -> tuple[float, float]:
    low, colon, high = text.partition(":")
    try:
        return float(low), float(high if colon else low)
    except ValueError:
        raise argparse.ArgumentTypeError(f"range is {text!r}; allowed: LOW:HIGH, as 0.001:1") from None


def run(given: argparse.Namespace, implementation: Callable[[], Run]) -> int:
    """Check a map, say what was found, and write it.  0 where the report is `ok`, or 1."""
    check_limits(given.tolerance, given.range)
    check_places({"--report": given.report, "--svg": given.svg})
    own = {"tolerance": given.tolerance, "range": given.range, "complex": given.complex, "name": given.adapter}
    report = check_run(implementation(), **own)
    failed = []
    if given.report is not None:
        failed.append(write("--report", given.report, report.as_json() + "\n"))
    if given.svg is not None and report.curves:
        failed.append(write("--svg", given.svg, report.svg()))
    STDOUT.give(shown_lines(str(report)))
    for error in failed:  # not before the report, which is all that there is of the check then
        if error is not None:
            raise error
    return 0 if report.ok else 1
