"""ortho_ref: orthogonal and unitary gated recurrent networks, with every backward pass derived by hand."""

from typing import TYPE_CHECKING

from ortho_ref.interrupts import until_loaded as _until_loaded

__version__ = "0.1.0"

#: What users take from here, `ortho_ref.models` after `import ortho_ref`; each is imported when it is first asked for.
__all__ = [
    "adapters",
    "backend",
    "cells",
    "cite",
    "conformance",
    "converters",
    "fused",
    "initial",
    "language",
    "layers",
    "losses",
    "models",
    "network",
    "parametrizations",
    "recurrent",
    "scan",
    "training",
]

if TYPE_CHECKING:
    from ortho_ref import (
        adapters,
        backend,
        cells,
        conformance,
        converters,
        fused,
        initial,
        language,
        layers,
        losses,
        models,
        network,
        parametrizations,
        recurrent,
        scan,
        training,
    )
    from ortho_ref.citations import cite
else:

    def __getattr__(name):
        import importlib

        if name not in __all__:
            from ortho_ref.boundary import nearest

            near = "" if name.startswith("_") else nearest(name, __all__)
            # obj: or Python's own traceback would add what is near once more
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}{near}", name=name, obj=None)
        if name == "cite":
            return importlib.import_module("ortho_ref.citations").cite
        return importlib.import_module(f"ortho_ref.{name}")


def __dir__() -> list[str]:
    return sorted(__all__)


_until_loaded("ortho_ref")  # the kit's program; nothing where anybody else imports this
