"""Mistakes with a number of their own: the number that is found, and where there is none."""

import numpy as np
import pytest

from ortho_ref.conformance import check
from ortho_ref.conformance.mistakes import FITTED, MISTAKES
from ortho_ref.conformance.mistakes.fitted import fitted
from ortho_ref.conformance.mistakes.mistake import made
from tests.ortho_ref.conformance.adapters import BY_ID

BY_NAME = {family.name: family for family in FITTED}


def numbers(family):
    """Some that no list has."""
    return (2, 7) if family.whole else (0.123, 0.77) if family.below_1 else (3.7e-3, 2.51e-6)


def cases(family):
    """The first two that have a mistake of this family."""
    return [v for v in BY_ID.values() if family.applies(v.case)][:2]


FAMILIES_AND_NUMBERS = [(family.name, number) for family in FITTED for number in numbers(family)]


@pytest.mark.parametrize(("name", "number"), FAMILIES_AND_NUMBERS)
def test_the_number_is_found_and_said(name, number):
    """On each of two cases, with as many digits as it has; whatever other name fits says the same number."""
    family = BY_NAME[name]
    mistake = family.at(number)
    for vector in cases(family):
        found = list(fitted(FITTED, [(vector, made((mistake,), vector))], "float64"))
        assert [(m.name, m.says) for m in found] == [(f"{name}-{number:g}", family.says.format(f"{number:g}"))]


@pytest.mark.parametrize(("name", "number"), [("modrelu-epsilon", 4e-3), ("adam-epsilon", 0.02), ("cayley-series", 3)])
def test_in_float32(name, number):
    """Outputs rounded to it: the number by its digits, not by those of the rounding."""
    vector = cases(BY_NAME[name])[0]
    outputs = {n: a.astype(np.float32) for n, a in made((BY_NAME[name].at(number),), vector).items()}
    assert BY_NAME[name].at(number).name in {m.name for m in fitted(FITTED, [(vector, outputs)], "float32")}


def test_every_case_that_it_applies_to_is_told():
    """Of all of modReLU's cases at once, each named with the one number."""
    mistake = BY_NAME["modrelu-phase"].at(0.0042)
    applies = {id for id, v in BY_ID.items() if mistake.applies(v.case) and v.case.kind in ("activation", "cell")}
    report = check(lambda case: made((mistake,), BY_ID[case.id]) if case.id in applies else None, sorted(applies))
    failed = [result for result in report.results if result.status == "failed"]
    assert len(failed) >= 3
    assert all((mistake.name,) in result.mistakes and mistake.says in result.diagnosis for result in failed)


def test_a_number_that_holds_on_one_case_explains_no_other():
    """An epsilon that differs from case to case: the number of the first is none of the second's."""
    family = BY_NAME["adam-epsilon"]
    own = {"optimizer/adam": 1e-3, "optimizer/adam/complex": 4e-3}
    report = check(lambda case: made((family.at(own[case.id]),), BY_ID[case.id]) if case.id in own else None, [*own])
    found = {result.id: result.mistakes for result in report.results if result.status == "failed"}
    assert found == {"optimizer/adam": (("adam-epsilon-0.001",),), "optimizer/adam/complex": ()}


def test_no_epsilon_is_0():
    """Where an optimizer's is left out."""
    vector = BY_ID["optimizer/rmsprop/keras"]
    outputs = made((BY_NAME["rmsprop-epsilon"].at(0.0),), vector)
    assert "rmsprop-epsilon-0" in {m.name for m in fitted(FITTED, [(vector, outputs)], "float64")}


@pytest.mark.parametrize("size", [1e-8, 1e-4, 1.0])
def test_noise_has_no_number(size):
    """Whatever its size; nor have the right outputs."""
    for family in FITTED:
        vector = cases(family)[0]
        rng = np.random.default_rng(0)
        noisy = {n: a + size * rng.standard_normal(a.shape) for n, a in vector.expected.items()}
        assert list(fitted([family], [(vector, noisy)], "float64")) == []
        assert list(fitted([family], [(vector, vector.expected)], "float64")) == []


def test_a_mistake_of_another_kind_has_no_number():
    """Every named one of the cases of modReLU, of Adam and of Cayley's map, but for those that have one."""
    for id in ("activation/modrelu", "optimizer/adam/large-epsilon", "parametrization/scaled_cayley"):
        vector = BY_ID[id]
        for mistake in MISTAKES:
            if mistake.applies(vector.case) and mistake.name in vector.kills:
                outputs = made((mistake,), vector)
                for found in fitted(FITTED, [(vector, outputs)], "float64"):
                    again = made((found,), vector)
                    assert all(np.allclose(again[n], outputs[n], 1e-7, 1e-7) for n in outputs), (
                        mistake.name,
                        found.name,
                    )


def test_names_and_words_with_a_number():
    """Unique, and of one number."""
    assert len(BY_NAME) == len(FITTED)
    for family in FITTED:
        assert family.at(0.5).name == f"{family.name}-0.5"
        assert "0.5" in family.at(0.5).says
        assert family.at(0.5, "a").name == "a"
