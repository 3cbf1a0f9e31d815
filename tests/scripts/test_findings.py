"""docs/findings.md is what its program writes of the stored reports, and says no more than they do."""

import re
import tomllib

import pytest
from msgspec.structs import replace

from scripts.maintain import findings
from scripts.maintain.scoreboard import audit_toml, stored_reports
from scripts.maintain.scoreboard.page import convention, page, rows_of, whose
from tests.scripts.runs import call

SAID, HALF = "half; d_outputs is 0", [["mse-half"]]
FAILED = {"status": "failed", "error": 0.5, "missing": []}


@pytest.fixture(scope="module")
def whole():
    """audit.toml."""
    return audit_toml.read()


@pytest.fixture(scope="module")
def reports(whole):
    """What is stored."""
    return {name: stored_reports.load(own) for name, own in whole.implementations.items()}


@pytest.fixture(scope="module")
def maps(whole):
    """What is stored of maps."""
    return {name: stored_reports.load(own) for name, own in whole.maps.items()}


def test_the_page_is_up_to_date(whole, reports, maps):
    """Every implementation is on it, with its command and its versions."""
    text = findings.PAGE.read_text()
    assert text == page(whole, reports, maps)
    for name, own in whole.implementations.items():
        assert f'<a name="{name}"></a>' in text
        assert reports[name]["command"] in text
        assert all(version in text for version in reports[name]["versions"].values())
        assert own.source is None or own.source.commit in text
    for name, report in maps.items():
        assert f'<a name="{name}"></a>' in text
        assert report["page"] in text


def test_the_page_has_no_path_of_a_machine(reports, maps):
    """Nor has what is stored."""
    for text in (
        findings.PAGE.read_text(),
        *((audit_toml.FOLDER / f"{name}.json").read_text() for name in reports | maps),
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
    assert {path.stem for path in audit_toml.FOLDER.glob("*.json")} == {*whole.implementations, *whole.maps}


def test_rows_count_every_case_once(whole, reports):
    """Passed, partial, departing and wrong are all there are."""
    for name, report in reports.items():
        rows = rows_of(whole.implementations[name], report)
        assert sum(row.passed + row.partial + row.departs + row.wrong for row in rows) == len(report["cases"])


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


def test_the_program_writes_the_page_and_checks_it(monkeypatch, tmp_path):
    """Exit code 1 with --check for a page that is older."""
    monkeypatch.setattr(findings, "PAGE", tmp_path / "findings.md")
    assert call(findings.main)[0] == 0
    assert call(findings.main, "--check")[0] == 0
    findings.PAGE.write_text("older")
    code, _, error = call(findings.main, "--check")
    assert code == 1
    assert "is not what `python -m scripts.maintain.findings` writes" in error
    assert findings.PAGE.read_text() == "older"


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('adapter = "torch_rnn"', 'adapter = "torch_rnm"', "adapter 'torch_rnm'"),
        ('cases = ["optimizer/*"]', 'cases = ["optimiser/*"]', "optimiser"),
        ('{ modrelu-goru = "', '{ modrelu-gorru = "', "there is no 'modrelu-gorru'"),
        ('implementations = ["edgeml"]', 'implementations = ["edgml"]', "there is no 'edgml'"),
        ('dtype = "float32"', 'dtype = "float16"', "float16"),
    ],
)
def test_a_mistake_in_the_file_is_said(old, new, says, tmp_path):
    """What it names is there."""
    text = audit_toml.FILE.read_text()
    assert old in text
    (tmp_path / "audit.toml").write_text(text.replace(old, new))
    with pytest.raises(ValueError, match=re.escape(says)):
        audit_toml.read(tmp_path / "audit.toml")
    assert tomllib.loads(text)


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
