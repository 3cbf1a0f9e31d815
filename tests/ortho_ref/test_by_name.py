"""Parametrizations by name, for command lines and JSON."""

import dataclasses
import re

import numpy as np
import pytest

from ortho_ref import parametrizations as maps
from ortho_ref.boundary import nearest
from ortho_ref.parametrizations import by_name
from ortho_ref.parametrizations.by_name import FORMS, PARAMETRIZATIONS, name_of

NAMED = {
    "free": maps.Free(),
    "scaled_cayley": maps.ScaledCayley(4),
    "scaled_cayley:0": maps.ScaledCayley(0),
    "scaled_cayley:3": maps.ScaledCayley(3),
    "neumann_cayley": maps.NeumannCayley(4, 2, 50),
    "neumann_cayley:3": maps.NeumannCayley(3, 2, 50),
    "neumann_cayley:3:1": maps.NeumannCayley(3, 1, 50),
    "neumann_cayley:0:3:20": maps.NeumannCayley(0, 3, 20),
    "exponential": maps.Exponential("henaff"),
    "householder:5": maps.Householder(5),
    "tunable_rotations:4": maps.TunableRotations(4),
    "fft_rotations": maps.FFTRotations(),
    "volume_preserving": maps.VolumePreserving(None),
    "volume_preserving:3": maps.VolumePreserving(3),
    "structured_unitary": maps.StructuredUnitary(),
    "geodesic_unitary": maps.GeodesicUnitary(),
}


@pytest.mark.parametrize("text", NAMED)
def test_names(text):
    """Every form, with and without the integers that may be left out, for n = 8; U can be made of it."""
    p = by_name(text, 8)
    assert p == NAMED[text]
    assert type(p) is type(NAMED[text])
    _, buffers = p.init(np.random.default_rng(0), 8, dtype=np.float64)
    assert buffers["U"].shape == (8, 8)


def test_the_default_of_k_follows_n():
    """n // 2 entries -1, for odd n too."""
    assert by_name("scaled_cayley", 7) == maps.ScaledCayley(3)
    assert by_name("neumann_cayley", 56) == maps.NeumannCayley(28)


def test_complex_cells():
    """The rotations become complex; what is real or complex by its nature stays so."""
    assert by_name("tunable_rotations:4", 8, complex=True) == maps.TunableRotations(4, complex=True)
    assert by_name("fft_rotations", 8, complex=True) == maps.FFTRotations(complex=True)
    for text in NAMED.keys() - {"tunable_rotations:4", "fft_rotations"}:
        assert by_name(text, 8, complex=True) == NAMED[text]


def test_every_parametrization_has_a_name():
    """All classes of the package are reached, and the error's list of forms has all names and no others."""
    classes = {own for own in vars(maps).values() if dataclasses.is_dataclass(own)}
    assert {type(p) for p in NAMED.values()} == classes
    names = [re.match(r"\w+", form)[0] for form in FORMS.split(", ")]
    assert names == list(dict.fromkeys(text.split(":")[0] for text in NAMED))


BAD = [
    "",
    "cayley",
    "Scaled_cayley",
    *(f"scaled_cayley{k}" for k in (":", ":x", ":-1", ":1.5", ":1:2", ": 1", ":٣", ",2")),
]
BAD += ["neumann_cayley:1:2:3:4", "free:1", "exponential:1", "householder", "householder:", "householder:1:2"]
BAD += ["tunable_rotations", "tunable_rotations:2:2", "fft_rotations:1", "volume_preserving:1:2"]
BAD += ["structured_unitary:1", "geodesic_unitary:1"]


@pytest.mark.parametrize("text", BAD)
def test_bad_names(text):
    """An unknown name, integers too many or too few, what is no integer: the text, and all forms allowed."""
    name = text.split(":")[0]
    near = "" if name in PARAMETRIZATIONS else nearest(name, PARAMETRIZATIONS)
    message = f"parametrization is {text!r}{near}; allowed: {FORMS}, the capitals being integers of at most 6 digits"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        by_name(text, 8)


@pytest.mark.parametrize("text", NAMED)
def test_the_name_of_a_parametrization(text):
    """That of the list; of another the name of its class."""
    assert name_of(NAMED[text]) == text.split(":")[0]

    class Mine(maps.Free):
        pass

    assert name_of(Mine()) == "Mine"
