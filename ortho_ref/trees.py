"""Trees of dicts and lists, and what is in them by its path, "params/layer0.U_c.A"."""

from collections.abc import Mapping
from typing import Any


def by_path(tree: Any) -> dict[str, Any]:
    """{"ir": {"kernel": a}} -> {"ir/kernel": a}; an entry of a list or tuple has its number."""
    found: dict[str, Any] = {}
    for name, value in tree.items() if isinstance(tree, Mapping) else enumerate(tree):
        if isinstance(value, Mapping | list | tuple):
            found |= {f"{name}/{path}": own for path, own in by_path(value).items()}
        else:
            found[str(name)] = value
    return found


def nested(paths: Mapping[str, Any]) -> dict[str, Any]:
    """{"ir/kernel": a} -> {"ir": {"kernel": a}}."""
    tree: dict[str, Any] = {}
    for path, value in paths.items():
        *folders, leaf = path.split("/")
        place = tree
        for folder in folders:
            place = place.setdefault(folder, {})
        place[leaf] = value
    return tree
