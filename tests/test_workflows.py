"""docs/examples for CI: a workflow and an action, whose commands run as they stand.

`tests/test_wheel.py` runs them with their installation.
"""

import os
import re
import shutil
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

import ortho_ref
from ortho_ref.conformance import read_report
from tests.workflows import ACTION, EXAMPLES, ROOT, WORKFLOW, read, run_steps

WHEEL = f"conformance/ortho_ref-{ortho_ref.__version__}-py3-none-any.whl"


@pytest.fixture
def project(tmp_path):
    """Somebody's checkout, with the adapter and the lists; `python` finds the kit."""
    folder = tmp_path / "checkout"
    (folder / "conformance").mkdir(parents=True)
    shutil.copy(EXAMPLES / "adapter.py", folder / "conformance")
    for name in ("required.txt", "xfail.txt"):
        shutil.copy(EXAMPLES / "ci" / name, folder / "conformance")
    return folder


def steps_of(steps):
    """Those that run something, but for the installation."""
    return [step for step in steps if "run" in step and "pip install" not in step["run"]]


def in_checkout(steps, project, own, inputs):
    """Run with the interpreter of the tests, and this checkout's kit."""
    return run_steps(steps, project, Path(sys.executable).parent, own | {"PYTHONPATH": str(ROOT)}, inputs)


def wrong(project):
    """Let the adapter apply the reset gate after U_c."""
    path = project / "conformance" / "adapter.py"
    source = path.read_text()
    path.write_text(source.replace('(r * h[-1]) @ U["c"].T', 'r * (h[-1] @ U["c"].T)'))
    assert path.read_text() != source


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


def test_the_action_is_one():
    """Composite; every input is described and used, every step names its shell, and no script has an expression."""
    document = read(ACTION)
    assert document.keys() == {"name", "description", "inputs", "runs"}
    assert document["runs"]["using"] == "composite"
    used = set()
    for step in document["runs"]["steps"]:
        assert step["shell"] == "bash"
        assert "${{" not in step["run"], "an input would be taken for a script"
        used |= {re.fullmatch(r"\$\{\{ inputs\.(\w+) \}\}", value)[1] for value in step["env"].values()}
        assert set(re.findall(r"\$([A-Z]+)", step["run"])) == step["env"].keys()
    assert used == document["inputs"].keys()
    for name, given in document["inputs"].items():
        assert given["description"]
        assert given.get("required", False) is ("default" not in given), name
    comment = read_comment(ACTION)
    assert WHEEL in comment


def read_comment(path):
    return "".join(line for line in path.read_text().splitlines() if line.startswith("#"))


@pytest.mark.parametrize("right", [True, False])
def test_the_workflows_commands(project, right):
    """They pass with the example's adapter; with a wrong one they fail, say why, and draw the badge all the same."""
    if not right:
        wrong(project)
    (job,) = read(WORKFLOW)["jobs"].values()
    done = in_checkout(steps_of(job["steps"]), project, job["env"], {})
    assert [result.returncode for result in done.values()] == [0 if right else 1, 0], done
    table = done["Run the cases"].stdout
    assert ("::error file=conformance/adapter.py,title=cell/gru_reset_before/tanh::" in table) is not right
    assert ("with the reset gate applied after U_c" in table) is not right
    report = read_report(project / "conformance.json")
    assert report["ok"] is right
    assert ET.parse(project / "conformance.xml").getroot().get("failures") == ("0" if right else "1")
    assert ("1 failed" in (project / "conformance.svg").read_text()) is not right


def test_the_actions_commands(project):
    """With the inputs that are required, and with all; partial cases are no pass there."""
    document = read(ACTION)
    steps = steps_of(document["runs"]["steps"])
    defaults = {name: given.get("default", "") for name, given in document["inputs"].items()}
    own = defaults | {"kit": WHEEL, "adapter": "conformance/adapter.py", "only": "cell/gru_reset_before/*"}
    done = in_checkout(steps, project, {}, own)
    assert [result.returncode for result in done.values()] == [1, 0], done
    folder = project / "conformance-results"
    assert {path.name for path in folder.iterdir()} == {"report.json", "junit.xml", "badge.svg"}
    assert read_report(folder / "report.json")["counts"]["partial"] == 1
    lists = {"required": "conformance/required.txt", "xfail": "conformance/xfail.txt", "output": "out put"}
    done = in_checkout(steps, project, {}, own | {"dtype": "float32"} | lists)
    assert "is required (conformance/required.txt, line 2) and is partial" in done["Run the cases"].stdout
    assert read_report(project / "out put" / "report.json")["dtype"] == "float32"


def test_a_script_is_not_made_of_inputs(project):
    """What a caller gives is an argument, whatever it has in it."""
    document = read(ACTION)
    own = {name: given.get("default", "") for name, given in document["inputs"].items()}
    own |= {"adapter": "$(touch made).py", "output": "out; touch made"}
    done = in_checkout(steps_of(document["runs"]["steps"]), project, {}, own)
    assert done["Run the cases"].returncode == 2
    assert not (project / "made").exists()
    assert sorted(os.listdir(project)) == ["conformance", "out; touch made"]


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
