"""Ctrl-C while a program is being loaded."""

import os
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from scripts import start

ROOT = Path(__file__).parents[2]
#: A stand-in for a library, which interrupts the process in the middle of its import.
INTERRUPTS = """
import os, signal
os.kill(os.getpid(), signal.SIGINT)
for _ in range(1000):
    pass
raise ImportError("half imported")
"""
PROGRAMS = sorted(
    path.stem for path in (ROOT / "scripts").glob("*.py") if path.stem not in ("__init__", "__main__", "floors")
)


def python(tmp_path, *arguments, library=None, action="default_int_handler", **options):
    """A process in whose path the library is the stand-in."""
    if library:
        (tmp_path / f"{library}.py").write_text(INTERRUPTS)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        cwd=tmp_path,
        preexec_fn=lambda: signal.signal(signal.SIGINT, getattr(signal, action)),
        **options,
    )


@pytest.mark.parametrize(
    ("library", "arguments"),
    [
        *(("numpy", ["-m", f"scripts.{name}", "--help"]) for name in PROGRAMS),
        ("numpy", ["-m", "ortho_ref.conformance", "--help"]),
        ("typer", ["-m", "scripts.train"]),
        ("rich", ["-mscripts.train", "-x", "-m"]),
        ("matplotlib", ["-W", "error", "-m", "scripts.plot", "runs"]),
        ("safetensors", ["-m", "ortho_ref.conformance.__main__", "list"]),
    ],
)
def test_an_interrupt_while_a_program_is_loaded(tmp_path, library, arguments):
    """One line and 130, of every program; NumPy comes early in each, others late.  What a program needs besides need
    not be installed for this."""
    if library == "numpy":
        for module in start.needed_by(arguments[1].removeprefix("scripts.")):
            if find_spec(module) is None:
                (tmp_path / f"{module}.py").touch()
    result = python(tmp_path, *arguments, library=library)
    assert (result.returncode, result.stdout, result.stderr) == (130, "", "interrupted\n")


def test_nobody_hears_it(tmp_path):
    """Standard error is closed: 130 all the same."""
    shell = f'exec "{sys.executable}" -m scripts.plot 2>&-'
    (tmp_path / "numpy.py").write_text(INTERRUPTS)
    result = python(tmp_path, "-c", f"import os; os.execvp('bash', ['bash', '-c', {shell!r}])")
    assert (result.returncode, result.stdout, result.stderr) == (130, "", "")


def test_an_ignored_signal_stays_ignored(tmp_path):
    """As in the background of a shell: nothing is interrupted."""
    result = python(tmp_path, "-m", "scripts.train", library="numpy", action="SIG_IGN")
    assert "ImportError: half imported" in result.stderr


IMPORTS = """
import signal
import ortho_ref, scripts, ortho_ref.conformance
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
"""


@pytest.mark.parametrize("arguments", [["-c", IMPORTS, "scripts.train"], ["-m", "own", "-m", "scripts.train"]])
def test_a_library_changes_nothing(tmp_path, arguments):
    """Whoever imports the packages keeps Python's handler, whatever is on its command line."""
    (tmp_path / "own.py").write_text(IMPORTS)
    result = python(tmp_path, *arguments)
    assert (result.returncode, result.stderr) == (0, "")


def test_when_it_is_loaded_an_interrupt_is_pythons_again(tmp_path):
    """The program's own: here that of the kit's list, whose reader interrupts it."""
    (tmp_path / "sitecustomize.py").write_text(
        "import atexit, signal, sys\n"
        "atexit.register(lambda: print(signal.getsignal(signal.SIGINT) is signal.default_int_handler))\n"
    )
    for arguments in (["-m", "ortho_ref.conformance", "show", "cell/lstm"], ["-m", "scripts.plot", "--help"]):
        result = python(tmp_path, *arguments)
        assert (result.returncode, result.stdout.splitlines()[-1]) == (0, "True"), result.stderr
