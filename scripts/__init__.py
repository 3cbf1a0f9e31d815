"""Command-line programs, run from a checkout as `python -m scripts.NAME`."""
