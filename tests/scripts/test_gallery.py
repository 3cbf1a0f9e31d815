"""docs/gallery.md is what its program writes of the pages with pictures, and leaves out no picture of results/."""

import re

import pytest

from scripts.maintain import gallery
from scripts.pictures.gallery_page import Shown, shown_in
from tests.scripts.runs import ROOT, call

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
    code, _, said = call(gallery.main, "--check")
    assert code == 0
    text = (ROOT / gallery.PAGE).read_text()
    listed = re.findall(r"^!\[.+\]\((\S+)\)$", text, re.M)
    assert said == f"docs/gallery.md: {len(listed)} pictures\n"
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


def test_an_older_page_is_told(monkeypatch, tmp_path):
    """Exit code 1 with --check, and nothing is written; 0 once it has been, whole, in the older one's place."""
    for folder in ("docs", "results/benchmark"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "docs/claims.md").write_text(TEXT)
    (tmp_path / gallery.PAGE).write_text("older")
    monkeypatch.setattr(gallery, "ROOT", tmp_path)
    code, _, error = call(gallery.main, "--check")
    assert code == 1
    assert "is not what `python -m scripts.maintain.gallery` writes" in error
    assert (tmp_path / gallery.PAGE).read_text() == "older"
    (tmp_path / "other").hardlink_to(tmp_path / gallery.PAGE)
    assert call(gallery.main)[0] == call(gallery.main, "--check")[0] == 0
    assert (tmp_path / "other").read_text() == "older"
