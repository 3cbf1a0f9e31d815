"""JSON Schemas (draft 2020-12) of what the kit writes, and of the manifest that it ships.  No field but those named."""

from ortho_ref import files
from ortho_ref.conformance.case import DTYPES, FORMAT, KINDS, MANIFEST_FORM
from ortho_ref.conformance.export import FORMAT as export_format
from ortho_ref.conformance.programs import FORMAT as case_format
from ortho_ref.conformance.report import FORMAT as report_format
from ortho_ref.conformance.report import STATUSES
from ortho_ref.schema import BOOLEAN, NUMBER, TEXT, Schema, integer, list_of, mapping, one_of, optional, record

DRAFT = "https://json-schema.org/draft/2020-12/schema"
MOST = 10**9
TEXTS = list_of(TEXT)


def report() -> Schema:
    """The schema of what `run --report` writes."""
    error = optional(NUMBER) | {"description": "relative to the output's scale; null: not comparable"}
    output = record({"error": error, "tolerance": NUMBER, "passed": BOOLEAN, "remark": TEXT})
    case = record(
        {
            "id": TEXT,
            "status": one_of(*STATUSES),
            "outputs": mapping(output),
            "missing": TEXTS,
            "message": TEXT,
            "mistakes": list_of(TEXTS),
            "diagnosis": TEXT,
            "traceback": TEXT,
        }
    )
    counts = record({status: integer(0, MOST) for status in STATUSES})
    own = {"format": one_of(report_format), "kit": TEXT, "dtype": one_of(*DTYPES)}
    return record(own | {"ok": BOOLEAN, "counts": counts, "cases": list_of(case)})


def manifest() -> Schema:
    """The schema of the manifest beside the vectors."""
    return files.sealed_form(FORMAT, MANIFEST_FORM)


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
    own = {"format": one_of(export_format), "kit": TEXT, "dtype": one_of(*DTYPES)}
    return record(own | {"cases": list_of(case)})


def metadata() -> Schema:
    """The schema of an input file's safetensors metadata, strings all."""
    json_text = TEXT | {"contentMediaType": "application/json"}
    own = {"format": one_of(case_format), "id": TEXT, "kind": one_of(*KINDS), "dtype": one_of(*DTYPES)}
    return record(own | {"config": json_text, "outputs": json_text})


def schema() -> Schema:
    """All four, under $defs: "report", "manifest", "export" and "metadata"."""
    return {
        "$schema": DRAFT,
        "title": "ortho_ref conformance kit",
        "$defs": {"report": report(), "manifest": manifest(), "export": exported(), "metadata": metadata()},
    }
