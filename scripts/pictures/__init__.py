"""Pictures of runs, as `scripts.plot` and other programs draw them."""
