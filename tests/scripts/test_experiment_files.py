"""The files of experiments: every one that is here can be run, and what is wrong with one is said with its line."""

import csv
import io
import json
import re
from pathlib import Path

import jsonschema
import pytest

from ortho_ref.training.run_folder import RunFolder
from scripts import experiment as program
from scripts.grid.config import config_of
from scripts.grid.experiment.cells import cells_of, given
from scripts.grid.experiment.file import LARGEST, Power, read
from scripts.grid.experiment.results import LINES
from scripts.grid.experiment.sessions import Session
from tasks import by_name
from tests.scripts.grids import tiny
from tests.scripts.runs import ROOT, call, refusal

FILES = sorted((ROOT / "scripts" / "experiments").rglob("*.toml"))
SMALL = """format = "ortho_ref experiment 1"
title = "Small"
seeds = [4, 7]
unit = 1e-3

[options]
task = "adding"
length = 8
lr = [1e-3, 1e-2]

[[column]]
name = "one"

[[row]]
name = "GRU"
options = { model = "gru", hidden = 3 }
paper.v1 = { one = 5 }

[[row]]
name = "NC-GRU, bare"
[row.options]
model = "nc-gru"
hidden = 6
order = 2
"""


@pytest.fixture
def small(tmp_path):
    """The file of a small experiment."""
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    return path


def kinds(experiment):
    """One cell of each line and column."""
    return {(cell.line, cell.column.name): cell for cell in reversed(cells_of(experiment))}.values()


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_file_can_be_run(path):
    """Each of its cells is a run of `train`, with no more lines of metrics than a stored run may have."""
    experiment = read(path)
    assert experiment.name == f"{path.parent.name}/{path.stem}" or experiment.paper is None
    for cell in kinds(experiment):
        options = given(cell, experiment, 1, {})
        if options["task"] not in by_name.GENERATED:  # a config is of data, which are not here
            continue
        config = config_of(**options)
        N = config["iterations"]
        lines = {
            *range(config["log_every"], N, config["log_every"]),
            *range(config["eval_every"], N, config["eval_every"]),
        }
        assert len(lines) + 1 <= LINES, cell.name
        for name, value in cell.options.items():
            if name == "model" and ".py:" in value:  # its folder is left out, and its hash follows
                assert config[name].startswith(value.rpartition("/")[2] + "#")
                continue
            assert config[name] == value or (name == "embedding" and not value)


def test_the_schema_for_editors_is_the_one_that_is_checked():
    """scripts/experiments/schema.json, by which JSON Schema's own checker takes every file too."""
    import tomllib

    code, stdout, stderr = call(program.main, "schema")
    assert (code, stderr) == (0, "")
    assert stdout == (ROOT / "scripts" / "experiments" / "schema.json").read_text()
    jsonschema.Draft202012Validator.check_schema(json.loads(stdout))
    validator = jsonschema.Draft202012Validator(json.loads(stdout))
    for path in FILES:
        assert path.read_text().startswith("#:schema "), path
        validator.validate(tomllib.loads(path.read_text()))


def test_options_of_a_row_in_one_column(tmp_path):
    """They hold there alone, before those of the row, which hold before those of the column."""
    path = tmp_path / "small.toml"
    more = 'name = "one"\noptions = { lr = 1e-4, batch = 2 }\n\n[[column]]\nname = "two"'
    path.write_text(
        SMALL.replace('name = "one"', more).replace("paper.v1", "in = { two = { lr = 5e-4, hidden = 4 } }\npaper.v1")
    )
    found = {(cell.line, cell.column.name): cell.options for cell in cells_of(read(path), seeds=[4])}
    assert {key: (own["lr"], own["hidden"]) for key, own in found.items()} == {
        ("GRU", "one"): (1e-4, 3),
        ("GRU", "two"): (5e-4, 4),
        ("NC-GRU, bare", "one"): (1e-4, 6),
        ("NC-GRU, bare, lr = 0.001", "two"): (1e-3, 6),
        ("NC-GRU, bare, lr = 0.01", "two"): (1e-2, 6),
    }


def test_every_option_of_a_run_is_in_the_schema():
    """And those that a grid sets are not."""
    from scripts.grid.options import OPTIONS

    schema = json.loads(call(program.main, "schema")[1])
    allowed = schema["$defs"]["Options"]["properties"]
    assert {"seed", "device"}.isdisjoint(allowed)
    assert set(allowed) == {"task", *(o.name for o in OPTIONS.values() if o.kept)} - {"seed", "device"}
    assert all(own["description"] == OPTIONS[name].help for name, own in allowed.items() if name != "task")


@pytest.mark.parametrize(
    ("before", "after", "line", "message"),
    [
        ("lr = [", "lrr = [", 9, "options has 'lrr' (did you mean 'lr'?); allowed: "),
        ("hidden = 3", "hiden = 3", 16, "row[0].options has 'hiden' (did you mean 'hidden'?)"),
        ("{ one = 5 }", "{ on = 5 }", 17, "row[0].paper.v1 names 'on' (did you mean 'one'?), which is no column"),
        ("paper.v1 =", "in = { on = { lr = 1 } }\npaper.v1 =", 17, "row[0].in names 'on' (did you mean 'one'?), which"),
        ("paper.v1 =", "in = { one = { lrr = 1 } }\npaper.v1 =", 17, "row[0].in.one has 'lrr' (did you mean 'lr'?); a"),
        ("hidden = 6", "hidden = true", 23, "row[1].options.hidden is True; allowed: a finite number or a text"),
        ("hidden = 6", 'hidden = "x"', 23, "hidden is 'x'; allowed: an integer, or one for each layer"),
        ("[4, 7]", "[4, -7]", 3, "seeds[1] is -7; allowed: an integer from 0"),
        ('name = "NC-GRU, bare"', 'name = "GRU"', 20, "row[1].name is 'GRU', as of another row"),
        ("title", "titel", 1, "the document has no title"),
        ('"GRU"', '"GRU\\u001b[31m"', 15, r"row[0].name is 'GRU\x1b[31m'; allowed: a text of one line"),
        ('"GRU"', '"a\\n| b"', 15, r"row[0].name is 'a\n| b'; allowed: a text of one line"),
        ('"one"', '"\\u202e"', 12, r"column[0].name is '\u202e'; allowed: a text of one line"),
        ('"adding"', '"addin"', 7, "options.task is 'addin' (did you mean 'adding'?); allowed: 'parenthesis', "),
        (
            "lr = [1e-3, ",
            'clip = ["\\u001b[31m"]\nlr = [',
            9,
            r"options.clip is '\x1b[31m'; allowed: a text of one line",
        ),
        (
            "lr = [",
            "batch = 0x" + "f" * 5000 + "\nlr = [",
            9,
            "options.batch is an integer of 20,000 bits; allowed: an ",
        ),
        ("lr = [", "batch = [[[[1]]]]\nlr = [", 9, "options.batch[0] is [[[...]]]; allowed: an integer from 0 to"),
        ("{ one = 5 }", "{ one = nan }", 17, "row[0].paper.v1.one is nan; allowed: a finite number or a list"),
        ("{ one = 5 }", "5", 17, "row[0].paper.v1 is 5; allowed: an object"),
        ("paper.v1", 'paper."v\\n1"', 17, r"row[0].paper.'v\n1' is 'v\n1'; allowed: a text of one line"),
        (
            "[options]",
            'shows = """\nunit = 0\nx = 1\n"""\nunti = 1\n[options]',
            10,
            "the document has 'unti' (did you mean 'unit'?)",
        ),
        *(
            ("unit = 1e-3", instead, line, message)
            for instead, line, message in (
                ("scale = { iteration = 1 }", 4, "scale has 'iteration' (did you mean 'iterations'?)"),
                ("scale = { lr = 1 }", 4, "scale has 'lr'; allowed: options that count something"),
                ("unit = 0", 4, "unit is 0; allowed: a finite number above 0"),
                ('metric = "correlation"', 4, "metric is 'correlation', which needs a measure of 'correlation'"),
                ('statistic = "maximum"', 4, "statistic is 'maximum'; of evaluation_loss less is better; "),
                ('metric = "within_0.04"\nstatistic = "minimum"', 5, "is 'minimum'; of within_0.04 more is better; "),
                ('statistic = "on_test"', 4, "statistic is 'on_test'; allowed: with a measure of 'on_test'"),
                ('metric = "accuracy"\nclaim = [{ text = "x", at_baseline = "GRU" }]', 5, "has at_baseline; allowed: "),
            )
        ),
        *(
            ("[[column]]", f'[[claim]]\ntext = "x"\n{claim}\n[[column]]', line, f"claim[0]{message}")
            for claim, line, message in (
                ('at_baseline = "GRU"\nmean_of_columns = true', 13, " has at_baseline and mean_of_columns; allowed: o"),
                ('at_baseline = "GRU"\ncolumns = ["one"]\nmean_of_columns = true', 14, " has columns and mean_of_col"),
                ('above = ["GRU", "LSTM"]', 13, ".above names 'LSTM'"),
                ('rows = ["GRU"]', 13, " has rows; allowed: with less_than or more_than alone"),
                ('above = ["GRU", "NC-GRU, bare"]\ntimes = 2', 14, " has times; allowed: with below or comparable"),
                ("less_than = 1\nto = 0.5", 14, " has to; allowed: with at_baseline or beats_baseline alone"),
                ('beats_baseline = "GRU"\nto = 5', 14, ".to is 5; allowed: a finite number from 0 to 1"),
                ('less_than = 1\nstatistic = "on_test"', 14, ".statistic is 'on_test'; allowed: with a measure"),
                ('at_baseline = "b"\n[[row]]\nname = "b"\nquoted = true', 13, ".at_baseline names 'b', which is no ro"),
            )
        ),
        ("[[column]]", '[[measure]]\nwhat = "on_test"\nafter = 3\n[[column]]', 11, "measure[0] has more than what; "),
    ],
)
def test_what_is_wrong_is_said_with_its_line(small, before, after, line, message):
    """File, line, what is there, what is allowed."""
    assert before in SMALL
    small.write_text(SMALL.replace(before, after, 1))
    stderr = refusal(program.main, "status", small)
    assert stderr.startswith(f"error: {small}, line {line}: ")
    assert message in stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"\xff", "is not UTF-8"),
        (b"a = ", "is not valid TOML"),
        (b"[[row]]\n[row]\n", "is not valid TOML"),
        (b"a = " + b"[" * 5000, "is nested too deep"),
        (b"a = " + b"9" * 5000, "cannot be read: Exceeds the limit"),
        (b"#" * (LARGEST + 1), "has 262,145 bytes; allowed: 262,144"),
    ],
)
def test_what_is_no_toml(small, text, message):
    """One line, whatever it is."""
    small.write_bytes(text)
    stderr = refusal(program.main, "status", small)
    assert f"error: {small} " in stderr
    assert message in stderr


def test_names_that_a_table_or_a_spreadsheet_would_read(small):
    """A bar ends no cell, a text is no formula, a reason commands no terminal; numbers stay numbers."""
    small.write_text(
        SMALL.replace('"GRU"', "\"=cmd|' /C calc'!A0\"")
        .replace('"one"', '"-a\\\\|"')
        .replace("one = 5", '"-a\\\\|" = -5')
    )
    out = small.parent / "runs"
    cell = cells_of(read(small))[0]
    with RunFolder(out / cell.folder, "w") as folder:
        Session(folder, None).end("failed", "killed \x1b[31m\n| by | it")
    overview, table, sheet = (
        call(program.main, *words, small, "--out", out)[1]
        for words in (["status"], ["table"], ["table", "--form", "csv"])
    )
    assert "\x1b" not in overview + table
    assert r"killed \x1b[31m | by | it" in table
    for text in (overview, table):
        lines = [line for line in text.splitlines() if line.startswith("|")]
        assert len({len(re.sub(r"\\.", "", line).split("|")) for line in lines}) == 1
        assert r"| =cmd\|' /C calc'!A0, lr = 0.001 | -a\\\| |" in text
    first = next(csv.DictReader(io.StringIO(sheet)))
    assert (first["row"], first["column"]) == ("'=cmd|' /C calc'!A0, lr = 0.001", "'-a\\|")
    assert first["paper: v1"] == "-5"


def test_cells_are_rows_times_columns_times_lists_times_seeds(small):
    """One seed after the other; each has a folder of its own, and the options that it says."""
    cells = cells_of(read(small))
    assert [cell.seed for cell in cells] == [4] * 4 + [7] * 4
    assert [cell.line for cell in cells[:4]] == [
        "GRU, lr = 0.001",
        "GRU, lr = 0.01",
        "NC-GRU, bare, lr = 0.001",
        "NC-GRU, bare, lr = 0.01",
    ]
    assert cells[1].folder == Path("gru-lr=0.01/one/seed-4")
    assert cells[1].options == {"task": "adding", "length": 8, "lr": 0.01, "model": "gru", "hidden": 3}
    assert len({cell.folder for cell in cells}) == 8
    assert [c.seed for c in cells_of(read(small), ["GRU"], seeds=[9])] == [9, 9]
    with pytest.raises(ValueError, match=r"row is 'GRUU' \(did you mean 'GRU'\?\); allowed: GRU; NC-GRU, bare"):
        cells_of(read(small), ["GRUU"])


def test_sizes_of_several_layers_are_one_value(small):
    """A text of them is no axis; a list of texts is one of sizes by layer."""
    small.write_text(SMALL.replace("hidden = 3", 'hidden = ["3,4", 5]'))
    cells = cells_of(read(small), ["GRU"], seeds=[0])
    assert {str(cell.options["hidden"]) for cell in cells} == {"[3, 4]", "5"}
    small.write_text(SMALL.replace("hidden = 3", 'hidden = "3,4"'))
    assert [cell.options["hidden"] for cell in cells_of(read(small), ["GRU"], seeds=[0])] == [[3, 4]] * 2


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('"NC-GRU, bare"', '"gru"', "would be in one folder"),  # names that differ in nothing that a folder's has
        ('task = "adding"', "", "small.toml: GRU, one has no task"),
        ("[1e-3, 1e-2]", f"[1, 2, 3]\nbatch = {[*range(1, 1001)]}", "small.toml has 12000 runs; allowed: 10,000"),
    ],
)
def test_cells_that_cannot_be(small, before, after, message):
    """Two of one folder; one without a task, which may be a list."""
    small.write_text(SMALL.replace(before, after))
    with pytest.raises(ValueError, match=message):
        cells_of(read(small))


def test_a_scale_shrinks_what_the_file_says(small):
    """Each option by its power of S, no less than its least; what follows updates follows them."""
    small.write_text(
        SMALL.replace(
            "[options]",
            "[scale]\niterations = 1\nlength = { power = 0.5, least = 3 }\n"
            "hidden = { power = 1, power_of_two = true }\nnegative_ones = 0.5\n"
            '[options]\niterations = 1000\nschedule = "step:500:0.1"\neval_every = 700\nlog_every = 90\n',
        )
    )
    experiment = read(small)
    assert experiment.scaling["length"] == Power(0.5, 3)
    cell = cells_of(experiment)[-1]
    own = given(cell, experiment, 0.25, {})
    assert (own["iterations"], own["length"], own["hidden"]) == (250, 4, 2)  # 6 / 4 = 1.5, rounded to 2
    for its, ours in ((3, 2), (0, 0), ([4, 0], [2, 0])):
        options = cell.options | {"negative_ones": its} | ({"hidden": [6, 8]} if isinstance(its, list) else {})
        assert given(cell._replace(options=options), experiment, 0.25, {})["negative_ones"] == ours
    assert own["negative_ones"] == 2  # of the model's own, 6 / 2
    assert (own["eval_every"], own["log_every"], own["schedule"]) == (25, 3, "step:125:0.1")
    assert given(cell, experiment, 1, {}) == cell.options | {"seed": 7}
    assert given(cell, experiment, 0.01, {})["length"] == 3


def test_of_a_metric_of_which_more_is_better_the_maximum_is_shown(tmp_path):
    """Unless another statistic is asked for."""
    path = tiny(tmp_path)
    text = path.read_text()
    for more, statistic in (
        ("", "minimum"),
        ('metric = "accuracy"\n', "maximum"),
        ('metric = "perplexity"\n', "minimum"),
    ):
        path.write_text(text.replace("seeds =", f"{more}seeds ="))
        assert read(path).statistic == statistic
