"""A built page, read: its text lines of code, its anchors, what it links to and loads."""

from dataclasses import dataclass, field
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

ROOT = Path(__file__).parents[2]
SITE = ROOT / "build" / "site"


@dataclass
class Line:
    """A line of code on a page."""

    number: int
    shown: int = 0
    tags: list[str] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    text: str = ""


class Page(HTMLParser):
    """What a page has."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.loads: list[str] = []
        self.types: list[str] = []
        self.lines: list[Line] = []
        self.cards: list[list[str]] = []
        self.row_ids: list[str] = []
        self._depth = 0
        self.feed(html)
        self.close()
        self.lines.sort(key=lambda line: line.number)  # what has no equation is folded below the rest

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if "id" in given:
            self.ids.append(given["id"])
        if tag == "a" and "name" in given:
            self.ids.append(given["name"])
        self._address(tag, given)
        classes = given.get("class", "").split()
        if tag == "span" and "line" in classes:
            self.lines.append(Line(int(given["id"][1:]), tags=given.get("data-tags", "").split()))
            self._depth = 1
        elif self._depth:
            self._in_line(tag, given, classes)
        if tag == "article" and "equation" in classes:
            self.cards.append(given["data-ids"].split())
        if tag == "tr" and "data-ids" in given:
            self.row_ids += given["data-ids"].split()

    def _address(self, tag: str, given: dict[str, str]) -> None:
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag in {"link", "script", "img", "source", "iframe"} and (given.get("src") or given.get("href")):
            self.loads.append(given.get("src") or given["href"])
        if tag == "script":
            self.types.append(given.get("type", ""))

    def _in_line(self, tag: str, given: dict[str, str], classes: list[str]) -> None:
        self._depth += tag == "span"
        if "id" in given:
            self.lines[-1].ids.append(given["id"])
        if tag == "a" and "ln" in classes:
            self.lines[-1].shown = int(given["data-n"])

    def handle_endtag(self, tag: str) -> None:
        if self._depth and tag == "span":
            self._depth -= 1

    def handle_data(self, data: str) -> None:
        if self._depth:
            self.lines[-1].text += data


@cache
def read(path: Path) -> Page:
    """A page, read once."""
    return Page(path.read_text(encoding="utf-8"))
