"""JSON Schemas (draft 2020-12) of what the kit writes, and of the manifest that it ships.  No field but those named."""

from ortho_ref.conformance.case import DTYPES, HALF, KINDS
from ortho_ref.conformance.case_files import FORMAT, MANIFEST_FORM
from ortho_ref.conformance.export import FORMAT as export_format
from ortho_ref.conformance.maps.report import SCHEMA as map_report
from ortho_ref.conformance.origin import ORIGIN_FORM, PLATFORM_FORM, TIME, VECTORS_FORM
from ortho_ref.conformance.programs import FORMAT as case_format
from ortho_ref.conformance.report import FORMAT as report_format
from ortho_ref.conformance.report import STATUSES
from ortho_ref.schema import (
    BOOLEAN,
    NUMBER,
    TEXT,
    Schema,
    integer,
    list_of,
    mapping,
    number,
    one_of,
    optional,
    record,
    sealed,
)

DRAFT = "https://json-schema.org/draft/2020-12/schema"
MOST = 10**9
TEXTS = list_of(TEXT)


def report() -> Schema:
    """The schema of what `run --report` writes."""
    return sealed(report_format, report_form())


def report_form() -> Schema:
    """`report` without its format and its seal."""
    error = optional(NUMBER) | {"description": "relative to the output's scale; null: not comparable"}
    output = record({"error": error, "tolerance": NUMBER, "passed": BOOLEAN, "remark": TEXT, "wrong": _wrong()})
    case = record(
        {
            "id": TEXT,
            "status": one_of(*STATUSES),
            "seconds": number(0),
            "outputs": mapping(output),
            "missing": TEXTS,
            "message": TEXT,
            "mistakes": list_of(TEXTS),
            "diagnosis": TEXT,
            "traceback": TEXT,
        }
    )
    counts = record({status: integer(0, MOST) for status in STATUSES})
    breach = record({"case": TEXT, "why": TEXT})
    contract = record({"ok": BOOLEAN, "expected": mapping(TEXT), "broken": list_of(breach)})
    return record(
        {
            "kit": TEXT,
            "vectors": VECTORS_FORM,
            "platform": PLATFORM_FORM,
            "origin": optional(ORIGIN_FORM) | {"description": "null: of results that somebody put together"},
            "dtype": one_of(*DTYPES, *HALF),
            "forward": BOOLEAN | {"description": "whether the forward pass alone was judged"},
            "allow_partial": BOOLEAN,
            "interrupted": BOOLEAN,
            "ok": BOOLEAN | {"description": "whether the exit code is 0"},
            "contract": optional(contract) | {"description": "null: the run was held to none"},
            "counts": counts,
            "cases": list_of(case),
            **_found(),
        }
    )


def _found() -> dict[str, Schema]:
    """What a report says of all cases together."""
    count = integer(0, MOST)
    finding = record({"says": TEXT, "cases": TEXTS, "failing": count, "others": TEXTS})
    mistake = record({"name": TEXT, "cases": count})
    explained = {"mistakes": list_of(mistake), "explained": count, "failing": count, "unexplained": TEXTS}
    assumed = record({"mistake": TEXT, "says": TEXT, "reason": TEXT, "cases": TEXTS})
    return {"assumed": list_of(assumed), "findings": list_of(finding), "explained": record(explained)}


def _wrong() -> Schema:
    """The wrong entries of an output."""
    count = integer(0, MOST)
    given = optional(NUMBER) | {"description": "null: not finite"}
    entry = record({"index": list_of(count), "expected": NUMBER, "given": given})
    wrong = record({"count": count, "of": count, "first": entry, "worst": entry})
    return optional(wrong) | {"description": "null: right, or of another shape"}


def manifest() -> Schema:
    """The schema of the manifest beside the vectors."""
    return sealed(FORMAT, MANIFEST_FORM)


def exported() -> Schema:
    """The schema of the manifest that `export` writes."""
    case = record(
        {
            "id": TEXT,
            "kind": one_of(*KINDS),
            "config": {"type": "object"},
            "why": TEXT,
            "equations": TEXTS,
            "kills": TEXTS,
            "refuse": BOOLEAN | {"description": "whether the input is to be refused"},
            "tolerance": NUMBER,
            "scales": mapping(NUMBER),
        }
    )
    own = {"format": one_of(export_format), "kit": TEXT, "vectors": VECTORS_FORM, "platform": PLATFORM_FORM}
    return record(own | {"written": TIME, "dtype": one_of(*DTYPES), "cases": list_of(case)})


def metadata() -> Schema:
    """The schema of an input file's safetensors metadata, strings all."""
    json_text = TEXT | {"contentMediaType": "application/json"}
    own = {"format": one_of(case_format), "id": TEXT, "kind": one_of(*KINDS), "dtype": one_of(*DTYPES, *HALF)}
    return record(own | {"config": json_text, "outputs": json_text})


def schema() -> Schema:
    """All five, under $defs: "report", "map", "manifest", "export" and "metadata"."""
    return {
        "$schema": DRAFT,
        "title": "ortho_ref conformance kit",
        "$defs": {
            "report": report(),
            "map": map_report,
            "manifest": manifest(),
            "export": exported(),
            "metadata": metadata(),
        },
    }
