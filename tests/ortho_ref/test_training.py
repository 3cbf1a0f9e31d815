"""Networks of layers, and the training loop around them [bp:bptt] [bp:heads] [ncgru:alg1]."""

import json
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradients.finite_difference import check
from gradients.problem import MARGIN, network_kink_distance, relative_error
from ortho_ref import models
from ortho_ref.backend import to_device, to_host
from ortho_ref.cells import LSTM, Elman
from ortho_ref.losses import METRICS
from ortho_ref.network import Network
from ortho_ref.optimizers import Adam, ByName
from ortho_ref.parametrizations import ScaledCayley
from ortho_ref.recurrent import Recurrent
from ortho_ref.task import Batch, Tokens, Vectors
from ortho_ref.training import Trainer, new_run_folder
from tasks.parenthesis import Parenthesis
from tasks.text import Text

MODELS = ["gru", "lstm", "nc-gru"]


def network_of(name, m, n, q, layers=2, readout="every", **options):
    """`layers` copies of a model under a readout."""
    sizes = [m] + [n] * layers
    return Network(tuple(models.build(name, *pair, **options) for pair in pairwise(sizes)), q, readout)


def generic(network, rng):
    """Parameters and states of a network in float64, with nothing left at 0 and A no longer made of blocks."""
    params, states = network.init(rng, np.float64)
    for name, value in params.items():
        noise = 0.3 * rng.standard_normal(value.shape)
        params[name] = value + (noise - noise.T if name.endswith(".A") else noise)
    return params, network.rebuild(params, states)


@dataclass
class Fixed:
    """A task of given batches: over and over for training, once for evaluation."""

    chunks: list
    input: object
    output_size: int
    metric: str = "accuracy"
    readout: str = "every"
    name: str = "fixed"
    loss: str = "cross_entropy"
    baseline: float = field(default=0.0)

    def batches(self, rng, batch_size):
        while True:
            yield from self.chunks

    def evaluation(self):
        return iter(self.chunks)


def fixed(rng, shapes, q=3, m=2, groups=None, masked=(), readout="every"):
    """Random vectors of these (T, B); the chunks numbered in `masked` get a mask."""
    chunks = []
    for i, (T, B) in enumerate(shapes):
        leading = (T, B) if readout == "every" else (B,)
        y = rng.integers(0, q, leading if groups is None else (*leading, groups))
        mask = rng.integers(0, 2, leading).astype(bool) if i in masked else None
        chunks.append(Batch(rng.standard_normal((T, B, m)), y, mask))
    return Fixed(chunks, Vectors(m), q * (groups or 1), readout=readout)


def trainer(task, model="gru", n=6, layers=1, rate=1e-2, **options):
    """A small trainer; parenthesis unless the task is another."""
    network = network_of(model, task.input.size, n, task.output_size, layers, task.readout)
    settings = {"iterations": 7, "batch_size": 4, "log_every": 3, "evaluate_every": 4} | options
    return Trainer(network, task, ByName({"*.A": Adam(rate), "*": Adam(rate)}), **settings)


def test_fixed_states_a_task():
    """What the tests call a task has what `Task` asks for."""
    assert {name for name in dir(Parenthesis) if not name.startswith("_")} - {"length"} <= set(
        dir(fixed(np.random, []))
    )


# Network


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("readout", ["every", "last"])
@settings(max_examples=2)
@given(seed=st.integers(0, 2**32 - 1), tokens=st.booleans(), masked=st.booleans(), start=st.booleans())
def test_network_gradients_against_finite_differences(device, name, readout, seed, tokens, masked, start):
    """Every free entry of every parameter, through readout, two layers, Cayley pullback; h0 given or each layer's own."""
    rng = np.random.default_rng(seed)
    T, B, m, n = 3, 2, 3, 3
    network = network_of(name, m, n, 4, readout=readout)
    leading = (T, B) if readout == "every" else (B,)
    y, mask = rng.integers(0, 2, (*leading, 2)), np.arange(np.prod(leading)).reshape(leading) % 3 > 0
    mask = mask if masked else None
    distance = 0.0
    while distance < MARGIN:
        params, states = generic(network, rng)
        x = rng.integers(0, m, (T, B)) if tokens else rng.standard_normal((T, B, m))
        h0 = [rng.standard_normal((B, n)) for _ in range(2)] if start else None
        if start and name == "lstm":
            h0 = [(h, rng.standard_normal((B, n))) for h in h0]
        zero_start = network.forward(params, states, x, h0).last if start else None
        assert zero_start is None or len(zero_start) == 2
        distance = kinks(network, params, states, x, h0)
    moved = to_device((params, states, x, y, mask, h0), device)
    loss, ours, _ = network.loss_and_gradients(*moved)
    assert list(ours) == list(params)
    assert float(loss) == pytest.approx(float(network.loss_and_gradients(params, states, x, y, mask, h0)[0]), rel=1e-14)
    report = check(
        lambda p: network.loss_and_gradients(p, network.rebuild(p, states), x, y, mask, h0)[0],
        params,
        to_host(ours),
        skew=[name for name in params if name.endswith(".A")],
        kink_distance=lambda _: distance,
    )
    assert report.passed, f"\n{report}"
