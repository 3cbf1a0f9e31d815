"""The numbers behind the pages on eigenvalues, Neumann's drift and modReLU are ortho_ref's, to 1e-10."""

import math

import numpy as np
import pytest

from tests.alive import reference
from tests.alive.node import answer, changed_copy, needs_node

pytestmark = needs_node

WALKS = [
    {"t": 0, "direction": 1, "negativeOnes": 3, "reflections": 1},
    {"t": 1.02, "direction": 4, "negativeOnes": 2, "reflections": 3},
    {"t": 9.98, "direction": 17, "negativeOnes": 5, "reflections": 4},
]
RUNS = [
    {"rate": 1e-3, "order": 2, "resetEvery": 50, "size": 0.1, "force": True},
    {"rate": 10**-0.5, "order": 1, "resetEvery": 20, "size": 1e-2, "force": True},
    {"rate": 1e-2, "order": 3, "resetEvery": None, "size": 1e-3, "force": True},
]
POINTS = [{"z": 0.8, "b": 0.5, "h": 0.1}, {"z": -1.3, "b": -0.62, "h": 1e-6}, {"z": 0.03, "b": 0.71, "h": 1}]
TURNS = [
    {"angle": math.acos((1 - math.sqrt(5)) / 2), "kind": "rotation", "a": 20},
    {"angle": math.radians(40), "kind": "rotation", "a": 1.5},
    {"angle": math.radians(110), "kind": "reflection", "a": 4},
]

RULES = [
    {"T": 64, "keys": "random", "beta": 1.0, "alpha": 1.0, "size": 1.0},
    {"T": 64, "keys": "random", "beta": 2.0, "alpha": 1.0, "size": 1.0},
    {"T": 20, "keys": "random", "beta": 1.7, "alpha": 0.95, "size": 1.2},
    {"T": 9, "keys": "same", "beta": 0.5, "alpha": 1.0, "size": 1.0},
    {"T": 64, "keys": "turns", "beta": 1.0, "alpha": 1.0, "size": 1.0},
]


def each(script, settings, *functions, root=None):
    """What functions of a script return at each of the settings."""
    calls = ", ".join(f"{name}: page.{name}(one)" for name in functions)
    program = (
        f"const page = require(scripts + '{script}');"
        f"console.log(JSON.stringify(given.map((one) => ({{{calls}}})), (_, value) =>"
        f"  typeof value === 'number' && !Number.isFinite(value) ? String(value) : value));"
    )
    return answer(program, settings, **({"root": root} if root else {}))


def close(found, expected):
    """To 1e-10 of each number, and of 1 where it is smaller."""
    np.testing.assert_allclose(np.array(found, float), expected, rtol=1e-10, atol=1e-10)


def table(found):
    """The rows that the page on eigenvalues shows, signs of the angles apart."""
    return [[own["det"], own["minusOnes"], *np.abs(own["angles"])] for own in found]


def test_eigenvalues():
    """[ncgru:2] [sgornn:2-alt] [goru:tunable] [goru:householder] U, and its eigenvalues; they come in pairs."""
    for found in each("eigenvalues.js", WALKS, "parameters", "numbers"):
        for own, U in zip(found["numbers"], reference.orthogonal(found["parameters"]), strict=True):
            close(own["U"], U)
            assert sum(math.sin(angle) for angle in own["angles"]) == pytest.approx(0, abs=1e-10)
        close(table(found["numbers"]), reference.eigenvalues(found["parameters"]))


def test_the_minus_ones_of_D():
    """At t = 0 the Cayley U is D; an odd number of -1s leaves one for every A, and D = I has none (E-ncgru-07)."""
    walks = [{"t": t, "direction": 2, "negativeOnes": k, "reflections": 1} for k in range(7) for t in (0, 3, 10)]
    for walk, found in zip(walks, each("eigenvalues.js", walks, "numbers"), strict=True):
        k, minus_ones = walk["negativeOnes"], found["numbers"][0]["minusOnes"]
        assert minus_ones == (k if walk["t"] == 0 else k % 2)


def test_half_turn():
    """[ncgru:2-inv] The entries of E-ncgru-07: 19.98 and 0.0500 at 0.1, 2000.0 and 0.0005 at 0.001."""
    shorts = [0.1, 0.001, 1.2]
    for short, found in zip(shorts, each("half_turn.js", [{"short": one} for one in shorts], "numbers"), strict=True):
        close([[own["entry"], own["turned"]] for own in found["numbers"]], reference.half_turn(short))
    assert [round(value, 2) for value in reference.half_turn(0.1)[:2, 0]] == [19.98, 0.05]


def settings_of(run):
    """A run as the reference takes it."""
    return run["rate"], run["order"], run["resetEvery"]


def test_neumann_runs():
    """[ncgru:alg1] Algorithm 1, with resets that are due and forced, and the released update."""
    program = """
      const page = require(scripts + "neumann.js");
      console.log(JSON.stringify({start: page.start(), runs: given.map((one) => (
        {gradients: page.gradients(one.size), ...page.numbers(one)}))}));
    """
    found = answer(program, RUNS)
    A, forced = np.array(found["start"]), []
    for run, own in zip(RUNS, found["runs"], strict=True):
        gradients = np.array(own["gradients"])
        paper = reference.algorithm_1(A, gradients, *settings_of(run))
        close([[row["norm"], row["defect"]] for row in own["paper"]], paper)
        close([row["defect"] for row in own["released"]], reference.released(A, gradients, *settings_of(run)))
        forced.append(sum(row["reset"] == "forced" for row in own["paper"]))
        assert [row["reset"] == "forced" for row in own["paper"]] == list(paper[:, 0] >= 1)
        assert paper[48, 1] < own["released"][48]["defect"]
    assert forced[0] == forced[2] == 0 < forced[1]


def test_one_update():
    """[ncgru:16] [ncgru:17] [ncgru:18] One update from the exact inverse, past the rate at which ||P|| is 1."""
    program = """
      const page = require(scripts + "neumann.js");
      console.log(JSON.stringify({start: page.start(), step: page.firstStep(),
        found: given.map((rate) => page.oneUpdate(rate, page.firstStep()))}));
    """
    rates = [1e-3, 0.1, 0.5]
    answered = answer(program, rates)
    A, step, found = np.array(answered["start"]), np.array(answered["step"]), answered["found"]
    for rate, own in zip(rates, found, strict=True):
        close([own["norm"], *own["defects"]], reference.one_update(A, rate * step))
    assert found[1]["norm"] < 1 < found[2]["norm"]
    assert sorted(found[0]["defects"], reverse=True) == found[0]["defects"]  # a higher order serves below 1,
    assert found[2]["defects"][2] > found[2]["defects"][0]  # and harms above


NAMES = ("value", "slope", "biasSlope", "distance", "jump", "difference", "complexNorm", "released")


def test_modrelu():
    """[ncgru:20] [bp:modrelu-real] [bp:modrelu-complex] Value, derivatives, kinks and jump (E-all-01, E-urnn-03)."""
    for point, found in zip(POINTS, each("modrelu.js", POINTS, "numbers"), strict=True):
        close([found["numbers"][name] for name in NAMES], reference.modrelu_at(**point))


def test_modrelu_at_its_kinks():
    """Value and derivatives at 0 are 0 whatever b; the jump is 2 b for b > 0 alone (E-all-01)."""
    points = [{"z": 0, "b": b, "h": 1e-6} for b in (-0.5, 0, 0.5)] + [{"z": 0.5, "b": -0.5, "h": 1e-6}]
    found = [one["numbers"] for one in each("modrelu.js", points, "numbers")]
    assert all((own["value"], own["slope"], own["biasSlope"]) == (0, 0, 0) for own in found)
    assert [own["jump"] for own in found] == [0, 0, 1, 0]
    assert found[2]["difference"] == pytest.approx(5e5, rel=1e-5)


def test_gates():
    """[ncgru:36] [ncgru:40] The product of a tanh GRU's own Jacobians; 1.2720 a step at most (E-ncgru-05)."""
    found = [one["numbers"] for one in each("gates.js", TURNS, "numbers")]
    for turn, own in zip(TURNS, found, strict=True):
        single, product = reference.gates(**turn)
        close([own["step"], own["growth"]], single)
        close(np.stack([own["norms"], own["alike"]], 1), product)
        assert max(own["alike"]) <= 1 + 1e-12
    golden = (1 + math.sqrt(5)) / 2
    assert found[0]["growth"] == pytest.approx(math.sqrt(golden), abs=1e-8)
    assert found[0]["norms"][-1] > 1e10
    assert found[2]["growth"] <= 1 + 1e-10


def norms(found):
    """What the page's table has of each step."""
    return [[row["norm"], row["most"], row["least"]] for row in found["numbers"]]


def test_delta_rule(tmp_path):
    """[bp:bptt/g] [urnn:diag] The norms of dL/dh_t are the kit's; with the sign of beta turned they are not."""
    answers = each("delta_rule.js", RULES, "drawn", "numbers")
    expected = [reference.delta_rule(own["drawn"], rule) for rule, own in zip(RULES, answers, strict=True)]
    for own, rows in zip(answers, expected, strict=True):
        close(norms(own), rows)
    wrong = changed_copy(tmp_path, "delta_rule.js", "alpha * (entry - along * k[i])", "alpha * (entry + along * k[i])")
    changed = each("delta_rule.js", RULES, "numbers", root=wrong)
    assert all(np.abs(norms(own)[0] - rows[0]).max() > 1e-3 for own, rows in zip(changed, expected, strict=True))


def test_delta_rule_tells_the_truth():
    """What docs/alive/delta-rule.md says is to be seen: level at beta 0 and 2, the same mean at beta and 2 - beta."""
    rule = {"T": 64, "keys": "random", "alpha": 1.0, "size": 1.0}
    rules = [{**rule, "beta": beta} for beta in (0, 0.5, 1, 1.5, 2)]
    found = each("delta_rule.js", rules, "numbers", "mean")
    for k in (0, 4):
        close(norms(found[k]), np.ones((65, 3)))
    assert norms(found[2])[0][0] < 0.01
    assert found[1]["mean"] == found[3]["mean"] == pytest.approx(math.sqrt(1 - 0.75 / 8))
    assert norms(found[1])[0][0] != pytest.approx(norms(found[3])[0][0], rel=0.1)
    same, turns, longer, decayed = each(
        "delta_rule.js",
        [
            *({**rule, "keys": keys, "beta": 1} for keys in ("same", "turns")),
            {**rule, "beta": 2, "size": 1.1},
            {**rule, "beta": 2, "alpha": 0.95},
        ],
        "numbers",
    )
    assert norms(same)[0][0] == pytest.approx(0.92, abs=0.005)
    assert [row[0] for row in norms(turns)[54:57]] == [0, 0, 0]
    assert norms(turns)[57][0] > 0
    assert norms(longer)[0][0] > 10
    close(norms(decayed), np.repeat(0.95 ** np.arange(64, -1, -1)[:, None], 3, axis=1))
