"""Python files of the user's own: an adapter, a map, a cell."""

import contextlib
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType


def module_of(path: Path, what: str) -> ModuleType:
    """The module of FILE.py, executed, as `python FILE.py` would: what lies beside it can be imported.

    It is executed anew at every call.  `what` says what the file is: the module is called "`what` FILE", so that a file
    torch.py is not taken for torch.  FileNotFoundError where there is no file; BaseException: whatever the file raises.
    """
    own = f"{what} {path.stem}"
    spec = importlib.util.spec_from_file_location(own, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[own] = module
    try:
        with on_path(path.resolve().parent):
            spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[own]
        raise
    return module


@contextlib.contextmanager
def on_path(folder: Path) -> Iterator[None]:
    """A folder to import from, which stays for imports within functions; not after an error."""
    sys.path.insert(0, str(folder))
    try:
        yield
    except BaseException:
        sys.path.remove(str(folder))
        raise
