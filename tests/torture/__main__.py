"""An hour of it: python -m tests.torture --seed 1

One trial again: --only flips --trial 17. The table goes into docs/reliability.md with --write. Exit code 1 if anything
was wrong.
"""

import argparse
import collections
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from tests.torture import (
    command_lines,
    disks,
    experiment_files,
    fetch,
    flips,
    grids,
    hostile_adapters,
    hostile_files,
    kills,
    own_data,
)
from tests.torture.judging import REFUSED, SURVIVED, WRONG
from tests.torture.room import Outcome, Room
from tests.torture.table import PAGE, replaced, rows


class Kind(NamedTuple):
    """A kind of trials: its name, in words, how many in the hour, and one."""

    name: str
    words: str
    count: int
    trial: Callable[[Room, random.Random], Outcome]


KINDS = (
    Kind("kills", "runs killed and stopped, up to four times each", kills.COUNT, kills.trial),
    Kind("races", "three writers at one folder", kills.RACES, kills.race),
    Kind("grids", "grids of runs whose workers and program are killed", grids.COUNT, grids.trial),
    Kind("cluster", "grids on a cluster whose workers, scheduler and program are killed", grids.COUNT, grids.cluster),
    Kind("flips", "flips and cuts; files of other runs or days", flips.COUNT, flips.trial),
    Kind("disks", "full and broken disks", disks.COUNT, disks.trial),
    Kind("fetch", "hostile servers, damaged archives", fetch.COUNT, fetch.trial),
    Kind("files", "hostile files", hostile_files.COUNT, hostile_files.trial),
    Kind("folders", "folders without a run", hostile_files.FOLDERS, hostile_files.folders),
    Kind("links", "links in a run's folder to somebody's files", hostile_files.LINKS, hostile_files.links),
    Kind("data", "one's own data, and others", own_data.COUNT, own_data.trial),
    Kind("adapters", "hostile adapters and programs", hostile_adapters.COUNT, hostile_adapters.trial),
    Kind("lines", "command lines that make no sense", command_lines.COUNT, command_lines.trial),
    Kind("toml", "hostile experiment files", experiment_files.COUNT, experiment_files.trial),
    Kind("inside", "adapters that rewrite or end their process", hostile_adapters.INSIDE, hostile_adapters.inside),
)


class Trial(NamedTuple):
    """What came of the trial of this number."""

    number: int
    outcome: Outcome


def one(room: Room, kind: Kind, seed: int, number: int) -> Trial:
    """A trial; the same again for the same seed and number."""
    return Trial(number, kind.trial(room, random.Random(f"{kind.name}/{seed}/{number}")))


def every(room: Room, kind: Kind, seed: int, count: int, processes: int) -> Iterator[Trial]:
    """So many trials, in their order."""
    with ThreadPoolExecutor(processes) as threads:
        yield from threads.map(lambda number: one(room, kind, seed, number), range(count))


def main(arguments: list[str] | None = None) -> int:
    """Run them, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.torture", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", action="append", choices=[kind.name for kind in KINDS])
    parser.add_argument("--trial", type=int, help="of one kind, this one alone")
    parser.add_argument("--share", type=float, default=1.0, help="of the hour's trials")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--limit", type=float, default=60.0, help="seconds that a use may take")
    parser.add_argument("--write", action="store_true", help="put the table into docs/reliability.md")
    given = parser.parse_args(arguments)
    chosen = [kind for kind in KINDS if given.only is None or kind.name in given.only]
    print(f"the same trials again: python -m tests.torture --seed {given.seed}", flush=True)
    begun, table = time.monotonic(), {}
    with tempfile.TemporaryDirectory() as folder:
        room = Room(Path(folder), limit=given.limit)
        try:
            for kind in chosen:
                if given.trial is not None:
                    trials: Iterator[Trial] = iter([one(room, kind, given.seed, given.trial)])
                else:
                    trials = every(room, kind, given.seed, max(1, round(kind.count * given.share)), given.processes)
                table[kind] = _told(kind, trials, begun, show=given.trial is not None)
        finally:
            room.close()
    lines = rows(
        {kind.words: counts for kind, counts in table.items()}, given.seed, time.monotonic() - begun, given.share
    )
    print("\n".join(lines))
    if given.write:
        PAGE.write_text(replaced(PAGE.read_text(), lines))
    return 1 if any(counts[WRONG] for counts in table.values()) else 0


def _told(kind: Kind, trials: Iterator[Trial], begun: float, show: bool) -> collections.Counter[str]:
    """How many came out how; each that is wrong as it comes, and now and then how far it is."""
    counts: collections.Counter[str] = collections.Counter({SURVIVED: 0, REFUSED: 0, WRONG: 0, "uses": 0})
    for number, outcome in trials:
        counts[outcome.kind] += 1
        counts["uses"] += len(outcome.verdicts)
        for line in outcome.wrong:
            print(ascii(f"{kind.name} {number}, {outcome.what}: {line}")[1:-1], flush=True)
        if show:
            for use, verdict in outcome.verdicts:
                print(ascii(f"{kind.name} {number}, {outcome.what}: {use}: {verdict}")[1:-1])
        tried = counts[SURVIVED] + counts[REFUSED] + counts[WRONG]
        if tried % 50 == 0:
            print(
                f"{(time.monotonic() - begun) / 60:.0f} minutes; {kind.name}: {tried}, {counts[WRONG]} wrong",
                flush=True,
            )
    return counts


if __name__ == "__main__":
    sys.exit(main())
