"""How much memory NumPy's arrays take, by tracemalloc."""

import tracemalloc
from collections.abc import Callable


def traced(step: Callable[[], object]) -> int:
    """The most that NumPy had while a step ran, over what was there."""
    tracemalloc.start()
    try:
        step()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
