"""Adapters by their name: the `run` of a file or of a module."""

import importlib
from pathlib import Path
from types import ModuleType

from ortho_ref.conformance.running.implementation import Run, check_run, said
from ortho_ref.own_file import module_of, on_path


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
    run: Run | None = getattr(load_module(name), "run", None)
    if not callable(run):
        raise ValueError(f"adapter is {name}, which has no function run(case)")
    try:
        check_run(run)
    except TypeError as error:
        raise ValueError(f"adapter is {name}, which has none: {error}") from None
    return run


def load_module(name: str) -> ModuleType:
    """The module of FILE.py or of a dotted name.  ValueError where it cannot be loaded, with whatever it raises."""
    try:
        path = Path(name)
        if path.suffix == ".py":
            return module_of(path, "conformance adapter")
        if path.is_file():
            raise ValueError(f"{path} is a file whose name does not end in .py")
        if path.is_dir() and "/" in name:  # without one it may be a package
            raise ValueError(f"{path} is a folder; expected a file in it, FILE.py")
        with on_path(Path.cwd()):
            return importlib.import_module(name)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise ValueError(f"adapter is {name}, which cannot be loaded: {said(error)}") from error
