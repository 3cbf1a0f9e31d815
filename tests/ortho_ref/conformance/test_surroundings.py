"""What an implementation does to the process of `check` is put back, or fails its case."""

import io
import locale
import os
import signal
import sys
import warnings

import numpy as np
import pytest

from ortho_ref.conformance import check
from tests.ortho_ref.conformance.adapters import right

ID = "activation/tanh/large"


def doing(act):
    """An adapter that is right, and does this."""

    def run(case):
        act()
        return right(case)

    return run


def _printing(value):
    np.set_printoptions(precision=value)


QUIETLY = {
    "NumPy's errors": (lambda: np.seterr(all="raise"), np.geterr),
    "NumPy's printing": (lambda: _printing(1), np.get_printoptions),
    "random numbers": (lambda: np.random.seed(3), lambda: np.random.get_state()[1].tobytes()),  # noqa: NPY002
    "warnings": (lambda: warnings.simplefilter("error"), lambda: list(warnings.filters)),
    "folder": (lambda: os.chdir("/"), os.getcwd),
    "environment": (lambda: os.environ.update(MORE="x", PATH="/nowhere"), lambda: dict(os.environ)),
    "environment, less": (os.environ.clear, lambda: dict(os.environ)),
    "locale": (lambda: locale.setlocale(locale.LC_ALL, "C.UTF-8"), lambda: locale.setlocale(locale.LC_ALL)),
    "SIGINT": (lambda: signal.signal(signal.SIGINT, signal.SIG_IGN), lambda: signal.getsignal(signal.SIGINT)),
    "SIGTERM": (lambda: signal.signal(signal.SIGTERM, print), lambda: signal.getsignal(signal.SIGTERM)),
    "recursion": (lambda: sys.setrecursionlimit(200), sys.getrecursionlimit),
    "profile": (lambda: sys.setprofile(lambda *_: None), sys.getprofile),
}


@pytest.mark.parametrize("which", QUIETLY)
def test_what_is_put_back_without_a_word(which):
    """And whoever does it passes."""
    act, state = QUIETLY[which]
    before = state()
    assert check(doing(act), ID).ok
    assert state() == before


def _replaced():
    sys.stdout = io.StringIO()


def _gone():
    sys.stderr = None


STREAMS = {
    "replaced sys.stdout": _replaced,
    "replaced sys.stderr": _gone,
    "closed sys.stdout": lambda: sys.stdout.close(),
}


@pytest.mark.parametrize("says", STREAMS)
def test_streams_that_are_replaced_fail(says, monkeypatch):
    """They are there again; one that was closed is open on the same descriptor."""
    monkeypatch.setattr(sys, "stdout", open(os.devnull, "w"))  # noqa: SIM115  a test may close it
    out, err = sys.stdout, sys.stderr
    (result,) = check(doing(STREAMS[says]), ID).results
    assert (result.status, result.message) == ("failed", says)
    assert not sys.stdout.closed
    assert sys.stderr is err
    assert (sys.stdout is out) == ("closed" not in says)
    sys.stdout.close()


def test_what_raises_after_it_replaced_a_stream():
    """What it raised is said; the stream is there again."""
    out = sys.stdout

    def run(case):
        sys.stdout = None
        raise ValueError("x")

    assert check(run, ID).results[0].message.startswith("raised ValueError: x (")
    assert sys.stdout is out
