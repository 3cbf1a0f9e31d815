"""The list of parametrizations, and their names for command lines and JSON: "householder:8" is Householder(8).

free
scaled_cayley[:K]                      K entries -1; n // 2 unless given
neumann_cayley[:K[:ORDER[:RESET]]]     order 2, resets every 50 updates unless given
exponential
householder:M                          M reflections
tunable_rotations:L                    L layers; complex on a complex cell
fft_rotations                          complex on a complex cell
volume_preserving[:K]                  K sublayers
structured_unitary, geodesic_unitary
"""

from collections.abc import Callable
from typing import NamedTuple

from ortho_ref.boundary import nearest, short
from ortho_ref.parametrizations.cayley import ScaledCayley
from ortho_ref.parametrizations.exponential import Exponential
from ortho_ref.parametrizations.free import Free
from ortho_ref.parametrizations.geodesic import GeodesicUnitary
from ortho_ref.parametrizations.householder import Householder
from ortho_ref.parametrizations.neumann import NeumannCayley
from ortho_ref.parametrizations.parametrization import Parametrization
from ortho_ref.parametrizations.rotations import FFTRotations, TunableRotations, VolumePreserving
from ortho_ref.parametrizations.structured import StructuredUnitary


class Form(NamedTuple):
    """How a parametrization is written and made."""

    kind: type[Parametrization]
    integers: str  # those after its name, as the list of forms has them
    least: int  # there may be no fewer of them,
    most: int  # and no more
    make: Callable[..., Parametrization]  # make(n, complex, *integers) -> the parametrization


def _half(k: int | None, n: int) -> int:
    return n // 2 if k is None else k


_FORMS: dict[str, Form] = {
    "free": Form(Free, "", 0, 0, lambda n, c: Free()),
    "scaled_cayley": Form(ScaledCayley, "[:K]", 0, 1, lambda n, c, k=None: ScaledCayley(_half(k, n))),
    "neumann_cayley": Form(
        NeumannCayley,
        "[:K[:ORDER[:RESET]]]",
        0,
        3,
        lambda n, c, k=None, order=2, reset=50: NeumannCayley(_half(k, n), order, reset),
    ),
    "exponential": Form(Exponential, "", 0, 0, lambda n, c: Exponential()),
    "householder": Form(Householder, ":M", 1, 1, lambda n, c, m: Householder(m)),
    "tunable_rotations": Form(TunableRotations, ":L", 1, 1, lambda n, c, capacity: TunableRotations(capacity, c)),
    "fft_rotations": Form(FFTRotations, "", 0, 0, lambda n, c: FFTRotations(c)),
    "volume_preserving": Form(VolumePreserving, "[:K]", 0, 1, lambda n, c, k=None: VolumePreserving(k)),
    "structured_unitary": Form(StructuredUnitary, "", 0, 0, lambda n, c: StructuredUnitary()),
    "geodesic_unitary": Form(GeodesicUnitary, "", 0, 0, lambda n, c: GeodesicUnitary()),
}
#: Name -> class.
PARAMETRIZATIONS: dict[str, type[Parametrization]] = {name: form.kind for name, form in _FORMS.items()}


def name_of(p: Parametrization) -> str:
    """The name of a parametrization, without its integers; of one that is not on the list that of its class."""
    return next((name for name, kind in PARAMETRIZATIONS.items() if type(p) is kind), type(p).__name__)


#: How each is written, in words.
FORMS = ", ".join(f"{name}{form.integers}" for name, form in _FORMS.items())


def by_name(text: str, n: int, complex: bool = False) -> Parametrization:
    """The parametrization that `text` names.

    Parameters
    ----------
    text : str
        A name and its integers, "householder:8"; all of them: `FORMS`.
    n : int
        Of the n x n weight it is for.
    complex : bool
        Whether the cell is complex.

    Returns
    -------
    Parametrization
        What this n does not allow is refused by its `init`.

    Raises
    ------
    ValueError
        An unknown name, a wrong number of integers, or a value that no n allows.
    """
    name, *rest = text.split(":") if isinstance(text, str) else ("",)
    if name in _FORMS:
        form = _FORMS[name]
        integers = all(part.isascii() and part.isdigit() and len(part) <= 6 for part in rest)
        if form.least <= len(rest) <= form.most and integers:
            return form.make(n, complex, *map(int, rest))
    near = nearest(name, _FORMS) if name not in _FORMS else ""
    capitals = "the capitals being integers of at most 6 digits"
    raise ValueError(f"parametrization is {short(text)}{near}; allowed: {FORMS}, {capitals}")
