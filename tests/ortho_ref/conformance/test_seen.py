"""What anybody can see of wrong outputs, what is asked, and what of it is told: each thing once, on one screen."""

from dataclasses import replace

import numpy as np
import pytest

from ortho_ref.conformance import check
from ortho_ref.conformance.cases import reference
from ortho_ref.conformance.diagnosis.seen import hint_of, right_and_wrong
from ortho_ref.conformance.findings import findings
from ortho_ref.conformance.mistakes import MISTAKES
from ortho_ref.conformance.mistakes.changes import times
from ortho_ref.conformance.mistakes.mistake import Mistake, made
from ortho_ref.conformance.mistakes.patched import Patched
from ortho_ref.conformance.mistakes.private import private
from ortho_ref.conformance.mistakes.ways import read_as
from ortho_ref.conformance.report import FAILED, Report, Result
from ortho_ref.conformance.running.implementation import OfCell
from ortho_ref.conformance.running.sizes import sizes_told
from tests.ortho_ref.conformance.adapters import BY_ID, answering
from tests.ortho_ref.conformance.near_misses import altered, by_forward_differences, of_phi, reshaped

BY_NAME = {mistake.name: mistake for mistake in MISTAKES}
GRU, LSTM, UPDATE = "cell/gru_reset_before/tanh", "cell/lstm/square", "update/scaled_cayley"


HINTS = [
    (GRU, "h", lambda a: np.concatenate([a[:1], a[:-1]]), "what is expected one step earlier"),
    (GRU, "h", lambda a: np.concatenate([a[:1], a[2:], a[:1]]), "what is expected one step later"),
    (GRU, "h", lambda a: np.concatenate([a[:1], a[:0:-1]]), "what is expected, the steps in reverse"),
    (GRU, "h", lambda a: np.broadcast_to(a[3], a.shape), "the same at every step"),
    (GRU, "h", lambda a: a[:, [1, 0, 2, 3]], "what is expected along axis 1 in another order: 1, 0, 2, 3"),
    (GRU, "h", reshaped, "what is expected by a reshape in place of a transpose of axes 0 and 1"),
    (GRU, "d_weights.U_c", lambda a: a[:, ::-1], "along axis 1 in another order: 4, 3, 2, 1, ..."),
    (GRU, "d_weights.U_c", lambda a: np.sort(a, axis=None).reshape(a.shape), "the right numbers in another order"),
    (GRU, "d_weights.U_c", lambda a: a + 0.5, "0.5 more than what is expected, in every entry"),
    (GRU, "d_weights.U_c", lambda a: np.clip(a, -0.2, 0.3), "clipped at -0.2 and 0.3"),
    (GRU, "d_weights.U_c", lambda a: a * (1 + (np.arange(5) == 2)), "right but for 2 along axis 1"),
    (UPDATE, "U", lambda a: np.swapaxes(a, 1, 2), "the transpose of what is expected, of each matrix"),
    (UPDATE, "A", lambda a: a + np.eye(a.shape[1]), "not skew"),
    # Axis 0 has no steps here.
    ("layer/lstm/batch-first", "y", lambda a: a[::-1], "along axis 0 in another order: 3, 2, 1, 0"),
    ("parametrization/exponential", "U", lambda a: np.roll(a, 1, 0), "along axis 0 in another order: 4, 0, 1, 2, ..."),
    ("activation/tanh", "y", lambda a: a[::-1], "along axis 0 in another order: 5, 4, 3, 2, ..."),
]


@pytest.mark.parametrize(("id", "name", "change", "says"), HINTS, ids=lambda value: value if type(value) is str else "")
def test_what_an_output_looks_like(id, name, change, says):
    """And the right one looks like nothing of it."""
    vector = BY_ID[id]
    assert says in hint_of(name, vector, {name: change(vector.expected[name])}, "float64")


def test_the_first_quantity_that_is_wrong():
    """h of a step is made of its c."""
    vector = BY_ID[LSTM]
    h, c = (vector.expected[name].copy() for name in "hc")
    h[1:] += 0.1 * np.random.default_rng(0).standard_normal(h[1:].shape)
    assert "h[1] is wrong where c[1] is right" in right_and_wrong(vector, {"h": h, "c": c}, "float64")
    c[1] += h[1]
    assert "is wrong where" not in right_and_wrong(vector, {"h": h, "c": c}, "float64")


def as_mistaken(outputs, applies=lambda case: True):
    """An adapter with this in it, where it applies."""
    mistake = Mistake("own", "own", lambda case: True, outputs)
    return lambda case: made((mistake,) if applies(case) else (), replace(BY_ID[case.id], case=case))


def said(outputs, *ids):
    """What is said of these cases."""
    return [result.diagnosis for result in check(as_mistaken(outputs), ids).results if result.id in ids]


# Each thing once


def test_a_mistake_in_several_families_is_one_finding():
    """With its cases counted by family, and nothing of one family in its words."""
    wrong = BY_NAME["U-transposed"].outputs
    only = ["cell/elman/tanh", "cell/lstm/square", "cell/gru_reset_before/tanh"]
    report = check(as_mistaken(wrong), [f"{id}*" for id in only[:1]] + only[1:])
    (found,) = findings(report.results)
    assert found.says == "your outputs equal the reference with every U transposed"
    assert found.coverage.startswith(f"{len(report.results)} of {len(report.results)} failing cases: cell/elman ")


def test_numbers_make_no_finding_of_their_own():
    """Nor does which of a cell's weights it is."""
    texts = [
        f"forward wrong: {own}; off by {size}; asked again, the forward pass is right with {u} = 0: look at what "
        "multiplies U"
        for own, size, u in (("h", "1e-3 of it", "U"), ("c, h", "2e-05 of it", "every U"), ("y, h_T", "0.1", "every U"))
    ]
    results = tuple(Result(f"cell/{i}/x", FAILED, diagnosis=text) for i, text in enumerate(texts))
    assert len(findings(results)) == 1
    apart = [replace(r, diagnosis=text) for r, text in zip(results, ("wrong: h; h: all zeros", *texts), strict=False)]
    assert len(findings(apart)) == 2


def test_a_report_is_on_one_screen():
    """However many cases fail, in however many ways; every row is there with --verbose."""
    ways = [f"wrong: h; h: {'a-word ' * i}" for i in range(1, 40)]
    many = tuple(Result(f"cell/{i % 7}/{i}", FAILED, diagnosis=ways[i % len(ways)]) for i in range(300))
    report = Report(many, "float64")
    assert len(str(report).splitlines()) <= 40
    assert "more findings, of " in str(report)
    assert "rows are left out; --verbose has them." in report.summary()
    assert len(replace(report, verbose=True).rows()) == len(many)


# Evidence


def test_more_cases_lose_no_true_name():
    """Padding that is ignored in one case, beside two of other padding that are wrong in a way without a name."""
    alone, others = "layer/lstm/mask", ["layer/lstm/lengths", "layer/lstm/bidirectional-lengths"]
    wrong = BY_NAME["padding-ignored"].outputs

    def run(case):
        vector = replace(BY_ID[case.id], case=case)
        if case.config["padding"] == "mask":
            return made((Mistake("own", "own", lambda case: True, wrong),), vector)
        return {name: a + np.random.default_rng(0).standard_normal(a.shape) for name, a in vector.expected.items()}

    for only in ([alone], [alone, *others]):
        found = {result.id: result.mistakes for result in check(run, only).results}
        assert ("padding-ignored",) in found[alone]


def test_where_one_mistake_explains_as_much_no_two_are_named(monkeypatch):
    """The one has another case; of the two there is no more than the case that it does not explain."""

    def moved(name, amount):
        return Mistake(name, name, lambda case: True, lambda case, base: {n: a + amount for n, a in base(case).items()})

    own, other = "loss/mean_squared_error", "loss/mean_squared_error/masked"
    vectors = {id: replace(BY_ID[id], kills=("one",)) for id in (own, other)}
    monkeypatch.setattr("ortho_ref.conformance.diagnosis.MISTAKES", tuple(map(moved, ("one", "a", "b"), (1, 2, 3))))
    from ortho_ref.conformance.running.runner import check_vectors

    run = {own: 1, other: 5}
    report = check_vectors(answering_by(run), [vectors[own], vectors[other]], "float64")
    assert [result.mistakes for result in report.results] == [(("one",),), ()]


def answering_by(amounts):
    """The right outputs, each case's with an amount added."""
    return lambda case: {n: a + amounts[case.id] for n, a in BY_ID[case.id].expected.items()}


# What is asked


@pytest.mark.parametrize("value", [lambda a: a / (1 + abs(a)), lambda a: np.clip(a, -1, 1), np.sin])
@pytest.mark.parametrize("id", ["cell/gru_reset_after/tanh", GRU])
def test_another_phi_is_not_a_matter_of_gates(id, value):
    """With z = 0 the candidate stays: open gates do not hide it."""
    (text,) = said(of_phi("tanh", value, np.cos), id)
    assert "look at phi" in text
    assert "how r" not in text


def test_what_takes_the_mistake_away_proves_nothing():
    """The derivative of f's sigmoid, missing: with f set to 1/2 the gradient of b_f is wrong as before."""
    calls = []

    def second_of_three(own):
        def derivative(y):
            calls.append(1)
            return own(y) if len(calls) % 3 != 2 else 0 * y + 1

        return derivative

    (text,) = said(Patched((private("ortho_ref.cells.lstm"), "sigmoid_derivative", second_of_three)), LSTM)
    assert len(calls) > 3
    assert "how f" not in text


def test_differences_are_no_matter_of_a_weight():
    (text,) = said(altered(by_forward_differences), "cell/elman/tanh")
    assert "as by differences" in text
    assert "look at" not in text


def test_biases_inside_the_reset_are_not_called_outside():
    """b_h and b_hh times r, forward."""

    def inside(case, base):
        both = case.inputs["weights.b_h"] + case.inputs["weights.b_hh"]
        own = {"weights.b_hh": both, "weights.b_h": 0 * both}
        found = base(replace(case, inputs={**case.inputs, **own}))
        return found | {"d_weights.b_h": found["d_weights.b_hh"]}

    (text,) = said(inside, "cell/gru_reset_after/recurrent-bias-square")
    assert "outside" not in text
    assert "where b_h is added" in text


def test_what_is_seen_in_full_is_not_asked():
    """Nothing is turned off for a factor."""
    asked = []

    def run(case):
        asked.append(case.id)
        return answering(lambda found: found | {"d_x": 2.5 * found["d_x"]})(case)

    (found,) = check(run, GRU).results[:1]
    assert "2.5 times" in found.diagnosis
    assert asked.count(GRU) == 2


LAYERS = {
    "layer/lstm/two-layers": ("weights.layer1.U_f", "layer to layer|multiplies U"),
    "layer/gru_reset_before/bidirectional": ("weights.layer0_reverse.W_c", "the other direction"),
    "layer/lstm/lengths": ("weights.layer0.U_i", "what multiplies U_i"),
    "layer/gru_reset_after/batch-first": ("h0", "what is made of h0"),
}


@pytest.mark.parametrize("id", LAYERS)
def test_layers_are_asked_again(id):
    """With a direction, a layer, a weight alone."""
    name, look = LAYERS[id]
    (text,) = said(read_as(times(0.5), name), id)
    assert any(words in text.partition("look at ")[2] for words in look.split("|")), text


# Shapes


def test_an_error_of_shapes_says_which_size_is_which():
    case = BY_ID[GRU].case
    T, B, m, n = (*case.inputs["x"].shape, case.inputs["h0"].shape[1])
    text = sizes_told(f"RuntimeError: mat1 and mat2 shapes cannot be multiplied ({B}x{m} and {n}x{3 * n})", case)
    assert text.startswith(f"; here T = {T}, B = {B}, m = {m}, n = {n}: ")
    assert f"{3 * n} is 3 n" in text
    assert "m = 3, n = 4" in sizes_told("shape", BY_ID["layer/lstm/three-layers-bidirectional"].case)
    assert sizes_told("ValueError: no", case) == sizes_told("shape 3", BY_ID["loss/mean_squared_error"].case) == ""

    def run(case):
        raise ValueError(f"operands could not be broadcast together with shapes ({B},{n}) ({m},)")

    assert f"{n} is n" in check(run, GRU).results[0].message


def test_an_implementation_of_another_cell_says_which():
    report = check(OfCell(lambda case: None, "gru_reset_after"), GRU)
    assert report.summary().endswith("It is of another cell: it is gru_reset_after.")
    assert OfCell(reference.outputs, "gru_reset_before")(BY_ID[GRU].case)
