"""Write cupy_names.json, the names and parameter names that standin.py checks against, from an installed CuPy.

Run by hand when the supported CuPy changes; no GPU is needed, CUDA's libraries are:

    pip install "cupy-cuda13x[ctk]==14.2.0" scipy
    python tests/device/make_cupy_names.py

Each entry is one of: the parameters of a function, separated by spaces, with `/`, `*`, `*args`, `**kwargs` as Python
writes them; "ufunc" and the ufunc methods that work; "value" for anything else (dtypes, constants, classes, modules).
"""

import importlib
import inspect
import json
import re
from pathlib import Path
from typing import Any

import cupy

NAMESPACES = ["cupy", "cupy.linalg", "cupy.fft", "cupy.random", "cupyx.scipy.linalg"]
# Functions that take **kwargs and refuse most of them.
OVERRIDES = {"einsum": "*operands * dtype optimize"}
# cupy._core._kernel.ufunc is compiled without a signature; these are what its __call__ takes from **kwargs.
UFUNC_KEYWORDS = ["out", "dtype", "casting"]


def parameters(function: Any) -> str | None:
    """Parameter names of a Python function, or of a compiled one whose docstring starts with its signature."""
    try:
        found = inspect.signature(function)
    except (TypeError, ValueError):
        match = re.match(r"[\w.]+\((.*?)\)", function.__doc__ or "")
        if match is None:
            return None
        return " ".join(part.partition("=")[0].split()[-1] for part in match[1].split(", ") if part)  # "int axis=-1"
    empty = inspect.Parameter.empty
    bare = [one.replace(annotation=empty, default=empty) for one in found.parameters.values()]
    return str(found.replace(parameters=bare, return_annotation=empty))[1:-1].replace(",", "")


def ufunc_methods(ufunc: Any) -> str:
    """The methods that do not raise NotImplementedError; the conditions are those in CuPy's ufunc class."""
    methods = ["outer"]
    methods += ["at"] * (ufunc._scatter_op is not None)
    methods += ["reduce", "accumulate"] * (ufunc.name in ("cupy_add", "cupy_multiply"))
    methods += ["reduceat"] * (ufunc.name == "cupy_add")
    return " ".join(["ufunc", *methods])


def describe(name: str, value: Any) -> str:
    if name in OVERRIDES:
        return OVERRIDES[name]
    if isinstance(value, cupy.ufunc):
        return ufunc_methods(value)
    if not callable(value) or isinstance(value, type):
        return "value"
    found = parameters(value)
    return "value" if found is None else found


def public(owner: Any) -> list[str]:
    """Names without a leading underscore, and special methods."""
    special = isinstance(owner, type)
    return [n for n in sorted(dir(owner)) if not n.startswith("_") or (special and n.startswith("__"))]


def main() -> None:
    names: dict[str, dict[str, str]] = {}
    for namespace in NAMESPACES:
        module = importlib.import_module(namespace)
        names[namespace] = {n: describe(n, getattr(module, n)) for n in public(module) if n != "annotations"}
    methods = {n: getattr(cupy.ndarray, n) for n in public(cupy.ndarray)}
    names["cupy.ndarray"] = {n: "value" if n.startswith("__") else describe(n, v) for n, v in methods.items()}
    content = {"cupy": cupy.__version__, "ufunc_keywords": UFUNC_KEYWORDS, "names": names}
    Path(__file__).with_name("cupy_names.json").write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
