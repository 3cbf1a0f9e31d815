"""What torch.optim.Muon makes of a gradient: Newton-Schulz in bfloat16.  It is not made to be differentiated."""

from torch.optim import _muon

from ortho_ref.adapters import map_from_torch

map, _ = map_from_torch(
    lambda G: _muon._zeropower_via_newtonschulz(G, (_muon.DEFAULT_A, _muon.DEFAULT_B, _muon.DEFAULT_C), 5, _muon.EPS)
)
