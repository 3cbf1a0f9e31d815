"""What a JSON document may be: JSON Schemas (draft 2020-12) of a few words, and the check of a value against one.

Every format of ortho_ref is declared once, by the functions here; the schema is both what `check` enforces wherever a
file is read and what other tools can take.  `check` knows just the words that these functions use, and says of a value
that does not fit where it is, what it is, and what is allowed.
"""

import math
import re
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from ortho_ref.boundary import nearest, short

Schema: TypeAlias = dict[str, Any]

#: Words that say nothing that could be checked.
_NOTES = frozenset({"$schema", "$id", "description", "contentMediaType"})

ANY: Schema = {}
BOOLEAN: Schema = {"type": "boolean"}
NULL: Schema = {"type": "null"}
NUMBER: Schema = {"type": "number"}
TEXT: Schema = {"type": "string"}
SHA256: Schema = {"type": "string", "pattern": "^[0-9a-f]{64}$"}


class Misfit(ValueError):
    """A value that does not fit.

    Parameters
    ----------
    message : str
        Where it is, what it is, and what is allowed.
    where : str
        Its place in the document, with the name of a field that is unknown.
    """

    def __init__(self, message: str, where: str = "") -> None:
        super().__init__(message)
        self.where = where


def integer(least: int, most: int) -> Schema:
    """An integer from `least` to `most`."""
    return {"type": "integer", "minimum": least, "maximum": most}


def number(least: float) -> Schema:
    """A finite number from `least` on."""
    return {"type": "number", "minimum": least}


def one_of(*values: Any) -> Schema:
    """One of these values."""
    return {"enum": list(values)}


def either(*schemas: Schema) -> Schema:
    """What fits one of these at least."""
    return {"anyOf": list(schemas)}


def optional(schema: Schema) -> Schema:
    """What fits the schema, or null."""
    return either(schema, NULL)


def list_of(items: Schema, least: int = 0, most: int | None = None) -> Schema:
    """A list of such items, so many."""
    return {"type": "array", "items": items, "minItems": least} | ({} if most is None else {"maxItems": most})


def record(required: dict[str, Schema], optional: dict[str, Schema] | None = None) -> Schema:
    """An object with the required fields, perhaps the optional ones, and no others."""
    return {
        "type": "object",
        "properties": required | (optional or {}),
        "required": list(required),
        "additionalProperties": False,
    }


def mapping(values: Schema) -> Schema:
    """An object of any names, with such values."""
    return {"type": "object", "additionalProperties": values}


def sealed(format: str, form: Schema) -> Schema:
    """The schema of a sealed document from that of its value."""
    own = {"format": one_of(format), "sha256": SHA256}
    return form | {
        "properties": own | form.get("properties", {}),
        "required": [*own, *form.get("required", ())],
    }


def check(value: Any, schema: Schema, where: str = "") -> None:
    """An error unless a value fits a schema.

    Parameters
    ----------
    value : object
        Of JSON: dict, list, str, int, float, bool or None.
    schema : dict
        Of the words that the functions of this module write; a number that is not finite fits none.
    where : str
        The value's place in its document, "network.hidden_sizes[0]"; empty for all of it.

    Raises
    ------
    Misfit
        It does not fit: a ValueError that says where, what is there, and what is allowed.
    """
    for word, wanted in schema.items():
        if word not in _NOTES and not _CHECKS[word](value, wanted):
            meant = [one for one in schema.get("anyOf", ()) if "type" in one and _is(value, one["type"])]
            if len(meant) == 1:  # what is wrong lies deeper
                check(value, meant[0], where)
            near = nearest(value, _words(schema))
            raise Misfit(f"{where or 'the document'} is {short(value)}{near}; allowed: {described(schema)}", where)
    if isinstance(value, dict):
        _check_fields(value, schema, where)
    elif isinstance(value, list) and "items" in schema:
        for i, item in enumerate(value):
            check(item, schema["items"], f"{where}[{i}]")


def _check_fields(value: dict[str, Any], schema: Schema, where: str) -> None:
    """Each field of an object; first that none is missing and none is unknown."""
    properties, others = schema.get("properties", {}), schema.get("additionalProperties", True)
    inside = f"{where}." if where else ""
    if missing := [name for name in schema.get("required", ()) if name not in value]:
        raise Misfit(f"{where or 'the document'} has no {', '.join(missing)}", where)
    for name, item in value.items():
        if name in properties:
            check(item, properties[name], f"{inside}{name}")
        elif others is False:
            has = f"{where or 'the document'} has {short(name)}"
            raise Misfit(f"{has}{nearest(name, properties)}; allowed: {_listed(properties)}", f"{inside}{name}")
        elif others is not True:
            check(item, others, f"{inside}{name}")


def _words(schema: Schema) -> list[str]:
    """The words among the values that a schema lists."""
    listed = [value for own in (schema, *schema.get("anyOf", ())) for value in own.get("enum", ())]
    return [value for value in listed if isinstance(value, str)]


def described(schema: Schema) -> str:
    """What a schema allows, in a few words."""
    if "anyOf" in schema:
        return " or ".join(map(described, schema["anyOf"]))
    if "enum" in schema:
        return _listed(map(repr, schema["enum"]))
    words = {
        "integer": "an integer",
        "number": "a finite number",
        "string": "a text",
        "boolean": "true or false",
        "null": "null",
        "object": "an object",
        "array": "a list",
    }
    text = words[schema["type"]] if "type" in schema else "anything"
    if "minimum" in schema:
        text += f" from {schema['minimum']:,}" + (f" to {schema['maximum']:,}" if "maximum" in schema else " on")
    if "pattern" in schema:
        text += f" like {schema['pattern']}"
    if schema.get("minItems"):
        text += f" of at least {schema['minItems']}"
    if "maxItems" in schema:
        text += f" of at most {schema['maxItems']}"
    return text


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"


def _is(value: Any, kind: str) -> bool:
    if kind in ("integer", "number"):
        integral = isinstance(value, int) and not isinstance(value, bool)
        return integral or (kind == "number" and isinstance(value, float) and math.isfinite(value))
    kinds = {"string": str, "boolean": bool, "null": type(None), "object": dict, "array": list}
    return isinstance(value, kinds[kind])


def _fits(value: Any, schema: Schema) -> bool:
    try:
        check(value, schema)
    except ValueError:
        return False
    return True


def _equal(value: Any, wanted: Any) -> bool:
    """Equal in JSON's sense: true is not 1."""
    return value == wanted and isinstance(value, bool) == isinstance(wanted, bool)


def _later(value: Any, wanted: Any) -> bool:
    """Of fields and items: they are checked one by one, under their own places."""
    return True


def _matches(value: Any, pattern: str) -> bool:
    """Python's $ would let a line end pass."""
    return not isinstance(value, str) or re.fullmatch(pattern.removeprefix("^").removesuffix("$"), value) is not None


_CHECKS: dict[str, Callable[[Any, Any], bool]] = {
    "type": _is,
    "enum": lambda value, wanted: any(_equal(value, one) for one in wanted),
    "anyOf": lambda value, wanted: any(_fits(value, one) for one in wanted),
    "minimum": lambda value, wanted: not _is(value, "number") or value >= wanted,
    "maximum": lambda value, wanted: not _is(value, "number") or value <= wanted,
    "pattern": _matches,
    "minItems": lambda value, wanted: not isinstance(value, list) or len(value) >= wanted,
    "maxItems": lambda value, wanted: not isinstance(value, list) or len(value) <= wanted,
    "properties": _later,
    "required": _later,
    "additionalProperties": _later,
    "items": _later,
}
