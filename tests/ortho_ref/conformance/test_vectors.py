"""The vectors that the kit ships."""

import dataclasses
import inspect

import numpy as np
import pytest

from ortho_ref.activations import ACTIVATIONS
from ortho_ref.cells import CELLS
from ortho_ref.cells.fastrnn import CONSTRAINTS
from ortho_ref.conformance.cases import case_files as stored
from ortho_ref.conformance.cases.case import KINDS
from ortho_ref.conformance.cases.case_files import MANIFEST, VECTORS, key_of, read_manifest
from ortho_ref.conformance.compare import MINIMUM
from ortho_ref.losses import LOSSES
from ortho_ref.parametrizations.by_name import PARAMETRIZATIONS
from ortho_ref.training.optimizers import OPTIMIZERS
from tests.ortho_ref.conformance.adapters import BY_ID


def test_the_manifest_names_what_is_there():
    """Each case once, and every file."""
    manifest = read_manifest()
    ids = [entry["id"] for entry in manifest["cases"]]
    assert len(ids) == len(set(ids))
    assert set(manifest["files"]) | {MANIFEST} == {path.name for path in VECTORS.iterdir()}


def test_files_hold_the_arrays_of_the_manifest_and_no_others():
    manifest = read_manifest()
    for name in manifest["files"]:
        named = {
            key_of(entry["id"], role, array)
            for entry in manifest["cases"]
            if stored.file_of(entry["kind"]) == name
            for role in ("inputs", "expected", "low", "high")
            for array in entry[role]
        }
        assert set(stored.load((VECTORS / name).read_bytes())) == named, name


def test_ids_are_names_that_say_their_kind():
    """Lower case in words; the first is the kind, of which each is there; less than 3 MB in all."""
    for id, vector in BY_ID.items():
        assert id.split("/")[0] == vector.case.kind
        assert set(id) <= set("abcdefghijklmnopqrstuvwxyzABCTU0123456789/-_"), id
        assert vector.why
    assert {vector.case.kind for vector in BY_ID.values()} == set(KINDS)
    assert sum(path.stat().st_size for path in VECTORS.iterdir()) < 3e6


def test_answers_are_above_the_floor_or_zero():
    """And finite, so that no relative error is of noise.  Draws are judged by ranges and moments, and have none.

    Inputs are exact in float32, so that both precisions are given the same case.
    """
    for id, vector in BY_ID.items():
        for array in vector.case.inputs.values():
            assert array.dtype in (np.float64, np.int64, np.bool_)
            assert array.dtype != np.float64 or np.array_equal(array.astype(np.float32), array), id
        for name, array in vector.expected.items():
            assert np.isfinite(array).all()
            assert array.dtype == np.float64, (id, name)
            size = np.abs(array).max()
            powers = [own.get("power", 0) for own in (vector.drawn or {"arrays": {}})["arrays"].values()]
            least = MINIMUM * 2.0 ** (3 * min([0, *powers]))  # gradients have small inputs as factors
            assert size == 0 or size > least, (id, name)
        # on a kink the reference's choice may be 0 for all, within limits that are not
        answers = (vector.low | {f"high {n}": a for n, a in vector.high.items()}) if vector.low else vector.expected
        assert any(array.any() for array in answers.values()) or vector.case.kind == "initial", id


def sizes(inputs):
    """T, B, m, n of a cell's case; m None for tokens."""
    T, B = inputs["x"].shape[:2]
    return T, B, inputs["x"].shape[2] if inputs["x"].ndim == 3 else None, inputs["h0"].shape[1]


#: Cells that the kit is about; of a cell that is added there may be no cases yet.
OF_THE_KIT = list(dict.fromkeys(v.case.config["cell"] for v in BY_ID.values() if v.case.kind == "cell"))


@pytest.mark.parametrize("cell", OF_THE_KIT)
def test_every_cell_has_its_sizes(cell):
    """m = n, B = 1, T > 8, T = 1 with a batch, tokens, an odd n; one step in the cases of that name alone."""
    assert set(OF_THE_KIT) <= set(CELLS)
    assert len(OF_THE_KIT) >= 5
    own = {v.id: v for v in BY_ID.values() if v.case.kind == "cell" and v.case.config["cell"] == cell}
    found = [sizes(v.case.inputs) for v in own.values()]
    for wanted in (
        *(lambda T, B, m, n: m == n, lambda T, B, m, n: B == 1, lambda T, B, m, n: T > 8, lambda T, B, m, n: m is None),
        *(lambda T, B, m, n: n % 2, lambda T, B, m, n: T == 1 < B),
    ):
        assert any(wanted(*size) for size in found)
    for id, vector in own.items():
        assert (sizes(vector.case.inputs)[0] == 1) == id.endswith(("/step", "-step")), id


VALUES = {"activation": set(ACTIVATIONS), "constraint": set(CONSTRAINTS)}


@pytest.mark.parametrize("cell", OF_THE_KIT)
def test_every_option_of_every_cell_occurs(cell):
    """Each value of each field of its dataclass, and no field but those."""
    configs = [v.case.config for v in BY_ID.values() if v.case.kind == "cell" and v.case.config["cell"] == cell]
    for field in dataclasses.fields(CELLS[cell]):
        seen = {config[field.name] for config in configs}
        allowed = VALUES.get(field.name, {True, False})
        assert seen == allowed, field.name
    named = {"cell", *(field.name for field in dataclasses.fields(CELLS[cell]))}
    assert all(set(config) == named for config in configs)


def test_every_parametrization_occurs():
    """But Free, whose matrix is its own parameter; geodesic_unitary, which has no parameters, in `update`."""
    seen = {v.case.config["parametrization"] for v in BY_ID.values() if v.case.kind == "parametrization"}
    updated = {v.case.config["algorithm"] for v in BY_ID.values() if v.case.kind == "update"}
    assert seen == set(PARAMETRIZATIONS) - {"free", "geodesic_unitary"}
    assert updated == {"neumann_cayley", "scaled_cayley", "geodesic_unitary", "dynamic_trivialization"}
    for name in seen:
        configs = [v.case.config for v in BY_ID.values() if v.case.config.get("parametrization") == name]
        fields = {f.name: f for f in dataclasses.fields(PARAMETRIZATIONS[name])}
        if "complex" in fields:
            assert {config["complex"] for config in configs} == {True, False}, name


#: Options of optimizers that have one value in all cases of kind optimizer.
FIXED = {("sgd", "learning_rate"), ("adam", "learning_rate"), ("rmsprop", "learning_rate")}
FIXED |= {("adam", "beta1"), ("adam", "beta2"), ("rmsprop", "weight_decay")}


def test_every_optimizer_activation_and_loss_occurs():
    configs = [(vector.case.kind, vector.case.config) for vector in BY_ID.values()]
    optimizers = [config["optimizer"] for kind, config in configs if kind == "optimizer"]
    kinds = {name: kind for name, kind in OPTIMIZERS.items() if inspect.isclass(kind)}  # not those of set arguments
    assert {own["name"] for own in optimizers} == set(kinds)
    for name, kind in kinds.items():
        own = [options for options in optimizers if options["name"] == name]
        named = {"name", *inspect.signature(kind).parameters} - {"compiled"}  # which moves no bit
        assert all(set(options) == named for options in own)
        for option in named - {"name"}:
            assert len({options[option] for options in own}) > 1 or (name, option) in FIXED, (name, option)
    assert {config["activation"] for kind, config in configs if kind == "activation"} == {*ACTIVATIONS, "sigmoid"}
    assert {config["loss"] for kind, config in configs if kind == "loss"} == set(LOSSES)
    assert {config["masked"] for kind, config in configs if kind == "loss"} == {True, False}


def test_upstream_gradients_and_states_are_generic():
    """No input of numbers is constant or zero: cases are not blind."""
    for vector in BY_ID.values():
        if vector.case.kind == "cell":
            for name, array in vector.case.inputs.items():
                zero = vector.id.endswith(f"/no-{name}")
                assert array.size == 1 or (len(np.unique(array)) > 1) != zero, (vector.id, name)
