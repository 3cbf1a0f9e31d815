"""What the box "go to equation" looks through: an array in a script file."""

import json
import re
import unicodedata

from scripts.maintain.book.cards import address_of, title_of
from scripts.maintain.book.material import Material
from scripts.maintain.book.mathml import plain as formula_in_words
from scripts.maintain.book.order import number_of
from scripts.maintain.book.places import ERRATA, href, page_of
from scripts.maintain.equations.stated import MARK

ROOT_PAGE = "index"


def found(material: Material) -> list[dict[str, object]]:
    """An entry an equation, an erratum, and a file of two columns: id, title, words, formula, keys, to."""
    entries: list[dict[str, object]] = []
    for name, entry in material.entries.items():
        number = name.partition(":")[2] if number_of(name) else ""
        formula = plain(entry.formula)
        entries.append(
            {
                "id": name,
                "number": number,
                "title": f"{entry.heading} {title_of((name,))}",
                "words": " · ".join(filter(None, (plain(entry.says) or formula, entry.section))),
                "formula": formula,
                "keys": greek(formula + plain(entry.says)),
                "to": address_of(material, ROOT_PAGE, name),
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
    """Words of Markdown, without its signs; formulas as text."""
    pieces = re.split(r"\$([^$]+)\$", MARK.sub(r"\2", text))
    pieces[::2] = [re.sub(r"\*\*?|`|\[([^]]*)\]\([^)]*\)", r"\1", piece) for piece in pieces[::2]]
    pieces[1::2] = map(formula_in_words, pieces[1::2])
    return " ".join("".join(pieces).split())


def greek(text: str) -> str:
    """The names of the Greek letters of a text, each once: what is typed for them."""
    names = [unicodedata.name(letter, "") for letter in unicodedata.normalize("NFKC", text)]
    found = [name.split("LETTER ")[1].split()[0].lower() for name in names if name.startswith("GREEK ")]
    return " ".join(dict.fromkeys("lambda" if name == "lamda" else name for name in found))


def script(material: Material) -> str:
    """The script file; no reader fetches anything."""
    lines = ",\n".join(json.dumps(entry, ensure_ascii=False) for entry in found(material))
    return f"window.EQUATIONS = [\n{lines}\n];\n"
