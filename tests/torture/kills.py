"""Runs that are killed or stopped, once or several times, anywhere; and three writers at one folder."""

import json
import random
import signal
import threading
from pathlib import Path
from typing import Any

from tests.scripts.runs import POINTS
from tests.torture.judging import REFUSED, SURVIVED, WRONG, Verdict, judge, raw_characters
from tests.torture.room import READERS, RUNS, Outcome, Room, any_of_the_files, chosen as chosen_run, to_go_on

COUNT = 100
RACES = 20


def trial(room: Room, rng: random.Random) -> Outcome:
    """Ended up to four times, read after each, and resumed to its end: the result is that of a run left alone."""
    name, _ = chosen_run(rng, room)
    outcome = Outcome("")
    with room.scratch() as aside:
        folder = aside / name
        for _ in range(rng.choice([1, 1, 2, 3, 4])):
            ending, words = _ending(rng, room.calls[name])
            outcome.what += f"{'; ' if outcome.what else f'{name}: '}{words}"
            end = room.run("scripts.train", *to_go_on(name, folder), **ending)
            outcome.add(f"train, {words}", _ended(end))
            for use in rng.sample(READERS, 2):
                outcome.add(use, _read_between(room, use, name, folder, aside))
        return room.finish(outcome, name, folder)


def _ending(rng: random.Random, calls: dict[str, int]) -> tuple[dict[str, Any], str]:
    """Where a run is ended and by what, and that in words."""
    at = rng.choice([*POINTS, "step", "step", "step", "step"])
    send = rng.choice([[9]] * 6 + [[15], [2], [1], [2, 2], [15, 15], [15, 9]])
    number = rng.randint(1, calls[at])
    return {"at": at, "number": number, "send": send}, f"{_names(send)} at {at} {number} of {calls[at]}"


def _names(send: list[int]) -> str:
    return " and ".join(signal.Signals(number).name for number in send)


def _ended(end: dict[str, Any]) -> Verdict:
    """By the signal itself, or saved; or the run was over before."""
    if end["code"] in (-9, -15, -1, -2, 0) or (end["code"] == 1 and not end["stderr"]):
        return Verdict(SURVIVED)
    stopped = 128 + 15, 128 + 2, 128 + 1
    if end["code"] in stopped and "to go on" in end["stderr"] and "Traceback" not in end["stderr"]:
        raw = raw_characters(end["stderr"])
        return Verdict(WRONG, f"{raw!r} raw on stderr") if raw else Verdict(SURVIVED)
    # broken off by the second signal, or the first while nothing listened: in one line
    refused = judge(end, lambda: "", goes=True, codes=stopped)
    return Verdict(SURVIVED, refused.why) if refused.kind == REFUSED else refused


def _read_between(room: Room, use: Any, name: str, folder: Path, aside: Path) -> Verdict:
    """Whoever reads a run that was ended gets lines of the untouched run, or is told in one line what is missing."""
    end = room.run(use.module, *use.arguments(folder, aside))

    def difference() -> str:
        if use.name == "read_metrics":
            found = json.loads(end["stdout"])
            whole = room.expected["whole", name]["metrics"]
            return "" if found == whole[: len(found)] else "other lines than the untouched run's"
        if use.name == "plot":
            return "" if (aside / "picture.png").read_bytes() else "an empty picture"
        return ""

    verdict = judge(end, difference, (*any_of_the_files(name), str(folder)))
    return Verdict(SURVIVED, verdict.why) if verdict.kind == REFUSED else verdict


def race(room: Room, rng: random.Random) -> Outcome:
    """Three processes at one folder at once, to begin or to go on: each finishes or is refused; the result is right."""
    ways = rng.choice([("begin",) * 3, ("go on",) * 3, ("begin", "begin", "go on"), ("begin", "go on", "go on")])
    outcome = Outcome(f"three at one folder: {', '.join(ways)}")
    with room.scratch() as aside:
        folder = aside / "run"
        if ways[0] == "go on":
            room.run("scripts.train", *RUNS["run"], "--out", folder, at="update", number=rng.randint(1, 23), send=[9])
        ends = _at_once(room, ways, folder, rng)
        for way, end in zip(ways, ends, strict=True):
            outcome.add(way, judge(end, lambda: "", (str(folder),)))
        room.finish(outcome, "run", folder)
    if outcome.kind == REFUSED:  # two of three are, as it should be
        outcome.verdicts = [(use, Verdict(SURVIVED, verdict.why)) for use, verdict in outcome.verdicts]
    return outcome


def _at_once(room: Room, ways: tuple[str, ...], folder: Path, rng: random.Random) -> list[dict[str, Any]]:
    """The ends of processes that are begun together."""
    ends: list[dict[str, Any]] = [{} for _ in ways]
    together = threading.Barrier(len(ways))
    forks = room.several(len(ways))
    for own in forks:
        own.run("tests.torture.reading", "metrics", folder)  # it is up: all begin at once

    def one(i: int) -> None:
        words = [RUNS["run"][0], "--resume"] if ways[i] == "go on" else RUNS["run"]
        together.wait()
        ends[i] = forks[i].run("scripts.train", *words, "--out", folder, picture=False, limit=room.limit)

    order = rng.sample(range(len(ways)), len(ways))
    threads = [threading.Thread(target=one, args=(i,)) for i in order]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return ends
