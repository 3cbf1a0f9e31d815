"""The table of a run's options, and what follows from it."""

import inspect
import json
import re
import subprocess
import sys
from typing import get_args

import pytest

from ortho_ref import models
from scripts import train
from scripts.grid.config import config_of
from scripts.grid.defaults import DEFAULTS
from scripts.grid.options import FLAGS, OPTIONS, PANELS, PLACES, check_task, given_in, places_in
from tasks import by_name
from tests.ortho_ref.training.reading import read_config
from tests.scripts.runs import ROOT, call


def several(names):
    """As a message lists them."""
    return f"{', '.join(names[:-1])} and {names[-1]}"


def command_line():
    """Parameter -> typer's option, of `scripts.train`."""
    parameters = inspect.signature(train.main).parameters
    return {name: get_args(parameter.annotation)[1] for name, parameter in parameters.items()}


def test_the_signature_is_the_table():
    """Every row is a parameter, and nothing else but the task is one; by panels; what is not given is None."""
    own = command_line()
    assert next(iter(own)) == "task"
    rows = {option.parameter or option.name: option for option in OPTIONS.values()}
    assert set(own) == {"task", *rows}
    for name, option in rows.items():
        assert (own[name].help, own[name].rich_help_panel) == (option.help, option.panel)
        assert inspect.signature(train.main).parameters[name].default is (False if option.switch else None)
    panels = [own[name].rich_help_panel for name in list(own)[1:]]
    assert list(dict.fromkeys(panels)) == list(PANELS)
    assert sorted(panels, key=PANELS.index) == panels


def test_help_shows_every_option(monkeypatch):
    """In a process of its own."""
    monkeypatch.setenv("COLUMNS", "300")
    page = call(train.main, "--help")[1]
    for option in OPTIONS.values():
        assert re.search(rf"^. +{option.flag} ", page, re.M), option.flag
    assert f"{', '.join(by_name.NAMES)}." in page
    assert "for text and arrays the file." in page
    assert "parenthesis, denoise, speech: paper (default), released; denoise also: places, marker." in page


def test_the_config_has_the_table_in_its_order():
    """With the task before it and what is made of it behind it."""
    config = config_of("copying")
    kept = [name for name, option in OPTIONS.items() if option.kept]
    assert list(config) == ["task", *kept, "network", "baseline", "data", "made_by"]
    own = by_name.options_of("copying")
    for name in kept:
        assert config[name] == (OPTIONS[name].default if OPTIONS[name].default is not None else config[name])
    assert {name: config[name] for name in own} == own
    for name in kept:
        assert (OPTIONS[name].tasks is None) or (config[name] is not None) == ("copying" in OPTIONS[name].tasks)


def test_help_names_the_defaults_of_the_table():
    """Where --help says what a run has "unless given" or calls it the default, that is the table's."""
    for name in ("model", "optimizer", "schedule", "dtype", "device", "seed", "log_every"):
        option = OPTIONS[name]
        said = re.search(r"(\S+) unless given|(\S+) \(default\)|(\S+)\.$", option.help)
        assert str(option.default) in said.groups(), name


def test_every_task_has_its_sizes():
    """The table of defaults has the tasks of the list, no others."""
    assert set(DEFAULTS) == set(by_name.NAMES)


def test_every_model_option_is_reached():
    """By an option of its own, or by --model-option; what an option stands for, some model has."""
    every = {option for model in models.names() for option in models.options_of(model)}
    assert set(FLAGS) <= every
    assert FLAGS["exact"] == "--order exact"
    for name, option in OPTIONS.items():
        if option.sets and name in option.sets:
            assert option.sets[name] == option.flag


def test_options_as_the_config_has_them(tmp_path):
    """Texts are read; nothing, a switch that is not set and an empty list are None; what is no option of a run is left
    out, and so are places."""
    values = dict.fromkeys(command_line()) | {"out": tmp_path, "resume": True, "seed": 0}
    values |= {
        "model_option": ["a=1", "b=no", "c=None", f"d={10**400}"],
        "parametrize": [],
        "other_data": False,
        "data": tmp_path / "x",
    }
    given = {name: value for name, value in given_in(values).items() if value is not None}
    assert given == {"seed": 0, "model_options": {"a": 1, "b": "no", "c": None, "d": str(10**400)}}
    assert json.dumps(given)
    assert places_in(values) == {"data": tmp_path / "x"}
    assert PLACES == ("data", "held_out")


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"task": "adding", "form": "released"}, "--form is for parenthesis, denoise and speech; adding has none"),
        ({"task": "denoise", "layout": "A"}, "--layout is for copying; denoise has none"),
        ({"task": "adding", "data": "x"}, f"--data is for {several(by_name.takers_of('data'))}; adding has none"),
        ({"task": "mnist", "length": 5}, f"--length is for {several(by_name.takers_of('length'))}; mnist has none"),
        ({"task": "text"}, "text needs --data DATA, a UTF-8 text"),
    ],
)
def test_options_of_another_task(config, message):
    """Refused by their names on the command line; the task's own are not."""
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        check_task(dict.fromkeys(OPTIONS) | config)
    check_task(dict.fromkeys(OPTIONS) | {"task": "copying", "layout": "A", "length": 5})


NEW = """
import json, sys
from scripts.grid import defaults
from tasks import by_name
from tasks.adding import Adding

def other(length=6, subset=None):
    return Adding(length, subset)

by_name.OPTIONS["subset"] = by_name.Option(int, "{tasks}: how many sequences.")
by_name.TASKS["other"] = other
by_name.NAMES = (*by_name.NAMES, "other")
defaults.DEFAULTS["other"] = defaults.DEFAULTS["adding"]
from scripts import train
from tests.scripts.runs import call
print(json.dumps([call(train.main, *words) for words in json.load(sys.stdin)]))
"""


def test_a_new_task_is_an_entry_and_its_sizes(tmp_path):
    """Nothing else is touched: its option is on the command line, in the config and in the checks, and reaches it."""
    tiny = ["--hidden", "4", "--batch", "3", "--iterations", "1", "--out", str(tmp_path / "run")]
    lines = [[*words.split(), *tiny] for words in ("copying --subset 9", "other --subset 2", "other --subset 9")]
    command = [sys.executable, "-W", "error", "-c", NEW]
    end = subprocess.run(command, cwd=ROOT, input=json.dumps(lines), capture_output=True, text=True, check=True)
    found = [(code, stderr) for code, _, stderr in json.loads(end.stdout)]
    assert found[0] == (2, "error: --subset is for other; copying has none\n")
    assert found[1] == (2, "error: batch_size is 3; allowed: 1 to training_set = 2\n")
    assert found[2][0] == 0, found[2]
    config = read_config(tmp_path / "run")
    assert (config["task"], config["length"], config["subset"]) == ("other", 6, 9)
    assert list(config)[list(config).index("join") + 1] == "subset"
