"""A table of one's own through the programs."""

import csv
import json

import numpy as np
import pytest

from ortho_ref.training.run_folder import RunFolder
from ortho_ref.training.runs import load
from scripts import bounds, evaluate, train
from scripts.pictures.runs import drawn
from tasks.arrays import FileArrays
from tests.scripts import grids
from tests.scripts.runs import call, refusal

RNG = np.random.default_rng(0)
SMALL = ["--iterations", 4, "--hidden", 5, "--batch", 3, "--eval-every", 2]
STEPS = [(s, t) for s in range(12) for t in range(3 + s % 2)]
ROWS = [(f"s{s}", ["up", "down"][s % 2], 300 + 50 * RNG.standard_normal(), t - s) for s, t in STEPS]


@pytest.fixture
def table(tmp_path):
    """Twelve sequences of two classes."""
    with (tmp_path / "own.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows([("who", "way", "kW", "y"), *ROWS])
    return tmp_path / "own.csv"


def test_classes(table, tmp_path):
    """Trained, said what was found, evaluated; a line for each held-out sequence, with what the weights say of it."""
    options = ["--data", table, "--sequence", "who", "--target", "way"]
    code, _, err = call(train.main, "arrays", *options, "--out", tmp_path / "run", *SMALL)
    assert code == 0, err
    assert "note: y has 2 classes, 'down' to 'up'; the largest is 50%" in err
    code, out, err = call(
        evaluate.main, tmp_path / "run", "--data", table, "--predictions", tmp_path / "said.csv", "--which", "last"
    )
    assert code == 0, err
    with (tmp_path / "said.csv").open(newline="") as stream:
        header, *lines = csv.reader(stream)
    assert header == ["sequence", "way", "way, predicted"]
    task = FileArrays(table, sequence="who", target="way")
    (batch,) = task.evaluation()
    with RunFolder(tmp_path / "run") as run:
        network, params, buffers = load(run, "last")
    said = network.forward(params, buffers, batch.x).outputs.argmax(axis=-1)
    assert lines == [[id, task.labels[y], task.labels[own]] for id, y, own in zip(task.ids, batch.y, said, strict=True)]
    ways = {row[0]: row[1] for row in ROWS}  # by which one finds them in the file
    assert {id: way for id, way, _ in lines} == {id: ways[id] for id in task.ids}
    by_class = np.array([line.split()[1:] for line in out.splitlines()[2:4]], int)
    assert by_class.tolist() == [[int(((batch.y == i) & (said == j)).sum()) for j in (0, 1)] for i in (0, 1)]
    into = [tmp_path / "run", "--data", table, "--json", "--predictions"]
    assert json.loads(call(evaluate.main, *into, tmp_path / "again.csv")[1])["accuracy"] >= 0
    before = table.read_bytes()
    for there in (table, tmp_path / "again.csv"):
        said = f"error: --predictions is {there}, which exists; allowed: a new file\n"
        assert refusal(evaluate.main, *into, there) == said
    assert table.read_bytes() == before
    (own,) = drawn([tmp_path / "run"])
    assert own.column == "arrays: way"


@pytest.mark.parametrize("others", [[], ["--dtype", "float64"], ["--scale", "none"]])
def test_numbers_in_the_units_of_the_file(table, tmp_path, others):
    """A line for each step that there is; y is what the file has, whatever the precision of its x and the weights'."""
    options = ["--data", table, "--sequence", "who", "--target", "kW", *others]
    with table.open(newline="") as stream:
        rows = [row[:1] + row[2:] for row in csv.reader(stream)]
    with table.open("w", newline="") as stream:
        csv.writer(stream).writerows(rows)
    assert call(train.main, "arrays", *options, "--out", tmp_path / "run", *SMALL)[0] == 0
    assert call(evaluate.main, tmp_path / "run", "--data", table, "--predictions", tmp_path / "said.csv")[0] == 0
    with (tmp_path / "said.csv").open(newline="") as stream:
        header, *lines = csv.reader(stream)
    assert header == ["sequence", "step", "kW", "kW, predicted"]
    lengths = {}
    for sequence, step, y, _ in lines:
        lengths[sequence] = int(step)
        assert min(abs(float(y) - row[2]) for row in ROWS) < 1e-4
    assert len(lines) == sum(lengths.values())
    assert set(lengths.values()) <= {3, 4}


def test_a_file_that_is_held_out(table, tmp_path):
    """Trained beside it, gone on with, evaluated on it; with other contents, or without it, the run does not go on."""
    there, out = tmp_path / "others.csv", tmp_path / "run"
    header, *lines = table.read_text().splitlines()
    there.write_text("\n".join([header, *lines[:10]]))
    both = ["--data", table, "--held-out", there]
    begun = call(train.main, "arrays", *both, "--sequence", "who", "--target", "way", "--out", out, *SMALL)
    assert begun[0] == 0, begun
    assert f"12 sequences of 4 steps at most are trained on; 3 of {there} are held out" in begun[2]
    assert call(train.main, "arrays", *both, "--out", out, "--resume", "--iterations", 6)[0] == 0
    assert (
        FileArrays(table, held_out=table, sequence="who", target="way").notes[0].endswith("are held out, the same ones")
    )
    code, _, err = call(evaluate.main, out, *both, "--predictions", tmp_path / "said.csv")
    assert code == 0, err
    assert len((tmp_path / "said.csv").read_text().splitlines()) == 4
    call(bounds.main, out, *both)
    assert (out / "bounds.png").exists()
    for program in ((train.main, "arrays", "--resume", "--out", out), (evaluate.main, out)):
        told = refusal(*program, "--data", table)
        assert told.startswith(f"error: data is {table}, which is not what the run in {out} began with: held out, tr")
    there.write_text("\n".join([header, *lines[:9]]))
    told = refusal(train.main, "arrays", *both, "--out", out, "--resume")
    of = f"data is {table}, held_out is {there}"
    assert told.startswith(f"error: {of}, which is not what the run in {out} began with: held out")
    told = refusal(train.main, "adding", "--held-out", there, "--out", tmp_path / "b")
    assert told.startswith("error: --held-out is for arrays; adding has none")


GRID = """format = "ortho_ref experiment 1"
title = "Own"
metric = "accuracy"

[options]
task = "arrays"
sequence = "who"
target = "way"
batch = 3
hidden = 4
iterations = 2

[[row]]
name = "GRU"
options = { model = "gru" }
"""


def test_a_grid_beside_a_file_that_is_held_out(table, tmp_path):
    """Each of its runs is evaluated on that file; one that is not there is said before anything is run."""
    grid, there, out = tmp_path / "grid.toml", tmp_path / "others.csv", tmp_path / "runs"
    grid.write_text(GRID)
    order = ["run", grid, "--data", table, "--held-out", there, "--seeds", 1, "--out", out]
    told = grids.run(*order)[2]
    assert told.splitlines() == [f"error: held_out is {there}, which is not there"]
    there.write_text(table.read_text())
    assert grids.run(*order)[0] == 0
    (config,) = (json.loads(path.read_text()) for path in out.glob("**/config.json"))
    parts = config["data"]["sha256"]
    assert (config["share"], parts["held out"]) == (None, parts["trained on"])


def test_what_is_refused(table, tmp_path):
    """Other data on resume, a target that the file does not have, and predictions of a task without examples."""
    options = ["--data", table, "--sequence", "who", "--target", "way"]
    assert call(train.main, "arrays", *options, "--out", tmp_path / "run", *SMALL)[0] == 0
    table.write_text(table.read_text().replace("s3,down,", "s3,down,1"))
    told = refusal(train.main, "arrays", "--data", table, "--out", tmp_path / "run", "--resume")
    assert told.startswith(f"error: data is {table}, which is not what the run in {tmp_path / 'run'} began with")
    assert "target is 'wy'" in refusal(train.main, "arrays", "--data", table, "--target", "wy", "--out", tmp_path / "b")
    assert call(train.main, "adding", "--length", 5, "--out", tmp_path / "adding", *SMALL)[0] == 0
    told = refusal(evaluate.main, tmp_path / "adding", "--predictions", tmp_path / "c.csv")
    assert told.startswith("error: --predictions is for tasks of examples; adding has windows or draws its sequences")
    assert not (tmp_path / "c.csv").exists()
