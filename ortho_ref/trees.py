"""Trees of dicts and lists, and what is in them by its path, "params/layer0.U_c.A", or under a prefix, "layer0."."""

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


def under(prefix: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """The values whose names begin with a prefix, by their names without it."""
    return {name.removeprefix(prefix): value for name, value in values.items() if name.startswith(prefix)}


def prefixed(prefix: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """The values by their names behind a prefix."""
    return {prefix + name: value for name, value in values.items()}
