"""Hostile experiment files: nested, cut, of wrong types; integers, names and grids that are too large or command."""

import csv
import io
import json
import random
import re
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.scripts.grids import TINY
from tests.scripts.runs import KEPT
from tests.torture.judging import WRONG, Verdict, judge
from tests.torture.room import Outcome, Room, described

COUNT = 300
FILES = sorted((Path(__file__).parents[2] / "scripts" / "experiments").rglob("*.toml"))
FILE = "hostile.toml"
USES = (["status"], ["table"], ["table", "--form", "csv"], ["table", "--form", "json"])
#: What stands where something else should.
VALUES = (
    *(True, 0, 1, -1, 10**9, 10**18, 2**64, 10**400, 0.5, -0.0, 1e308, float("nan"), float("inf")),
    *("", "x", "x" * 5000, "1" * 5000, "\x1b[31mred\x1b[0m", "a\nb", "a|b", "a\\|b", "\u202ex", "\x9b31m", "\x00"),
    *("=cmd|' /C calc'!A0", "+1", "-1", "@x", "\t=1", "..", "/", "../../x", "$\\frac", "%s{}", "[bold]"),
    *([], [1], [[[[1]]]], ["x"] * 1001, {}, {"x": 1}, {"name": "x"}, [{}], [{"name": "GRU"}] * 101),
)


def trial(room: Room, rng: random.Random) -> Outcome:
    """One file: its tables are shown, or it is refused by its name; nothing is written."""
    flaw = rng.choice(FLAWS)
    data = flaw(rng)
    outcome = Outcome(f"{flaw.__name__.strip('_')}, {described(data)}")
    with room.scratch() as aside:
        (aside / FILE).write_bytes(data)
        for words in USES:
            end = room.run("scripts.experiment", *words, FILE, "--out", "out", cwd=str(aside))
            outcome.add(
                " ".join(words), judge(end, lambda end=end, words=words: _odd(words[-1], end["stdout"]), [FILE])
            )
            if left := sorted(path.name for path in aside.iterdir() if path.name not in (FILE, "__pycache__")):
                outcome.add(" ".join(words), Verdict(WRONG, f"{', '.join(left)} is left"))
    return outcome


def _odd(form: str, text: str) -> str:
    """What is wrong with a table; "" where nothing is."""
    if len(text.encode(errors="surrogateescape")) >= KEPT:  # its end was left out
        return ""
    if form == "json":
        return "" if isinstance(json.loads(text), list) else "it is no list"
    if form == "csv":
        cells = [cell for row in csv.reader(io.StringIO(text)) for cell in row]
        formulas = [cell for cell in cells if cell[:1] in tuple("=+-@\t\r") and not re.fullmatch(r"-[\d.e+-]+", cell)]
        return f"a formula: {formulas[0]!r}" if formulas else ""
    # the first line is a title, or a head
    rows = [re.sub(r"\\.", "", line).count("|") for line in text.splitlines()[1:] if line.startswith("|")]
    return "" if len(set(rows)) == 1 else "rows of several lengths"


def _nested(rng: random.Random) -> bytes:
    depth, name = rng.choice([5, 50, 500, 5000, 50_000]), rng.choice(["title", "options.lr", "row", "x"])
    how: Callable[[], str] = rng.choice(
        [
            lambda: f"{name} = {'[' * depth}{']' * depth}",
            lambda: f"{name} = {'[' * depth}",
            lambda: f"{name} = {'{ a = ' * depth}1{' }' * depth}",
            lambda: f"{'a.' * min(depth, 5000)}a = 1",
            lambda: f"[{'a.' * min(depth, 5000)}a]",
            lambda: f"x = [\n[{' ' * depth}\n1]\n]",
        ]
    )
    return f"{how()}\n{TINY.format(seeds=1, iterations=9)}".encode()


def _cut(rng: random.Random) -> bytes:
    data = rng.choice(FILES).read_bytes()
    at = rng.randrange(len(data))
    return rng.choice([data[:at], data[at:], data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :], data[:at] * 2])


def _integer(rng: random.Random) -> bytes:
    digits = rng.choice([20, 400, 4300, 5000, 100_000])
    number = rng.choice(
        ["9" * digits, "-" + "9" * digits, "0x" + "f" * digits, "1" + "0" * digits + ".0", "1e" + "9" * 9]
    )
    lines = TINY.format(seeds=1, iterations=9).splitlines()
    at = rng.choice([i for i, line in enumerate(lines) if re.fullmatch(r"\w+ = \d+", line)])
    lines[at] = f"{lines[at].split()[0]} = {number}"
    return "\n".join(lines).encode()


def _huge(rng: random.Random) -> bytes:
    document = tomllib.loads(TINY.format(seeds=rng.choice([1, 1000, 10**8]), iterations=9))
    for name in rng.sample(["batch", "hidden", "length", "lr", "clip", "log_every"], rng.randint(1, 6)):
        many = rng.choice([10, 100, 1000, 1001])
        document["options"][name] = [f"norm:{i + 1}" for i in range(many)] if name == "clip" else [*range(1, many + 1)]
    document["row"] = [{"name": f"row {i}"} for i in range(rng.choice([1, 2, 100, 101]))]
    return _toml(document).encode()


def _typed(rng: random.Random) -> bytes:
    """One value of a file, or its name, is another."""
    document = tomllib.loads(
        rng.choice(FILES).read_text() if rng.random() < 0.5 else TINY.format(seeds=1, iterations=9)
    )
    holder, key = rng.choice([*_places(document)])
    if isinstance(holder, dict) and rng.random() < 0.3:
        holder[rng.choice([own for own in VALUES if isinstance(own, str)])] = holder.pop(key)
    else:
        holder[key] = rng.choice(VALUES)
    return _toml(document).encode()


def _named(rng: random.Random) -> bytes:
    """Names that are allowed, or not, wherever a table shows one."""
    allowed = ["a|b", "a\\|b", "a\\", "|", "=1+1", "+x", "-1", "@x"]
    others = ["\t=1", "\x1b[31m", "a\nb", "\u202ex", "x" * 201] if rng.random() < 0.3 else []
    names = rng.sample(allowed + others, 4)
    document = tomllib.loads(TINY.format(seeds=1, iterations=9))
    document["title"], document["row"][0]["name"], column, source = names
    document["column"] = [{"name": column}]
    document["row"] = document["row"][:1]
    document["row"][0] |= {"paper": {source: {column: -1.5}}}
    return _toml(document).encode()


FLAWS = (_nested, _cut, _integer, _huge, _named, _typed, _typed)


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place of a document: what holds it, and its key or index there."""
    for key, own in value.items() if isinstance(value, dict) else enumerate(value):
        yield value, key
        if isinstance(own, dict | list):
            yield from _places(own)


def _toml(value: Any, top: bool = True) -> str:
    """A document as TOML; its tables stand on one line each."""
    if isinstance(value, dict):
        lines = [f"{json.dumps(key)} = {_toml(own, top=False)}" for key, own in value.items()]
        return "\n".join(lines) if top else f"{{ {', '.join(lines)} }}"
    if isinstance(value, list):
        return f"[{', '.join(_toml(own, top=False) for own in value)}]"
    return repr(value) if isinstance(value, float) else json.dumps(value).replace("\x7f", "\\u007f")
