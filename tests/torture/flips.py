"""Flips and cuts: a file of a run that is not what was written, by a disk, a copy or a person.

A bit, a cut, zeros, bytes at its end, its end away, another run's file, yesterday's file, no file, an empty one.
"""

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

from tests.torture.room import STATES, Outcome, Room, any_of_the_files, chosen

COUNT = 500
#: Each of these is read by some use; curve.png is only drawn.
FILES = ("config.json", "metrics.jsonl", "last.safetensors", "best.safetensors", "previous.safetensors", "summary.json")


def flip(path: Path, rng: random.Random) -> str:
    """One bit; in safetensors as often in the header as behind it."""
    data = bytearray(path.read_bytes())
    end = len(data)
    if path.suffix == ".safetensors" and rng.random() < 0.5:
        end = 8 + int.from_bytes(data[:8], "little")
    at, bit = rng.randrange(end), rng.randrange(8)
    data[at] ^= 1 << bit
    path.write_bytes(data)
    return f"bit {bit} of byte {at} flipped"


def cut(path: Path, rng: random.Random) -> str:
    """A part is left; of lines sometimes whole ones."""
    data = path.read_bytes()
    size = rng.randrange(1, len(data))
    if path.suffix == ".jsonl" and rng.random() < 0.5:
        size = data.find(b"\n", size - 1) + 1
        size = size if size < len(data) else data.find(b"\n") + 1
    os.truncate(path, size)
    return f"cut to {size} of {len(data)} bytes"


def zeros(path: Path, rng: random.Random) -> str:
    """A block that never reached the disk."""
    data = bytearray(path.read_bytes())
    at = rng.randrange(len(data))
    size = min(rng.choice([1, 16, 512, 4096]), len(data) - at)
    if not any(data[at : at + size]):
        at, size = 0, min(size, len(data))
    data[at : at + size] = bytes(size)
    path.write_bytes(data)
    return f"{size} zeros at byte {at}"


def longer(path: Path, rng: random.Random) -> str:
    """Bytes behind its end: zeros, noise, or its own beginning once more."""
    data, size = path.read_bytes(), rng.choice([1, 7, 512])
    more = rng.choice([bytes(size), rng.randbytes(size), data[:size], b"\n" * size, data])
    path.write_bytes(data + more)
    return f"{len(more)} bytes {more[:8]!r} appended"


def line_away(path: Path, rng: random.Random) -> str:
    """A whole line gone, doubled, or at another place."""
    lines = path.read_bytes().splitlines(keepends=True)
    at, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    kind = rng.choice(["removed", "doubled", f"exchanged with line {other + 1}"])
    if kind == "removed":
        del lines[at]
    elif kind == "doubled":
        lines.insert(at, lines[at])
    else:
        lines[at], lines[other] = lines[other], lines[at]
    path.write_bytes(b"".join(lines))
    return f"line {at + 1} {kind}"


def empty(path: Path, rng: random.Random) -> str:
    """Nothing in it."""
    os.truncate(path, 0)
    return "emptied"


def removed(path: Path, rng: random.Random) -> str:
    """No file."""
    path.unlink()
    return "removed"


WITHIN: list[Callable[[Path, random.Random], str]] = (
    [flip] * 8 + [cut] * 4 + [zeros, zeros, longer, longer, empty, removed]
)


def trial(room: Room, rng: random.Random) -> Outcome:
    """One file that is not the run's, in every use."""
    name, state = chosen(rng, room)
    there = [own for own in FILES if (room.state(name, state) / own).exists()]
    file = rng.choice(there)
    damage, what, names, also = _damage(room, rng, name, state, file)
    outcome = Outcome(f"{name}, {state}: {file} {what}")
    with room.scratch() as aside:
        for use in room.uses(name, state):
            outcome.add(use, room.use(use, name, state, damage, names, aside, also))
    return outcome


def _damage(
    room: Room, rng: random.Random, name: str, state: str, file: str
) -> tuple[Callable[[Path], object], str, tuple[str, ...], tuple[str, ...]]:
    """What is done to a copy, in words, what a refusal has to name, and states whose results are as good."""
    others = [
        (room.state(run, of), run, of)
        for run, of in [(name, "early"), (name, "killed"), (name, "finished"), ("sister", state), ("sister", "early")]
        if (run, of) != (name, state) and (name == "run" or run == name)
    ]
    others = [other for other in others if _another(other[0], room.state(name, state), file)]
    if others and rng.random() < 0.2:
        source, run, of = rng.choice(others)
        # a checkpoint that is older than its metrics is what a kill leaves; one that is newer is the run's all the same
        newer = [*STATES].index(of) > [*STATES].index(state)
        good = (
            run == name
            and state != "finished"
            and (file == "last.safetensors" or (file == "best.safetensors" and newer))
        )
        also = (of,) if good else ()
        return lambda folder: shutil.copy(source / file, folder / file), f"of {run}, {of}", any_of_the_files(name), also
    if file.endswith(".safetensors") and rng.random() < 0.1:
        other = "best.safetensors" if file == "last.safetensors" else "last.safetensors"
        if _another(room.state(name, state), room.state(name, state), file, other):
            return lambda folder: shutil.copy(folder / other, folder / file), f"is {other}", any_of_the_files(name), ()
    kinds = [*WITHIN, *([line_away] * 4 if file == "metrics.jsonl" else [])]
    kind, seed = rng.choice(kinds), rng.random()
    with room.scratch() as aside:
        shutil.copy(room.state(name, state) / file, aside / file)
        what = kind(aside / file, random.Random(seed))
    names = any_of_the_files(name) if kind in (removed, line_away) else (file,)
    return lambda folder: kind(folder / file, random.Random(seed)), what, names, ()


def _another(theirs: Path, ours: Path, file: str, other: str = "") -> bool:
    path = theirs / (other or file)
    return path.exists() and path.read_bytes() != (ours / file).read_bytes()
