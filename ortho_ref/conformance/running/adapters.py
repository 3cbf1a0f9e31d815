"""Adapters by their name: the `run` of a file or of a module."""

import contextlib
import importlib
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from ortho_ref.conformance.running.implementation import Run, said


def load_adapter(name: str) -> Run:
    """The `run` of a file or of a module.

    Parameters
    ----------
    name : str
        FILE.py, or a module's dotted name.

    Returns
    -------
    callable
        Its `run`, as `check` takes it.

    Raises
    ------
    ValueError
        There is none; whatever the module raises while it is loaded is passed on in the message.
    """
    run = getattr(load_module(name), "run", None)
    if not callable(run):
        raise ValueError(f"adapter is {name}, which has no function run(case)")
    return run


def load_module(name: str) -> ModuleType:
    """An adapter's module.

    Parameters
    ----------
    name : str
        FILE.py, or a module's dotted name.

    Returns
    -------
    module
        It, executed.

    Raises
    ------
    ValueError
        It cannot be loaded; whatever it raises is passed on in the message.
    """
    try:
        return _module(name)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise ValueError(f"adapter is {name}, which cannot be loaded: {said(error)}") from error


def _module(name: str) -> ModuleType:
    path = Path(name)
    if path.suffix != ".py":
        if path.is_file():
            raise ValueError(f"{path} is a file whose name does not end in .py")
        if path.is_dir() and "/" in name:  # without one it may be a package
            raise ValueError(f"{path} is a folder; expected a file in it, FILE.py")
        with _on_path(str(Path.cwd())):
            return importlib.import_module(name)
    own = f"conformance adapter {path.stem}"  # under its own name a file torch.py would be taken for torch
    spec = importlib.util.spec_from_file_location(own, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[own] = module
    try:
        with _on_path(str(path.resolve().parent)):  # what lies beside it, as in `python FILE.py`
            spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[own]
        raise
    return module


@contextlib.contextmanager
def _on_path(folder: str) -> Iterator[None]:
    """A folder to import from, which stays for imports within `run`; not after an error."""
    sys.path.insert(0, folder)
    try:
        yield
    except BaseException:
        sys.path.remove(folder)
        raise
