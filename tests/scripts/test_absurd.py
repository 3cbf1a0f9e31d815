"""Every option of every program, at values that make no sense: an answer or one line, never a traceback or a wait."""

import re

import pytest

from scripts import bounds, check_gradients, demo, evaluate, experiment, gpu_check, plot, train
from scripts.maintain import benchmark, training_speed
from tests.scripts.runs import call, refusal
from tests.streams import harmless
from tests.torture.command_lines import options_of

LARGE = "1000000000000000000"
#: By what an option takes; the torture of command lines draws from all of them.
VALUES = {
    "integer": ["0", "-1", "nan", LARGE, LARGE * 3],
    "float": ["0", "nan", "-inf", "1e400", "1e-300", LARGE],
    "text": ["", "-1", "\x1b[2J", "x" * 5000, "FOLDER"],
}
SMALL = ["--hidden", "6", "--length", "5", "--batch", "2", "--iterations", "2", "--eval-every", "2"]
#: Program -> arguments with which it ends soon; and what of it takes long, which is not what is tested here.
PROGRAMS = {
    benchmark: (["--only", "parenthesis", "--rounds", "1", "--seconds", "0"], "measured"),
    bounds: (["run"], None),
    check_gradients: ([], "results"),
    demo: (["--out", "own"], "run_grid"),
    evaluate: (["run", "--sample", "1"], None),
    experiment: (["run", str(demo.FILE), "--out", "own", "--no-estimate"], "orders_of"),
    gpu_check: (["--out", "own"], None),
    plot: (["run"], None),
    train: (["text", "--data", "text.txt", "--out", "own", *SMALL], None),
    training_speed: (["--only", "parenthesis", "--rounds", "1", "--seconds", "0"], "time_interleaved"),
}


def options(program):
    """Each option that takes a value, as it is written, with the values to try."""
    for option in options_of(program.__name__):
        if option.flag and option.kind != "flag":
            yield option.flag, VALUES.get(option.kind, VALUES["text"])


def reached(*arguments, **others):
    raise OSError("it begins")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of a text, and the text."""
    folder = tmp_path_factory.mktemp("own")
    (folder / "text.txt").write_text("All work and no play. " * 40)
    code, _, err = call(train.main, "text", "--data", folder / "text.txt", "--out", folder / "run", *SMALL)
    assert code == 0, err
    return folder


CASES = [(program, *own) for program in PROGRAMS for own in options(program)]


@pytest.mark.parametrize(("program", "option", "values"), CASES, ids=[f"{p.__name__[8:]} {o}" for p, o, _ in CASES])
def test_an_option_at_absurd_values(run, tmp_path, monkeypatch, program, option, values):
    monkeypatch.chdir(tmp_path)
    for name in ("run", "text.txt"):
        (tmp_path / name).symlink_to(run / name)
    (tmp_path / "folder").mkdir()
    base, slow = PROGRAMS[program]
    if slow:
        monkeypatch.setattr(program, slow, reached)
    for i, value in enumerate(values):
        left = [*base]
        if option in left:
            del left[left.index(option) : left.index(option) + 2]
        left = [f"{part}{i}" if part == "own" else part for part in left]
        code, out, err = call(program.main, *left, option, "folder" if value == "FOLDER" else value)
        too_far = code == 1 and re.search(r"^error: iteration [12]: ", err, re.M)  # at a rate of 1e18
        assert code in (0, 2) or too_far, (value, err)
        if code == 2:
            assert err.startswith("error: ")
            assert out == ""
            assert err.count("\n") == 1
        assert harmless(err + out), value
        assert len(err) < 3000


@pytest.mark.parametrize("program", [benchmark, check_gradients, evaluate, train])
def test_threads(run, tmp_path, program):
    own = {train: ["adding"], evaluate: [run / "run"]}
    for threads in (100, 0, 65):
        said = refusal(program.main, *own.get(program, []), "--threads", threads)
        assert re.search(rf"threads is {threads}; allowed: 1 to 64", said), said


@pytest.mark.parametrize("lr", ["1e9", "1e17", "1e30"])
@pytest.mark.parametrize("model", ["scornn", "exprnn", "nc-gru"])
def test_a_rate_that_goes_too_far(tmp_path, model, lr):
    """An A so large that no U comes of it is one line that names it, exit code 1, and the last good checkpoint."""
    line = ["adding", "--model", model, "--lr", lr, "--out", tmp_path / "own", *SMALL, "--reset-every", "1"]
    code, _, err = call(train.main, *(line if model == "nc-gru" else line[:-2]))
    if code == 0:
        assert (lr, model) != ("1e17", "exprnn")
        return
    last = err.splitlines()[-1]
    assert code == 1
    assert re.match(r"error: iteration \d: ", last)
    assert last.endswith("; the last good checkpoint is " + str(tmp_path / "own" / "last.safetensors"))
