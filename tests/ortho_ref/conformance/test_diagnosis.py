"""What the kit says of wrong outputs: the mistake, the two, or which outputs are right and which wrong.

That each mistake is what it says, and is told on every case that it fails on, test_mistakes.py holds.
"""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as hnp

from ortho_ref.conformance import check
from ortho_ref.conformance.cases.case import DTYPES
from ortho_ref.conformance.diagnosis import pairs
from ortho_ref.conformance.mistakes import MISTAKES
from ortho_ref.conformance.mistakes.mistake import Mistake, made
from ortho_ref.conformance.mistakes.patched import in_either_order
from ortho_ref.conformance.report import FAILED, PARTIAL
from tests.ortho_ref.conformance.adapters import BY_ID, answering
from tests.ortho_ref.conformance.test_findings import has

BY_NAME = {mistake.name: mistake for mistake in MISTAKES}
ID = "cell/gru_reset_before/tanh"
SMALL = "loss/mean_squared_error"


def one(run, id=ID, dtype="float64"):
    """The result of a case, diagnosed; of it alone."""
    return next(result for result in check(run, id, dtype).results if result.id == id)


def added(name, amount):
    """A made-up mistake: `amount` of a case is added to every output."""

    def outputs(case, base):
        return {key: array + amount(case) for key, array in base(case).items()}

    return Mistake(name, f"{name} added", lambda case: True, outputs)


def test_of_several_mistakes_that_comes_first_that_explains_most(monkeypatch):
    """Two that agree on one case and differ on another."""
    here = added("here", lambda case: 1.0 if case.id == SMALL else 2.0)
    elsewhere = added("elsewhere", lambda case: 3.0 if case.id.startswith("loss/mean_squared_error/") else 1.0)
    always = added("always", lambda case: 1.0)
    monkeypatch.setattr("ortho_ref.conformance.diagnosis.MISTAKES", (here, elsewhere, always))
    report = check(answering(lambda found: {name: array + 1 for name, array in found.items()}), "loss/*")
    found = {result.id: result.mistakes for result in report.results}
    assert found[SMALL] == found["loss/mean_squared_error/masked"] == (("always",),)
    assert found["loss/cross_entropy"] == (("always",), ("elsewhere",))
    (alone,) = list(check(answering(lambda found: {n: a + 1 for n, a in found.items()}), SMALL).results)[:1]
    assert ("always",) in alone.mistakes


def test_two_mistakes_are_looked_for_on_two_cases_alone(monkeypatch):
    """And what is found there is tried on the others."""
    calls = []
    original = pairs.candidates
    monkeypatch.setattr(pairs, "candidates", lambda failure: calls.append(failure.id) or original(failure))
    names = ("loss-gradient-summed", "mse-half")
    report = check(has(names), "loss/mean_squared_error")
    assert 1 <= len(calls) <= 2
    for result in report.results:
        assert {frozenset(names)} <= set(map(frozenset, result.mistakes)), result.id
    calls.clear()
    check(answering(lambda found: {name: a + 1 for name, a in found.items()}), "loss/mean_squared_error")
    assert len(calls) == 2
    calls.clear()
    monkeypatch.setattr(pairs, "_MANY", 1)
    check(answering(lambda found: {name: a + 1 for name, a in found.items()}), "loss/mean_squared_error")
    assert len(calls) == 1  # after many pairs no other case


def test_functions_that_are_replaced_apart_are_so_in_either_order():
    """Such pairs are tried in one order: in the other their outputs are the same."""
    vector = BY_ID[ID]
    own = [m for m in MISTAKES if m.applies(vector.case)]
    apart = [(a, b) for a, b in combinations(own, 2) if in_either_order(a, b)]
    assert apart
    assert not any(in_either_order(a, a) for a in own)
    for a, b in apart:
        one, other = made((a, b), vector), made((b, a), vector)
        assert all(np.array_equal(one[name], other[name], equal_nan=True) for name in one), (a.name, b.name)


def test_a_forward_pass_alone_is_diagnosed():
    """An adapter that gives h only: what is wrong with it is named all the same."""
    name = next(n for n in BY_ID[ID].kills if not _same_h(n))
    result = one(lambda case: {"h": has([name])(case)["h"]})
    assert result.status == FAILED
    assert (name,) in result.mistakes
    assert set(result.missing) == set(BY_ID[ID].expected) - {"h"}
    backward = next(n for n in BY_ID[ID].kills if _same_h(n))
    assert one(lambda case: {"h": has([backward])(case)["h"]}).status == PARTIAL


def _same_h(name):
    return np.allclose(made([BY_NAME[name]], BY_ID[ID])["h"], BY_ID[ID].expected["h"], 1e-12, 1e-12)


# Unexplained


def changed(**changes):
    """An adapter that gives the right outputs, some changed: name with __ for a dot -> function."""
    named = {name.replace("__", "."): change for name, change in changes.items()}
    return answering(lambda found: found | {name: change(found[name]) for name, change in named.items()})


@pytest.fixture
def unexplained(monkeypatch):
    """No mistakes to find, so that what is said of outputs comes out."""
    monkeypatch.setattr("ortho_ref.conformance.diagnosis.MISTAKES", ())


def noise(array):
    return array + np.random.default_rng(0).standard_normal(array.shape)


U_c, LSTM, COMPLEX, RESET = "d_weights.U_c", "cell/lstm", "cell/elman/complex", "update/neumann_cayley/reset"
GRADIENTS = [name for name in BY_ID[ID].expected if name.startswith("d_")]


def by(names, change):
    """What is given, changed in these names."""
    return lambda found: found | {name: change(found[name]) for name in names}


def swapped(found):
    return found | {"h": found["c"], "c": found["h"]}


# What is made of the right outputs of a case, what is said of it, and words that are not there.
SAID = [
    (ID, by(["d_x", U_c], noise), "=forward right; only d_weights.U_c, d_x wrong", ""),
    (ID, by(GRADIENTS, noise), "^forward right; d_", "only"),
    (
        ID,
        by([U_c], noise),
        "=forward right; only d_weights.U_c wrong; look at what multiplies U_c in backward",
        "times",
    ),
    (ID, by(["d_x"], noise), "look at what multiplies x in backward", "entry"),
    (ID, by(["h", "d_x"], noise), "=forward wrong: h", "look at"),
    (LSTM, by(["c"], noise), "^forward wrong: c", ""),
    (RESET, by(["A", "U"], noise), "^wrong: A, U; right: A_tilde", ""),
    (ID, lambda found: {"h": noise(found["h"])}, "^wrong: h", ""),
    (ID, lambda found: {"d_x": noise(found["d_x"]), "d_h0": found["d_h0"]}, "^wrong: d_x; right: d_h0", ""),
    (LSTM, swapped, "^forward wrong: c, h; c: what is expected of h; h: what is expected of c", ""),
    (LSTM, by(["h"], noise), "", "what is expected of"),
    (ID, lambda found: found | {"d_weights.b_r": found["d_weights.b_u"]}, "d_weights.b_r: what is expected of", ""),
    (ID, by([U_c], np.zeros_like), "d_weights.U_c: all zeros;", "times"),
    (ID, by(GRADIENTS, np.zeros_like), ": all zeros", "times"),
    (
        ID,
        by([U_c], lambda a: a / 4),
        "d_weights.U_c: 0.25 times what is expected, 1/B: a mean where a sum is meant",
        "",
    ),
    (ID, by([U_c], lambda a: a / 24), "times what is expected, 1/(T B): a mean where a sum is meant", ""),
    (ID, by([U_c], lambda a: a / 5), "d_weights.U_c: 0.2 times what is expected; look at", ""),
    (ID, by([U_c], np.transpose), "d_weights.U_c: the transpose of what is expected", ""),
    (COMPLEX, by(["d_weights.U"], lambda a: np.swapaxes(a, 0, 1)), "U: the transpose of what is expected", ""),
    (COMPLEX, by(["d_weights.U"], lambda a: a * [1, -1]), "U: the conjugate of what is expected", ""),
]


@pytest.mark.parametrize(("id", "change", "says", "not_there"), SAID)
def test_what_is_said_of_outputs(unexplained, id, change, says, not_there):
    """Which are right and which wrong, and what they look like; =: the whole; ^: its beginning."""
    said = one(answering(change), id).diagnosis
    assert {"=": said == says[1:], "^": said.startswith(says[1:])}.get(says[:1], says in said), said
    assert not not_there or not_there not in said


@pytest.mark.parametrize("factor", [2.0, -1.0, 1 / 3, 1e-6, 1e6, 1 + 9e-4, 1 - 1e-8])
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_factor(unexplained, factor, dtype):
    """One near 1 is none: it is told how far off that is, and is no rounding to float32; of three outputs at most."""
    said = one(changed(d_weights__b_r=lambda a: a * factor), ID, dtype).diagnosis
    if abs(factor - 1) > 1e-3:
        assert f"d_weights.b_r: {factor:.6g} times what is expected" in said
        every = {n: lambda a, i=i: (i + 2) * a for i, n in enumerate(GRADIENTS)}
        run = answering(lambda found: found | {n: change(found[n]) for n, change in every.items()})
        assert one(run, ID, dtype).diagnosis.count("times") == 3
    elif dtype == "float64":
        assert "times" not in said
        assert "float32" not in said
        assert f"off by {abs(factor - 1):.1e} of the largest entry" in said


def unskewed(size):
    """An array with noise that is not skew, of a size relative to the largest entry."""
    return lambda array: array + size * np.abs(array).max() * np.random.default_rng(0).standard_normal(array.shape)


SKEW = ("parametrization/scaled_cayley", "parametrization/exponential")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("id", SKEW)
def test_not_skew(unexplained, id, dtype):
    """The gradient of a skew A; and then it is not called a matter of precision."""
    sizes = {"float64": (1e-6, 1.0), "float32": (1e-2, 1.0)}[dtype]
    for size in sizes:
        said = one(changed(d_params__A=unskewed(size)), id, dtype).diagnosis
        assert "d_params.A: not skew" in said
        assert "single precision" not in said
    skew = one(changed(d_params__A=lambda a: a + np.triu(np.full_like(a, 3), 1) - np.tril(np.full_like(a, 3), -1)), id)
    assert "not skew" not in skew.diagnosis
    rounded = one(changed(d_params__A=lambda a: a.astype("f").astype(float)), id).diagnosis
    assert "right to single precision: something is computed in float32" in rounded
    assert "not skew" not in rounded


@pytest.mark.parametrize("wrong", [[0], [0, 1], [0, 3], [-2]])
def test_the_steps_of_d_x_from_which_it_is_right(unexplained, wrong):
    """Backward goes from the last to the first."""

    def early(array):
        moved = array.copy()
        moved[wrong] = noise(array)[wrong]
        return moved

    T = len(BY_ID[ID].expected["d_x"])
    last = max(t % T for t in wrong)
    assert f"d_x: right from entry {last + 1} on" in one(changed(d_x=early)).diagnosis
    assert "entry" not in one(changed(d_x=noise)).diagnosis
    only_last = one(changed(d_x=lambda a: np.concatenate([a[:-1], noise(a)[-1:]]))).diagnosis
    assert "entry" not in only_last


@pytest.mark.parametrize("dtype", [np.float16, np.int64, np.bool_])
@pytest.mark.parametrize("precision", DTYPES)
@pytest.mark.parametrize("id", ["update/neumann_cayley/reset", "cell/lstm"])
def test_other_types_are_not_diagnosed(id, precision, dtype):
    """The remark says it; float16 is near enough to pass for updates in float32."""
    result = one(answering(lambda found: {name: a.astype(dtype) for name, a in found.items()}), id, precision)
    assert (result.status, result.diagnosis, result.mistakes) == (FAILED, "", ())
    assert result.remarks.endswith(f" is {np.dtype(dtype)}; expected float64 or float32")
    assert result.remarks.count("expected") == 1


@pytest.mark.parametrize("step", [0, 1, 3])
@pytest.mark.parametrize(("id", "name"), [(ID, "h"), ("update/neumann_cayley/reset", "A")])
def test_the_first_step_that_is_off(unexplained, id, name, step):
    """From there on; one that is off from its first entry on, of h that after h_0, says nothing of steps."""

    def late(array):
        moved = array.copy()
        moved[step:] = noise(array)[step:]
        return moved

    said = one(changed(**{name: late}), id).diagnosis
    assert (f"off from entry {step} on" in said) == (step > (name == "h"))
    assert "entry" not in said or step > 0


def test_no_more_than_three_explanations_are_listed(monkeypatch):
    five = tuple(added(f"m{i}", lambda case: 1.0) for i in range(5))
    monkeypatch.setattr("ortho_ref.conformance.diagnosis.MISTAKES", five)
    result = one(answering(lambda found: {name: a + 1 for name, a in found.items()}), SMALL)
    assert result.mistakes == (("m0",), ("m1",), ("m2",), ("m3",), ("m4",))
    assert result.diagnosis == (
        "your outputs equal mean_squared_error with m0 added; or with m1 added; or with m2 added, or 2 more"
    )


def test_what_did_not_fail_with_outputs_is_not_diagnosed():
    for run in (
        lambda case: {},
        lambda case: 1 / 0,
        lambda case: None,
        answering(lambda found: found),
        answering(lambda found: {"loss": found["loss"]}),
        answering(lambda found: found | {"loss": np.zeros(3)}),
        answering(lambda found: found | {"d_outputs": found["d_outputs"] * np.nan}),
    ):
        assert one(run, SMALL).diagnosis == ""


@pytest.mark.parametrize("error", [ValueError, KeyError, TypeError, AttributeError, ZeroDivisionError])
def test_a_mistake_that_breaks_on_a_case_explains_nothing(monkeypatch, error):
    def outputs(case, base):
        raise error

    broken = (Mistake("broken", "it is broken", lambda case: True, outputs),)
    monkeypatch.setattr("ortho_ref.conformance.diagnosis.MISTAKES", broken)
    result = one(changed(d_outputs=noise), SMALL)
    assert (result.status, result.mistakes) == (FAILED, ())
    assert result.diagnosis.startswith("forward right; d_outputs wrong")


ANYTHING = [
    "activation/modrelu/complex-kinks",
    "activation/sigmoid",
    "cell/elman/complex-single",
    "cell/gru_reset_after/no-gates",
    "loss/cross_entropy/groups",
    "optimizer/sgd",
    "parametrization/structured_unitary",
    "layer/lstm/lengths",
    "update/scaled_cayley",
]
FLOATS = st.sampled_from([0.0, 1.0, -1.0, 1e308, -1e308, 1e-308, 5e-324, np.inf, np.nan]) | st.floats()
VALUES = {
    np.float64: FLOATS,
    np.float32: st.floats(width=32),
    np.int64: st.integers(-(2**63), 2**63 - 1),
    np.uint8: st.integers(0, 255),
    np.bool_: st.booleans(),
}


@pytest.mark.parametrize("id", ANYTHING)
@settings(max_examples=6)
@given(data=st.data())
def test_no_garbage_of_the_right_shapes_raises(id, data):
    """Of any type, all outputs or some, right ones among them: a result, in one line, that JSON can hold."""
    vector, found = BY_ID[id], {}
    for name, array in vector.expected.items():
        how = data.draw(st.sampled_from(["right", "left out", "scaled", "rows", "anything"]))
        if how == "right":
            found[name] = array.copy()
        elif how == "scaled":
            with np.errstate(all="ignore"):
                found[name] = array * data.draw(FLOATS)
        elif how == "rows":
            found[name] = np.broadcast_to(data.draw(FLOATS), array.shape)
        elif how == "anything":
            dtype = data.draw(st.sampled_from([*VALUES]))
            found[name] = data.draw(hnp.arrays(dtype, array.shape, elements=VALUES[dtype]))
    report = check(lambda case: found, id, data.draw(st.sampled_from(DTYPES)))
    assert report.results[0].id == id
    assert all("\n" not in result.remarks for result in report.results)
    assert report.as_json()
    assert str(report)
