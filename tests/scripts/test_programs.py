"""check_gradients, benchmark and demo, run in this process."""

import dataclasses
import json

import pytest
import typer
from typer.testing import CliRunner

from ortho_ref.cells import Elman, GRUResetBefore
from ortho_ref.parametrizations import ScaledCayley
from scripts import benchmark, check_gradients, demo


def run(main, *arguments):
    """The program's exit code and output."""
    app = typer.Typer()
    app.command()(main)
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": "200"})
    return result.exit_code, result.output


def test_check_gradients_passes_and_lists_everything():
    """Every cell x activation, both maps, every model; exit code 0."""
    code, output = run(check_gradients.main, "--seed", "1")
    assert code == 0, output
    assert "FAIL" not in output
    for subject in (*check_gradients.cells(), "ScaledCayley", "NeumannCayley", "scornn", "nc-gru ruc", "irnn"):
        assert subject in output


@pytest.mark.parametrize(
    ("kind", "method", "subjects"),
    [(GRUResetBefore, "step_backward", "GRUResetBefore tanh"), (ScaledCayley, "pullback", "ScaledCayley, n = 5")],
)
def test_check_gradients_fails_on_a_wrong_gradient(monkeypatch, kind, method, subjects):
    """A gradient scaled by 1.001 is reported in its row, and the exit code is 1."""
    right = getattr(kind, method)

    def wrong(self, *arguments):
        result = right(self, *arguments)
        *rest, gradients = result if isinstance(result, tuple) else (result,)
        gradients = {name: 1.001 * value for name, value in gradients.items()}
        return (*rest, gradients) if rest else gradients

    monkeypatch.setattr(kind, method, wrong)
    code, output = run(check_gradients.main)
    assert code == 1
    assert [line for line in output.splitlines() if subjects in line and "FAIL" in line]
    assert [line for line in output.splitlines() if "LSTM" in line and "ok" in line]


def test_benchmark_reports_figures_and_the_blas_kernel(tmp_path):
    """One small size: medians, ratios, every BLAS with its kernel and threads; the same in the JSON file."""
    code, output = run(
        benchmark.main, "--only", "parenthesis", "--rounds", "1", "--seconds", "0", "--report", f"{tmp_path}/b.json"
    )
    assert code == 0, output
    report = json.loads((tmp_path / "b.json").read_text())
    row = report["milliseconds"]["parenthesis"]
    assert {"fused", "scan"} <= set(row)
    assert all(value > 0 for value in row.values())
    assert report["machine"]["blas"]
    assert all(pool.endswith(" x1") for pool in report["machine"]["blas"])
    code, output = run(benchmark.main, "--report", f"{tmp_path}/none/b.json")
    assert code == 2
    assert "there is no folder" in output
    code, output = run(benchmark.main, "--only", "tiny")
    assert code == 2
    assert "'tiny'; allowed: parenthesis, denoise" in output


def test_demo_draws_its_picture(tmp_path):
    """Both runs' metrics and a PNG; a second run replaces the first."""
    for _ in range(2):
        code, output = run(demo.main, "--out", str(tmp_path), "--iterations", "2")
        assert code == 0, output
    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")
    for model in ("nc-gru", "gru"):
        assert len((tmp_path / model / "metrics.jsonl").read_text().splitlines()) == 1
    assert "baseline (best constant prediction per step): 1.26" in output


def test_cells_are_options_only():
    """A cell holds no arrays: it is frozen, hashable and equal by its options."""
    assert Elman("relu") == Elman("relu") != Elman("tanh")
    assert len({GRUResetBefore(), GRUResetBefore("tanh"), GRUResetBefore("relu")}) == 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        Elman().activation = "relu"
