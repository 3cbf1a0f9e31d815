"""The ways to keep a recurrent matrix orthogonal: own parameters in, one dense matrix U out, and the way back."""

from ortho_ref.parametrizations.by_name import by_name as by_name
from ortho_ref.parametrizations.cayley import ScaledCayley as ScaledCayley
from ortho_ref.parametrizations.exponential import Exponential as Exponential
from ortho_ref.parametrizations.free import Free as Free
from ortho_ref.parametrizations.geodesic import GeodesicUnitary as GeodesicUnitary
from ortho_ref.parametrizations.householder import Householder as Householder
from ortho_ref.parametrizations.neumann import NeumannCayley as NeumannCayley
from ortho_ref.parametrizations.parametrization import (
    Buffers as Buffers,
    Parametrization as Parametrization,
    Params as Params,
    defect as defect,
)
from ortho_ref.parametrizations.rotations import (
    FFTRotations as FFTRotations,
    TunableRotations as TunableRotations,
    VolumePreserving as VolumePreserving,
)
from ortho_ref.parametrizations.structured import StructuredUnitary as StructuredUnitary
