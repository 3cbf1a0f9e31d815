"""The section of `scripts.gpu_check` that times a device: training steps beside PyTorch's.

Times are those of device events (cupy.cuda.Event on the default stream, which PyTorch uses too) around several steps,
so that they hold all that the device waits for, Python between launches included.
"""

import statistics
import time
from collections.abc import Callable, Mapping

import numpy as np

from ortho_ref import fused
from ortho_ref.backend import to_device, xp_of
from ortho_ref.fused import persistent
from ortho_ref.terminal import shown
from ortho_ref.training.trainer import Record
from scripts.gpu.sections import PERSISTENT, Settings
from scripts.maintain.timing.peers_torch import plain_float32, torch_step
from scripts.maintain.timing.rounds import MOST_REPEATS, TICK, since
from scripts.maintain.timing.steps import numpy_contender, problem

#: ours -> the PyTorch contender beside it, by `torch_step`'s names, and what that is.
PEERS = {
    "nc-gru": ("nc-gru", "eager PyTorch, autograd"),
    "gru": ("gru-cudnn", "torch.nn.GRU: cuDNN, which resets after the product"),
    "lstm": ("lstm", "torch.nn.LSTM: cuDNN"),
}


def milliseconds(step: Callable[[], object], repeats: int, device: str) -> float:
    """Of one step, from `repeats` of them between two events, or on the host's clock; one more before is not timed."""
    step()
    if device != "gpu":
        start = time.perf_counter()
        for _ in range(repeats):
            step()
        return since(start) / repeats * 1e3
    cuda = xp_of(to_device(np.zeros(1), device)).cuda
    begin, end = cuda.Event(), cuda.Event()
    begin.record()
    for _ in range(repeats):
        step()
    end.record()
    end.synchronize()
    return max(float(cuda.get_elapsed_time(begin, end)), TICK * 1e3) / repeats


def interleaved(
    steps: Mapping[str, Callable[[], object]], rounds: int, seconds: float, device: str
) -> dict[str, list[float]]:
    """Milliseconds per step, a figure for each round; in a round the contenders take turns of about `seconds`."""
    repeats = {}
    for name, step in steps.items():
        step()  # compiles kernels, picks algorithms
        repeats[name] = min(max(1, round(1e3 * seconds / milliseconds(step, 1, device))), MOST_REPEATS)
    times: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(rounds):
        for name, step in steps.items():
            times[name].append(milliseconds(step, repeats[name], device))
    return times


def torch_device(device: str) -> str | None:
    """PyTorch's name of the device; None where it is not installed or cannot use it."""
    try:
        import torch
    except ImportError:
        return None
    if device != "gpu":
        return "cpu"
    return "cuda" if torch.cuda.is_available() else None


def timings(own: Settings, figures: Record) -> list[str]:
    """Rows of one training step's median times and their ratios to PyTorch's; what went wrong, size by size."""
    beside, failed = torch_device(own.device), []
    if beside:
        figures["tf32"] = plain_float32()
    figures["clock"] = "device events" if own.device == "gpu" else "the host's"
    figures["torch"] = beside or "not installed, or it finds no GPU: no ratios"
    figures["step"] = f"forward and backward, every gradient, float32; medians of {own.rounds} interleaved rounds"
    figures["peers"] = {ours: what for ours, (_, what) in PEERS.items()}
    rows: list[Record] = figures.setdefault("rows", [])
    engines = {"ours": fused} | ({PERSISTENT: persistent} if PERSISTENT in own.engines else {})
    for name, size in own.timing_sizes.items():
        try:
            cells = {model: problem(size, model) for model in PEERS}
            steps = {
                f"{model}, {engine}": numpy_contender(by, cell, own.device).step
                for engine, by in engines.items()
                for model, cell in cells.items()
            }
            if beside:
                steps |= {f"{model}, torch": torch_step(size, peer, beside) for model, (peer, _) in PEERS.items()}
            times = interleaved(steps, own.rounds, own.timing_seconds, own.device)
        except Exception as error:
            failed.append(f"{name}: {type(error).__name__}: {shown(error)}")
            continue
        for model in PEERS:
            ours = times[f"{model}, ours"]
            row: Record = {"size": name, "B, T, m, n": ", ".join(map(str, size)), "model": model}
            row |= {"ours, ms": statistics.median(ours)}
            if beside:
                theirs = times[f"{model}, torch"]
                row["torch, ms"] = statistics.median(theirs)
                row["torch / ours"] = statistics.median(t / o for t, o in zip(theirs, ours, strict=True))
            if kernels := times.get(f"{model}, persistent"):
                row["persistent, ms"] = statistics.median(kernels)
                row["persistent, us a time step"] = 1e3 * row["persistent, ms"] / size.length
                row["ours / persistent"] = statistics.median(o / p for o, p in zip(ours, kernels, strict=True))
                if beside:
                    row["torch / persistent"] = statistics.median(t / p for t, p in zip(theirs, kernels, strict=True))
            rows.append(row)
    return failed
