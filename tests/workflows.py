"""The steps of GitHub's workflows, read and run here as its runner does."""

import os
import subprocess
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "docs" / "examples"
WORKFLOW = EXAMPLES / "ci" / "conformance.yml"
#: Bash as the runner starts it.
SHELL = ["bash", "-e"]


def read(path: Path) -> dict[Any, Any]:
    """A file of YAML; `on` is read as True, as by every reader of YAML 1.1."""
    document = yaml.safe_load(path.read_text())
    assert isinstance(document, dict)
    return document


def run_steps(
    steps: list[dict[str, Any]], folder: Path, python: Path, own: dict[str, str]
) -> dict[str, subprocess.CompletedProcess[str]]:
    """Run the commands as they stand: after one that fails only those that say that they run all the same.

    Parameters
    ----------
    steps : list of dict
        Those with `run`.
    folder : Path
        The checkout.
    python : Path
        The folder that `python` is found in.
    own : dict of str to str
        The job's environment.

    Returns
    -------
    dict of str to CompletedProcess
        By the steps' names, of those that were run.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    kept |= {"PATH": f"{python}{os.pathsep}{kept['PATH']}", "GITHUB_ACTIONS": "true", "GITHUB_WORKSPACE": str(folder)}
    done: dict[str, subprocess.CompletedProcess[str]] = {}
    for step in steps:
        if any(result.returncode for result in done.values()) and step.get("if") != "${{ !cancelled() }}":
            continue
        environment = kept | own
        script = folder.parent / "step.sh"
        script.write_text(step["run"])
        words = [*SHELL, str(script)]
        done[step["name"]] = subprocess.run(
            words, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
    return done
