"""Other people's code that no package has: a checkout that the user has made, at the commit that was asked for.

It is found below the folder that `--sources` of `scripts.maintain.audit`, or the environment variable, names, under the
repository's own name: SOURCES/scoRNN of github.com/SpartinStuff/scoRNN.  Nothing of it is in this repository.
"""

import os
import subprocess
import sys
from pathlib import Path

#: The environment variable with the folder of checkouts.
VARIABLE = "ORTHO_REF_SOURCES"


def checkout(repository: str, commit: str) -> Path:
    """The folder of a checkout."""
    name = repository.partition("/")[2]
    how = f"git clone https://github.com/{repository} && git -C {name} checkout {commit}"
    if VARIABLE not in os.environ:
        raise FileNotFoundError(f"{VARIABLE} names no folder of checkouts; make one, in it {how}")
    folder = Path(os.environ[VARIABLE]) / name
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder} is not there: {how}")
    if (found := _git(folder, "rev-parse", "HEAD")) != commit:
        raise ValueError(f"{folder} is at {found}; expected {commit}: {how}")
    if changed := _git(folder, "diff", "--name-only", "--diff-filter=AM", "HEAD"):
        raise ValueError(f"{folder} has been changed: {', '.join(changed.split())}")
    return folder


def importable(repository: str, commit: str, *folders: str) -> None:
    """Have the modules of a checkout imported by their names."""
    root = checkout(repository, commit)
    sys.path[:0] = [str(root / folder) for folder in (folders or (".",))]


def chunk(T: int) -> int:
    """The largest size of a chunk up to 64 that divides T."""
    return max(size for size in range(1, 65) if T % size == 0)


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else done.stderr.strip()
