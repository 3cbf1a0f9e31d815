"""What is made of NVIDIA's compiler's words, and that docs/gpu.md has a row for every kernel."""

import importlib
import inspect
import re
import sys
from pathlib import Path

import pytest

from tests.device import nvrtc

ROOT = Path(__file__).parents[2]
STAGES = {"gates", "state", "meet", "carry"}
KERNELS = ROOT / "ortho_ref" / "fused" / "kernels"
PERSISTENT = ROOT / "ortho_ref" / "fused" / "persistent"


def stages():
    """The names of the kernels: the file's and the stage's; a carry is launched with the next meet, or by itself."""
    for path in sorted(KERNELS.glob("*.py")):
        module = importlib.import_module(f"ortho_ref.fused.kernels.{path.stem}")
        for name, function in inspect.getmembers(module, inspect.isfunction):
            if name in STAGES and function.__module__ == module.__name__:
                yield f"{path.stem}_{name}"


def test_the_page_has_a_row_for_every_kernel():
    """In both precisions, with registers for each architecture, and for none that is gone; none takes more than a
    thread may have."""
    page = (ROOT / "docs" / "gpu.md").read_text()
    table = page.partition(nvrtc.MARKS[0])[2].partition(nvrtc.MARKS[1])[0]
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| \d+ \| (\d+) \| (\d+) \| (\d+) \|", table, re.M)
    named = {(name, precision) for name, precision, *_ in rows}
    ways = [f"{path.stem}_{way}" for path in PERSISTENT.glob("*.cu") for way in ("forward", "backward")]
    names = [*stages(), *ways, "launch_carry_and_meet", "sum_segments"]
    expected = {(name, precision) for name in names for precision in ("float32", "float64")}
    assert expected == named, expected ^ named
    assert all(0 < int(registers) <= 255 for _, _, *row in rows for registers in row)


def test_a_table_has_its_place_in_a_page():
    """What stands around it stays."""
    page = f"before\n{nvrtc.MARKS[0]}old\n{nvrtc.MARKS[1]}after\n"
    assert nvrtc.replaced(page, "new\n") == f"before\n{nvrtc.MARKS[0]}\nnew\n\n{nvrtc.MARKS[1]}after\n"


@pytest.mark.parametrize(
    ("source", "precision"),
    [
        ("#define REAL float\n// REAL is float or double", "float32"),
        ("typedef double T;", "float64"),
        ("const CArray<float, 1, 1, 1> x, const double y", "both"),
    ],
)
def test_a_kernels_precision_is_that_of_its_source(source, precision):
    """Comments aside."""
    assert nvrtc.precision_of(source) == precision


@pytest.mark.parametrize(
    ("line", "double"),
    [
        ("DFMA R4, R2, R6, R8 ;", True),
        ("F2F.F64.F32 R2, R0 ;", True),
        ("DSETP.GEU.AND P0, PT, R2, R4, PT ;", True),
        ("FFMA R4, R2, R6, R8 ;", False),
        ("MUFU.EX2 R4, R2 ;", False),
        ("LDG.E.64 R4, [R2.64] ;", False),
    ],
)
def test_double_instructions_are_known(line, double):
    """Arithmetic and conversions, not loads of 64 bits."""
    assert bool(nvrtc.DOUBLE.search(line)) is double


@pytest.mark.parametrize(
    ("registers", "threads", "occupancy"),
    [
        *((32, 128, 1.0), (33, 128, 0.75), (40, 128, 0.75), (64, 128, 0.5), (255, 128, 0.125)),
        *((64, 512, 0.5), (72, 512, 0.25), (128, 512, 0.25), (136, 512, 0.0)),
    ],
)
def test_occupancy_by_registers(registers, threads, occupancy):
    """As NVIDIA's table has it for compute capabilities 8.0 to 10.0; none where a block's registers do not suffice."""
    assert nvrtc.Kernel("k", "float32", threads, registers, 0, 0).occupancy == occupancy


def test_a_kernel_is_launched_in_blocks_as_large_as_it_says():
    """Every persistent kernel says how large, and no plan has more threads."""
    for path in sorted(PERSISTENT.glob("*.cu")):
        assert [int(found[1]) for found in nvrtc.BOUNDS.finditer(path.read_text())] == [512, 512], path.name


def test_instructions_are_those_of_their_kernel():
    """By addresses, in a listing of all of them; also where one begins within what is five digits long."""
    listing = "\t.headerflags\n /*0000*/  FADD R1 ;\n /*0010*/  @P0 EXIT ;\n /*0020*/  DADD R2 ;\n /*10000*/ NOP;\n"
    assert nvrtc.by_kernel(listing, [32, 65504, 16]) == ["FADD R1 \n@P0 EXIT ", "DADD R2 ", "NOP"]


def test_sections_are_those_of_the_file():
    """Of this Python's own program, whose sections every tool names."""
    found = nvrtc.sections(Path(sys.executable).read_bytes())
    assert {".text", ".shstrtab", ".data"} <= found.keys()
    assert b".shstrtab" in found[".shstrtab"]
