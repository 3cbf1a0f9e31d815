"""`ortho_ref.finite_differences`, by its former name."""

from ortho_ref.finite_differences import NearKinkError as NearKinkError
from ortho_ref.finite_differences import compare_gradients as compare_gradients
