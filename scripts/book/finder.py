"""What the box "go to equation" looks through: an array in a script file."""

import json
import re

from scripts.book.cards import Maker, title_of
from scripts.book.material import Material
from scripts.book.order import number_of
from scripts.book.places import ERRATA, href, page_of

ROOT_PAGE = "index"


def found(material: Material) -> list[dict[str, object]]:
    """An entry an equation, an erratum, and a file of two columns.

    Parameters
    ----------
    material : Material
        What stands in the repository.

    Returns
    -------
    list of dict
        id: what it is called.  paper, number: of an equation with a number in print, the number as written.
        title: what is shown.  words: what is looked through.  to: the address, from the front page.
    """
    maker = Maker(material, ROOT_PAGE)
    entries: list[dict[str, object]] = []
    for name, entry in material.entries.items():
        number = name.partition(":")[2] if number_of(name) else ""
        entries.append(
            {
                "id": name,
                "number": number,
                "title": f"{entry.heading} {title_of((name,))}",
                "words": plain(f"{entry.says} · {entry.section}"),
                "to": maker.find(ROOT_PAGE, name),
            }
        )
    for name, says in material.errata.items():
        entries.append(
            {"id": name, "title": "Erratum", "words": plain(says), "to": href(ROOT_PAGE, page_of(ERRATA), name.lower())}
        )
    for file in material.columns:
        entries.append({"id": file, "title": "Code", "words": "", "to": href(ROOT_PAGE, page_of(file))})
    return entries


def plain(text: str) -> str:
    """Words of Markdown, without its signs."""
    return " ".join(re.sub(r"\*|`|\$|\[([^]]*)\]\([^)]*\)", r"\1", text).split())


def script(material: Material) -> str:
    """The script file; no reader fetches anything."""
    lines = ",\n".join(json.dumps(entry, ensure_ascii=False) for entry in found(material))
    return f"window.EQUATIONS = [\n{lines}\n];\n"
