"""Files that somebody made: of another structure, type or size than a run has, or no files at all.

With the hashes that they had, and, where files carry hashes, with hashes that are right.
"""

import json
import os
import random
import shutil
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import safetensors.numpy

from ortho_ref.training.forms import Network
from ortho_ref.training.run_folder import RUN_FILES
from tests.torture import sealing
from tests.torture.judging import WRONG, Verdict, judge
from tests.torture.room import RUNS, USES, Outcome, Room, any_of_the_files, chosen, contents, described

COUNT, FOLDERS, LINKS = 1650, 60, 60
#: Uses of each, beside one more by chance: together they read every file.
ALWAYS = ("load", "read_metrics", "train --resume")
JSON = ("config.json", "metrics.jsonl", "summary.json")
CHECKPOINTS = ("last.safetensors", "best.safetensors", "previous.safetensors")

#: Arguments of a network that a config cannot leave out.
REQUIRED = {field.name for field in msgspec.structs.fields(Network) if field.required}

#: What stands for a value; callables are given the value.
ESCAPES = "\x1b]0;title\x07\x1b[31mred\x1b[2J"
VALUES: list[Any] = [
    *(0, -1, 1, 10**18, -(10**18), 2**63, 10**400, 10_000_000, 1.5, -0.5, 1e308, 1e-320),
    *(float("nan"), float("inf"), -float("inf"), True, False, None),
    *("", "x", "x" * 5000, ESCAPES, "\u202egnp.evil\u2066", "a\nerror: b", "\x00", "\ud800", "NaN", "10", "../../x"),
    *([], {}, [[]], [1, 2], {"a": {"b": 1}}, ["a"] * 1000, [None], {"$array": "params/x"}, {"$tuple": [1]}),
]


@dataclass(frozen=True)
class Edit:
    """What is done to a folder, in words; whether its hashes can be made right; what a refusal has to name."""

    what: str
    do: Callable[[Path], Any]
    names: tuple[str, ...]
    sealed: bool = False


def trial(room: Room, rng: random.Random) -> Outcome:
    """One hostile file, in uses that read all of them."""
    name, state = chosen(rng, room)
    there = room.state(name, state)
    kind = rng.choices([json_edit, text_edit, tree_edit, tensor_edit, in_place_of], [9, 4, 6, 6, 3])[0]
    edit = kind(there, rng)
    if kind in (json_edit, tree_edit, tensor_edit) and edit.sealed and rng.random() < 0.6:
        plain = edit
        edit = Edit(f"{plain.what}, sealed", lambda folder: _sealed(plain, folder, there), any_of_the_files(name))
    outcome = Outcome(f"{name}, {state}: {edit.what}")
    uses = [use for use in room.uses(name, state) if use.name not in ALWAYS]
    if "previous" in edit.what:
        uses = [USES["train --resume --which previous"]]
    with room.scratch() as aside:
        for use in (*(USES[own] for own in ALWAYS), rng.choice(uses)):
            outcome.add(use, room.use(use, name, state, edit.do, edit.names, aside))
    return outcome


def _sealed(edit: Edit, folder: Path, there: Path) -> None:
    edit.do(folder)
    sealing.seal(folder, there)


# trees


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value in a tree but the tree's own."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*path, key)
        yield from places(item, (*path, key))


def _holder(tree: Any, path: tuple[Any, ...]) -> Any:
    for key in path[:-1]:
        tree = tree[key]
    return tree


def edited(tree: Any, rng: random.Random) -> tuple[str, bool]:
    """One edit of a tree in its place; in words, and whether no run could have written it, whatever its hashes."""
    path = rng.choice([*places(tree)])
    holder, key = _holder(tree, path), path[-1]
    old, where = holder[key], "/".join(map(str, path))
    kind = rng.choice(["value"] * 7 + ["delete", "rename", "nest", "wrap", "more", "type", "type"])
    if kind == "value":
        new = rng.choice(VALUES)
        holder[key] = new
        plausible = _like(old, new) or key in ("made_by", "learning_rates") or path[0] in ("made_by", "learning_rates")
        return f"{where} is {described(new)}", not plausible
    if kind == "type":
        holder[key] = new = _retyped(old)
        return f"{where} is {described(new)} of another type", not _like(old, new) and "made_by" not in path
    if kind == "delete" or (kind == "rename" and isinstance(holder, list)):
        del holder[key]
        left_out = path[:-1] == ("network",) and key not in REQUIRED  # another run's, with the default
        return f"{where} deleted", "made_by" not in path and not left_out
    if kind == "rename":
        new = rng.choice([key.upper(), key + " ", ESCAPES, "", "x" * 5000, f"\u202e{key}"])
        holder[new] = holder.pop(key)
        return f"{where} renamed {described(new)}", "made_by" not in path
    if kind == "nest":
        depth = rng.choice([1, 5, 200, 900])
        for _ in range(depth):
            old = [old] if depth != 5 else {"a": old}
        holder[key] = old
        return f"{where} {depth} deep", "made_by" not in path
    if kind == "wrap":
        holder[key] = {where: old} if rng.random() < 0.5 else [old, old]
        return f"{where} wrapped", "made_by" not in path
    own = old if isinstance(old, dict) else tree
    own[ESCAPES if rng.random() < 0.3 else "more"] = rng.choice(VALUES)
    return f"{where} has more", "made_by" not in path


def _like(old: Any, new: Any) -> bool:
    """Whether another run could have the new value there: numbers for numbers, texts for texts, anything for None."""
    number = (int, float)
    if isinstance(old, bool) or isinstance(new, bool):
        return isinstance(old, bool) and isinstance(new, bool)
    if isinstance(old, number) and isinstance(new, number):
        return isinstance(old, float) and abs(new) < 1e300 and new == new
    return old == new or new is None or (old is None and isinstance(new, number))  # None: never, or the default


def _retyped(old: Any) -> Any:
    """The same in another type, as careless code takes it for: 1 for true, 3.0 for 3, "3" for 3."""
    if isinstance(old, bool):
        return int(old)
    if isinstance(old, int):
        return float(old) if old < 2**53 else str(old)
    if isinstance(old, float):
        return str(old)
    if isinstance(old, str):
        return [*old]
    if isinstance(old, list):
        return {str(i): item for i, item in enumerate(old)}
    if isinstance(old, dict):
        return [[key, item] for key, item in old.items()]
    return "None"


# files of JSON


def json_edit(there: Path, rng: random.Random) -> Edit:
    """A value, a key or the whole of config.json, of a line of metrics.jsonl or of summary.json."""
    file = rng.choice([own for own in ("config.json", "config.json", *JSON) if (there / own).exists()])
    data = (there / file).read_bytes()
    lines = data.splitlines() if file.endswith("jsonl") else [data]
    at = rng.randrange(len(lines))
    tree = json.loads(lines[at])
    if rng.random() < 0.05:
        tree = rng.choice([value for value in VALUES if not isinstance(value, dict)])
        what, sealable = f"is {described(tree)}", False
    else:
        what, sealable = edited(tree, rng)
        # which weights and rates there are is for no reader to know
        sealable = sealable and not (file.endswith("jsonl") and what.startswith(("weights/", "learning_rates/")))
    lines[at] = json.dumps(tree, indent=None if file.endswith("jsonl") else 2).encode()
    new = b"\n".join(lines) + b"\n"
    where = f"{file}, line {at + 1}" if file.endswith("jsonl") else file
    return Edit(f"{where}: {what}", lambda folder: (folder / file).write_bytes(new), (file,), sealable)


def text_edit(there: Path, rng: random.Random) -> Edit:
    """JSON that readers disagree about, or choke on."""
    file = rng.choice([own for own in JSON if (there / own).exists()])
    data = (there / file).read_bytes()
    kind, new = rng.choice(_TEXTS)(data, rng)
    return Edit(f"{file}: {kind}", lambda folder: (folder / file).write_bytes(new), (file,))


def _value_replaced(data: bytes, new: bytes, rng: random.Random) -> bytes:
    """The value of one of its keys, as text."""
    ends = [i for i in range(len(data) - 2) if data[i : i + 2] == b": "]
    at = rng.choice(ends) + 2
    end = min(i for i in (data.find(c, at) for c in (b",", b"\n", b"}")) if i > 0)
    return data[:at] + new + data[end:]


def _deep(data: bytes, rng: random.Random) -> tuple[str, bytes]:
    depth = rng.choice([10**4, 3 * 10**4, 10**5])
    opened, closed = rng.choice([(b"[", b"]"), (b'{"a":', b"}")])
    return f"{depth} of {opened.decode()}", _value_replaced(data, opened * depth + b"0" + closed * depth, rng)


def _digits(data: bytes, rng: random.Random) -> tuple[str, bytes]:
    digits = rng.choice([400, 4000, 5000, 10**5])
    return f"an integer of {digits} digits", _value_replaced(data, b"9" * digits, rng)


def _literal(data: bytes, rng: random.Random) -> tuple[str, bytes]:
    new = rng.choice(b"NaN Infinity -Infinity nan 01 1e999 -1e999 .5 'a' \x1b[31m".split())
    return f"the literal {new!r}", _value_replaced(data, new, rng)


def _twice(data: bytes, rng: random.Random) -> tuple[str, bytes]:
    lines = data.splitlines(keepends=True)
    tree = json.loads(lines[0] if len(lines) > 1 and data.startswith(b'{"') else data)
    key = rng.choice([*tree])
    more = json.dumps({key: rng.choice([tree[key], 0, "x"])})[1:-1].encode() + b", "
    return f"{key} twice", data[:1] + more + data[1:]


def _inserted(data: bytes, rng: random.Random) -> tuple[str, bytes]:
    own = rng.choice(
        [b"\x00", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\x1b[2J", "\u202e".encode(), b"\\ud800"]
    )
    at = rng.choice([0, rng.randrange(len(data)), len(data) - 1])
    return f"{own!r} at byte {at}", data[:at] + own + data[at:]


def _other_text(data: bytes, rng: random.Random) -> tuple[str, bytes]:
    whole = data.splitlines()[0] if data[:2] == b'{"' else data
    kinds = [
        ("in UTF-16", data.decode().encode("utf-16")),
        ("with a million spaces", b" " * 10**6 + data),
        ("with a comma behind its last value", data.rstrip().removesuffix(b"}") + b",}\n"),
        ("with a comment", b"// a run\n" + data),
        ("with another value behind it", data + b"{}\n"),
        ("as Python has it", repr(json.loads(whole)).encode()),
        ("a line of 5 MB", b'{"a": "' + b"x" * 5_000_000 + b'"}\n'),
        ("zip", b"PK\x03\x04" + data),
    ]
    return rng.choice(kinds)


_TEXTS = [_deep, _deep, _digits, _digits, _literal, _literal, _twice, _twice, _inserted, _inserted, _other_text]


# checkpoints


def _checkpoint(there: Path, rng: random.Random) -> tuple[str, dict[str, np.ndarray], dict[str, str]]:
    """One of the folder's: its name, tensors and metadata."""
    file = rng.choice([own for own in ("last.safetensors", *CHECKPOINTS) if (there / own).exists()])
    return file, *sealing.read(there / file)


def tree_edit(there: Path, rng: random.Random) -> Edit:
    """The tree in a checkpoint's metadata, or the metadata themselves."""
    file, tensors, metadata = _checkpoint(there, rng)
    tree = json.loads(metadata["tree"])
    kind = rng.random()
    if kind < 0.1:
        key = rng.choice([*metadata])
        new = rng.choice(["", *(f"ortho_ref checkpoint {n}" for n in (1, 2, 9)), ESCAPES, "x" * 5000, "{}"])
        metadata[key], what, sealable = new, f"{key} is {described(new)}", False
    elif kind < 0.2:
        own = (b"[" * 10**5 + b"]" * 10**5, b"9" * 5000, b'{"a":' * 10**4 + b"0" + b"}" * 10**4)
        metadata["tree"], what, sealable = rng.choice(own).decode(), "the tree is deep or huge", False
    elif kind < 0.3:
        what, sealable = _flags(tree, rng)
        metadata["tree"] = json.dumps(tree)
    else:
        what, sealable = edited(tree, rng)
        # a state of a generator, a sum, the least loss: any number may be there
        sealable = sealable and not (what.startswith("generators") and " is " in what)
        metadata["tree"] = json.dumps(tree)
    data = safetensors.numpy.save(tensors, metadata)
    return Edit(f"{file}, {what}", lambda folder: (folder / file).write_bytes(data), (file,), sealable)


def _flags(tree: Any, rng: random.Random) -> tuple[str, bool]:
    """What is said of an array, or its place, is another's."""
    arrays = [path for path in places(tree) if path[-1] == "$array"]
    path = rng.choice(arrays)
    holder = _holder(tree, path)
    flag = rng.choice([own for own in holder if own != "sha256"])
    if flag == "$array":
        other = rng.choice([*(_holder(tree, own)["$array"] for own in arrays), "params/none", ESCAPES])
        what = f"{holder[flag]} is taken from {described(other)}"
        same = other == holder[flag]
        holder[flag] = other
        return what, not same
    holder[flag] = new = not holder[flag]
    # the order in memory and whether it is a scalar are not to be known from elsewhere
    return f"{flag} of {holder.get('$array')} is {new}", flag == "complex"


def tensor_edit(there: Path, rng: random.Random) -> Edit:
    """A tensor of another type, shape or name, one too few or too many; or a header that lies."""
    file, tensors, metadata = _checkpoint(there, rng)
    if rng.random() < 0.15:
        data, what = _header(safetensors.numpy.save(tensors, metadata), rng)
        return Edit(f"{file}, {what}", lambda folder: (folder / file).write_bytes(data), (file,))
    name = rng.choice(sorted(tensors))
    what, sealable = rng.choice(_TENSORS)(tensors, name, rng)
    data = safetensors.numpy.save(tensors, metadata)
    return Edit(f"{file}, {name} {what}", lambda folder: (folder / file).write_bytes(data), (file,), sealable)


def _dtype(tensors: dict[str, np.ndarray], name: str, rng: random.Random) -> tuple[str, bool]:
    others = [d for d in ("f2", "f4", "f8", "i8", "u1", "bool") if np.dtype(d) != tensors[name].dtype]
    other = rng.choice(others)
    with np.errstate(all="ignore"):
        tensors[name] = np.nan_to_num(tensors[name]).astype(other)
    return f"is {np.dtype(other)}", True


def _shape(tensors: dict[str, np.ndarray], name: str, rng: random.Random) -> tuple[str, bool]:
    array = tensors[name]
    shapes = [array.ravel(), array[None], array.ravel()[:-1], array.ravel()[:0], np.concatenate([array.ravel()] * 2)]
    if array.ndim == 2 and array.shape[0] != array.shape[1]:
        shapes.append(np.ascontiguousarray(array.T))
    fitting = [own for own in shapes if own.shape != array.shape]
    tensors[name] = np.ascontiguousarray(rng.choice(fitting))
    return f"has shape {tensors[name].shape} for {array.shape}", True


def _missing(tensors: dict[str, np.ndarray], name: str, rng: random.Random) -> tuple[str, bool]:
    del tensors[name]
    return "missing", True


def _renamed(tensors: dict[str, np.ndarray], name: str, rng: random.Random) -> tuple[str, bool]:
    new = rng.choice([name.upper(), name + "/", ESCAPES, "", "x" * 5000, "__proto__", "\u202e" + name])
    tensors[new] = tensors.pop(name)
    return f"renamed {described(new)}", True


def _added(tensors: dict[str, np.ndarray], name: str, rng: random.Random) -> tuple[str, bool]:
    new = rng.choice([name + ".more", ESCAPES, "params/more", "more"])
    tensors[new] = np.zeros(3, np.float32)
    return f"and another, {described(new)}", True


def _not_finite(tensors: dict[str, np.ndarray], name: str, rng: random.Random) -> tuple[str, bool]:
    array = tensors[name] = tensors[name].copy()
    if array.dtype.kind != "f" or not array.size:
        return _dtype(tensors, name, rng)
    value = rng.choice([np.nan, np.inf, -np.inf])
    array.ravel()[rng.randrange(array.size)] = value
    return f"has {value}", True


def _huge(tensors: dict[str, np.ndarray], name: str, rng: random.Random) -> tuple[str, bool]:
    array = tensors[name]
    tensors[name] = np.zeros((2000000, *(min(size, 100) for size in array.shape[:1])), array.dtype)  # 1.6 GB at most
    return f"has shape {tensors[name].shape}", True


_TENSORS = [_dtype, _dtype, _shape, _shape, _missing, _renamed, _added, _not_finite, _huge]


def _header(data: bytes, rng: random.Random) -> tuple[bytes, str]:
    """safetensors whose header is not about its data."""
    size = int.from_bytes(data[:8], "little")
    header, body = json.loads(data[8 : 8 + size]), data[8 + size :]
    name = rng.choice([own for own in header if own != "__metadata__"])
    kind = rng.choice(["length", "offsets", "overlap", "negative", "dtype", "deep", "metadata", "no metadata", "dims"])
    if kind == "length":
        own = rng.choice([0, 1, 2**63, 2**64 - 1, len(data) * 2, 10**8])
        return own.to_bytes(8, "little") + data[8:], f"a header of {own} bytes"
    if kind == "deep":
        text = b"[" * 10**5
        return len(text).to_bytes(8, "little") + text + body, "a header 100,000 deep"
    begin, end = header[name]["data_offsets"]
    header[name] |= {
        "offsets": {"data_offsets": [begin, end + 10**12]},
        "overlap": {"data_offsets": [0, end - begin]} if begin else {"data_offsets": [1, end + 1]},
        "negative": {"data_offsets": [-1, end]},
        "dtype": {"dtype": ESCAPES},
        "dims": {"shape": [2**40, 2**40, 0]},
        "metadata": {},
        "no metadata": {},
    }[kind]
    if kind == "metadata":
        header["__metadata__"] = rng.choice([[], "x", {"tree": 1}, {"format": None}])
    if kind == "no metadata":
        del header["__metadata__"]
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + body, f"a header with {kind} of {name}"


# what is no file


def in_place_of(there: Path, rng: random.Random) -> Edit:
    """Something else where a file should be, or where the folder should be."""
    file = rng.choice([own.name for own in there.iterdir()])
    kinds: dict[str, Callable[[Path], Any]] = {
        "a FIFO": os.mkfifo,
        "a folder": Path.mkdir,
        "a folder with a file": lambda path: (path.mkdir(), (path / "x").touch()),
        "a link to nothing": lambda path: path.symlink_to("nothing"),
        "a link to itself": lambda path: path.symlink_to(path.name),
        "a link to a folder": lambda path: path.symlink_to("."),
        "a socket": _socket,
    }
    for device in ("/dev/zero", "/dev/full", "/dev/null"):
        if Path(device).exists():
            kinds[f"a link to {device}"] = lambda path, device=device: path.symlink_to(device)
    if os.geteuid() != 0:
        kinds["not to be read"] = lambda path: (shutil.copy(there / file, path), path.chmod(0))
    what = rng.choice([*kinds])

    def do(folder: Path) -> None:
        (folder / file).unlink()
        kinds[what](folder / file)

    return Edit(f"{file}: {what}", do, any_of_the_files(there.name) if "nothing" in what else (file,))


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as own:
        here = os.open(path.parent, os.O_RDONLY)  # a socket's path may not be long
        try:
            own.bind(f"/proc/self/fd/{here}/{path.name}")
        finally:
            os.close(here)


def folders(room: Room, rng: random.Random) -> Outcome:
    """A run's folder that is a file, a FIFO or a device, is missing or has a name that is no text."""
    kinds = ["missing", "a file", "a FIFO", "a link to itself", "/dev/null", "not UTF-8", "escapes"]
    kind = rng.choice(kinds)
    outcome = Outcome(f"a folder: {kind}")
    use = rng.choice([*USES.values()])
    with room.scratch() as aside:
        folder, name = aside / "run", "run"
        if kind in ("not UTF-8", "escapes"):
            return _strange_name(room, rng, aside, kind, outcome, use)
        {
            "missing": lambda: None,
            "a file": lambda: folder.write_text("mine"),
            "a FIFO": lambda: os.mkfifo(folder),
            "a link to itself": lambda: folder.symlink_to("run"),
            "/dev/null": lambda: folder.symlink_to("/dev/null"),
        }[kind]()
        end = room.run(use.module, *use.arguments(folder, aside))
        outcome.add(use, judge(end, lambda: "there is no run", (str(folder), name)))
        if kind != "missing" and "resume" in use.name:
            end = room.run("scripts.train", *RUNS["run"], "--out", folder)
            outcome.add("train", judge(end, lambda: "there is no place for a run", (str(folder),)))
    return outcome


def _strange_name(room: Room, rng: random.Random, aside: Path, kind: str, outcome: Outcome, use: Any) -> Outcome:
    """A good run in a folder of such a name is a good run; what is said of it is clean."""
    strange = aside / os.fsdecode(b"a \xff\xfe" if kind == "not UTF-8" else ESCAPES.encode()) / "run"
    strange.parent.mkdir()
    shutil.copytree(room.state("run", "killed"), strange)
    broken = rng.random() < 0.5
    if broken:
        (strange / "config.json").write_text("{")
    end = room.run(use.module, *use.arguments(strange, aside))
    outcome.add(use, judge(end, lambda: "it was broken" if broken else "", ("config.json", "run")))
    return outcome


def links(room: Room, rng: random.Random) -> Outcome:
    """A link in a run's folder, which came from somebody else, to a file of one's own: that stays as it is."""
    outcome = Outcome("a link")
    with room.scratch() as aside:
        folder, victim = aside / "run", aside / "victim"
        shutil.copytree(room.state("run", rng.choice(["early", "killed", "finished"])), folder)
        file = rng.choice([*RUN_FILES, "lock", "curve.png"])
        file = rng.choice([file, file, f"{file}.part"])
        victim.write_text("mine\n" * 2000)
        (folder / file).unlink(missing_ok=True)
        (folder / file).symlink_to(victim)
        before = contents(aside)
        end = room.run("scripts.train", "parenthesis", "--out", folder, "--resume", picture=file == "curve.png")
        outcome.what += f", {file}"
        outcome.add("train --resume", judge(end, lambda: "", any_of_the_files()))
        if contents(aside)["victim"] != before["victim"]:
            outcome.add("train --resume", Verdict(WRONG, f"somebody's file, to which {file} is a link, is overwritten"))
    return outcome
