"""ortho_ref: orthogonal and unitary gated recurrent networks, with every backward pass derived by hand."""

__version__ = "0.1.0"
