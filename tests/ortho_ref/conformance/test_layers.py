"""Kind layer: what the cases hold, and that what users meet around a cell is seen."""

from fnmatch import fnmatch

import numpy as np
import pytest

from ortho_ref.conformance import check
from ortho_ref.conformance.cases import drawing, reference
from ortho_ref.conformance.cases.case_files import select
from ortho_ref.conformance.report import FAILED
from ortho_ref.converters.framework import is_bias

LAYERS = {vector.id: vector for vector in select("layer/*")}


@pytest.mark.parametrize("id", LAYERS)
def test_what_is_absent_is_no_input(id):
    """And has no gradient; a config has every option."""
    case = LAYERS[id].case
    biases = [name for name in case.inputs if is_bias(name.rpartition(".")[2])]
    assert bool(biases) == case.config["bias"]
    assert ("h0" in case.inputs) == ("d_h0" in case.outputs) == case.config["initial_state"]
    assert case.config.keys() >= {"layers", "bidirectional", "padding", "batch_first", "parametrized"}
    weights = {name for name in case.inputs if name.startswith("weights.") and "permutation" not in name}
    assert {name.removeprefix("d_") for name in case.outputs if name.startswith("d_weights.")} == weights


def test_a_bias_that_is_skipped_without_h0_is_named():
    """It passes wherever an initial state is given."""

    def run(case):
        inputs = case.inputs
        if not case.config["initial_state"]:
            inputs = {n: a * 0 if is_bias(n.rpartition(".")[2]) else a for n, a in inputs.items()}
        found = reference.outputs(type(case)(case.id, case.kind, case.config, inputs))
        if not case.config["initial_state"]:
            found = {n: a * 0 if is_bias(n.rpartition(".")[2]) else a for n, a in found.items()}
        return found

    report = check(run, ["layer/gru_reset_before/*-*"])
    failed = {result.id: result.mistakes for result in report.results if result.status == FAILED}
    assert failed.keys() == {"layer/gru_reset_before/no-h0"}
    assert failed["layer/gru_reset_before/no-h0"] == (("bias-skipped-without-h0",),)


@pytest.mark.parametrize(
    ("name", "change", "gate"),
    [("U-transposed", lambda a: a.T, "U_*"), ("u-keeps", np.negative, "?_u"), ("z-writes", np.negative, "?_z")],
)
def test_a_mistake_of_a_cell_is_named_in_its_layers(name, change, gate):
    """In every layer and direction, the gradients of the weights in question among the outputs."""

    def run(case):
        own = {n for n in case.inputs if fnmatch(n, f"weights.layer*.{gate}")}
        inputs = {n: change(a) if n in own else a for n, a in case.inputs.items()}
        found = reference.outputs(type(case)(case.id, case.kind, case.config, inputs))
        return {n: change(a) if n.removeprefix("d_") in own else a for n, a in found.items()}

    cell = "gru_reset_before" if name == "u-keeps" else "gru_reset_after"
    report = check(run, [f"layer/{cell}/{case}" for case in ("two-layers", "bidirectional", "three-layers")])
    assert [result.status for result in report.results] == [FAILED] * 3
    assert {result.mistakes for result in report.results} == {((name,),)}


def test_padding_changes_nothing_but_itself():
    """Other numbers in the padding of x and dy give the same, and d_x is 0 there."""
    case = LAYERS["layer/gru_reset_before/bidirectional-lengths"].given("float64")
    off = np.arange(6)[:, None] >= case.inputs["lengths"]
    assert off.any()
    before = reference.outputs(case)
    for name in ("x", "dy"):
        case.inputs[name][off] = 7.0
    after = reference.outputs(case)
    assert all(np.array_equal(before[name], after[name]) for name in before)
    assert not before["y"][off].any()
    assert not before["d_x"][off].any()
    case.inputs["lengths"][:] = 6
    assert not np.array_equal(reference.outputs(case)["h_T"], after["h_T"])


def test_batch_first_is_the_same_turned():
    case = LAYERS["layer/gru_reset_after/batch-first-mask"].given("float64")
    turned = {n: np.swapaxes(a, 0, 1) if n in ("x", "dy", "mask") else a for n, a in case.inputs.items()}
    other = reference.outputs(type(case)(case.id, case.kind, case.config | {"batch_first": False}, turned))
    for name, array in reference.outputs(case).items():
        np.testing.assert_array_equal(np.swapaxes(array, 0, 1) if name in ("y", "d_x") else array, other[name])


DRAWN = [vector for vector in LAYERS.values() if vector.drawn is not None]


@pytest.mark.parametrize("vector", DRAWN, ids=lambda vector: vector.id)
def test_drawn_cases_are_those_of_their_hash(vector):
    """And another seed's are not."""
    how = vector.drawn
    inputs = drawing.inputs_of(how)
    assert drawing.hash_of(inputs) == how["sha256"]
    assert drawing.hash_of(drawing.inputs_of({**how, "seed": "another"})) != how["sha256"]
    assert drawing.agree(vector.expected, how["checks"])
    largest = max(vector.expected, key=lambda name: vector.expected[name].size)  # the signs of a few may be alike
    moved = vector.expected | {largest: np.roll(vector.expected[largest], 1)}
    assert not drawing.agree(moved, how["checks"])
    assert all(np.array_equal(a, a.astype(np.float32)) for a in inputs.values())


def test_long_and_wide_ones_are_among_them():
    sizes = [(vector.case.inputs["x"].shape[0], vector.case.inputs["dh_T"].shape[2]) for vector in DRAWN]
    assert {T for T, _ in sizes} >= {500}
    assert {n for _, n in sizes} >= {128}
