"""A page that moves loads the scripts that it names, and no other page does."""

from types import SimpleNamespace

import pytest

from scripts.maintain.book.alive import load, scripts

PICTURE = '<div class="picture" id="picture-one"\n data-scripts="matrices frame one">words</div>'
OTHER = '<div class="picture" id="picture-two" data-scripts="matrices frame two">words</div>'


class App:
    """As much of Sphinx as is asked."""

    def __init__(self, folder):
        self.confdir, self.config = folder, SimpleNamespace(html_static_path=["static"])
        self.added = []

    def add_js_file(self, name):
        self.added.append(name)

    def add_css_file(self, name):
        self.added.append(name)


def test_scripts_are_those_of_the_pictures():
    """In their order, each once; a page without a picture has none."""
    assert scripts(PICTURE) == ["alive/matrices.js", "alive/frame.js", "alive/one.js"]
    assert scripts(PICTURE + OTHER) == ["alive/matrices.js", "alive/frame.js", "alive/one.js", "alive/two.js"]
    assert scripts('<div class="other" data-scripts="one">') == []


def test_a_page_loads_its_own(tmp_path):
    """Scripts and style for a page with a picture, nothing for another; a script that is not there is named."""
    folder = tmp_path / "static" / "alive"
    folder.mkdir(parents=True)
    for name in ("matrices", "frame", "one"):
        (folder / f"{name}.js").touch()
    app = App(tmp_path)
    load(app, "docs/maps", "page.html", {"body": "<p>words</p>"}, None)
    load(app, "search", "search.html", {}, None)
    assert app.added == []
    load(app, "docs/alive/one", "page.html", {"body": PICTURE}, None)
    assert app.added == ["alive/matrices.js", "alive/frame.js", "alive/one.js", "alive/alive.css"]
    with pytest.raises(ValueError, match=r"docs/alive/two names the script alive/two.js, which is not in docs/site"):
        load(app, "docs/alive/two", "page.html", {"body": OTHER}, None)
