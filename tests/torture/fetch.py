"""Hostile servers, archives that come damaged: python -m tests.torture.fetch HASH SIZE KIND MEMBER URL..."""

import random
import sys

from scripts import data as program
from scripts.program import run
from tasks import files
from tests.tasks.served import CONTENT, HOSTILE, PACKED, served, set_of, sha256
from tests.torture.judging import WRONG, Verdict, judge, must_survive, worst
from tests.torture.room import Outcome, Room

COUNT = 100


def trial(room: Room, rng: random.Random) -> Outcome:
    """One line that names the url or the host, and nothing is left; what a second mirror has is fetched."""
    kind, data, member = "file", CONTENT, ""
    with room.scratch() as aside, served() as server:
        what = rng.choice([*HOSTILE, *["a flip"] * 10, *["a cut"] * 3])
        path = f"/{what}" if what in HOSTILE else "/archive"
        if what not in HOSTILE:
            kind = rng.choice([*PACKED])
            data, member = PACKED[kind]
        at = rng.randrange(len(data))
        flipped = data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]
        server.have = {"/archive": (flipped if what == "a flip" else data[:at], None), "/right": (data, None)}
        outcome = Outcome(f"{what}, {kind}")
        paths = [path, "/right"] if rng.random() < 0.3 else [path]
        environment = {files.CACHE: str(aside / "cache"), "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
        words = [f"sha256:{sha256(data)}", len(data), kind, member, *(server.url + own for own in paths)]
        end = room.run("tests.torture.fetch", *words, environment=environment)
        own = aside / "cache" / "made" / "words.txt"
        good = "" if own.is_file() and own.read_bytes() == CONTENT else "other contents"
        verdict = judge(end, lambda: good, (server.url, server.url[7:]), goes=True)
        left = [str(p.relative_to(aside)) for p in (aside / "cache").rglob("*") if p not in (own, own.parent)]
        if left or (end["code"] and own.parent.exists()):
            verdict = worst([verdict, Verdict(WRONG, f"left in the cache: {', '.join(left[:3]) or own.parent}")])
        outcome.add("fetch", must_survive(verdict) if len(paths) == 2 else verdict)
    return outcome


if __name__ == "__main__":
    files.PATIENCE, files.SLOWEST = 1, 2
    known, size, form, within, *urls = sys.argv[1:]
    sys.argv[1:], program.SETS["made"] = ["fetch", "made"], set_of(urls, known, int(size), form, within)
    run(program.main)
