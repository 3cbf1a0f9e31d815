"""Maps of PyTorch itself, by scripts/maintain/adapters/maps: what docs/maps.md says of them."""

from pathlib import Path

import pytest

from ortho_ref.conformance import check_map
from ortho_ref.conformance.running.adapters import load_module

pytest.importorskip("torch")
FOLDER = Path(__file__).parents[2] / "scripts/maintain/adapters/maps"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("torch_cayley", "half-angle Cayley, as in PyTorch and geotorch"),
        ("peft_oft", "PEFT's num_cayley_neumann_terms = 5"),
        ("torch_muon", "Muon's quintic, (3.4445, -4.7750, 2.0315), 5 steps"),
    ],
)
def test_a_map_of_pytorch_is_recognised(name, words):
    module = load_module(str(FOLDER / f"{name}.py"))
    report = check_map(module.map, getattr(module, "pullback", None), tolerance=2.0)
    assert words in report.found.fitting[0].words
    assert report.gradient.status in ("right", "none given")
