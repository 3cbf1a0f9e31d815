"""The check of JSON against a schema: what it refuses is what JSON Schema refuses, and it says where."""

import math

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ortho_ref import schema
from ortho_ref.boundary import short
from ortho_ref.conformance import schema as kit
from ortho_ref.training import run_folder

FORM = schema.record(
    {
        "name": schema.TEXT,
        "sizes": schema.list_of(schema.integer(1, 9), 1, 3),
        "rate": schema.number(0),
        "kind": schema.one_of("a", "b", 1, True, None),
        "inner": schema.optional(schema.record({"on": schema.BOOLEAN}, {"seal": schema.SHA256})),
    },
    {"figures": schema.mapping(schema.NUMBER), "free": {"type": "object"}},
)
GOOD = {"name": "x", "sizes": [1, 2], "rate": 0.5, "kind": "a", "inner": None}

LEAVES = st.none() | st.booleans() | st.integers(-2, 12) | st.sampled_from([0.5, -0.5, 1e300]) | st.text(max_size=2)
NAMES = st.sampled_from(["on", "seal", "a"])
VALUES = st.recursive(
    LEAVES | st.just("0" * 64) | st.just("0" * 64 + "\n"),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=4,
)
DOCUMENTS = st.builds(
    lambda changes, without: {name: value for name, value in (GOOD | changes).items() if name not in without},
    st.dictionaries(st.sampled_from([*GOOD, "figures", "free", "other"]), VALUES, max_size=2),
    st.sets(st.sampled_from([*GOOD]), max_size=1),
)


@settings(max_examples=400)
@given(document=DOCUMENTS | VALUES)
def test_refuses_what_json_schema_refuses(document):
    """Type, range, pattern, allowed and required names, alternatives: against the jsonschema library."""
    try:
        schema.check(document, FORM)
        fits = True
    except ValueError:
        fits = False
    assert fits == jsonschema.Draft202012Validator(FORM).is_valid(document), document


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": 1}, "name is 1; allowed: a text"),
        ({"sizes": []}, r"sizes is \[\]; allowed: a list of at least 1 of at most 3"),
        ({"sizes": [1, 10]}, r"sizes\[1\] is 10; allowed: an integer from 1 to 9"),
        ({"sizes": [1.0]}, r"sizes\[0\] is 1.0; allowed: an integer"),
        ({"sizes": [True]}, r"sizes\[0\] is True; allowed: an integer"),
        ({"rate": -1}, "rate is -1; allowed: a finite number from 0 on"),
        ({"rate": math.nan}, "rate is nan; allowed: a finite number"),
        ({"rate": math.inf}, "rate is inf; allowed: a finite number"),
        ({"kind": 2}, "kind is 2; allowed: 'a', 'b', 1, True, None"),
        ({"kind": 0}, "kind is 0; allowed: "),
        ({"inner": {"on": 1}}, "inner.on is 1; allowed: true or false"),
        ({"inner": {}}, "inner has no on"),
        ({"inner": 3}, "inner is 3; allowed: an object or null"),
        ({"inner": {"on": True, "seal": "0" * 64 + "\n"}}, r"inner.seal is '0+\.\.\.0+\\n'; allowed: a text like "),
        ({"figures": {"a": "b"}}, "figures.a is 'b'; allowed: a finite number"),
        ({"more": 1}, "the document has 'more'; allowed: name, sizes, rate, kind, inner, figures, free"),
        ({"name": "x" * 10_000}, None),
        ({"name": ["x" * 10_000]}, r"name is \['x{10,30}\.\.\.x{10,30}'\]; allowed: a text"),
    ],
)
def test_says_where_and_what(changes, message):
    """The place, what is there (of long ones the ends), and what is allowed."""
    if message is None:
        schema.check(GOOD | changes, FORM)
    else:
        with pytest.raises(ValueError, match=f"^{message}"):
            schema.check(GOOD | changes, FORM)


@pytest.mark.parametrize(
    "form",
    [run_folder.CONFIG_FORM, run_folder.LINE, run_folder.SUMMARY_FORM, run_folder.STATE, kit.schema()],
    ids=["config", "metrics", "summary", "checkpoint", "kit"],
)
def test_every_schema_is_one(form):
    """Of JSON Schema's draft 2020-12, as other tools read it."""
    jsonschema.Draft202012Validator.check_schema(form)


def test_long_values_are_shown_by_their_beginning():
    """Four items of a list or an object, two levels, sixty characters of a string."""
    assert short([1, 2, 3, 4]) == "[1, 2, 3, 4]"
    assert short([1, 2, 3, 4, 5]) == "[1, 2, 3, 4, ...]"
    assert short({"a": [[[1]]]}) == "{'a': [[...]]}"
    assert short(dict.fromkeys("abcde", 0)) == "{'a': 0, 'b': 0, 'c': 0, 'd': 0, ...}"
    assert len(short("x" * 61)) == 60
    assert short("x" * 58) == repr("x" * 58)


@pytest.mark.parametrize("note", ["$schema", "$id", "description", "contentMediaType"])
def test_notes_allow_everything(note):
    """Words that say nothing that could be checked are passed over; any other word is an error, not a pass: the schema
    would be enforced in part only."""
    schema.check(1, {note: "what a reader may want to know"})
    with pytest.raises(KeyError):
        schema.check(1, {f"{note}s": "x"})
