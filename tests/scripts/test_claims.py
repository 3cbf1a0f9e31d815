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
    for own in (own for own in claims.stored() if own.states):
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
    text = path.read_text().replace('name = "GRU"', 'name = "GRU"\nnote = "reset before"')
    path.write_text(text.replace('title = "Tiny"', 'title = "Tiny"\npaper = "ncgru"\nplace = "table 9"'))
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
    stored = tmp_path / "results" / "experiments" / "ncgru" / "tiny"
    assert sorted(own.name for own in stored.rglob("*.safetensors")) == []
    assert call(claims.main)[0] == 0
    page = (tmp_path / "docs" / "claims.md").read_text()
    assert "## NC-GRU (table 9): Tiny" in page
    glance = "| [NC-GRU, table 9](#nc-gru-table-9-tiny) | less | all: **too small to tell** |\n"
    assert glance in page[: page.index("## NC-GRU")]
    assert "\n* GRU: reset before\n" in page
    assert "| less | all | **too small to tell** |" in page
    assert "`python -m scripts.experiment run scripts/experiments/tiny.toml`; commit " in page
    table = call(experiment.main, "table", path, "--out", stored)[1]
    assert table.strip() in page
    assert "(../results/experiments/ncgru/tiny/curves.png)" in (tmp_path / "docs" / "gallery.md").read_text()
    assert call(claims.main, "--check")[0] == 0
    assert page.endswith("only says what they take.\n\nNothing.\n")
    shutil.rmtree(stored / "gru")
    assert call(claims.main, "--check")[0] == 1
    assert call(claims.main)[0] == 0
    row = "| [ncgru/tiny](../scripts/experiments/tiny.toml) | 1 of 2 | all: 1 of 2 |\n"
    assert (tmp_path / "docs" / "claims.md").read_text().endswith(row)


def test_only_what_is_not_stored(own_claims, tmp_path):
    """run --missing leaves out what results/ has, whatever is in OUT."""
    path, out = own_claims
    other = tmp_path / "other"
    run = ("run", path, "--missing", "--no-estimate", "--out", other)
    assert call(experiment.main, "store", path, "--out", out, "--row", "GRU")[0] == 0
    code, _, stderr = call(experiment.main, *run)
    assert (code, stderr.splitlines()[0]) == (0, f"Tiny: 1 runs, 0 of them done or failed; in {other}")
    assert [own.name for own in other.iterdir() if own.is_dir()] == ["nc-gru"]
    assert call(experiment.main, "store", path, "--out", other)[0] == 0
    code, _, stderr = call(experiment.main, *run)
    assert (code, stderr.splitlines()[0]) == (0, f"Tiny: 0 runs, 0 of them done or failed; in {other}")
    code, _, stderr = call(experiment.main, *run, "--scale", "0.5")
    assert (code, stderr) == (2, "error: missing looks at results/, where runs are at scale 1; scale is 0.5\n")


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
