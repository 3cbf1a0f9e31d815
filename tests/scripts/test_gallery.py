"""docs/gallery.md is what its program writes of the pages with pictures, and leaves out no picture of results/."""

import re

import pytest

from scripts.pictures.gallery_page import PAGE, Shown, gallery, shown_in
from tests.scripts.runs import ROOT

TEXT = """# Runs

## Nothing to see

Words.

## Gates

![Gates](gates.svg)

*The gates close.*

`python -m scripts.bounds x` says so too. `python -m scripts.experiment run a.toml`; commit 1.

## Two

![One](../results/one.svg)
![Two](two.svg)

```sh
python -m scripts.plot x --out one.svg
```
"""


def test_the_page_is_up_to_date():
    """It has every picture below results/, once, each with a page and a command."""
    text = (ROOT / PAGE).read_text()
    assert text == gallery(ROOT)
    listed = re.findall(r"^!\[.+\]\((\S+)\)$", text, re.M)
    for path in (ROOT / "results").rglob("*.svg"):
        assert listed.count(f"../{path.relative_to(ROOT).as_posix()}") == 1, path
    for part in text.split("\n## ")[1:]:
        assert "[Explanation](" in part
        assert "python -m scripts." in part.split("```sh")[1]


def test_sections_with_pictures():
    """The block below a picture is its command; without one the last in a line: the first has measured something."""
    assert shown_in("docs/runs.md", TEXT) == [
        Shown(
            "Gates",
            (("Gates", "docs/gates.svg", "\n\n*The gates close.*"),),
            "python -m scripts.experiment run a.toml\n",
        ),
        Shown(
            "Two",
            (("One", "results/one.svg", ""), ("Two", "docs/two.svg", "")),
            "python -m scripts.plot x --out one.svg\n",
        ),
    ]
    with pytest.raises(ValueError, match=r"docs/runs.md: nothing says how the pictures of 'Gates' are made"):
        shown_in("docs/runs.md", TEXT.replace("`python", "`"))
