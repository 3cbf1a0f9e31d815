"""python -m tests.device.hostcuda.run MODULE ...: a program as it would run with a GPU, its device this host."""

import runpy
import sys

from . import UnavailableError, install

if __name__ == "__main__":
    try:
        install()
    except UnavailableError as error:
        sys.exit(print(f"skipped: {error}"))
    sys.argv = sys.argv[1:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
