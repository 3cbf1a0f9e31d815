"""What an implementation is, and what it can do instead of giving outputs."""

import re
import sysconfig
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable
from os import sep
from pathlib import Path
from typing import Any, TypeAlias

from ortho_ref.boundary import kind_of, with_article
from ortho_ref.conformance.cases.case import Case
from ortho_ref.terminal import cut

_SAID = 1000  # characters: there is more to say than that
_TRACEBACK = 10_000
#: What Keras puts before the message of an exception, which stands below it in bold.
_WRAPPER, _BOLD = "Exception encountered when calling ", r"\x1b\[[01]m"
#: Files of the kit that stand between its own call and what an implementation raises.
_OWN = tuple(
    str(Path(__file__).with_name(f"{name}.py")) for name in ("runner", "programs", "apart", "child", "outputs")
)
_LIBRARIES = tuple(sysconfig.get_path(name) + sep for name in ("stdlib", "platstdlib", "purelib", "platlib"))

#: Takes a case, gives a dict of arrays, or None where it does not support it.
Run: TypeAlias = Callable[[Case], Any]
#: Libraries whose modules and layers `ortho_ref.adapters` makes a `Run` of.
_ADAPTED = ("torch", "keras", "flax", "equinox")


def check_run(run: Any) -> None:
    """TypeError for what cannot be a `Run`: no function, a class, a framework's module or layer."""
    kind = run if isinstance(run, type) else type(run)
    for base in kind.__mro__:
        if (library := base.__module__.partition(".")[0]) in _ADAPTED:
            name = kind.__name__ if isinstance(run, type) else with_article(kind.__name__)
            raise TypeError(f"run is {name}; it becomes a run(case) by ortho_ref.adapters.from_{library}")
    if isinstance(run, type) or not callable(run):
        what = f"the class {kind.__name__}" if isinstance(run, type) else kind_of(run)
        raise TypeError(f"run is {what}; allowed: a function run(case), which gives a dict of arrays, or None")


class Telling:
    """An implementation that may say what it is."""

    cell: str = ""  # which cell, or recurrence: "gru_reset_after"
    assumes: tuple[str, ...] = ()  # departures to be assumed unasked: "h0-ignored" of one without an initial state


class Elsewhere(Telling, ABC):
    """An implementation that runs in another process: nothing of this one has to be put back after it."""

    fresh: bool = False  # whether every case has a process of its own, which keeps nothing from the one before
    name: str  # how it was given
    file: Path  # what it is read from

    @abstractmethod
    def __call__(self, case: Case) -> Any:
        """What `Run` gives."""


class OfCell(Telling):
    """A function as an implementation of one cell, which says which."""

    def __init__(self, run: Run, cell: str, assumes: tuple[str, ...] = ()) -> None:
        self._run, self.cell, self.assumes = run, cell, assumes

    def __call__(self, case: Case) -> Any:
        """What `Run` gives."""
        return self._run(case)


class Broken(Exception):
    """What an implementation did instead of giving outputs."""


class Raised(Exception):
    """What an implementation raised."""

    def __init__(self, said: str, place: str, traceback: str) -> None:
        super().__init__(said)
        self.said = said  # in one line: its type and message
        self.place = place  # where in the implementation, " (mine.py:3 in run)"; "" where that is not known
        self.traceback = traceback  # the whole of it

    @classmethod
    def of(cls, error: BaseException) -> "Raised":
        """An exception, told."""
        if isinstance(error, Raised):
            return error
        if isinstance(error, Broken):
            return cls(said(error), "", "")
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename not in _OWN]
        own = [frame for frame in frames if not frame.filename.startswith(_LIBRARIES)] or frames
        place = f" ({Path(own[-1].filename).name}:{own[-1].lineno} in {own[-1].name})" if own else ""
        try:
            whole = cut("".join(traceback.format_exception(error)), _TRACEBACK)
        except Exception:  # a class without a module, notes that raise
            whole = ""
        return cls(said(error), place, whole)


def said(error: BaseException) -> str:
    """What was raised, in one line: of `Broken` its message, of others the type as well."""
    if isinstance(error, Broken):
        return cut(str(error), _SAID)
    name = cut(type(error).__name__, 100)
    try:
        lines = [line.strip() for line in re.sub(_BOLD, "", str(error)).splitlines() if line.strip()] or [""]
        line = lines[1 if lines[0].startswith(_WRAPPER) and len(lines) > 1 else 0]
    except KeyboardInterrupt:
        raise
    except BaseException:  # it cannot even be said, or ends the process where it is
        line = ""
    return f"raised {name}: {cut(line, _SAID)}" if line else f"raised {name}"
