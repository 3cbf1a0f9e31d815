"""A framework that may not be installed."""

import contextlib
from collections.abc import Iterator


@contextlib.contextmanager
def needed(module: str, command: str) -> Iterator[None]:
    """Around an import: an error of one line where there is no such module; one about something inside it stays."""
    try:
        yield
    except ImportError as error:
        if error.name is None or error.name.split(".")[0] != module:
            raise
        raise ImportError(f"{module} is not installed: {command}", name=module) from None
