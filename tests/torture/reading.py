"""What a user's own program reads of a run, as a program: python -m tests.torture.reading load|metrics FOLDER

A digest of it on stdout; as the programs do, one line and exit code 2 for what the functions say that they raise.
"""

import hashlib
import json
import sys
from pathlib import Path

import numpy as np

from ortho_ref.training.runs import load
from tests.ortho_ref.training.reading import read_metrics


def weights(folder: Path) -> str:
    """Of names, dtypes, shapes and bytes of all parameters and buffers, and the network."""
    network, params, buffers = load(folder)
    arrays = params | {f"{name}/{key}": value for name, own in buffers.items() for key, value in own.items()}
    digest = hashlib.sha256(repr(network).encode())
    for name in sorted(arrays):
        array = np.asarray(arrays[name])
        digest.update(f"{name} {array.dtype} {array.shape}".encode() + array.tobytes())
    return digest.hexdigest()


def metrics(folder: Path) -> str:
    """Every line without its speed."""
    records = read_metrics(folder)
    return json.dumps([{k: v for k, v in record.items() if k != "steps_per_second"} for record in records])


if __name__ == "__main__":
    try:
        print({"load": weights, "metrics": metrics}[sys.argv[1]](Path(sys.argv[2])))
    except (OSError, ValueError) as error:
        # a path is said as it is; what is read from a file is not
        print(f"error: {error}".replace(sys.argv[2], ascii(sys.argv[2])), file=sys.stderr)
        sys.exit(2)
