"""`python -m scripts.train` as a user runs it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TINY = ["--hidden", "6", "--length", "5", "--batch", "2", "--iterations", "3", "--log-every", "2"]


def train(*arguments):
    """The finished process."""
    command = [sys.executable, "-W", "error", "-m", "scripts.train", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """A text file that is just long enough."""
    path = tmp_path_factory.mktemp("texts") / "text.txt"
    path.write_text("All work and no play. " * 30)
    return path


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run of the parenthesis task: its folder and its process."""
    out = tmp_path_factory.mktemp("runs") / "deep" / "paren"
    return out, train("parenthesis", "--out", out, "--seed", 5, "--negative-ones", 2, *TINY)


def check_run(out, process, task, iterations):
    """Exit 0; config.json and metrics.jsonl; the last line of stdout is the last line of the metrics."""
    assert process.returncode == 0, process.stderr
    config = json.loads((out / "config.json").read_text())
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    assert (config["task"], config["hidden"], config["out"]) == (task, 6, str(out))
    assert [line["iteration"] for line in lines] == iterations
    assert json.loads(process.stdout.splitlines()[-1]) == lines[-1]
    assert "evaluation_loss" in lines[-1]
    return config


def test_parenthesis(finished):
    """The options given and the defaults are all in config.json."""
    config = check_run(*finished, "parenthesis", [2, 3])
    assert config["seed"] == 5
    assert config["model"] == "nc-gru"
    assert config["negative_ones"] == 2
    assert config["lr"] == 1e-3


def test_text(tmp_path, text):
    """Two layers of another model, learning rate of A apart, from a file."""
    out = tmp_path / "run"
    arguments = ("--model", "scornn", "--layers", 2, "--lr-A", 1e-4, "--out", out)
    process = train("text", "--file", text, *arguments, *TINY)
    config = check_run(out, process, "text", [2, 3])
    assert (config["file"], config["lr_a"], config["model"]) == (str(text), 1e-4, "scornn")
    assert "bits_per_character" in json.loads(process.stdout.splitlines()[-1])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["text"], "text needs --file FILE, a UTF-8 text"),
        (["parenthesis", "--file", "{text}"], "--file is for text; parenthesis is generated"),
        (["parenthesis", "--model", "gpt"], "model is 'gpt'; allowed: rnn, irnn, lstm, gru, scornn, nc-gru"),
        (["parenthesis", "--negative-ones", "7"], "negative_ones is 7; allowed: 0 to n = 6"),
        (["parenthesis", "--order", "7"], "order is 7; allowed: 1, 2, 3"),
        (
            ["text", "--file", "{text}", "--length", "300"],
            "{text} has 594 characters to train on; batch 2 and length 300",
        ),
        (["text", "--file", "{text}[draft].txt"], "{text}[draft].txt"),
    ],
    ids=["no file", "file for parenthesis", "model", "negative ones", "order", "too short", "brackets in a name"],
)
def test_bad_input(tmp_path, text, arguments, message):
    """Exit 2, one line that begins with "error: " and says what is wrong, and no run folder."""
    arguments = [argument.format(text=text) for argument in arguments]
    process = train(arguments[0], "--out", tmp_path / "run", *TINY, *arguments[1:])
    assert (process.returncode, process.stdout) == (2, "")
    assert process.stderr.startswith("error: ")
    assert message.format(text=text) in process.stderr
    assert process.stderr.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_a_folder_that_is_used(finished):
    """A second run into the same folder is refused, and the first stays as it is."""
    out, _ = finished
    before = {file.name: file.read_bytes() for file in out.iterdir()}
    process = train("parenthesis", "--out", out, *TINY)
    assert (process.returncode, process.stdout) == (2, "")
    expected = f"error: out is {out}, which holds a run already (config.json); choose another folder\n"
    assert process.stderr == expected
    assert {file.name: file.read_bytes() for file in out.iterdir()} == before
