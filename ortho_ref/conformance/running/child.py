"""An adapter in a process of its own: python -m ortho_ref.conformance.running.child ADAPTER FOLDER WHAT.

`apart` starts it.  It answers N.case in the folder with N.answer, N = 1, 2, ..., and 0.answer says whether the adapter
was loaded.  It ends with the kit.
"""

import contextlib
import os
import sys
import threading
import time
from itertools import count
from pathlib import Path
from typing import Any

from ortho_ref import interrupts as starting
from ortho_ref.conformance.cases.case import Arrays, Case
from ortho_ref.conformance.maps.adapter import load_map
from ortho_ref.conformance.running import apart, programs
from ortho_ref.conformance.running.adapters import load_adapter
from ortho_ref.conformance.running.implementation import Raised, Run, Telling, said
from ortho_ref.conformance.running.outputs import NoArray, ask


def main(adapter: str, folder: Path, what: str) -> None:
    """Load an adapter and answer one case after the other, in the folder; what is asked is "run" or "map"."""
    starting.loaded()
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    try:
        run = (load_map if what == "map" else load_adapter)(adapter)
    except BaseException as error:
        known = isinstance(error, ValueError)
        problem = str(error) if known else f"adapter is {adapter}, which cannot be loaded: {said(error)}"
        _say(folder, 0, {}, {"problem": problem})
        return
    told = run if isinstance(run, Telling) else Telling()
    _say(folder, 0, {}, {"problem": "", "cell": told.cell, "assumes": told.assumes})
    for number in count(1):
        while not (path := folder / f"{number}.case").exists():
            time.sleep(apart.NAP)
        _say(folder, number, *_answer(run, programs.read_case(path)))


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def _answer(run: Run, case: Case) -> tuple[Arrays, dict[str, Any]]:
    """Arrays, and what is said of them."""
    try:
        outputs = ask(run, case)
    except BaseException as error:
        raised = Raised.of(error)
        return {}, {"raised": (raised.said, raised.place, raised.traceback)}
    given = outputs or {}
    arrays = {name: value for name, value in given.items() if not isinstance(value, NoArray)}
    no_arrays = {name: value.remark for name, value in given.items() if isinstance(value, NoArray)}
    return arrays, {"supported": outputs is not None, "no_arrays": no_arrays}


def _say(folder: Path, number: int, arrays: Arrays, about: dict[str, Any]) -> None:
    programs.write_whole(folder / f"{number}.answer", programs.answer_file(arrays, about))


if __name__ == "__main__":
    code = 0
    try:
        main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
    except BaseException as error:  # the adapter has made Python unusable
        code = 1
        with contextlib.suppress(BaseException):
            os.write(2, f"the kit's own part of the process {said(error)}\n".encode(errors="replace"))
    os._exit(code)  # whatever threads and exit functions the adapter leaves behind
