"""What every program does alike: errors as one line, what nobody hears, exit codes, BLAS threads."""

import inspect
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn

import typer
from rich.console import Console, RenderableType
from rich.text import Text

from ortho_ref import interrupts as starting
from ortho_ref.backend import DeviceError, to_device
from ortho_ref.boundary import not_among
from ortho_ref.fused import compiled
from ortho_ref.terminal import LIMIT, STDERR, STDOUT, open_standard_streams, shown
from scripts.program.malloc import keep_freed_memory

#: Standard error; what cannot be written there is dropped, and ends no run.
console = Console(file=STDERR.file, emoji=False)

#: Of BLAS, in one process.
MOST_THREADS = 64
#: Engines with threads of their own, whose number moves no bit.
OWN_THREADS = ("compiled", "factored")

#: What bad input, or more of it than fits in memory, raises: one line and exit code 2.
BAD_INPUT = (ValueError, TypeError, OSError, DeviceError, MemoryError)


def check_device(device: str) -> None:
    """Check that a device is one and can be used, before anything is removed."""
    to_device((), device)


def check_number(name: str, value: float, most: float, least: float = 0.0) -> None:
    """Check that a number given to a program lies between two."""
    if not least <= value <= most:
        raise ValueError(f"{name} is {value}; allowed: {least:g} to {most:g}")


def chosen(option: str, given: Sequence[str] | None, allowed: Iterable[str]) -> tuple[str, ...]:
    """The names that were given, each once, or all.  ValueError for another, before anything is done."""
    every = tuple(allowed)
    for name in given or ():
        if name not in every:
            raise ValueError(not_among(option, name, every, str))
    return tuple(dict.fromkeys(given or every))


def check_beside(main: Callable[..., Any], given: Mapping[str, object], what: str, *read: str) -> None:
    """Check that nothing but `read` is given beside an option or an action: it would not be read."""
    parameters = inspect.signature(main).parameters
    for name, value in given.items():
        if name not in (what, *read) and value != parameters[name].default:
            allowed = ", ".join(read) or "nothing"
            raise ValueError(f"{name} is {str(value)!r}, which {what} does not use; allowed with it: {allowed}")


def one_line(error: object) -> str:
    """A text or an exception on one line; of a MemoryError also what needs less."""
    line = shown(error)
    if isinstance(error, MemoryError):
        return f"out of memory: {line.rstrip('.') or 'no more said'}; a smaller batch, length or hidden size needs less"
    return line


def fail(message: object, code: int = 2) -> NoReturn:
    """Say one line on stderr, and end the program with this exit code."""
    console.print(Text.assemble(("error:", "red"), " ", one_line(message)), highlight=False, soft_wrap=True)
    raise typer.Exit(code)


def say(message: object) -> None:
    """One line on stderr."""
    console.print(Text(shown(message)), highlight=False, soft_wrap=True)


def give(what: RenderableType, least_width: int = 0) -> None:
    """Print on stdout what a program is there for: text, or what rich prints; where it cannot be written, exit code 2.

    A reader that has read enough is no error.
    """
    try:
        if isinstance(what, str):
            STDOUT.give(what)
        else:
            STDOUT.error = None
            own = Console(file=STDOUT.file)
            own.width = max(own.width, least_width)
            own.print(what, highlight=False)
            STDOUT.check()
    except OSError as error:
        fail(error)


def run(main: Callable[..., Any], keeps_memory: bool = False) -> NoReturn:
    """Run a program's function, whose signature is the command line, and exit.

    What cannot be parsed is one line and exit code 2, as all bad input is, and as memory that is not there is.
    """
    starting.loaded()
    if keeps_memory:
        keep_freed_memory()
    open_standard_streams()
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(main)
    try:
        if twice := _given_twice(typer.main.get_command(app).params, sys.argv[1:]):
            fail(f"{twice} is given twice. Given: {shown(shlex.join(sys.argv[1:]), LIMIT // 3)}")
        code = app(standalone_mode=False)
    except typer.Exit as end:
        code = end.exit_code
    except (typer.Abort, KeyboardInterrupt):
        say("interrupted")
        sys.exit(130)
    except Exception as error:
        try:
            if isinstance(error, MemoryError | OSError):
                fail(error)
            if not hasattr(error, "format_message"):  # click's, which typer carries under changing names
                raise
            asked = getattr(error, "param", None)
            if getattr(asked, "metavar", None) == "TASK" and error.format_message().startswith("Missing"):
                fail(f"which task? One of {getattr(asked, 'help', '').rstrip('.')}; see --help.")
            message = shown(error.format_message(), LIMIT // 3).strip().rstrip(".")
            given = shown(shlex.join(sys.argv[1:]), LIMIT // 3)
            fail(f"{message}. {f'Given: {given}; see' if given else 'See'} --help.")
        except typer.Exit as end:
            code = end.exit_code
    STDOUT.flush()  # or Python would, and exit with 120 where it cannot
    STDERR.flush()
    sys.exit(code or 0)


def _given_twice(options: Sequence[Any], words: list[str]) -> str:
    """An option of one value that has several on this command line, of which all but the last would be forgotten."""
    taking = {flag: own for own in options for flag in own.opts if flag.startswith("-") and own.nargs == 1}
    found: set[str] = set()
    rest = iter(words)
    for word in rest:
        flag, equals, _ = word.partition("=")
        if word == "--":
            break
        if flag in taking and not getattr(taking[flag], "is_flag", False):
            if flag in found and not taking[flag].multiple:
                return flag
            found.add(flag)
            if not equals:
                next(rest, None)
    return ""


def limit_threads(threads: int, engine: str = "fused") -> None:
    """Give an engine that many threads in this process, from 1 to MOST_THREADS.

    Those of `OWN_THREADS` have them, and every BLAS, NumPy's and SciPy's, has one then, as its number moves bits; for
    every other engine they are BLAS's.
    """
    import scipy.linalg  # noqa: F401  loads SciPy's BLAS; a limit holds for what is loaded
    from threadpoolctl import threadpool_limits

    if not 1 <= threads <= MOST_THREADS:
        raise ValueError(f"threads is {threads}; allowed: 1 to {MOST_THREADS}")
    own = engine in OWN_THREADS
    threadpool_limits(1 if own else threads)
    compiled.set_threads(threads if own else 1)


def blas() -> list[str]:
    """Every BLAS in this process: library, version, kernel, threads."""
    from threadpoolctl import threadpool_info

    return [
        f"{pool['internal_api']} {pool['version']} {pool.get('architecture', '')} x{pool['num_threads']}"
        for pool in threadpool_info()
        if pool["user_api"] == "blas"
    ]
