"""Which test function holds an equation: the one whose docstring or comments name it."""

import ast
from collections.abc import Iterator
from typing import NamedTuple

from scripts.maintain.equations.tags import commented, mentions

#: Where the tests of the mathematics are.
OWN = ("tests/gradients/", "tests/ortho_ref/", "tests/tasks/")


class Holder(NamedTuple):
    """A test, or a file of tests that names the equation at its head: then function is "" and line 1."""

    file: str
    function: str
    line: int


def functions(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef]]:
    """Those of a module and of its classes, by their names."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            yield from ((f"{node.name}.{own.name}", own) for own in node.body if isinstance(own, ast.FunctionDef))


def named(file: str, source: str) -> Iterator[tuple[str, Holder]]:
    """Every id that a file of tests names, and the function that does; its line is that of its `def`."""
    tree = ast.parse(source)
    left = list(commented(source))
    for name, node in functions(tree):
        first, last = min([node.lineno, *(one.lineno for one in node.decorator_list)]), node.end_lineno or node.lineno
        inside = [text for line, text in left if first <= line <= last]
        left = [(line, text) for line, text in left if not first <= line <= last]
        nested = [ast.get_docstring(own) or "" for own in ast.walk(node) if isinstance(own, ast.FunctionDef)]
        for mention in mentions("\n".join([*nested, *inside])):
            yield mention, Holder(file, name, node.lineno)
    classes = [ast.get_docstring(node) or "" for node in tree.body if isinstance(node, ast.ClassDef)]
    for mention in mentions("\n".join([ast.get_docstring(tree) or "", *classes, *(text for _, text in left)])):
        yield mention, Holder(file, "", 1)


def weight(holder: Holder) -> int:
    """How little a holder says: 0 of a test, 1 of a function that tests are helped by, 2 of a file."""
    return 2 if not holder.function else int(not holder.function.rpartition(".")[2].startswith("test_"))


def holders(tests: dict[str, str]) -> dict[str, list[Holder]]:
    """For every id its tests: those that say most first, and of a file with functions only those.

    Of tests the mathematics' own before those of pictures and programs.
    """
    found: dict[str, list[Holder]] = {}
    for file, source in tests.items():
        for name, holder in named(file, source):
            found.setdefault(name, []).append(holder)
    for name, own in found.items():
        with_functions = {holder.file for holder in own if holder.function}
        kept = [holder for holder in dict.fromkeys(own) if holder.function or holder.file not in with_functions]
        found[name] = sorted(kept, key=lambda one: (weight(one), not one.file.startswith(OWN), one.file, one.line))
    return found
