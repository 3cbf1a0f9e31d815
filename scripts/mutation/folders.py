"""What is mutated, under one name each."""

from collections.abc import Iterable
from pathlib import Path

#: At least 99 % of their mutants have to be killed.
MATHEMATICS = {
    "cells": ("ortho_ref/cells",),
    "parametrizations": ("ortho_ref/parametrizations",),
    "fused": ("ortho_ref/fused",),
    "activations": ("ortho_ref/activations.py",),
    "losses": ("ortho_ref/losses.py",),
    "optimizers": ("ortho_ref/optimizers.py", "ortho_ref/schedules.py"),
    "recurrent": ("ortho_ref/recurrent.py",),
    "scan": ("ortho_ref/scan.py",),
    "gradients": ("gradients",),
}

#: At least 98 % of theirs.
ELSEWHERE = {
    "checkpoint": ("ortho_ref/checkpoint.py", "ortho_ref/files.py", "ortho_ref/run_folder.py", "ortho_ref/schema.py"),
    "runs": ("ortho_ref/runs.py",),
    "training": ("ortho_ref/training.py",),
    "checks": ("ortho_ref/checks.py", "ortho_ref/pending.py"),
    "network": (
        "ortho_ref/network.py",
        "ortho_ref/layers.py",
        "ortho_ref/initial.py",
        "ortho_ref/dropout.py",
        "ortho_ref/recompute.py",
        "ortho_ref/reader.py",
        "ortho_ref/regularizers.py",
        "ortho_ref/averaging.py",
    ),
    "conformance": ("ortho_ref/conformance",),
    "grid": ("scripts/grid", "scripts/train.py"),
    "tasks": ("tasks",),
}

FOLDERS = {**MATHEMATICS, **ELSEWHERE}


def files_of(root: Path, targets: Iterable[str]) -> list[str]:
    """The Python files of targets, which are folders or files from the root."""
    found: list[str] = []
    for target in targets:
        path = root / target
        found += [
            one.relative_to(root).as_posix() for one in ([path] if path.is_file() else sorted(path.rglob("*.py")))
        ]
    return found
