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
    ends = _lines(folder / METRICS, config)
    for path in sorted(folder.glob("*.safetensors")):
        _checkpoint(path, untouched / path.name, config, ends, untouched / METRICS)
    if (untouched / SUMMARY).exists():
        _, value = _document(untouched / SUMMARY, None)
        _document(folder / SUMMARY, _metrics(value, value, ends, untouched / METRICS))


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


def _lines(path: Path, sha256: str) -> list[tuple[int, str]]:
    """Metrics in a chain that begins with the config's hash; the end of each line, and its hash."""
    ends, data = [(0, sha256)], b""
    for line in path.read_bytes().splitlines(keepends=True):
        with contextlib.suppress(ValueError):
            record = json.loads(line)
            if isinstance(record, dict) and line.endswith(b"\n"):
                record.pop("sha256", None)
                sha256 = _sha256(sha256, json.dumps(record))
                line = (json.dumps(record | {"sha256": sha256}) + "\n").encode()
        data += line
        ends.append((len(data), sha256))
    path.write_bytes(data)
    return ends


def _metrics(own: Any, before: dict[str, Any], ends: list[tuple[int, str]], untouched: Path) -> dict[str, Any]:
    """What a document says of the metrics: of as many lines as before; as it is where that was edited."""
    size = before["metrics_size"]
    if own["metrics_size"] != size or own["metrics_sha256"] != before["metrics_sha256"]:
        return {}
    line = min(untouched.read_bytes()[:size].count(b"\n"), len(ends) - 1)
    return {"metrics_size": ends[line][0], "metrics_sha256": ends[line][1]}


def _checkpoint(path: Path, untouched: Path, config: str, ends: list[tuple[int, str]], metrics: Path) -> None:
    with safe_open(path, framework="numpy") as stream:
        tensors = {name: stream.get_tensor(name) for name in stream.keys()}  # noqa: SIM118
        metadata = stream.metadata()
    with safe_open(untouched, framework="numpy") as stream:
        before = json.loads(stream.metadata()["tree"])
    tree = json.loads(metadata["tree"])
    with contextlib.suppress(KeyError, TypeError):
        if tree["config_sha256"] == before["config_sha256"]:
            tree["config_sha256"] = config
        tree |= _metrics(tree, before, ends, metrics)
    metadata["tree"] = json.dumps(tree)
    with contextlib.suppress(ValueError, TypeError):
        tensors = {name: tensors.pop(name) for name in json.loads(metadata["tensors"]) if name in tensors} | tensors
    metadata["tensors"] = json.dumps({name: _hash(array) for name, array in tensors.items()})
    metadata["sha256"] = _sha256(metadata["format"], metadata["tree"], metadata["tensors"])
    path.write_bytes(safetensors.numpy.save(tensors, metadata))


def _hash(array: np.ndarray) -> str:
    return hashlib.sha256(f"{array.dtype.str} {array.shape}\n".encode() + array.tobytes()).hexdigest()
