"""Where no name fits: the implementation is asked again, and what makes it right says where to look.

The bugs are those that a cell written in PyTorch has on an ordinary day.
"""

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ortho_ref.conformance import Apart, check, command_adapter
from ortho_ref.conformance.__main__ import main
from ortho_ref.conformance.cases import reference
from ortho_ref.conformance.cases.case_files import vectors
from ortho_ref.conformance.diagnosis import switches
from ortho_ref.conformance.diagnosis.localise import CALLS, answered
from tests.ortho_ref.conformance.adapters import BY_ID, right
from tests.ortho_ref.conformance.everyday import forward

ID = "cell/gru_reset_before/tanh"


BUGS = {
    "U_c transposed": ("U_c = 0, and wrong in the first step already", "what multiplies U_c"),
    "U_r transposed": ("U_r = 0", "what multiplies U_r"),
    "U_u negated": ("U_u = 0", "what multiplies U_u"),
    "W_u doubled": ("W_u = 0", "what multiplies W_u"),
    "b_u missing": ("b_u = 0", "where b_u is added"),
    "b_c doubled": ("b_c = 0", "where b_c is added"),
    "h0 ignored": ("h0 = 0", "what is made of h0"),
    "gates clipped": ("every gate = 1/2", "how r and u are computed"),
    "first sequence for all": ("one sequence (B = 1)", "what goes from one sequence of the batch to another"),
    "h0 carried": ("one step (T = 1)", "what is carried from step to step"),
    "relu leaky": ("every unit of phi on", "phi where it is 0"),
}


@pytest.fixture
def unnamed(monkeypatch):
    monkeypatch.setattr("ortho_ref.conformance.diagnosis.MISTAKES", ())


def told(run, id=ID):
    (result,) = check(run, id).results
    return result.diagnosis


@pytest.mark.parametrize("bug", BUGS)
def test_an_everyday_bug_is_localised(unnamed, bug):
    """With what it is right, and where to look."""
    right_with, look = BUGS[bug]
    text = told(lambda case: forward(case, bug), "cell/gru_reset_before/relu" if "relu" in bug else ID)
    assert text.startswith("wrong: h")
    assert "asked again, the forward pass is right with " in text
    assert f"with {right_with}" in text
    assert look in text


def test_phi_is_not_blamed_for_places_and_rounding(unnamed):
    """States a step late, and in float32, are as wrong with all off but phi."""

    def late(case):
        h = forward(case)["h"]
        return {"h": np.concatenate([h[:1], h[:-1]]), "d_h0": case.inputs["dh_T"]}

    for run in (late, lambda case: {"h": forward(case)["h"].astype(np.float32)}):
        assert "asked again, it is as wrong with one step" in told(run)
        assert "phi" not in told(run)


@pytest.mark.parametrize(
    ("look", "change"),
    [
        ("negative_ones = 0, and wrong in the first step already: look at what multiplies D", lambda A: A),
        ("A / 1000, and wrong in the first step already: look at what grows with A", lambda A: A * (1 + A**4)),
        ("A = 0, and wrong in the first step already: look at what is made of A", lambda A: 2 * A),
    ],
)
def test_a_layer_s_map(unnamed, look, change):
    """Without D, by a series cut short, of another A."""

    def run(case):
        kept, A = case.config["parametrized"], "weights.layer0.U_c.A"
        own = {**kept, "negative_ones": 0} if "negative" in look else kept
        changed = replace(
            case, config=case.config | {"parametrized": own}, inputs=case.inputs | {A: change(case.inputs[A])}
        )
        return reference.outputs(changed)

    assert f"the forward pass is right with {look}" in told(run, "layer/nc_gru/parametrized")


def test_no_more_questions_than_allowed(unnamed):
    """For all cases of one cell together, whatever comes of it; what is right is not asked."""
    asked = []

    def run(case):
        asked.append(case.id)
        h = forward(case)["h"]
        return {"h": h + wrong * h * h}

    only, wrong = ["cell/gru_reset_before/tanh", "cell/gru_reset_before/relu"], 1
    text = check(run, only).results[0].diagnosis
    assert "it is as wrong with one step (T = 1), with one sequence (B = 1)" in text
    assert 0 < len(asked) - 2 * len(only) <= CALLS
    asked.clear()
    wrong = 0
    assert told(run) == ""
    assert len(asked) == 2


@pytest.mark.parametrize("error", [ValueError, SystemExit, GeneratorExit, MemoryError])
def test_what_is_raised_there_is_no_answer(unnamed, error):
    """Nor a crash: the rest of the diagnosis stands."""

    def run(case):
        if len(case.inputs["x"]) == 1:
            raise error
        return forward(case, "U_c transposed")

    assert "right with U_c = 0: look at what multiplies U_c" in told(run)
    seen = []

    def later(case):
        seen.append(1)
        if len(seen) > 2:
            raise error
        return forward(case, "U_c transposed")

    assert told(later).startswith("wrong: h")


def test_every_case_can_be_asked_in_another_form():
    """Each switch changes it, and other values leave its shapes and types as they are."""
    for vector in vectors():
        case = vector.case
        found = switches.first(case)
        for switch in [*found, *switches.then(case, found)]:
            changed = switch.change(case)
            assert changed.inputs.keys() == case.inputs.keys() or case.kind == "layer"
            assert case.kind != "layer" or answered(vector, changed) is not None
        others = switches.redrawn(case).inputs
        assert {n: (a.shape, a.dtype) for n, a in others.items()} == {
            n: (a.shape, a.dtype) for n, a in case.inputs.items()
        }


def test_right_by_chance_is_not_told(unnamed):
    """One sequence in which h stays small, where h is kept small: right, and of other values wrong."""
    expected = BY_ID[ID].expected["h"][1:]
    limit = expected[:, 0].max()
    assert expected.max() > limit

    def limited(case):
        h = forward(case)["h"]
        return {"h": np.concatenate([h[:1], np.where(h[1:] > limit, (h[1:] + limit) / 2, h[1:])])}

    assert "asked again, " in told(limited)
    assert "with one sequence (B = 1)" not in told(limited)


def test_the_user_s_interrupt_goes_through(unnamed):
    seen = []

    def run(case):
        seen.append(1)
        if len(seen) > 2:
            raise KeyboardInterrupt
        return forward(case, "U_c transposed")

    with pytest.raises(KeyboardInterrupt):
        check(run, ID)


ADAPTER = """
from tests.ortho_ref.conformance.everyday import forward
def run(case):
    if case.kind != "cell":
        return None
    return forward(case, "W_u doubled")
"""
PROGRAM = """
import json, sys
from types import SimpleNamespace
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
from tests.ortho_ref.conformance.everyday import forward
with safe_open(sys.argv[1], "np") as file:
    config = json.loads(file.metadata()["config"])
case = SimpleNamespace(config=config, inputs=load_file(sys.argv[1]))
save_file(forward(case, "W_u doubled"), sys.argv[2])
"""


def test_a_program(unnamed, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))
    path = tmp_path / "mine.py"
    path.write_text(PROGRAM)
    run = command_adapter(f"{sys.executable} {path} {{input}} {{output}}", 60)
    assert "look at what multiplies W_u" in told(run)


@pytest.mark.parametrize("ends", [False, True])
def test_in_a_process_of_its_own(unnamed, tmp_path, ends):
    """Also one that ends while it is asked."""
    path, exits = tmp_path / "mine.py", "    if len(case.inputs['x']) == 1:\n        import os\n        os._exit(0)\n"
    path.write_text(ADAPTER.replace("    return forward", exits + "    return forward") if ends else ADAPTER)
    with Apart(str(path)) as run:
        assert "look at what multiplies W_u" in told(run)


def test_the_first_and_the_worst_wrong_entry(tmp_path, capsys):
    """In the report, and printed with --verbose."""
    path, out = tmp_path / "mine.py", tmp_path / "out.json"
    path.write_text(
        "from tests.ortho_ref.conformance.adapters import right\n"
        "def run(case):\n"
        "    found = right(case)\n"
        "    found['d_outputs'][0, 1, 0] += 1\n"
        "    found['d_outputs'][2, 0, 1] = float('nan')\n"
        "    return found\n"
    )
    words = ["run", "--adapter", str(path), "--only", "loss/mean_squared_error/masked", "--in-process"]
    assert main([*words, "--verbose", "--report", str(out)]) == 1
    (case,) = json.loads(out.read_text())["cases"]
    expected = right(type("Case", (), {"id": case["id"], "kind": "loss"}))["d_outputs"]
    wrong = case["outputs"]["d_outputs"]["wrong"]
    assert (wrong["count"], wrong["of"]) == (2, expected.size)
    assert wrong["first"] == {"index": [0, 1, 0], "expected": expected[0, 1, 0], "given": expected[0, 1, 0] + 1}
    assert wrong["worst"] == {"index": [2, 0, 1], "expected": expected[2, 0, 1], "given": None}
    assert case["outputs"]["loss"]["wrong"] is None
    assert f"d_outputs: 2 of {expected.size} entries wrong: first [0, 1, 0] " in capsys.readouterr().out
    assert main(words) == 1
    assert "entries wrong" not in capsys.readouterr().out


@pytest.mark.parametrize("id", ["cell/gru_reset_after/recurrent-bias", "layer/gru_reset_after/wide"])
def test_phi_of_the_bias_alone_has_no_recurrent_bias(id):
    """Else what is wrong with r * (U h + b_hh) would be looked for in phi."""
    case = BY_ID[id].case
    changed = switches.rest(case).change(case)
    names = [name for name in case.inputs if name.endswith(".b_hh")]
    assert names
    assert all(case.inputs[name].any() and not changed.inputs[name].any() for name in names)
