"""Where each thing stands on the site: pages mirror the repository, code and folders below `code/`."""

import re
from posixpath import dirname, normpath, relpath

from scripts.maintain.equations.tags import id_of

ERRATA, DERIVATIONS, KIT = "docs/errata.md", "docs/derivations", "docs/conformance.md"


def page_of(file: str) -> str:
    """The page of a file or a folder of the repository, as Sphinx names it: without .html."""
    if file.endswith(".md"):
        return file.removesuffix(".md")
    return f"code/{file}"


def folder_page(folder: str) -> str:
    """The page that lists a folder."""
    return f"code/{folder}/index"


def paper_page(name: str) -> str:
    """The page of an id's paper."""
    return f"papers/{name.partition(':')[0]}"


def href(page: str, target: str, fragment: str = "") -> str:
    """From a page to another, relative, so that it holds from any host and from none."""
    path = "" if page == target and fragment else relpath(f"{target}.html", dirname(page) or ".")
    return path + (f"#{fragment}" if fragment else "")


def anchor(tag: str) -> str:
    """Where the first line of a tag stands on its page: ncgru-1-r of ncgru:1/r."""
    return re.sub("[:/]", "-", tag)


def anchors(tag: str) -> list[str]:
    """A tag's own, and that of the equation that it is a part of."""
    return list(dict.fromkeys(map(anchor, (tag, id_of(tag)))))


def resolved(file: str, target: str) -> str:
    """The file of the repository that a link in another names."""
    return normpath(f"{dirname(file)}/{target}" if dirname(file) else target)
