"""pytest --device: only the tests with the fixture device or gpu, each once, on that device, with few examples."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
FILE = "tests/ortho_ref/test_layers.py"


def run(*arguments, **environment):
    """pytest in the checkout, in a process of its own."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments, FILE]
    given = os.environ | environment
    return subprocess.run(command, cwd=ROOT, env=given, capture_output=True, text=True, check=False)


def collected(*arguments):
    return [line for line in run("--collect-only", *arguments).stdout.splitlines() if "::" in line]


def test_a_device_alone_and_every_test_of_it_once():
    """--device selects what -m device does: the tests with the fixture, and no others."""
    plain, gpu = collected(), collected("--device", "gpu")
    assert gpu == collected("-m", "device")
    assert 0 < len(set(gpu)) == len(gpu) < len(plain)
    assert set(gpu) < set(plain)


def test_a_device_that_is_not_there(tmp_path):
    """One line and pytest's exit code for wrong usage, not an error for each test."""
    (tmp_path / "cupy.py").write_text("raise ImportError('no CuPy here', name='cupy')\n")
    result = run("--device", "gpu", PYTHONPATH=f"{tmp_path}{os.pathsep}{ROOT}")
    assert result.returncode == 4
    assert result.stderr.strip().startswith("ERROR: device 'gpu' needs CuPy: pip install cupy-cuda13x")
    assert "passed" not in result.stdout
