"""ortho_ref: orthogonal and unitary gated recurrent networks, with every backward pass derived by hand."""

from ortho_ref import starting as _starting

__version__ = "0.1.0"

_starting.until_loaded("ortho_ref.conformance")  # the kit's program; nothing where anybody else imports this
