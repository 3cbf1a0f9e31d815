"""The section of the benchmark of memory: the most of one forward + backward, in T B n numbers of the states' kind."""

from collections.abc import Iterator

from ortho_ref import fused
from scripts.maintain.timing.groups import NUMBERS, Group, Settings, group
from scripts.maintain.timing.peak import MAKERS, resident, traced
from scripts.maintain.timing.steps import numpy_contender, problem

#: The models whose tapes differ, of those that are asked for.
MODELS = ("nc-gru", "gru-cudnn", "lstm", "rnn")
#: Units from which on a layer's weights are as large as its tape, and say little of it.
LARGE = 400


def memory(own: Settings) -> Iterator[Group]:
    """By tracemalloc of ours; of all, in a process of their own, by the largest resident set."""
    there = [name for name in MAKERS if not (name.startswith("torch") and own.torch is None)]
    there = [name for name in there if not (name == "jax" and own.jax is None)]
    for model in (model for model in MODELS if model in own.models):
        for name, size in own.sizes.items():
            B, T, _, n = size
            if n >= LARGE:
                continue
            cell = problem(size, model, own.dtype)
            unit = T * B * n * cell.dh.dtype.itemsize
            step = numpy_contender(fused, cell, keep=False).step
            step()  # what only a first call allocates is not counted
            found = {"fused": traced(step)}
            others = resident(model, size, there, own.dtype)
            skipped = {"resident": others} if isinstance(others, str) else {}
            if not isinstance(others, str):
                found |= {f"{contender}, resident": most for contender, most in others.items()}
            figures = {
                contender: dict.fromkeys(("median", "low", "high"), most / unit) | {"ratio": most / found["fused"]}
                for contender, most in found.items()
            }
            yield group("memory", {"model": model, "size": name}, NUMBERS, "fused", figures, skipped)
