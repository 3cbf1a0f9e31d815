"""The folder of a run: what its files hold, each by one schema, and how they hang together.

    config.json          what the caller says the run is; "network" are the arguments of `models.network`.  Sealed
    metrics.jsonl        a line per logging interval: iteration, loss (mean over the interval), gradient_norm (before
                         clipping), learning_rates, steps_per_second; on the held-out set, evaluation_loss and the
                         metric; weights: for each orthogonal weight defect, Neumann condition, forced resets, as they
                         were before the update: the U that its loss is of.  (After it, intervals of `reset_every`
                         would show nothing but exact inverses.)  sha256: of the line before's and the line; the first
                         line's is of the config's and the line
    last.safetensors     the whole state, every `checkpoint_every` updates and at the end; the config's SHA-256, and the
                         size of metrics.jsonl and its last line's SHA-256 there
    previous.safetensors the checkpoint before the last
    best.safetensors     the same at the smallest evaluation_loss so far
    summary.json         when the run is finished: `runs.summarize`; sealed, with the size and SHA-256 of metrics.jsonl
    lock                 held by the process that writes here

Whatever reads one of these files checks that it is what was written, and belongs to the others.
"""

import contextlib
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from ortho_ref import files, schema
from ortho_ref.files import GONE, DamagedFile
from ortho_ref.losses import LOSSES, METRICS
from ortho_ref.training import checkpoint
from ortho_ref.training.task import JOINS
from ortho_ref.training.trainer import Record

CONFIG, METRICS_FILE, SUMMARY = "config.json", "metrics.jsonl", "summary.json"
LAST, PREVIOUS, BEST = "last.safetensors", "previous.safetensors", "best.safetensors"
#: In the order in which they are written.
RUN_FILES = (CONFIG, METRICS_FILE, LAST, PREVIOUS, BEST, SUMMARY)
#: What a run can go on from.
CHECKPOINTS = {"last": LAST, "previous": PREVIOUS, "best": BEST}

CONFIG_FORMAT, SUMMARY_FORMAT = "ortho_ref config 3", "ortho_ref summary 2"
#: No counter of a run is larger, no size of a layer, no file of metrics.
MOST, WIDEST, LONGEST = 10**9, 10**6, 2**40

_FIGURES = schema.mapping(schema.NUMBER)
_COUNT = schema.integer(0, MOST)

NETWORK: schema.Schema = {
    "type": "object",
    "properties": {
        "name": schema.TEXT,
        "input_size": schema.integer(1, WIDEST),
        "hidden_sizes": schema.list_of(schema.integer(1, WIDEST), 1, 1000),
        "output_size": schema.integer(1, WIDEST),
        "readout": schema.one_of("every", "last"),
        "loss": schema.one_of(*LOSSES),
        "dropout": schema.number(0),
        "embedding": schema.optional(schema.integer(1, WIDEST)),
        "tied": schema.BOOLEAN,
        "regularizers": schema.record(
            {},
            dict.fromkeys(("words", "inputs", "hidden", "outputs", "weights", "alpha", "beta"), schema.number(0))
            | {"weights_of": schema.list_of(schema.TEXT)},
        ),
        "reader": schema.one_of(*JOINS),
    },
    "required": ["name", "input_size", "hidden_sizes", "output_size"],
}
CONFIG_FORM: schema.Schema = {"type": "object", "properties": {"network": NETWORK}}

LINE = schema.record(
    {
        "iteration": schema.integer(1, MOST),
        "loss": schema.NUMBER,
        "gradient_norm": schema.number(0),
        "learning_rates": _FIGURES,
        "steps_per_second": schema.number(0),
        "weights": schema.mapping(_FIGURES),
    },
    {"evaluation_loss": schema.NUMBER} | dict.fromkeys(METRICS, schema.NUMBER),
)

_BEST_OF = schema.record(
    {"at": _COUNT, "final": schema.NUMBER, "median_of_last_20": schema.NUMBER},
    {"minimum": schema.NUMBER, "maximum": schema.NUMBER},
)
SUMMARY_FORM = schema.record(
    {
        "iterations": _COUNT,
        "parameters": schema.integer(0, LONGEST),
        "baseline": schema.NUMBER,
        "evaluations": _COUNT,
        "evaluation_loss": _BEST_OF,
        "steps_per_second": schema.number(0),
        "metrics_size": schema.integer(0, LONGEST),
        "metrics_sha256": schema.SHA256,
    },
    dict.fromkeys(METRICS, _BEST_OF)
    | {"worst_defect": schema.NUMBER, "worst_condition": schema.NUMBER, "forced_resets": _COUNT},
)

_WORD128 = schema.integer(0, 2**128 - 1)
_GENERATOR = schema.record(
    {
        "bit_generator": schema.one_of("PCG64"),
        "state": schema.record({"state": _WORD128, "inc": _WORD128}),
        "has_uint32": schema.integer(0, 1),
        "uinteger": schema.integer(0, 2**32 - 1),
    }
)
#: The tree of a checkpoint, `training.Trainer.state` and what a run adds.
STATE = schema.record(
    {
        "settings": schema.mapping(schema.optional(schema.NUMBER)),
        "iteration": _COUNT,
        "params": schema.mapping(checkpoint.ARRAY),
        "buffers": schema.mapping({"type": "object"}),
        "optimizer": {"type": "object"},
        "carried": schema.optional(
            schema.list_of(schema.either(checkpoint.ARRAY, checkpoint.tuple_of(checkpoint.ARRAY)))
        ),
        "generators": schema.record({"data": _GENERATOR, "dropout": _GENERATOR}),
        "interval": schema.record({"total": schema.NUMBER, "since": _COUNT}),
        "best": schema.optional(schema.NUMBER),
        "config_sha256": schema.SHA256,
        "metrics_size": schema.integer(0, LONGEST),
        "metrics_sha256": schema.SHA256,
    },
    {
        "average": schema.record(
            {
                "on": schema.BOOLEAN,
                "count": _COUNT,
                "recent": schema.list_of(schema.NUMBER),
                "best": schema.optional(schema.NUMBER),
                "params": schema.mapping(checkpoint.ARRAY),
            }
        )
    },
)


class DamagedRun(DamagedFile):
    """A file of a run that is not as it was written, or gone.

    Parameters
    ----------
    path : Path or str
        Which.
    reason : str
        What shows it.
    choices : tuple of str
        Of `CHECKPOINTS`, those that are whole and that it does not matter to.

    Attributes
    ----------
    damage : str
        The message without them.
    """

    def __init__(self, path: Path | str, reason: object, choices: tuple[str, ...] = ()) -> None:
        super().__init__(path, reason)
        self.damage, self.choices = self.args[0], choices
        if choices:
            self.args = (f"{self.damage}; whole: {' and '.join(f'which={name!r}' for name in choices)}",)


def check_places(run: Path | str) -> None:
    """OSError where a folder is in the place of a run's file: no file can take it."""
    run = Path(run)
    for name in RUN_FILES:
        if (run / name).is_dir() and not (run / name).is_symlink():
            raise OSError(f"{run / name} is a folder, not a file; remove it")


def write_config(run: Path | str, config: Record) -> str:
    """Write config.json; its seal."""
    run = Path(run)
    return files.write_sealed(run / CONFIG, CONFIG_FORMAT, config, CONFIG_FORM)


def read_config(run: Path | str) -> Record:
    """config.json of a run's folder.

    FileNotFoundError if there is none; ValueError if it is of another format, or damaged.
    """
    run = Path(run)
    return _config(run).value


def _config(run: Path) -> files.Sealed:
    try:
        return files.read_sealed(run / CONFIG, CONFIG_FORMAT, CONFIG_FORM)
    except (FileNotFoundError, NotADirectoryError):
        raise FileNotFoundError(f"{run} holds no run: there is no {CONFIG} in it") from None
    except DamagedFile as error:
        reason = f"{error.reason}; put back what was written, or train again in another folder"
        raise DamagedRun(error.path, reason) from None


class Line(NamedTuple):
    """A line of metrics: what it says, its seal, and where it ends in the file."""

    record: Record
    sha256: str
    end: int


class Metrics:
    """metrics.jsonl, to be written on.

    Parameters
    ----------
    path : Path
        The file.
    stream : BinaryIO
        The same, open, at its end.
    config_sha256 : str
        The seal of the run's config.
    lines : list of Line
        What is in it.

    Attributes
    ----------
    records : list of dict
        What its lines say.
    """

    def __init__(self, path: Path, stream: BinaryIO, config_sha256: str, lines: list[Line]) -> None:
        self.path, self._stream, self.config_sha256 = path, stream, config_sha256
        self._sha256 = lines[-1].sha256 if lines else config_sha256
        self.records = [line.record for line in lines]

    def write(self, record: Record) -> None:
        """One line more.  ValueError for what it cannot hold; OSError, naming the file, where that fails."""
        schema.check(record, LINE, "a line of metrics")
        line, sha256 = _chained(record, self._sha256)
        try:
            self._stream.write(line)
            self._stream.flush()
        except OSError as error:
            with contextlib.suppress(OSError):  # what is left in its buffer would fail again, and hide this error
                self._stream.close()
            raise type(error)(f"{self.path} cannot be written: {error.strerror}") from error
        self._sha256 = sha256
        self.records.append(record)

    def sync(self) -> None:
        """Wait until all of it is on the disk.  OSError, naming the file, where that fails."""
        try:
            os.fsync(self._stream.fileno())
        except OSError as error:
            raise type(error)(f"{self.path} cannot be written: {error.strerror}") from error

    def state(self) -> Record:
        """What a checkpoint records."""
        return {"metrics_size": self._stream.tell(), "metrics_sha256": self._sha256}


@contextlib.contextmanager
def metrics_file(run: Path | str, state: Record | None = None) -> Iterator[Metrics]:
    """metrics.jsonl, cut to what a checkpoint records, to be written on; without a checkpoint, from its beginning.

    DamagedRun where what is left is not what was written.
    """
    run = Path(run)
    path, sha256 = run / METRICS_FILE, _config(run).sha256
    try:
        lines = [] if state is None else _lines_before(run, state)
    except DamagedFile as error:
        raise DamagedRun(path, error.reason, choices(run)) from None
    with open(path, "r+b" if path.exists() else "w+b") as stream:
        stream.truncate(lines[-1].end if lines else 0)
        stream.seek(0, os.SEEK_END)
        yield Metrics(path, stream, sha256, lines)


def read_metrics(run: Path | str) -> list[Record]:
    """The lines of metrics.jsonl, without one that is being written.

    FileNotFoundError if there is none; DamagedRun where they are not what was written, or fewer.
    """
    run = Path(run)
    recorded = _recorded(run)  # before the lines: a run that is on writes more of them meanwhile
    path, sha256 = run / METRICS_FILE, _config(run).sha256
    try:
        data = files.read(path)
    except (FileNotFoundError, NotADirectoryError):
        raise FileNotFoundError(f"{run} holds no run: there is no {METRICS_FILE} in it") from None
    try:
        lines = _lines(path, data[: data.rfind(b"\n") + 1], sha256)
        for state in recorded:
            _check_recorded(path, lines, sha256, state)
    except DamagedFile as error:
        raise DamagedRun(path, error.reason, choices(run)) from None
    return [line.record for line in lines]


def _recorded(run: Path) -> list[Record]:
    """What the summary and the last checkpoint record of the metrics, of those that are there."""
    found = []
    if (run / SUMMARY).exists():
        found.append(_summary(run))
    if (run / LAST).exists():
        found.append(_state_in_time(run, "last"))
    return found


def _lines(path: Path, data: bytes, sha256: str) -> list[Line]:
    """The lines of metrics; DamagedFile at the first that is not what was written after those before."""
    lines: list[Line] = []
    end = 0
    for i, text in enumerate(data.splitlines(keepends=True), 1):
        end += len(text)
        try:
            whole = files.from_json(text)
            schema.check(whole, _SEALED, "the line")
            record = {name: value for name, value in whole.items() if name != "sha256"}
            again, sha256 = _chained(record, sha256)
            if again != text:
                raise ValueError("its SHA-256 is not that of its text and of the lines before")
            if lines and record["iteration"] <= lines[-1].record["iteration"]:
                raise ValueError(f"iteration {record['iteration']} comes after {lines[-1].record['iteration']}")
        except ValueError as error:
            raise DamagedFile(path, f"line {i}: {error}") from None
        lines.append(Line(record, sha256, end))
    return lines


def _lines_before(run: Path, state: Record) -> list[Line]:
    """The lines that a checkpoint records.  DamagedFile where they are not what was written."""
    path, sha256 = run / METRICS_FILE, _config(run).sha256
    data = files.read(path)[: state["metrics_size"]] if path.exists() else b""
    lines = _lines(path, data[: data.rfind(b"\n") + 1], sha256)
    _check_recorded(path, lines, sha256, state)
    return lines


def _check_recorded(path: Path, lines: list[Line], sha256: str, state: Record) -> None:
    """DamagedFile unless, up to the size recorded, the lines are those recorded."""
    seals, size = {0: sha256} | {line.end: line.sha256 for line in lines}, state["metrics_size"]
    if max(seals) < size:
        raise DamagedFile(path, f"it is shorter than the {size} bytes that are recorded")
    if seals.get(size) != state["metrics_sha256"]:
        raise DamagedFile(path, f"its first {size} bytes are not those that are recorded")


def _chained(record: Record, before: str) -> tuple[bytes, str]:
    """A line of metrics, and its seal: the SHA-256 of the line before's and of the record."""
    sha256 = hashlib.sha256(f"{before}\n{files.to_json(record)}".encode()).hexdigest()
    return (files.to_json(record | {"sha256": sha256}) + "\n").encode(), sha256


_SEALED = LINE | {
    "properties": LINE["properties"] | {"sha256": schema.SHA256},
    "required": [*LINE["required"], "sha256"],
}


def write_state(run: Path | str, name: str, state: Record, metrics: Metrics) -> None:
    """Write a checkpoint, after the metrics; what was the last one is the previous one then."""
    run = Path(run)
    whole = state | {"config_sha256": metrics.config_sha256} | metrics.state()
    metrics.sync()
    checkpoint.save(run / CHECKPOINTS[name], whole, STATE, run / PREVIOUS if name == "last" else None)


def read_state(run: Path | str, which: str) -> Record:
    """A checkpoint of a run, "last", "previous" or "best".

    FileNotFoundError if there is none; ValueError if it is of another format; DamagedRun if it is not what was written
    for this run.
    """
    run = Path(run)
    state, path = _state_in_time(run, which), run / METRICS_FILE
    if path.exists() and path.stat().st_size < state["metrics_size"]:  # without its metrics it can be loaded
        reason = f"it is shorter than the {state['metrics_size']} bytes that {CHECKPOINTS[which]} records"
        raise DamagedRun(path, reason, choices(run))
    return state


def _state_in_time(run: Path, which: str) -> Record:
    """A checkpoint that is the one which later files know of.  Errors as of `read_state`."""
    try:
        state = _state_of_summary(run, which)
        if which == "best":
            _check_best_by_last(run)
    except DamagedRun:  # of the config; no checkpoint goes on without it
        raise
    except DamagedFile as error:
        raise DamagedRun(error.path, error.reason, choices(run)) from None
    return state


def _state_of_summary(run: Path, which: str) -> Record:
    """A checkpoint; DamagedFile where it is the last, and not the one that the summary is of."""
    # before the checkpoint: a run that is on may end meanwhile
    summary = _summary(run) if which == "last" and (run / SUMMARY).exists() else None
    state = _state(run, which)
    if summary is not None and any(state[name] != summary[name] for name in ("metrics_size", "metrics_sha256")):
        raise DamagedFile(run / LAST, f"it is not the one that {SUMMARY} is of")
    return state


def _check_best_by_last(run: Path) -> None:
    """DamagedFile where the best checkpoint is not the one that the last, if that is whole, knows of."""
    try:
        last = _state(run, "last")
    except (OSError, ValueError):
        return
    _check_best(run, last)


def _state(run: Path, which: str) -> Record:
    path, sha256 = run / CHECKPOINTS[which], _config(run).sha256
    try:
        state = checkpoint.load(path, STATE)
    except FileNotFoundError:
        raise FileNotFoundError(f"{run} has no {path.name}") from None
    if state["config_sha256"] != sha256:
        raise DamagedFile(path, f"it is of another run than {CONFIG}")
    total = state["settings"].get("iterations")
    if not state["interval"]["since"] <= state["iteration"] <= (state["iteration"] if total is None else total):
        raise DamagedFile(path, f"its iteration is {state['iteration']} of {total}")
    return state


def best_beside(run: Path | str) -> Record:
    """The best checkpoint beside one that is gone on from, which may be earlier: the metrics need not reach it.

    Errors as of `read_state`.
    """
    return _state_in_time(Path(run), "best")


def choices(run: Path | str) -> tuple[str, ...]:
    """Of `CHECKPOINTS`, those that are whole, with the metrics that they record."""
    run = Path(run)

    def whole(which: str) -> bool:
        try:
            _lines_before(run, _state_of_summary(run, which))
        except (OSError, ValueError):
            return False
        return True

    return tuple(filter(whole, CHECKPOINTS))


def state_to_go_on(run: Path | str, which: str | None = None) -> Record | None:
    """The checkpoint that a run goes on from.

    Parameters
    ----------
    run : Path or str
        The folder.
    which : str, optional
        Of `CHECKPOINTS`; the last unless given.  With one that is given, a best checkpoint that is damaged or gone is
        no error before the run's end: its "best" is None, as if nothing had been evaluated yet.

    Returns
    -------
    dict or None
        None where the run died before its first checkpoint.

    Raises
    ------
    FileNotFoundError
        If the one that is given is not there.
    ValueError
        If it is of another format.
    DamagedRun
        If it, the metrics that it records, or the best one, is not what was written, or is gone.
    """
    run = Path(run)
    if which is None and not (run / LAST).exists():
        if any((run / name).exists() and (run / name).stat().st_size for name in (METRICS_FILE, PREVIOUS, BEST)):
            raise DamagedRun(run / LAST, GONE, choices(run))
        return None
    state = read_state(run, which or "last")
    try:
        _lines_before(run, state)
        _check_best(run, state)
    except DamagedFile as error:
        finished = state["iteration"] == state["settings"].get("iterations")
        if error.path != run / BEST or which is None or finished:
            left = [name for name in choices(run) if not (finished and name == "last")]
            raise DamagedRun(error.path, error.reason, tuple(left)) from None
        state["best"] = None
    return state


def iterations_of(run: Path | str, which: str | None = None) -> int | None:
    """How many updates a run is to have, as its checkpoints know it: it may have been lengthened.

    Parameters
    ----------
    run : Path or str
        The folder.
    which : str, optional
        Of `CHECKPOINTS`, the one that the run goes on from; the others count too where they are whole.  The last, and
        that alone, unless given.

    Returns
    -------
    int or None
        None where the run died before its last checkpoint, or its checkpoints are of no `runs.TrainingRun`.

    Raises
    ------
    OSError, ValueError
        As of `read_state`.
    """
    run = Path(run)
    if which is None and not (run / LAST).exists():
        return None
    known = [read_state(run, which or "last")]
    if which is not None:
        known += [_state(run, other) for other in choices(run) if other != which]
    totals = [state["settings"]["iterations"] for state in known if "iterations" in state["settings"]]
    return max(totals, default=None)


def _check_best(run: Path, state: Record) -> None:
    """DamagedFile unless the best checkpoint is there if it should be, and is the one that another one knows of."""
    path = run / BEST
    if not path.exists():
        if state["best"] is not None:
            raise DamagedFile(path, GONE)
        return
    best = _state(run, "best")
    if best["iteration"] <= state["iteration"] and best["best"] != state["best"]:
        raise DamagedFile(path, f"its loss is {best['best']}; the smallest so far is {state['best']}")


def make_last(run: Path | str, which: str, state: Record) -> None:
    """Let a checkpoint, as `state_to_go_on` gave it, be the last; what is later, and a best that is not its, goes."""
    run = Path(run)
    (run / SUMMARY).unlink(missing_ok=True)
    if which != "last":
        files.keep(run / CHECKPOINTS[which], run / LAST)
    if which == "best":
        (run / PREVIOUS).unlink(missing_ok=True)
    if state["best"] is None:
        (run / BEST).unlink(missing_ok=True)
    files.sync_folder(run)


def best_or_last(run: Path | str) -> str:
    """The checkpoint with the weights of a run: the best, or the last where nothing was evaluated yet.

    DamagedRun where the best is gone.
    """
    run = Path(run)
    if (run / BEST).exists() or not (run / LAST).exists():
        return "best" if (run / BEST).exists() else "last"
    if read_state(run, "last")["best"] is not None:
        raise DamagedRun(run / BEST, GONE, choices(run))
    return "last"


def write_summary(run: Path | str, summary: Record, metrics: Metrics) -> None:
    """Write summary.json."""
    run = Path(run)
    files.write_sealed(run / SUMMARY, SUMMARY_FORMAT, summary | metrics.state(), SUMMARY_FORM)


def read_summary(run: Path | str) -> Record:
    """summary.json of a finished run, as `runs.summarize` made it.

    FileNotFoundError if there is none; ValueError if it is of another format; DamagedRun if it is not what was written
    for this run.
    """
    run = Path(run)
    summary = _summary(run)
    read_metrics(run)
    return {name: value for name, value in summary.items() if not name.startswith("metrics_")}


def _summary(run: Path) -> Record:
    try:
        return files.read_sealed(run / SUMMARY, SUMMARY_FORMAT, SUMMARY_FORM).value
    except (FileNotFoundError, NotADirectoryError):
        raise FileNotFoundError(f"{run} holds no finished run: there is no {SUMMARY} in it") from None
    except DamagedFile as error:
        reason = f"{error.reason}; remove it, and resume the run, which writes it again"
        raise DamagedRun(error.path, reason) from None
