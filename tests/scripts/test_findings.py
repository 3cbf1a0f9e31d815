"""docs/findings.md and docs/findings are what is written of the stored reports, and say no more than they do."""

import re

import pytest
from msgspec.structs import replace

from scripts.maintain import findings
from scripts.maintain.scoreboard import audit_toml, stored_reports
from scripts.maintain.scoreboard.page import convention, pages, rows_of, whose
from tests.scripts.runs import call

DOCS = audit_toml.ROOT / "docs"
SAID, HALF = "half; d_outputs is 0", [["mse-half"]]
FAILED = {"status": "failed", "error": 0.5, "missing": []}


@pytest.fixture(scope="module")
def whole():
    """audit.toml."""
    return audit_toml.read()


@pytest.fixture(scope="module")
def reports(whole):
    """What is stored, of maps too."""
    return {name: stored_reports.load(own) for name, own in whole.by_name.items()}


def test_the_pages_are_up_to_date(whole, reports):
    """No page is of nothing; every implementation is on the scoreboard, with its command and its versions."""
    found = pages(whole, reports)
    assert {f"findings/{path.name}" for path in (DOCS / "findings").glob("*.md")} | {"findings.md"} == {*found}
    for name, text in found.items():
        assert (DOCS / name).read_text() == text, name
    text = found["findings/scoreboard.md"]
    for name, own in whole.implementations.items():
        assert f'<a name="{name}"></a>' in text
        assert reports[name]["command"] in text
        assert all(version in text for version in reports[name]["versions"].values())
        assert own.source is None or own.source.commit in text
    for name in whole.maps:
        assert f'<a name="{name}"></a>' in text
        assert reports[name]["page"] in text


def test_every_finding_has_a_page_of_a_screen(whole, reports):
    """The first page leads to each; its links, and those of the first page, are to what is there."""
    found = pages(whole, reports)
    for own in whole.findings:
        assert f"](findings/{own.name}.md)" in found["findings.md"]
        assert len(found[f"findings/{own.name}.md"].splitlines()) < 30
    for name in re.findall(r"scoreboard\.md#([\w-]+)", "".join(found.values())):
        assert f'<a name="{name}"></a>' in found["findings/scoreboard.md"], name
    ready = set(re.findall(r"\(upstream/([\w-]+)\.md\)", found["findings.md"])) - {"README"}
    assert ready == {path.stem for path in (DOCS / "upstream").glob("*.md")} - {"README"}


def test_the_pages_have_no_path_of_a_machine(whole, reports):
    """Nor has what is stored."""
    for text in (
        *pages(whole, reports).values(),
        *((audit_toml.FOLDER / f"{name}.json").read_text() for name in reports),
    ):
        assert not re.search(r"/(?:tmp|home|root|work|usr)/", text)


def test_the_readme_counts_reports(whole):
    """As many reports, packages and repositories as the page."""
    packages, repositories = whose(whole.implementations.values())
    counts = f"{len(whole.implementations)} reports on {len(packages)} packages and {len(repositories)} repositories"
    assert counts in " ".join((audit_toml.ROOT / "README.md").read_text().split())
    assert "mlx" in packages
    assert "emucllari1/NC-GRU" in repositories


def test_there_is_no_report_of_nobody(whole):
    """Every file is of an implementation."""
    assert {path.stem for path in audit_toml.FOLDER.glob("*.json")} == {*whole.by_name}


def test_rows_count_every_case_once(whole, reports):
    """Passed, partial, departing and wrong are all there are."""
    for name, own in whole.implementations.items():
        rows = rows_of(own, reports[name])
        assert sum(row.passed + row.partial + row.departs + row.wrong for row in rows) == len(reports[name]["cases"])


def test_a_convention_is_a_name_that_is_declared(whole):
    """A pair departs where both are declared; what has no name, or one that is not, is wrong."""
    own = replace(whole.implementations["nc-gru-torch-as-paper"], conventions={"u-keeps": "", "reset-after": ""})
    case = FAILED | {"id": "cell/gru_reset_before/modrelu", "says": "..."}
    pair = [["u-keeps", "reset-after"]]
    assert convention(own, case | {"mistakes": pair}) == ("u-keeps", "reset-after")
    assert convention(own, case | {"mistakes": [["no-bias"], ["u-keeps"]]}) == ("u-keeps",)
    for mistakes in ([], [[]], [["u-keeps", "no-bias"]]):
        assert convention(own, case | {"mistakes": mistakes}) == ()
        (row,) = rows_of(own, {"cases": [case | {"mistakes": mistakes}]})
        assert (row.departs, row.wrong, row.says) == (0, 1, (("...", 1),))


@pytest.mark.parametrize("name", ["findings.md", "findings/scoreboard.md", "findings/peft-oft.md", "findings/older.md"])
def test_the_program_writes_the_pages_and_checks_them(name, monkeypatch, tmp_path):
    """Exit code 1 with --check for a page that is older, or of no finding; written again, it is right, or gone."""
    monkeypatch.setattr(findings, "ROOT", tmp_path)
    assert call(findings.main)[0] == 0
    assert call(findings.main, "--check")[0] == 0
    page = tmp_path / "docs" / name
    known = page.exists()
    page.write_text("older")
    code, _, error = call(findings.main, "--check")
    assert code == 1
    says = "not what" if known else "no page that"
    assert f"docs/{name} is {says} `python -m scripts.maintain.findings` writes" in error
    assert page.read_text() == "older"
    assert call(findings.main)[0] == 0
    assert call(findings.main, "--check")[0] == 0
    assert page.exists() == known


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('adapter = "torch_rnn"', 'adapter = "torch_rnm"', "adapter 'torch_rnm'"),
        ('cases = ["optimizer/*"]', 'cases = ["optimiser/*"]', "optimiser"),
        ('{ modrelu-goru = "', '{ modrelu-gorru = "', "there is no 'modrelu-gorru'"),
        ('implementations = ["edgeml"]', 'implementations = ["edgml"]', "there is no 'edgml'"),
        ('dtype = "float32"', 'dtype = "float16"', "float16"),
        ('upstream = ["keras-float64"]', 'upstream = ["keras-float46"]', "there is no 'keras-float46'"),
        ('page = "mlx-float64"', 'page = "keras-float64"', "called keras-float64"),
    ],
)
def test_a_mistake_in_the_file_is_said(old, new, says, tmp_path):
    """What it names is there."""
    text = audit_toml.FILE.read_text()
    assert old in text
    (tmp_path / "audit.toml").write_text(text.replace(old, new))
    with pytest.raises(ValueError, match=re.escape(says)):
        audit_toml.read(tmp_path / "audit.toml")


def test_a_report_of_another_command_is_refused(whole, reports, tmp_path):
    """audit.toml was changed, and nothing was run."""
    own = whole.implementations["torch-losses"]
    other = replace(own, cases=("loss/cross_entropy*",))
    with pytest.raises(ValueError, match="run it again"):
        stored_reports.load(other)


def test_what_is_stored_of_a_report(whole, tmp_path):
    """Of a case that passed its largest error; of one that failed what the kit says; nothing of the unsupported."""
    own = replace(whole.implementations["torch-losses"], name="own", packages=())
    fine, far = {"passed": True, "remark": "a remark"}, {"passed": False, "remark": "is 0"}
    outputs = {"loss": fine | {"error": 1e-16}, "d_outputs": fine | {"error": 3e-16}}
    wrong = {"loss": fine | {"error": 1e-16}, "d_outputs": far | {"error": None}}
    nothing = {"missing": [], "message": "", "mistakes": [], "diagnosis": "", "traceback": "a long one", "outputs": {}}
    cases = [
        nothing | {"id": "loss/a", "status": "passed", "outputs": outputs},
        nothing
        | {"id": "loss/b", "status": "failed", "mistakes": [["mse-half"]], "diagnosis": "half", "outputs": wrong},
        nothing | {"id": "loss/c", "status": "unsupported"},
    ]
    report = {"kit": "0", "dtype": "float64", "platform": {"system": "here"}, "vectors": {"version": "9.0"}}
    stored_reports.store(own, report | {"cases": cases}, tmp_path)
    assert stored_reports.load(own, tmp_path)["cases"] == [
        {"id": "loss/a", "status": "passed", "error": 3e-16},
        {"id": "loss/b", "status": "failed", "error": None, "mistakes": HALF, "says": SAID},
    ]
    with pytest.raises(ValueError, match="no case of"):
        stored_reports.store(own, report | {"cases": cases[2:]}, tmp_path)
