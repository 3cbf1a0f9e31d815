"""Before a program is loaded: the list of programs, names that are none, what is not installed; what is no number."""

import importlib
import os
import re
import subprocess
import sys

import pytest

from scripts import start
from tests.scripts.runs import ROOT, refusal


def python(*words):
    """Exit code, stdout and stderr of Python, warnings being errors."""
    command = [sys.executable, "-W", "error", "-m", *words]
    end = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return end.returncode, end.stdout, end.stderr


def test_the_list_of_programs(forks):
    """Each with a line, and nothing else is one."""
    end = forks.run("scripts")
    assert (end["code"], end["stderr"]) == (0, "")
    listed = dict(re.findall(r"^python -m scripts\.([\w.]+) +(\S.*)$", end["stdout"], re.MULTILINE))
    del listed["NAME"]  # the last line
    own, others = ({p.stem for p in (ROOT / "scripts" / part).glob("[a-z]*.py")} for part in ("", "maintain"))
    assert set(listed) == own | {f"maintain.{name}" for name in others}
    assert listed["train"] == "Train a model on a task"
    assert forks.run("scripts", "--help")["stdout"] == end["stdout"]


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
        ("scripts.train", {"msgspec"}, "needs msgspec, which is not installed: pip install -e '.[scripts]'"),
        ("scripts.maintain.site", {"furo"}, "needs furo, which is not installed: pip install -e . --group docs"),
        ("scripts.maintain.oldest_versions", {"typer", "numpy"}, ""),
        ("scripts", {"numpy", "typer"}, "needs numpy, which is not installed: pip install -e '.[scripts]'"),
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


@pytest.mark.parametrize(
    ("program", "words", "message"),
    [
        ("train", ["parentesis"], "task is 'parentesis' (did you mean 'parenthesis'?); allowed: 'parenthesis', "),
        ("train", ["parenthesis", "--engine", "fusd"], "engine is 'fusd' (did you mean 'fused'?); allowed: 'auto', "),
        ("train", ["parenthesis", "--model", "nc-gr"], "model is 'nc-gr' (did you mean 'nc-gru'?); allowed: rnn, "),
        ("train", ["adding", "--model", "goru", "--model-option", "stile=fft"], "--model-option names 'stile' (did yo"),
        ("maintain.benchmark", ["--only", "parentesis"], "only is 'parentesis' (did you mean 'parenthesis'?); allow"),
        ("maintain.training_speed", ["--only", "copyng"], "only is 'copyng' (did you mean 'copying'?); allowed: par"),
        ("gpu_check", ["--out", "x", "--only", "mapz"], "only is 'mapz' (did you mean 'maps'?); allowed: versions, "),
        ("data", ["fetch", "nmist"], "name is 'nmist' (did you mean 'mnist'?); allowed: mnist, "),
        ("maintain.audit", ["thnc"], "NAME is 'thnc' (did you mean 'thinc'?); allowed: torch-rnn, "),
        ("maintain.moving_weights", ["nc-gur"], "MODEL is 'nc-gur' (did you mean 'nc-gru'?); allowed: rnn, "),
    ],
)
def test_near_names(program, words, message, tmp_path, monkeypatch):
    """Exit 2 and one line that says which name is near."""
    monkeypatch.chdir(tmp_path)
    assert refusal(importlib.import_module(f"scripts.{program}").main, *words).startswith(f"error: {message}")
