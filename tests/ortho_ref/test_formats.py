"""The check of a document against its form: what it refuses is what the form's JSON Schema refuses; it says where."""

import math
from typing import Annotated, Any, Literal

import jsonschema
import msgspec
import pytest
from hypothesis import given, settings, strategies as st
from msgspec import UNSET, Meta, UnsetType

from ortho_ref import formats
from ortho_ref.boundary import short
from ortho_ref.formats import Form, Least0, Number, Sha256
from ortho_ref.training import forms


class Inner(Form):
    on: bool
    seal: Sha256 | UnsetType = UNSET


class Document(Form):
    name: str
    sizes: Annotated[list[Annotated[int, Meta(ge=1, le=9)]], Meta(min_length=1, max_length=3)]
    rate: Least0
    kind: Literal["a", "b", 1, None]
    inner: Inner | None
    figures: dict[str, Number] | UnsetType = UNSET
    free: dict[str, Any] | UnsetType = UNSET
    pair: tuple[bool, ...] | UnsetType = UNSET


GOOD = {"name": "x", "sizes": [1, 2], "rate": 0.5, "kind": "a", "inner": None}
SCHEMA = jsonschema.Draft202012Validator(msgspec.json.schema(Document))
LEAVES = st.none() | st.booleans() | st.integers(-2, 12) | st.sampled_from([0.5, -0.5, 1e300]) | st.text(max_size=2)
NAMES = st.sampled_from(["on", "seal", "a"])
VALUES = st.recursive(
    LEAVES | st.just("0" * 64) | st.just("0" * 64 + "\n"),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=4,
)
DOCUMENTS = st.builds(
    lambda changes, without: {name: value for name, value in (GOOD | changes).items() if name not in without},
    st.dictionaries(st.sampled_from([*GOOD, "figures", "free", "pair", "other"]), VALUES, max_size=2),
    st.sets(st.sampled_from([*GOOD]), max_size=1),
)


@settings(max_examples=400)
@given(document=DOCUMENTS | VALUES)
def test_refuses_what_json_schema_refuses(document):
    """Type, range, pattern, length, allowed and required names, alternatives: against the jsonschema library."""
    try:
        formats.check(document, Document)
        fits = True
    except ValueError:
        fits = False
    assert fits == SCHEMA.is_valid(document), document


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": 1}, "name is 1; allowed: a text"),
        ({"name": ["x" * 10_000]}, r"name is \['x{10,30}\.\.\.x{10,30}'\]; allowed: a text"),
        ({"sizes": []}, r"sizes is \[\]; allowed: a list of at least 1 of at most 3"),
        ({"sizes": [1, 10]}, r"sizes\[1\] is 10; allowed: an integer from 1 to 9"),
        ({"sizes": [1.0]}, r"sizes\[0\] is 1.0; allowed: an integer"),
        ({"rate": -1}, "rate is -1; allowed: a finite number from 0 on"),
        ({"rate": math.nan}, "rate is nan; allowed: a finite number"),
        ({"rate": math.inf}, "rate is inf; allowed: a finite number"),
        ({"kind": 2}, "kind is 2; allowed: 'a', 'b', 1, None"),
        ({"kind": "B"}, r"kind is 'B' \(did you mean 'b'\?\); allowed: "),
        ({"inner": {"on": 1}}, "inner.on is 1; allowed: true or false"),
        ({"inner": {}}, "inner has no on"),
        ({"inner": 3}, "inner is 3; allowed: an object or null"),
        ({"inner": {"on": True, "seal": "0" * 64 + "\n"}}, r"inner.seal is '0+\.\.\.0+\\n'; allowed: a text like "),
        ({"figures": {"a": "b"}}, "figures.a is 'b'; allowed: a finite number"),
        ({"pair": [True, 1]}, r"pair\[1\] is 1; allowed: true or false"),
        ({"more": 1}, "the document has 'more'; allowed: name, sizes, rate, kind, inner, figures, free, pair"),
        ({"nmae": 1}, r"the document has 'nmae' \(did you mean 'name'\?\); allowed: "),
    ],
)
def test_says_where_and_what(changes, message):
    """The place, what is there (of long ones the ends), what is allowed, and what may be meant."""
    with pytest.raises(formats.Misfit, match=f"^{message}"):
        formats.check(GOOD | changes, Document)


@pytest.mark.parametrize("form", [forms.Config, forms.SealedLine, forms.SealedSummary, forms.State])
def test_every_form_has_a_schema(form):
    """Of JSON Schema's draft 2020-12, as other tools read it."""
    jsonschema.Draft202012Validator.check_schema(msgspec.json.schema(form))


def test_long_values_are_shown_by_their_beginning():
    """Four items of a list or an object, two levels, sixty characters of a string."""
    assert short([1, 2, 3, 4]) == "[1, 2, 3, 4]"
    assert short([1, 2, 3, 4, 5]) == "[1, 2, 3, 4, ...]"
    assert short({"a": [[[1]]]}) == "{'a': [[...]]}"
    assert short(dict.fromkeys("abcde", 0)) == "{'a': 0, 'b': 0, 'c': 0, 'd': 0, ...}"
    assert len(short("x" * 61)) == 60
    assert short("x" * 58) == repr("x" * 58)
