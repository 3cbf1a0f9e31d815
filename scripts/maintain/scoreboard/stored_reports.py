"""What the kit said of somebody's code, as it is stored: its report, without what a case that passed has to say."""

from importlib import metadata
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType, field
from msgspec.structs import asdict

from ortho_ref import files
from ortho_ref.conformance.report import FAILED, PARTIAL, PASSED, shortened as listed
from ortho_ref.conformance.running.origin import platform_now
from ortho_ref.formats import Form
from scripts.maintain.scoreboard.audit_toml import FOLDER, Dtype, Implementation, Map

FORMAT = "ortho_ref audit 1"
MAP_FORMAT = "ortho_ref audit of a map 1"


class Case(Form):
    """What is kept of a case."""

    id: str
    status: Literal[PASSED, PARTIAL, FAILED]  # type: ignore[valid-type]
    error: float | None
    mistakes: list[list[str]] | UnsetType = UNSET
    says: str | UnsetType = UNSET
    missing: list[str] | UnsetType = UNSET


class StoredReport(Form):
    """The file of an implementation."""

    command: str
    kit: str
    dtype: Dtype
    versions: dict[str, str]
    platform: dict[str, str]
    vectors: dict[str, str]
    cases: Annotated[list[Case], Meta(min_length=1)]
    source: dict[str, str] | UnsetType = UNSET


class StoredMap(Form):
    """The file of a map."""

    command: str
    kit: str
    versions: dict[str, str]
    platform: dict[str, str]
    ok: bool
    is_: list[str] = field(name="is")
    problems: list[str]
    page: str


def missing(own: Implementation | Map) -> list[str]:
    """Which of the packages that an implementation needs are not installed here."""
    return [package for package in own.packages if not _is_there(package)]


def versions(own: Implementation | Map) -> dict[str, str]:
    """What is installed here of what an implementation needs."""
    return {name: str(_version(name)) for name in map(_name, own.packages)}


def store(own: Implementation, report: dict[str, Any], folder: Path = FOLDER) -> None:
    """Store what the kit said.  ValueError: no case was supported: there is nothing to say."""
    cases = [shortened(case) for case in report["cases"] if case["status"] in (PASSED, PARTIAL, FAILED)]
    if not cases:
        raise ValueError(f"{own.name}: no case of {', '.join(own.cases)} is supported by {own.adapter}")
    value = {
        "command": own.command,
        "kit": report["kit"],
        "dtype": report["dtype"],
        "versions": versions(own),
        "platform": report["platform"],
        "vectors": report["vectors"],
        "cases": cases,
    }
    value |= {"source": asdict(own.source)} if own.source else {}
    files.write_sealed(folder / f"{own.name}.json", FORMAT, value, StoredReport)


def shortened(case: dict[str, Any]) -> dict[str, Any]:
    """A case of a report as it is stored."""
    errors = [output["error"] for output in case["outputs"].values()]
    worst = None if not errors or None in errors else max(errors)
    own = {"id": case["id"], "status": case["status"], "error": worst}
    if case["status"] == FAILED:
        said = "; ".join(part for part in (case["message"], case["diagnosis"], *_remarks(case)) if part)
        own |= {"mistakes": case["mistakes"], "says": said}
    return own | ({"missing": case["missing"]} if case["missing"] else {})


def _remarks(case: dict[str, Any]) -> list[str]:
    """What is said of single outputs that are wrong."""
    names: dict[str, list[str]] = {}
    for name, output in case["outputs"].items():
        if output["remark"] and not output["passed"]:
            names.setdefault(output["remark"], []).append(name)
    return [f"{listed(own, case['outputs'])} {remark}" for remark, own in names.items()]


def load(own: Implementation | Map, folder: Path = FOLDER) -> dict[str, Any]:
    """What is stored of an implementation, or of a map."""
    format, form = (MAP_FORMAT, StoredMap) if isinstance(own, Map) else (FORMAT, StoredReport)
    value = files.read_sealed(folder / f"{own.name}.json", format, form).value
    if value["command"] != own.command:
        raise ValueError(f"{own.name}.json is of {value['command']}; audit.toml has {own.command}: run it again")
    source = asdict(own.source) if isinstance(own, Implementation) and own.source else None
    if value.get("source") != source:
        raise ValueError(f"{own.name}.json is of {value.get('source')}; audit.toml has {source}: run it again")
    return value


def store_map(own: Map, report: dict[str, Any], printed: str) -> None:
    """Store what the kit said of a map."""
    value = {
        "command": own.command,
        "versions": versions(own),
        "platform": platform_now(),
        "page": printed.strip(),
    }
    value |= {name: report[name] for name in ("kit", "ok", "is", "problems")}
    files.write_sealed(FOLDER / f"{own.name}.json", MAP_FORMAT, value, StoredMap)


def _is_there(package: str) -> bool:
    _, _, wanted = package.partition("==")
    found = _version(_name(package))
    return found is not None and wanted in ("", found)


def _name(package: str) -> str:
    return package.partition("==")[0]


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
