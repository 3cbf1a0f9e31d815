"""Compiled functions compared: what a mutant changes, and whether it changes anything."""

from types import CodeType


def inner(code: CodeType) -> list[CodeType]:
    """The code of the functions and classes in it."""
    return [const for const in code.co_consts if isinstance(const, CodeType)]


def own_part(code: CodeType) -> tuple[object, ...]:
    """What a code does itself, without that of the functions in it and without the numbers of lines."""
    consts = tuple("code" if isinstance(const, CodeType) else (type(const), repr(const)) for const in code.co_consts)
    return code.co_name, code.co_code, consts, code.co_names, code.co_varnames, code.co_exceptiontable, code.co_flags


def same(one: CodeType, other: CodeType) -> bool:
    """Whether two codes do the same, but for the numbers of their lines."""
    a, b = inner(one), inner(other)
    return own_part(one) == own_part(other) and len(a) == len(b) and all(map(same, a, b))
