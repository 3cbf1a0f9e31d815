"""Before a program is loaded: the list of programs, names that are none, what is not installed; one style of --help."""

import importlib
import inspect
import os
import re
import subprocess
import sys
import typing

import pytest

from scripts import start
from scripts.program.help import METAVARS
from tests.scripts.runs import ROOT, call


def python(*words):
    """Exit code, stdout and stderr of Python, warnings being errors."""
    command = [sys.executable, "-W", "error", "-m", *words]
    end = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return end.returncode, end.stdout, end.stderr


def test_the_list_of_programs():
    """Each with a line, and nothing else is one."""
    code, stdout, stderr = python("scripts")
    assert (code, stderr) == (0, "")
    listed = dict(re.findall(r"^python -m scripts\.(\w+) +(\S.*)$", stdout, re.MULTILINE))
    del listed["NAME"]  # the last line
    assert set(listed) == {path.stem for path in (ROOT / "scripts").glob("[a-z]*.py")}
    assert listed["train"] == "Train a model on a task"
    code, stdout, stderr = python("scripts", "train")
    assert (code, stdout, stderr) == (2, "", "error: a program is started as python -m scripts.NAME; given: train\n")


def test_a_program_that_is_none():
    """One line, with the near name."""
    message = "error: there is no program scripts.trian (did you mean scripts.train?); python -m scripts lists them\n"
    assert python("scripts.trian") == (2, "", message)


@pytest.mark.parametrize(
    ("started", "missing", "message"),
    [
        (
            "scripts.train",
            {"typer", "rich"},
            "python -m scripts.train needs typer, rich, which are not installed: pip install -e '.[scripts]'",
        ),
        (
            "scripts.site",
            {"furo"},
            "python -m scripts.site needs furo, which is not installed: pip install --group docs",
        ),
        ("scripts.floors", {"typer", "numpy"}, ""),
        ("scripts.train", set(), ""),
        ("scripts.grid.run", {"typer"}, ""),
        ("pytest", {"typer"}, ""),
        (None, {"typer"}, ""),
    ],
)
def test_what_is_not_installed(started, missing, message):
    """One line says what, and what installs it; nothing where no program is started."""
    assert start.refusal(started, lambda module: None if module in missing else module) == message


def test_the_line_of_a_program_without_its_extra(tmp_path):
    """A real process that finds no typer: exit code 2, one line."""
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.util as u\nfound = u.find_spec\n"
        "u.find_spec = lambda name, *rest: None if name == 'typer' else found(name, *rest)\n"
    )
    end = subprocess.run(
        [sys.executable, "-m", "scripts.plot"],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
    )
    line = "error: python -m scripts.plot needs typer, which is not installed: pip install -e '.[scripts]'\n"
    assert (end.returncode, end.stdout, end.stderr) == (2, "", line)


@pytest.mark.parametrize("name", sorted(set(start.programs()) - {"floors"}))
def test_help_has_one_style(name, monkeypatch):
    """No <type>, no [x>=1], no --no-... of what is off already; metavariables are words in capitals."""
    monkeypatch.setenv("COLUMNS", "200")
    main = importlib.import_module(f"scripts.{name}").main
    code, stdout, stderr = call(main, "--help")
    page = stdout + stderr
    assert code == 0, page
    assert not re.search(r"<|\[x|\bx>=|list\[", page.replace("U_<", "")), page
    for parameter in inspect.signature(main).parameters.values():
        kind, info = typing.get_args(parameter.annotation)[:2]
        if kind is bool and info.default is ...:
            assert f"--no-{parameter.name.replace('_', '-')}" not in page
    assert set(METAVARS.values()) == {"", "N", "X", "PATH", "TEXT"}


@pytest.mark.parametrize(
    ("program", "words", "message"),
    [
        ("train", ["parentesis"], "task is 'parentesis' (did you mean 'parenthesis'?); allowed: 'parenthesis', "),
        ("train", ["parenthesis", "--modle", "x"], "there is no option --modle (did you mean --model"),
        ("train", ["parenthesis", "--model", "nc-gr"], "model is 'nc-gr' (did you mean 'nc-gru'?); allowed: rnn, "),
        ("train", ["parenthesis", "--optimizer", "adamm"], "optimizer is 'adamm' (did you mean 'adam'?); allowed: sgd"),
        (
            "train",
            ["parenthesis", "--model", "goru", "--model-option", "stile=fft"],
            "--model-option names 'stile' (did you mean 'style'?); allowed for goru: style, ",
        ),
        ("experiment", ["rnu"], "action is 'rnu' (did you mean 'run'?); allowed: 'run', 'status', "),
        ("experiment", ["run", "--jobs", "0"], "jobs is 0; allowed: 1 to 1024"),
        ("evaluate", ["runs/none", "--wich", "best"], "there is no option --wich (did you mean --which?)"),
    ],
)
def test_near_names(program, words, message, tmp_path, monkeypatch):
    """Exit 2 and one line that says which name is near."""
    monkeypatch.chdir(tmp_path)
    code, stdout, stderr = call(importlib.import_module(f"scripts.{program}").main, *words)
    assert (code, stdout, stderr.count("\n")) == (2, "", 1)
    assert stderr.startswith(f"error: {message}")
