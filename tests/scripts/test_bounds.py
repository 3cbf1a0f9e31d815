"""bounds: along runs of every cell that has one, in this process."""

import re

import pytest

from scripts import bounds, train
from tests.scripts.runs import call

TINY = ["--hidden", "6", "--length", "5", "--batch", "2", "--iterations", "2"]
RUNS = {
    "nc-gru": ("denoise --model nc-gru", ["Theorem 1", "tighter"]),
    "two layers": ("copying --model urnn --layers 2", ["urnn:3", "urnn:3"]),
    "vectors": ("adding --model goru", ["goru:jac"]),
    "scalar gates": ("copying --model sgornn", ["alpha ||D|| ||U|| + |beta|"]),
    "lstm": ("copying --model lstm", []),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A folder with a tiny run of each."""
    out = tmp_path_factory.mktemp("runs")
    for name, (line, _) in RUNS.items():
        code, _, stderr = call(train.main, *line.split(), *TINY, "--out", out / name)
        assert code == 0, stderr
    return out


@pytest.mark.parametrize("name", [name for name in RUNS if name != "lstm"])
def test_no_norm_is_above_its_bound(runs, name):
    """The lines name each layer's bounds; the ratios are at most 1; the picture is one."""
    code, _, stderr = call(bounds.main, runs / name)
    assert code == 0, stderr
    figures = re.findall(r"layer (\d), (.*): norm / bound is ([\d.]+) at the median, ([\d.]+) at most", stderr)
    assert [figure[1] for figure in figures] == RUNS[name][1]
    assert all(0 < float(middle) <= float(most) <= 1 for *_, middle, most in figures)
    assert (runs / name / "bounds.png").read_bytes().startswith(b"\x89PNG")


def test_bad_input(runs, tmp_path):
    """No run, a cell without a bound, a picture of no kind: one line, exit code 2."""
    for arguments, message in (
        ([tmp_path / "none"], "holds no run"),
        ([runs / "lstm"], "the cell is lstm; bounds are for gru_reset_before, gru_reset_after, elman, fastrnn"),
        ([runs / "nc-gru", "--out", tmp_path / "a.jpg"], "allowed: a name that ends in .png, .pdf or .svg"),
        ([runs / "nc-gru", "--steps", "0"], "Invalid value for '--steps'"),
    ):
        code, stdout, stderr = call(bounds.main, *arguments)
        assert (code, stdout, stderr.count("\n")) == (2, "", 1), stderr
        assert message in stderr
