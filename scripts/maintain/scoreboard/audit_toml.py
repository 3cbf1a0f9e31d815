"""What results/conformance/audit.toml says: whose code is run and how, and what was found, in words."""

# ruff: noqa: RUF012  a Struct copies an empty default

import re
import shlex
import tomllib
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import Meta

from ortho_ref import formats
from ortho_ref.boundary import nearest
from ortho_ref.conformance.cases.case import DTYPES
from ortho_ref.conformance.cases.case_files import select
from ortho_ref.conformance.mistakes import MISTAKES
from ortho_ref.formats import Form

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "results" / "conformance"
FILE = FOLDER / "audit.toml"
ADAPTERS = "scripts/maintain/adapters"

Dtype: Any = Literal[DTYPES]
RUN, BY_FORMULA, NOT_RUN = "run", "by formula, not run", "not run"


class _Run(Form):
    """What is said of any code that is run."""

    action: ClassVar[str]  # of the kit
    title: str  # as the page calls it
    adapter: str  # the file in scripts/maintain/adapters, without ".py"
    # distributions that it needs, whose versions are stored; "mlx==0.31.1" where it is about that one
    packages: tuple[str, ...]
    environment: dict[str, str] = {}  # what the adapter is told
    name: str = ""  # its key in the file

    @property
    def command(self) -> str:
        """As one types it."""
        before = "".join(f"{name}={shlex.quote(value)} " for name, value in self.environment.items())
        return f"{before}python -m {shlex.join(self.arguments)}"

    @property
    def arguments(self) -> list[str]:
        """Of `python -m`, without the report."""
        return ["ortho_ref.conformance", self.action, "--adapter", f"{ADAPTERS}/{self.adapter}.py"]


class Source(Form):
    """Of code that no package has."""

    repository: str
    commit: str


class Implementation(_Run, kw_only=True):
    """Somebody's code, and how it is run."""

    action: ClassVar[str] = "run"
    cases: Annotated[tuple[str, ...], Meta(min_length=1)]
    dtype: Dtype = "float64"
    source: Source | None = None
    note: str = ""  # how it is run, where that needs saying: a stand-in for a dead framework
    # named mistakes that are conventions here -> whose, or why
    conventions: dict[str, str] = {}

    @property
    def arguments(self) -> list[str]:
        """With the cases."""
        chosen = [word for pattern in self.cases for word in ("--only", pattern)]
        precision = [] if self.dtype == "float64" else ["--dtype", self.dtype]
        return [*super().arguments, *chosen, *precision]


class Map(_Run, kw_only=True):
    """Somebody's orthogonal map, for `python -m ortho_ref.conformance map`."""

    action: ClassVar[str] = "map"


class Said(Form):
    """A sentence below the first table, and whose reports it is of."""

    text: str
    implementations: list[str]


class _Row(Form, kw_only=True):
    """What a line of the first table says."""

    whose: str = ""  # whose code or paper
    what: str = ""  # in a few words
    since: str = ""  # "since 0.16.0", where that is known, or the version seen where no report says it
    known: str = ""  # the issue where it is known, as a link
    upstream: list[str] = []  # files of docs/upstream, ready to be reported


class Finding(_Row, kw_only=True):
    """What was found; with `what` in the first table, without it in the list below that."""

    title: str
    text: str
    implementations: list[str]
    page: str = ""  # its file in docs/findings; else made of the title

    @property
    def name(self) -> str:
        """Its file, without ".md"."""
        return self.page or re.sub(r"[^a-z0-9]+", "-", self.title.lower()).strip("-")


class Elsewhere(_Row, kw_only=True):
    """A finding whose page is another: a line of the first table."""

    link: str  # from docs/findings.md


class Thread(Form):
    """What others asked or reported."""

    name: str
    url: str
    state: Literal[RUN, BY_FORMULA, NOT_RUN]  # type: ignore[valid-type]
    text: str
    implementations: list[str] = []
    mistakes: list[str] = []


class NotRun(Form):
    """Code that was not run."""

    title: str
    why: str


class Audit(Form):
    """All of it."""

    opening: Annotated[list[Said], Meta(min_length=1)]
    implementations: dict[str, Implementation]  # in the page's order
    maps: dict[str, Map]  # no implementation has the same name
    findings: list[Finding]
    threads: list[Thread]
    not_run: list[NotRun]
    elsewhere: list[Elsewhere] = []

    @property
    def by_name(self) -> dict[str, Implementation | Map]:
        """Whatever is run, by its name."""
        return {**self.implementations, **self.maps}


def read(path: Path = FILE) -> Audit:
    """Read and check the file."""
    value = tomllib.loads(path.read_text(encoding="utf-8"))
    formats.check(value, Audit, path.name)
    audit = msgspec.convert(value, Audit)
    for name, own in [*audit.implementations.items(), *audit.maps.items()]:
        own.name = name
    mistakes = {mistake.name for mistake in MISTAKES}
    for one in audit.by_name.values():
        if not (ROOT / ADAPTERS / f"{one.adapter}.py").is_file():
            raise ValueError(f"{path.name}: {one.name} has adapter {one.adapter!r}, which {ADAPTERS} does not have")
    for own in audit.implementations.values():
        select(own.cases)
        _check_known(f"{path.name}: conventions of {own.name}", own.conventions, mistakes)
    told: list[Any] = [*audit.opening, *audit.findings, *audit.threads]
    for said in told:
        where = f"{path.name}: {getattr(said, 'title', getattr(said, 'name', 'opening'))}"
        _check_known(where, said.implementations, audit.by_name)
        _check_known(where, getattr(said, "mistakes", ()), mistakes)
    _check_pages(path.name, audit)
    if both := audit.implementations.keys() & audit.maps.keys():
        raise ValueError(f"{path.name}: {', '.join(sorted(both))} names two things")
    return audit


def _check_pages(file: str, audit: Audit) -> None:
    upstream = {path.stem for path in (ROOT / "docs" / "upstream").glob("*.md")}
    for row in (*audit.findings, *audit.elsewhere):
        _check_known(f"{file}: upstream of {row.whose}", row.upstream, upstream)
    names = [finding.name for finding in audit.findings]
    if twice := sorted({name for name in names if names.count(name) > 1 or name == "scoreboard"}):
        raise ValueError(f"{file}: two pages of docs/findings are called {', '.join(twice)}")


def _check_known(where: str, names: Any, known: Any) -> None:
    if unknown := [name for name in names if name not in known]:
        near = nearest(unknown[0], known) if len(unknown) == 1 else ""
        raise ValueError(f"{where}: there is no {', '.join(map(repr, unknown))}{near}")
