"""The folder of a run.  `RunFolder` is the only code that opens, writes or removes its files.

    config.json          what the caller says the run is; "network" are the arguments of `models.network`.  Sealed
    last.safetensors     the whole state, every `checkpoint_every` updates and at the end: the truth.  It has the
                         config's SHA-256, and every line of metrics so far
    previous.safetensors the checkpoint before the last
    best.safetensors     the same at the smallest evaluation_loss so far
    metrics.jsonl        a line per logging interval: iteration, loss (mean over the interval), gradient_norm (before
                         clipping), learning_rates, steps_per_second; on the held-out set, evaluation_loss and the
                         metric; weights: for each orthogonal weight defect, Neumann condition, forced resets, as they
                         were before the update: the U that its loss is of.  (After it, intervals of `reset_every`
                         would show nothing but exact inverses.)  sha256: of the line before's and the line; the first
                         line's is of the config's and the line.  A run that goes on writes it again from its checkpoint
    summary.json         when the run is finished: `runs.summarize`; sealed, with the SHA-256 of the last line
    lock                 held by the process that writes here

Every name is opened in the folder itself, whatever its path leads to meanwhile, and never through a link.  What is read
is what was written, and belongs to the others, or it is refused by its name, with what is whole.
"""

import contextlib
import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ortho_ref import files, formats
from ortho_ref.files import GONE, DamagedFile
from ortho_ref.formats import Sealed
from ortho_ref.training import checkpoint, forms
from ortho_ref.training.trainer import Record

CONFIG, METRICS_FILE, SUMMARY = "config.json", "metrics.jsonl", "summary.json"
LAST, PREVIOUS, BEST = "last.safetensors", "previous.safetensors", "best.safetensors"
#: In the order in which they are written.
RUN_FILES = (CONFIG, METRICS_FILE, LAST, PREVIOUS, BEST, SUMMARY)
#: What a run can go on from.
CHECKPOINTS = {"last": LAST, "previous": PREVIOUS, "best": BEST}
CONFIG_FORMAT, SUMMARY_FORMAT = "ortho_ref config 3", "ortho_ref summary 3"
_NO_RUN = f"{{}} holds no run: there is no {CONFIG} in it"
_AGAIN = "remove it, and resume the run, which writes it again"


class DamagedRun(DamagedFile):
    """A file of a run that is not as it was written, or gone.

    choices: of `CHECKPOINTS`, those that are whole and that it does not matter to; damage: the message without them.
    """

    def __init__(self, path: Path | str, reason: object, choices: tuple[str, ...] = ()) -> None:
        super().__init__(path, reason)
        self.damage, self.choices = self.args[0], choices
        if choices:
            self.args = (f"{self.damage}; whole: {' and '.join(f'which={name!r}' for name in choices)}",)


@dataclass
class _Log:
    """Lines of metrics: their text, what they say, and the last one's SHA-256, or the config's where there is none."""

    sha256: str
    text: bytearray = field(default_factory=bytearray)
    records: list[Record] = field(default_factory=list)

    def add(self, record: Record) -> bytes:
        """One line more; its text, with its seal: the SHA-256 of the line before's and of the record."""
        self.sha256 = hashlib.sha256(f"{self.sha256}\n{formats.to_json(record)}".encode()).hexdigest()
        line = (formats.to_json(record | {"sha256": self.sha256}) + "\n").encode()
        self.text += line
        self.records.append(record)
        return line


def _text_of(state: Record) -> bytes:
    """The lines of metrics that a checkpoint has."""
    return np.asarray(state["metrics"]).tobytes()


class RunFolder:
    """A run's folder: with mode "r" read, with "w" begun, with "a" gone on with.

    "w" makes the folder; both it and "a" hold it for this process until `close`.  FileNotFoundError if it is not there,
    or with "a" holds no run; FileExistsError if with "w" it holds one; BlockingIOError if another process holds it;
    OSError if it cannot be made or held.
    """

    def __init__(self, path: Path | str, mode: str = "r") -> None:
        self.path, self.mode = Path(path), mode
        self._finished = False  # the run, when its lines were read
        # of a run that goes on, until it does: a checkpoint is read once, and what was checked is what is taken up
        self._states: dict[str, Record] | None = {} if mode == "a" else None
        self._stack = contextlib.ExitStack()
        self.check_held: Callable[[], None] = lambda: None
        try:
            if mode == "w" and not self.path.exists():
                self.path.mkdir(parents=True)
                files.sync_folder(self.path.parent)
            self._folder = files.open_folder(self.path)
        except OSError as error:
            if mode != "w" and isinstance(error, FileNotFoundError | NotADirectoryError):
                raise FileNotFoundError(_NO_RUN.format(path)) from None
            raise type(error)(f"out is {path}: {error.strerror}") from error
        if self._folder is not None:
            self._stack.callback(os.close, self._folder)
        try:
            self._check_mode()  # before the lock is made
            if mode != "r":
                self.check_held = self._stack.enter_context(files.locked(self.path, self._folder))
                self._check_mode()  # another process may have begun in between
        except BaseException:
            self.close()
            raise

    def _check_mode(self) -> None:
        if self.mode == "r":
            return
        found = [name for name in RUN_FILES if self.has(name)]
        for name in found:
            if (self.path / name).is_dir() and not (self.path / name).is_symlink():
                raise OSError(f"{self.path / name} is a folder, not a file; remove it")
        if self.mode == "w" and found:
            raise FileExistsError(
                f"out is {self.path}, which holds a run already ({found[0]}); choose another folder, or resume it"
            )
        if self.mode == "a" and CONFIG not in found:
            raise FileNotFoundError(_NO_RUN.format(self.path))

    def __enter__(self) -> "RunFolder":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of it."""
        self._stack.close()

    # Files

    def has(self, name: str) -> bool:
        """Whether something there has this name."""
        return files.exists(self.path / name, self._folder)

    def beat(self) -> None:
        """Show that this process is at work: the lock's time is now."""
        files.touch(self.path / "lock", self._folder)

    def is_held(self) -> bool:
        """Whether another process works here."""
        return files.is_held(self.path, self._folder)

    def read(self, name: str) -> bytes:
        """What is in a file."""
        return files.read(self.path / name, self._folder)

    def document(self, name: str, format: str, form: Any) -> Record | None:
        """What is in a sealed document besides the run's own; None where it is not there."""
        return files.read_sealed(self.path / name, format, form, self._folder).value if self.has(name) else None

    def write_document(self, name: str, format: str, value: Record, form: Any) -> str:
        """Write a sealed document; its seal."""
        self.check_held()
        return files.write_sealed(self.path / name, format, value, form, self._folder)

    def written_on(self, name: str) -> int:
        """A descriptor of a file that is written on at its end."""
        self.check_held()
        try:
            return files.opened(self.path / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, self._folder)
        except OSError as error:
            files.raise_naming(error, self.path / name, "written")

    def folder(self, name: str) -> Path:
        """A folder in this one, made where it is not there.  OSError for a link or a file in its place."""
        self.check_held()
        files.make_folder(self.path / name, self._folder)
        return self.path / name

    def remove(self, *names: str) -> None:
        """Remove files, of those that are there."""
        self.check_held()
        for name in names:
            files.remove(self.path / name, self._folder)

    # Config

    @cached_property
    def sealed_config(self) -> Sealed:
        """config.json, and its seal.  FileNotFoundError if there is none; DamagedRun if it was not written so."""
        try:
            return files.read_sealed(self.path / CONFIG, CONFIG_FORMAT, forms.Config, self._folder)
        except FileNotFoundError:
            raise FileNotFoundError(_NO_RUN.format(self.path)) from None
        except DamagedFile as error:
            reason = f"{error.reason}; put back what was written, or train again in another folder"
            raise DamagedRun(error.path, reason) from None

    @property
    def config(self) -> Record:
        """What the run is."""
        return self.sealed_config.value

    def begin(self, config: Record) -> None:
        """Write config.json, and metrics without a line."""
        self.write_document(CONFIG, CONFIG_FORMAT, config, forms.Config)
        self._log = _Log(self.sealed_config.sha256)
        self._write_log(self._log_text())

    # Metrics

    @property
    def records(self) -> list[Record]:
        """What the lines of metrics say, but for one that is being written.

        DamagedRun where they are not what was written, or fewer.
        """
        return self._log.records

    @cached_property
    def _log(self) -> _Log:
        """The lines that are there; of a run that begins or goes on, those that should be."""
        self._finished = self.has(SUMMARY)
        # before the lines: a run that is on writes more of them meanwhile
        known = _text_of(self.state("last")) if self.has(LAST) else b""
        text = self._log_text() or b""
        text = text[: text.rfind(b"\n") + 1]
        try:
            if not text.startswith(known):
                short = f"it is shorter than the {len(known)} bytes that {LAST} has of it"
                other = f"its first {len(known)} bytes are not those that {LAST} has of it"
                raise ValueError(short if known.startswith(text) else other)
            return self._lines(text)
        except ValueError as error:
            reason = f"{error}; resume the run, which writes it again"
            raise DamagedRun(self.path / METRICS_FILE, reason) from None

    def _lines(self, text: bytes) -> _Log:
        """Lines of metrics; ValueError at the first that is not what was written after those before."""
        log = _Log(self.sealed_config.sha256)
        for i, line in enumerate(text.splitlines(keepends=True), 1):
            try:
                record = formats.from_json(line)
                formats.check(record, forms.SealedLine, "the line")
                del record["sha256"]
                if log.add(record) != line:
                    raise ValueError("its SHA-256 is not that of its text and of the lines before")
                if len(log.records) > 1 and record["iteration"] <= log.records[-2]["iteration"]:
                    raise ValueError(f"iteration {record['iteration']} comes after {log.records[-2]['iteration']}")
            except ValueError as error:
                raise ValueError(f"line {i}: {error}") from None
        return log

    def add(self, record: Record) -> None:
        """One line of metrics more.  ValueError for what it cannot hold; OSError, naming the file, where that fails."""
        formats.check(record, forms.Line, "a line of metrics")
        with open(self.written_on(METRICS_FILE), "ab") as stream:
            try:
                stream.write(self._log.add(record))
                stream.flush()
            except OSError as error:
                with contextlib.suppress(OSError):  # what is left in its buffer would fail again, and hide this error
                    stream.close()
                files.raise_naming(error, self.path / METRICS_FILE, "written")

    def _log_text(self) -> bytes | None:
        """What metrics.jsonl is; None where there is none."""
        return self.read(METRICS_FILE) if self.has(METRICS_FILE) else None

    def _write_log(self, present: bytes | None) -> None:
        """metrics.jsonl as it should be, unless it is so already."""
        if present != self._log.text:
            files.write(self.path / METRICS_FILE, bytes(self._log.text), folder=self._folder)

    # Checkpoints

    def write_state(self, name: str, state: Record) -> None:
        """Write a checkpoint; what was the last one is the previous one then."""
        self.check_held()
        metrics = np.frombuffer(bytes(self._log.text), np.uint8)
        own = {"config_sha256": self.sealed_config.sha256, "metrics": metrics}
        old = self.path / PREVIOUS if name == "last" else None
        checkpoint.save(self.path / CHECKPOINTS[name], state | own, forms.State, old, self._folder)

    def state(self, which: str) -> Record:
        """A checkpoint, "last", "previous" or "best".

        FileNotFoundError if there is none; ValueError if it is of another format; DamagedRun if it is not what was
        written for this run, or not the one that later files know of.
        """
        try:
            state = self._state(which)
            if which == "best":
                last = None
                with contextlib.suppress(OSError, ValueError):
                    last = self._state("last")
                if last is not None:
                    self._check_best(last, state)
        except DamagedRun:  # of the config, or the summary: no checkpoint goes on without the one, or needs the other
            raise
        except DamagedFile as error:
            raise DamagedRun(error.path, error.reason, self.choices()) from None
        return state

    def _state(self, which: str) -> Record:
        """A checkpoint; DamagedFile unless it is what was written for this run, and the one that the summary is of."""
        if self._states is None:
            return self._read_state(which)
        if which not in self._states:
            self._states[which] = self._read_state(which)
        return dict(self._states[which])

    def _read_state(self, which: str) -> Record:
        path = self.path / CHECKPOINTS[which]
        # before the checkpoint: a run that is on may end meanwhile
        summary = self._sealed_summary() if which == "last" and self.has(SUMMARY) else None
        try:
            state, sha256 = checkpoint.load_with_hash(path, forms.State, self._folder)
        except FileNotFoundError:
            raise FileNotFoundError(f"{self.path} has no {path.name}") from None
        if state["config_sha256"] != self.sealed_config.sha256:
            raise DamagedFile(path, f"it is of another run than {CONFIG}")
        total = state["settings"].get("iterations")
        if not state["interval"]["since"] <= state["iteration"] <= (state["iteration"] if total is None else total):
            raise DamagedFile(path, f"its iteration is {state['iteration']} of {total}")
        try:
            log = self._lines(_text_of(state))
        except ValueError as error:
            raise DamagedFile(path, f"its metrics: {error}") from None
        if summary is not None and log.sha256 != summary["metrics_sha256"]:
            raise DamagedFile(path, f"it is not the one that {SUMMARY} is of")
        return state | {"sha256": sha256}

    def _check_best(self, state: Record, best: Record | None = None) -> None:
        """DamagedFile unless the best checkpoint is there if it should be, and is the one that another one knows of."""
        path = self.path / BEST
        if not self.has(BEST):
            if state["best"] is not None:
                raise DamagedFile(path, GONE)
            return
        best = best or self._state("best")
        if best["iteration"] <= state["iteration"] and best["best"] != state["best"]:
            raise DamagedFile(path, f"its loss is {best['best']}; the smallest so far is {state['best']}")

    def choices(self) -> tuple[str, ...]:
        """Of `CHECKPOINTS`, those that are whole."""

        def whole(which: str) -> bool:
            try:
                self._state(which)
            except (OSError, ValueError):
                return False
            return True

        return tuple(filter(whole, CHECKPOINTS))

    def state_to_go_on(self, which: str | None = None) -> Record | None:
        """The checkpoint that a run goes on from, the last unless given; None where the run died before its first one.

        With one that is given, a best checkpoint that is damaged or gone is no error before the run's end: its "best"
        is None, as if nothing had been evaluated yet.  FileNotFoundError if the one that is given is not there;
        ValueError if it is of another format; DamagedRun if it, or the best one, is not what was written, or is gone.
        """
        if which is None and not self.has(LAST):
            if self._log_text() or self.has(PREVIOUS) or self.has(BEST):
                raise DamagedRun(self.path / LAST, GONE, self.choices())
            return None
        state = self.state(which or "last")
        try:
            self._check_best(state)
        except DamagedFile as error:
            finished = state["iteration"] == state["settings"].get("iterations")
            if error.path != self.path / BEST or which is None or finished:
                left = [name for name in self.choices() if not (finished and name == "last")]
                raise DamagedRun(error.path, error.reason, tuple(left)) from None
            state["best"] = None
        return state

    def go_on(self, which: str | None, state: Record | None) -> None:
        """Let a checkpoint, as `state_to_go_on` gave it, be the last one, and the metrics be what it has of them.

        With one that is given, what is later, and a best that is not its, goes.
        """
        self.check_held()
        self._states = None
        present = self._log_text()  # before anything is changed: it may be no file
        self._log = _Log(self.sealed_config.sha256) if state is None else self._lines(_text_of(state))
        if which is not None and state is not None:
            self.remove(SUMMARY)
            if which != "last":
                files.keep(self.path / CHECKPOINTS[which], self.path / LAST, self._folder)
            if which == "best":
                self.remove(PREVIOUS)
            if state["best"] is None:
                self.remove(BEST)
            files.sync_folder(self._folder)
        self._write_log(present)

    def iterations(self, which: str | None = None) -> int | None:
        """How many updates the run is to have, as its checkpoints know it: it may have been lengthened.

        which: the one that the run goes on from; the others count too where they are whole.  The last, and that alone,
        unless given.  None where the run died before its last checkpoint, or its checkpoints are of no
        `runs.TrainingRun`.  Errors as of `state`.
        """
        if which is None and not self.has(LAST):
            return None
        known = [self.state(which or "last")]
        if which is not None:
            known += [self._state(other) for other in self.choices() if other != which]
        totals = [state["settings"]["iterations"] for state in known if "iterations" in state["settings"]]
        return max(totals, default=None)

    def best_or_last(self) -> str:
        """The checkpoint with the weights of the run: the best, or the last where nothing was evaluated yet.

        DamagedRun where the best is gone.
        """
        if self.has(BEST):
            return "best"
        if self.has(LAST) and self.state("last")["best"] is not None:
            raise DamagedRun(self.path / BEST, GONE, self.choices())
        return "last"

    # Summary

    def write_summary(self, summary: Record) -> None:
        """Write summary.json."""
        self.write_document(
            SUMMARY, SUMMARY_FORMAT, summary | {"metrics_sha256": self._log.sha256}, forms.SealedSummary
        )

    @property
    def summary(self) -> Record | None:
        """What `runs.summarize` made of the finished run; None where it is not finished.

        ValueError if it is of another format; DamagedRun if it is not what was written for this run.
        """
        log = self._log
        if not self.has(SUMMARY) or (self.mode == "r" and not self._finished):
            return None
        summary = self._sealed_summary()
        if summary.pop("metrics_sha256") != log.sha256:
            raise DamagedRun(self.path / SUMMARY, f"it is not of {METRICS_FILE}; {_AGAIN}")
        return summary

    def _sealed_summary(self) -> Record:
        try:
            return files.read_sealed(self.path / SUMMARY, SUMMARY_FORMAT, forms.SealedSummary, self._folder).value
        except DamagedFile as error:
            raise DamagedRun(error.path, f"{error.reason}; {_AGAIN}") from None
