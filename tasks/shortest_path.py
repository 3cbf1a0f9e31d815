"""The algorithmic task (goru:task-algo): the shortest path between two nodes of a graph that is read edge by edge.

Graphs, by Li, Tarlow, Brockschmidt and Zemel (2015), whose released generator this is in distribution: a ring of 5
nodes, of which every edge (u, u + 1) in turn is moved with probability 1/2 to (u, w), w any node that u has no edge to
(none: it stays), all drawn again until the graph is connected: connected_watts_strogatz(5, 3, 1/2), whose k = 3
neighbours are one on each side, so that there are always 5 edges.  Two nodes, any, are asked for; graph and nodes are
drawn again unless there is one shortest path, of at least 3 nodes.  It has 3 or 4.  Beside it there is such a graph of
4 nodes, unconditioned, that no path leads to.  The 9 edges are shuffled, the 9 nodes renamed at random.

Tokens: 0..8 nodes, 9 e1, 10 eol, 11 q1, 12 ans.
Input: `a e1 b eol`, `b e1 a eol` for each edge, 72 tokens; `q1 source target ans`, 4; then `ans` once for each node of
the path, 3 or 4.  T = 80; behind a path of 3 there is one more `ans`, that does not count.
Target, from the first `ans` on: the nodes of the path, source and target among them, then 9, the end; 10 classes.  No
other step counts.  Nothing of the answer is fed back.
Loss: cross-entropy, the mean over the steps that count; in released code over those of each sequence first.
Metric: the share of sequences that are right at every step.

The papers have 1,000 sequences to train on, 50 to choose settings by and 1,000 to test on; the released program cuts
the 50 off the 1,000.  So it is here: 950, drawn from the run's generator, are passed through again and again; the
others come from seeds of their own.

What the GORU paper's accuracies, 44.5 to 73.9 %, are the share of is not said.  Who knows the question, and nothing of
the edges, is right in 11.4 % of the sequences and at 70.1 % of the steps: the source, the target and the end make up
most of an answer.  So they are hardly of sequences.
"""

import itertools
import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from typing import ClassVar, NamedTuple

import numpy as np

from ortho_ref.training.examples import passes
from ortho_ref.training.task import Batch, Tokens, check_choice, check_integer
from tasks.generated import Generated

GRAPH, DISTRACTOR = 5, 4
NODES = GRAPH + DISTRACTOR
E1, EOL, Q1, ANS = range(NODES, NODES + 4)
END = NODES
STATEMENTS, LONGEST = 8 * NODES, 4
ASKED = STATEMENTS + 3
STEPS = ASKED + 1 + LONGEST

Edge = tuple[int, int]
Path = tuple[int, ...]
#: Of each part that is held out: seed, chunks, and sequences in each.
PARTS = {"valid": (20151117, 1, 50), "test": (20151118, 10, 100)}


@cache
def graphs(nodes: int) -> dict[frozenset[Edge], Fraction]:
    """Connected rewired rings of so many nodes: edges, each with its smaller node first -> the probability of it."""
    found = {frozenset(_edge(u, (u + 1) % nodes) for u in range(nodes)): Fraction(1)}
    for u in range(nodes):
        old, before = _edge(u, (u + 1) % nodes), found
        found = defaultdict(Fraction)
        for edges, probability in before.items():
            free = [w for w in range(nodes) if w != u and _edge(u, w) not in edges]
            found[edges] += probability / 2 if free else probability
            for w in free:
                found[edges - {old} | {_edge(u, w)}] += probability / (2 * len(free))
    connected = {edges: p for edges, p in found.items() if len(_paths(edges, 0)) == nodes}
    whole = sum(connected.values())
    return {edges: p / whole for edges, p in connected.items()}


def _edge(u: int, v: int) -> Edge:
    return min(u, v), max(u, v)


def _paths(edges: frozenset[Edge], source: int) -> dict[int, list[Path]]:
    """To every node that there is a way to: all shortest paths."""
    found: dict[int, list[Path]] = {}
    ends: dict[int, list[Path]] = {source: [(source,)]}
    while ends:
        found |= ends
        longer = [(*path, w) for paths in ends.values() for path in paths for e in edges if path[-1] in e for w in e]
        ends = {}
        for path in longer:
            if path[-1] not in found:
                ends.setdefault(path[-1], []).append(path)
    return found


class Kinds(NamedTuple):
    """Every graph there may be, with the nodes asked for, and how likely each is.

    edges: (kinds, edges, 2).  paths: (kinds, 4), of one of three nodes the last is END.  below: the probability of it
    or one before it.  long: that of a path of 4 nodes.
    """

    edges: np.ndarray
    paths: np.ndarray
    below: np.ndarray
    long: Fraction


@cache
def questions() -> Kinds:
    """The graphs of 5 nodes with two of them, between which there is one shortest path, of 3 nodes or more."""
    kinds: dict[tuple[frozenset[Edge], Path], Fraction] = {}
    for edges, probability in graphs(GRAPH).items():
        for paths in itertools.chain(*(_paths(edges, source).values() for source in range(GRAPH))):
            if len(paths) == 1 and len(paths[0]) >= 3:
                kinds[edges, paths[0]] = probability
    whole = sum(kinds.values())
    filled = np.array([(*path, END)[:LONGEST] for _, path in kinds])
    long = sum((p for (_, path), p in kinds.items() if len(path) == LONGEST), Fraction()) / whole
    return Kinds(_listed([edges for edges, _ in kinds]), filled, _below(list(kinds.values())), long)


@cache
def distractors() -> Kinds:
    """The graphs of 4 nodes, with no question."""
    own = graphs(DISTRACTOR)
    return Kinds(_listed(list(own)), np.zeros((len(own), 0), np.intp), _below(list(own.values())), Fraction())


def _listed(graphs: list[frozenset[Edge]]) -> np.ndarray:
    return np.array([sorted(edges) for edges in graphs])


def _orders(rng: np.random.Generator, N: int) -> np.ndarray:
    """N orders of nine things, (N, 9)."""
    return rng.permuted(np.tile(np.arange(NODES), (N, 1)), axis=1)


def _below(probabilities: list[Fraction]) -> np.ndarray:
    whole = sum(probabilities)
    return np.array([float(total / whole) for total in itertools.accumulate(probabilities)])


@dataclass(frozen=True)
class ShortestPath(Generated):
    """Find the shortest path between two nodes of a graph; ValueError for a value that is not allowed."""

    training_set: int | None = 950  # sequences to train on; None for fresh ones each time
    eval_part: str = "valid"  # what is held out: valid, 50 sequences, or test, 1,000

    name: ClassVar[str] = "shortest-path"
    input: ClassVar[Tokens] = Tokens(NODES + 4)
    output_size: ClassVar[int] = NODES + 1
    loss: ClassVar[str] = "cross_entropy"
    metric: ClassVar[str] = "sequence_accuracy"
    readout: ClassVar[str] = "every"

    def __post_init__(self) -> None:
        if self.training_set is not None:
            check_integer("training_set", self.training_set)
        check_choice("eval_part", self.eval_part, PARTS)

    @property
    def held_out(self) -> tuple[int, int, int]:  # type: ignore[override]
        """Of the held-out set: seed, chunks, and sequences in each."""
        return PARTS[self.eval_part]

    def on(self, part: str) -> "ShortestPath":
        """The same task with another part held out, valid or test; ValueError for another name."""
        check_choice("part", part, PARTS)
        return replace(self, eval_part=part)

    @property
    def baseline(self) -> float:
        """The loss of a predictor that knows the question, how often paths have 4 nodes, and nothing of the edges.

        With q the probability of 3 nodes: the source for certain; then any of the 7 nodes that were not asked for;
        then the target with q, or any of these 7; then the end with q, or the target; then the end.  Of 4 q + 5 (1 - q)
        steps on average that is (ln 7 + (1 - q) ln 7 + 2 H(q)) / (5 - q), H(q) = -q ln q - (1 - q) ln(1 - q).
        """
        long = float(questions().long)
        entropy = -long * math.log(long) - (1 - long) * math.log1p(-long)
        return ((1 + long) * math.log(NODES - 2) + 2 * entropy) / (4 + long)

    def _draw(self, rng: np.random.Generator, N: int) -> tuple[np.ndarray, np.ndarray]:
        """Edges (N, 9, 2) in the order they are read in, and paths (N, 4), both of renamed nodes."""
        own, other = (
            np.searchsorted(kinds.below[:-1], rng.random(N), side="right") for kinds in (questions(), distractors())
        )
        edges = np.concatenate([questions().edges[own], distractors().edges[other] + GRAPH], axis=1)
        rows = np.arange(N)[:, None]
        edges = edges[rows, _orders(rng, N)]
        names = np.append(_orders(rng, N), np.full((N, 1), END), axis=1)  # the end is not renamed
        return names[rows[..., None], edges], names[rows, questions().paths[own]]

    def batch(self, edges: np.ndarray, paths: np.ndarray) -> Batch:
        """The batch of given graphs (B, 9, 2), edges in the order they are read in, and paths (B, 4): as of `fresh`."""
        B = len(edges)
        statements = np.empty((B, NODES, 2, 4), np.intp)
        statements[..., ::2] = np.stack([edges, edges[..., ::-1]], axis=2)  # each edge there and back
        statements[..., 1::2] = E1, EOL
        short = paths[:, -1] == END
        x, y = np.full((STEPS, B), ANS), np.zeros((STEPS, B), np.intp)
        x[:STATEMENTS] = statements.reshape(B, -1).T
        x[STATEMENTS] = Q1
        x[STATEMENTS + 1] = paths[:, 0]
        x[STATEMENTS + 2] = np.where(short, paths[:, 2], paths[:, 3])
        y[ASKED:-1], y[-1] = paths.T, END
        mask = np.zeros((STEPS, B), bool)
        mask[ASKED:-1], mask[-1] = True, ~short
        return Batch(x, y, mask)

    def fresh(self, rng: np.random.Generator, batch_size: int) -> Batch:
        """A batch of newly drawn sequences: x, y and mask, all (80, B)."""
        return self.batch(*self._draw(rng, batch_size))

    def batches(self, rng: np.random.Generator, batch_size: int) -> Iterator[Batch]:
        """Batches to train on, without end: passes over a set that is drawn first, or fresh sequences.

        ValueError if the training set does not fill a batch.
        """
        N = self.training_set
        if N is None:
            yield from super().batches(rng, batch_size)
            return
        edges, paths = self._draw(rng, N)
        for chosen in passes(rng, N, batch_size, "training_set"):
            yield self.batch(edges[chosen], paths[chosen])
