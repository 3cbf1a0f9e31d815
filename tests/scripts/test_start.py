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


def test_the_list_of_programs(forks):
    """Each with a line, and nothing else is one."""
    end = forks.run("scripts")
    assert (end["code"], end["stderr"]) == (0, "")
    listed = dict(re.findall(r"^python -m scripts\.(\w+) +(\S.*)$", end["stdout"], re.MULTILINE))
    del listed["NAME"]  # the last line
    assert set(listed) == {path.stem for path in (ROOT / "scripts").glob("[a-z]*.py")}
    assert listed["train"] == "Train a model on a task"


def test_a_program_that_is_none(forks):
    """One line, with the near name."""
    line = "error: a program is started as python -m scripts.NAME; given: {} (did you mean 'train'?)\n"
    for words in (["train"], ["trian", "--out", "x"]):
        end = forks.run("scripts", *words)
        assert (end["code"], end["stdout"], end["stderr"]) == (2, "", line.format(" ".join(words)))
    message = "error: there is no program scripts.trian (did you mean scripts.train?); python -m scripts lists them\n"
    assert python("scripts.trian") == (2, "", message)


@pytest.mark.parametrize(
    ("started", "missing", "message"),
    [
        ("scripts.train", {"typer", "rich"}, "needs typer, rich, which are not installed: pip install -e '.[scripts]'"),
        ("scripts.site", {"furo"}, "needs furo, which is not installed: pip install -e . --group docs"),
        ("scripts.floors", {"typer", "numpy"}, ""),
        ("scripts.train", set(), ""),
        ("scripts.grid.run", {"typer"}, ""),
        ("pytest", {"typer"}, ""),
        (None, {"typer"}, ""),
    ],
)
def test_what_is_not_installed(started, missing, message):
    """One line says what, and what installs it; nothing where no program is started."""
    said = start.refusal(started, lambda module: None if module in missing else module)
    assert said == (f"python -m {started} {message}" if message else "")


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
def test_help(name, monkeypatch):
    """One style: no <type>, no [x>=1], no --no-... of what is off already, metavariables in capitals.  On a terminal of
    80 columns nothing is cut off, and no word is broken: each is one of the page of a terminal without an edge."""
    main = importlib.import_module(f"scripts.{name}").main
    pages = {}
    for columns in (80, 1000):
        monkeypatch.setenv("COLUMNS", str(columns))
        code, stdout, stderr = call(main, "--help")
        assert code == 0
        pages[columns] = stdout + stderr
    assert "…" not in pages[80]
    assert max(map(len, pages[80].splitlines())) <= 80
    words = {columns: set(re.sub("[│╭╮╰╯─]", " ", page).split()) for columns, page in pages.items()}
    assert words[80] == words[1000]
    assert not re.search(r"<|\[x|\bx>=|list\[", pages[1000].replace("U_<", ""))
    for parameter in inspect.signature(main).parameters.values():
        kind, info = typing.get_args(parameter.annotation)[:2]
        if kind is bool and info.default is ...:
            assert f"--no-{parameter.name.replace('_', '-')}" not in pages[1000]
    assert set(METAVARS.values()) == {"", "N", "X", "PATH", "TEXT"}


def test_a_switch_and_its_opposite_are_one_word(monkeypatch):
    """On the page; on the command line there are both."""
    from scripts.train import main

    monkeypatch.setenv("COLUMNS", "80")
    page = call(main, "--help")[1]
    assert "--[no-]tied " in page
    assert "--no-tied" not in page
    for given in ("--tied", "--no-tied"):
        code, _, stderr = call(main, "parenthesis", given, "--lr", "x")
        assert (code, stderr) == (2, "error: lr is 'x'; allowed: a number\n")


@pytest.mark.parametrize(
    ("program", "words", "message"),
    [
        ("train", ["parenthesis", "--iterations", "3.5"], "iterations is '3.5'; allowed: an integer"),
        ("train", ["parenthesis", "--lr-orthogonal", ""], "lr-orthogonal is ''; allowed: a number"),
        ("experiment", ["run", "F", "--jobs", "many"], "jobs is 'many'; allowed: an integer"),
        ("moving_weights", ["--iterations", "x"], "iterations is 'x'; allowed: an integer"),
        ("moving_weights", ["--iterations", "0"], "iterations is 0; allowed: 1 or more"),
        ("benchmark", ["--seconds", "long"], "seconds is 'long'; allowed: a number"),
    ],
)
def test_what_is_no_number(program, words, message, tmp_path, monkeypatch):
    """Exit 2 and one line in the words of the others."""
    monkeypatch.chdir(tmp_path)
    code, stdout, stderr = call(importlib.import_module(f"scripts.{program}").main, *words)
    assert (code, stdout, stderr) == (2, "", f"error: {message}\n")


@pytest.mark.parametrize(
    ("program", "words", "message"),
    [
        ("train", ["parentesis"], "task is 'parentesis' (did you mean 'parenthesis'?); allowed: 'parenthesis', "),
        ("train", ["parenthesis", "--engine", "fusd"], "engine is 'fusd' (did you mean 'fused'?); allowed: 'fused', "),
        ("train", ["parenthesis", "--modle", "x"], "there is no option --modle (did you mean --model"),
        ("train", ["parenthesis", "--model", "nc-gr"], "model is 'nc-gr' (did you mean 'nc-gru'?); allowed: rnn, "),
        ("train", ["adding", "--model", "goru", "--model-option", "stile=fft"], "--model-option names 'stile' (did yo"),
        ("experiment", ["rnu"], "action is 'rnu' (did you mean 'run'?); allowed: 'run', 'status', "),
        ("experiment", ["run", "--jobs", "0"], "jobs is 0; allowed: 1 to 1024"),
        ("benchmark", ["--only", "parentesis"], "only is 'parentesis' (did you mean 'parenthesis'?); allowed: paren"),
        ("training_speed", ["--only", "copyng"], "only is 'copyng' (did you mean 'copying'?); allowed: parenthesis, "),
        ("gpu_check", ["--out", "x", "--only", "mapz"], "only is 'mapz' (did you mean 'maps'?); allowed: versions, "),
        ("data", ["fetch", "nmist"], "name is 'nmist' (did you mean 'mnist'?); allowed: mnist, "),
        ("data", ["fetsh"], "action is 'fetsh' (did you mean 'fetch'?); allowed: 'list', 'fetch', 'check'"),
        ("audit", ["thnc"], "NAME is 'thnc' (did you mean 'thinc'?); allowed: torch-rnn, "),
        ("moving_weights", ["nc-gur"], "MODEL is 'nc-gur' (did you mean 'nc-gru'?); allowed: rnn, "),
        ("moving_weights", ["--updates", "3"], "there is no option --updates"),
        ("evaluate", ["runs/none", "--wich", "best"], "there is no option --wich (did you mean --which?)"),
    ],
)
def test_near_names(program, words, message, tmp_path, monkeypatch):
    """Exit 2 and one line that says which name is near."""
    monkeypatch.chdir(tmp_path)
    code, stdout, stderr = call(importlib.import_module(f"scripts.{program}").main, *words)
    assert (code, stdout, stderr.count("\n")) == (2, "", 1)
    assert stderr.startswith(f"error: {message}")
