"""docs/which-gru.md: layouts are the converters', cells do what is said of them, commands are the stored reports'."""

import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from ortho_ref import converters, models
from ortho_ref.converters.config import config_of
from scripts.maintain.scoreboard import audit_toml, stored_reports

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/which-gru.md").read_text(encoding="utf-8")
CELLS = {"before": "gru_reset_before", "after": "gru_reset_after"}
#: What libraries call the candidate, and an LSTM's.
OURS = {"n": "h", "g": "h"}
#: What the page's shapes are made of.
SIZES = {"1": 1, "2": 2, "m": 3, "n": 4, "3n": 12, "6n": 24}


def rows(head):
    """The cells of the rows of the table that begins so."""
    table = PAGE.split(f"| {head} |")[1].split("\n\n")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]


@cache
def layout(row):
    """A row's converter, and how it has that cell."""
    own = converters.by_name(row[-1].strip("`"))
    return own, own.layouts[CELLS[row[1]]]


GRUS = [tuple(row) for row in rows("GRU")]


@pytest.mark.parametrize("row", GRUS, ids=[row[0] for row in GRUS])
def test_a_layout_is_the_converters(row):
    """Names and shapes of all arrays, the order of the gates, who weighs the old state, a candidate's second bias."""
    own, found = layout(row)
    said = {
        name: tuple(SIZES[one.strip()] for one in shape.split(","))
        for name, shape in re.findall(r"`([\w/]+)` \(([^)]*)\)", row[4])
    }
    assert said == own.shapes(found, SIZES["n"], SIZES["m"])
    if row[3] != "by name":
        gates = {"c": "h", "u": "z"}
        assert [OURS.get(gate, gate) for gate in row[3].split()] == [gates.get(gate, gate) for gate in found.gates]
    assert row[2] == "z, the old"
    assert found.flipped == ("u" if row[1] == "before" else "")
    assert found.recurrent_bias == ("no b_hh" not in row[4])


def test_every_converter_of_a_gru_is_there():
    """With each of the two cells that it has; and the page speaks of as many layouts as its table has rows."""
    said = {(row[-1].strip("`"), CELLS[row[1]]) for row in GRUS}
    assert said == {
        (name, cell) for name, own in converters.FRAMEWORKS.items() for cell in CELLS.values() if cell in own.layouts
    }
    assert len(GRUS) == 10
    assert "## Ten layouts" in PAGE


def test_the_order_of_an_lstms_gates():
    """All nine; what has the gates by name has an array for each."""
    said = {name: order for names, order in rows("converter | LSTM") for name in re.findall(r"`([\w-]+)`", names)}
    assert said.keys() == converters.FRAMEWORKS.keys()
    for name, order in said.items():
        own = converters.by_name(name)
        if order == "by name":
            assert len([one for one in own.shapes(own.layouts["lstm"], 4, 3) if one.endswith("kernel")]) == 8
        else:
            assert tuple(order.replace("c", "g").split()) == own.layouts["lstm"].gates, name


def test_the_models_are_what_the_table_says():
    """By one step: where the reset acts, from r = (1, 0) and a U that exchanges two units; what u and z weigh."""
    for name, reset, update, _ in rows("model"):
        config = config_of(name.strip("`"))
        cell = models.build(name.strip("`"), 1, 2).cell
        assert config["cell"] == CELLS[reset]
        gate = update[0]
        w = {one: np.zeros(shape) for one, shape in cell.shapes(1, 2).items()}
        candidate = "c" if gate == "u" else "h"
        w |= {"b_r": np.array([50.0, -50.0]), f"U_{candidate}": np.array([[0.0, 1.0], [1.0, 0.0]])}
        new = 50.0 if gate == "u" else -50.0  # all weight on the candidate
        h, _ = cell.step_forward(w | {f"b_{gate}": np.full(2, new)}, np.zeros((1, 1)), np.ones((1, 2)))
        assert (np.abs(h[0]) > 0.1).tolist() == ([False, True] if reset == "before" else [True, False]), name
        h, _ = cell.step_forward(w | {f"b_{gate}": np.full(2, -new)}, np.zeros((1, 1)), np.ones((1, 2)))
        np.testing.assert_allclose(h, 1.0, atol=1e-12)


def test_its_refusal_is_the_converters():
    """What it quotes of a GRU that resets before the product, given to PyTorch."""
    with pytest.raises(converters.UnsupportedError) as raised:
        converters.by_name("pytorch").to_framework("gru", {})
    assert str(raised.value) in " ".join(PAGE.split())


def test_its_commands_are_those_of_the_reports():
    """Each to the letter, of a report that has a GRU's cases; of every library but the one that was not run."""
    audit = audit_toml.read()
    commands = rows("library")
    for _, command, report in commands:
        name = re.fullmatch(r"\[([\w-]+)\]\(findings/scoreboard\.md#\1\)", report)[1]
        own = audit.implementations[name]
        assert command.strip("`") == own.command == stored_reports.load(own)["command"]
        assert any(case["id"].startswith("cell/gru") for case in stored_reports.load(own)["cases"])
    with_reports = {row[0].split()[0].strip(",") for row in GRUS} - {"haste"}
    assert {library.split()[0] for library, *_ in commands} == with_reports
