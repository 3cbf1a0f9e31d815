"""What is made of NVIDIA's compiler's words."""

import re
from pathlib import Path

import pytest

from tests.device import nvrtc

PERSISTENT = Path(__file__).parents[2] / "ortho_ref" / "fused" / "persistent"


@pytest.mark.parametrize(
    ("source", "line", "told"),
    [
        ("float x; // or double", "DFMA R4, R2, R6, R8 ;", ["1 double instructions in float32"]),
        ("float x;", "F2F.F64.F32 R2, R0 ;", ["1 double instructions in float32"]),
        ("float x;", "LDL R2, [R1] ; DADD R2 ;", ["1 local loads and stores", "1 double instructions in float32"]),
        ("typedef double T;", "DFMA R4, R2, R6, R8 ;", []),
        ("const CArray<float, 1, 1, 1> x, const double y", "DSETP.GEU.AND P0, PT, R2, R4, PT ;", []),
        ("float x;", "FFMA R4, R2, R6, R8 ; MUFU.EX2 R4, R2 ; LDG.E.64 R4, [R2.64] ;", []),
    ],
)
def test_what_is_wrong_with_instructions(source, line, told):
    """Double arithmetic and conversions where the source has float alone, and registers kept in local memory."""
    assert nvrtc.faults(source, line) == told


def test_a_persistent_kernel_says_how_large_its_blocks_are():
    """As large as a plan's largest, so that the compiler leaves registers for that."""
    for path in sorted(PERSISTENT.glob("*.cu")):
        assert re.findall(r"__launch_bounds__\s*\(\s*(\d+)", path.read_text()) == ["512", "512"], path.name
