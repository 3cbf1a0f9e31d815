"""Command lines that make no sense: every option of every program, and of the kit, with values of no use."""

import argparse
import importlib
import inspect
import random
import shutil
import threading
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, get_args

import typer

from ortho_ref.conformance.__main__ import parser
from ortho_ref.terminal import shown
from tests.torture.judging import WRONG, Verdict, judge
from tests.torture.room import Outcome, Room

COUNT = 500


class Option(NamedTuple):
    """An option of a program: its flag (none for an argument), the kind of its value, how often it may be given."""

    flag: str
    kind: str
    multiple: bool
    choices: tuple[str, ...] = ()


#: What each program needs beside what is tried; {run}: a finished run.
BASES = {
    "scripts.train": "parenthesis --hidden 2 --length 2 --batch 1 --iterations 1 --negative-ones 1 --out out",
    "scripts.evaluate": "{run}",
    "scripts.plot": "{run} --out out.png",
    "scripts.bounds": "{run} --out out.png --steps 2",
    "scripts.demo": "--out out --iterations 1",
    "scripts.experiment": f"table {Path(__file__).parents[2]}/scripts/experiments/demo.toml --out out",
    "scripts.check_gradients": "--only householder:5",
    "scripts.maintain.benchmark": "--only parenthesis --model rnn --rounds 1 --seconds 0",
    "scripts.maintain.training_speed": "--only adding --rounds 1 --seconds 0",
}
#: Those that write in the checkout, or need a GPU before all else, get nothing that could be taken.
WRITERS = (
    *("scripts.maintain.equation_index", "scripts.maintain.make_vectors", "scripts.maintain.claims"),
    "scripts.gpu_check",
)
#: matplotlib cannot be imported by two threads at a time through two programs.
IMPORTING = threading.Lock()
KIT = "ortho_ref.conformance"
KIT_BASES = {
    "run": "--adapter {adapter} --only activation/sigmoid",
    "list": "",
    "show": "cell/lstm",
    "export": "out --only activation/sigmoid",
    "schema": "",
    "new": "--torch gru_reset_before --out out.py",
}

#: By kind of value, what is none.
BAD = {
    "integer": (
        *("x", "", " ", "1.5", "1e3", "0x10", "nan", "inf", "--", "1,000", "1 2", "[1]", "None", "-1"),
        *("9" * 5000, "\u0663\u06f3x"),
    ),
    "float": ("x", "", " ", "nan", "inf", "-inf", "1,5", "0x1p3", "1e", "--1", "[1]", "None", "-1", "1_0_", "1e999"),
    "choice": ("x", "", " ", "None", "*", "0", "x" * 5000, "\x1b[31m", "\u202ex", "a\nb", "\udcff"),
    "text": (
        *("\x1b[31m", "", "x" * 5000, "\u202ex", "a\nb", "\udcff"),
        *(":", "=", "a=", "=b", ":::", "1:2:3", "[", "%s", "{}"),
    ),
    "path": ("/dev/null/x", "/proc/x/y", "x" * 300, "missing/none", "/dev/full", "", "\x1b[31m/x", "\udcff/none"),
    "flag": ("=1", "=x", "=", "="),
}
#: Ends of words that are right after all: a folder may have such a name, the empty one is where one is, and names of
#: gradients have a colon.
RIGHT = ("\x1b[31m/x", "\udcff/none", "--out=", "--out=missing/none", "--only=:")


@cache
def options_of(module: str) -> tuple[Option, ...]:
    """Of a program, as it declares them."""
    if module == KIT:
        return ()
    found = []
    with IMPORTING:
        main = importlib.import_module(module).main
    for name, own in inspect.signature(main).parameters.items():
        kind, info = get_args(own.annotation)[:2]
        multiple = "list[" in str(kind)
        kinds = {str(c): c for c in (int, float, bool, Path)}
        word = next((c.__name__ for text, c in kinds.items() if text[8:-2] in str(kind)), "text")
        word = {"int": "integer", "bool": "flag", "Path": "path", "PosixPath": "path"}.get(word, word)
        if isinstance(info, typer.models.ArgumentInfo):
            found.append(Option("", "choice" if word == "text" else word, multiple))
        else:
            first = [info.default] if isinstance(info.default, str) else []
            declared = [*(info.param_decls or ()), *first, f"--{name.replace('_', '-')}"]
            found.append(Option(declared[0].split("/")[0], word, multiple))
    return tuple(found)


@cache
def options_of_kit(command: str) -> tuple[Option, ...]:
    """Of a command of the kit."""
    commands = next(own for own in parser()._actions if isinstance(own, argparse._SubParsersAction))
    found = []
    for own in commands.choices[command]._actions:
        if own.dest != "help":
            kind = "choice" if own.choices else {float: "float", Path: "path"}.get(own.type, "text")
            kind = "flag" if own.nargs == 0 else kind
            flag = own.option_strings[0] if own.option_strings else ""
            found.append(Option(flag, kind, "append" in type(own).__name__.lower()))
    return tuple(found)


def trial(room: Room, rng: random.Random) -> Outcome:
    """One command line, which is to be refused in one line that names what was wrong with it."""
    module = rng.choice(["scripts.train"] * 8 + [*BASES, *BASES, *WRITERS] + [KIT] * 6)
    with room.scratch() as aside:
        shutil.copytree(room.state("run", "finished"), aside / "run")
        (aside / "adapter.py").write_text("def run(case):\n    return None\n")
        command = rng.choice([*KIT_BASES]) if module == KIT else ""
        base = (KIT_BASES[command] if module == KIT else BASES.get(module, "")).split()
        base = [word.format(run="run", adapter="adapter.py") for word in base]
        words, names = _line(module, command, base, rng)
        words = ([command] if command else []) + words
        outcome = Outcome(f"{module} {' '.join(map(ascii, words))}"[:300])
        end = room.run(module, *words, cwd=str(aside), picture=False)
        right = any(word.endswith(RIGHT) for word in words)
        outcome.add(module, judge(end, lambda: "" if right else "nothing was wrong with it", names))
        left = sorted(path.name for path in aside.iterdir() if path.name not in ("run", "adapter.py", "__pycache__"))
        if end["code"] == 2 and left:
            outcome.add(module, Verdict(WRONG, f"refused, and {', '.join(left)} is left"))
    return outcome


def _line(module: str, command: str, base: list[str], rng: random.Random) -> tuple[list[str], tuple[str, ...]]:
    """A command line with one flaw, and what a refusal has to name one of."""
    options = options_of_kit(command) if module == KIT else options_of(module)
    flaws = [_unknown, _no_value, _more]
    flaws += [] if module in WRITERS else [_nothing, _value, _value, _value, _value, _twice]
    for _ in range(100):
        made = rng.choice(flaws)(options, base, rng)
        if made is not None:
            return made
    return [*base, "--nonsense"], ("--nonsense",)


def _unknown(options: tuple[Option, ...], base: list[str], rng: random.Random) -> Any:
    flags = ["--nonsense", "--no", "-x", "--" + "x" * 5000, "--\x1b[31m", "--out-", "-", "--=", "--hidden-"]
    own = rng.choice([*flags, "--\u202e"])
    if own == "-":  # an argument
        return None
    return [*base, own], ("o such option", "there is no option", "unrecognized", "ambiguous", own[:20])


def _no_value(options: tuple[Option, ...], base: list[str], rng: random.Random) -> Any:
    own = [option for option in options if option.flag and option.kind != "flag"]
    if not own:
        return None
    flag = rng.choice(own).flag
    return [*base, flag], (flag,)


def _more(options: tuple[Option, ...], base: list[str], rng: random.Random) -> Any:
    if any(not option.flag and option.multiple for option in options):
        return None
    arguments = sum(not option.flag for option in options)
    given = rng.choice(["more", "\x1b[31m", "x" * 5000, ""])
    more = [given] * (1 + max(0, arguments - (1 if base and not base[0].startswith("-") else 0)))
    return [*base, *more], ("unexpected", "unrecognized", "extra", "Missing")


def _nothing(options: tuple[Option, ...], base: list[str], rng: random.Random) -> Any:
    """Without what is needed."""
    if not base or base[0].startswith("-"):
        return None
    return base[1:], (
        "Missing",
        "which task?",
        "required",
        "Given:",
        "argument",
        "case",
        "action",
    )  # the next word is taken for it


def _twice(options: tuple[Option, ...], base: list[str], rng: random.Random) -> Any:
    """An option of one value, given twice with two."""
    own = [option for option in options if option.flag in base and not option.multiple and option.kind != "flag"]
    if not own:
        return None
    option = rng.choice(own)
    return [*base, option.flag, "7"], (option.flag, option.flag[2:].replace("-", "_"))


def _value(options: tuple[Option, ...], base: list[str], rng: random.Random) -> Any:
    """A value that is none."""
    own = [option for option in options if option.flag or option.kind != "text"]
    if not own:
        return None
    option = rng.choice(own)
    bad = rng.choice(BAD[option.kind])
    if not option.flag:
        return [bad, *base[1:]], ("",)
    words = list(base)
    if option.flag in words and option.kind != "flag":
        at = words.index(option.flag)
        del words[at : at + 2]
    words.append(f"{option.flag}{bad}" if option.kind == "flag" else f"{option.flag}={bad}")
    named = option.flag[2:].replace("-", "_")
    place = (f"{shown(bad)} cannot be read",) if option.kind == "path" else ()
    return words, (option.flag, named, option.flag[2:], *place)
