"""torch.nn.utils.parametrizations.orthogonal with orthogonal_map="cayley", without a base."""

from ortho_ref.adapters import map_from_torch
from scripts.maintain.scoreboard.torch_maps import parametrized

map, pullback = map_from_torch(lambda Q: parametrized(Q, "cayley"))
