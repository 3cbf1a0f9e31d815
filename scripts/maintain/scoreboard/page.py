"""docs/findings, from what is stored: who was run, on what, and what the kit said; never more than that."""

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, TypeAlias

from ortho_ref.conformance.mistakes import MISTAKES
from ortho_ref.conformance.report import PARTIAL, PASSED
from scripts.maintain.scoreboard.audit_toml import Audit, Elsewhere, Finding, Implementation, Map

#: Mistake -> what it says.
SAYS = {mistake.name: mistake.says for mistake in MISTAKES}
#: Name of an implementation or a map -> what is stored of it.
Stored: TypeAlias = dict[str, dict[str, Any]]

_ERROR = re.compile(r"\b\d\.\de[-+]\d\d\b")  # 3.5e-07, as the kit writes an error
SCOREBOARD = "scoreboard.md"
_SENTENCES = 2  # of a row: the rest is counted


class Row(NamedTuple):
    """An implementation on the cases of one cell, map or whatever they are of."""

    family: str
    # passed, partial, departs, wrong: how many cases: all right; right in the outputs that it gives; other in a way
    # that is named and somebody's convention; otherwise wrong
    passed: int
    partial: int
    departs: int
    wrong: int
    named: tuple[str, ...]  # the mistakes that name the departures
    says: tuple[tuple[str, int], ...]  # what the kit says of the wrong ones and of how many, most first
    missing: tuple[str, ...]  # outputs that no partial case has


def rows_of(own: Implementation, report: dict[str, Any]) -> list[Row]:
    """The rows of an implementation, a family each."""
    families: dict[str, list[dict[str, Any]]] = {}
    for case in report["cases"]:
        families.setdefault("/".join(case["id"].split("/")[:2]), []).append(case)
    return [_row(own, family, cases) for family, cases in families.items()]


def _row(own: Implementation, family: str, cases: list[dict[str, Any]]) -> Row:
    counts = dict.fromkeys(("passed", "partial", "departs", "wrong"), 0)
    named: dict[str, None] = {}
    says: dict[str, list[str]] = {}
    missing: dict[str, None] = {}
    for case in cases:
        if case["status"] == PASSED:
            counts["passed"] += 1
        elif case["status"] == PARTIAL:
            counts["partial"] += 1
            missing |= dict.fromkeys(case["missing"])
        elif names := convention(own, case):
            counts["departs"] += 1
            named |= dict.fromkeys(names)
        else:
            counts["wrong"] += 1
            says.setdefault(_ERROR.sub("", case["says"]), []).append(case["says"])
    told = sorted(((_at_most(cases), len(cases)) for cases in says.values()), key=lambda said: -said[1])
    return Row(family, **counts, named=tuple(named), says=tuple(told), missing=tuple(missing))


def _at_most(told: list[str]) -> str:
    """One sentence for those that differ in their numbers: with the largest of each."""
    largest = [max(numbers, key=float) for numbers in zip(*map(_ERROR.findall, told), strict=True)]
    if len(set(told)) == 1:
        return told[0]
    return _ERROR.sub(lambda _: f"at most {largest.pop(0)}", told[0])


def convention(own: Implementation, case: dict[str, Any]) -> tuple[str, ...]:
    """The mistakes that name a failing case, where all of them are conventions here."""
    return next((tuple(names) for names in case["mistakes"] if names and set(names) <= set(own.conventions)), ())


def pages(audit: Audit, stored: Stored) -> dict[str, str]:
    """File below docs -> text: the first page, one for each finding, and the scoreboard."""
    found = {"findings.md": _first(audit, stored), f"findings/{SCOREBOARD}": _whole(audit, stored)}
    return found | {f"findings/{own.name}.md": _finding(audit, own, stored) for own in audit.findings}


def _first(audit: Audit, stored: Stored) -> str:
    rows: list[tuple[Finding | Elsewhere, str]] = [(own, f"findings/{own.name}.md") for own in audit.findings]
    rows += [(own, own.link) for own in audit.elsewhere]
    lines = [
        "# What the kit found in other people's code",
        "",
        "| whose | what | seen in | reported |",
        "|---|---|---|---|",
        *(
            f"| {own.whose} | [{own.what}]({link}) | {_cell(_seen(audit, own, stored))} | {_known(own, '')} |"
            for own, link in rows
            if own.what
        ),
        "",
        "No: not as far as we know. A report is one [ready to be filed](upstream/README.md).",
        "",
        *(f"* {_text(entry.text)}" for entry in audit.opening),
        "",
        "Not faults, but worth knowing before you move weights:",
        "",
        *(f"* [{own.title}](findings/{own.name}.md)" for own in audit.findings if not own.what),
        "",
        "## Scoreboard",
        "",
        _totals(audit, stored),
        f"[The scoreboard](findings/{SCOREBOARD}) has each, with the command that ran it.",
    ]
    return "\n".join(lines) + "\n"


def _finding(audit: Audit, own: Finding, stored: Stored) -> str:
    lines = [f"# {own.title}", "", own.text.strip()]
    if own.what:
        lines += ["", f"**Seen in:** {_seen(audit, own, stored)}. **Reported:** {_known(own, '../')}."]
    if own.implementations:
        lines += ["", f"Runs: {_linked(audit, own.implementations, SCOREBOARD)}."]
    return "\n".join([*lines, "", "[All findings](../findings.md)"]) + "\n"


def _seen(audit: Audit, own: Finding | Elsewhere, stored: Stored) -> str:
    """The versions of the first report, where a finding has one."""
    if isinstance(own, Elsewhere) or not own.implementations:
        return own.since
    name = own.implementations[0]
    if source := stored[name].get("source"):
        seen = f"{source['repository']} at {source['commit'][:7]}"
    else:
        versions = stored[name]["versions"]
        package = own.whose if own.whose in versions else audit.by_name[name].packages[0].split("==")[0]
        seen = f"{package} {versions[package].partition('+')[0]}"
    return f"{seen}, {own.since}" if own.since else seen


def _known(own: Finding | Elsewhere, up: str) -> str:
    """Where it is known, else "no"; and the reports that are ready to be filed."""
    ready = [f"[report]({up}upstream/{name}.md)" for name in own.upstream]
    return "; ".join([_text(own.known) or "no", *ready])


def _whole(audit: Audit, stored: Stored) -> str:
    """The scoreboard's page."""
    lines = [
        "# Scoreboard",
        "",
        _totals(audit, stored),
        "",
        "Written by `python -m scripts.maintain.findings` from the reports in",
        "[results/conformance](../../results/conformance), which `python -m scripts.maintain.audit` stores. Each row",
        "is somebody's code as it is, from its package or from a checkout at the named commit, run by one of",
        "[scripts/maintain/adapters](../../scripts/maintain/adapters). Numbers count cases. It claims only what was",
        "run.",
        "",
        "* passed: every output is right, forward and backward.",
        "* partial: the outputs that it gives are right; it does not give the others.",
        "* departs: it differs in a way that the kit names, and that is a convention, not a fault.",
        "* wrong: it differs in any other way; the last column has the kit's words.",
        "",
        "| implementation | | cases | passed | partial | departs | wrong | what the kit says |",
        "|---|---|---|---|---|---|---|---|",
        *_scoreboard(audit, stored),
        "",
        "## Orthogonal maps",
        "",
        "`ortho-ref map` ([maps](../maps.md)) says which closed form a function Q -> U is, and whether U is",
        "orthogonal, to 1e-10 in float64, for ||Q|| up to 1.",
        "",
        "| map | is | |",
        "|---|---|---|",
        *_maps(audit, stored),
        "",
        "## Known threads",
        *_threads(audit),
        "",
        "## Not run",
        "",
        *(f"* **{entry.title}**: {_text(entry.why)}" for entry in audit.not_run),
        "",
        "## How each was run",
        "",
        "`ORTHO_REF_SOURCES` is a folder of checkouts, for code that is in no package. Versions are those of the day",
        "when the report was stored.",
        *_runs(audit, stored),
    ]
    return "\n".join(lines) + "\n"


def _totals(audit: Audit, stored: Stored) -> str:
    reports = {name: stored[name] for name in audit.implementations}
    rows = [row for name, own in audit.implementations.items() for row in rows_of(own, reports[name])]
    counts = [f"{sum(getattr(row, name) for row in rows)} {name}" for name in ("passed", "partial", "departs", "wrong")]
    kits = sorted({report["kit"] for report in reports.values()})
    cases = sum(len(report["cases"]) for report in reports.values())
    packages, repositories = whose(audit.implementations.values())
    where = f"{len(packages)} packages and {len(repositories)} repositories"
    return f"{len(reports)} reports on {where}, {cases} cases: {', '.join(counts)}; ortho_ref {', '.join(kits)}."


def whose(implementations: Iterable[Implementation]) -> tuple[set[str], set[str]]:
    """The packages that the reports are about, and the repositories of code that no package has."""
    packages: set[str] = set()
    repositories: set[str] = set()
    for own in implementations:
        if own.source:
            repositories.add(own.source.repository)
        else:
            packages.add(own.packages[0].split("==")[0])
    return packages, repositories


def _scoreboard(audit: Audit, stored: Stored) -> Iterator[str]:
    for name, own in audit.implementations.items():
        report = stored[name]
        title, precision = f"[{own.title}](#{name})", "" if report["dtype"] == "float64" else report["dtype"]
        for row in rows_of(own, report):
            counts = " | ".join(str(count or "") for count in (row.passed, row.partial, row.departs, row.wrong))
            yield f"| {title} | {precision} | `{row.family}` | {counts} | {_cell(_said(own, row))} |"
            title = ""


def _said(own: Implementation, row: Row) -> str:
    parts = [f"`{name}`: {SAYS.get(name, name)} ({own.conventions[name]})" for name in row.named]
    parts += [f"{said} ({count})" if len(row.says) > 1 else said for said, count in row.says[:_SENTENCES]]
    if rest := sum(count for _, count in row.says[_SENTENCES:]):
        parts.append(f"other sentences ({rest})")
    if row.missing:
        parts.append(f"does not give {', '.join(_by_prefix(row.missing))}")
    return "; ".join(parts)


def _by_prefix(names: tuple[str, ...]) -> list[str]:
    return [*dict.fromkeys(f"{prefix}.*" if rest else prefix for prefix, _, rest in (n.partition(".") for n in names))]


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _maps(audit: Audit, stored: Stored) -> Iterator[str]:
    for name, own in audit.maps.items():
        report = stored[name]
        verdict = "passed" if report["ok"] else f"failed: {'; '.join(report['problems'])}"
        found = "; the same: ".join(report["is"]) or "none of the closed forms"
        yield f"| [{own.title}](#{name}) | {_cell(found)} | {_cell(verdict)} |"


def _threads(audit: Audit) -> Iterator[str]:
    for entry in audit.threads:
        yield from ("", f"**[{entry.name}]({entry.url})** ({entry.state}). {_text(entry.text)}")
        for name in entry.mistakes:
            yield from ("", f"> your outputs equal ... with {SAYS[name]}  (`{name}`)")
        if entry.implementations:
            yield from ("", f"Run: {_linked(audit, entry.implementations)}.")


def _linked(audit: Audit, names: list[str], page: str = "") -> str:
    """Links; of two with one title the one in float32, or of the map alone, says so."""
    known = audit.by_name
    titles = [known[name].title for name in names]
    found = []
    for name, title in zip(names, titles, strict=True):
        own = known[name]
        which = ", the map" if isinstance(own, Map) else ", float32" if own.dtype == "float32" else ""
        found.append(f"[{title}{which if titles.count(title) > 1 else ''}]({page}#{name})")
    return ", ".join(found)


def _runs(audit: Audit, stored: Stored) -> Iterator[str]:
    """Each with its command, and a map with what was printed."""
    for name, own in audit.by_name.items():
        report = stored[name]
        yield from ("", f'<a name="{name}"></a>', f"**{own.title}**: {'; '.join(_where(report))}.")
        if isinstance(own, Implementation) and own.note:
            yield _text(own.note)
        yield from ("", "```sh", report["command"], "```")
        if isinstance(own, Map):
            yield from ("```text", report["page"], "```")


def _where(report: dict[str, Any]) -> Iterator[str]:
    """Versions, commit, platform."""
    yield from (f"{package} {version}" for package, version in report["versions"].items())
    if source := report.get("source"):
        repository, commit = source["repository"], source["commit"]
        yield f"[{repository}](https://github.com/{repository}/tree/{commit}) at {commit[:7]}"
    platform = report["platform"]
    yield from (f"Python {platform['python']}", f"NumPy {platform['numpy']}", platform["machine"])


def _text(text: str) -> str:
    return " ".join(text.split())
