"""Whether the tests kill a mutant: in a fork of a process that has collected them, or in a process of its own."""

import contextlib
import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any, NamedTuple

from scripts.mutation.lines import environment, pytest_command
from scripts.mutation.mutant import Mutant
from scripts.mutation.plugin import SERVE, TESTS, TIMED_OUT

#: A test may take this many seconds, and this many times its own, before its mutant counts as timed out.
AT_LEAST, TIMES = 10.0, 10.0
#: Importing and collecting.
START = 120.0


class Outcome(NamedTuple):
    """killed, timed out or survived; the test that failed; seconds."""

    outcome: str
    by: str
    seconds: float


class Server:
    """Pytest in a copy of the tree, which forks for every mutant."""

    def __init__(self, tree: Path, files: list[str]) -> None:
        self.tree, self.files = tree, files
        (own_read, jobs), (answers, own_write) = os.pipe(), os.pipe()
        env = {**environment(), SERVE: f"{own_read},{own_write}"}
        self._log = (tree.parent / f"{tree.name}.log").open("w")
        self._process = subprocess.Popen(
            pytest_command("--basetemp", str(tree.parent / f"{tree.name}-temporary"), *files),
            cwd=tree,
            env=env,
            pass_fds=(own_read, own_write),
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )
        os.close(own_read)
        os.close(own_write)
        self._jobs, self._answers = os.fdopen(jobs, "w"), os.fdopen(answers)
        if not self._answers.readline():
            raise ValueError(f"pytest does not start; {self._log.name} says why")

    def warm(self, mutant: Mutant, tests: list[tuple[str, float]]) -> Outcome | None:
        """With the functions exchanged in what is imported already; None where that cannot be."""
        job = {"file": mutant.place.file, "source": mutant.source, "tests": _limits(tests)}
        print(json.dumps(job), file=self._jobs, flush=True)
        line = self._answers.readline()
        if not line:
            raise ValueError(f"pytest has ended; {self._log.name} says why")
        answer = json.loads(line)
        return None if answer["outcome"] == "cold" else Outcome(**answer)

    def cold(self, mutant: Mutant | None, tests: list[tuple[str, float]]) -> Outcome:
        """With everything imported anew, from the mutant if there is one."""
        if mutant is None:
            return _in_its_own_process(self.tree, tests)
        path = self.tree / mutant.place.file
        original = path.read_bytes()
        path.write_text(mutant.source)
        try:
            return _in_its_own_process(self.tree, tests)
        finally:
            path.write_bytes(original)

    def close(self) -> None:
        """End it."""
        self._jobs.close()
        self._process.wait()
        self._answers.close()
        self._log.close()


def _in_its_own_process(tree: Path, tests: list[tuple[str, float]]) -> Outcome:
    """Run tests of a tree in a process of its own, up to the first that fails."""
    listed = tree.parent / f"{tree.name}-tests.json"
    answer = Path(f"{listed}.answer")
    answer.unlink(missing_ok=True)
    listed.write_text(json.dumps(_limits(tests)))
    files = list(dict.fromkeys(name.split("::")[0] for name, _ in tests))
    env: dict[str, Any] = {**environment(), TESTS: str(listed)}
    command = pytest_command("--basetemp", str(tree.parent / f"{tree.name}-temporary"), *files)
    start = time.monotonic()
    nothing = subprocess.DEVNULL
    process = subprocess.Popen(
        command, cwd=tree, env=env, start_new_session=True, stdin=nothing, stdout=nothing, stderr=nothing
    )
    try:
        code = process.wait(START + sum(limit for _, limit in _limits(tests)))
    except subprocess.TimeoutExpired:
        code = TIMED_OUT
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    by = answer.read_text() if answer.exists() else ""
    outcome = {0: "survived", TIMED_OUT: "timed out"}.get(code, "killed")
    return Outcome(outcome, by or (f"exit code {code}" if code else ""), time.monotonic() - start)


def _limits(tests: list[tuple[str, float]]) -> list[tuple[str, float]]:
    return [(name, AT_LEAST + TIMES * seconds) for name, seconds in tests]
