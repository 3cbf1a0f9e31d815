"""Tables of a stored benchmark in docs/performance.md, between comments that name file and table.

<!-- figures: MACHINE/TABLE -->
...
<!-- end of figures -->
"""

import re
import textwrap
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from scripts.maintain.timing.benchmark_file import Report, Table, of_section, table
from scripts.maintain.timing.groups import Group
from scripts.maintain.timing.peers_torch import EAGER

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "results" / "benchmark"
PAGE = "docs/performance.md"
_BLOCK = re.compile(r"(<!-- figures: )([^/ ]+)(/(\w+) -->\n).*?(<!-- end of figures -->)", re.DOTALL)

#: A model -> its peers of most interest, in words and by the contenders that they are, of which the quickest counts.
PEERS: tuple[tuple[str, str, str, tuple[str, ...]], ...] = (
    ("nc-gru", "NC-GRU", "the better eager PyTorch cell", tuple(EAGER)),
    ("nc-gru", "NC-GRU", "JAX's scan", ("jax",)),
    ("nc-gru", "NC-GRU", "our NumPy engine", ("fused",)),
    ("gru-cudnn", "GRU", "`nn.GRU`", ("torch.nn",)),
    ("lstm", "LSTM", "`nn.LSTM` (oneDNN)", ("torch.nn",)),
    ("lstm", "LSTM", "JAX's scan", ("jax",)),
    ("rnn", "tanh RNN", "`nn.RNN`", ("torch.nn",)),
)


def fill(page: str, machine: str, report: Report) -> str:
    """The page with each of its tables written again from this report."""

    def block(found: re.Match[str]) -> str:
        if found[4] not in TABLES:
            raise ValueError(f"a page has a table {found[4]!r}; allowed: {', '.join(TABLES)}")
        return f"{found[1]}{machine}{found[3]}{TABLES[found[4]](report, machine)}{found[5]}"

    return _BLOCK.sub(block, page)


def _table(groups: Sequence[Group]) -> str:
    return table("", groups).markdown() if groups else "Not measured yet.\n"


def best(group: Group, names: Iterable[str]) -> float | None:
    """The least ratio of some contenders; None where none was measured."""
    there = [group["contenders"][name]["ratio"] for name in names if name in group["contenders"]]
    return min(there, default=None)


def _peers(report: Report, machine: str) -> str:
    """For one core and for all: ratios to each peer, a column for each size."""
    groups = of_section(report, "cells")
    sizes = list(dict.fromkeys(group["case"]["size"] for group in groups))
    by_case = {tuple(group["case"].values()): group for group in groups}
    parts = []
    for threads in sorted({group["case"]["threads"] for group in groups}):
        rows = []
        for model, ours, peer, names in PEERS:
            own = [by_case.get((model, size, threads)) for size in sizes]
            figures = [None if group is None else best(group, names) for group in own]
            if any(figures):
                rows.append([f"{ours} against {peer}", *("" if one is None else f"{one:.2f}" for one in figures)])
        head = ["one core" if threads == 1 else f"{threads:g} cores", *sizes]
        parts.append(Table("", head, rows).markdown())
    if not parts:
        return "Not measured yet.\n"
    where, versions = report["machine"], report["libraries"]
    how = "Peer's time / ours (above 1: ortho_ref is faster), forward and backward with every gradient, "
    how += f"{report['settings']['dtype']}. One core: process CPU time. Several: wall time, one thread per core for "
    how += f"everyone except NumPy. {where['cpu']} ({', '.join(where['kernels'])}); PyTorch "
    how += f"{versions.get('torch', '-')}, JAX {versions.get('jax', '-')}."
    told = "\n".join(parts)
    return f"{told}\n{textwrap.fill(how, 120, break_on_hyphens=False)}\n"


TABLES: dict[str, Callable[[Report, str], str]] = {
    "peers": _peers,
    "picture": lambda report, machine: f"![Peers, on one core and on all](../results/benchmark/{machine}.svg)\n",
    "memory": lambda report, machine: _table(of_section(report, "memory")),
    "cayley": lambda report, machine: _table([g for g in of_section(report, "maps") if g["case"]["map"] == "Cayley"]),
    "updates": lambda report, machine: _table(of_section(report, "updates")),
}
