"""What is said before a program is loaded: which programs there are, and what one needs that is not installed.

Python alone: nothing need be there yet.
"""

import ast
import difflib
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

FOLDER = Path(__file__).parents[1]
#: Programs for those who work on the project, in a folder of their own.
MAINTAIN = "maintain"

#: Program -> what pip installs for it, and the modules that it is not loaded without; all others need `_OTHERS`.
_NEEDS: dict[str, tuple[str, tuple[str, ...]]] = {
    "maintain.oldest_versions": ("", ()),
    "maintain.site": ("-e . --group docs", ("typer", "rich", "sphinx", "myst_parser", "furo", "latex2mathml")),
}
_OTHERS = ("-e '.[scripts]'", ("typer", "rich", "matplotlib", "threadpoolctl"))
_CORE = ("numpy", "scipy", "safetensors", "msgspec")


def programs() -> dict[str, str]:
    """Every program, as after "scripts.", with the first words of its file, without the example that they end in."""
    found = {}
    for path in [*sorted(FOLDER.glob("[!_]*.py")), *sorted((FOLDER / MAINTAIN).glob("[!_]*.py"))]:
        first = (ast.get_docstring(ast.parse(path.read_text("utf-8"))) or "").partition("\n")[0]
        name = ".".join(path.relative_to(FOLDER).with_suffix("").parts)
        found[name] = first.rpartition(": python -m ")[0] or first
    return found


def needed_by(name: str) -> tuple[str, ...]:
    """The modules that a program, as after "scripts.", is not loaded without, beside the core's."""
    return _NEEDS.get(name, _OTHERS)[1] if _is_program(name) else ()


def _is_program(name: str) -> bool:
    """Whether it is one, as after "scripts."."""
    return name.removeprefix(f"{MAINTAIN}.").isidentifier() and (FOLDER / f"{name.replace('.', '/')}.py").exists()


def refusal(started: str | None, installed: Callable[[str], object] = find_spec) -> str:
    """Why what stands after python -m cannot be started, in one line; empty where nothing is in the way."""
    package, _, name = (started or "").partition(".")
    if package != "scripts" or name == MAINTAIN or "." in name.removeprefix(f"{MAINTAIN}."):
        return ""
    if name and not _is_program(name):
        every = programs()
        last = name.rpartition(".")[2]
        here = [own for own in every if own.rpartition(".")[2] == last]
        near = here or difflib.get_close_matches(name, every, 1)
        meant = f" (did you mean scripts.{near[0]}?)" if near else ""
        return f"there is no program scripts.{name}{meant}; python -m scripts lists them"
    what, modules = _NEEDS.get(name, _OTHERS)[0], needed_by(name)
    core = _CORE if modules or not name else ()  # the list of programs needs no more
    missing = [module for module in (*core, *modules) if installed(module) is None]
    if not missing:
        return ""
    are = "is" if len(missing) == 1 else "are"
    return f"python -m {started} needs {', '.join(missing)}, which {are} not installed: pip install {what}"
