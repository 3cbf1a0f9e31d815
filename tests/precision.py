"""Problems in float32, for tests."""

import numpy as np


def single(tree):
    """Nested dicts and tuples with their floats as float32, complex numbers as complex64, integers as they are."""
    if isinstance(tree, dict):
        return {key: single(value) for key, value in tree.items()}
    if isinstance(tree, tuple):
        return tuple(map(single, tree))
    kind = getattr(getattr(tree, "dtype", None), "kind", "")
    return tree.astype({"f": np.float32, "c": np.complex64}[kind]) if kind in ("f", "c") else tree
