"""Hashes of a run's files made right again after they were edited: what somebody does who wants them to be read.

By the formats as docs/training.md has them, without the code that reads them.
"""

import contextlib
import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
from safetensors import safe_open

CONFIG, METRICS, SUMMARY = "config.json", "metrics.jsonl", "summary.json"


def seal(folder: Path, untouched: Path) -> None:
    """Every file's own hash, and what the others say of it; `untouched` is what was edited."""
    config, _ = _document(folder / CONFIG, {})
    lines = _lines(folder / METRICS, config)
    for path in sorted(folder.glob("*.safetensors")):
        _checkpoint(path, untouched / path.name, config, lines)
    if (untouched / SUMMARY).exists():
        _, value = _document(untouched / SUMMARY, None)
        own = json.loads(lines[-1])["sha256"] if lines else config
        _, found = _document(folder / SUMMARY, None)
        same = isinstance(found, dict) and found.get("metrics_sha256") == value["metrics_sha256"]
        _document(folder / SUMMARY, {"metrics_sha256": own} if same else {})


def _sha256(*texts: str) -> str:
    return hashlib.sha256("\n".join(texts).encode(errors="surrogatepass")).hexdigest()


def _document(path: Path, more: dict[str, Any] | None) -> tuple[str, dict[str, Any]]:
    """A document with these values instead of its own, sealed unless there is None; its hash, and its values."""
    whole = json.loads(path.read_text())
    if not isinstance(whole, dict) or more is None:
        return "", whole
    whole = {"format": None} | whole | more
    whole.pop("sha256", None)
    sha256 = _sha256(json.dumps(whole))
    path.write_text(json.dumps(whole | {"sha256": sha256}, indent=2) + "\n")
    return sha256, whole


def _lines(path: Path, sha256: str) -> list[bytes]:
    """Metrics in a chain that begins with the config's hash."""
    found = []
    for line in path.read_bytes().splitlines(keepends=True):
        with contextlib.suppress(ValueError, KeyError):
            record = json.loads(line)
            if isinstance(record, dict) and line.endswith(b"\n"):
                record.pop("sha256", None)
                sha256 = _sha256(sha256, json.dumps(record))
                line = (json.dumps(record | {"sha256": sha256}) + "\n").encode()
        found.append(line)
    path.write_bytes(b"".join(found))
    return found


def read(path: Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Tensors and metadata of a safetensors file."""
    with safe_open(path, framework="numpy") as stream:
        return {name: stream.get_tensor(name) for name in stream.keys()}, stream.metadata()  # noqa: SIM118


def _checkpoint(path: Path, untouched: Path, config: str, lines: list[bytes]) -> None:
    tensors, metadata = read(path)
    own, before = read(untouched)
    tree = json.loads(metadata["tree"])
    with contextlib.suppress(KeyError, TypeError):
        if tree["config_sha256"] == json.loads(before["tree"])["config_sha256"]:
            tree["config_sha256"] = config
    if np.array_equal(tensors.get("metrics"), own["metrics"]):
        count = own["metrics"].tobytes().count(b"\n")
        tensors["metrics"] = np.frombuffer(b"".join(lines[:count]), np.uint8)
    metadata["tree"] = json.dumps(tree)
    hashed = hashlib.sha256(f"{metadata['format']}\n{metadata['tree']}\n".encode(errors="surrogatepass"))
    for name, array in sorted(tensors.items()):
        hashed.update(f"{name} {array.dtype.str} {array.shape}\n".encode() + array.tobytes())
    metadata["sha256"] = hashed.hexdigest()
    path.write_bytes(safetensors.numpy.save(tensors, metadata))
