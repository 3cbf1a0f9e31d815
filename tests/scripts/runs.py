"""Programs run by the tests: in this process, and in forks that kill themselves."""

import atexit
import contextlib
import gc
import io
import json
import os
import resource
import runpy
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

from scripts import program
from tests.line import PATIENCE

ROOT = Path(__file__).parents[2]


def call(main, *arguments, picture=False):
    """Exit code, stdout and stderr of a program on this command line, in this process.

    train draws its curve, which takes longer than a small run, only where a picture is asked for.
    """
    out, err, code = io.StringIO(), io.StringIO(), None
    with (
        mock.patch.object(sys, "argv", ["program", *map(str, arguments)]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        contextlib.nullcontext() if picture or main.__module__ != "scripts.train" else _no_picture(),
    ):
        try:
            program.run(main)
        except SystemExit as end:
            code = end.code
    return code, out.getvalue(), err.getvalue()


def refusal(main, *arguments):
    """What a program says that refuses this command line: exit code 2, one line, nothing on stdout."""
    code, stdout, stderr = call(main, *arguments)
    assert (code, stdout, stderr.count("\n")) == (2, "", 1), stderr
    assert stderr.startswith("error: ")
    return stderr


@contextlib.contextmanager
def _no_picture():
    """Nothing is drawn, and nothing that draws is loaded."""
    name = "scripts.pictures.runs"
    kept = {name: sys.modules[name]} if name in sys.modules else {}
    sys.modules[name] = SimpleNamespace(draw_folders=lambda *arguments: None)
    try:
        yield
    finally:
        del sys.modules[name]
        sys.modules |= kept


_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Fork:
    """A function in a fork of this process, with as much of `Popen` as a grid asks of its workers.

    It saves a worker its second of imports.
    """

    def __init__(self, function, log):
        self.returncode = None
        heard = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)  # until the fork hears them itself
        with warnings.catch_warnings():  # other threads there may be, of a test before, and none is needed
            warnings.simplefilter("ignore", DeprecationWarning)
            self.pid = os.fork()
        if not self.pid:
            self._run(function, log)
        signal.pthread_sigmask(signal.SIG_SETMASK, heard)

    def _run(self, function, log):
        code = 1
        try:
            for number in _SIGNALS:  # the program's handlers are not the worker's
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
            os.setsid()
            stream = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.dup2(stream, 1)
            os.dup2(stream, 2)
            sys.stdout = sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115
            code = function()
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)

    def poll(self):
        return self._take(os.WNOHANG)

    def wait(self):
        return self._take(0)

    def _take(self, how):
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, how)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def send_signal(self, number):
        os.kill(self.pid, number)


def forked(order):
    """The process of a run, as `engine.start` begins it, in a fork of this process."""
    from scripts.grid.experiment import engine, worker

    folder = Path(order.folder)
    folder.mkdir(parents=True, exist_ok=True)
    return Fork(partial(worker.work, order, os.getpid()), folder / engine.LOG)


class Forks:
    """`python -m MODULE` again and again, each time in a process of its own, with the imports done once.

    The process started here forks for each run; the fork can be told to send itself a signal, or to have a call fail,
    at the n-th call of something.
    """

    def __init__(self):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.scripts.runs"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def train(self, *arguments, send=(signal.SIGKILL,), **options):
        """`run` of scripts.train, which draws no curve: that is slow, and at the end."""
        return self.run("scripts.train", *arguments, send=send, picture=False, **options)

    def run(self, module, *arguments, limit=PATIENCE, send=(), **options):
        """Exit code (below 0: the signal that ended it; None: it had not ended after `limit` seconds), stdout, stderr
        and, if it ended by itself, the calls of each of POINTS.

        at, number: what is counted, one of POINTS or "step", and at which call of it something happens.
        send: signals that are sent then.
        errno: the error that is raised then; lasting: at every later call of the same as well.
        file_size: bytes that a file may have, memory: bytes that the process may ask for on top of what it has.
        stdout: the path that stdout goes to.
        cwd: the folder that it is run in, environment: variables that it has besides.
        strict: warnings are errors; forked: a grid's workers are forks, too.
        """
        given = {"module": module, "arguments": [os.fsdecode(_text(word)) for word in arguments], "limit": limit}
        self.process.stdin.write(json.dumps(JOB | given | {"send": [*map(int, send)]} | options) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        """End of the process."""
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


def _text(word):
    return word if isinstance(word, str | bytes | os.PathLike) else str(word)


JOB = {
    "at": None,
    "number": 1,
    "errno": None,
    "lasting": False,
    "file_size": None,
    "memory": None,
    "stdout": None,
    "cwd": None,
    "environment": {},
    "strict": False,
    "forked": False,
    "picture": True,
}

#: Where a run can be ended: before a sync, before and after a rename, before a file gets a second name, when half of a
#: file or of a line is written, before an update, before an evaluation.
POINTS = ("fsync", "rename", "renamed", "link", "file", "line", "update", "evaluation")
#: The modules whose every line is a "step".
STEPS = ("files.py", "checkpoint.py", "run_folder.py", "runs.py")
#: Characters of each stream that are kept.
KEPT = 200_000


class _Half:
    """A stream that may end its process when half of the data is written."""

    def __init__(self, stream, reached):
        self.stream, self.reached = stream, reached

    def write(self, data):
        half = len(data) // 2
        self.stream.write(data[:half])
        self.reached(self.stream.flush)
        return half + self.stream.write(data[half:])

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.stream.close()

    def __iter__(self):
        return iter(self.stream)

    def __getattr__(self, name):
        return getattr(self.stream, name)


class _Points:
    """Counts the calls of each point, and does there what the job asks for."""

    def __init__(self, job):
        self.job, self.calls = job, dict.fromkeys((*POINTS, "step"), 0)

    def reach(self, point, before=lambda: None):
        self.calls[point] += 1
        number, due = self.calls[point], self.job["number"]
        if point != self.job["at"] or number < due:
            return
        if number == due:
            before()
            for sent in self.job["send"]:
                os.kill(os.getpid(), sent)
        if self.job["errno"] and (self.job["lasting"] or number == due):
            raise OSError(self.job["errno"], os.strerror(self.job["errno"]))

    def wrap(self, owner, name, first, then=None):
        right = getattr(owner, name)

        def wrapped(*arguments, **options):
            self.reach(first)
            result = right(*arguments, **options)
            if then:
                self.reach(then)
            return result

        setattr(owner, name, wrapped)

    def opened(self, point, path, mode, **options):
        stream = open(path, mode, **options)  # noqa: SIM115  closed by the caller
        return stream if mode in ("a+", "rb") else _Half(stream, lambda flush: self.reach(point, flush))

    def traced(self, frame, event, argument):
        if event == "line":
            self.reach("step")
        return self.traced

    def instrument(self):
        """From here on."""
        from ortho_ref import files
        from ortho_ref.network import Network
        from ortho_ref.training import run_folder, trainer as training

        self.wrap(os, "fsync", "fsync")
        self.wrap(os, "replace", "rename", "renamed")
        self.wrap(os, "link", "link")
        self.wrap(Network, "compute", "update")
        self.wrap(training, "evaluate", "evaluation")
        files.open, run_folder.open = partial(self.opened, "file"), partial(self.opened, "line")
        if self.job["at"] == "step":
            own = {str(Path(files.__file__).with_name(name)) for name in STEPS}
            sys.settrace(lambda frame, *_: self.traced if frame.f_code.co_filename in own else None)


def _limit(job):
    """In the fork: its folder, its streams, and what it may ask for."""
    if job["cwd"]:
        os.chdir(job["cwd"])
    os.environ |= job["environment"]
    if job["strict"]:
        warnings.simplefilter("error")
    if job["file_size"] is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (job["file_size"],) * 2)
    if job["memory"] is not None and sys.platform == "linux":
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + job["memory"],) * 2)


def _run(job, answer):
    """In the fork: the program, as `python -m` runs it, to the end of the process."""
    points = _Points(job)
    if job["module"].startswith("scripts."):
        points.instrument()
    if not job["picture"]:
        from scripts.pictures import runs

        runs.draw_folders = lambda *arguments: None
    if job["forked"]:
        from scripts.grid.experiment import engine

        engine.start = forked
    atexit.register(lambda: os.pwrite(answer, json.dumps(points.calls).encode(), 0))
    sys.argv = ["program", *job["arguments"]]
    runpy.run_module(job["module"], run_name="__main__", alter_sys=True)


def _serve():
    """A run for each line of stdin; its end as a line of stdout. In a fork: its job, and where it answers."""
    _warm()
    for line in sys.stdin:
        job = json.loads(line)
        with contextlib.ExitStack() as stack:
            streams = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(3)]
            child = os.fork()
            if not child:
                stack.pop_all()
                return _begin(job, streams)
            code, seconds = _end_of(child, job["limit"])
            out, err, calls = map(_contents, streams)
        end = {"code": code, "stdout": out, "stderr": err, "calls": json.loads(calls or "{}"), "seconds": seconds}
        print(json.dumps(end), flush=True)
    return None


def _warm():
    """A small run and its readers, here: whatever they load at their first use is there in every fork."""
    import ortho_ref.conformance.diagnosis  # noqa: F401

    with tempfile.TemporaryDirectory() as folder, mock.patch.object(sys, "argv", sys.argv):
        run = f"{folder}/run"
        tiny = shlex.split("--hidden 2 --negative-ones 1 --length 2 --batch 1 --iterations 1")
        for module, *arguments in (
            ("train", "parenthesis", "--out", run, *tiny),
            ("evaluate", run),
            ("plot", run, "--out", f"{folder}/run.png"),
        ):
            sys.argv = ["program", *arguments]
            quiet = io.StringIO()
            with contextlib.suppress(SystemExit), contextlib.redirect_stdout(quiet), contextlib.redirect_stderr(quiet):
                runpy.run_module(f"scripts.{module}", run_name="__main__", alter_sys=True)
    gc.collect()
    gc.freeze()


def _begin(job, streams):
    """In the fork: a session of its own, its streams instead of the server's."""
    os.setsid()
    out, err, answer = (os.dup(stream.fileno()) for stream in streams)
    if job["stdout"] is not None:
        out = os.open(job["stdout"], os.O_WRONLY)
    for number, target in ((os.open(os.devnull, os.O_RDONLY), 0), (out, 1), (err, 2)):
        os.dup2(number, target)
        os.close(number)
    _limit(job)
    return job, answer


def _end_of(child, limit):
    """The child's exit code, or None where it had to be ended; what it leaves of its session is ended too."""
    begun, pause, ended = time.monotonic(), 0.001, False
    while not ended and time.monotonic() - begun <= limit:
        time.sleep(pause)
        pause = min(2 * pause, 0.02)
        ended = _has_ended(child)
    seconds = time.monotonic() - begun
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)  # while its number is still its own
    status = os.waitpid(child, 0)[1]
    return (os.waitstatus_to_exitcode(status) if ended else None), seconds


def _has_ended(child):
    """Without taking note of it."""
    return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _contents(stream):
    stream.seek(0)
    return stream.read(KEPT).decode(errors="surrogateescape")


if __name__ == "__main__":
    if begun := _serve():
        _run(*begun)
