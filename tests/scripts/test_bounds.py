"""bounds: along runs of every cell that has one, in this process."""

import re

import matplotlib.pyplot as plt
import numpy as np
import pytest

from gradients.bptt import Bound
from scripts import bounds, train
from tests.scripts.runs import call, refusal

TINY = ["--hidden", "6", "--length", "5", "--batch", "2", "--iterations", "2"]
RUNS = {
    "nc-gru": ("denoise --model nc-gru", ["Theorem 1", "tighter"]),
    "two layers": ("copying --model urnn --layers 2", ["urnn:3", "urnn:3"]),
    "vectors": ("adding --model goru", ["goru:jac"]),
    "scalar gates": ("copying --model sgornn", ["alpha ||D|| ||U|| + |beta|"]),
    "lstm": ("copying --model lstm", ["block by block"]),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A folder with a tiny run of each."""
    out = tmp_path_factory.mktemp("runs")
    for name, (line, _) in RUNS.items():
        code, _, stderr = call(train.main, *line.split(), *TINY, "--out", out / name)
        assert code == 0, stderr
    return out


@pytest.mark.parametrize("name", RUNS)
def test_no_norm_is_above_its_bound(runs, name):
    """The lines name each layer's bounds; the ratios are at most 1; the picture is one."""
    code, _, stderr = call(bounds.main, runs / name)
    assert code == 0, stderr
    figures = re.findall(r"layer (\d), (.*): norm / bound is ([\d.]+) at the median, ([\d.]+) at most", stderr)
    assert [figure[1] for figure in figures] == RUNS[name][1]
    assert all(0 < float(middle) <= float(most) <= 1 for *_, middle, most in figures)
    assert (runs / name / "bounds.png").read_bytes().startswith(b"\x89PNG")


def test_what_fills_up_a_batch_is_no_step(runs, monkeypatch):
    """The first sequence of speech, say, ends before the longest of its batch."""

    class Shorter:
        def __init__(self, task):
            self.input, self._task = task.input, task

        def evaluation(self):
            for batch in self._task.evaluation():
                mask = np.ones(batch.x.shape[:2], bool)
                mask[3:, 0] = False
                yield batch._replace(mask=mask)

    whole = bounds.task_of
    (_, long), *_ = bounds.measure(runs / "lstm", {}, 100)
    monkeypatch.setattr(bounds, "task_of", lambda *arguments: Shorter(whole(*arguments)))
    (_, found), *_ = bounds.measure(runs / "lstm", {}, 100)
    assert all(own == long[name][:3] for name, own in found.items())
    assert all(len(own) > 3 for own in long.values())


def test_bad_input(runs, tmp_path):
    """No run, a picture of no kind: one line, exit code 2."""
    for arguments, message in (
        ([tmp_path / "none"], "holds no run"),
        ([runs / "nc-gru", "--out", tmp_path / "a.jpg"], "allowed: a name that ends in .png, .pdf or .svg"),
        ([runs / "nc-gru", "--steps", "0"], "Invalid value for '--steps': Input should be greater than or equal to 1"),
    ):
        assert message in refusal(bounds.main, *arguments)


def test_what_is_drawn(runs, tmp_path, monkeypatch):
    """The run in the title, names at the axes, the norm and each bound; one that is the norm is dashed, and says so."""
    figures = []
    monkeypatch.setattr(bounds, "save", lambda figure, out: figures.append(figure))
    for name in ("lstm", "scalar gates"):
        assert call(bounds.main, runs / name)[0] == 0
    for figure, title in zip(
        figures, ("lstm: lstm, n = 6, copying, T = 5", "scalar gates: sgornn, n = 6"), strict=True
    ):
        assert figure.get_suptitle().startswith(title)
        (axis,) = figure.axes
        assert axis.get_xlabel() == "step t"
    of_lstm, of_sgornn = (figure.axes[0].get_ylabel() for figure in figures)
    assert r"\partial (h_{t},c_{t}) / \partial (h_{t-1},c_{t-1})" in of_lstm
    assert r"\partial h_{t} / \partial h_{t-1}" in of_sgornn
    norm, bound, one = figures[0].axes[0].get_lines()
    assert (bound.get_linestyle(), bound.get_label()) == ("-", "bound: block by block")
    assert (bound.get_ydata() >= norm.get_ydata()).all()
    assert set(one.get_ydata()) == {1}
    found = {"x": [Bound(2.0, 2.0)] * 3, "y": [Bound(4.0, 2.0)] * 3}
    axis = plt.figure().add_subplot()
    bounds.draw(axis, found)
    on_it, above = axis.get_lines()[1:3]
    assert (on_it.get_label(), above.get_label()) == ("bound: x (on the norm)", "bound: y")
    assert on_it.get_linestyle() == "--"
    plt.close("all")
