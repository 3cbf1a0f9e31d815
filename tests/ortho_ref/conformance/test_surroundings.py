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


QUIETLY = {
    "NumPy's errors": (lambda: np.seterr(all="raise"), np.geterr),
    "NumPy's printing": (lambda: np.set_printoptions(precision=1), np.get_printoptions),
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


STREAMS = {
    "replaced sys.stdout": lambda: setattr(sys, "stdout", io.StringIO()),
    "replaced sys.stderr": lambda: setattr(sys, "stderr", None),
    "closed sys.stdout": lambda: sys.stdout.close(),
    "raised ZeroDivisionError: division by zero (": lambda: (setattr(sys, "stdout", None), 1 / 0),
}


@pytest.mark.parametrize("says", STREAMS)
def test_streams_that_are_replaced_fail(says, monkeypatch):
    """They are there again; one that was closed is open on the same descriptor.  What was raised is said."""
    monkeypatch.setattr(sys, "stdout", open(os.devnull, "w"))  # noqa: SIM115  a test may close it
    out, err = sys.stdout, sys.stderr
    (result,) = check(doing(STREAMS[says]), ID).results
    assert result.status == "failed"
    assert result.message.startswith(says)
    assert not sys.stdout.closed
    assert sys.stderr is err
    assert (sys.stdout is out) == ("closed" not in says)
    sys.stdout.close()
