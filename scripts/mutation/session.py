"""Trying the mutants of a folder: what has been tried is noted, and is not tried again while it holds."""

import hashlib
import json
import queue
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from scripts.mutation.folders import FOLDERS, files_of
from scripts.mutation.lines import Lines, copy, first_of_each
from scripts.mutation.mutant import Mutant
from scripts.mutation.mutants import make, places, shuffled
from scripts.mutation.reasons import Reason, name_of
from scripts.mutation.score import Score
from scripts.mutation.trial import Outcome, Server

#: Seconds of tests for a mutant that has its reason: to find a wrong one.
LISTED = 3.0
#: Seconds of tests that have to pass before any mutant is tried.
CONTROL = 10.0


class Session:
    """Copies of a tree, what its tests execute, and the notes of earlier sessions in a folder.

    tests: the test files to use. budget: seconds of tests for a mutant. until: when to stop (`time.monotonic`).
    """

    def __init__(
        self,
        root: Path,
        work: Path,
        tests: list[str],
        jobs: int,
        budget: float,
        until: float,
        say: Callable[[str], None],
    ) -> None:
        self.root, self.tests, self.budget, self.until, self.say = root, tests, budget, until, say
        self._trees = [work / f"copy-{number}" for number in range(jobs)]
        for tree in self._trees:
            tree.mkdir(parents=True, exist_ok=True)
            copy(root, tree)
        self.lines = Lines(self._trees[0], work / "lines")
        self.lines.measure(tests, say)
        self._texts = {name: (root / name).read_text() for name in tests}
        self._notes = work / "results.jsonl"
        self._lock = threading.Lock()

    def noted(self, mutants: list[Mutant], listed: set[tuple[str, ...]]) -> dict[str, dict[str, Any]]:
        """The last note of each mutant that still holds.

        Its file is as it was; if it survived so are the tests that could fail, and it was tried for as long as now.
        """
        last: dict[str, dict[str, Any]] = {}
        if self._notes.exists():
            for line in self._notes.read_text().splitlines():
                note = json.loads(line)
                last[note["key"]] = note
        found = {}
        for mutant in mutants:
            key = mutant.place.key
            if key in last and last[key]["text"] == _digest(mutant.source):
                killed = last[key]["outcome"] != "survived"
                if killed or self._tried_as_now(last[key], mutant, name_of(mutant) in listed):
                    found[key] = last[key]
        return found

    def _tried_as_now(self, note: dict[str, Any], mutant: Mutant, listed: bool) -> bool:
        tests, budget = self._tests_of(mutant, listed)
        return bool(note["tests"] == self._digest_of(tests) and note.get("budget", 0.0) >= budget)

    def _tests_of(self, mutant: Mutant, listed: bool) -> tuple[set[str], float]:
        """The tests that a mutant may fail, and for how many seconds it is tried."""
        source = (self.root / mutant.place.file).read_text()
        budget = min(LISTED, self.budget) if listed else self.budget
        return self.lines.for_line(mutant.place.file, source, mutant.place.line), budget

    def _digest_of(self, tests: set[str]) -> str:
        files = sorted({test.split("::")[0] for test in tests})
        return _digest("\0".join([*sorted(tests), *(self._texts[file] for file in files)]))

    def sampled(self, folder: str, seed: int, number: int) -> tuple[int, list[Mutant]]:
        """How many mutants a folder has, and those of the sample."""
        sources = {name: (self.root / name).read_text() for name in files_of(self.root, FOLDERS[folder])}
        everywhere = [place for name, source in sources.items() for place in places(name, source)]
        chosen: list[Mutant] = []
        for place in shuffled(everywhere, seed):
            if len(chosen) == number:
                break
            mutant = make(place, sources[place.file])
            if mutant is not None:
                chosen.append(mutant)
        return len(everywhere), chosen

    def run(self, mutants: list[Mutant], listed: set[tuple[str, ...]]) -> None:
        """Try those that have no note that holds, in every copy at once; those that are listed for less time."""
        noted = self.noted(mutants, listed)
        left: queue.SimpleQueue[Mutant] = queue.SimpleQueue()
        todo = [mutant for mutant in mutants if mutant.place.key not in noted]
        for mutant in todo:
            left.put(mutant)
        errors: list[BaseException] = []

        def work(tree: Path) -> None:
            server = Server(tree, self.tests)
            try:
                self._control(server)
                while not left.empty() and time.monotonic() < self.until and not errors:
                    mutant = left.get_nowait()
                    self._try(server, mutant, name_of(mutant) in listed)
            except queue.Empty:
                pass
            except BaseException as error:
                errors.append(error)
            finally:
                server.close()

        threads = [threading.Thread(target=work, args=(tree,)) for tree in self._trees[: max(1, len(todo))]]
        if todo:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        if errors:
            raise errors[0]

    def _control(self, server: Server) -> None:
        """ValueError where the tests do not pass without a mutant."""
        good = set(self.lines.seconds) - self.lines.failed
        outcome = server.cold(None, first_of_each(self.lines.in_order("", good, CONTROL)[0]))
        if outcome.outcome != "survived":
            raise ValueError(f"{outcome.by} does not pass in the copy of the tree as it is")

    def _try(self, server: Server, mutant: Mutant, listed: bool) -> None:
        """One mutant: in a fork first; with everything imported anew where that cannot be.

        What survives in a fork is tried with everything imported anew by one test of each function.
        """
        place = mutant.place
        able, budget = self._tests_of(mutant, listed)
        tests, left_out = self.lines.in_order(place.file, able, budget)
        how = "no test"
        outcome = Outcome("survived", "", 0.0)
        if tests:
            warm = server.warm(mutant, tests)
            how = "cold" if warm is None else "warm"
            outcome = warm or outcome
            if warm is None:
                outcome, how = server.cold(mutant, tests), "cold"
            elif warm.outcome == "survived" and not listed:
                outcome, how = server.cold(mutant, first_of_each(tests)), "cold"
        what = {"key": place.key, "line": place.line, "before": mutant.before, "after": mutant.after}
        by = {"number": len(tests), "left_out": left_out, "how": how, "budget": budget, "tests": self._digest_of(able)}
        note = {**what, **outcome._asdict(), **by, "text": _digest(mutant.source)}
        with self._lock, self._notes.open("a") as file:
            print(json.dumps(note), file=file, flush=True)
        if outcome.outcome == "survived" and not listed:
            self.say(f"survived: {place.file}:{place.line} {place.operator}: {mutant.before} -> {mutant.after}")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def score(everywhere: int, mutants: list[Mutant], noted: dict[str, dict[str, Any]], reasons: list[Reason]) -> Score:
    """A folder's score from the notes.  ValueError for a mutant that is listed as equivalent and was killed."""
    equivalent = {reason.mutant for reason in reasons if reason.equivalent}
    counts = dict.fromkeys(("killed", "timed out", "survived", "equivalent"), 0)
    for mutant in mutants:
        note = noted.get(mutant.place.key)
        if note is None:
            continue
        listed = name_of(mutant) in equivalent
        if listed and note["outcome"] != "survived":
            raise ValueError(f"{mutant.place.key} is listed as equivalent, but {note['by']} kills it")
        counts["equivalent" if listed else note["outcome"]] += 1
    tried = sum(counts.values())
    return Score(everywhere, tried, counts["killed"], counts["timed out"], counts["equivalent"])


def survivors(mutants: list[Mutant], noted: dict[str, dict[str, Any]], reasons: list[Reason]) -> list[Mutant]:
    """Those that no test kills, and for which no reason is listed."""
    listed = {reason.mutant for reason in reasons}
    return [
        mutant
        for mutant in mutants
        if noted.get(mutant.place.key, {}).get("outcome") == "survived" and name_of(mutant) not in listed
    ]
