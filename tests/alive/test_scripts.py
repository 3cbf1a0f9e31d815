"""The scripts of the pages that move: every tag is an equation's, each stands on a line, and nothing is fetched."""

import re

import pytest

from scripts.maintain.equations.stated import STATED, read_equations
from scripts.maintain.equations.tags import id_of, tagged_lines, tags_of
from tests.alive.node import ROOT, SCRIPTS
from tests.scripts.test_equation_index import hidden

ENTRIES = read_equations((ROOT / STATED).read_text(encoding="utf-8"))
SOURCES = {path.name: path.read_text(encoding="utf-8") for path in sorted((ROOT / SCRIPTS).glob("*.js"))}
#: What a page that works from a folder, without a framework, does not have.
BANNED = re.compile(
    r"\bfetch\(|XMLHttpRequest|\beval\(|\bFunction\(|WebAssembly|^\s*(?:import|export)\b|https?://(?!www\.w3)", re.M
)


def wrong(source):
    """What is wrong with a script."""
    found = [f"{tag} is not in {STATED}" for tag in tags_of(source) if id_of(tag) not in ENTRIES]
    found += [f"a range hides equations: {text}" for text in hidden(source)]
    head, body = source.split("(function () {\n", 1)
    tagged = {tag for tags in tagged_lines("one.js", body).values() for tag in tags}
    whole = tagged | {id_of(tag) for tag in tagged}
    found += [f"the header states {tag}, and no line has it" for tag in tags_of(head) if tag not in whole]
    found += [f"{text} in a script" for text in BANNED.findall(source)]
    found += [] if body.startswith('  "use strict";\n') else ["it is not strict"]
    return found + [f"a line of {len(line)} characters" for line in source.splitlines() if len(line) > 120]


@pytest.mark.parametrize("name", SOURCES)
def test_tags_and_style(name):
    """Tags are ids of docs/equations.md; what a header states, a line computes; strict, and without a request."""
    assert wrong(SOURCES[name]) == []
