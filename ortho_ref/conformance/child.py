"""An adapter in a process of its own: python -m ortho_ref.conformance.child ADAPTER DESCRIPTOR PARENT WHAT.

`apart` starts it, with one end of a socket as the descriptor; `line` says what goes over it.  Standard input and output
are nothing: an adapter that prints, or closes them, disturbs nobody.  Whatever the adapter does to this process,
nothing of the kit's own verdict is made here.
"""

import contextlib
import os
import signal
import sys

import numpy as np

from ortho_ref import interrupts as starting
from ortho_ref.conformance import line
from ortho_ref.conformance.adapters import load_adapter
from ortho_ref.conformance.case import Case
from ortho_ref.conformance.implementation import Broken, Raised, Run, said
from ortho_ref.conformance.maps.adapter import load_map
from ortho_ref.conformance.outputs import NoArray, Outputs, modified, outputs_of
from ortho_ref.conformance.surroundings import kept_streams

#: Inputs of a case, at most: the kit is no stranger.
_MOST = 1 << 40
_HIGH = 200  # a descriptor out of the way of who closes all the low ones
_DEATH_SIGNAL, _REAPER = 1, 36  # PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER


def main(arguments: list[str]) -> int:
    """Load an adapter and answer one case after the other.

    Parameters
    ----------
    arguments : list of str
        Of the command line: the adapter, the socket's descriptor, the kit's process id, what of it is run: "run" or
        "map".

    Returns
    -------
    int
        0, when the kit's end is closed.
    """
    starting.loaded()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job has it ignored
    adapter, descriptor, parent, what = arguments
    socket = _Socket(int(descriptor))
    _end_with(int(parent))
    try:
        with kept_streams():
            run = (load_map if what == "map" else load_adapter)(adapter)
    except ValueError as error:
        socket.say(_answer(0, line.BROKEN, str(error)))
        return 0
    except BaseException as error:
        socket.say(_answer(0, line.BROKEN, f"adapter is {adapter}, which cannot be loaded: {said(error)}"))
        return 0
    socket.say(_answer(0, line.LOADED))
    while (message := socket.hear()) is not None:
        header = message.header
        shapes = {name: tuple(shape) for name, shape in header["outputs"].items()}
        case = Case(header["id"], header["kind"], header["config"], message.arrays, shapes, header["dtype"])
        socket.say(_answered(run, case, header["number"]))
    return 0


def _end_with(parent: int) -> None:
    """Die with the kit, even where it is killed, and before it where memory runs out; on Linux.

    What loses its parent becomes a child of this process, so that the kit finds it.
    """
    with contextlib.suppress(Exception):
        import ctypes

        prctl = ctypes.CDLL(None).prctl
        prctl(_DEATH_SIGNAL, int(signal.SIGKILL))
        prctl(_REAPER, 1)
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")
    if os.getppid() != parent:
        os._exit(1)


class _Socket:
    """The adapter's end of the line.

    Parameters
    ----------
    descriptor : int
        As the process was handed it.
    """

    def __init__(self, descriptor: int) -> None:
        import fcntl

        try:
            self._number = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _HIGH)
            os.close(descriptor)
        except OSError:  # not so many are allowed
            self._number = descriptor
            os.set_inheritable(descriptor, False)
        self._is = os.fstat(self._number)

    def say(self, data: bytes) -> None:
        """Write all of it."""
        left = memoryview(data)
        while left:
            self._check()
            left = left[os.write(self._number, left) :]

    def hear(self) -> line.Message | None:
        """The next message; None where the kit is gone."""
        reader = line.Reader(line.Asked, _MOST)
        while True:
            self._check()
            piece = os.read(self._number, 1 << 20)
            if not piece:
                return None
            if (message := reader.feed(piece)) is not None:
                return message

    def _check(self) -> None:
        """An adapter may have closed it, and opened something else under its number."""
        if not os.path.samestat(os.fstat(self._number), self._is):
            raise OSError("the descriptor to the kit is open on something else")


def _answered(run: Run, case: Case, number: int) -> bytes:
    """The answer to a case."""
    fresh = {name: array.copy() for name, array in case.inputs.items()} if case.outputs else {}
    expected = dict(case.outputs)
    try:
        with kept_streams() as complaints:
            outputs = outputs_of(run(case), expected)
        if complaints:
            return _answer(number, line.BROKEN, "; ".join(complaints))
        if outputs is None:
            return _answer(number, line.UNSUPPORTED)
        if fresh and (problem := modified(case.inputs, fresh)):
            return _answer(number, line.BROKEN, problem)
        return _given(number, outputs)
    except Broken as error:
        return _answer(number, line.BROKEN, said(error))
    except BaseException as error:
        raised = Raised.of(error)
        return _answer(number, line.RAISED, raised.said, raised.place, raised.traceback, raised.refuses)


def _given(number: int, outputs: Outputs) -> bytes:
    arrays = {name: value for name, value in outputs.items() if not isinstance(value, NoArray)}
    no_arrays = {name: value.remark for name, value in outputs.items() if isinstance(value, NoArray)}
    return _answer(number, line.GIVEN, no_arrays=no_arrays, arrays=arrays)


def _answer(
    number: int,
    status: str,
    said: str = "",
    place: str = "",
    traceback: str = "",
    refuses: bool = False,
    no_arrays: dict[str, str] | None = None,
    arrays: dict[str, np.ndarray] | None = None,
) -> bytes:
    header = {
        "number": number,
        "status": status,
        "said": said,
        "place": place,
        "traceback": traceback,
        "refuses": refuses,
        "no_arrays": no_arrays or {},
    }
    return line.packed(header, arrays or {})


if __name__ == "__main__":
    try:
        code = main(sys.argv[1:])
    except BaseException as error:  # the adapter has closed the line, or made Python unusable
        code = 1
        with contextlib.suppress(BaseException):
            os.write(2, f"the kit's own part of the process {said(error)}\n".encode(errors="replace"))
    os._exit(code)  # whatever threads and exit functions the adapter leaves behind
