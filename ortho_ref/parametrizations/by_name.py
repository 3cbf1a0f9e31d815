"""Parametrizations by name, for command lines and JSON: "householder:8" is Householder(8).

free
cayley[:K]                      ScaledCayley, K entries -1; n // 2 unless given
neumann[:K[:ORDER[:RESET]]]     NeumannCayley, order 2, resets every 50 updates unless given
exponential                     Exponential
householder:M                   Householder, M reflections
tunable:L                       TunableRotations, L layers; complex on a complex cell
fft                             FFTRotations; complex on a complex cell
volume[:K]                      VolumePreserving, K sublayers
structured, geodesic            StructuredUnitary, GeodesicUnitary
"""

from collections.abc import Callable

from ortho_ref.parametrizations.cayley import ScaledCayley
from ortho_ref.parametrizations.exponential import Exponential
from ortho_ref.parametrizations.free import Free
from ortho_ref.parametrizations.geodesic import GeodesicUnitary
from ortho_ref.parametrizations.householder import Householder
from ortho_ref.parametrizations.neumann import NeumannCayley
from ortho_ref.parametrizations.parametrization import Parametrization
from ortho_ref.parametrizations.rotations import FFTRotations, TunableRotations, VolumePreserving
from ortho_ref.parametrizations.structured import StructuredUnitary

# name -> (least and greatest number of integers after it, maker from (n, complex, *integers))
_MAKERS: dict[str, tuple[int, int, Callable[..., Parametrization]]] = {
    "free": (0, 0, lambda n, c: Free()),
    "cayley": (0, 1, lambda n, c, k=None: ScaledCayley(n // 2 if k is None else k)),
    "neumann": (0, 3, lambda n, c, k=None, order=2, reset=50: NeumannCayley(n // 2 if k is None else k, order, reset)),
    "exponential": (0, 0, lambda n, c: Exponential()),
    "householder": (1, 1, lambda n, c, m: Householder(m)),
    "tunable": (1, 1, lambda n, c, capacity: TunableRotations(capacity, complex=c)),
    "fft": (0, 0, lambda n, c: FFTRotations(complex=c)),
    "volume": (0, 1, lambda n, c, k=None: VolumePreserving(k)),
    "structured": (0, 0, lambda n, c: StructuredUnitary()),
    "geodesic": (0, 0, lambda n, c: GeodesicUnitary()),
}
FORMS = (
    "free, cayley[:K], neumann[:K[:ORDER[:RESET]]], exponential, householder:M, tunable:L, fft, volume[:K], "
    "structured, geodesic"
)


def by_name(text: str, n: int, complex: bool = False) -> Parametrization:
    """The parametrization that `text` names, for an n x n weight of a real or complex cell.

    ValueError for an unknown name, a wrong number of integers, or a value that no n allows; what this n does not allow
    is refused by `init`.
    """
    name, *rest = text.split(":")
    if name in _MAKERS:
        least, most, make = _MAKERS[name]
        if least <= len(rest) <= most and all(part.isascii() and part.isdigit() and len(part) <= 6 for part in rest):
            return make(n, complex, *map(int, rest))
    raise ValueError(f"parametrization is {text!r}; allowed: {FORMS}, the capitals being integers of at most 6 digits")
