"""docs/examples for CI: a workflow whose commands run as they stand.

`tests/test_wheel.py` runs them with their installation.
"""

import re
import shutil
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

import ortho_ref
from tests.workflows import EXAMPLES, ROOT, WORKFLOW, read, run_steps

WHEEL = f"conformance/ortho_ref-{ortho_ref.__version__}-py3-none-any.whl"


@pytest.fixture
def project(tmp_path):
    """Somebody's checkout, with the adapter and the tests; `python` finds the kit."""
    folder = tmp_path / "checkout"
    (folder / "conformance").mkdir(parents=True)
    for path in (EXAMPLES / "adapter.py", EXAMPLES / "ci" / "test_conformance.py"):
        shutil.copy(path, folder / "conformance")
    return folder


def test_the_workflow_is_one():
    """What GitHub asks of one: events, jobs on a machine, steps that use an action of a version or run a command."""
    document = read(WORKFLOW)
    assert document.keys() == {"name", True, "permissions", "jobs"}
    assert document["permissions"] == {"contents": "read"}
    assert read(ROOT / ".github" / "workflows" / "ci.yml").keys() == document.keys() | {"concurrency"}
    (job,) = document["jobs"].values()
    assert job["env"]["KIT"] == WHEEL
    for step in job["steps"]:
        assert ("uses" in step) is not ("run" in step)
        assert re.fullmatch(r"actions/[a-z-]+@v\d+", step.get("uses", "actions/checkout@v4"))


@pytest.mark.parametrize("right", [True, False])
def test_the_workflows_commands(project, right):
    """They pass with the example's adapter; with a wrong one they fail and say why, on the terminal and in the XML."""
    if not right:
        path = project / "conformance" / "adapter.py"
        source = path.read_text()
        path.write_text(source.replace('(r * h[-1]) @ U["c"].T', 'r * (h[-1] @ U["c"].T)'))
        assert path.read_text() != source
    (job,) = read(WORKFLOW)["jobs"].values()
    steps = [step for step in job["steps"] if "run" in step and "pip install" not in step["run"]]
    (result,) = run_steps(steps, project, Path(sys.executable).parent, job["env"] | {"PYTHONPATH": str(ROOT)}).values()
    assert result.returncode == (0 if right else 1), result
    text = (project / "conformance.xml").read_text()
    for said in (result.stdout, text):
        assert ("with the reset gate applied after U_c" in said) is not right
    suite = ET.fromstring(text).find("testsuite")
    assert (suite.get("failures") == "0") is right
    assert int(suite.get("skipped")) > 0


def test_ci_runs_every_target_that_must_pass():
    """`.ci/run` has the targets that CONTRIBUTING says must pass, ci.yml runs it, and the Makefile has them."""
    lines = re.findall(r"^make (.*)$", (ROOT / ".ci" / "run").read_text(), re.M)
    targets = [word for line in lines for word in line.split() if not word.startswith(("-", ".venv"))]
    (first,) = re.findall(r"^(`make lint`.*)must pass", (ROOT / "CONTRIBUTING.md").read_text(), re.M)
    assert sorted(targets) == sorted(re.findall(r"`make ([\w-]+)`", first))
    assert "site-test" in targets
    (job,) = read(ROOT / ".github" / "workflows" / "ci.yml")["jobs"].values()
    assert job["steps"][-1] == {"run": "bash .ci/run"}
    made = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M)
    assert set(targets) <= set(made)
