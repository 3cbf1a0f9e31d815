"""Every mutant of a file."""

import ast
import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from types import CodeType

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code

from scripts.mutation.codes import same
from scripts.mutation.mutant import Mutant, Place
from scripts.mutation.operators import operators

#: Where strings are a device's source.
DEVICE_SOURCE = "/kernels/"


def places(file: str, source: str) -> list[Place]:
    """Every place of a file where an operator fits."""
    tree = ast.parse(source)
    left_out = [*_left_out(tree)]
    lines, scopes = source.splitlines(), _scopes(tree)
    found: list[Place] = []
    seen: Counter[str] = Counter()
    nodes = [*ast_nodes(get_ast(source))]
    for name, operator in operators().items():
        one, occurrence = operator(), -1
        for node in nodes:
            for start, _ in one.mutation_positions(node):
                occurrence += 1
                if any(first <= start < last for first, last in left_out):
                    continue
                if name == "ReplaceString" and DEVICE_SOURCE in file:
                    continue
                place = Place(
                    file, _within(scopes, start[0]), name, lines[start[0] - 1].strip(), 0, start[0], occurrence
                )
                seen[place.key] += 1
                found.append(place._replace(number=seen[place.key] - 1))
    return found


def _left_out(tree: ast.Module) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Where nothing is computed: annotations, docstrings, what is for type checkers, what is exported."""
    for node in ast.walk(tree):
        parts: list[ast.expr | ast.stmt | None] = []
        if isinstance(node, ast.arg | ast.AnnAssign):
            parts.append(node.annotation)
        elif isinstance(node, ast.FunctionDef):
            parts.append(node.returns)
        elif isinstance(node, ast.stmt | ast.Call) and _is_declaration(node):
            parts.append(node)
        for part in parts:
            if part is not None:
                yield (part.lineno, part.col_offset), (part.end_lineno or 0, part.end_col_offset or 0)


def _is_declaration(node: ast.stmt | ast.Call) -> bool:
    if isinstance(node, ast.If):
        return "TYPE_CHECKING" in ast.unparse(node.test)
    if isinstance(node, ast.Assign):
        return ast.unparse(node.targets[0]) == "__all__"
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)
    return isinstance(node, ast.Call) and ast.unparse(node.func) in ("cast", "TypeVar")


def _scopes(tree: ast.Module) -> list[tuple[int, int, str]]:
    """First line, last line and name of every class and function, outer ones first."""
    found: list[tuple[int, int, str]] = []

    def walk(node: ast.AST, above: str) -> None:
        for child in ast.iter_child_nodes(node):
            name = above
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                name = f"{above}.{child.name}".lstrip(".")
                first = min([child.lineno, *(d.lineno for d in child.decorator_list)])
                found.append((first, child.end_lineno or first, name))
            walk(child, name)

    walk(tree, "")
    return found


def _within(scopes: list[tuple[int, int, str]], line: int) -> str:
    names = [name for first, last, name in scopes if first <= line <= last]
    return names[-1] if names else ""


def shuffled(found: Iterable[Place], seed: int) -> list[Place]:
    """The places in an order that the seed draws.

    It is that of a hash of each: a sample, the first of them, stays as it is when lines elsewhere change.
    """
    return sorted(found, key=lambda place: hashlib.sha256(f"{seed}\t{place.key}".encode()).hexdigest())


def make(place: Place, source: str) -> Mutant | None:
    """The mutant of a place; None where the change is none to Python."""
    changed = mutate_code(source, operators()[place.operator](), place.occurrence)
    if changed is None:
        return None
    try:
        if same(_compiled(source), compile(changed, "x", "exec", dont_inherit=True)):
            return None
    except SyntaxError:
        return None
    old, new = source.splitlines(), changed.splitlines()
    first = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    last = next((i for i, (a, b) in enumerate(zip(old[::-1], new[::-1], strict=False)) if a != b), 0)
    last = min(last, min(len(old), len(new)) - first)
    before, after = (" ".join(" ".join(text[first : len(text) - last]).split()) for text in (old, new))
    return Mutant(place, changed, before, after)


@cache
def _compiled(source: str) -> CodeType:
    return compile(source, "x", "exec", dont_inherit=True)
