"""Command-line programs, run from a checkout as `python -m scripts.NAME`."""

from ortho_ref import starting

starting.until_loaded("scripts")
