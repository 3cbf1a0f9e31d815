"""The list of tasks, and the options of a run that they take.  Everything else that goes over all of them asks here.

A task is one file in this folder and one name in TASKS.  An option that no task had before is one line of OPTIONS.
"""

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from ortho_ref.training.task import Task, check_choice, nearest, short
from tasks.adding import Adding
from tasks.arrays import FileArrays
from tasks.babi import Babi
from tasks.copying import Copying
from tasks.denoise import Denoise
from tasks.generated import Generated
from tasks.har import Har
from tasks.mnist import Mnist
from tasks.parenthesis import Parenthesis
from tasks.permuted_mnist import PermutedMnist
from tasks.ptb_char import PtbChar
from tasks.ptb_word import PtbWord
from tasks.shortest_path import ShortestPath
from tasks.speech import Speech
from tasks.text import Text
from tasks.wikitext_2 import Wikitext2


class Option(NamedTuple):
    """An option of a run that is a task's.

    kind: of its value; a Path says where data are, not which, and is not kept.  help: a line for the command line;
    {tasks} stands for the tasks that take it.  needed: what it is for a task that cannot do without it.
    """

    kind: type
    help: str
    needed: Mapping[str, str] = MappingProxyType({})


OPTIONS = {
    "length": Option(int, "Length T of a sequence, delay or window; default: the task's."),
    "form": Option(str, "{tasks}: paper (default), released; denoise also: places, marker."),
    "layout": Option(str, "{tasks}: A (default), B or C."),
    "windows": Option(str, "{tasks}: fixed (default) or random lengths about --length."),
    "data": Option(
        Path,
        "Folder of the data set (default: the cache); for text and arrays the file.",
        {"text": "a UTF-8 text", "arrays": "a table, .npz or folder"},
    ),
    "other_data": Option(bool, "Accept data that differ from the published: a part, or your own."),
    "train_part": Option(str, "Part to train on: train, or train:0-5000; default: the task's."),
    "eval_part": Option(str, "Part to hold out: valid, or test:0-1000; default: the task's."),
    "rows": Option(str, "{tasks}: top (default) or bottom."),
    "permutation": Option(str, "{tasks}: full-urnn (default), eunn, vprnn or urnn."),
    "classes": Option(int, "{tasks}: 2 (default) or 6."),
    "state": Option(str, "{tasks}: carried (default) or zero."),
    "qa": Option(str, "{tasks}: which task, 1 (default) to 20, or joint."),
    "share": Option(float, "{tasks}: share that is held out, 0.2 unless given."),
    "held_out": Option(Path, "{tasks}: a file like --data to hold out, instead of a share."),
    "sequence": Option(str, "{tasks}: column of the table that names each row's sequence; default: one series."),
    "target": Option(str, "{tasks}: column of the table to learn; default: the next row."),
    "target_is": Option(str, "{tasks}: classes or numbers; default: guessed from the table."),
    "scale": Option(str, "{tasks}: standard (default), or none: unscaled."),
    "join": Option(str, "{tasks}: once (default) or steps."),
}

#: In the order of the pages.  A task takes the options that its signature names; their defaults are the run's.
TASKS: dict[str, Callable[..., Task]] = {
    own.name: own
    for own in (
        *(Parenthesis, Denoise, Adding, Copying, Text),
        *(Mnist, PermutedMnist, Har, PtbChar, PtbWord, Wikitext2),
        *(Babi, ShortestPath, FileArrays, Speech),
    )
}

NAMES = tuple(TASKS)
#: Those that draw their sequences: they need no data.
GENERATED = tuple(name for name, own in TASKS.items() if isinstance(own, type) and issubclass(own, Generated))


def make(name: str, **options: Any) -> Task:
    """The task called `name`, with its own defaults for what is not given; None is as good as not given.

    options: as in `options_of`.  ValueError for a name that is none, and for values that the task refuses; TypeError
    for an option that the task does not have, and for want of one that it needs; OSError where its data cannot be read.
    """
    allowed = options_of(name)
    given = {option: value for option, value in options.items() if value is not None}
    for option in given:
        if option not in allowed:
            near = nearest(option, allowed)
            raise TypeError(f"{name} has no option {short(option)}{near}; allowed: {', '.join(allowed) or 'none'}")
    for option in needed_by(name):
        if option not in given:
            raise TypeError(f"{name} needs {option}, {OPTIONS[option].needed[name]}")
    places = {option: Path(value) for option, value in given.items() if OPTIONS[option].kind is Path}
    return TASKS[name](**given | places)


def options_of(name: str) -> dict[str, Any]:
    """The options of a run that a task takes -> their defaults; None also where it must be given, see `needed_by`."""
    return {option: None if p.default is p.empty else p.default for option, p in _parameters(name).items()}


def needed_by(name: str) -> tuple[str, ...]:
    """The options that a task cannot do without."""
    return tuple(option for option, p in _parameters(name).items() if p.default is p.empty)


def takers_of(option: str) -> tuple[str, ...]:
    """The tasks that take an option, in the order of TASKS."""
    return tuple(name for name in TASKS if option in options_of(name))


def _parameters(name: str) -> dict[str, inspect.Parameter]:
    check_choice("task", name, TASKS)
    parameters = inspect.signature(TASKS[name]).parameters
    return {option: own for option, own in parameters.items() if option in OPTIONS}
