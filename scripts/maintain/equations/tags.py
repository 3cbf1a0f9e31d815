"""Tags in comments, and mentions of equations in words.

A tag is prefix:id or prefix:id/part in brackets, and names one id, so that a plain search for an id finds every place
of it.  A text is parsed once in a process, however often it is asked about.
"""

import ast
import io
import re
import tokenize
from functools import cache

_ID = r"(?:ncgru|urnn|sgornn|goru|bp|ext):\w[\w.-]*"
# The one tag form: [id] or [id/part], id as in docs/equations.md, part a line of it.
TAG = re.compile(rf"\[({_ID}(?:/[\w-]+)?)\]")
MENTION = re.compile(rf"(?<![\w/]){_ID}")


def tags_of(text: str) -> list[str]:
    """Tags in order of first appearance."""
    return list(dict.fromkeys(TAG.findall(text)))


@cache
def commented(source: str) -> tuple[tuple[int, str], ...]:
    """The comments of a source, each with its line."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return tuple((token.start[0], token.string) for token in tokens if token.type == tokenize.COMMENT)


def comments(source: str) -> str:
    """The comments of a source, in one line."""
    return " ".join(text for _, text in commented(source))


def tagged_lines(file: str, source: str) -> dict[int, list[str]]:
    """The lines of a file whose comments have tags, and those; of one that is not Python: of C, behind `//`."""
    if file.endswith(".py"):
        pairs = commented(source)
    else:
        pairs = tuple((k, line.partition("//")[2]) for k, line in enumerate(source.splitlines(), 1))
    return {line: tags for line, text in pairs if (tags := tags_of(text))}


@cache
def docstrings(source: str) -> str:
    """The docstrings of a source, of the file, its classes and its functions."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = (node for node in ast.walk(ast.parse(source)) if isinstance(node, kinds))
    return "\n".join(ast.get_docstring(node) or "" for node in nodes)


def mentions(text: str) -> list[str]:
    """Ids that a text names, in brackets or not, in order of first appearance, without the full stop behind one."""
    return list(dict.fromkeys(name.rstrip(".-") for name in MENTION.findall(text)))


def id_of(tag: str) -> str:
    """The id that a tag is of: bp:gru1 of bp:gru1/2."""
    return tag.partition("/")[0]
