"""tasks.by_name: the one list of tasks, and the options of a run that they take."""

import inspect
import re
from pathlib import Path

import pytest

from ortho_ref.training.task import JOINS
from tasks import by_name, copying, denoise, har, mnist, parenthesis, permuted_mnist, speech, windows
from tasks.adding import Adding
from tasks.copying import Copying
from tasks.denoise import Denoise
from tasks.generated import Generated
from tasks.parenthesis import Parenthesis
from tasks.text import Text

FOLDER = Path(inspect.getfile(by_name)).parent


@pytest.fixture
def text(tmp_path):
    """A text that is just long enough."""
    path = tmp_path / "text.txt"
    path.write_text("All work and no play. " * 30)
    return path


def test_every_file_is_a_task_of_the_list():
    """By the file's name, and as it calls itself; what several share is no task of the list."""
    shared = {"__init__", "by_name", "generated", "windows", "stretches"}
    shared |= {"parts", "files", "sets", "sound", "utterances"}
    files = {path.stem.replace("_", "-") for path in FOLDER.glob("*.py") if path.stem not in shared}
    assert files == set(by_name.NAMES) == set(by_name.TASKS)
    for name, own in by_name.TASKS.items():
        assert (own.__module__, own.name) == (f"tasks.{name.replace('-', '_')}", name)
    assert set(by_name.GENERATED) == {name for name in files if issubclass(by_name.TASKS[name], Generated)}
    assert "text" not in by_name.GENERATED


def test_tasks_are_made_with_their_options(text):
    """By name, with defaults that are the task's own; None is not given; a place may be given as text."""
    assert by_name.make("parenthesis") == Parenthesis(100, "paper")
    assert by_name.make("denoise", form="released", length=9) == Denoise(9, "released")
    assert by_name.make("adding", length=7) == Adding(7)
    assert by_name.make("copying", layout="C", length=None) == Copying(1000, "C")
    for data in (text, str(text)):
        made = by_name.make("text", data=data, length=5)
        assert (type(made), made.length, made.where) == (Text, 5, str(text))


def test_options():
    """Their defaults, what must be given, and who takes what; no option is nobody's."""
    assert by_name.options_of("copying") == {"length": 1000, "layout": "A"}
    assert by_name.options_of("text") == {"length": 100, "data": None, "windows": "fixed"}
    needed = {name: by_name.needed_by(name) for name in by_name.NAMES if by_name.needed_by(name)}
    assert needed == {"text": ("data",), "arrays": ("data",)}
    assert by_name.takers_of("form") == ("parenthesis", "denoise", "speech")
    without = {"mnist", "permuted-mnist", "har", "babi", "shortest-path", "speech"}
    assert set(by_name.NAMES) - set(by_name.takers_of("length")) == without
    assert set(by_name.takers_of("data")) == set(by_name.NAMES) - set(by_name.GENERATED)
    assert all(by_name.takers_of(option) for option in by_name.OPTIONS)


@pytest.mark.parametrize(
    ("option", "allowed"),
    [
        ("form", parenthesis.FORMS),
        ("form", denoise.FORMS),
        ("form", speech.FORMS),
        ("layout", copying.LAYOUTS),
        ("rows", mnist.ROWS),
        ("permutation", permuted_mnist.PERMUTATIONS),
        ("classes", map(str, har.MERGED)),
        ("state", windows.STATES),
        ("join", JOINS),
    ],
)
def test_help_has_every_value_and_the_default(option, allowed):
    """As the tasks have them; no other word stands there."""
    line, _, more = by_name.OPTIONS[option].help.removeprefix("{tasks}: ").rstrip(".").partition("; denoise also: ")
    line += f", {more}" if allowed == denoise.FORMS else ""
    assert re.split(r", | or ", line.replace(" (default)", "")) == list(allowed)
    for name in by_name.takers_of(option):
        assert f"{by_name.options_of(name)[option]} (default)" in line


@pytest.mark.parametrize(
    ("name", "options", "kind", "message"),
    [
        ("cifar", {}, ValueError, f"task is 'cifar'; allowed: {', '.join(map(repr, by_name.NAMES))}"),
        ("adding", {"form": "paper"}, TypeError, "adding has no option 'form'; allowed: length"),
        ("text", {}, TypeError, "text needs data, a UTF-8 text"),
    ],
)
def test_refused(name, options, kind, message):
    """A task that is none, an option of another or of none, one that is missing."""
    with pytest.raises(kind, match=f"^{re.escape(message)}$"):
        by_name.make(name, **options)


def test_names_that_are_none():
    """Wherever a name is asked for."""
    for function in (by_name.options_of, by_name.needed_by):
        with pytest.raises(ValueError, match="task is 'cifar'; allowed: 'parenthesis', "):
            function("cifar")
