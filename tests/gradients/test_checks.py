"""The registry of checks: everything of the one list is in it, what a cell lacks stays empty, what is wrong fails."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

from gradients import checks
from gradients.problem import Problem
from ortho_ref import fused, models, scan
from ortho_ref.activations import ACTIVATIONS
from ortho_ref.cells import CELLS, LSTM
from ortho_ref.cells.by_name import options_of
from ortho_ref.network import Network
from ortho_ref.parametrizations.by_name import PARAMETRIZATIONS, by_name


class Added(LSTM):
    """A cell that somebody adds."""


def oracle(factor=1.0, knows=True):
    """One that has the gradients of ours, times a factor, by `scan`."""
    of_cell = lambda problem: {name: factor * g for name, g in problem.gradients(scan).items()}  # noqa: E731
    of_map = lambda problem: {name: factor * np.triu(g, 1) for name, g in problem.gradients().items()}  # noqa: E731
    return SimpleNamespace(has_form=lambda subject: knows, gradients_of=of_cell, gradients_of_map=of_map)


def test_every_cell_with_every_activation_and_every_option():
    """All kinds of the list; of a cell's options every value that is True or False, and every activation."""
    found = checks.cells()
    assert {type(cell) for cell in found.values()} == set(CELLS.values())
    for kind in CELLS.values():
        own = [cell for cell in found.values() if type(cell) is kind]
        assert kind() in own
        if "activation" in options_of(kind):
            assert {cell.activation for cell in own} == set(ACTIVATIONS)
        for field in dataclasses.fields(kind):
            if isinstance(field.default, bool):
                assert {getattr(cell, field.name) for cell in own} == {True, False}, field.name


def test_a_cell_that_is_added_is_checked(monkeypatch):
    """Nothing but its place on the list is needed."""
    monkeypatch.setitem(CELLS, "added", Added)
    assert checks.cells()["Added"] == Added()


def test_every_parametrization_and_every_model():
    """By their names; variants are of models that there are."""
    assert {name.split(":")[0] for name, *_ in checks.parametrizations()} == set(PARAMETRIZATIONS) - {"free"}
    for name, n, complex in checks.parametrizations():
        _, buffers = by_name(name, n, complex).init(np.random.default_rng(0), n, dtype=np.float64)
        assert buffers["U"].shape == (n, n)
    for name, options in checks.VARIANTS:
        own, plain = (models.network(name, 4, (8, 8), 7, **given).layers[0] for given in (options, {}))
        assert (own.cell, own.parametrizations) != (plain.cell, plain.parametrizations), options
    any_size = {"scaled_cayley", "neumann_cayley", "exponential", "householder", "structured_unitary"}
    assert any_size <= {name.split(":")[0] for name, n, _ in checks.parametrizations() if n % 2}


@pytest.mark.parametrize("is_fused", [True, False])
@pytest.mark.parametrize("known", [None, True, False])
def test_what_a_cell_lacks_stays_empty(monkeypatch, is_fused, known):
    """No fused form, no form of the oracle's, no oracle: no figure, and that is no failure."""
    monkeypatch.setattr(fused, "has_form", lambda cell: is_fused, raising=False)
    own = None if known is None else oracle(knows=known)
    result = checks.check_cell("LSTM", LSTM(), np.random.default_rng(0), own)
    assert (result.fused is not None, result.autograd is not None) == (is_fused, known is True)
    assert result.passed
    result = checks.check_parametrization("scaled_cayley:2", 5, False, np.random.default_rng(0), own)
    assert (result.autograd is not None) == (known is True)
    assert result.passed


def test_an_oracle_that_disagrees_fails_the_row():
    """A part in 1e9 off, of a cell and of a pullback."""
    for check, subject in (
        (checks.check_cell, ("LSTM", LSTM())),
        (checks.check_parametrization, ("scaled_cayley:2", 5, False)),
    ):
        assert check(*subject, np.random.default_rng(0), oracle()).passed
        assert not check(*subject, np.random.default_rng(0), oracle(1 + 1e-9)).passed


@pytest.mark.parametrize("figures", [(2e-7, None, None), (np.nan, None, None), (0, 2e-12, None), (0, 0, np.nan)])
def test_figures_above_tolerance_fail(figures):
    """Of differences, of fused, of the oracle; not a number is above."""
    assert not checks.Result("made up", *figures).passed
    assert checks.Result("made up", 1e-8, 1e-13, 1e-13).passed


def test_a_network_is_checked_as_a_whole(monkeypatch):
    """Two layers of a model against differences, under the model's name, its options and a size of 20 or more; a
    gradient that is off by a part in a million fails."""
    rng = np.random.default_rng(0)
    result = checks.check_network("nc-gru", 4, 6, 3, rng, "cpu", orthogonal="rc")
    assert (result.subject, result.fused, result.autograd) == ("2 x nc-gru orthogonal=rc", None, None)
    assert result.passed
    assert checks.check_network("rnn", 2, 20, 2, rng, "cpu").subject == "2 x rnn, n = 20"
    assert checks.check_network("ornn", 4, 6, 3, rng, "cpu").passed  # V has entries that are no parameters
    right = Network.loss_and_gradients

    def wrong(self, params, *rest):
        loss, gradients, *more = right(self, params, *rest)
        return loss, {name: (1 + 1e-6) * gradient for name, gradient in gradients.items()}, *more

    monkeypatch.setattr(Network, "loss_and_gradients", wrong)
    assert not checks.check_network("rnn", 4, 6, 3, rng, "cpu").passed


def test_results_of_some_subjects():
    """Cells, maps and networks whose name has the words, and no others."""
    found = checks.results(np.random.default_rng(0), only="lstm")
    assert [result.subject for result in found] == ["2 x lstm", "language model, lstm 6-6-4", "reader, lstm, steps"]
    found = checks.results(np.random.default_rng(0), only="LSTM")
    assert [result.subject for result in found] == ["LSTM"]
    found = checks.results(np.random.default_rng(0), only="householder:")
    assert found
    assert all("householder:" in result.subject for result in found)


@pytest.mark.parametrize("has_oracle", [True, False])
def test_a_cell_is_checked_with_vectors_and_with_tokens(monkeypatch, has_oracle):
    """Six steps of each, through `scan` as through `fused`, and by the oracle where there is one."""
    asked = []

    def gradients_of(problem):
        asked.append((problem.x.dtype.kind, len(problem.x)))
        return problem.gradients(scan)

    own = SimpleNamespace(has_form=lambda subject: has_oracle, gradients_of=gradients_of)
    assert checks.check_cell("LSTM", LSTM(), np.random.default_rng(0), own).passed
    assert asked == ([("f", 6), ("i", 6)] if has_oracle else [])


def test_a_cells_row_says_its_options():
    """Its class, its activation, and what is off."""
    for name, cell in checks.cells().items():
        kind, _, options = name.partition(" ")
        assert kind == type(cell).__name__
        if hasattr(cell, "activation"):
            assert options.split(",")[0].split(" ")[0] == cell.activation
        for gate in ("reset", "update"):
            assert (f"no {gate} gate" in options or "no gates" in options) == (not getattr(cell, f"{gate}_gate", True))


@pytest.mark.parametrize("wrong", ["f", "i"])
def test_the_worse_of_vectors_and_tokens_counts(monkeypatch, wrong):
    """An oracle that disagrees on the one, and a fast form that is off on the one, fail the row."""

    def off(problem, engine=scan):
        factor = 1 + 1e-9 if problem.x.dtype.kind == wrong else 1
        return {name: factor * g for name, g in problem.gradients(engine).items()}

    own = SimpleNamespace(has_form=lambda subject: True, gradients_of=off)
    result = checks.check_cell("LSTM", LSTM(), np.random.default_rng(0), own)
    assert result.autograd > 1e-10 > result.fused
    right = Problem.gradients

    def by(problem, engine):
        factor = 1 + 1e-9 if engine is fused and problem.x.dtype.kind == wrong else 1
        return {name: factor * g for name, g in right(problem, engine).items()}

    monkeypatch.setattr(Problem, "gradients", by)
    assert checks.check_cell("LSTM", LSTM(), np.random.default_rng(0)).fused > 1e-10


@pytest.mark.parametrize("wrong", ["f", "i"])
def test_the_worse_of_the_differences_counts(monkeypatch, wrong):
    """A gradient that is off by a part in a million, of vectors or of tokens alone."""
    right = Problem.gradients

    def by(problem, engine):
        factor = 1 + 1e-6 if problem.x.dtype.kind == wrong else 1
        return {name: factor * g for name, g in right(problem, engine).items()}

    monkeypatch.setattr(Problem, "gradients", by)
    assert checks.check_cell("LSTM", LSTM(), np.random.default_rng(0)).differences > 1e-7


def test_a_maps_row_says_its_size_and_its_field():
    """The name, n, and whether it is complex."""
    rng = np.random.default_rng(0)
    for complex, subject in ((True, "fft_rotations, n = 4, complex"), (False, "fft_rotations, n = 4")):
        assert checks.check_parametrization("fft_rotations", 4, complex, rng).subject == subject
