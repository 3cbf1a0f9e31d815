"""What programs say where nobody hears it, and what they may not say: text that commands a terminal."""

import io
import os
import shlex
import subprocess
import sys

import pytest
from rich.console import Console

from ortho_ref.training.run_folder import RunFolder
from ortho_ref.training.runs import load
from scripts import evaluate, plot, train
from scripts.grid import run as grid_run
from tests.ortho_ref.training.reading import read_config, read_metrics, write_config
from tests.scripts.runs import ROOT, call, refusal
from tests.streams import FULL, NO_STDERR, harmless

TINY = shlex.split("--hidden 6 --length 5 --batch 2 --iterations 20 --log-every 1 --eval-every 10")
ENDS = [
    pytest.param(">&- 2>&-", marks=NO_STDERR),
    pytest.param("2>/dev/full", marks=FULL),
    pytest.param(">/dev/full 2>&1", marks=FULL),
    "2>&1 | head -1",
]


def in_shell(end, *arguments):
    """Exit code, stdout and stderr of a program in bash, its streams redirected."""
    command = '"$0" -W error -m "$@"'
    line = f"{{ {command}; }} {end}; exit ${{PIPESTATUS[0]}}"
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(
        ["bash", "-c", line, sys.executable, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )


@pytest.fixture(scope="module")
def heard(tmp_path_factory):
    """A run that was heard."""
    folder = tmp_path_factory.mktemp("heard") / "run"
    assert call(train.main, "adding", "--out", folder, *TINY)[0] == 0
    return folder


def weights(folder):
    return {name: array.tobytes() for name, array in load(folder, "last").params.items()}


@pytest.mark.parametrize("end", ENDS)
def test_a_run_that_nobody_hears(heard, tmp_path, end):
    """It trains to its end, with its own exit code, to the same weights; there is no word of what could not be said."""
    result = in_shell(end, "scripts.train", "adding", "--out", tmp_path / "run", *TINY)
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "run" / "summary.json").exists()
    assert weights(tmp_path / "run") == weights(heard)
    assert "Traceback" not in result.stderr
    assert "Exception" not in result.stderr


@pytest.mark.parametrize("end", [pytest.param("2>&-", marks=NO_STDERR), pytest.param("2>/dev/full", marks=FULL)])
def test_an_error_that_nobody_hears(tmp_path, end):
    """Its exit code is 2 all the same."""
    result = in_shell(end, "scripts.train", "adding", "--lr", "nan", "--out", tmp_path / "run")
    assert (result.returncode, result.stdout, result.stderr) == (2, "", "")


@FULL
def test_an_answer_that_cannot_be_written(heard):
    """What is asked for is not there: one line, exit code 2; a reader that has read enough is no error."""
    for end, code in ((">/dev/full", 2), ("| true", 0)):
        result = in_shell(end, "scripts.evaluate", heard)
        said = result.stderr.splitlines()
        assert (result.returncode, len(said)) == (code, 2 if code else 1)
        if code:
            assert said[1] == "error: standard output cannot be written: No space left on device"


@pytest.mark.parametrize(
    "arguments", [["\x1b[2J"], ["adding", "--\x1b[2J"], ["x" * 10_000_000]], ids=lambda arguments: ascii(arguments)[:40]
)
def test_hostile_arguments(arguments):
    """One line; its end, which says what is allowed, is there."""
    err = refusal(train.main, *arguments)
    assert harmless(err)
    assert len(err) < 3000


def test_a_hostile_text(tmp_path):
    """The sample of a text with escape sequences, line ends kept; it is as long as it should be."""
    file, folder = tmp_path / "text.txt", tmp_path / "run"
    file.write_bytes(b"\x1b[2J\x9b\x07\n\t ".replace(b"\x9b", "\x9b\u202e".encode()) * 200)
    code, _, err = call(train.main, "text", "--data", file, "--out", folder, *TINY[:-4])
    assert code == 0
    assert harmless(err)
    code, out, err = call(evaluate.main, folder, "--data", file, "--sample", 3000)
    assert code == 0
    assert harmless(out)
    assert harmless(err)
    sample = out.partition("\n")[2]
    assert "\n" in sample
    assert "\\x1b" in sample
    assert len(sample) > 3000


def test_a_hostile_run(heard, tmp_path):
    """Words of its config in messages and pictures: no formula, no glyph that no font has, no line without end."""
    for model in ("\x1b[2J", "$\\frac$ $x", "x" * 5_000_000):
        folder = tmp_path / "$\\no$"
        folder.mkdir(exist_ok=True)
        write_config(folder, read_config(heard) | {"model": model, "task": model})
        with RunFolder(folder, "a") as run:
            run.go_on(None, None)
            for record in read_metrics(heard):
                run.add(record)
        code, _, err = call(plot.main, folder, folder, "--out", tmp_path / "p.png")
        assert code == 0, err
        err = refusal(evaluate.main, folder)
        assert harmless(err)
        assert len(err) < 3000


@pytest.mark.parametrize("terminal", [True, False])
def test_a_bar_before_there_are_figures(monkeypatch, terminal):
    """While data are read, and until the first update: on a terminal alone, and erased where an error follows."""
    text = io.StringIO()
    monkeypatch.setattr(grid_run, "console", Console(file=text, force_terminal=terminal, width=80))
    with pytest.raises(ValueError, match="no text"), grid_run.preparing("reading [it]"):
        raise ValueError("no text")
    assert ("reading [it] " in text.getvalue()) == terminal
    assert text.getvalue().endswith("\x1b[1A\x1b[2K" if terminal else "")

    class Failing:
        task, iterations = None, 9

        def run(self, *arguments, **options):
            raise ValueError("no update")

    with pytest.raises(ValueError, match="no update"):
        grid_run.train(Failing(), None, {}, "nc-gru text", False, None, lambda: False, None)
    assert ("0/9" in text.getvalue()) == terminal
    assert terminal or text.getvalue() == ""
    assert text.getvalue().endswith("\x1b[2K" if terminal else "")
