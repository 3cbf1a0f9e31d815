"""The weights of the page on gradients: trained, written and read, and handed to the page as a script."""

import base64
import json

import numpy as np
import pytest

from ortho_ref import models
from scripts.maintain import moving_weights
from scripts.maintain.book import weights
from tests.scripts.test_programs import run


@pytest.mark.parametrize("name", ["gru", "urnn"])
def test_a_model_is_trained_and_written(name, tmp_path):
    """Both sets have the cell's dense weights and the readout; those before are not those after."""
    code, output = run(moving_weights.main, name, "--iterations", "2", "--out", str(tmp_path))
    assert code == 0, output
    found, facts = weights.read(tmp_path / f"{name}.safetensors")
    layer = models.build(name, 10, moving_weights.HIDDEN)
    own = {*layer.cell.shapes(10, moving_weights.HIDDEN), "readout.W", "readout.b", *(["h0"] if name == "urnn" else [])}
    for when in ("before", "after"):
        assert set(found[when]) == own
        assert all(value.dtype == np.float32 for value in found[when].values())
    assert all(np.any(found["before"][key] != found["after"][key]) for key in own)
    assert facts["model"] == name
    assert facts["updates"] == "2"
    assert f"loss after {facts['loss after']}" in output


def test_another_model_is_refused(tmp_path):
    """One line, which says what is allowed; nothing is written."""
    code, output = run(moving_weights.main, "goru", "--out", str(tmp_path))
    assert code == 2
    assert "MODEL is 'goru' (did you mean 'gru'?); allowed: rnn, lstm, gru, nc-gru, scornn, urnn" in output
    assert list(tmp_path.iterdir()) == []


def test_complex_weights_keep_both_parts(tmp_path):
    """The last axis is the real and the imaginary part."""
    U = np.array([[1 + 2j, 3 - 4j]])
    weights.write(tmp_path / "one.safetensors", {"U": U, "b": U.real}, {"U": -U, "b": U.imag}, {"model": "one"})
    found, facts = weights.read(tmp_path / "one.safetensors")
    np.testing.assert_array_equal(found["before"]["U"], [[[1, 2], [3, -4]]])
    np.testing.assert_array_equal(found["after"]["b"], [[2, -4]])
    assert facts == {"model": "one"}


def test_the_script_has_the_numbers_of_the_files():
    """Every model's weights, to the bit, and what the file says of them."""
    text = weights.script(moving_weights.ROOT)
    (line,) = (line for line in text.splitlines() if line.startswith("  const own = "))
    script = json.loads(line.removeprefix("  const own = ").removesuffix(";"))
    assert list(script) == list(weights.MODELS)
    for name, given in script.items():
        found, facts = weights.read(moving_weights.ROOT / weights.FOLDER / f"{name}.safetensors")
        assert given["facts"] == facts
        assert list(facts) == sorted(facts)  # so that the site is the same each time
        for when in ("before", "after"):
            assert given[when].keys() == found[when].keys()
            for key, value in found[when].items():
                numbers = np.frombuffer(base64.b64decode(given[when][key]["data"]), "<f4")
                np.testing.assert_array_equal(numbers.reshape(given[when][key]["shape"]), value)
