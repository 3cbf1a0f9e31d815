"""What a program may say to a terminal; marks of tests that redirect its streams, where there is no way to."""

import inspect
import os

import pytest
from numpy.f2py import cfuncs

FULL = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
NO_STDERR = pytest.mark.skipif(
    not inspect.isfunction(cfuncs.errmess), reason="NumPy 2.0's f2py, which SciPy 1.13 imports, needs a stderr"
)


def harmless(text):
    """Whether nothing in a text commands a terminal."""
    return all(c.isprintable() or c in "\n\t" for c in text)
