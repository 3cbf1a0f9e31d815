"""Servers and archives that are hostile to a download: python -m tests.torture.fetch HASH SIZE KIND MEMBER URL..."""

import random
import sys
import tarfile
import zipfile
from collections.abc import Callable

from scripts import data as program
from scripts.program import run
from tasks import files
from tests.tasks.served import (
    CONTENT,
    HOSTILE,
    PACKED,
    encrypted,
    headed,
    many_zipped,
    served,
    set_of,
    sha256,
    tarred,
    zipped,
)
from tests.torture.judging import WRONG, Verdict, judge, must_survive, worst
from tests.torture.room import Outcome, Room

COUNT = 100
#: Archives that are what their hash says: a kind and how to make one.
ARCHIVES: dict[str, tuple[str, Callable[[], bytes]]] = {
    "300,000 entries in a zip": ("zip", lambda: many_zipped(300_000)),
    "300,000 entries in a tar": ("tar", lambda: headed(300_000)),
    "a path upwards in a zip": ("zip", lambda: zipped({"../words.txt": CONTENT, "words.txt": CONTENT})),
    "a path upwards in a tar": ("tar", lambda: tarred({"../words.txt": CONTENT, "words.txt": CONTENT})),
    "a link": ("tar", lambda: tarred({"words.txt": b""}, tarfile.SYMTYPE)),
    "a hard link": ("tar", lambda: tarred({"words.txt": b""}, tarfile.LNKTYPE)),
    "a device": ("tar", lambda: tarred({"words.txt": b""}, tarfile.CHRTYPE)),
    "a bomb in a zip": ("zip", lambda: zipped({"words.txt": bytes(1 << 28)})),
    "a bomb in a zip, by bzip2": ("zip", lambda: zipped({"words.txt": bytes(1 << 28)}, zipfile.ZIP_BZIP2)),
    "a bomb in a tar": ("tar", lambda: tarred({"words.txt": bytes(1 << 28)})),
    "a bomb beside it": ("tar", lambda: tarred({"more": bytes(1 << 28), "words.txt": CONTENT})),
    "a header of a bomb": ("tar", lambda: headed(1, tarfile.XHDTYPE, 1 << 28, bytes(1 << 28))),
    "a header of 8 GiB": ("tar", lambda: headed(1, tarfile.GNUTYPE_LONGNAME, (8 << 30) - 1)),
    "headers of headers": ("tar", lambda: headed(99_999, tarfile.GNUTYPE_LONGNAME)),
    "an encrypted zip": ("zip", encrypted),
}


def trial(room: Room, rng: random.Random) -> Outcome:
    """One line that names the url or the host, and nothing is left; what a second mirror has is fetched."""
    kind, data, member = "file", CONTENT, ""
    with room.scratch() as aside, served() as server:
        what = rng.choice([*HOSTILE, *ARCHIVES, *["a flip"] * 10, *["a cut"] * 3])
        path = f"/{what}" if what in HOSTILE else "/archive"
        if what in ARCHIVES:
            kind, make = ARCHIVES[what]
            data, member = make(), "words.txt"
        elif what not in HOSTILE:
            kind = rng.choice([*PACKED])
            data, member = PACKED[kind]
            at = rng.randrange(len(data))
            flipped = data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]
            data = flipped if what == "a flip" else data[:at]
        server.have = {"/archive": (data, None), "/right": (CONTENT, None)}
        outcome = Outcome(f"{what}, {kind}")
        paths = [path, "/right"] if kind == "file" and data == CONTENT and rng.random() < 0.3 else [path]
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
