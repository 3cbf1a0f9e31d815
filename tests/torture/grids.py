"""A grid of runs, of which workers and program are killed again and again."""

import random
from pathlib import Path

from tests.scripts.grids import bits, kill_a_cluster, kill_at_random, run, table_of, tiny
from tests.torture.judging import SURVIVED, WRONG, Verdict
from tests.torture.room import Outcome, Room

COUNT = 1
RUNS, KILLS = 12, 20


def trial(room: Room, rng: random.Random) -> Outcome:
    """Twelve runs and twenty SIGKILLs: the table and the bits of a grid that was left alone."""
    outcome = Outcome(f"{RUNS} runs, {KILLS} times SIGKILL")
    with room.scratch() as aside:
        path = _left_alone(aside, outcome)
        killed = kill_at_random(path, aside / "killed", KILLS, rng.getrandbits(32))
        outcome.what += f": {killed['worker']} of workers, {killed['program']} of the program"
        same = bits(aside / "killed") == bits(aside / "left-alone")
        same = same and table_of(path, aside / "killed") == table_of(path, aside / "left-alone")
        whole = len(bits(aside / "killed")) == RUNS
        outcome.add("killed", Verdict(SURVIVED) if same and whole else Verdict(WRONG, "other bits, or fewer runs"))
    return outcome


def _left_alone(aside: Path, outcome: Outcome) -> Path:
    """The file of a grid, once that was run to its end."""
    path: Path = tiny(aside, seeds=RUNS // 2, iterations=120)
    code, _, stderr = run("run", path, "--out", aside / "left-alone", "--jobs", 2, "--no-estimate", real=True)
    outcome.add("left alone", Verdict(WRONG, stderr) if code else Verdict(SURVIVED))
    return path


def cluster(room: Room, rng: random.Random) -> Outcome:
    """Twelve runs, and twenty SIGKILLs of a Dask worker, the scheduler or the program: the bits of one left alone."""
    outcome = Outcome(f"{RUNS} runs on clusters")
    with room.scratch() as aside:
        path = _left_alone(aside, outcome)
        killed = kill_a_cluster(path, aside / "killed", KILLS, rng.getrandbits(32))
        outcome.what += f", killed: {killed}"
        same = bits(aside / "killed") == bits(aside / "left-alone")
        outcome.add("killed", Verdict(SURVIVED) if same else Verdict(WRONG, "other bits, or fewer runs"))
    return outcome
