"""docs/claims.md and its curves are what the stored runs say; and a page of made-up runs says what it must."""

import shutil

import pytest
from PIL import Image

from ortho_ref.run_folder import read_metrics, read_summary
from scripts import claims, experiment
from scripts.grid.experiment.sessions import read_sessions
from scripts.grid.experiment.storing import KEPT, LINES
from tests.scripts.grids import tiny
from tests.scripts.runs import ROOT, call

RUNS = sorted(path.parent for path in (ROOT / "results" / "experiments").rglob("summary.json"))


def test_the_page_is_what_the_runs_say():
    """`python -m scripts.claims` would write the same; each picture is of the table that stands there."""
    assert call(claims.main, "--check") == (0, "", "")
    for own in claims.stored():
        with Image.open(own.picture) as picture:
            assert picture.info["Title"] == own.drawn, own.picture
        assert f"![Curves](../{own.picture.relative_to(ROOT)})" in claims.PAGE.read_text()


@pytest.mark.parametrize("run", RUNS, ids=lambda run: str(run.relative_to(ROOT / "results")))
def test_a_stored_run(run):
    """Whole, finished, at scale 1, of few lines, with the commit and the time of it, and no checkpoint."""
    read_summary(run)
    assert len(read_metrics(run)) <= LINES
    assert {path.name for path in run.iterdir()} <= set(KEPT)
    assert all(session["commit"] and not session["commit"].endswith("+") for session in read_sessions(run))
    assert sum(session.get("seconds", 0) for session in read_sessions(run)) > 0


@pytest.fixture
def own_claims(tmp_path, monkeypatch):
    """The program on a checkout of one small experiment, whose two runs are stored."""
    files = tmp_path / "scripts" / "experiments"
    files.mkdir(parents=True)
    (tmp_path / "docs").mkdir()
    path = tiny(files, seeds=1, iterations=3, more='[[claim]]\ntext = "less"\nbelow = ["GRU", "NC-GRU"]\n')
    path.write_text(path.read_text().replace('name = "GRU"', 'name = "GRU"\nnote = "reset before"'))
    for module in (claims, experiment):
        monkeypatch.setattr(module, "ROOT", tmp_path)
        monkeypatch.setattr(module, "FILES", files)
    monkeypatch.setattr(claims, "RESULTS", tmp_path / "results" / "experiments")
    monkeypatch.setattr(claims, "PAGE", tmp_path / "docs" / "claims.md")
    out = tmp_path / "runs"
    assert call(experiment.main, "run", path, "--out", out, "--no-estimate", "--jobs", 2)[0] == 0
    return path, out


def test_stored_and_written(own_claims, tmp_path):
    """Checkpoints stay behind; the page has table, claim and commit, the gallery its curves; what is stored stays."""
    path, out = own_claims
    assert call(claims.main, "--check")[0] == 1
    code, _, stderr = call(experiment.main, "store", path, "--out", out)
    assert (code, stderr) == (0, "GRU; all; seed 0: stored\nNC-GRU; all; seed 0: stored\n")
    assert call(experiment.main, "store", path, "--out", out) == (0, "", "")
    stored = tmp_path / "results" / "experiments" / "tiny"
    assert sorted(own.name for own in stored.rglob("*.safetensors")) == []
    assert call(claims.main)[0] == 0
    page = (tmp_path / "docs" / "claims.md").read_text()
    assert "## Own: Tiny" in page
    assert "\n* GRU: reset before\n" in page
    assert "| less | all | **too small to tell** |" in page
    assert "`python -m scripts.experiment run scripts/experiments/tiny.toml`; commit " in page
    table = call(experiment.main, "table", path, "--out", stored)[1]
    assert table.strip() in page
    assert "(../results/experiments/tiny/curves.png)" in (tmp_path / "docs" / "gallery.md").read_text()
    assert call(claims.main, "--check")[0] == 0
    shutil.rmtree(stored / "gru")
    assert call(claims.main, "--check")[0] == 1


def test_what_is_not_stored(own_claims, tmp_path, monkeypatch):
    """Smaller runs, files from elsewhere, runs of too many lines."""
    path, out = own_claims
    other = shutil.copy(path, tmp_path / "tiny.toml")
    for arguments in ([path, "--scale", "0.5"], [other]):
        code, _, stderr = call(experiment.main, "store", *arguments, "--out", out)
        assert (code, stderr) == (2, "error: store is for files in scripts/experiments, at scale 1\n")
    from scripts.grid.experiment import storing

    monkeypatch.setattr(storing, "LINES", 0)
    code, _, stderr = call(experiment.main, "store", path, "--out", out)
    assert code == 2
    assert "lines of metrics; allowed: 0; log less often" in stderr
