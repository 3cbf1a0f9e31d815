"""The scripts of a page that moves: it names them, and no other page loads them.

A page of docs/alive has `<div class="picture" id="picture-NAME" data-scripts="matrices maps frame NAME">`: files of
docs/site/static/alive, in the order in which they run.
"""

import re
from pathlib import Path
from typing import Any

#: Where the scripts stand, in the repository and below the site's static files.
SCRIPTS, STATIC = "docs/site/static/alive", "alive"
STYLE = f"{STATIC}/{STATIC}.css"
_NAMED = re.compile(r'<div class="picture"[^>]*\bdata-scripts="([^"]*)"')


def scripts(body: str) -> list[str]:
    """What a page loads."""
    names = [name for listed in _NAMED.findall(body) for name in listed.split()]
    return [f"{STATIC}/{name}.js" for name in dict.fromkeys(names)]


def load(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Sphinx's event html-page-context: what is added here is added to this page alone."""
    found = scripts(context.get("body", ""))
    for name in found:
        if not any((Path(app.confdir) / folder / name).is_file() for folder in app.config.html_static_path):
            raise ValueError(f"{page} names the script {name}, which is not in {SCRIPTS}")
        app.add_js_file(name)
    if found:
        app.add_css_file(STYLE)
