"""Train, evaluate, plot, an experiment and the kit with what Windows has: tests/windows/sitecustomize.py."""

import os
import subprocess
import sys

import pytest

from tests.scripts.runs import ROOT

PATHS = [str(ROOT / "tests" / "windows"), str(ROOT)]
SMALL = ("--hidden", "8", "--batch", "4", "--iterations", "20", "--eval-every", "10")
EXPERIMENT = """format = "ortho_ref experiment 1"
title = "Small"
seeds = 2
options = { task = "parenthesis", batch = 4, iterations = 20, hidden = 8, eval_every = 10, model = "gru" }
[[column]]
name = "all"
[[row]]
name = "GRU"
"""


@pytest.fixture
def windows(tmp_path):
    """A Python program there, in a folder of its own: its output, or what it refuses."""
    (tmp_path / "small.toml").write_text(EXPERIMENT)

    def run(*words, code=0):
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(PATHS), "PYTHONWARNINGS": "error"}
        done = subprocess.run(
            [sys.executable, *words], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == code, done.stderr
        return done.stdout if code == 0 else done.stderr

    return run


def test_a_run_from_its_beginning_to_its_picture(windows, tmp_path):
    """It trains, goes on, is evaluated and drawn; the files are those that a run has."""
    windows("-m", "scripts.train", "parenthesis", "--out", "run", *SMALL)
    windows("-m", "scripts.train", "parenthesis", "--out", "run", "--resume", "--iterations", "30")
    assert "evaluation_loss" in windows("-m", "scripts.evaluate", "run")
    windows("-m", "scripts.plot", "run", "--out", "run.png")
    names = {"config.json", "metrics.jsonl", "summary.json", "last.safetensors", "best.safetensors", "curve.png"}
    assert (tmp_path / "run.png").is_file()
    assert {path.name for path in (tmp_path / "run").iterdir()} >= names
    assert len((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()) == 3


def test_an_experiment(windows):
    """Workers of its own, a table, a picture."""
    windows("-m", "scripts.experiment", "run", "small.toml", "--out", "all", "--no-estimate")
    assert "| GRU | all | 2 | " in windows("-m", "scripts.experiment", "table", "small.toml", "--out", "all")
    windows("-m", "scripts.experiment", "plot", "small.toml", "--out", "all")


def test_the_kit(windows, tmp_path):
    """A verdict of an adapter that is right, and of one that is wrong."""
    windows("-m", "ortho_ref", "new", "--torch", "gru", "--out", "cell.py")
    right = "from ortho_ref.conformance.cases.reference import outputs\ndef run(case):\n    return {}"
    (tmp_path / "mine.py").write_text(right.format("outputs(case)"))
    assert "4 passed" in windows("-m", "ortho_ref", "check", "mine.py", "--only", "loss/cross_entropy*")
    (tmp_path / "mine.py").write_text(right.format("{name: 2 * a for name, a in outputs(case).items()}"))
    windows("-m", "ortho_ref", "check", "mine.py", "--only", "loss/cross_entropy*", code=1)


def test_two_processes(windows, tmp_path):
    """The second is told which one holds the folder; the first goes on, and its number can be read."""
    (tmp_path / "run").mkdir()
    hold = "from pathlib import Path; from ortho_ref import files\nwith files.locked(Path('run')):\n    {}"
    inner = (
        f"import sys, subprocess; sys.exit(subprocess.run([sys.executable, '-c', {hold.format('pass')!r}]).returncode)"
    )
    said = windows("-c", hold.format(inner), code=1).splitlines()[-1]
    number = (tmp_path / "run" / "lock").read_text()
    assert said == f"BlockingIOError: out is run, which process {number} is using"
    windows("-c", hold.format("print(files.is_held(Path('run')))"))
    windows("-c", hold.format("pass"))  # and let go of at its end


def test_every_program_can_be_imported(windows):
    """And the most memory is not known."""
    programs = [path for part in ("", "maintain") for path in (ROOT / "scripts" / part).glob("[a-z]*.py")]
    names = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in programs]
    lines = "import importlib, sys\n[importlib.import_module(name) for name in sys.argv[1:]]\n"
    assert windows("-c", f"{lines}print(sys.modules['scripts.program.usage'].peak_memory())", *names) == "0\n"


def test_it_is_not_unix(windows):
    """The stand-in has none of what the product is not to need."""
    for line in ("import fcntl", "import os; os.open('.', os.O_RDONLY)", "import os; os.stat('.', dir_fd=3)"):
        assert windows("-c", line, code=1)
