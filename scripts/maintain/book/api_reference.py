"""The API reference: a page for each public module, which Sphinx fills from the docstrings."""

from pathlib import Path

_OF_ORTHO_REF = ("adapters", "cells", "converters", "fused", "language", "parametrizations", "training")
#: Folders whose modules are listed; what begins with an underscore, and what is a program, is not public.
FOLDERS = ("ortho_ref", *(f"ortho_ref/{name}" for name in _OF_ORTHO_REF), "gradients", "tasks")
#: Modules that stand for a package whose files are its own affair.
WHOLE = ("ortho_ref.conformance",)
#: An alias of a Callable with a Callable in it, which autodoc takes for a function and cannot write.
SKIPPED = {"ortho_ref.adapters.maps": "MapAndPullback"}


def modules(root: Path) -> list[str]:
    """The public modules, by their full names."""
    found = list(WHOLE)
    for folder in FOLDERS:
        for path in (root / folder).glob("*.py"):
            parts = path.relative_to(root).with_suffix("").parts
            parts = parts[:-1] if parts[-1] == "__init__" else parts
            if not any(part.startswith("_") for part in parts):
                found.append(".".join(parts))
    return sorted(found)


def pages(root: Path) -> dict[str, str]:
    """Name -> Markdown, of the list and of every module."""
    names = modules(root)
    items = "\n".join(f"* [{name}]({name}.md)" for name in names)
    return {"api/index": f"# Reference\n\nThe public modules, by their docstrings.\n\n{items}\n"} | {
        f"api/{name}": _page(name) for name in names
    }


def _page(name: str) -> str:
    options = [":members:"]
    if name not in WHOLE:
        options.append(":ignore-module-all:")  # what a package exports stands where it is defined
    if name in SKIPPED:
        options.append(f":exclude-members: {SKIPPED[name]}")
    directive = "\n".join([f".. automodule:: {name}", *(f"   {option}" for option in options)])
    return f"---\norphan: true\n---\n\n# {name}\n\n```{{eval-rst}}\n{directive}\n```\n"
