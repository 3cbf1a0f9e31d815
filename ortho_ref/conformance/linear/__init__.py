"""The kind `linear`: recurrences of today's language models, each a step with its adjoint derived by hand.

`table` is the one list of them, `through_time` the loop, with initial states and resets; `delta`, `diagonal`, `xlstm`
have the steps and their papers, mistakes/linear.py the wrong versions.  A case is the recurrence alone, not the
projections, convolutions and norms around it.  docs/linear.md is the page for readers.
"""
