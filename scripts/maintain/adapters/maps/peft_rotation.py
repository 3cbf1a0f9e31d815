"""PEFT's own rotations, from its package: PEFT_ROTATION is oft, oft-neumann (its default) or boft; one block."""

from ortho_ref.adapters import map_from_torch
from scripts.maintain.scoreboard.peft_map import rotation

map, pullback = map_from_torch(rotation)
