"""docs/gallery.md: the pictures of the pages that show results, each with where it is explained and how it is made."""

import re
from pathlib import Path
from posixpath import normpath, relpath
from typing import NamedTuple

PAGE = "docs/gallery.md"
#: The pages whose pictures are listed, in this order.
PAGES = ("docs/claims/*.md", "results/README.md", "results/benchmark/*.md")
HEAD = """# Gallery

Every picture of [claims](claims.md), [other runs](../results/README.md) and
[benchmarks](performance.md), with its page and its commands. Written by `python -m scripts.maintain.claims`.
"""
_PICTURE = re.compile(r"^!\[(.*?)\]\((\S+?\.svg)\)$(\n\n\*.+\*$)?", re.M)
_BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.M | re.S)
_INLINE = re.compile(r"`(python -m scripts\.[^`]+)`")


class Shown(NamedTuple):
    """A section with pictures."""

    heading: str
    pictures: tuple[tuple[str, str, str], ...]  # what each shows, its file, its caption
    commands: str  # that make them, a line each


def shown_in(page: str, text: str) -> list[Shown]:
    """The sections of a page that have pictures."""
    parts = re.split(r"^##? (.*)$", text, flags=re.M)
    found = []
    for heading, section in zip(parts[1::2], parts[2::2], strict=True):
        found_here = _PICTURE.findall(section)
        pictures = tuple((alt, normpath(f"{Path(page).parent}/{file}"), words) for alt, file, words in found_here)
        if not pictures:
            continue
        commands = _commands(section)
        if not commands:
            raise ValueError(f"{page}: nothing says how the pictures of {heading!r} are made")
        found.append(Shown(heading, pictures, commands))
    return found


def _commands(section: str) -> str:
    """The section's block of shell, else the last command in a line; others there measured what is told besides."""
    if blocks := _BLOCK.findall(section):
        return "".join(blocks)
    inline = _INLINE.findall(section)
    return f"{inline[-1]}\n" if inline else ""


def anchor(heading: str) -> str:
    """What a link to a heading ends in."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def gallery(root: Path) -> str:
    """The page."""
    files = [path.relative_to(root).as_posix() for pattern in PAGES for path in sorted(root.glob(pattern))]
    parts = [HEAD]
    for page in files:
        text = (root / page).read_text(encoding="utf-8")
        for one in shown_in(page, text):
            pictures = "\n".join(f"![{alt}]({relpath(file, 'docs')}){words}" for alt, file, words in one.pictures)
            at = "" if text.startswith(f"# {one.heading}\n") else f"#{anchor(one.heading)}"
            parts.append(
                f"## {one.heading}\n\n{pictures}\n\n"
                f"[Explanation]({relpath(page, 'docs')}{at})\n\n```sh\n{one.commands}```\n"
            )
    return "\n".join(parts)
