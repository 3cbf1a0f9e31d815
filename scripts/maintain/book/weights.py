"""The weights of docs/alive/gradients.md: trained models, dense, before and after, one safetensors file each.

A file has `before.NAME` and `after.NAME` in float32; NAME is a weight of the cell, `h0` where it is trained, or
`readout.W` or `readout.b`.  Of a complex weight the last axis is its real and its imaginary part.  The metadata say
what the model was trained on and how far it came.  The page gets them as a script, as nothing may be fetched.
"""

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy

from ortho_ref import files
from ortho_ref.conformance.cases.case import parted

#: Where the files are, and the script below the site's static files.
FOLDER, SCRIPT = "docs/alive/weights", "static/alive/weights.js"
#: In the order of the page.
MODELS = ("rnn", "lstm", "gru", "nc-gru", "scornn", "urnn")
_HEAD = "// Written by scripts/maintain/book/weights.py from docs/alive/weights: float32, little-endian, base64.\n"


def write(path: Path, before: dict[str, np.ndarray], after: dict[str, np.ndarray], facts: dict[str, str]) -> None:
    """The file of a model."""
    named = {f"{when}.{name}": value for when, w in (("before", before), ("after", after)) for name, value in w.items()}
    tensors = {name: np.ascontiguousarray(parted(value), "<f4") for name, value in named.items()}
    files.write(path, safetensors.numpy.save(tensors, facts))


def read(path: Path) -> tuple[dict[str, dict[str, np.ndarray]], dict[str, str]]:
    """What `write` wrote."""
    weights: dict[str, dict[str, np.ndarray]] = {"before": {}, "after": {}}
    for key, value in safetensors.numpy.load_file(path).items():
        when, _, name = key.partition(".")
        weights[when][name] = value
    with safetensors.safe_open(path, framework="numpy") as file:
        return weights, dict(sorted(file.metadata().items()))  # in no order of their own


def script(root: Path) -> str:
    """The script that has every model's weights: window.alive.weights."""
    models: dict[str, Any] = {}
    for name in MODELS:
        weights, facts = read(root / FOLDER / f"{name}.safetensors")
        models[name] = {
            "facts": facts,
            **{when: {key: _packed(value) for key, value in w.items()} for when, w in weights.items()},
        }
    text = json.dumps(models, separators=(",", ":"))
    return (
        f'{_HEAD}(function () {{\n  "use strict";\n\n  const own = {text};\n'
        '  if (typeof module === "object") {\n    module.exports = own;\n  } else {\n'
        "    window.alive.weights = own;\n  }\n})();\n"
    )


def _packed(value: np.ndarray) -> dict[str, Any]:
    data = base64.b64encode(np.ascontiguousarray(value, "<f4").tobytes()).decode("ascii")
    return {"shape": list(value.shape), "data": data}
