"""The kit's own second instance of the reference and of all that it computes with.

A mistake replaces functions while a case is computed.  In the modules that everybody imports that would change what
other threads compute meanwhile; so it replaces them in these, which nobody else computes with.  They are made from the
same files, once, when this file is imported, and are not in `sys.modules`.  Who computes with them or replaces
something in them holds LOCK.
"""

import builtins
import importlib
from collections.abc import Mapping, Sequence
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path
from threading import RLock
from types import ModuleType
from typing import Any

import ortho_ref

LOCK = RLock()

_PACKAGE, _KIT, _REFERENCE = "ortho_ref", "ortho_ref.conformance", "ortho_ref.conformance.cases.reference"
# the reference, and what it is made of
_OF_THE_KIT = (_REFERENCE, "ortho_ref.conformance.cases.layered", "ortho_ref.conformance.cases.small_cells")
_PREFIX = f"{__name__}."  # before the public name of a module: the name of its second instance
_MODULES: dict[str, ModuleType] = {}  # public name -> second instance


def private(name: str) -> ModuleType:
    """The second instance of a module, by its public name.  KeyError for one that the reference does not use."""
    return _MODULES[name]


def is_private(owner: object) -> bool:
    """Whether this is one of these modules, or a class, a function or a dict of one."""
    return id(owner) in _OWNERS


def _is_copied(name: str) -> bool:
    """Whether a module has a second instance.

    The backend has none: there is one NotFiniteError to catch and one list of array libraries.  Of the kit the
    reference alone has one: cases and arrays go in and out.
    """
    if name == _KIT or name.startswith(f"{_KIT}."):
        return name in _OF_THE_KIT
    return name == _PACKAGE or (name.startswith(f"{_PACKAGE}.") and name != "ortho_ref.backend")


def _load(name: str) -> ModuleType:
    """The second instance of a module, made where it is not there yet."""
    if name in _MODULES:
        return _MODULES[name]
    parent, _, last = name.rpartition(".")
    spec = PathFinder.find_spec(_PREFIX + name, _folders(parent))
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError(f"there is no module {name}")
    module = _MODULES[name] = module_from_spec(spec)
    # What `import` does in a module's functions is what its globals say, and exec leaves that as it is here
    vars(module)["__builtins__"] = {**vars(builtins), "__import__": _import}
    spec.loader.exec_module(module)
    if parent and _is_copied(parent):
        setattr(_MODULES[parent], last, module)
    return module


def _folders(package: str) -> list[str]:
    """Where the modules of a package are, "" for the top."""
    if not package:
        return [str(Path(folder).parent) for folder in ortho_ref.__path__]
    return list((_load(package) if _is_copied(package) else importlib.import_module(package)).__path__)


def _import(
    name: str,
    globals: Mapping[str, object] | None = None,
    locals: Mapping[str, object] | None = None,
    fromlist: Sequence[str] | None = (),
    level: int = 0,
) -> ModuleType:
    """`import` in a second instance: gives those that there are, and of all else what is imported anywhere."""
    if level or not _is_copied(name):
        return builtins.__import__(name, globals, locals, fromlist or (), level)
    module = _load(name)
    for attribute in fromlist or ():
        if attribute != "*" and attribute not in vars(module):  # hasattr would have ortho_ref import the public one
            _load(f"{name}.{attribute}")
    return module if fromlist else _load(_PACKAGE)


def _made_here(entry: Any) -> bool:
    module = entry.__name__ if isinstance(entry, ModuleType) else getattr(entry, "__module__", None)
    return isinstance(entry, dict) or str(module).startswith(_PREFIX)


_load(_REFERENCE)
# what a mistake makes of A need not be orthogonal, and is what it shows
vars(_MODULES["ortho_ref.parametrizations.parametrization"])["AWAY"] = float("inf")
_OWNERS = {id(entry) for module in _MODULES.values() for entry in (module, *vars(module).values()) if _made_here(entry)}
