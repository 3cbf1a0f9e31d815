"""The commands of the README and of the docs, one after the other, as a reader would give them."""

import re
import shlex
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.line import PATIENCE

ROOT = Path(__file__).parents[2]

# What makes a command of minutes one of seconds, and leaves it the same command.
SHORTER = {
    "train": ["--iterations", "2", "--batch", "2", "--length", "20"],
    "check_gradients": ["--only", "LSTM"],
    "experiment": ["--scale", "1e-3", "--seeds", "1"],
    "benchmark": ["--rounds", "1", "--seconds", "0", "--only", "parenthesis", "--model", "rnn", "--section", "cells"],
}


def commands(page):
    """Variables, module and arguments of every `python -m MODULE` and `ortho-ref` in the page's shell blocks."""
    for block in blocks(page, "sh"):
        for line in block.splitlines():
            words = shlex.split(line, comments=True)
            if "-m" in words:
                python = words.index("-m") - 1
                module, *arguments = words[python + 2 :]
                yield words[:python], module, arguments
            elif words[:1] == ["ortho-ref"]:
                yield [], "ortho_ref.conformance", words[1:]


def blocks(page, language):
    """The page's blocks of code in a language."""
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)


def test_the_readme_shows_lines_of_the_code():
    """Its first block: four lines of the NC-GRU's step, one after the other, as they stand, each with its tag."""
    shown = blocks("README.md", "py")[0].splitlines()
    source = (ROOT / "ortho_ref/cells/gru_reset_before.py").read_text()
    step = [line.strip() for line in source.split("def step_forward")[1].split("def step_backward")[0].splitlines()]
    assert len(shown) == 4
    assert shown == step[step.index(shown[0]) :][:4]
    assert all(re.search(r"# \[ncgru:[\w/]+\]", line) for line in shown)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "programs"),
    [
        ("README.md", {"train", "evaluate", "plot", "ortho_ref.conformance"}),
        ("docs/conformance.md", set()),  # all of PyTorch
        ("docs/check/adapters.md", {"ortho_ref.conformance"}),
        ("docs/check/ci.md", {"ortho_ref.conformance"}),
        ("docs/check/programs.md", {"ortho_ref.conformance"}),
        ("docs/check/verdicts.md", {"ortho_ref.conformance"}),
        ("docs/training.md", {"train", "evaluate", "plot"}),
        ("docs/models.md", {"train", "experiment", "benchmark"}),
        ("docs/experiments.md", {"experiment"}),
    ],
)
def test_commands_run(page, programs, tmp_path, forks):
    """Each exits 0, warnings being errors; resume, evaluate and plot take what the commands before them left."""
    (tmp_path / "FILE").write_text("All work and no play. " * 100)
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    (tmp_path / "scripts").symlink_to(ROOT / "scripts")
    (tmp_path / "mine.py").write_text(*blocks("docs/check/adapters.md", "python"))
    (tmp_path / "departures.txt").write_text("u-keeps  as in PyTorch\n")
    ran = []
    for variables, module, arguments in commands(page):
        if "--command" in arguments:
            if not compiled(tmp_path / "mine"):
                continue
            arguments = shortened(arguments, ["--timeout", str(PATIENCE)])
        if "cell.py" in arguments and find_spec("torch") is None:  # which that adapter is of
            continue
        if ("--onnx" in arguments or module.endswith("node_test_kills")) and find_spec("onnx") is None:
            continue
        if "mine.py" in arguments:  # on cases that know no departure, or what is right would be none
            arguments += ["--only", "activation"]
        program = module.removeprefix("scripts.").removeprefix("maintain.")
        shorter = SHORTER.get(program, [])
        if "--resume" in arguments:
            shorter = ["--iterations", "4"] if "--iterations" in arguments else []
        if "scripts/experiments/zoo.toml" in arguments:
            shorter = [*shorter, "--row", "lstm"]
        words = shortened(arguments, shorter)
        words += ["--no-estimate"] if program == "experiment" and words[0] == "run" else []
        environment = dict(v.split("=") for v in variables) | {"PYTHONPATH": str(ROOT)}
        given = {"cwd": str(tmp_path), "environment": environment, "strict": True, "forked": True}
        end = forks.run(module, *words, picture=program != "train", **given)
        assert end["code"] == 0, f"{module} {shlex.join(words)}\n{end['stdout']}{end['stderr']}"
        ran.append(program)
    assert programs <= set(ran)


def shortened(arguments, shorter):
    """A command line with other values of some options, each of which is given once then."""
    kept = [*arguments]
    for option in shorter[::2]:
        if option in kept:
            at = kept.index(option)
            del kept[at : at + 2]
    return [*kept, *shorter]


def compiled(program):
    """Whether the C example could be made into the page's ./mine."""
    compiler = shutil.which("cc")
    if compiler is not None:
        source = ROOT / "docs/examples/gru_reset_before.c"
        subprocess.run([compiler, "-O2", "-o", str(program), str(source), "-lm"], check=True)
    return compiler is not None
