"""What the kit writes, and the manifest that it ships: forms, and JSON Schemas (draft 2020-12) of them."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from ortho_ref.conformance.case import DTYPES, HALF
from ortho_ref.conformance.case_files import FORMAT, Kind, Manifest
from ortho_ref.conformance.entries import Wrong
from ortho_ref.conformance.export import FORMAT as EXPORT_FORMAT
from ortho_ref.conformance.findings import Assumed, Count, Finding, Summary
from ortho_ref.conformance.maps.report import MapDocument
from ortho_ref.conformance.origin import Origin, Platform, Time, Vectors
from ortho_ref.conformance.programs import FORMAT as CASE_FORMAT
from ortho_ref.conformance.report import FORMAT as REPORT_FORMAT
from ortho_ref.conformance.report import STATUSES
from ortho_ref.formats import Form, Least0, Sha256

_Dtype: Any = Literal[DTYPES]
_AnyDtype: Any = Literal[(*DTYPES, *HALF)]
_Status: Any = Literal[STATUSES]


class Output(Form):
    """How far an output is off."""

    error: Annotated[float | None, Meta(description="relative to the output's scale; null: not comparable")]
    tolerance: float
    passed: bool
    remark: str
    wrong: Annotated[Wrong | None, Meta(description="null: right, or of another shape")]


class Result(Form):
    """What was found on one case."""

    id: str
    status: _Status
    seconds: Least0
    outputs: dict[str, Output]
    missing: list[str]
    message: str
    mistakes: list[list[str]]
    diagnosis: str
    traceback: str


class Counts(Form):
    """How many cases have each status."""

    passed: Count
    failed: Count
    partial: Count
    unsupported: Count


class Breach(Form):
    """How the contract is broken."""

    case: str
    why: str


class Contract(Form):
    """Whether the run keeps the contract that it is held to."""

    ok: bool
    expected: dict[str, str]
    broken: list[Breach]


class Report(Form):
    """What `run --report` writes."""

    kit: str
    vectors: Vectors
    platform: Platform
    origin: Annotated[Origin | None, Meta(description="null: of results that somebody put together")]
    dtype: _AnyDtype
    forward: Annotated[bool, Meta(description="whether the forward pass alone was judged")]
    allow_partial: bool
    interrupted: bool
    ok: Annotated[bool, Meta(description="whether the exit code is 0")]
    contract: Annotated[Contract | None, Meta(description="null: the run was held to none")]
    counts: Counts
    assumed: list[Assumed]
    findings: list[Finding]
    explained: Summary
    cases: list[Result]


class ExportedCase(Form):
    """A case, whose arrays are in files of its own."""

    id: str
    kind: Kind
    config: dict[str, Any]
    why: str
    equations: list[str]
    kills: list[str]
    refuse: Annotated[bool, Meta(description="whether the input is to be refused")]
    tolerance: float
    scales: dict[str, float]


class Export(Form):
    """The manifest that `export` writes."""

    format: Literal[EXPORT_FORMAT]  # type: ignore[valid-type]
    kit: str
    vectors: Vectors
    platform: Platform
    written: Time
    dtype: _Dtype
    cases: list[ExportedCase]


_Json = Annotated[str, Meta(extra_json_schema={"contentMediaType": "application/json"})]


class Metadata(Form):
    """An input file's safetensors metadata, strings all."""

    format: Literal[CASE_FORMAT]  # type: ignore[valid-type]
    id: str
    kind: Kind
    dtype: _AnyDtype
    config: _Json
    outputs: _Json


def _sealed(form: type[Form], format: str) -> Any:
    """The form of a sealed document from that of its value."""
    own = [("format", Literal[format]), ("sha256", Sha256)]
    return msgspec.defstruct(form.__name__, own, bases=(form,), namespace={"__doc__": form.__doc__}, kw_only=True)


def schema() -> dict[str, Any]:
    """All five, under $defs: "report", "map", "manifest", "export" and "metadata".  Each stands alone, too."""
    forms = {
        "report": _sealed(Report, REPORT_FORMAT),
        "map": MapDocument,
        "manifest": _sealed(Manifest, FORMAT),
        "export": Export,
        "metadata": Metadata,
    }
    whole = {name: {"$id": name} | msgspec.json.schema(form) for name, form in forms.items()}
    for own in (inner for each in whole.values() for inner in each["$defs"].values()):
        own["description"] = own["description"].partition("\n")[0]  # attributes are described by themselves
    title = "ortho_ref conformance kit"
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title, "$defs": whole}
