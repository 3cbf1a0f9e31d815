"""Lays out what Sphinx builds the site from: the prose with its links led to pages, and the generated pages."""

import re
import shutil
from collections.abc import Container
from pathlib import Path, PurePath

import nbformat

from scripts.maintain.book import api_reference, code_pages, finder, routes, weights
from scripts.maintain.book.cards import address_of
from scripts.maintain.book.material import Material
from scripts.maintain.book.places import DERIVATIONS, ERRATA, folder_page, page_of, resolved
from scripts.maintain.book.prose import ERRATUM, breakable

#: The pages of prose.
PROSE = (
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "results/README.md",
    "results/benchmark/*.md",
    "docs/*.md",
    "docs/*/*.md",
)
SETUP = "docs/site"
#: Page -> those that stand below it in the navigation.
BELOW = {
    "docs/conformance.md": (
        "docs/check/adapters.md",
        "docs/check/verdicts.md",
        "docs/check/ci.md",
        "docs/check/weights.md",
        "docs/check/functions.md",
        "docs/check/programs.md",
        "docs/check/reference.md",
        "docs/check/cases.md",
        "docs/which-gru.md",
        "docs/maps.md",
        "docs/linear.md",
        "docs/findings.md",
    ),
    "docs/findings.md": ("docs/findings/*.md", "docs/upstream/README.md"),
    "docs/upstream/README.md": ("docs/upstream/*.md",),
    "docs/reading-guide.md": (f"{routes.ROUTES}/*.md", f"{routes.CHAPTERS}/*.md", "docs/teach.md"),
    "docs/teach.md": (f"{routes.EXERCISES}/*.md",),
    f"{routes.THEOREMS}/README.md": (f"{routes.THEOREMS}/*.md",),
    "docs/alive/README.md": ("docs/alive/*.md",),
    "docs/training.md": ("docs/own-data.md", "docs/models.md", "docs/library.md", "docs/language-models.md"),
    "docs/experiments.md": ("docs/claims.md", "docs/gallery.md", "docs/clusters.md", "results/README.md"),
    "docs/claims.md": ("docs/claims/*.md",),
    "docs/performance.md": ("docs/gpu.md", "docs/reliability.md", "results/benchmark/*.md"),
    "papers/index.md": ("docs/equations.md", "docs/errata.md", "docs/equation-index.md", f"{DERIVATIONS}/README.md"),
    f"{DERIVATIONS}/README.md": (f"{DERIVATIONS}/*.md",),
    "api/index.md": ("CONTRIBUTING.md", "CHANGELOG.md"),
}
_LINK = re.compile(r"(\]\()([^)\s#:]+)((?:#[^)\s]*)?\))")
_ANCHOR = re.compile(r'^<a name="([\w-]+)"></a>$', re.M)  # as GitHub needs it
_ID = re.compile(r"(?<!\[)`([a-z][\w/.]*:[\w.:/-]+)`(?!\])")
_FENCE = re.compile(r"(^```.*?^```$)", re.M | re.S)
#: What no erratum is led from: code, a link, a heading, a block of HTML, a formula.
_CLOSED = re.compile(
    r"(`[^`\n]*`|\[[^]]*\](?:\([^)]*\)|=)|^#[^\n]*$|^<(?:.|\n)*?(?:\n\n|\Z)|\$[^$]*\$|^\([\w-]+\)=$)", re.M
)
#: Words of the names of claims' files, as they are written.
_NAMES = {"ncgru": "NC-GRU", "urnn": "uRNN", "sgornn": "SGORNN", "goru": "GORU", "gru": "GRU", "lstm": "LSTM"}
_NAMES |= {"nc-gru": "NC\N{NON-BREAKING HYPHEN}GRU", "har": "HAR", "ptb": "PTB", "mnist": "MNIST"}
_WORD = re.compile(r"\b(nc-gru|goru|gru|lstm|har|ptb|mnist)\b")


class Stage:
    """A folder that is filled."""

    def __init__(self, material: Material, out: Path) -> None:
        self.material, self.root, self.out = material, material.root, out
        prose = {path.relative_to(self.root).as_posix() for one in PROSE for path in self.root.glob(one)}
        self.prose = sorted(file for file in prose if not file.startswith(f"{SETUP}/"))
        self.listed: set[str] = set()

    def fill(self) -> None:
        """Everything.  ValueError for a link that leads nowhere."""
        shutil.copytree(self.root / SETUP, self.out, dirs_exist_ok=True)
        for file in self.prose:
            self._write(file, self._led(file, page_of(file)))
        self._write("index.md", self._led(f"{SETUP}/index.md", finder.ROOT_PAGE))
        self._papers()
        self._code()
        for name, text in api_reference.pages(self.root).items():
            self._write(f"{name}.md", text)
        self._write("static/equations.js", finder.script(self.material))
        self._write(weights.SCRIPT, weights.script(self.root))

    def _papers(self) -> None:
        papers = code_pages.papers(self.material)
        for page, (heading, names) in papers.items():
            self._write(f"{page}.md", code_pages.of_paper(self.material, heading, names))
        text = "# Equations, paper by paper\n\n" + _contents([Path(page).name for page in papers])
        more = f"The [derivations](/{DERIVATIONS}/README.md) show how each backward rule follows from its equation.\n"
        self._write("papers/index.md", f"{text}\n{more}")

    def _code(self) -> None:
        """A page for every file of two columns, and for each that any page links to."""
        m = self.material
        self._write("code/index.md", code_pages.of_chapters(m))
        other = {file for row in m.rows.values() for file in (*row.code, *row.tests)}
        other |= {file for file in self.listed if (self.root / file).is_file()}
        for file in [*m.columns, *sorted(other - set(m.columns))]:
            source = m.code.get(file) or m.tests.get(file) or (self.root / file).read_text(encoding="utf-8")
            self._write(f"{page_of(file)}.md", code_pages.of_file(m, file, source))
        known = {*m.columns, *other, *self.prose}
        for folder in sorted(file for file in self.listed if (self.root / file).is_dir()):
            inside = sorted(
                path.relative_to(self.root).as_posix()
                for path in (self.root / folder).rglob("*")
                if path.is_file() and "__pycache__" not in path.parts
            )
            self._write(f"{folder_page(folder)}.md", code_pages.of_folder(folder, inside, known))

    def _led(self, file: str, page: str) -> str:
        """A page of prose, from its file: ids, and links to what is no page of prose, lead to generated pages."""
        text = (self.root / file).read_text(encoding="utf-8")
        if file.startswith((f"{routes.ROUTES}/", f"{routes.CHAPTERS}/")):
            text = self._with_notebook(file, text)
        if file.startswith(f"{routes.EXERCISES}/"):
            text = self._with_graded(file, text)
        pieces = _FENCE.split(_ANCHOR.sub(r"(\1)=", text))
        for k in range(0, len(pieces), 2):
            pieces[k] = _LINK.sub(lambda found: self._link(file, found), pieces[k])
            pieces[k] = _ID.sub(lambda found: self._id(page, found), with_errata(pieces[k], self.material.errata))
        return "".join(pieces)

    def _with_notebook(self, file: str, text: str) -> str:
        """A route or a chapter with its formulas; beside it, and linked from below its title, the notebook."""
        text = routes.with_formulas(text, self.material.entries)
        name = Path(file).with_suffix(".ipynb")
        self._write(str(name), nbformat.writes(routes.notebook(text, file)))
        title, rest = text.split("\n", 1)
        return f"{title}\n\n{{download}}`This page as a notebook <{name.name}>`\n{rest}"

    def _with_graded(self, file: str, text: str) -> str:
        """Exercises, with two notebooks for nbgrader: to be filled in, and the teacher's with the answers."""
        name = Path(file).with_suffix(".ipynb")
        teachers = name.with_stem(f"{name.stem}-answers")
        for own, solved in ((name, False), (teachers, True)):
            self._write(str(own), nbformat.writes(routes.graded(text, file, solved)))
        title, rest = text.split("\n", 1)
        links = f"{{download}}`To fill in <{name.name}>`, {{download}}`with the answers <{teachers.name}>`"
        return f"{title}\n\nAs a notebook, which nbgrader grades: {links}.\n{rest}"

    def _id(self, page: str, found: re.Match[str]) -> str:
        """The id of an equation in backticks leads to its first line."""
        address = address_of(self.material, page, found[1])
        if address and "::" in found[1]:
            self.listed.add(found[1].partition("::")[0])
        return f'<a href="{address}"><code>{breakable(found[1])}</code></a>' if address else found[0]

    def _link(self, file: str, found: re.Match[str]) -> str:
        target = resolved(file, found[2])
        path = self.root / target
        if not path.exists():
            raise ValueError(f"{file} links to {found[2]}, which is not there")
        if path.suffix == ".svg":
            (self.out / target).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, self.out / target)
        if path.suffix == ".svg" or target in self.prose:
            return found[0] if file in self.prose else f"{found[1]}/{target}{found[3]}"
        self.listed.add(target)
        page = folder_page(target) if path.is_dir() else page_of(target)
        return f"{found[1]}/{page}.md{found[3]}"

    def _write(self, name: str, text: str) -> None:
        path = self.out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        below = [one for glob in BELOW.get(name, ()) for one in self.prose if PurePath(one).match(glob) and one != name]
        listed = "\n" + _contents([entry(one) for one in below], "hidden:") if below else ""
        path.write_text(text + listed, encoding="utf-8")


def with_errata(text: str, known: Container[str]) -> str:
    """Markdown in which errata that are named in words are links."""

    def led(found: re.Match[str]) -> str:
        return f"[{found[0]}](/{ERRATA}#{found[0].lower()})" if found[0] in known else found[0]

    pieces = _CLOSED.split(text)
    pieces[::2] = [ERRATUM.sub(led, piece) for piece in pieces[::2]]
    return "".join(pieces)


def entry(file: str) -> str:
    """A page in the navigation: by its title; of a claim by the file's name, as its title is a sentence."""
    page = f"/{page_of(file)}"
    paper, _, place = Path(file).stem.partition("-")
    if not file.startswith("docs/claims/") or paper not in _NAMES:
        return page
    return f"{_NAMES[paper]}, {_WORD.sub(lambda word: _NAMES[word[0]], place).replace('-', ' ')} <{page}>"


def _contents(names: list[str], how: str = "maxdepth: 1") -> str:
    """A table of contents of pages; hidden, it is in the navigation alone."""
    listed = "\n".join(names)
    return f"```{{toctree}}\n:{how}\n\n{listed}\n```\n"
