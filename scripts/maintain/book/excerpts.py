"""How every page begins, below its title in a search: a script, as a folder that is opened can fetch no index."""

import json
import re
from html import unescape
from pathlib import Path
from typing import Any

#: The script on the page of the search, and what that shows it with.
DATA, SHOWN_BY = "excerpts.js", "search.js"
MOST = 160
_ARTICLE = re.compile(r'<article role="main"[^>]*>(.*?)</article>\s*</div>', re.S)
_WORDS = re.compile(r"<p\b[^>]*>(.*?)</p>", re.S)
_MARK = re.compile(r"<[^>]+>")


def load(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """On the page of the search alone."""
    if page == "search":
        app.add_js_file(DATA, loading_method="defer")
        app.add_js_file(SHOWN_BY, loading_method="defer")


def write(site: Path) -> None:
    """The excerpt of every page of a built site that has words."""
    found = {}
    for path in sorted(site.rglob("*.html")):
        if words := excerpt(path.read_text(encoding="utf-8")):
            found[path.relative_to(site).with_suffix("").as_posix()] = words
    text = json.dumps(found, ensure_ascii=False, separators=(",", ":"))
    (site / "_static" / DATA).write_text(f"window.excerpts = {text};\n", encoding="utf-8")


def excerpt(html: str) -> str:
    """The first paragraph with a sentence in it, cut at a word; "" where there is none."""
    article = _ARTICLE.search(html)
    for paragraph in _WORDS.findall(article[1] if article else ""):
        words = " ".join(unescape(_MARK.sub("", paragraph)).split())
        if len(words) > 30:
            return words if len(words) <= MOST else words[:MOST].rpartition(" ")[0] + " …"
    return ""
