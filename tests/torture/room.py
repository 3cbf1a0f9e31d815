"""The room of the trials: runs that nothing was done to, copies of them, and the uses that a folder is put to."""

import contextlib
import os
import random
import re
import shlex
import shutil
import signal
import stat
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ortho_ref.training import checkpoint
from ortho_ref.training.run_folder import CONFIG, LAST, METRICS_FILE, PREVIOUS, RUN_FILES
from tests.scripts.runs import Forks
from tests.scripts.test_train import RUN, end_of as left_by
from tests.torture.judging import SURVIVED, WRONG, Verdict, judge, must_survive, worst

#: Seconds for one use, and bytes that it may ask for on top of what a fork has.
LIMIT, MEMORY = 60.0, 2 << 30
#: Runs by name: the same options with another seed, and complex weights with other optimizers and another loss.
COMPLEX = shlex.split(
    "adding --model full-urnn --hidden 4 --length 6 --batch 2 --lr 0.01 --iterations 24 --log-every 3 --eval-every 10 "
    "--checkpoint-every 4 --clip norm:1 --dtype float64"
)
RUNS = {"run": RUN, "sister": [*RUN, "--seed", "1"], "complex": COMPLEX}
#: States of a run by the update at which it was ended: stopped early, killed behind its last checkpoint, finished.
STATES = {"early": (7, signal.SIGTERM), "killed": (15, signal.SIGKILL), "finished": (None, None)}
#: Checkpoints to go on from, beside the last.
WHICH = ("previous", "best")


@dataclass(frozen=True)
class Use:
    """Something that is done with a run's folder."""

    name: str
    module: str
    arguments: Callable[[Path, Path], list[Any]]
    writes: bool = False

    def __str__(self) -> str:
        return self.name


def _resume(*more: str) -> Callable[[Path, Path], list[Any]]:
    return lambda folder, aside: [task_of(folder), "--out", folder, "--resume", *more]


def task_of(folder: Path) -> str:
    """The task of the run whose copy it is, whatever its config says by now."""
    return RUNS[folder.name][0]


def to_go_on(name: str, folder: Path) -> list[Any]:
    """The command line that goes on with a run, or begins it where nothing has begun."""
    if (folder / CONFIG).exists():
        return [RUNS[name][0], "--out", folder, "--resume"]
    return [*RUNS[name], "--out", folder]


USES = {
    use.name: use
    for use in (
        Use("load", "tests.torture.reading", lambda folder, aside: ["load", folder]),
        Use("read_metrics", "tests.torture.reading", lambda folder, aside: ["metrics", folder]),
        Use("evaluate", "scripts.evaluate", lambda folder, aside: [folder, "--json"]),
        Use("evaluate --which last", "scripts.evaluate", lambda folder, aside: [folder, "--which", "last", "--json"]),
        Use("plot", "scripts.plot", lambda folder, aside: [folder, "--out", aside / "picture.png"]),
        Use("train --resume", "scripts.train", _resume(), writes=True),
        *(Use(f"train --resume --which {w}", "scripts.train", _resume("--which", w), writes=True) for w in WHICH),
    )
}
READERS = [use for use in USES.values() if not use.writes]


@dataclass
class Outcome:
    """What came of a trial."""

    what: str
    verdicts: list[tuple[str, Verdict]] = field(default_factory=list)

    def add(self, use: object, verdict: Verdict) -> None:
        """The verdict on one of its uses."""
        self.verdicts.append((str(use), verdict))

    @property
    def kind(self) -> str:
        """That of the worst of its uses."""
        return worst(verdict for _, verdict in self.verdicts).kind

    @property
    def wrong(self) -> list[str]:
        """Each use that is wrong, and why."""
        return [f"{use}: {verdict.why}" for use, verdict in self.verdicts if verdict.kind == WRONG]


class Room:
    """A folder with every run in every state; forks for each thread that asks."""

    def __init__(self, folder: Path, limit: float = LIMIT, forks: Forks | None = None) -> None:
        self.folder, self.limit = folder, limit
        self._own, self._every = threading.local(), list[Forks]()
        if forks is not None:  # somebody else's, who ends them
            self._own.forks = forks
        self.expected: dict[tuple[str, str], Any] = {}
        self.calls: dict[str, dict[str, int]] = {}
        self.recorded: dict[tuple[str, str], int] = {}
        for name in RUNS:
            self._make(name)

    # processes

    @property
    def forks(self) -> Forks:
        """Of this thread."""
        if not hasattr(self._own, "forks"):
            self._own.forks = Forks()
            self._every.append(self._own.forks)
        forks: Forks = self._own.forks
        return forks

    def several(self, number: int) -> list[Forks]:
        """So many more of this thread."""
        more: list[Forks] = self._own.__dict__.setdefault("more", [])
        while len(more) < number:
            more.append(Forks())
            self._every.append(more[-1])
        return more[:number]

    def run(self, module: str, *arguments: Any, **options: Any) -> dict[str, Any]:
        """`Forks.run` within the room's limits."""
        given = {"limit": self.limit, "memory": MEMORY, "picture": module == "scripts.plot"} | options
        return self.forks.run(module, *arguments, **given)

    def close(self) -> None:
        """End of its processes."""
        for forks in self._every:
            forks.close()

    # untouched runs

    def state(self, name: str, state: str) -> Path:
        """The folder of a run in a state, to be left as it is."""
        return self.folder / state / name

    def _make(self, name: str) -> None:
        folder = self.folder / "running" / name
        words: list[Any] = [*RUNS[name], "--out", folder]
        for state, (update, number) in STATES.items():
            ending = {"at": "update", "number": update, "send": [number]} if number else {}
            end = self.run("scripts.train", *words, **ending)
            assert end["code"] in (0, 128 + signal.SIGTERM, -signal.SIGKILL), end
            self.calls.setdefault(name, end["calls"])
            shutil.copytree(folder, self.state(name, state))
            size = len(checkpoint.load(folder / LAST)["metrics"])
            self.recorded[name, state] = (folder / METRICS_FILE).read_bytes()[:size].count(b"\n")
            words = [RUNS[name][0], "--out", folder, "--resume"]
        whole = self.folder / "whole" / name
        end = self.run("scripts.train", *RUNS[name], "--out", whole, at="step", number=0)
        assert end["code"] == 0, end
        self.calls[name] = end["calls"]
        self.expected["whole", name] = end_of(whole)
        assert end_of(folder) == end_of(whole)
        shutil.rmtree(folder)

    def untouched(self, name: str, state: str, use: Use) -> Any:
        """What a use of the untouched run gives: asked once."""
        key = state, name, use.name
        if key not in self.expected:
            with self.scratch() as aside:
                folder = aside / name
                shutil.copytree(self.state(name, state), folder)
                end = self.run(use.module, *use.arguments(folder, aside))
                self.expected[key] = result_of(use, folder, aside, end) if end["code"] == 0 else None
                if use.writes and end["code"] == 0:
                    other = differs(self.expected["whole", name], lambda: self.expected[key])
                    assert other in ("", "other files than the untouched run's"), (key, other)
        return self.expected[key]

    def uses(self, name: str, state: str) -> list[Use]:
        """What can be done with the untouched run: an early one has no best checkpoint yet."""
        return [use for use in USES.values() if self.untouched(name, state, use) is not None]

    def lines_of_the_run(self, name: str, state: str, folder: Path) -> bool:
        """Whether the folder's metrics are what a run that was killed could have left: its lines, from the first to one
        that its checkpoint records or a later one; of a finished run all."""
        if not (folder / METRICS_FILE).is_file():
            return False
        try:
            lines = (folder / METRICS_FILE).read_bytes().split(b"\n")[:-1]
            own = (self.state(name, "finished") / METRICS_FILE).read_bytes().split(b"\n")
        except OSError:
            return False
        same = [_without_speed(a) == _without_speed(b) for a, b in zip(lines, own, strict=False)]
        return all(same) and self.recorded[name, state] <= len(lines) <= len(own) - 1

    @contextlib.contextmanager
    def scratch(self) -> Iterator[Path]:
        """A folder for one trial."""
        folder = Path(tempfile.mkdtemp(dir=self.folder))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    # uses

    def use(
        self,
        use: Use,
        name: str,
        state: str,
        damage: Callable[[Path], Any],
        names: tuple[str, ...],
        aside: Path,
        also: tuple[str, ...] = (),
    ) -> Verdict:
        """The verdict on one use of a damaged copy, which has to be as it was where it is refused or only read.

        names: what a refusal has to name one of.
        also: states whose results are as good: the files are what a kill could have left.
        """
        folder = aside / "folder" / name
        shutil.rmtree(aside / "folder", ignore_errors=True)
        shutil.copytree(self.state(name, state), folder)
        damage(folder)
        before = contents(folder)
        end = self.run(use.module, *use.arguments(folder, aside), cwd=str(aside))

        def difference() -> str:
            other = differs(self.untouched(name, state, use), lambda: result_of(use, folder, aside, end))
            if other and use.name in ("plot", "read_metrics") and self.lines_of_the_run(name, state, folder):
                return ""
            if any(end["stdout"] == self.untouched(name, good, use) for good in also if other and not use.writes):
                return ""
            return other

        verdict = judge(end, difference, names)
        if (verdict.kind != SURVIVED or not use.writes) and (changed := changes(before, contents(folder))):
            return worst([verdict, Verdict(WRONG, f"{verdict.kind}, and the folder is not as it was: {changed}")])
        return verdict

    def finish(self, outcome: Outcome, name: str, folder: Path) -> Outcome:
        """Nothing is in the way of a run any more: it goes on, and its result is that of one left alone."""
        end = self.run("scripts.train", *to_go_on(name, folder))
        expected = self.expected["whole", name]
        outcome.add("train to the end", must_survive(judge(end, lambda: differs(expected, lambda: end_of(folder)))))
        return outcome


def end_of(folder: Path) -> dict[str, Any]:
    """All that a finished run leaves, but for the checkpoint before the last: where it is depends on where the run was
    stopped.  What a checkpoint says of the config goes with the config."""
    # some would be read for ever
    if strange := [path.name for path in folder.iterdir() if not path.is_file() and path.name != PREVIOUS]:
        raise ValueError(f"{', '.join(strange)} is no file")
    whole: dict[str, Any] = left_by(folder)
    for name in ("last", "best"):
        del whole[name]["config_sha256"]
    return whole | {"files": [name for name in whole["files"] if name != PREVIOUS]}


def result_of(use: Use, folder: Path, aside: Path, end: dict[str, Any]) -> Any:
    """What counts of a use: all that a finished run leaves, a picture, or the figures on stdout."""
    if use.writes:
        return end_of(folder)
    if use.name == "plot":
        return (aside / "picture.png").read_bytes()
    return end["stdout"]


def _without_speed(line: bytes) -> bytes:
    """A line of metrics without what differs from run to run."""
    return re.sub(rb'"(steps_per_second|sha256)": [^,}]*', b"", line)


def differs(expected: Any, found: Callable[[], Any]) -> str:
    """In what a result is another than expected; "" if in nothing."""
    try:
        own = found()
    except Exception as error:
        return f"the result cannot be read: {type(error).__name__}: {error}"[:300]
    if own == expected:
        return ""
    if isinstance(own, dict) and isinstance(expected, dict):
        keys = [key for key in expected.keys() | own.keys() if own.get(key) != expected.get(key)]
        return f"other {', '.join(map(str, sorted(keys)))} than the untouched run's"
    return "another result than the untouched run's"


def contents(folder: Path) -> dict[str, Any]:
    """Name -> what lies there: bytes of a file, target of a link, kind of all else. The lock's number aside."""
    found = {}
    for path in folder.iterdir() if folder.is_dir() else ():
        own = path.lstat().st_mode
        if stat.S_ISREG(own):
            found[path.name] = b"" if path.name == "lock" else path.read_bytes()
        else:
            found[path.name] = os.readlink(path) if stat.S_ISLNK(own) else stat.S_IFMT(own)
    return found


def changes(before: dict[str, Any], after: dict[str, Any]) -> str:
    """Names that are not as they were; a lock may come."""
    keys = (before.keys() | after.keys()) - ({"lock"} - before.keys())
    return ", ".join(sorted(key for key in keys if before.get(key) != after.get(key)))


def any_of_the_files(name: str = "run") -> tuple[str, ...]:
    """What a refusal has to name where two files do not fit each other."""
    return (*RUN_FILES, "lock", f"/{name} ")


def described(value: Any) -> str:
    """A value in a trial's description: short, in ASCII."""
    text = ascii(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def chosen(rng: random.Random, room: Room) -> tuple[str, str]:
    """A run and a state of it: mostly the plain one."""
    names = sorted({name for state, name in (key[:2] for key in room.expected) if state == "whole"} - {"sister"})
    return rng.choice(["run", *names]), rng.choice([*STATES])
