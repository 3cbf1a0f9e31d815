"""What is said before a program is loaded: which programs there are, and what one needs that is not installed.

Python alone: nothing need be there yet.
"""

import ast
import difflib
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

FOLDER = Path(__file__).parents[1]

#: Program -> what pip installs for it, and the modules that it is not loaded without; all others need `_OTHERS`.
_NEEDS: dict[str, tuple[str, tuple[str, ...]]] = {
    "floors": ("", ()),
    "site": ("-e . --group docs", ("typer", "rich", "sphinx", "myst_parser", "furo", "latex2mathml")),
    "mutants": ("-e . --group mutants", ("typer", "rich", "cosmic_ray", "coverage")),
}
_OTHERS = ("-e '.[scripts]'", ("typer", "rich", "matplotlib", "threadpoolctl"))
_CORE = ("numpy", "scipy", "safetensors")


def programs() -> dict[str, str]:
    """Every program, with the first words of its file."""
    found = {}
    for path in sorted(FOLDER.glob("[!_]*.py")):
        first = (ast.get_docstring(ast.parse(path.read_text("utf-8"))) or "").partition("\n")[0]
        found[path.stem] = first.rpartition(": python -m ")[0] or first
    return found


def needed_by(name: str) -> tuple[str, ...]:
    """The modules that a program is not loaded without, beside the core's."""
    return _NEEDS.get(name, _OTHERS)[1] if (FOLDER / f"{name}.py").exists() else ()


def refusal(started: str | None, installed: Callable[[str], object] = find_spec) -> str:
    """Why a program cannot be started."""
    package, _, name = (started or "").partition(".")
    if package != "scripts" or not name or "." in name:
        return ""
    if not (FOLDER / f"{name}.py").exists():
        near = difflib.get_close_matches(name, programs(), 1)
        meant = f" (did you mean scripts.{near[0]}?)" if near else ""
        return f"there is no program scripts.{name}{meant}; python -m scripts lists them"
    what, modules = _NEEDS.get(name, _OTHERS)[0], needed_by(name)
    missing = [module for module in (*(_CORE if modules else ()), *modules) if installed(module) is None]
    if not missing:
        return ""
    are = "is" if len(missing) == 1 else "are"
    return f"python -m scripts.{name} needs {', '.join(missing)}, which {are} not installed: pip install {what}"
