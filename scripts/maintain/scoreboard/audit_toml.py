"""What results/conformance/audit.toml says: whose code is run and how, and what was found, in words."""

import shlex
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ortho_ref import schema
from ortho_ref.boundary import nearest
from ortho_ref.conformance.case import DTYPES
from ortho_ref.conformance.case_files import select
from ortho_ref.conformance.mistakes import MISTAKES
from ortho_ref.schema import TEXT, list_of, mapping, one_of, record

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "results" / "conformance"
FILE = FOLDER / "audit.toml"
ADAPTERS = "scripts/maintain/adapters"

TEXTS = list_of(TEXT)
_IMPLEMENTATION = record(
    {"title": TEXT, "adapter": TEXT, "cases": list_of(TEXT, 1), "packages": TEXTS},
    {
        "dtype": one_of(*DTYPES),
        "environment": mapping(TEXT),
        "source": record({"repository": TEXT, "commit": TEXT}),
        "note": TEXT,
        "conventions": mapping(TEXT),
    },
)
_MAP = record({"title": TEXT, "adapter": TEXT, "packages": TEXTS}, {"environment": mapping(TEXT)})
_FINDING = record({"title": TEXT, "implementations": TEXTS, "text": TEXT})
RUN, BY_FORMULA, NOT_RUN = "run", "by formula, not run", "not run"
_THREAD = record(
    {"name": TEXT, "url": TEXT, "state": one_of(RUN, BY_FORMULA, NOT_RUN), "text": TEXT},
    {"implementations": TEXTS, "mistakes": TEXTS},
)
_NOT_RUN = record({"title": TEXT, "why": TEXT})
FORM = record(
    {
        "opening": list_of(record({"text": TEXT, "implementations": TEXTS}), 1),
        "implementations": mapping(_IMPLEMENTATION),
        "maps": mapping(_MAP),
        "findings": list_of(_FINDING),
        "threads": list_of(_THREAD),
        "not_run": list_of(_NOT_RUN),
    }
)


@dataclass(frozen=True)
class Implementation:
    """Somebody's code, and how it is run."""

    name: str
    title: str  # as the page calls it
    adapter: str  # the file in scripts/maintain/adapters, without ".py"
    cases: tuple[str, ...]
    # distributions that it needs, whose versions are stored; "mlx==0.31.1" where it is about that one
    packages: tuple[str, ...]
    dtype: str = "float64"
    environment: dict[str, str] = field(default_factory=dict)  # what the adapter is told
    # "repository" and "commit" of code that no package has; empty where it is a package
    source: dict[str, str] = field(default_factory=dict)
    note: str = ""  # how it is run, where that needs saying: a stand-in for a dead framework
    # named mistakes that are conventions here -> whose, or why
    conventions: dict[str, str] = field(default_factory=dict)

    @property
    def arguments(self) -> list[str]:
        """Of `python -m`, without the report."""
        chosen = [word for pattern in self.cases for word in ("--only", pattern)]
        precision = [] if self.dtype == "float64" else ["--dtype", self.dtype]
        return ["ortho_ref.conformance", "run", "--adapter", f"{ADAPTERS}/{self.adapter}.py", *chosen, *precision]

    @property
    def command(self) -> str:
        """As one types it."""
        return _typed(self.arguments, self.environment)


@dataclass(frozen=True)
class Map:
    """Somebody's orthogonal map, for `python -m ortho_ref.conformance map`."""

    name: str
    title: str
    adapter: str
    packages: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def arguments(self) -> list[str]:
        """Of `python -m`, without the report."""
        return ["ortho_ref.conformance", "map", "--adapter", f"{ADAPTERS}/{self.adapter}.py"]

    @property
    def command(self) -> str:
        """As one types it."""
        return _typed(self.arguments, self.environment)


def _typed(arguments: list[str], environment: dict[str, str]) -> str:
    before = "".join(f"{name}={shlex.quote(value)} " for name, value in environment.items())
    return f"{before}python -m {shlex.join(arguments)}"


@dataclass(frozen=True)
class Audit:
    """All of it."""

    implementations: dict[str, Implementation]  # by name, in the page's order
    maps: dict[str, Map]  # by name; no implementation has the same
    opening: list[dict[str, Any]]  # the sentences that the page begins with, and whose reports each is of
    findings: list[dict[str, Any]]  # findings, threads, not_run: what the page says, in words
    threads: list[dict[str, Any]]
    not_run: list[dict[str, Any]]


def read(path: Path = FILE) -> Audit:
    """Read and check the file."""
    value = tomllib.loads(path.read_text())
    schema.check(value, FORM, path.name)
    found = {name: _implementation(name, entry) for name, entry in value["implementations"].items()}
    maps = {name: Map(name, **{**entry, "packages": tuple(entry["packages"])}) for name, entry in value["maps"].items()}
    mistakes = {mistake.name for mistake in MISTAKES}
    every: list[Implementation | Map] = [*found.values(), *maps.values()]
    for one in every:
        if not (ROOT / ADAPTERS / f"{one.adapter}.py").is_file():
            raise ValueError(f"{path.name}: {one.name} has adapter {one.adapter!r}, which {ADAPTERS} does not have")
    for own in found.values():
        select(own.cases)
        _check_known(f"{path.name}: conventions of {own.name}", own.conventions, mistakes)
    for said in (*value["opening"], *value["findings"], *value["threads"]):
        where = f"{path.name}: {said.get('title', said.get('name', 'opening'))}"
        _check_known(where, said.get("implementations", ()), found | maps)
        _check_known(where, said.get("mistakes", ()), mistakes)
    if both := found.keys() & maps.keys():
        raise ValueError(f"{path.name}: {', '.join(sorted(both))} names two things")
    return Audit(found, maps, value["opening"], value["findings"], value["threads"], value["not_run"])


def _implementation(name: str, entry: dict[str, Any]) -> Implementation:
    tuples = {key: tuple(entry[key]) for key in ("cases", "packages")}
    return Implementation(name, **{**entry, **tuples})


def _check_known(where: str, names: Any, known: Any) -> None:
    if unknown := [name for name in names if name not in known]:
        near = nearest(unknown[0], known) if len(unknown) == 1 else ""
        raise ValueError(f"{where}: there is no {', '.join(map(repr, unknown))}{near}")
