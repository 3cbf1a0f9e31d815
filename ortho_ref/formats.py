"""Formats: what a document may be is a msgspec Struct; here a document is checked, and written as JSON and read.

An error says on one line where it is in the document, what is there, and what is allowed.

A sealed document is a JSON object that begins with its format, a name and a number, and ends with the SHA-256 of all
before: `open_sealed` refuses one that differs by a bit from what was written.
"""

import hashlib
import json
import sys
import types
from collections.abc import Iterable
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias, Union, get_args, get_origin

import msgspec
from msgspec import Meta

from ortho_ref.boundary import kind_of, nearest, short

_MOST = sys.float_info.max
#: Finite numbers; TOML and Python have others.
Number: TypeAlias = Annotated[float, Meta(ge=-_MOST, le=_MOST)]
Least0: TypeAlias = Annotated[float, Meta(ge=0, le=_MOST)]
Above0: TypeAlias = Annotated[float, Meta(gt=0, le=_MOST)]
NO_LINE_END = "(?!\\n)"  # of a pattern, after $: Python's lets a line end follow
Sha256: TypeAlias = Annotated[str, Meta(pattern="^[0-9a-f]{64}$" + NO_LINE_END)]
_UNSEEN = "\\x00-\\x1f\\x7f-\\x9f\\xad\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\ufeff\\ud800-\\udfff"
#: A text that a terminal and a table can show.  No union of a pattern and a list: msgspec 0.22 frees one twice.
Name: TypeAlias = Annotated[
    str,
    Meta(
        pattern=f"^[^{_UNSEEN}]*${NO_LINE_END}",
        max_length=200,
        title="a text of one line, of at most 200, without control characters",
    ),
]


class Form(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """A document, or a part of one, with these fields and no others."""


class Misfit(ValueError):
    """A value that does not fit its form: the message says where it is, what it is, and what is allowed.

    `where` is its place in the document, with the name of a field that is unknown.
    """

    def __init__(self, message: str, where: str = "") -> None:
        super().__init__(message)
        self.where = where


def check(value: Any, form: Any, where: str = "") -> None:
    """Check what JSON or TOML gave, in dicts and lists, against a Struct or any type that msgspec knows; else Misfit.

    `where` is the value's place in a larger document, "network.hidden_sizes[0]".
    """
    if not _fits(value, form):
        raise _misfit(value, form, where)


def _fits(value: Any, form: Any) -> bool:
    try:
        msgspec.convert(value, form)
    except (msgspec.ValidationError, UnicodeEncodeError):  # a lone surrogate is no text of JSON
        return False
    return True


def _misfit(value: Any, form: Any, where: str) -> Misfit:
    """What is wrong with a value, as deep within it as can be told."""
    bare = _bare(form)
    for name, item, own in _inside(value, bare, where):
        if not _fits(item, own):
            return _misfit(item, own, name)
    place = where or "the document"
    if isinstance(value, dict) and _is_form(bare):
        fields = {field.encode_name: field for field in msgspec.structs.fields(bare)}
        if absent := [name for name, field in fields.items() if field.required and name not in value]:
            return Misfit(f"{place} has no {', '.join(absent)}", where)
        unknown = next(name for name in value if name not in fields)
        allowed = f"{nearest(unknown, fields)}; allowed: {', '.join(fields)}"
        return Misfit(f"{place} has {short(unknown)}{allowed}", f"{where}.{unknown}".lstrip("."))
    return Misfit(f"{place} is {short(value)}{nearest(value, _words(form))}; allowed: {described(form)}", where)


def _inside(value: Any, form: Any, where: str) -> Iterable[tuple[str, Any, Any]]:
    """The parts of a value: place, part, form."""
    if isinstance(value, dict):
        fitting = [own for own in _options(form) if _is_form(own) or get_origin(own) is dict]
        if len(fitting) == 1 and _is_form(fitting[0]):
            fields = {field.encode_name: field.type for field in msgspec.structs.fields(fitting[0])}
            yield from ((f"{where}.{name}".lstrip("."), value[name], fields[name]) for name in value if name in fields)
            if fitting[0] is not form:  # fields that are missing, or unknown
                yield where, value, fitting[0]
        elif len(fitting) == 1:
            names, items = get_args(fitting[0])
            yield from ((f"{where}.{short(name)}".lstrip("."), name, names) for name in value)
            yield from ((f"{where}.{name}".lstrip("."), item, items) for name, item in value.items())
    elif isinstance(value, list):
        fitting = [own for own in _options(form) if get_origin(own) in (list, tuple)]
        if len(fitting) == 1:
            yield from ((f"{where}[{i}]", item, get_args(fitting[0])[0]) for i, item in enumerate(value))


def _is_form(form: Any) -> bool:
    return isinstance(form, type) and issubclass(form, msgspec.Struct)


def _bare(form: Any) -> Any:
    """A form without what limits it."""
    return get_args(form)[0] if get_origin(form) is Annotated else form


def _options(form: Any) -> list[Any]:
    """A form, or each of those it may be."""
    form = _bare(form)
    union = get_origin(form) in (Union, types.UnionType)
    return [_bare(own) for own in get_args(form)] if union else [form]


def _words(form: Any) -> list[str]:
    """The words that a form lists."""
    listed = [value for own in _options(form) if get_origin(own) is Literal for value in get_args(own)]
    return [value for value in listed if isinstance(value, str)]


_KINDS = {int: "an integer", float: "a finite number", str: "a text", bool: "true or false", type(None): "null"}


def described(form: Any) -> str:
    """What a form allows, in a few words."""
    limits = next((own for own in get_args(form)[1:] if isinstance(own, Meta)), Meta())
    bare = _bare(form)
    if limits.title:
        return limits.title
    if get_origin(bare) in (Union, types.UnionType):
        return " or ".join(described(own) for own in get_args(bare) if own is not msgspec.UnsetType)
    if get_origin(bare) is Literal:
        return ", ".join(map(repr, get_args(bare)))
    text = _KINDS.get(bare, "a list" if (get_origin(bare) or bare) in (list, tuple) else "an object")
    most = None if limits.le == _MOST else limits.le
    if limits.ge not in (None, -_MOST):
        text += f" from {limits.ge:,}" + (" on" if most is None else f" to {most:,}")
    if limits.gt is not None:
        text += f" above {limits.gt:,}"
    if limits.pattern:
        text += f" like {limits.pattern.removesuffix(NO_LINE_END)}"
    if limits.min_length:
        text += f" of at least {limits.min_length}"
    return text + (f" of at most {limits.max_length}" if limits.max_length is not None else "")


def to_json(value: Any, indent: int | None = None) -> str:
    """JSON of a value; ValueError for numbers that are not finite, TypeError for what JSON has not."""
    return json.dumps(value, indent=indent, allow_nan=False)


def plain(value: Any) -> Any:
    """What `from_json` would give of a value's JSON: dicts, lists; numbers that are not finite as None."""
    return msgspec.json.decode(msgspec.json.encode(value, enc_hook=float))  # NumPy's numbers


def from_json(data: bytes) -> Any:
    """The value of JSON text in UTF-8, in Python's dicts and lists; ValueError where it is none."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise ValueError("it is nested too deep" if isinstance(error, RecursionError) else str(error)) from None


class Sealed(NamedTuple):
    """What is in a sealed document, without format and SHA-256, and its seal."""

    value: dict[str, Any]
    sha256: str


def seal(value: dict[str, Any], format: str, indent: int = 2) -> tuple[bytes, str]:
    """A sealed document's text, indented or not, and its seal.  TypeError, ValueError for what JSON has not."""
    if taken := sorted({"format", "sha256"} & value.keys()):
        raise ValueError(f"a document has its own {' and '.join(taken)}; name it otherwise")
    whole = {"format": format, **value}
    sha256 = hashlib.sha256(to_json(whole).encode()).hexdigest()
    return (to_json(whole | {"sha256": sha256}, indent) + "\n").encode(), sha256


def open_sealed(data: bytes, format: str, form: Any) -> Sealed:
    """What is in a sealed document's text, which has to be of the format `format` and its value of the type `form`.

    OtherFormat if it is of another format; ValueError if it is not what was written, or does not fit its form.
    """
    whole = from_json(data)
    if not isinstance(whole, dict):
        raise ValueError(f"it holds {kind_of(whole)}; expected an object")
    check_format(whole, format)
    value = {name: item for name, item in whole.items() if name not in ("format", "sha256")}
    data_again, sha256 = seal(value, format, 2 if data.startswith(b"{\n ") else 0)
    if data_again != data:
        raise ValueError("its SHA-256 is not that of its text")
    check(value, form)
    return Sealed(value, sha256)


class OtherFormat(ValueError):
    """A document of another format."""


def check_format(document: dict[str, Any], format: str) -> None:
    """OtherFormat where a document says that it is of another."""
    found = document.get("format")
    if found != format and ("format" in document or "sha256" not in document):
        kind, _, _ = format.rpartition(" ")
        older = found is None or (isinstance(found, str) and found.startswith(f"{kind} "))
        why = f"written by another version of ortho_ref, which can go on with it; this one reads {format!r}"
        raise OtherFormat(f"has the format {short(found)}: {why if older else f'not {format!r}'}")
