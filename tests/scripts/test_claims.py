"""docs/claims.md and its curves are what the stored runs say; and a page of made-up runs says what it must."""

import itertools
import shutil

import pytest

from ortho_ref.training.run_folder import METRICS_FILE, RunFolder
from scripts import experiment
from scripts.grid.experiment import results
from scripts.grid.experiment.results import Results, read_runs
from scripts.grid.experiment.sessions import SESSIONS, Session
from scripts.grid.experiment.states import by_line
from scripts.maintain import claims
from tests.scripts.grids import run, tiny
from tests.scripts.runs import ROOT, call, refusal


def test_the_page_is_what_the_runs_say():
    """`python -m scripts.maintain.claims` would write the same; each picture is of the table that stands there; the
    seeds of a line, which are compared with each other, are of one engine."""
    assert call(claims.main, "--check") == (0, "", "")
    for own in (own for own in claims.stored(Results(claims.ROOT)) if own.states):
        assert f"<rdf:li>{own.drawn}</rdf:li>" in own.picture.read_text(), own.picture
        page = ROOT / "docs" / own.address
        assert f"![{own.experiment.title}](../../{own.picture.relative_to(ROOT)})" in page.read_text()
        for line, states in by_line(own.states).items():
            assert len({state.config.get("engine") or "fused" for state in states}) == 1, (own.page, line)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A checkout of one small experiment, with its two runs."""
    folder = tmp_path_factory.mktemp("checkout")
    files = folder / "scripts" / "experiments"
    files.mkdir(parents=True)
    (folder / "docs").mkdir()
    path = tiny(files, seeds=1, iterations=3, more='[[claim]]\ntext = "less"\nbelow = ["GRU", "NC-GRU"]\n')
    text = path.read_text().replace('name = "GRU"', 'name = "GRU"\nnote = "reset before"')
    path.write_text(text.replace('title = "Tiny"', 'title = "Tiny"\npaper = "ncgru"\nplace = "table 9"'))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(experiment, "ROOT", folder)
        assert run("run", path, "--out", folder / "runs")[0] == 0
    return folder


@pytest.fixture
def own_claims(checkout, tmp_path, monkeypatch):
    """The programs on a copy of it: its file, its runs."""
    shutil.copytree(checkout, tmp_path, dirs_exist_ok=True)
    for module in (claims, experiment):
        monkeypatch.setattr(module, "ROOT", tmp_path)
    return tmp_path / "scripts" / "experiments" / "tiny.toml", tmp_path / "runs"


def test_stored_and_written(own_claims, tmp_path):
    """The page has table, claim and commit, the gallery its curves; what is stored stays."""
    path, out = own_claims
    assert call(claims.main, "--check")[0] == 1
    code, _, stderr = call(experiment.main, "store", path, "--out", out)
    assert (code, stderr) == (0, "GRU; all; seed 0: stored\nNC-GRU; all; seed 0: stored\n")
    assert call(experiment.main, "store", path, "--out", out) == (0, "", "")
    stored = tmp_path / "results" / "experiments" / "ncgru" / "tiny.jsonl"
    assert [own.name for own in stored.parent.iterdir()] == ["tiny.jsonl"]
    assert call(claims.main)[0] == 0
    first, own = tmp_path / "docs" / "claims.md", tmp_path / "docs" / "claims" / "ncgru-tiny.md"
    page, of_it = first.read_text(), own.read_text()
    assert page.startswith("# Which claims of the papers hold\n\nThe papers' claims make 1 comparison")
    assert "So far 2 of 2 runs are done" in page
    assert "| [table 9](claims/ncgru-tiny.md) | less | all | GRU | " in page
    assert " | 1 | undecided, 1 of 3 seeds |\n" in page
    assert of_it.startswith("# NC-GRU, table 9: Tiny\n\n![Tiny](../../results/experiments/ncgru/tiny.svg)\n\n")
    assert "\n* GRU: reset before\n" in of_it
    assert "| less | all | GRU | NC-GRU | " in of_it
    assert "`python -m scripts.experiment run scripts/experiments/tiny.toml`; commit " in of_it
    table = call(experiment.main, "table", path, "--stored")[1]
    numbers, verdicts = table.strip().split("\n\nRatios")
    assert numbers in of_it
    assert f"\n\nRatios{verdicts}\n\n" in of_it
    caption = "*The loss never falls below 0.95 of the baseline for any line.*\n"
    assert f"tiny.svg)\n\n{caption}" in of_it
    assert f"(../results/experiments/ncgru/tiny.svg)\n\n{caption}" in (tmp_path / "docs" / "gallery.md").read_text()
    assert call(claims.main, "--check")[0] == 0
    assert page.endswith("only says what they take.\n\nNothing.\n")
    own.write_text(of_it + "x")
    assert call(claims.main, "--check")[0] == 1
    own.write_text(of_it)
    (extra := own.with_name("extra.md")).write_text("")
    assert call(claims.main, "--check")[0] == 1
    stored.write_bytes(stored.read_bytes().splitlines(keepends=True)[1])
    assert call(claims.main, "--check")[0] == 1
    assert call(claims.main)[0] == 0
    assert not extra.exists()
    row = "| [ncgru/tiny](../scripts/experiments/tiny.toml) | 1 of 2 | all: 1 of 2 |\n"
    assert (tmp_path / "docs" / "claims.md").read_text().endswith(row)


@pytest.mark.parametrize("name", [SESSIONS, METRICS_FILE])
def test_a_damaged_run_is_not_stored(own_claims, tmp_path, name):
    """It is said, also where it diverged first, and the others are stored."""
    path, out = own_claims
    damaged = out / "gru" / "all" / "seed-0"
    with RunFolder(damaged, "a") as folder:
        Session(folder, "c" * 40).end("diverged", "the loss is nan")
    (damaged / name).write_text("{\n{}\n")
    code, _, stderr = call(experiment.main, "store", path, "--out", out)
    assert code == 0
    assert stderr.startswith("NC-GRU; all; seed 0: stored\nGRU; all; seed 0: not stored, as it failed: ")
    stored = tmp_path / "results" / "experiments" / "ncgru" / "tiny.jsonl"
    assert list(read_runs(stored)) == [("NC-GRU", "all", 0)]


def test_only_what_is_not_stored(own_claims, tmp_path):
    """run --missing leaves out what results/ has, whatever is in OUT."""
    path, out = own_claims
    other = tmp_path / "other"
    missing = ("run", path, "--missing", "--out", other)
    assert call(experiment.main, "store", path, "--out", out, "--row", "GRU")[0] == 0
    code, _, stderr = run(*missing)
    assert (code, stderr.splitlines()[0]) == (0, f"Tiny: 1 runs, 0 of them done or failed; in {other}")
    assert [own.name for own in other.iterdir() if own.is_dir()] == ["nc-gru"]
    with RunFolder(other / "nc-gru" / "all" / "seed-0") as folder:
        assert folder.config["engine"] == "compiled"  # of another row none is stored: auto
    assert call(experiment.main, "store", path, "--out", other)[0] == 0
    code, _, stderr = run(*missing)
    assert (code, stderr.splitlines()[0]) == (0, f"Tiny: 0 runs, 0 of them done or failed; in {other}")


def test_a_line_in_its_place(own_claims, tmp_path):
    """In the table's order, whatever was stored first; one that measured more takes the place of another."""
    path, out = own_claims
    stored, keys = (
        tmp_path / "results" / "experiments" / "ncgru" / "tiny.jsonl",
        [("GRU", "all", 0), ("NC-GRU", "all", 0)],
    )
    for more, there in ((("--row", "NC-GRU"), keys[1:]), ((), keys)):
        assert call(experiment.main, "store", path, "--out", out, *more)[0] == 0
        assert list(read_runs(stored)) == there
    before = stored.read_bytes()
    path.write_text(f'{path.read_text()}\n[[measure]]\nwhat = "correlation"\n')
    other = tmp_path / "other"
    assert run("run", path, "--out", other, "--row", "GRU")[0] == 0
    assert call(experiment.main, "store", path, "--out", other) == (0, "", "GRU; all; seed 0: stored\n")
    runs = read_runs(stored)
    assert list(runs) == keys
    assert [own["what"] for own in runs[keys[0]].run["measured"]] == ["correlation"]
    assert stored.read_bytes().splitlines()[1] == before.splitlines()[1]


def test_what_is_not_stored(own_claims, tmp_path, monkeypatch):
    """Smaller runs, files from elsewhere, runs of too many lines."""
    path, out = own_claims
    other = shutil.copy(path, tmp_path / "tiny.toml")
    none = tmp_path / "none"
    for what, arguments in itertools.product(("store", "--missing"), ([path, "--scale", "0.5"], [other])):
        action = ["store"] if what == "store" else ["run", what]
        code, _, stderr = run(*action, *arguments, "--out", none)
        assert (code, stderr) == (2, f"error: {what} is for files in scripts/experiments, at scale 1\n")
    monkeypatch.setattr(results, "LINES", 0)
    stderr = refusal(experiment.main, "store", path, "--out", out)
    assert "lines of metrics; allowed: 0; log less often" in stderr


def test_a_run_that_two_files_have(own_claims, tmp_path, monkeypatch):
    """Stored for one of them it counts for the other: its page, and --missing; not where more is to be measured."""
    path, out = own_claims
    assert call(experiment.main, "store", path, "--out", out)[0] == 0
    text = path.read_text().replace('title = "Tiny"', 'title = "Again"').replace('"GRU"', '"a GRU"')
    again, measured = path.with_name("again.toml"), path.with_name("measured.toml")
    again.write_text(text.replace("hidden = 4\n", "").replace('model = "gru"', 'model = "gru", hidden = 4'))
    measured.write_text(f'{text}\n[[measure]]\nwhat = "correlation"\n')
    monkeypatch.setattr(experiment, "say_estimates", lambda *arguments: None)
    for file, missing in ((again, 1), (measured, 2)):
        _, _, stderr = call(experiment.main, "run", file, "--missing", "--dry-run", "--out", tmp_path / "none")
        assert stderr.startswith(f"Again: {missing} runs, 0 of them done or failed; in ")
    assert call(claims.main)[0] == 0
    page = (tmp_path / "docs" / "claims.md").read_text()
    of_it = (tmp_path / "docs" / "claims" / "ncgru-again.md").read_text()
    assert "| a GRU | all | 1 | **" in of_it
    assert "; some of the runs, or all, are those of [ncgru/tiny](ncgru-tiny.md).\n" in of_it
    assert "| [ncgru/again](../scripts/experiments/again.toml) | 1 of 2 | all: 1 of 2 |\n" in page
    assert "| [ncgru/measured](../scripts/experiments/measured.toml) | 0 of 2 |  |\n" in page


def test_a_run_that_diverged_is_a_result(own_claims, tmp_path):
    """It is stored, the page names it, it is worse than the rival's; --missing does not begin it again."""
    path, _ = own_claims
    text = path.read_text().replace("seeds = 1", "seeds = 3")
    path.write_text(text.replace('model = "gru"', 'model = "gru", lr = 1e300'))
    out = tmp_path / "other"
    assert run("run", path, "--out", out)[0] == 1
    code, _, stderr = call(experiment.main, "store", path, "--out", out)
    assert (code, stderr.count(": stored\n")) == (0, 6)
    assert call(experiment.main, "store", path, "--out", out) == (0, "", "")
    assert call(claims.main)[0] == 0
    page = (tmp_path / "docs" / "claims" / "ncgru-tiny.md").read_text()
    assert "| GRU | all | 0 of 3, 3 failed | " in page
    assert "\nFailed:\n\n* GRU, all, seed 0: " in page
    assert "| less | all | GRU | NC-GRU | inf | inf | inf | **not reproduced** (n = 3, none agrees) |" in page
    _, _, stderr = run("run", path, "--missing", "--out", tmp_path / "none")
    assert stderr.startswith("Tiny: 0 runs, ")


def test_a_file_that_was_changed_since(own_claims):
    """The page is not written from runs that its file does not tell any more."""
    path, out = own_claims
    assert call(experiment.main, "store", path, "--out", out)[0] == 0
    path.write_text(path.read_text().replace("hidden = 4", "hidden = 5"))
    stderr = refusal(claims.main)
    assert "hidden is 5; the run in " in stderr
    assert "has 4: the file was changed since; choose another --out, or remove that run" in stderr
