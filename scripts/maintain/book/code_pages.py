"""The generated pages, as Markdown around HTML: of a file, of a paper, of a folder."""

import ast
import re
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from scripts.maintain.book import columns
from scripts.maintain.book.cards import Card, Link, Maker, title_of
from scripts.maintain.book.listing import linked
from scripts.maintain.book.material import Material
from scripts.maintain.book.order import number_of, printed
from scripts.maintain.book.places import anchor, folder_page, href, page_of, paper_page
from scripts.maintain.book.prose import breakable
from scripts.maintain.equations.held import UNHELD
from scripts.maintain.equations.stated import STATED
from scripts.maintain.equations.tags import id_of, tags_of

_TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_TEMPLATES.filters["breakable"] = breakable


#: A kind of docs/equation-index.md, as a paper's page says it; where there is no line of code, why.
_KINDS = {
    "code + test": "code and test",
    "test": "no line of code: a step of a proof, or of what is computed elsewhere; a test holds it",
    "prose": "no line of code: nothing to compute",
    "open": "not built, or not all of it",
}


_ID = re.compile(r"(?<![`\w])((?:ncgru|urnn|sgornn|goru|bp):[\w./-]*\w)")


def framed(title: str, html: str, listed: bool = False) -> str:
    """Markdown of a page with a title, and HTML below it; listed: whether it stands in the table of contents."""
    fence = "`" * 12
    head = "" if listed else "---\norphan: true\n---\n\n"
    return f"{head}# {title}\n\n{fence}{{raw}} html\n{html}\n{fence}\n"


def of_file(material: Material, file: str, source: str) -> str:
    """The page of a file: two columns where its lines have equations, else its lines."""
    page = page_of(file)
    maker = Maker(material, page, file)
    tagged = material.lines.get(file, {})
    lines = columns.lines(file, source, tagged)
    cut = columns.parts(file, source, tagged) if file in material.columns else []
    if not any(part.names for part in cut):
        cut = [columns.Part(1, len(lines), ())] if lines else []
    here = {name for part in cut for name in part.names}
    targets = {tag: _card_of(maker, tag, here) for tag in tags_of(source)}
    shown: set[tuple[str, ...]] = set()
    html = _TEMPLATES.get_template("columns.html").render(
        file=file,
        parts=[(part, _cards(maker, part, shown), lines[part.first - 1 : part.last]) for part in cut],
        code=lambda line: Markup(linked(line.html, targets)),
        wide=any(part.names for part in cut),
        lead=Markup(maker.prose.inline(_first_sentence(file, source), STATED)),
        beside=_beside(maker, file),
    )
    return framed(f"`{file}`", html)


def _first_sentence(file: str, source: str) -> str:
    """What a module's docstring begins with, its ids as code; "" of another file."""
    words = ast.get_docstring(ast.parse(source)) if file.endswith(".py") else None
    return _ID.sub(r"`\1`", " ".join((words or "").partition("\n\n")[0].split()))


def _card_of(maker: Maker, tag: str, here: set[str]) -> str:
    """Where a tag in a line leads: to its card on this page, else to where the equation stands."""
    name = id_of(tag)
    return f"#eq-{anchor(name)}" if name in here else maker.find(tag) or ""


def _cards(maker: Maker, part: columns.Part, shown: set[tuple[str, ...]]) -> list[Card]:
    """Of a part's equations, one for each row of docs/equations.md; in short where it is shown above, as is noted."""
    rows = dict.fromkeys(maker.material.entries[name].together for name in part.names)
    cards = [maker.card(row[0], short=row in shown) for row in rows]
    shown.update(rows)
    return cards


def of_paper(material: Material, heading: str, names: list[str]) -> str:
    """A paper's equations: those with numbers in print order, then the others; each with its lines and tests.

    Above them stands which paper it is, and what the letters mean that are its own.
    """
    page = paper_page(names[0])
    maker = Maker(material, page)
    rows: dict[tuple[str, ...], Card] = {}
    for name in names:
        row = material.entries[name].together
        if row not in rows:
            rows[row] = maker.card(name)
    numbered = [card for row, card in rows.items() if number_of(row[0]) is not None]
    sections: dict[str, list[Card]] = {}
    for row, card in rows.items():
        if number_of(row[0]) is None:
            sections.setdefault(material.entries[row[0]].section, []).append(card)
    html = _TEMPLATES.get_template("paper.html").render(
        lead=Markup(maker.prose.block(_lead(material.leads.get(heading, {})), STATED)),
        numbered=numbered,
        sections=sections,
        rows=material.rows,
        words=UNHELD | _KINDS,
        same=_same(maker, rows),
    )
    return framed(heading, html, listed=True)


def _lead(leads: dict[str, str]) -> str:
    """What stands above the tables of a paper, as Markdown: that of a section behind its name."""
    return "\n\n".join(f"**{section}.** {lead}" if section else lead for section, lead in leads.items())


def _same(maker: Maker, rows: dict[tuple[str, ...], Card]) -> dict[tuple[str, ...], list[tuple[str, str]]]:
    """Of each row what it is the same as."""
    entries = maker.material.entries
    return {
        row: [
            (title_of((one,)) if one.split(":")[0] == row[0].split(":")[0] else one, maker.find(one) or "")
            for one in dict.fromkeys(other for name in row for other in entries[name].same)
        ]
        for row in rows
    }


def papers(material: Material) -> dict[str, tuple[str, list[str]]]:
    """Page -> heading and ids, of every paper."""
    return {paper_page(names[0]): (heading, names) for heading, names in printed(material.entries).items()}


def of_folder(folder: str, files: list[str], known: set[str]) -> str:
    """A list of a folder's files; those with a page are links."""
    page = folder_page(folder)
    items = [(file.removeprefix(f"{folder}/"), href(page, page_of(file)) if file in known else "") for file in files]
    return framed(f"`{folder}/`", _TEMPLATES.get_template("folder.html").render(items=items))


def of_chapters(material: Material) -> str:
    """The list of the files of two columns, in the papers' order."""
    html = _TEMPLATES.get_template("chapters.html").render(
        chapters=[
            (heading or "No equation of their own", [Link(file, href("code/index", page_of(file))) for file in files])
            for heading, files in material.chapters.items()
        ]
    )
    return framed("Formula and code", html, listed=True)


def _beside(maker: Maker, file: str) -> tuple[Link | None, Link | None]:
    """The files before and after one, in the papers' order."""
    files = [one for own in maker.material.chapters.values() for one in own]
    if file not in files:
        return None, None
    at = files.index(file)
    return (
        maker.link(files[at - 1]) if at else None,
        maker.link(files[at + 1]) if at + 1 < len(files) else None,
    )
