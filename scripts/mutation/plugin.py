"""A plugin of pytest, in a copy of the tree: notes what every test executes, or serves mutants.

What it does it is told by the environment: MUTANTS_SECONDS, a file for the seconds of every test, while coverage
measures; MUTANTS_TESTS, a file with the tests to run, in their order, each with its limit, up to the first that fails;
MUTANTS_SERVE, two file descriptors: a mutant a line comes in, an answer a line goes out, and every mutant has a fork of
this process, in which everything is imported and collected.
"""

import contextlib
import functools
import gc
import inspect
import json
import os
import resource
import signal
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest

from scripts.mutation.codes import inner, own_part, same

Items = dict[str, pytest.Item]

SECONDS, TESTS, SERVE = "MUTANTS_SECONDS", "MUTANTS_TESTS", "MUTANTS_SERVE"

#: More memory than any test takes.
MEMORY = 8 * 2**30
#: A test that waits for another process may take this many times its limit, which is of the time that it computes.
WAITING = 10
#: What a process that is stopped for its time ends with.
TIMED_OUT = 124

_seconds: dict[str, float] = {}
_failed: list[str] = []
_shared: dict[str, list[str]] = {}


def pytest_sessionstart() -> None:
    """A failing example is not made smaller: that it fails is all that is asked."""
    from hypothesis import Phase, settings

    phases = (Phase.explicit, Phase.generate)
    settings.register_profile("mutants", settings(), phases=phases)
    settings.load_profile("mutants")


# --- measuring -------------------------------------------------------------------------------------------------------


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    """Coverage's context is the test."""
    start = time.perf_counter()
    _context(item.nodeid)
    try:
        return (yield)
    finally:
        _seconds[item.nodeid] = time.perf_counter() - start
        _context("")


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: Any, request: Any) -> Generator[None, Any, Any]:
    """What a fixture that several tests share executes, it executes for all of them."""
    if SECONDS not in os.environ or fixturedef.scope == "function":
        return (yield)
    name = f"fixture {fixturedef.baseid}::{fixturedef.argname}"
    for item in request.session.items:
        if fixturedef.argname in getattr(item, "fixturenames", ()) and item.nodeid.startswith(fixturedef.baseid):
            _shared.setdefault(name, []).append(item.nodeid)
    before = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
    _context(name)
    try:
        return (yield)
    finally:
        _context(before)


def _context(name: str) -> None:
    if SECONDS in os.environ:
        import coverage

        measuring = coverage.Coverage.current()
        if measuring is not None:
            measuring.switch_context(name)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """A test that does not pass as it is cannot kill."""
    if report.outcome != "passed":
        _failed.append(report.nodeid)


def pytest_sessionfinish() -> None:
    """Write the seconds."""
    if SECONDS in os.environ:
        found = {"seconds": _seconds, "failed": sorted(set(_failed)), "shared": _shared}
        Path(os.environ[SECONDS]).write_text(json.dumps(found))


# --- running chosen tests --------------------------------------------------------------------------------------------


def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Serve, or run the chosen tests; else pytest's own loop."""
    if SERVE in os.environ:
        _serve(session)
        return True
    if TESTS in os.environ:
        tests, answer = json.loads(Path(os.environ[TESTS]).read_text()), Path(os.environ[TESTS] + ".answer")
        if session.testsfailed:  # a file of tests that cannot be imported
            answer.write_text("collecting")
            os._exit(1)
        failed = _first_failure({item.nodeid: item for item in session.items}, tests, answer.write_text)
        os._exit(int(failed))
    return None


def _first_failure(items: Items, tests: list[tuple[str, float]], tell: Callable[[str], object]) -> bool:
    """Run tests up to the first that fails or hangs, and tell its name."""
    running = ""

    def stop(*_: object) -> None:
        tell(running)
        os._exit(TIMED_OUT)

    signal.signal(signal.SIGALRM, stop)
    signal.signal(signal.SIGPROF, stop)
    for name, limit in tests:
        if name not in items:
            continue
        running = name
        signal.setitimer(signal.ITIMER_PROF, limit)
        signal.setitimer(signal.ITIMER_REAL, WAITING * limit)
        failed = items[name].session.testsfailed
        items[name].ihook.pytest_runtest_protocol(item=items[name], nextitem=None)  # the marks of a test hold, too
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        if items[name].session.testsfailed > failed:
            tell(name)
            return True
    return False


# --- serving ---------------------------------------------------------------------------------------------------------


def _serve(session: pytest.Session) -> None:
    """Answer every mutant that comes in, until no more come."""
    read, write = (int(number) for number in os.environ.pop(SERVE).split(","))
    items = {item.nodeid: item for item in session.items}
    functions, caches = _functions(), _caches()
    gc.collect()
    gc.freeze()
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    with os.fdopen(read) as jobs, os.fdopen(write, "w") as answers:
        print(json.dumps({"items": len(items)}), file=answers, flush=True)
        for line in jobs:
            print(json.dumps(_answer(json.loads(line), items, functions, caches)), file=answers, flush=True)


def _answer(job: dict[str, Any], items: dict[str, pytest.Item], functions: Any, caches: list[Any]) -> dict[str, Any]:
    """What becomes of a mutant: killed, timed out, survived, or cold where functions cannot be exchanged."""
    path = Path(job["file"])
    start = time.perf_counter()
    exchange = _exchange(path.read_text(), job["source"], functions.get(str(path.resolve()), {}))
    if not exchange:
        return {"outcome": "cold"}
    original = path.read_bytes()
    path.write_text(job["source"])
    read, write = os.pipe()
    try:
        pid = os.fork()
        if not pid:
            _child(write, exchange, caches, items, job["tests"])
        os.close(write)
        with os.fdopen(read) as answer:
            by = answer.read()
        _, status = os.waitpid(pid, 0)
    finally:
        path.write_bytes(original)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)  # what its tests have started
    code = os.waitstatus_to_exitcode(status)
    outcome = {0: "survived", TIMED_OUT: "timed out"}.get(code, "killed")
    return {
        "outcome": outcome,
        "by": by or (f"exit code {code}" if code else ""),
        "seconds": time.perf_counter() - start,
    }


def _child(write: int, exchange: list[Any], caches: list[Any], items: Any, tests: list[Any]) -> None:
    """The fork: exchange the functions, run the tests, say which failed, and end."""
    code = 3
    try:
        os.setpgid(0, 0)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        for function, new in exchange:
            function.__code__ = new
        for one in caches:
            one.cache_clear()
        code = int(_first_failure(items, tests, lambda name: os.write(write, name.encode())))
    except BaseException as error:  # of a test that ends the process, for one
        os.write(write, f"{type(error).__name__}".encode())
    finally:
        os._exit(code)


def _functions() -> dict[str, dict[CodeType, list[FunctionType]]]:
    """Every function there is, by its file and its code."""
    found: dict[str, dict[CodeType, list[FunctionType]]] = {}
    root = os.getcwd()
    for one in gc.get_objects():
        if isinstance(one, FunctionType):
            file = one.__code__.co_filename
            if file.startswith(root):
                found.setdefault(file, {}).setdefault(one.__code__, []).append(one)
    return found


def _caches() -> list[Any]:
    """What functions of the project remember, which a mutant may not."""
    kind, root = type(functools.lru_cache(len)), os.getcwd()
    found = [one for one in gc.get_objects() if isinstance(one, kind)]
    return [one for one in found if getattr(_innermost(one), "co_filename", "").startswith(root)]


def _innermost(function: Any) -> CodeType | None:
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    return getattr(function, "__code__", None)


def _exchange(old: str, new: str, functions: dict[CodeType, list[FunctionType]]) -> list[Any]:
    """Each function that a mutant changes, with its new code; nothing where what it changes is no function's code."""
    file = next(iter(functions)).co_filename if functions else "x"
    before, after = (compile(text, file, "exec", dont_inherit=True) for text in (old, new))
    found = [*_changed(before, after, functions)]
    return [] if None in found else found


def _changed(old: CodeType, new: CodeType, functions: dict[CodeType, list[FunctionType]]) -> Iterator[Any]:
    """Each living function of a code that differs, with its new code; None where there is more to it than that."""
    if same(old, new):
        return
    before, after = inner(old), inner(new)
    if old.co_flags & inspect.CO_OPTIMIZED:
        for function in functions.get(old, ()):
            yield (function, new) if old.co_freevars == new.co_freevars else None
    elif own_part(old) != own_part(new) or len(before) != len(after):
        yield None  # what runs on import
    for one, other in zip(before, after, strict=False):
        yield from _changed(one, other, functions)
