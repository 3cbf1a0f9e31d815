"""What the operators of mutation testing change, and what they leave alone."""

import pytest

pytest.importorskip("cosmic_ray", reason="cosmic-ray is not installed: `make mutants` installs it")

from scripts.mutation.codes import same
from scripts.mutation.mutants import make, places, shuffled
from scripts.mutation.operators import operators


def mutants(source, operator=None):
    """The changed lines of every mutant of a source, before and after."""
    found = [make(place, source) for place in places("a.py", source) if operator in (None, place.operator)]
    return [(mutant.before, mutant.after) for mutant in found if mutant is not None]


@pytest.mark.parametrize(
    ("operator", "line", "changed"),
    [
        ("DeleteStatement", "x[0] = 1", ["pass"]),
        ("DeleteStatement", "f(x)", ["pass"]),
        ("DeleteStatement", "x: int = 1", ["pass"]),
        ("DeleteStatement", "x: int", []),
        ("ReturnNone", "def f(): return 1", ["def f(): return None"]),
        ("ReturnNone", "def f(): return None", []),
        ("ReplaceAugmented", "x += 1", ["x -= 1", "x = 1"]),
        ("DropTrailer", "x = A.T @ z.conj()", ["x = A @ z.conj()", "x = A.T @ z"]),
        ("DropTrailer", "x = A.any(axis=0)", []),
        ("TurnProduct", "x = A @ B.T", ["x = B.T @ A"]),
        ("ReplaceIn", "x = a in b", ["x = a not in b"]),
        ("ReplaceIn", "x = a not in b", ["x = a in b"]),
        ("ReplaceName", "x = xp.minimum(a, b)", ["x = xp.maximum(a, b)"]),
        ("ReplaceName", "x = z.real", ["x = z.imag"]),
        ("ReplaceName", "minimum = 1", []),
        ("DropArgument", "f(a, b, c=1)", ["f(a, b )", "f(b, a, c=1)"]),
        ("DropArgument", "f(*a, b)", []),
        ("DropArgument", "zip(a, b, strict=True)", ["zip(b, a, strict=True)"]),
        ("DropArgument", "xp.maximum(a, b)", []),
        ("ReplaceTrueWithFalse", "f(a, strict=True, b=True)", ["f(a, strict=True, b=False)"]),
        ("ReplaceString", "x = w['U']", ["x = w['XXUXX']"]),
        ("ReplaceString", "raise ValueError('U')", []),
        ("ReplaceString", "'a docstring'", []),
        ("NumberReplacer", "x = A[1:]", ["x = A[ 2:]", "x = A[ 0:]"]),
        ("ReplaceBinaryOperator_Add_Sub", "x = a + b", ["x = a - b"]),
    ],
)
def test_what_an_operator_makes_of_a_line(operator, line, changed):
    """Each of these, in their order, and no other."""
    assert mutants(line + "\n", operator) == [(line, after) for after in changed]


def test_what_is_left_alone():
    """Annotations, docstrings, imports, what is exported, what is for type checkers: nothing there is computed."""
    source = '''"""Words."""
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    x = 1
__all__ = ["f"]
def f(a: int | None) -> "float | None":
    """Words."""
'''
    assert mutants(source) == []
    assert mutants(source + "    return a\n") == [("return a", "return None")]


def test_a_statement_of_several_lines_keeps_the_numbers_of_those_below():
    """What is below a mutant is where it was."""
    source = "f(\n    a,\n    b,\n)\nx = y\n"
    (place,) = [place for place in places("a.py", source) if place.operator == "DeleteStatement" and place.line == 1]
    assert make(place, source).source.splitlines()[4] == "x = y"


def test_a_mutant_keeps_its_name_and_its_turn():
    """Lines that come before it change neither what it is called nor the order that a seed draws."""
    source = "def f(a):\n    return a + 1\n\n\ndef g(a):\n    return a + 1\n"
    before, after = places("a.py", source), places("a.py", "import os\n\n" + source)
    assert [place.key for place in before] == [place.key for place in after]
    assert len({place.key for place in before}) == len(before)
    assert [p.key for p in shuffled(before, 0)] == [p.key for p in shuffled(after, 0)]
    assert [p.key for p in shuffled(before, 0)] != [p.key for p in shuffled(before, 1)]


def test_a_change_that_is_none_to_python():
    """Other lines and other white space are the same code; another constant, name or function in it is not."""

    def code(text):
        return compile(text, "a.py", "exec")

    source = "def f(a):\n    return a + 1\n"
    assert same(code(source), code("\n\n" + source.replace(" + ", "+")))
    for other in ("a + 1.0", "a + 2", "b + 1", "a - 1"):
        assert not same(code(source), code(source.replace("a + 1", other)))
    assert make(places("a.py", "x = 0\n")[0], "x = 0\n") is not None


def test_every_operator_is_there():
    """Those of cosmic-ray that are chosen are known to it."""
    assert all(callable(one) for one in operators().values())
