"""An adapter in a process of its own: python -m ortho_ref.conformance.running.child ADAPTER FOLDER WHAT.

`apart` starts it.  It answers N.case in the folder with N.answer, N = 1, 2, ..., and 0.answer says whether the adapter
was loaded.  It ends with the kit.
"""

import contextlib
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from ortho_ref import interrupts as starting
from ortho_ref.conformance.maps.adapter import load_map
from ortho_ref.conformance.running import apart, programs
from ortho_ref.conformance.running.adapters import load_adapter
from ortho_ref.conformance.running.asking import ask
from ortho_ref.conformance.running.implementation import Broken, Raised, Run, Telling, said
from ortho_ref.conformance.running.outputs import NoArray


def main(adapter: str, folder: Path, what: str) -> None:
    """Load an adapter and answer one case after the other, in the folder; what is asked is "run" or "map"."""
    starting.loaded()
    number = 0
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    try:
        run = (load_map if what == "map" else load_adapter)(adapter)
    except ValueError as error:
        _say(folder, 0, apart.BROKEN, str(error))
        return
    except BaseException as error:
        _say(folder, 0, apart.BROKEN, f"adapter is {adapter}, which cannot be loaded: {said(error)}")
        return
    told = run if isinstance(run, Telling) else Telling()
    _say(folder, 0, apart.GIVEN, cell=told.cell, assumes=told.assumes)
    while True:
        number += 1
        while not (path := folder / f"{number}.case").exists():
            time.sleep(apart.NAP)
        _answer(run, folder, number, programs.read_case(path))


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def _answer(run: Run, folder: Path, number: int, case: Any) -> None:
    try:
        outputs = ask(run, case)
    except Broken as error:
        _say(folder, number, apart.BROKEN, said(error))
    except BaseException as error:
        raised = Raised.of(error)
        _say(folder, number, apart.RAISED, raised.said, raised.place, raised.traceback)
    else:
        if outputs is None:
            _say(folder, number, apart.UNSUPPORTED)
            return
        arrays = {name: value for name, value in outputs.items() if not isinstance(value, NoArray)}
        no_arrays = {name: value.remark for name, value in outputs.items() if isinstance(value, NoArray)}
        _say(folder, number, apart.GIVEN, no_arrays=no_arrays, arrays=arrays)


def _say(
    folder: Path,
    number: int,
    status: str,
    said: str = "",
    place: str = "",
    traceback: str = "",
    no_arrays: dict[str, str] | None = None,
    arrays: dict[str, np.ndarray] | None = None,
    **more: Any,
) -> None:
    about = {"status": status, "said": said, "place": place, "traceback": traceback, **more}
    data = programs.answer_file(arrays or {}, about | {"no_arrays": no_arrays or {}})
    programs.write_whole(folder / f"{number}.answer", data)


if __name__ == "__main__":
    code = 0
    try:
        main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
    except BaseException as error:  # the adapter has made Python unusable
        code = 1
        with contextlib.suppress(BaseException):
            os.write(2, f"the kit's own part of the process {said(error)}\n".encode(errors="replace"))
    os._exit(code)  # whatever threads and exit functions the adapter leaves behind
