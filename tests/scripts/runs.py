"""Programs run by the tests: in this process, and in forks that kill themselves."""

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from unittest import mock

from scripts import program

ROOT = Path(__file__).parents[2]


def call(main, *arguments):
    """Exit code, stdout and stderr of a program on this command line."""
    out, err, code = io.StringIO(), io.StringIO(), None
    with (
        mock.patch.object(sys, "argv", ["program", *map(str, arguments)]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            program.run(main)
        except SystemExit as end:
            code = end.code
    return code, out.getvalue(), err.getvalue()


class Forks:
    """`python -m scripts.train` again and again, each time in a process of its own, with the imports done once.

    The process started here forks for each run; the fork can be told to send itself a signal at the n-th call of
    something.
    """

    def __init__(self):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.scripts.runs"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def train(self, *arguments, at=None, number=1, send=(signal.SIGKILL,)):
        """Exit code (below 0: the signal that ended it), stdout, stderr and calls of each of POINTS.

        send: what is sent at the call of this number of the point `at`.
        """
        job = {"arguments": [*map(str, arguments)], "at": at, "number": number, "send": [*map(int, send)]}
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        """End of the process."""
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


#: Where a run can be ended: before a sync, before and after a rename, before a file gets a second name, when half of a
#: file or of a line is written, before an update, before an evaluation.
POINTS = ("fsync", "rename", "renamed", "link", "file", "line", "update", "evaluation")


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


def _instrument(job, calls):
    """Count the calls of each point, and send the signals where they are asked for."""
    from ortho_ref import files, run_folder, training
    from ortho_ref.network import Network

    def reach(point, before=lambda: None):
        calls[point] += 1
        if point == job["at"] and calls[point] == job["number"]:
            before()
            for number in job["send"]:
                os.kill(os.getpid(), number)

    def wrap(owner, name, first, then=None):
        right = getattr(owner, name)

        def wrapped(*arguments, **options):
            reach(first)
            result = right(*arguments, **options)
            if then:
                reach(then)
            return result

        setattr(owner, name, wrapped)

    wrap(os, "fsync", "fsync")
    wrap(os, "replace", "rename", "renamed")
    wrap(os, "link", "link")
    wrap(Network, "loss_and_gradients", "update")
    wrap(training, "evaluate", "evaluation")

    def opened(point, path, mode, **options):
        stream = open(path, mode, **options)  # noqa: SIM115  closed by the caller
        return stream if mode in ("a+", "rb") else _Half(stream, lambda flush: reach(point, flush))

    files.open, run_folder.open = partial(opened, "file"), partial(opened, "line")


def _run(job, answer):
    """In the fork: the program; its exit code is the process's."""
    from scripts import train
    from scripts.pictures import losses

    calls = dict.fromkeys(POINTS, 0)
    _instrument(job, calls)
    losses.draw = lambda *arguments: None  # slow, and at the end
    code, out, err = call(train.main, *job["arguments"])
    answer.write(json.dumps({"stdout": out, "stderr": err, "calls": calls}))
    answer.flush()
    os._exit(code)


def _serve():
    """A run for each line of stdin; its end as a line of stdout."""
    import tempfile

    from scripts import train  # noqa: F401  for the forks
    from scripts.pictures import losses  # noqa: F401

    for line in sys.stdin:
        with tempfile.TemporaryFile("w+") as answer:
            child = os.fork()
            if not child:
                try:
                    _run(json.loads(line), answer)
                finally:
                    os._exit(70)  # not reached but by an error, which is on stderr
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            answer.seek(0)
            end = json.loads(answer.read() or "{}")
        print(json.dumps({"code": code} | end), flush=True)


if __name__ == "__main__":
    _serve()
