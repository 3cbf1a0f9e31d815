"""JSON Schemas (draft 2020-12) of what the kit writes, and of the manifest that it ships.  No field but those named."""

from typing import Any

from ortho_ref.conformance.case import DTYPES, FORMAT, KINDS
from ortho_ref.conformance.report import STATUSES

DRAFT = "https://json-schema.org/draft/2020-12/schema"
TEXT: dict[str, Any] = {"type": "string"}
NUMBER: dict[str, Any] = {"type": "number"}
TEXTS: dict[str, Any] = {"type": "array", "items": TEXT}
NAMED_NUMBERS: dict[str, Any] = {"type": "object", "additionalProperties": NUMBER}
CONFIG: dict[str, Any] = {"type": "object"}


def _object(**properties: Any) -> dict[str, Any]:
    """An object with these fields, all of them, and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _list(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _one_of(*values: Any) -> dict[str, Any]:
    return {"enum": list(values)}


def report() -> dict[str, Any]:
    """The schema of what `run --report` writes."""
    output = _object(
        error={"type": ["number", "null"], "description": "relative to the output's scale; null: not comparable"},
        tolerance=NUMBER,
        passed={"type": "boolean"},
        remark=TEXT,
    )
    case = _object(
        id=TEXT,
        status=_one_of(*STATUSES),
        outputs={"type": "object", "additionalProperties": output},
        missing=TEXTS,
        message=TEXT,
        mistakes=_list(TEXTS),
        diagnosis=TEXT,
        traceback=TEXT,
    )
    counts = _object(**{status: {"type": "integer"} for status in STATUSES})
    return _object(kit=TEXT, dtype=_one_of(*DTYPES), ok={"type": "boolean"}, counts=counts, cases=_list(case))


def manifest() -> dict[str, Any]:
    """The schema of the manifest beside the vectors."""
    case = _object(
        id=TEXT,
        kind=_one_of(*KINDS),
        config=CONFIG,
        inputs=TEXTS,
        expected=TEXTS,
        low=TEXTS,
        high=TEXTS,
        control=TEXTS,
        scales=NAMED_NUMBERS,
        equations=TEXTS,
        why=TEXT,
        kills=TEXTS,
        confirmed=_object(route=TEXT, error=NUMBER),
        withdrawn={"type": ["string", "null"], "description": "why the case is run no more"},
    )
    files = {"type": "object", "additionalProperties": {"type": "string", "pattern": "^[0-9a-f]{64}$"}}
    return _object(format={"const": FORMAT}, files=files, cases=_list(case))


def exported() -> dict[str, Any]:
    """The schema of the manifest that `export` writes."""
    case = _object(
        id=TEXT,
        kind=_one_of(*KINDS),
        config=CONFIG,
        why=TEXT,
        equations=TEXTS,
        kills=TEXTS,
        refuse={"type": "boolean", "description": "whether the input is to be refused"},
        tolerance=NUMBER,
        scales=NAMED_NUMBERS,
    )
    return _object(kit=TEXT, dtype=_one_of(*DTYPES), cases=_list(case))


def metadata() -> dict[str, Any]:
    """The schema of an input file's safetensors metadata, strings all."""
    json_text = {"type": "string", "contentMediaType": "application/json"}
    return _object(id=TEXT, kind=_one_of(*KINDS), config=json_text, dtype=_one_of(*DTYPES), outputs=json_text)


def schema() -> dict[str, Any]:
    """All four, under $defs: "report", "manifest", "export" and "metadata"."""
    return {
        "$schema": DRAFT,
        "title": "ortho_ref conformance kit",
        "$defs": {"report": report(), "manifest": manifest(), "export": exported(), "metadata": metadata()},
    }
