"""The commands of the README and of the docs, one after the other, as a reader would give them."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# What makes a command of minutes one of seconds, and leaves it the same command.
SHORTER = {
    "train": ["--iterations", "2", "--batch", "2", "--length", "20"],
    "zoo": ["--iterations", "1", "--length", "5"],
    "ablation": ["--scale", "1e-4"],
    "benchmark": ["--rounds", "1", "--seconds", "0", "--only", "parenthesis"],
    "training_speed": ["--rounds", "1", "--seconds", "0", "--only", "parenthesis"],
}


def commands(page):
    """Variables, program and arguments of every `python -m scripts.X` in the page's shell blocks."""
    text = (ROOT / page).read_text()
    for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL):
        for line in block.splitlines():
            words = shlex.split(line, comments=True)
            if "-m" in words:
                python = words.index("-m") - 1
                program, *arguments = words[python + 2 :]
                yield words[:python], program.removeprefix("scripts."), arguments


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "programs"),
    [
        ("README.md", {"train", "evaluate", "plot"}),
        ("docs/training.md", {"train", "evaluate", "plot"}),
        ("docs/models.md", {"train", "zoo", "benchmark"}),
        ("docs/ablations.md", {"ablation"}),
    ],
)
def test_commands_run(page, programs, tmp_path):
    """Each exits 0; resume, evaluate and plot take what the commands before them left."""
    (tmp_path / "FILE").write_text("All work and no play. " * 100)
    ran = []
    for variables, program, arguments in commands(page):
        shorter = [] if "--resume" in arguments else SHORTER.get(program, [])
        environment = os.environ | dict(v.split("=") for v in variables) | {"PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-W", "error", "-m", f"scripts.{program}", *arguments, *shorter]
        result = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert result.returncode == 0, f"{shlex.join(command)}\n{result.stderr}"
        ran.append(program)
    assert programs <= set(ran)
