"""Command-line programs, run from a checkout as `python -m scripts.NAME`; `python -m scripts` lists them."""

import sys as _sys

from ortho_ref import interrupts as starting
from scripts import start as _start

starting.until_loaded("scripts")
if _refusal := _start.refusal(starting.started()):
    _sys.stderr.write(f"error: {_refusal}\n")
    _sys.exit(2)
