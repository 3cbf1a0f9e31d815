"""torch.nn.utils.parametrizations.orthogonal with orthogonal_map="matrix_exp", without a base."""

from ortho_ref.adapters import map_from_torch
from scripts.maintain.scoreboard.torch_maps import parametrized

map, pullback = map_from_torch(lambda Q: parametrized(Q, "matrix_exp"))
