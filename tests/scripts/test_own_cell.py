"""A cell of one's own file, docs/examples/my_cell.py, through the programs; and whose step back is wrong."""

import json
import re
from pathlib import Path

import pytest

from ortho_ref import models
from scripts import bounds, check_gradients, evaluate, experiment, train
from scripts.pictures.runs import drawn
from tests.scripts.runs import ROOT, call, refusal

MINE = (ROOT / "docs" / "examples" / "my_cell.py").read_text()
LESSON = (ROOT / "docs" / "examples" / "lesson_cell.py").read_text()
CHAPTER = (ROOT / "docs" / "chapters" / "backward-by-hand.md").read_text()
#: What the chapter says to write, for what, and what the check says then.
WRITTEN = re.findall(r"Write `([^`]+)`\sfor\s`([^`]+)`:\n\n```text\n(.*?)```", CHAPTER, re.S)
SMALL = ["--iterations", 4, "--hidden", 5, "--batch", 3, "--eval-every", 2]


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """The cell in a file, with one line changed; its place."""
    monkeypatch.setattr(models, "_OWN", {})
    monkeypatch.chdir(tmp_path)

    def write(before="", after=""):
        assert before in MINE
        (tmp_path / "mine.py").write_text(MINE.replace(before, after, 1))
        return "mine.py:MyCell"

    return write


def test_it_trains_in_the_programs(mine, tmp_path, monkeypatch):
    """Trained with its options and an orthogonal U, gone on with, evaluated, drawn."""
    out, place = tmp_path / "run", mine()
    options = ["--model-option", "leak=0.9", "--parametrize", "U=householder:2"]
    code, _, err = call(train.main, "parenthesis", "--model", place, *options, "--out", out, *SMALL)
    assert code == 0, err
    assert f"evaluated: python -m scripts.evaluate {out} --model mine.py:MyCell\n" in err
    monkeypatch.setattr(models, "_OWN", {})  # another process
    again = ["parenthesis", "--out", out, "--resume", "--iterations", 6]
    nobody = "config.json: network: model is 'mine.py:MyCell', a file's with the SHA-256 "
    assert nobody in refusal(train.main, *again)
    assert nobody in refusal(evaluate.main, out)
    assert call(train.main, *again, "--model", place)[0] == 0
    assert call(evaluate.main, out, "--model", place)[0] == 0
    assert [(own.line, own.column) for own in drawn([out])] == [("mine.py:MyCell, n = 5", "parenthesis, T = 100")]
    assert "has a cell of a file; the bounds are theorems about the built-in cells" in refusal(bounds.main, out)
    config = json.loads((out / "config.json").read_text())
    assert config["network"]["name"].startswith("mine.py:MyCell#")


def test_weights_are_not_read_into_another_cell(mine, tmp_path):
    """The file's contents are part of the model's name."""
    place = mine()
    assert call(train.main, "parenthesis", "--model", place, "--out", tmp_path / "run", *SMALL)[0] == 0
    models._OWN.clear()
    mine("1.0", "0.5")
    again = ["parenthesis", "--out", tmp_path / "run", "--resume", "--model", place]
    assert "error: model is 'mine.py:MyCell#" in refusal(train.main, *again)
    assert "which nobody loaded" in refusal(evaluate.main, tmp_path / "run", "--model", place)


def test_an_experiment(mine, tmp_path):
    """In a file, beside a model of the zoo; its workers load it themselves."""
    place = mine()
    (tmp_path / "both.toml").write_text(
        'format = "ortho_ref experiment 1"\ntitle = "Both"\nseeds = 1\n'
        'options = { task = "parenthesis", batch = 4, iterations = 4, hidden = 5, eval_every = 2 }\n'
        '[[column]]\nname = "all"\n[[row]]\nname = "GRU"\noptions = { model = "gru" }\n'
        f'[[row]]\nname = "mine"\noptions = {{ model = "{place}" }}\n'
    )
    for words in (["run", "--no-estimate"], ["run"]):  # the second finds that all is done
        code, _, err = call(experiment.main, words[0], "both.toml", "--out", tmp_path / "all", *words[1:])
        assert code == 0, err
        assert "2 of 2 runs are done" in err
    assert "| mine | all | 1 |" in call(experiment.main, "table", "both.toml", "--out", tmp_path / "all")[1]


def test_its_gradient_is_checked(mine):
    code, out, _ = call(check_gradients.main, "--cell", mine(), "--model-option", "leak=0.8")
    assert (code, "MyCell" in out) == (0, True)


@pytest.mark.parametrize(
    ("line", "wrong", "name", "weight"),
    [
        ("ds = dk * self.leak", "ds = dk", "ds", "W_k"),
        ("dh * (1 - k)  #", "dh * k  #", "dc", "W"),
        ("da_c = dc * (1 - c * c)", "da_c = dc * (1 - c)", "da_c", "W"),
        ("da_c = dc * (1 - c * c)", "da_c: np.ndarray = dc * (1 - c)", "da_c", "W"),
        ("dh * k + da_s", "da_s", "dh_prev", "h0"),
        ("da_s.T @ h_prev, da_c.T", "da_s.T @ c, da_c.T", "dU_k", "U_k"),
    ],
)
def test_the_first_wrong_line_is_named(mine, line, wrong, name, weight):
    """With its rule, beside the weights whose gradients are off; and nothing is trained with it."""
    place = mine(line, wrong)
    code, out, _ = call(check_gradients.main, "--cell", place, "--model-option", "leak=0.8")
    number = next(i for i, own in enumerate(MINE.splitlines(), 1) if line in own)
    assert code == 1
    assert f"dL/d{weight} is off" in out.replace("\n", " ")
    assert f"line {number}: " in out
    assert "# [mine:" in out
    assert f"the first that is wrong: {name} is off by" in out
    said = refusal(train.main, "parenthesis", "--model", place, "--model-option", "leak=0.8", *SMALL)
    assert said.startswith("error: model is 'mine.py:MyCell', whose step back is wrong: MyCell: dL/d")


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (', "b": db', "", "step_backward gives no gradient of b"),
        ("return h, (x, h_prev, s, k, c)", "return h", "step_forward returns one thing; expected two: h, and what"),
        ("da_c.sum(axis=0)", "da_c", "'b': (2, 5)}; expected {"),
        ("w = weights\n", "w = weights\n        h_prev *= 0.5\n", "a step changes h_prev in place; expected: arrays"),
        ("dk, dc = ", "dh *= 2\n        dk, dc = ", "a step changes dh in place; expected: arrays of its own"),
        ("dk, dc = ", "k *= 2\n        dk, dc = ", "a step changes its cache in place; expected: arrays of its own"),
        ("ds * sig", "ds + None * sig", "TypeError: unsupported operand type(s) for *: 'NoneType' and 'float' (line 4"),
        (
            "from dataclasses",
            "from dataklasses",
            "cannot be loaded: ModuleNotFoundError: No module named 'dataklasses'",
        ),
        ("def step_forward", "def forms", "which lacks step_forward; allowed: a class that derives from"),
        (
            "class MyCell",
            "class YourCell",
            "model is 'mine.py:MyCell', which has no MyCell; allowed: a class that derives from",
        ),
        ("", "exit()\n", "cannot be loaded: SystemExit: None"),
    ],
)
def test_what_is_refused(mine, before, after, message):
    """In one line."""
    assert message in refusal(check_gradients.main, "--cell", mine(before, after))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--cell", "none.py:MyCell"], "model is 'none.py:MyCell', which cannot be loaded: FileNotFoundError"),
        (["--cell", "mine.MyCell"], "model is 'mine.MyCell'; allowed for a file: FILE.py:NAME"),
        (["--cell", "mine.py:MyCell", "--model-option", "lek=1"], "has no option 'lek' (did you mean 'leak'?)"),
        (["--model-option", "leak=1"], "--model-option is for --cell"),
    ],
)
def test_other_words(mine, words, message):
    mine()
    assert message in refusal(check_gradients.main, *words)


@pytest.mark.parametrize("back", ["super().step_backward", "self.__back"])
def test_a_step_that_cannot_be_watched(mine, back):
    """Its gradient is judged all the same; no line is named."""
    mine("ds = dk * self.leak", "ds = dk")
    with Path("mine.py").open("a") as file:
        file.write(
            "\n\nclass Derived(MyCell):\n    def step_backward(self, weights, dh, cache):\n"
            f"        return {back}(weights, dh, cache)\n\n    __back = MyCell.step_backward\n"
        )
    code, out, _ = call(check_gradients.main, "--cell", "mine.py:Derived", "--model-option", "leak=0.8")
    assert (code, "dL/dW_k is off" in out, "the first that is wrong" in out) == (1, True, False)


def test_a_step_back_that_is_decorated(mine):
    """The line is the step's own, not one of what it is wrapped in."""
    place = mine("ds = dk * self.leak", "ds = dk")
    source = Path("mine.py").read_text().replace("    def step_backward", "    @wrapped\n    def step_backward")
    wrapped = "def wrapped(f):\n    @functools.wraps(f)\n    def g(*given):\n        return f(*given)\n    return g\n"
    Path("mine.py").write_text(source.replace("\n@dataclass", f"\nimport functools\n{wrapped}\n@dataclass"))
    code, out, _ = call(check_gradients.main, "--cell", place, "--model-option", "leak=0.8")
    assert (code, "ds = dk  # [mine:2]\n    the first that is wrong: ds is off" in out) == (1, True)


def test_a_function_that_makes_a_layer(mine):
    """With whatever options it has."""
    mine(
        "", "def mine(m, n, *, leak=0.7):\n    return Recurrent(MyCell(leak), {'U': Exponential()}, sizes=(m, n))\n\n\n"
    )
    (source := __import__("pathlib").Path("mine.py")).write_text(
        source.read_text()
        + "\n\nfrom ortho_ref.parametrizations import Exponential\nfrom ortho_ref.recurrent import Recurrent\n"
    )
    name = models.own("mine.py:mine")
    assert models.options_of(name) == {"leak": 0.7}
    assert models.build(name, 3, 5, leak=0.2).cell.leak == 0.2
    assert set(models.build(name, 3, 5).parametrizations) == {"U"}


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("(m: None, n: 'Nowhere'): pass", "cannot be loaded: NameError: name 'Nowhere' is not defined"),
        ("(m, n): pass", "is None; allowed: a Recurrent"),
    ],
)
def test_a_function_that_makes_none(mine, function, message):
    """In one line, when it is loaded or when it is called."""
    mine("", f"def mine{function}\n\n\n")
    with pytest.raises((ValueError, TypeError), match=re.escape(message)):
        models.build(models.own("mine.py:mine"), 3, 5)


def said_of(source, folder):
    """Exit code of the check of the lesson's cell with this source, and what it says of a wrong line."""
    (folder / "mine.py").write_text(source)
    code, out, _ = call(check_gradients.main, "--cell", f"{folder / 'mine.py'}:LessonCell")
    return code, out[out.index("LessonCell: ") :] if "LessonCell: " in out else ""


@pytest.mark.parametrize(("wrong", "right", "printed"), WRITTEN)
def test_the_lessons_mistakes_are_named_as_the_page_says(wrong, right, printed, tmp_path, monkeypatch):
    """docs/chapters/backward-by-hand.md: each of the three, word for word, and the line is the one that was changed."""
    monkeypatch.setattr(models, "_OWN", {})
    assert LESSON.count(right) == 1
    changed = LESSON.replace(right, wrong)
    code, said = said_of(changed, tmp_path)
    assert code == 1
    assert said.split() == printed.split()
    number = int(re.search(r"^line (\d+): ", said, re.M)[1])
    assert wrong in changed.splitlines()[number - 1]


def test_the_lessons_cell_is_right(tmp_path, monkeypatch):
    """As it stands nothing is said of it."""
    monkeypatch.setattr(models, "_OWN", {})
    assert len(WRITTEN) == 3
    assert said_of(LESSON, tmp_path) == (0, "")
