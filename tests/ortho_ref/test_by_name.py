"""Parametrizations by name, for command lines and JSON."""

import dataclasses
import re

import numpy as np
import pytest

from ortho_ref import parametrizations as maps
from ortho_ref.parametrizations import by_name
from ortho_ref.parametrizations.by_name import FORMS

NAMED = {
    "free": maps.Free(),
    "cayley": maps.ScaledCayley(4),
    "cayley:0": maps.ScaledCayley(0),
    "cayley:3": maps.ScaledCayley(3),
    "neumann": maps.NeumannCayley(4, 2, 50),
    "neumann:3": maps.NeumannCayley(3, 2, 50),
    "neumann:3:1": maps.NeumannCayley(3, 1, 50),
    "neumann:0:3:20": maps.NeumannCayley(0, 3, 20),
    "exponential": maps.Exponential("henaff"),
    "householder:5": maps.Householder(5),
    "tunable:4": maps.TunableRotations(4),
    "fft": maps.FFTRotations(),
    "volume": maps.VolumePreserving(None),
    "volume:3": maps.VolumePreserving(3),
    "structured": maps.StructuredUnitary(),
    "geodesic": maps.GeodesicUnitary(),
}


@pytest.mark.parametrize("text", NAMED)
def test_names(text):
    """Every form, with and without the integers that may be left out, for n = 8; U can be made of it."""
    p = by_name(text, 8)
    assert p == NAMED[text]
    assert type(p) is type(NAMED[text])
    _, buffers = p.init(np.random.default_rng(0), 8, np.float64)
    assert buffers["U"].shape == (8, 8)


def test_the_default_of_k_follows_n():
    """n // 2 entries -1, for odd n too."""
    assert by_name("cayley", 7) == maps.ScaledCayley(3)
    assert by_name("neumann", 56) == maps.NeumannCayley(28)


def test_complex_cells():
    """The rotations become complex; what is real or complex by its nature stays so."""
    assert by_name("tunable:4", 8, complex=True) == maps.TunableRotations(4, complex=True)
    assert by_name("fft", 8, complex=True) == maps.FFTRotations(complex=True)
    for text in NAMED.keys() - {"tunable:4", "fft"}:
        assert by_name(text, 8, complex=True) == NAMED[text]


def test_every_parametrization_has_a_name():
    """All classes of the package are reached, and the error's list of forms has all names and no others."""
    classes = {getattr(maps, name) for name in maps.__all__ if dataclasses.is_dataclass(getattr(maps, name))}
    assert {type(p) for p in NAMED.values()} == classes
    names = [re.match(r"\w+", form)[0] for form in FORMS.split(", ")]
    assert names == list(dict.fromkeys(text.split(":")[0] for text in NAMED))


BAD = ["", "cayly", "Cayley", "cayley:", "cayley:x", "cayley:-1", "cayley:1.5", "cayley:1:2", "cayley: 1", "cayley:٣"]
BAD += ["neumann:1:2:3:4", "free:1", "exponential:1", "householder", "householder:", "householder:1:2", "tunable"]
BAD += ["tunable:2:2", "fft:1", "volume:1:2", "structured:1", "geodesic:1", "cayley,2"]


@pytest.mark.parametrize("text", BAD)
def test_bad_names(text):
    """An unknown name, integers too many or too few, what is no integer: the text, and all forms allowed."""
    message = f"parametrization is {text!r}; allowed: {FORMS}, the capitals being integers of at most 6 digits"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        by_name(text, 8)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("neumann:1:4", "order is 4; allowed: 1, 2, 3"),
        ("neumann:1:2:0", "reset_every is 0; allowed: an integer >= 1, or None"),
        ("householder:0", "reflections is 0; allowed: an integer from 1 to n"),
        ("tunable:3", "capacity is 3; allowed: an even number from 2 to n"),
        ("volume:0", "sublayers is 0; allowed: an integer >= 1, or None"),
    ],
)
def test_values_out_of_range(text, message):
    """The parametrization's own error."""
    with pytest.raises(ValueError, match=f"^{message}$"):
        by_name(text, 8)
