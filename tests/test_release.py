"""What is released: one version and one list of Pythons everywhere, workflows whose actions cannot change, files that
install on every Python that is here (`make dist`).
"""

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from datetime import date
from pathlib import Path

import pytest

import ortho_ref
from hatch_build import absolute
from tests.user import PROGRAM
from tests.workflows import ROOT, read

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PYTHONS = [c.rpartition(" ")[2] for c in PROJECT["classifiers"] if re.search(r"Python :: 3\.\d+$", c)]

#: When the oldest that is promised came out, as SPEC 0's chart has it, and the years after which it may go.
OLDEST = {
    "Python": ("3.11", date(2022, 10, 24), 3),
    "numpy": ("2.0", date(2024, 6, 16), 2),
    "scipy": ("1.13", date(2024, 4, 2), 2),
}
#: The day on which a floor was last raised, or the list begun.
RAISED = date(2026, 11, 23)


def test_the_window_is_no_narrower_than_spec_0s():
    """What SPEC 0 asks for on the day when a floor was last raised is promised: each floor had had its years."""
    promised = dict(re.fullmatch(r"([a-z]+)>=([\d.]+)", line).groups() for line in PROJECT["dependencies"])
    promised["Python"] = PROJECT["requires-python"].removeprefix(">=")
    page = (ROOT / "RELEASING.md").read_text()
    for name, (version, released, years) in OLDEST.items():
        assert promised[name] == version
        assert released.replace(year=released.year + years) <= RAISED, f"{name} {version} may not go yet"
        assert f"{name} {version}" in page


def test_every_python_that_is_named_is_tested():
    """Those of the classifiers, the oldest first, in the release's matrix; 3.14 there is unproven, and may fail."""
    assert PROJECT["requires-python"] == f">={PYTHONS[0]}"
    job = read(ROOT / ".github" / "workflows" / "release.yml")["jobs"]["test"]
    matrix = job["strategy"]["matrix"]
    assert matrix["python"] == PYTHONS
    assert matrix["include"] == [{"python": "3.14", "unproven": True}]
    weekly = read(ROOT / ".github" / "workflows" / "weekly.yml")["jobs"]["weekly"]["strategy"]["matrix"]
    assert {*weekly["python"], *(one["python"] for one in weekly["include"])} == set(PYTHONS)


def test_one_licence():
    """Of the package and the citation."""
    assert read(ROOT / "CITATION.cff")["license"] == PROJECT["license"]


def test_the_readme_of_an_index_has_no_relative_link():
    """Each leads to its file at the tag, a picture to what is in it; what leads elsewhere, or down the page, stays."""
    text = absolute((ROOT / "README.md").read_text(), "https://example.org/o/r", "0.1.0")
    links = re.findall(r"\]\(([^)]*)\)", text)
    assert "https://example.org/o/r/blob/v0.1.0/docs/library.md" in links
    assert "https://example.org/o/r/raw/v0.1.0/docs/demo.svg" in links
    assert "#check-your-implementation" in links
    assert [link for link in links if not link.startswith(("https://", "#"))] == []


def test_every_command_is_a_target():
    """What the workflows and RELEASING.md run is `make TARGET`, or .ci/run, so that all of it can be run here."""
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M))
    for path in WORKFLOWS:
        for command in re.findall(r"run: (.*)", path.read_text()):
            assert command in ("make ${{ matrix.target }}", "bash .ci/run") or command.split()[1] in targets, command
    weekly = read(ROOT / ".github" / "workflows" / "weekly.yml")["jobs"]["weekly"]["strategy"]["matrix"]
    assert {target.split()[0] for target in weekly["target"]} <= targets
    named = set(re.findall(r"`make ([\w-]+)`", (ROOT / "RELEASING.md").read_text()))
    assert {"dist", "dist-test", "review"} <= named <= targets


def python(version):
    """An interpreter of this version that runs: on the path, or one of pyenv's, whose shims need not."""
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    candidates = [shutil.which(f"python{version}"), *sorted(versions.glob(f"{version}.*/bin/python3"))]
    for one in filter(None, candidates):
        if subprocess.run([one, "-c", ""], capture_output=True, check=False).returncode == 0:
            return one
    return None


@pytest.fixture(scope="module")
def wheel():
    """That of `dist/`."""
    found = list((ROOT / "dist").glob(f"ortho_ref-{ortho_ref.__version__}-*.whl"))
    if len(found) != 1:
        pytest.fail(f"dist/ has {len(found)} wheels of {ortho_ref.__version__}: make dist")
    return found[0]


@pytest.mark.release
def test_the_project_has_an_address():
    """What is published says where it comes from.  Until there is an address it is skipped, but from a tag."""
    if "urls" not in PROJECT and not os.environ.get("GITHUB_REF", "").startswith("refs/tags/v"):
        pytest.skip("no address yet: RELEASING.md, once, before the first release")
    assert {"Homepage", "Source", "Documentation", "Changelog", "Issues"} <= PROJECT["urls"].keys()
    assert read(ROOT / "CITATION.cff")["repository-code"]


@pytest.mark.release
@pytest.mark.parametrize("version", [*PYTHONS, "3.14"])
def test_a_fresh_environment(version, wheel, tmp_path):
    """From the wheel, with what it requires: the kit's list, and the README's ten lines, a warning being an error.

    mypy, which is not in the environment itself, finds the types there.
    """
    interpreter = python(version)
    if interpreter is None:
        pytest.skip(f"there is no Python {version}")
    subprocess.run([interpreter, "-m", "venv", tmp_path / "venv"], check=True, capture_output=True)
    own = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}

    def call(*words):
        command = [tmp_path / "venv" / "bin" / "python", *words]
        return subprocess.run(command, cwd=tmp_path, env=own, capture_output=True, text=True, check=False)

    installed = call("-m", "pip", "install", "--no-input", "--quiet", "--only-binary", ":all:", wheel)
    assert installed.returncode == 0, installed.stderr
    assert call("-m", "pip", "check").returncode == 0
    listed = call("-W", "error", "-m", "ortho_ref.conformance", "list")
    assert (listed.returncode, listed.stderr) == (0, "")
    ten = next(b for b in re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S) if "nc_gru" in b)
    (tmp_path / "ten.py").write_text(ten)
    done = call("-W", "error", "ten.py")
    assert (done.returncode, done.stderr) == (0, "")
    health = ast.literal_eval(done.stdout.splitlines()[-1])
    assert health["U_c"]["defect"] < 1e-3  # an update's; Algorithm 1 takes it back at the next reset
    (tmp_path / "mine.py").write_text(PROGRAM)
    words = ["--strict", "--follow-imports=silent", "--python-executable", tmp_path / "venv" / "bin" / "python"]
    words += ["mine.py"]
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", *words], cwd=tmp_path, env=own, capture_output=True, text=True, check=False
    )
    assert checked.stdout.startswith("Success"), checked.stdout
    versions = call("-c", "import numpy, scipy; print(numpy.__version__, scipy.__version__)").stdout
    print(f"Python {version}: NumPy and SciPy {versions.strip()}")
