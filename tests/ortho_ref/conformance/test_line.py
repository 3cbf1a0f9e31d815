"""Messages between the kit and an adapter's process: what was said, or ValueError; nothing else, whatever comes."""

import numpy as np
import pytest

from ortho_ref.conformance import line
from ortho_ref.terminal import cut

HEADER = {"number": 3, "status": line.GIVEN, "said": cut("\x1b \ud800"), "place": "", "traceback": "", "refuses": False}
HEADER |= {"no_arrays": {"h": "is a list"}}
ARRAYS = {
    "d_x": np.arange(6.0).reshape(2, 3).T,
    "loss": np.array(2.5),
    "none": np.zeros((0, 3)),
    "big": np.arange(4, dtype=">f4"),
    "mask": np.array([True, False]),
    "z": np.array([1 + 2j]),
}


def heard(data, size, most=10_000):
    """What a reader makes of bytes that come in pieces of a size."""
    reader, found = line.Reader(line.Answer, most), None
    for place in range(0, len(data), size):
        assert found is None
        found = reader.feed(data[place : place + size])
    return found


@pytest.mark.parametrize("size", [1, 7, 100, 10_000])
def test_a_message_comes_as_it_was(size):
    """In pieces of any size; arrays of any order in memory, of no entries, of no axes; they may be written to."""
    message = heard(line.packed(HEADER, ARRAYS), size)
    assert {name: message.header[name] for name in HEADER} == HEADER
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(message.arrays[name], array, strict=True)
        assert message.arrays[name].flags.writeable


def test_flips():
    """Any byte of the header for another: what is said is something else of the same form, or nothing."""
    data, rng, refused = line.packed(HEADER, ARRAYS), np.random.default_rng(0), 0
    for _ in range(2000):
        flipped = bytearray(data)
        flipped[rng.integers(len(data))] = rng.integers(256)
        try:
            heard(bytes(flipped), 10_000)
        except ValueError:
            refused += 1
    assert refused > 500
