"""What a mistake could replace: attributes of our modules and their classes, and entries of our dicts."""

import sys
from types import ModuleType

from ortho_ref.conformance.mistakes.private import is_private, private


def public_modules():
    """Name -> every module of the package that anybody imports."""
    return {n: m for n, m in list(sys.modules.items()) if n.partition(".")[0] == "ortho_ref"}


def private_modules():
    """Name -> the kit's own instance of a module, of those that it has."""
    found = {}
    for name in public_modules():
        try:
            found[name] = private(name)
        except KeyError:
            continue
    return found


def attributes(modules):
    """(where, name) -> what is there.  A class or a dict that a module has from the kit's own is not its."""
    found = {}
    for where, module in modules.items():
        for name, entry in list(vars(module).items()):
            found[where, name] = entry
            if is_private(entry) and not is_private(module):
                continue
            if isinstance(entry, dict) and name != "__builtins__":
                found |= {(f"{where}.{name}", key): own for key, own in list(entry.items())}
            if isinstance(entry, type) and entry.__module__.startswith("ortho_ref"):
                own_entries = [(key, own) for key, own in vars(entry).items() if key != "__slotnames__"]
                found |= {(f"{where}.{name}", key): own for key, own in own_entries}  # that is noted at a first copy
    return found


def changed(before, modules):
    """What of it is another object now, by identity."""
    now, missing = attributes(modules), ModuleType("missing")
    return [key for key in before.keys() | now.keys() if before.get(key, missing) is not now.get(key, missing)]
