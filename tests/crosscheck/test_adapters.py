"""The kit on PyTorch itself, by scripts/maintain/adapters: what docs/findings says of it."""

from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: `make crosscheck` installs it")

from ortho_ref.conformance import check, load_adapter  # noqa: E402
from ortho_ref.conformance.report import FAILED, PASSED, UNSUPPORTED  # noqa: E402

ADAPTERS = Path(__file__).parent.parent.parent / "scripts" / "maintain" / "adapters"


def statuses(adapter, only, dtype):
    """Case -> status, of those supported."""
    report = check(load_adapter(str(ADAPTERS / f"{adapter}.py")), only, dtype)
    return {result.id: result.status for result in report.results if result.status != UNSUPPORTED}


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(
    ("adapter", "kind", "at_least"),
    [
        ("torch_rnn", "cell", 15),
        ("torch_rnn", "layer", 53),
        ("torch_orthogonal_translated", "parametrization", 8),
        ("torch_optimizers", "optimizer", 11),
        ("torch_losses", "loss", 7),
    ],
)
def test_pytorch_passes(adapter, kind, at_least, dtype):
    """Cells, maps with their parameters translated, optimizers, losses: every case that PyTorch can express."""
    found = statuses(adapter, f"{kind}/*", dtype)
    assert len(found) >= at_least
    assert ("cell/lstm/step" in found) == (kind == "cell")
    assert set(found.values()) == {PASSED}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_pytorch_s_layers_pass_in_half_precision(dtype):
    """Their forward pass."""
    report = check(load_adapter(str(ADAPTERS / "torch_rnn.py")), ["cell/*", "layer/*"], dtype, forward=True)
    assert report.ok
    assert report.counts[PASSED] >= 87


def test_orthogonal_is_not_ours_but_for_the_exponential():
    """The same parameters in torch.nn.utils.parametrizations.orthogonal: another Cayley map, other reflections."""
    found = statuses("torch_orthogonal", "parametrization/*", "float64")
    by_map = {id.split("/")[1]: status for id, status in found.items()}
    assert by_map == {"scaled_cayley": FAILED, "exponential": PASSED, "householder": FAILED}
