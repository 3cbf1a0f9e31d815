"""The algorithmic task [goru:task-algo]."""

import itertools
import math
import random
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from ortho_ref.losses import LOSSES, METRICS
from tasks.shortest_path import ShortestPath, distractors, graphs, questions

E1, EOL, Q1, ANS, END = 9, 10, 11, 12, 9
#: P(4 nodes | one shortest path of 3 or more), from every graph with its probability.
LONG = Fraction(11650, 58311)


def solve(x):
    """The outputs, read off the tokens alone: every edge is noted, and the shortest path found by growing it."""
    outputs = np.zeros((*x.shape, 10))
    for b, tokens in enumerate(x.T.tolist()):
        ways, t = {}, 0
        while tokens[t] != Q1:
            source, e1, target, eol = tokens[t : t + 4]
            assert (e1, eol) == (E1, EOL)
            ways.setdefault(source, []).append(target)
            t += 4
        source, target, ans = tokens[t + 1 : t + 4]
        assert ans == ANS
        paths = [[source]]
        while not any(path[-1] == target for path in paths):
            paths = [[*path, node] for path in paths for node in ways[path[-1]]]
        (path,) = [path for path in paths if path[-1] == target]
        for step, answer in enumerate([*path, END]):
            outputs[t + 3 + step, b, answer] = 1e3
    return outputs


def plain_ring(nodes, rng):
    """A connected Watts-Strogatz graph as networkx draws it with k = 3 and p = 1/2, number by number."""
    while True:
        edges = {frozenset((u, (u + 1) % nodes)) for u in range(nodes)}
        for u in range(nodes):
            if rng.random() < 0.5 and sum(u in edge for edge in edges) < nodes - 1:
                w = rng.randrange(nodes)
                while w == u or {u, w} in edges:
                    w = rng.randrange(nodes)
                edges = edges - {frozenset((u, (u + 1) % nodes))} | {frozenset((u, w))}
        reached = {0}
        for _ in range(nodes):
            reached |= {w for edge in edges if edge & reached for w in edge}
        if len(reached) == nodes:
            return edges


def plain_question(rng):
    """Edges and path of a graph of 5 nodes, drawn again until there is one shortest path, of 3 nodes or more."""
    while True:
        edges = plain_ring(5, rng)
        source, target = rng.randrange(5), rng.randrange(5)
        for length in range(1, 6):
            paths = [
                p
                for p in itertools.permutations(range(5), length)
                if (p[0], p[-1]) == (source, target) and all({a, b} in edges for a, b in itertools.pairwise(p))
            ]
            if paths:
                break
        if source != target and len(paths) == 1 and length >= 3:
            return edges, paths[0]


def within_5_deviations(counts, probabilities, N):
    for key in counts.keys() | probabilities.keys():
        p = float(probabilities[key])
        assert abs(counts[key] - N * p) < 5 * math.sqrt(N * p * (1 - p)) + 1, key


@pytest.mark.parametrize("nodes", [4, 5])
def test_graphs_against_a_plain_version(nodes):
    """Every graph as often as in a program that draws number by number: within 5 standard deviations."""
    assert sum(graphs(nodes).values()) == 1
    assert {len(edges) for edges in graphs(nodes)} == {nodes}
    rng, N = random.Random(0), 4000
    within_5_deviations(
        Counter(frozenset(tuple(sorted(edge)) for edge in plain_ring(nodes, rng)) for _ in range(N)), graphs(nodes), N
    )


def test_three_nodes_in_four_cases_of_five():
    """Exactly 46661 / 58311, 80.02 %; in 20,000 drawn ones within 5 standard deviations, 1.4 %."""
    assert questions().long == LONG
    N = 20_000
    batch = ShortestPath().fresh(np.random.default_rng(1), N)
    long = int(batch.mask[-1].sum())
    assert abs(long / N - float(LONG)) < 5 * math.sqrt(0.16 / N) < 0.0142


def test_questions_against_a_plain_version():
    """What can be told without names: the numbers of edges at the nodes of the path and at all 5; within 5 standard
    deviations of one another."""
    rng, N = random.Random(2), 3000

    def kind(edges, path):
        ends = Counter(node for edge in edges for node in edge)
        return tuple(ends[node] for node in path), tuple(sorted(ends.values()))

    theirs = Counter(kind(*plain_question(rng)) for _ in range(N))
    own, exact, before = questions(), Counter(), 0.0
    for edges, path, below in zip(own.edges.tolist(), own.paths.tolist(), own.below, strict=True):
        exact[kind(edges, [node for node in path if node != END])] += below - before
        before = below
    assert math.isclose(before, 1, rel_tol=1e-12)
    within_5_deviations(theirs, exact, N)


def test_sequences_written_out():
    """Token by token: every edge in both directions, one after the other; the question; ans from there on; five edges
    in one part, four in the other, which is apart; the target and what counts of it [goru:task-algo]."""
    x, y, mask, carries_state = ShortestPath().fresh(np.random.default_rng(3), 300)
    assert (x.shape, y.shape, mask.shape, carries_state) == ((80, 300), (80, 300), (80, 300), False)
    assert (x.dtype, y.dtype, mask.dtype) == (np.intp, np.intp, bool)
    for tokens, target, counts in zip(x.T.tolist(), y.T.tolist(), mask.T.tolist(), strict=True):
        statements = [tuple(tokens[t : t + 4]) for t in range(0, 72, 4)]
        for there, back in zip(statements[::2], statements[1::2], strict=True):
            assert there[1::2] == back[1::2] == (E1, EOL)
            assert there[::2] == back[2::-2]
        edges = [{s[0], s[2]} for s in statements[::2]]
        assert len({frozenset(edge) for edge in edges}) == 9
        assert set.union(*edges) == set(range(9))
        reached = {tokens[73]}
        for _ in range(9):
            reached |= {node for edge in edges if edge & reached for node in edge}
        assert len(reached) == sum(edge <= reached for edge in edges) == 5
        assert (tokens[72], tokens[75:]) == (Q1, [ANS] * 5)
        answer = target[75 : 75 + sum(counts)]
        assert counts == [False] * 75 + [True] * len(answer) + [False] * (5 - len(answer))
        assert len(answer) in (4, 5)
        assert (answer[0], answer[-2], answer[-1]) == (tokens[73], tokens[74], END)


def test_names_and_orders_are_even():
    """Each of the 9 nodes is asked for, and read first, as often as any: within 5 standard deviations; edges of the two
    graphs are mixed."""
    N = 18_000
    x = ShortestPath().fresh(np.random.default_rng(4), N).x
    for row in (x[0], x[2], x[73], x[74]):
        assert abs(np.bincount(row, minlength=9) - N / 9).max() < 5 * math.sqrt(N / 9)
    y = ShortestPath().fresh(np.random.default_rng(4), N).y
    for start in (0, 64):  # the first edge read, and the last, is the path's first in one case of nine
        share = (np.sort(y[75:77], axis=0) == np.sort(x[[start, start + 2]], axis=0)).all(axis=0).mean()
        assert abs(share - 1 / 9) < 5 * math.sqrt(0.1 / N)


@pytest.mark.parametrize("part", ["valid", "test"])
def test_a_solver_that_reads_the_tokens(part):
    """Every answer is right in held-out and training data: loss 0; a step late, or without the end, none is."""
    task = ShortestPath(eval_part=part)
    batches = [next(task.batches(np.random.default_rng(0), 900)), *task.evaluation()]
    assert sum(b.y.shape[1] for b in batches[1:]) == {"valid": 50, "test": 1000}[part]
    for x, y, mask, _ in batches:
        outputs = solve(x)
        assert LOSSES[task.loss](outputs, y, mask)[0] == 0
        assert METRICS[task.metric](0.0, outputs, y, mask) == 1
        for wrong in (np.roll(outputs, 1, axis=0), outputs * (np.arange(10) < END)):
            assert LOSSES[task.loss](wrong, y, mask)[0] > 0.5
            assert METRICS[task.metric](0.0, wrong, y, mask) == 0


def test_baseline():
    """The cross-entropy of a predictor that knows the question and how often paths have 4 nodes, by `cross_entropy` on
    one short and one long path, as often as each is; its best guesses are right in 11.4 % of the sequences, and at
    70.1 % of the steps."""
    task, long = ShortestPath(), float(LONG)
    x, y, mask, _ = task.fresh(np.random.default_rng(5), 50)
    columns = np.arange(50)
    p = np.full((80, 50, 10), 1e-300)
    source, target = x[73], x[74]
    others = np.ones((50, 10), bool)
    others[:, END] = others[columns, source] = others[columns, target] = False
    p[75, columns, source] = 1
    p[76][others] = 1 / 7
    p[77, columns, target] = 1 - long
    p[77][others] = long / 7
    p[78, :, END], p[78, columns, target] = 1 - long, long
    p[79, :, END] = 1
    sums, right = [0.0, 0.0], []
    for is_long, share in ((False, 1 - long), (True, long)):
        b = np.flatnonzero(mask[-1] == is_long)[:1]
        steps = mask[:, b].sum()
        sums[0] += share * steps * LOSSES[task.loss](np.log(p[:, b]), y[:, b], mask[:, b])[0]
        sums[1] += share * steps
        chances = np.where(p[:, b] == p[:, b].max(axis=2, keepdims=True), 1, 0)  # ties are broken at random
        hits = np.take_along_axis(chances / chances.sum(axis=2, keepdims=True), y[:, b, None], axis=2)[mask[:, b]]
        right.append((share * hits.sum(), share * hits.prod()))
    assert math.isclose(sums[0] / sums[1], task.baseline, rel_tol=1e-12)
    at_steps, in_sequences = (sum(own) for own in zip(*right, strict=True))
    assert at_steps / sums[1] == pytest.approx(0.701, abs=5e-4)
    assert in_sequences == pytest.approx(0.114, abs=5e-4)
    assert math.isclose(in_sequences, (1 - long) / 7, rel_tol=1e-12)


def test_batches():
    """950 sequences, passed through in one order after another; or fresh ones without end."""
    task = ShortestPath()
    stream = task.batches(np.random.default_rng(6), 50)
    passes = [[column for _ in range(19) for column in next(stream).x.T.tolist()] for _ in range(2)]
    assert passes[0] != passes[1]
    assert sorted(passes[0]) == sorted(passes[1])
    fresh = ShortestPath(None).batches(np.random.default_rng(6), 50)
    assert not np.array_equal(next(fresh).x, next(fresh).x)
    for one, other in zip(task.on("test").evaluation(), ShortestPath(eval_part="test").evaluation(), strict=True):
        np.testing.assert_array_equal(one.x, other.x)
    assert not np.array_equal(next(task.evaluation()).x, next(task.on("test").evaluation()).x[:, :50])


def test_parts_that_cannot_be():
    """The error names the argument and what is allowed."""
    task = ShortestPath()
    assert len(distractors().edges) == len(graphs(4))
    with pytest.raises(ValueError, match=r"^eval_part is 'train'; allowed: 'valid', 'test'$"):
        ShortestPath(eval_part="train")
    with pytest.raises(ValueError, match=r"^part is 'train'; allowed: 'valid', 'test'$"):
        task.on("train")
