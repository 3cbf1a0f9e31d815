"""The benchmark's file, and the tables made of it."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from msgspec import Meta

from ortho_ref import files, formats
from ortho_ref.boundary import short
from ortho_ref.formats import Form
from scripts.maintain.timing.groups import NUMBERS, Group, GroupForm, key, named

Report = dict[str, Any]

FORMAT = "ortho_ref benchmark 1"


class Machine(Form):
    """Where it was measured."""

    cpu: str
    cores: Annotated[int, Meta(ge=1, le=10**6)]
    system: str
    kernels: list[str]
    variables: dict[str, str]


class Settings(Form):
    """With what all groups were measured."""

    dtype: str
    device: str
    memory: str


class Benchmark(Form):
    """The file."""

    format: Literal[FORMAT]  # type: ignore[valid-type]
    commands: list[str]
    machine: Machine
    libraries: dict[str, str]
    settings: Settings
    groups: list[GroupForm]


TITLES = {
    "cells": "Cells: forward + backward with every gradient; a contender's time / ours",
    "updates": "Whole updates; a contender's time / ours",
    "memory": "Memory: the most of one forward + backward, in T B n numbers",
    "maps": "Orthogonal maps: U and dL/dA; a contender's time / the first's",
}


class Table(NamedTuple):
    """A table in words."""

    title: str
    head: list[str]
    rows: list[list[str]]

    def markdown(self) -> str:
        """As a page has it, without its title."""
        lines = [self.head, ["---", *["---:"] * (len(self.head) - 1)], *self.rows]
        return "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + "\n"


def read(path: Path) -> Report:
    """A stored file.  OSError where it cannot be read, ValueError with the file's name where it is none."""
    try:
        report = formats.from_json(files.read(path))
        formats.check(report, Benchmark)
        _check_references(report["groups"])
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    return report


def _check_references(groups: Sequence[Group]) -> None:
    for i, group in enumerate(groups):
        if group["reference"] not in group["contenders"]:
            raise ValueError(f"groups[{i}].reference is {short(group['reference'])}, which is no contender")
        if not all(own["median"] > 0 and own["ratio"] > 0 for own in group["contenders"].values()):
            raise ValueError(f"groups[{i}] has a time that is not above 0")


def text_of(report: Report) -> str:
    """The file's text, figures rounded to four digits."""
    return formats.to_json(_rounded(report), indent=1) + "\n"


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, dict):
        return {name: _rounded(item) for name, item in value.items()}
    return [_rounded(item) for item in value] if isinstance(value, list) else value


def merged(old: Report, new: Report) -> Report:
    """What was measured before, with what was measured now in its place.  ValueError where they do not go together."""
    for field in ("machine", "libraries", "settings"):
        if old[field] != new[field]:
            raise ValueError(f"its {field} is {short(old[field])}; a part that is measured now has another")
    groups = {key(group): group for group in old["groups"]} | {key(group): group for group in new["groups"]}
    commands = [*old["commands"], *(command for command in new["commands"] if command not in old["commands"])]
    in_order = sorted(groups.values(), key=lambda group: list(TITLES).index(group["section"]))
    return {**new, "commands": commands, "groups": in_order}


def of_section(report: Report, section: str) -> list[Group]:
    """Its groups."""
    return [group for group in report["groups"] if group["section"] == section]


def tables(report: Report) -> list[Table]:
    """A table for each section that was measured."""
    return [table(TITLES[section], of_section(report, section)) for section in TITLES if of_section(report, section)]


def table(title: str, groups: Sequence[Group]) -> Table:
    """Groups of one section, a row each; contenders that some have are a column of all."""
    cases = list(dict.fromkeys(name for group in groups for name in group["case"]))
    first = groups[0]["reference"]
    others = list(dict.fromkeys(name for group in groups for name in group["contenders"] if name != group["reference"]))
    if groups[0]["unit"] == NUMBERS:
        head = [*cases, first, *others]
        return Table(
            title, head, [[*_case(g, cases), *(_median(g, name) for name in (first, *others))] for g in groups]
        )
    head = [*cases, f"{first}, ms", "spread", "wall, ms", *others]
    rows = [[*_case(g, cases), *_own_time(g), *(ratio(g, name) for name in others)] for g in groups]
    return Table(title, head, rows)


def ratio(group: Group, name: str) -> str:
    """A contender's time by ours; empty where it was not measured."""
    return f"{group['contenders'][name]['ratio']:.2f}" if name in group["contenders"] else ""


def _own_time(group: Group) -> tuple[str, str, str]:
    """The reference's median, half of what lies between its quartiles, by its median, and the wall's clock."""
    own = group["contenders"][group["reference"]]
    wall = f"{own['wall']:.3g}" if "wall" in own else ""
    return _median(group, group["reference"]), f"±{50 * (own['high'] - own['low']) / own['median']:.0f} %", wall


def _case(group: Group, names: Iterable[str]) -> list[str]:
    values = (group["case"].get(name, "") for name in names)
    return [value if isinstance(value, str) else f"{value:g}" for value in values]


def _median(group: Group, name: str) -> str:
    return f"{group['contenders'][name]['median']:.3g}" if name in group["contenders"] else ""


def about(report: Report) -> list[str]:
    """Which machine, libraries and settings, a line each."""
    own, used = report["machine"], report["settings"]
    versions = ", ".join(f"{name} {version}" for name, version in report["libraries"].items() if name != "blas")
    variables = ", ".join(f"{name}={value}" for name, value in own["variables"].items()) or "none"
    return [
        f"Machine: {own['cpu']}, {own['cores']} cores, {own['system']}.",
        f"Libraries: {versions}; BLAS: {report['libraries'].get('blas', '')}; kernels: {', '.join(own['kernels'])};"
        f" variables: {variables}.",
        f"{used['dtype']}, {used['device']}; freed memory is {used['memory']}.",
    ]


def markdown(report: Report, picture: str = "") -> str:
    """The page beside the file."""
    own = report["machine"]
    title = f"# Benchmark on {own['cpu']}, {', '.join(own['kernels'])}"
    lines = [title, "", "Written by", "", "```sh", *report["commands"], "```", "", *about(report), ""]
    lines += [
        "Milliseconds are process CPU time, with several threads wall time, medians of interleaved rounds; a ratio",
        "is the median of those of rounds; spread is half of what lies between the quartiles.",
        "",
    ]
    if picture:
        lines += [f"![Peers, on one core and on all]({picture})", ""]
    for table in tables(report):
        lines += [f"## {table.title}", "", table.markdown()]
    reasons = {
        f"* {name}, {group['section']}: {named(group['case'])}: {reason}"
        for group in report["groups"]
        for name, reason in group["skipped"].items()
    }
    return "\n".join([*lines, *(["## Not measured", "", *sorted(reasons), ""] if reasons else [])])
