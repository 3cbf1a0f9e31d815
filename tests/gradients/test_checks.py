"""The registry of checks: everything of the one list is in it, what a cell lacks stays empty, what is wrong fails."""

import dataclasses
import re
from types import SimpleNamespace

import numpy as np
import pytest

from gradients import checks
from gradients.problem import Problem
from ortho_ref import fused, models, scan
from ortho_ref.activations import ACTIVATIONS
from ortho_ref.cells import CELLS, Elman, GRUResetBefore
from ortho_ref.cells.by_name import options_of
from ortho_ref.network import Network
from ortho_ref.parametrizations import ScaledCayley
from ortho_ref.parametrizations.by_name import PARAMETRIZATIONS, by_name
from scripts import check_gradients
from tests.scripts.runs import call


class Added(Elman):
    """A cell that somebody adds."""


SUBJECTS = {"cell": ("Elman tanh", Elman("tanh")), "map": ("scaled_cayley:2", 5, False)}


def check(kind, own=None):
    """The cheapest cell, or a map, from a seed."""
    of = checks.check_cell if kind == "cell" else checks.check_parametrization
    return of(*SUBJECTS[kind], np.random.default_rng(0), own)


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
    assert checks.cells()["Added modrelu"] == Added("modrelu")


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
    of_cell, of_map = check("cell", own), check("map", own)
    assert (of_cell.fused is not None, of_cell.autograd is not None) == (is_fused, known is True)
    assert (of_map.fused is not None, of_map.autograd is not None) == (False, known is True)
    assert of_cell.passed
    assert of_map.passed
    assert of_cell.faults() == of_map.faults() == []


@pytest.mark.parametrize("kind", SUBJECTS)
def test_an_oracle_that_disagrees_fails_the_row(kind):
    """A part in 1e9 off."""
    assert not check(kind, oracle(1 + 1e-9)).passed


@pytest.mark.parametrize("figures", [(2e-7, None, None), (np.nan, None, None), (0, 2e-12, None), (0, 0, np.nan)])
def test_figures_above_tolerance_fail(figures):
    """Of differences, of fused, of the oracle; not a number is above."""
    assert not checks.Result("made up", *figures).passed
    assert checks.Result("made up", 1e-8, 1e-13, 1e-13).passed


def off(name, factor, kind="fi", engines=(scan, fused)):
    """`Problem.gradients` with one gradient, or all of name "", times a factor: of vectors, tokens or both."""
    right = Problem.gradients

    def gradients(problem, engine):
        wrong = engine in engines and problem.x.dtype.kind in kind
        return {own: factor * g if wrong and name in ("", own) else g for own, g in right(problem, engine).items()}

    return gradients


@pytest.mark.parametrize("name", ["U_c", "W_u", "b_r", "x", "h0"])
def test_the_wrong_gradient_is_named(monkeypatch, name):
    """Alone, with its error; the others' largest beside it."""
    monkeypatch.setattr(Problem, "gradients", off(name, 1.03))
    result = checks.check_cell("GRUResetBefore tanh", GRUResetBefore(), np.random.default_rng(0))
    (line,) = result.faults()
    assert not result.passed
    error = re.fullmatch(
        rf"GRUResetBefore tanh: dL/d{name} is off by (\S+) of its largest entry \(finite differences\), others <= \S+",
        line,
    )[1]
    assert float(error) == pytest.approx(0.03 / 1.03, rel=0.02)
    assert float(line.rpartition(" ")[2]) < 1e-8


def test_several_wrong_gradients_are_named_and_by_what():
    """The worst first, four at most; each comparison has a line; one that is NaN, or 0 throughout, is the worst."""
    by_differences = dict(zip("abcdef", (1e-3, 2e-3, 5e-4, 1.0, 4e-4, 1e-12), strict=True))
    errors = {"finite differences": by_differences, "fused": {"a": np.nan, "b": 1e-9}}
    first, second = checks.Result("Cell", 1.0, np.nan, None, errors=errors).faults()
    assert first == (
        "Cell: dL/dd is off by 1.0e+00 of its largest entry (finite differences), dL/db is off by 2.0e-03, "
        "dL/da is off by 1.0e-03, dL/dc is off by 5.0e-04, and 1 more, others <= 1e-12"
    )
    assert second == "Cell: dL/da is off by nan of its largest entry (fused), dL/db is off by 1.0e-09"


def test_the_program_names_it(monkeypatch):
    """Below the table, and the exit code is 1; of a map and of a network by the parameter's whole name."""
    monkeypatch.setattr(Problem, "gradients", off("U", 1.03))
    code, out, _ = call(check_gradients.main, "--only", "Elman tanh")
    assert code == 1
    assert "FAIL" in out
    assert "Elman tanh: dL/dU is off by 2.9e-02 of its largest entry (finite differences), others <= " in out
    right = ScaledCayley.pullback
    monkeypatch.setattr(ScaledCayley, "pullback", lambda *arguments: {"A": 1.1 * right(*arguments)["A"]})
    assert check("map").faults()[0].startswith("scaled_cayley:2, n = 5: dL/dA is off by 9.1e-02 of its largest entry (")
    (line,) = checks.check_network("scornn", 4, 6, 3, np.random.default_rng(0)).faults()
    assert re.match(r"2 x scornn: dL/d\(layer[01]\.U\.A\) is off by \S+ of its norm \(finite differences\), ", line)


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

    def wrong(self, params, *rest, **options):
        loss, gradients, *more = right(self, params, *rest, **options)
        return loss, {name: (1 + 1e-6) * gradient for name, gradient in gradients.items()}, *more

    monkeypatch.setattr(Network, "loss_and_gradients", wrong)
    assert not checks.check_network("rnn", 4, 6, 3, rng, "cpu").passed


def test_results_of_some_subjects():
    """Cells, maps and networks whose name has the words, and no others; they pass."""
    for only, subjects in (
        ("reader, lstm", ["reader, lstm, steps"]),
        ("model, rnn", ["language model, rnn 5"]),
        ("2 x rnn", ["2 x rnn"]),
        ("Elman tanh", ["Elman tanh"]),
        ("householder:4", ["householder:4, n = 5"]),
    ):
        found = checks.results(np.random.default_rng(0), only=only)
        assert [(result.subject, result.passed) for result in found] == [(subject, True) for subject in subjects]


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
    """An oracle, a fast form, or a gradient that is off on the one alone fails the row."""
    with monkeypatch.context() as patch:
        patch.setattr(Problem, "gradients", off("", 1 + 1e-9, wrong, (fused,)))
        result = check("cell")
        assert result.fused > 1e-10
        assert result.differences < 1e-7
    with monkeypatch.context() as patch:
        patch.setattr(Problem, "gradients", off("", 1 + 1e-6, wrong))
        assert check("cell").differences > 1e-7
    by = off("", 1 + 1e-9, wrong)
    own = SimpleNamespace(has_form=lambda subject: True, gradients_of=lambda problem: by(problem, scan))
    result = check("cell", own)
    assert result.autograd > 1e-10 > result.fused


def test_a_maps_row_says_its_size_and_its_field():
    """The name, n, and whether it is complex."""
    rng = np.random.default_rng(0)
    for complex, subject in ((True, "fft_rotations, n = 4, complex"), (False, "fft_rotations, n = 4")):
        assert checks.check_parametrization("fft_rotations", 4, complex, rng).subject == subject
