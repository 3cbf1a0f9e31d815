"""The wheel: what it holds, and that it is all that the conformance kit needs."""

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import ortho_ref

ROOT = Path(__file__).parent.parent
pytestmark = pytest.mark.install


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Built as for a release."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    (path,) = folder.glob("*.whl")
    return path


def test_the_wheel_holds_ortho_ref_only(wheel):
    """Its modules and the conformance kit's vectors, no other package; only the core dependencies are required."""
    assert wheel.name.startswith(f"ortho_ref-{ortho_ref.__version__}-")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (metadata,) = (archive.read(n).decode() for n in names if n.endswith("dist-info/METADATA"))
    roots = {name.split("/")[0] for name in names}
    assert {root for root in roots if not root.endswith(".dist-info")} == {"ortho_ref"}
    packaged = {name for name in names if name.startswith("ortho_ref/")}
    modules = {str(path.relative_to(ROOT)) for path in (ROOT / "ortho_ref").rglob("*.py")}
    vectors = {str(path.relative_to(ROOT)) for path in (ROOT / "ortho_ref/conformance/vectors").iterdir()}
    assert len(vectors) > 1
    assert packaged == modules | vectors
    required = re.findall(r"^Requires-Dist: ([\w-]+)[^;\n]*$", metadata, re.MULTILINE)
    assert sorted(required) == ["numpy", "safetensors", "scipy"]


ADAPTER = """
import numpy as np

def run(case):
    if case.kind != "activation" or case.config["activation"] != "tanh":
        return None
    y = np.tanh(case.inputs["a"] + case.inputs["b"])
    d_a = case.inputs["dy"] * (1 - y * y)
    return {"y": y, "d_a": d_a, "d_b": d_a.sum(axis=0)}
"""


def test_the_conformance_kit_needs_the_wheel_alone(wheel, tmp_path):
    """In a fresh environment with it and what it requires, without rich or pytest: list, and a ten-line adapter."""
    python = tmp_path / "venv" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True, capture_output=True)
    own = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}

    def call(*arguments):
        return subprocess.run([python, *arguments], cwd=tmp_path, env=own, capture_output=True, text=True, check=False)

    installed = call("-m", "pip", "install", "--no-input", "--retries", "0", wheel)
    if installed.returncode and re.search(r"ConnectionError|NewConnection|No matching distribution", installed.stderr):
        pytest.skip(f"pip cannot reach an index: {installed.stderr.strip().splitlines()[-1]}")
    assert installed.returncode == 0, installed.stderr
    for absent in ("rich", "pytest", "torch", "typer", "tests", "scripts"):
        assert call("-c", f"import {absent}").returncode == 1, absent
    listed = call("-W", "error", "-m", "ortho_ref.conformance", "list")
    assert (listed.returncode, listed.stderr) == (0, "")
    assert "cell/gru_reset_before/modrelu" in listed.stdout
    (tmp_path / "mine.py").write_text(ADAPTER)
    result = call("-W", "error", "-m", "ortho_ref.conformance", "run", "--adapter", "mine.py", "--only", "activation/*")
    assert (result.returncode, result.stderr) == (0, ""), result.stdout
    assert "2 passed, 0 failed, 0 partial" in result.stdout
    (tmp_path / "mine.py").write_text(ADAPTER.replace("1 - y * y", "1 - y"))
    assert call("-m", "ortho_ref.conformance", "run", "--adapter", "mine.py", "--only", "activation/*").returncode == 1
