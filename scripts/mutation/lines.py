"""Copies of the tree, and which tests execute which line of them, as coverage.py tells."""

import ast
import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from scripts.mutation.plugin import SECONDS

MEASURED = ("ortho_ref", "gradients", "tasks", "scripts")

#: A test of the tree's own text, which any mutant changes, shows nothing.
OF_THE_TEXT = ("tests/test_project.py", "tests/scripts/test_equation_index.py")

_SETTINGS = """[run]
parallel = true
data_file = {data}
source = {source}
omit = */scripts/mutation/*
context = ${{PYTEST_CURRENT_TEST-}}
disable_warnings = no-data-collected,module-not-imported,module-not-measured,already-imported,couldnt-parse,\
trace-changed,include-ignored,dynamic-conflict,no-contexts,no-ctracer,no-sysmon,context-conflict
"""


def _coverage() -> Any:
    """The library; here, as a program that only says what its options are does not need it."""
    import coverage

    return coverage


def copy(root: Path, to: Path) -> None:
    """What git has and does not ignore, as it is now; what is gone there goes here."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        capture_output=True,
        check=True,
    )
    names = {name for name in listed.stdout.decode().split("\0") if name and (root / name).is_file()}
    for path in [*to.rglob("*")]:
        if path.is_file() and path.suffix != ".pyc" and path.relative_to(to).as_posix() not in names:
            path.unlink()
    for name in names:
        target = to / name
        if not target.exists() or target.read_bytes() != (root / name).read_bytes():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(root / name, target)


def environment() -> dict[str, str]:
    """One BLAS thread, no bytecode that could be of a mutant, and no test of which this process is part."""
    own = {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
    threads = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    return {**own, **threads, "PYTHONDONTWRITEBYTECODE": "1"}


def pytest_command(*arguments: str) -> list[str]:
    """Pytest with the plugin."""
    quick = "not install and not site and not release"
    own = ["-p", "scripts.mutation.plugin", "-p", "no:cacheprovider", "-q", "--tb=no", "-m", quick]
    return [sys.executable, "-m", "pytest", *own, *arguments]


class Lines:
    """What the tests execute, measured in the copy `tree` and kept in the folder `kept` for as long as it holds.

    A test file is measured again when its text has changed, or that of a file of which it executes a line.
    """

    def __init__(self, tree: Path, kept: Path) -> None:
        self.tree, self.kept = tree, kept
        self.seconds: dict[str, float] = {}
        self.failed: set[str] = set()
        self._lines: dict[str, dict[int, set[str]]] = {}
        self._imported: set[tuple[str, int]] = set()

    def measure(self, tests: Iterable[str], say: Callable[[str], object] = print) -> None:
        """Measure the test files that are not, and read all."""
        self.kept.mkdir(parents=True, exist_ok=True)
        everywhere = (path for folder in MEASURED for path in (self.tree / folder).rglob("*.py"))
        code = self._texts(path for path in everywhere if path.parent.name != "mutation")
        wanted = self._texts(self.tree / name for name in tests)
        there = {path: json.loads(path.read_text()) for path in sorted(self.kept.glob("*.json"))}
        owner = {
            name: path
            for path, one in there.items()
            for name, text in one["tests"].items()
            if wanted.get(name) == text and all(code.get(file) == one["code"][file] for file in one["executes"][name])
        }
        missing = sorted(set(wanted) - set(owner))
        if missing:
            say(f"measuring what {len(missing)} test files execute")
            new = self.kept / f"{len(there)}.json"
            self._run(new, missing, {name: wanted[name] for name in missing}, code)
            there[new] = json.loads(new.read_text())
            owner |= dict.fromkeys(missing, new)
        for path, one in there.items():
            own = {name for name, of in owner.items() if of == path}
            if own:
                self._read(path, one, own)

    def _texts(self, paths: Iterable[Path]) -> dict[str, str]:
        return {
            path.relative_to(self.tree).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(paths)
        }

    def _run(self, new: Path, files: list[str], texts: dict[str, str], code: dict[str, str]) -> None:
        parts = new.with_suffix(".parts")
        shutil.rmtree(parts, ignore_errors=True)
        parts.mkdir()
        settings, seconds = parts / "settings", parts / "seconds.json"
        source = ",".join(str(self.tree / folder) for folder in MEASURED)
        settings.write_text(_SETTINGS.format(data=parts / "lines", source=source))
        env = {**environment(), "COVERAGE_PROCESS_START": str(settings), SECONDS: str(seconds)}
        done = subprocess.run(
            pytest_command(*files), cwd=self.tree, env=env, capture_output=True, text=True, check=False
        )
        if not seconds.exists():
            raise ValueError(f"the tests could not be measured: {(done.stdout + done.stderr)[-300:]}")
        whole = _coverage().CoverageData(str(new.with_suffix(".lines")))
        whole.erase()
        for part in sorted(parts.glob("lines.*")):
            one = _coverage().CoverageData(str(part))
            with contextlib.suppress(_coverage().CoverageException):  # of a process that was killed while it wrote
                one.read()
                whole.update(one)
        whole.write()
        found = json.loads(seconds.read_text())
        executes: dict[str, set[str]] = {name: set() for name in files}
        for file, _, names in self._measured(new, found["shared"]):
            for name in names:
                executes.setdefault(name.split("::")[0], set()).add(file)
        found["executes"] = {name: sorted(own) for name, own in executes.items()}
        new.write_text(json.dumps({"code": code, "tests": texts, **found}))
        shutil.rmtree(parts)

    def _measured(self, path: Path, shared: dict[str, list[str]]) -> Iterator[tuple[str, int, list[str]]]:
        """Each line that was executed, with the tests that did; "" stands for an import."""
        data = _coverage().CoverageData(str(path.with_suffix(".lines")))
        data.read()
        for file in data.measured_files():
            name = Path(file).relative_to(self.tree).as_posix()
            for line, contexts in data.contexts_by_lineno(file).items():
                yield name, line, [test for context in contexts for test in _tests_of(context, shared)]

    def _read(self, path: Path, one: dict[str, Any], own: set[str]) -> None:
        self.seconds |= {name: s for name, s in one["seconds"].items() if name.split("::")[0] in own}
        self.failed |= set(one["failed"])
        for file, line, names in self._measured(path, one["shared"]):
            if "" in names:
                self._imported.add((file, line))
            tests = self._lines.setdefault(file, {}).setdefault(line, set())
            tests |= {name for name in names if name.split("::")[0] in own}

    def for_line(self, file: str, source: str, line: int) -> set[str]:
        """The tests that a mutant on this line may fail.

        Those that execute its statement; of a line that runs on import, those that execute anything of what it is in:
        the function that it heads, else the class, else the file; and the file's own tests, which may only read it.
        """
        spans = sorted(_spans(ast.parse(source), line), key=lambda span: span[1] - span[0])
        if (file, line) not in self._imported:
            return self._of(file, [line]) or self._of(file, range(spans[0][0], spans[0][1] + 1))
        own = {test for test in self.seconds if is_own(test, file) and test not in self.failed}
        for first, last in spans:
            later = [one for one in range(first, last + 1) if (file, one) not in self._imported]
            if self._of(file, later):
                return own | self._of(file, range(first, last + 1))
        return own | self._of(file, [line])

    def _of(self, file: str, lines: Iterable[int]) -> set[str]:
        executed = self._lines.get(file, {})
        tests = {test for line in lines for test in executed.get(line, ())}
        return {t for t in tests if t in self.seconds and t not in self.failed and not t.startswith(OF_THE_TEXT)}

    def in_order(self, file: str, tests: Iterable[str], budget: float) -> tuple[list[tuple[str, float]], bool]:
        """Tests with their seconds, within a budget; whether any is left out.

        All of the file's own first; then of each function the quickest.
        """
        by_function: dict[str, list[str]] = {}
        for test in sorted(tests, key=lambda test: (self.seconds[test], test)):
            by_function.setdefault(test.partition("[")[0], []).append(test)
        turns = sorted(
            (not is_own(test, file), number, self.seconds[test], test)
            for own in by_function.values()
            for number, test in enumerate(own)
        )
        chosen: list[tuple[str, float]] = []
        total = 0.0
        for *_, seconds, test in turns:
            if total + seconds <= budget or not chosen:
                chosen.append((test, seconds))
                total += seconds
        return chosen, len(chosen) < len(turns)


def is_own(test: str, file: str) -> bool:
    """Whether a test is of the test file that has the name of a file, test_NAME.py."""
    return test.split("::")[0].endswith(f"/test_{file.rpartition('/')[2]}")


def _tests_of(context: str, shared: dict[str, list[str]]) -> list[str]:
    """The tests that a context of coverage's stands for."""
    if context.startswith("fixture "):
        return shared.get(context, [])
    if context.endswith((" (call)", " (setup)", " (teardown)")):  # a process that a test has started
        context = context.rpartition(" ")[0]
    return [context] if "::" in context or not context else []


def first_of_each(tests: list[tuple[str, float]]) -> list[tuple[str, float]]:
    """Of the tests that are one function with several parameters the first."""
    firsts: dict[str, tuple[str, float]] = {}
    for test in tests:
        firsts.setdefault(test[0].partition("[")[0], test)
    return [*firsts.values()]


def _spans(tree: ast.Module, line: int) -> Iterable[tuple[int, int]]:
    """First and last line of the statements that a line is in: of one that has a body, its head, then all of it."""
    yield 1, tree.body[-1].end_lineno or 1
    for node in ast.walk(tree):
        if not isinstance(node, ast.stmt):
            continue
        heads = [getattr(one, "lineno", node.lineno) for one in getattr(node, "decorator_list", [])]
        first, last = min([node.lineno, *heads]), node.end_lineno or node.lineno
        if first <= line <= last:
            body = getattr(node, "body", None)
            if isinstance(body, list) and line < body[0].lineno:
                yield first, body[0].lineno - 1
            yield first, last
