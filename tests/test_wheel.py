"""What is built: the sdist, what the wheel holds, and that it is all that the conformance kit needs."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
import zipfile
from pathlib import Path

import pytest

import ortho_ref
from tests.workflows import EXAMPLES, WORKFLOW, read, run_steps

ROOT = Path(__file__).parent.parent
pytestmark = pytest.mark.install


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The folder of the sdist and of the wheel, which is built from the sdist: as for a release."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def wheel(built):
    """The one that was built."""
    (path,) = built.glob("*.whl")
    return path


def test_the_sdist_holds_every_file(built):
    """Every file of the checkout that git does not ignore, and PKG-INFO: its tests and pages find what they name."""
    git = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    listed = subprocess.run(git, check=True, capture_output=True, text=True).stdout.split("\0")
    (path,) = built.glob("*.tar.gz")
    root = path.name.removesuffix(".tar.gz")
    with tarfile.open(path) as archive:
        held = {member.name.removeprefix(f"{root}/") for member in archive if member.isfile()}
    assert held == {name for name in listed if name and (ROOT / name).exists()} | {"PKG-INFO"}


def test_the_wheel_holds_ortho_ref_only(wheel):
    """Its modules, CUDA sources and the conformance kit's vectors, no other package; only the core is required."""
    assert wheel.name.startswith(f"ortho_ref-{ortho_ref.__version__}-")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (metadata,) = (archive.read(n).decode() for n in names if n.endswith("dist-info/METADATA"))
    roots = {name.split("/")[0] for name in names}
    assert {root for root in roots if not root.endswith(".dist-info")} == {"ortho_ref"}
    packaged = {name for name in names if name.startswith("ortho_ref/")}
    modules = {
        str(path.relative_to(ROOT)) for path in (ROOT / "ortho_ref").rglob("*") if path.suffix in (".py", ".cu", ".cuh")
    }
    vectors = {str(path.relative_to(ROOT)) for path in (ROOT / "ortho_ref/conformance/vectors").iterdir()}
    assert len(vectors) > 1
    assert packaged == modules | vectors | {"ortho_ref/py.typed", "ortho_ref/CITATION.cff"}
    required = re.findall(r"^Requires-Dist: ([\w-]+)[^;\n]*$", metadata, re.MULTILINE)
    assert sorted(required) == ["msgspec", "numpy", "safetensors", "scipy"]


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
    command = subprocess.run(
        [python.with_name("ortho-ref"), "check", "mine.py", "--only", "activation/*"],
        cwd=tmp_path,
        env=own,
        capture_output=True,
        text=True,
        check=False,
    )
    assert command.stdout.splitlines()[-1] == result.stdout.splitlines()[-1]
    assert call("-m", "ortho_ref", "cite").stdout == (ROOT / "CITATION.cff").read_text()
    (tmp_path / "mine.py").write_text(ADAPTER.replace("1 - y * y", "1 - y"))
    assert call("-m", "ortho_ref.conformance", "run", "--adapter", "mine.py", "--only", "activation/*").returncode == 1


@pytest.fixture(scope="module")
def fresh(wheel, tmp_path_factory):
    """The `bin` of a fresh environment, which sees what is installed here but this project.  Nothing is downloaded."""
    folder = tmp_path_factory.mktemp("fresh")
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True, capture_output=True)
    others = folder / "others"
    others.mkdir()
    for place in dict.fromkeys(Path(p) for p in sys.path if Path(p).name in ("site-packages", "dist-packages")):
        for path in place.iterdir():
            if not re.match(r"(__editable__\.?_*|_?)?ortho_ref|__pycache__|pip\b", path.name) and path.suffix != ".pth":
                (others / path.name).exists() or (others / path.name).symlink_to(path)
    (packages,) = (folder / "venv" / "lib").glob("python*/site-packages")
    (packages / "others.pth").write_text(f"{others}\n")
    return folder / "venv" / "bin"


def in_fresh(fresh, folder, *words):
    """A command there; warnings of the frameworks are theirs."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    if "KERAS_BACKEND" not in own:
        backends = {"jax": "jax", "tensorflow": "tensorflow", "torch": "torch"}
        own |= {"KERAS_BACKEND": next((b for b in backends if importlib.util.find_spec(b)), "jax")}
    words = [str(fresh / "python"), *map(str, words)]
    return subprocess.run(words, cwd=folder, env=own, capture_output=True, text=True, check=False)


#: The examples of the two pages, in their order.
MINUTES = ("torch", "keras", "jax")


def two_minutes():
    """The page that begins, and the one on adapters."""
    return "".join((ROOT / "docs" / name).read_text() for name in ("conformance.md", "check/adapters.md"))


def examples():
    """Framework -> the pages' Python, as it stands: whole programs, which import what they use."""
    blocks = re.findall(r"```py\n(.*?)```", two_minutes(), re.DOTALL)
    return dict(zip(MINUTES, (block for block in blocks if block.startswith("import ")), strict=True))


@pytest.fixture(scope="module")
def installed(wheel, fresh, tmp_path_factory):
    """Seconds that pip took for the wheel; pip finds there what the wheel requires."""
    before = time.perf_counter()
    done = in_fresh(fresh, tmp_path_factory.mktemp("pip"), "-m", "pip", "install", "--no-index", wheel)
    assert done.returncode == 0, done.stderr
    return time.perf_counter() - before


@pytest.mark.parametrize("framework", MINUTES)
def test_two_minutes(fresh, installed, tmp_path, framework):
    """The page's examples as it prints them, from the wheel; the seconds are said, and are no condition."""
    if importlib.util.find_spec(framework) is None:
        pytest.skip(f"{framework} is not installed")
    where = in_fresh(fresh, tmp_path, "-c", "import ortho_ref; print(ortho_ref.__file__)")
    assert where.stdout.startswith(str(fresh.parent)), where.stderr
    (tmp_path / "mine.py").write_text(examples()[framework])
    before = time.perf_counter()
    done = in_fresh(fresh, tmp_path, "mine.py")
    seconds = time.perf_counter() - before
    print(f"{framework}: pip install {installed:.1f} s, the first verdict {seconds:.1f} s after it")
    assert done.returncode == 0, done.stderr
    last = done.stdout.splitlines()[-1]
    counts = dict(reversed(part.split()) for part in last.partition(";")[0].split(", "))
    if framework == "jax":  # the example has the mistake that it is there to show, and the page shows what is said
        page = (ROOT / "docs/check/adapters.md").read_text()
        (printed,) = re.findall(r"```text\n(.*?) \.\.\.\n```", page, re.DOTALL)
        for part in printed.split("\n\n"):
            assert " ".join(part.split()) in " ".join(done.stdout.split())
        assert (counts["failed"], counts["passed"]) == ("12", "0")
    else:
        assert counts["failed"] == counts["partial"] == "0"
        assert int(counts["passed"]) > 0


def test_ci_installs_the_kit_and_runs_it(wheel, tmp_path, fresh):
    """Every command of the example for CI, from pip on, as they stand; the wheel lies where they say."""
    folder = tmp_path / "checkout" / "conformance"
    folder.mkdir(parents=True)
    for path in (EXAMPLES / "adapter.py", EXAMPLES / "ci" / "test_conformance.py", wheel):
        shutil.copy(path, folder)
    (job,) = read(WORKFLOW)["jobs"].values()
    steps = [step for step in job["steps"] if "run" in step]
    done = run_steps(steps, tmp_path / "checkout", fresh, {"PIP_NO_INDEX": "1"} | job["env"])
    assert [result.returncode for result in done.values()] == [0, 0], done
    assert 'failures="0"' in (tmp_path / "checkout" / "conformance.xml").read_text()
