"""The ways to keep a recurrent matrix orthogonal: own parameters in, one dense matrix U out, and the way back."""

from ortho_ref.parametrizations.by_name import by_name
from ortho_ref.parametrizations.cayley import ScaledCayley
from ortho_ref.parametrizations.exponential import Exponential
from ortho_ref.parametrizations.free import Free
from ortho_ref.parametrizations.geodesic import GeodesicUnitary
from ortho_ref.parametrizations.householder import Householder
from ortho_ref.parametrizations.neumann import NeumannCayley
from ortho_ref.parametrizations.parametrization import Buffers, Parametrization, Params, defect
from ortho_ref.parametrizations.rotations import FFTRotations, TunableRotations, VolumePreserving
from ortho_ref.parametrizations.structured import StructuredUnitary

__all__ = [
    "Buffers",
    "Exponential",
    "FFTRotations",
    "Free",
    "GeodesicUnitary",
    "Householder",
    "NeumannCayley",
    "Parametrization",
    "Params",
    "ScaledCayley",
    "StructuredUnitary",
    "TunableRotations",
    "VolumePreserving",
    "by_name",
    "defect",
]
