"""The ways to keep a recurrent matrix orthogonal: own parameters in, one dense matrix U out, and the way back."""

from ortho_ref.parametrizations.cayley import ScaledCayley
from ortho_ref.parametrizations.free import Free
from ortho_ref.parametrizations.neumann import NeumannCayley
from ortho_ref.parametrizations.parametrization import Parametrization, Params, State, defect

__all__ = ["Free", "NeumannCayley", "Parametrization", "Params", "ScaledCayley", "State", "defect"]
