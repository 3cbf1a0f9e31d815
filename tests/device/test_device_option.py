"""pytest --device: only the tests with the device fixture, each once, on that device, with few examples."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import DEVICE_EXAMPLES

ROOT = Path(__file__).parent.parent.parent
FILES = ("tests/ortho_ref/test_losses.py", "tests/ortho_ref/test_optimizers.py", "tests/device/test_standin.py")


def run(*arguments):
    """Standard output of pytest in the checkout."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout


def collected(*arguments):
    """The ids that pytest would run."""
    return [line for line in run("--collect-only", *arguments, *FILES).splitlines() if "::" in line]


def test_a_device_alone_and_every_test_of_it_once():
    """The ids with --device gpu are those of the stand-in without it; no test without the fixture is among them."""
    plain, gpu = collected(), collected("--device", "gpu")
    on_standin = [name.replace("stand-in", "gpu") for name in plain if "stand-in" in name]
    assert sorted(gpu) == sorted(on_standin)
    assert len(set(gpu)) == len(gpu) > 20
    assert not [name for name in gpu if "test_standin.py" in name or "stand-in" in name or "[cpu" in name]
    assert len(plain) > 2 * len(gpu)  # those without the fixture


def test_the_marker_device():
    """-m device is every test with the fixture, on the host and on the stand-in; -m "not device" the others."""
    marked, others, plain = collected("-m", "device"), collected("-m", "not device"), collected()
    assert sorted(marked + others) == sorted(plain)
    assert {bool(re.search(r"\[(cpu|stand-in)\b", name)) for name in marked} == {True}


@pytest.mark.parametrize(("arguments", "fewer"), [(["--device", "stand-in"], True), ([], False)])
def test_few_examples_on_a_device(arguments, fewer):
    """A test that asks for more by itself is held to as many; without --device it has its own number."""
    statistics = run("--hypothesis-show-statistics", *arguments, "tests/ortho_ref/test_layers.py")
    counts = [int(count) for count in re.findall(r"- (\d+) passing", statistics)]
    assert counts
    assert (max(counts) <= DEVICE_EXAMPLES) == fewer


def test_a_device_that_is_not_there(tmp_path):
    """One line and pytest's exit code for wrong usage, not an error for each test."""
    (tmp_path / "cupy.py").write_text("raise ImportError('no CuPy here', name='cupy')\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--device", "gpu", *FILES]
    environment = os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 4
    assert result.stderr.strip().startswith("ERROR: device 'gpu' needs CuPy: pip install cupy-cuda13x")
    assert "passed" not in result.stdout
