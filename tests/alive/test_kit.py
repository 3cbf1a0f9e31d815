"""What moves on the pages is verified: its cells and maps pass the conformance kit, and a wrong line is named."""

import subprocess
import sys

import pytest

from ortho_ref.conformance import read_report
from tests.alive.node import NODE, PAGES, ROOT, changed_copy, needs_node

pytestmark = needs_node

#: What the adapter answers.
CELLS = [f"cell/{name}" for name in ("elman", "gru_reset_before", "gru_reset_after", "lstm")]
MAPS = [f"{kind}/{name}" for kind in ("parametrization", "update") for name in ("scaled_cayley", "neumann_cayley")]
#: A line that is wrong, the cases that see it, and what the kit says of it.
WRONG = {
    "the reset gate's factor": (
        "cells.js",
        "const s = each((gate, old) => gate * old, r, h_prev);",
        "const s = h_prev;",
        "cell/gru_reset_before/modrelu-s*",
        "gru_reset_before with no reset gate",
    ),
    "a path back through a gate": (
        "cells.js",
        "const dh_prev = sum(dh_reset, back(w.U_r, da_r), back(w.U_u, da_u));",
        "const dh_prev = sum(dh_reset, back(w.U_u, da_u));",
        "cell/gru_reset_before/modrelu-s*",
        "1 mistake explains 5 of 5 failing cases: path-r",
    ),
    "a power of the series": (
        "maps.js",
        "k < order; k += 1",
        "k <= order; k += 1",
        "update/neumann_cayley/order-*",
        "neumann_cayley with one power too many in the series",
    ),
}


def kit(root, report, *only):
    """The kit over some cases, the program being the adapter below `root`."""
    command = f"{NODE} {root / PAGES / 'adapter.js'} {{input}} {{output}}"
    patterns = [word for one in only for word in ("--only", one)]
    call = [sys.executable, "-m", "ortho_ref.conformance", "run", "--command", command, "--timeout", "300"]
    result = subprocess.run(
        [*call, *patterns, "--report", str(report)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return result.returncode, " ".join(result.stdout.split()), read_report(report)


def test_every_case_passes(tmp_path):
    """Of what the pages compute with, the kit's every case passes: none is partial, none unsupported."""
    code, said, report = kit(ROOT, tmp_path / "report.json", *CELLS, *MAPS, "optimizer", "activation")
    assert (code, {case["status"] for case in report["cases"]}) == (0, {"passed"}), said


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_line_fails_and_is_named(wrong, tmp_path):
    """The kit sees one changed line of the scripts, and says which."""
    file, line, instead, cases, named = WRONG[wrong]
    root = changed_copy(tmp_path, file, line, instead)
    code, said, _ = kit(root, tmp_path / "report.json", cases)
    assert code == 1
    assert named in said


def test_what_it_does_not_know_is_not_answered(tmp_path):
    """A kind, a cell and a map that the pages do not have are unsupported, and no error."""
    cases = ("loss/*", "cell/fastrnn/tanh", "parametrization/exponential")
    code, said, report = kit(ROOT, tmp_path / "report.json", *cases)
    assert {case["status"] for case in report["cases"]} == {"unsupported"}, said
    assert code == 1
