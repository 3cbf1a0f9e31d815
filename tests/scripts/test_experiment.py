"""`python -m scripts.experiment`: grids that are killed, that fail in part, on a cluster; their tables and curves."""

import contextlib
import csv
import errno
import functools
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from msgspec.structs import replace

from ortho_ref import files, models
from ortho_ref.network import Network
from ortho_ref.training.runs import Loaded, load
from ortho_ref.training.task import Batch
from scripts import evaluate, experiment as program, train
from scripts.grid.experiment import engine, measures, sessions, watched, worker
from scripts.grid.experiment.cells import cells_of
from scripts.grid.experiment.claims import MEAN, OPEN, comparisons_of
from scripts.grid.experiment.file import read
from scripts.grid.experiment.grid import Grid, orders_of
from scripts.grid.experiment.states import State, overview, seconds_left, states_of
from scripts.grid.experiment.table import as_json, lines_of, markdown, with_spread
from scripts.grid.experiment.worker import STOPPED, command
from scripts.pictures import curves
from scripts.pictures.caption import caption
from tasks.adding import Adding
from tests.line import PATIENCE
from tests.ortho_ref.training.reading import read_config, read_metrics, read_summary, write_config
from tests.scripts.grids import (
    Cluster,
    bits,
    children,
    folders,
    kill_at_random,
    process,
    read_measured,
    read_sessions,
    run,
    table_of,
    tiny,
)
from tests.scripts.runs import ROOT, call, refusal


@pytest.fixture(scope="module")
def grid(tmp_path_factory):
    """A grid of four runs that was left alone, by programs that were started: its file, its folder."""
    folder = tmp_path_factory.mktemp("grid")
    path = tiny(folder)
    code, stdout, stderr = run("run", path, "--out", folder / "runs", "--jobs", 2, "--no-estimate", real=True)
    assert (code, stdout) == (0, ""), stderr
    assert "4 of 4 runs are done" in stderr
    return path, folder / "runs"


@pytest.fixture
def figures(monkeypatch):
    """What is drawn, instead of its files; each has that file's name as its label."""
    found = []

    def save(figure, picture, about=None):
        figure.set_label(picture.name)
        found.append(figure)

    monkeypatch.setattr(curves, "save", save)
    yield found
    for figure in found:
        curves.plt.close(figure)


def test_a_run_of_a_grid_is_a_run_of_train(grid, tmp_path):
    """To the bit; its config says of which grid, row, column, scale and commit it is."""
    _, out = grid
    own = out / "nc-gru" / "all" / "seed-1"
    options = "--model nc-gru --length 6 --batch 4 --hidden 4 --iterations 10 --eval-every 10 --log-every 5 --seed 1"
    assert call(train.main, "adding", *options.split(), "--out", tmp_path / "a")[0] == 0
    assert bits(tmp_path)["a"] == bits(own)["."]
    mark = read_config(own)["experiment"]
    assert mark == {"name": "tiny", "row": "NC-GRU", "column": "all", "scale": 1.0, "commit": sessions.commit()}
    (session,) = read_sessions(own)
    assert session["end"] == "done"
    assert session["cpu_seconds"] > 0
    assert session["peak_bytes"] > 0


def test_what_is_done_is_skipped(grid):
    """Nothing of it is touched."""
    path, out = grid
    before = {file: file.stat().st_mtime_ns for file in out.rglob("*") if file.name != "lock"}
    code, _, stderr = call(program.main, "run", path, "--out", out)
    assert code == 0
    assert "4 runs, 4 of them done or failed" in stderr
    assert {file: file.stat().st_mtime_ns for file in out.rglob("*") if file.name != "lock"} == before


def test_the_table_has_the_summaries(grid):
    """Mean and deviation over the seeds, of two both; the paper's numbers; in three forms; the state of each run."""
    path, out = grid
    summaries = [read_summary(out / "gru" / "all" / f"seed-{k}") for k in range(2)]
    least = [own["evaluation_loss"]["minimum"] for own in summaries]
    code, stdout, _ = call(program.main, "table", path, "--out", out, "--form", "json")
    assert code == 0
    gru, nc_gru = json.loads(stdout)
    assert gru["values"]["minimum"] == least
    assert gru["minimum_mean"] == np.mean(least)
    assert gru["minimum_sd"] == pytest.approx(np.std(least, ddof=1))
    assert (gru["paper: v1"], gru["paper: v2"], gru["paper: v2, sd"]) == (0.1, 0.2, 0.01)
    assert (gru["parameters"], gru["wanted"], gru["failed"]) == (summaries[0]["parameters"], 2, 0)
    assert nc_gru["others: a README"] == 0.3
    rows = list(csv.DictReader(io.StringIO(call(program.main, "table", path, "--out", out, "--form", "csv")[1])))
    assert [float(row["minimum_mean"]) for row in rows] == [gru["minimum_mean"], nc_gru["minimum_mean"]]
    text = call(program.main, "table", path, "--out", out)[1]
    assert f"| GRU | all | 2 | **{least[0]:.4g}, {least[1]:.4g}** |" in text
    assert with_spread([1, 2, 4]) == "2.333 ± 1.528"
    assert "| paper v1 | paper v2 | a README |" in text
    assert text.startswith("Tiny: evaluation loss; scale 1.\n")
    experiment = replace(read(path), metric="loss")
    losses = [record["loss"] for record in read_metrics(out / "gru" / "all" / "seed-0")]
    first = lines_of(experiment, states_of(cells_of(experiment), out))[0]
    expected = {"minimum": min(losses), "maximum": max(losses), "final": losses[-1]}
    expected["median_of_last_20"] = np.median(losses[-20:])
    assert {name: values[0] for name, values in first.values.items()} == expected
    assert "4 of 4 runs done; time left: none" in call(program.main, "status", path, "--out", out)[1]


def test_the_curves_are_the_metrics(grid, tmp_path):
    """The mean over the seeds at every evaluation, the band from the least to the largest; a panel for the metric."""
    path, out = grid
    states = states_of(cells_of(read(path)), out)
    runs = [state.records for state in states if state.cell.line == "GRU"]
    curve = curves.curve_of("GRU", 3, runs, "evaluation_loss")
    values = [[line["evaluation_loss"] for line in records if "evaluation_loss" in line] for records in runs]
    np.testing.assert_array_equal(curve.mean, np.mean(values, axis=0))
    np.testing.assert_array_equal(curve.low, np.min(values, axis=0))
    np.testing.assert_array_equal(curve.high, np.max(values, axis=0))
    assert curves.curve_of("GRU", 3, runs, "perplexity") is None
    picture = tmp_path / "a.png"
    code, _, stderr = call(program.main, "plot", path, "--out", out, "--picture", picture)
    assert (code, stderr) == (0, f"{picture}\n")
    assert picture.read_bytes().startswith(b"\x89PNG")
    code, _, stderr = call(program.main, "plot", path, "--out", out, "--picture", "a.jpg")
    assert (code, stderr) == (2, "error: picture is a.jpg; allowed: a name that ends in .png, .pdf or .svg\n")


def test_a_picture_says_its_units_and_how_many_seeds(grid, tmp_path, figures):
    """A unit beside the first of the panels that have it, its column's name above; of each curve's seeds the fewest and
    the most; a column that the file does not name has no title."""
    path, out = grid
    states = states_of(cells_of(read(path)), out)
    for some in (states, states[:-1], states[:1]):
        curves.draw_experiment(read(path), some, 1, tmp_path / "x.png")
    losses = {"T = 6": "cross_entropy", "all": "cross_entropy", "c": "mean_squared_error"}
    drawn = [
        curves.Drawn("GRU", column, states[0].records, {"baseline": 1 / 6, "network": {"loss": loss}})
        for column, loss in losses.items()
    ]
    curves.draw_runs(drawn, ["evaluation_loss"], "title", tmp_path / "x.png")
    for one in drawn[:2]:
        curves.draw_runs([one], ["evaluation_loss"], "title", tmp_path / "x.png")
    titles = [figure.get_suptitle() for figure in figures[:3]]
    assert [title.partition(" (")[2] for title in titles] == [
        "mean of 2 seeds, band from least to largest)",
        "mean of 1 to 2 seeds, band from least to largest)",
        "one seed, 1 of 2 rows)",
    ]
    units = [axis.get_ylabel() for axis in figures[3].axes]
    assert units == ["held-out loss (nats)", "", "held-out squared error"]
    assert [figure.axes[0].get_title() for figure in figures[4:]] == ["T = 6", ""]
    assert figures[4].axes[0].get_legend_handles_labels()[1] == ["GRU", "baseline"]


@pytest.mark.parametrize(
    ("losses", "scale", "said"),
    [
        ([1.0, 0.09], "log", []),
        ([1.0, 0.11], "linear", []),
        ([1.0, 1e-2, 0.0], "log", ["what is smaller, down to 0, is not drawn"]),
        ([1.0, 0.5, 0.0], "linear", []),
        ([1.0, -1.0, 1e-2], "linear", []),
        ([2.0, 1e-2, 1e-12], "log", ["what is smaller, down to 0, is not drawn"]),  # float32's rounding
    ],
)
def test_decades_of_losses(tmp_path, figures, losses, scale, said):
    """The axis of losses that span a decade is logarithmic; six decades below the largest it ends, and says so."""
    records = [{"iteration": k, "evaluation_loss": loss} for k, loss in enumerate(losses)]
    curves.draw_runs([curves.Drawn("a", "x", records)], ["evaluation_loss"], "title", tmp_path / "x.png")
    (axis,) = figures[0].axes
    assert axis.get_yscale() == scale
    assert [text.get_text() for text in axis.texts if text.get_text() != "a"] == said
    if losses[-1] == 1e-12:
        assert axis.get_ylim()[0] == pytest.approx(2e-6)


def test_no_more_lines_in_a_panel_than_colours(tmp_path, figures, monkeypatch):
    """A grid of more lines has more panels; no two curves of one panel have one colour."""
    one = curves.Curve("a", 0, *[np.zeros(1)] * 4, 1)
    with pytest.raises(ValueError, match="2 curves in one panel; allowed: 8, each of another colour"):
        curves.draw_curves(None, [one, one], "loss")
    monkeypatch.setattr(curves, "COLORS", curves.COLORS[:2])
    records = [{"iteration": k, "evaluation_loss": 1 - k / 9, "within_0.04": k / 9} for k in range(3)]
    drawn = [curves.Drawn(f"lr = {k}", "all", records) for k in range(5)]
    curves.draw_runs(drawn, curves.keys_of(drawn), "title", tmp_path / "x.png")
    (figure,) = figures
    colours = [[line.get_color() for line in axis.lines if line.get_linestyle() == "-"] for axis in figure.axes]
    assert [len(own) for own in colours] == [2, 2, 2, 2, 1, 1]
    assert all(len(set(own)) == len(own) for own in colours)
    losses, metrics = figure.axes[::2], figure.axes[1::2]
    assert all(len({axis.get_ylim() for axis in own}) == 1 for own in (losses, metrics))


def test_runs_of_different_tasks(tmp_path, figures, monkeypatch):
    """A panel has the baseline of its own task's metric, and none of a figure that the task does not have."""
    drawn = [
        curves.Drawn("a", task, [{"iteration": k, "evaluation_loss": 1.0, key: 0.5} for k in range(2)], {"task": task})
        for task, key in (("adding", "within_0.04"), ("copying", "accuracy"))
    ]
    curves.draw_runs(drawn, ["accuracy", "within_0.04"], "title", tmp_path / "x.png")
    panels = [(axis.axison, len(axis.lines)) for axis in figures[0].axes]
    assert panels == [(False, 0), (True, 2), (True, 2), (False, 0)]
    assert figures[0].axes[1].get_ylim()[0] == 0
    monkeypatch.setattr(curves, "COLORS", curves.COLORS[:1])  # a second group of lines, which alone has the metric
    drawn[1] = drawn[1]._replace(line="b")
    curves.draw_runs(drawn, ["accuracy"], "title", tmp_path / "x.png")
    assert [axis.axison for axis in figures[1].axes] == [False, False, False, True]


def test_the_failure_of_one_cell(tmp_path):
    """The others go on; exit code 1; status and table name it, and why; `run` leaves it alone, --retry does not."""
    wild = '[[row]]\nname = "wild"\noptions = { model = "rnn", lr = 1e38 }\n'
    path, out = tiny(tmp_path, seeds=1, iterations=4, more=wild), tmp_path / "runs"
    code, _, stderr = run("run", path, "--out", out, "--jobs", 3)
    assert code == 1, stderr
    assert "failed: wild; all; seed 0: iteration 1: " in stderr
    assert "2 of 3 runs are done" in stderr
    table = call(program.main, "table", path, "--out", out)[1]
    assert "* wild, all, seed 0: iteration 1: " in table
    assert "| wild | all | 0 of 1, 1 failed |  |" in table
    assert "failed: wild; all; seed 0: iteration 1" in call(program.main, "status", path, "--out", out)[1]
    for again, times in (([], 1), (["--retry"], 2)):
        assert run("run", path, "--out", out, *again)[0] == 1
        assert len(read_sessions(out / "wild" / "all" / "seed-0")) == times


def test_a_damaged_run_stops_no_other(grid, tmp_path):
    """It has failed, and is named with its file; so does one whose config is there and whose metrics are not yet."""
    path, whole = grid
    out = shutil.copytree(whole, tmp_path / "runs")
    damaged, begun = (out / "gru" / "all" / f"seed-{seed}" for seed in (0, 1))
    data = bytearray((damaged / "last.safetensors").read_bytes())
    data[-1] ^= 1
    (damaged / "last.safetensors").write_bytes(data)
    for own in begun.iterdir():
        if own.name not in ("config.json", "lock"):
            own.unlink()
    shutil.rmtree(out / "nc-gru" / "all" / "seed-1")
    code, _, stderr = run("run", path, "--out", out)
    assert code == 1
    assert "NC-GRU; all; seed 1: done" in stderr
    assert f"failed: GRU; all; seed 0: {damaged / 'last.safetensors'} is damaged: " in stderr
    assert "3 of 4 runs are done" in stderr
    assert "| GRU | all | 1 of 2, 1 failed |" in call(program.main, "table", path, "--out", out)[1]


@pytest.mark.parametrize("name", ["config.json", "sessions.json", "measured.json"])
def test_a_damaged_file_that_says_what_a_run_is(grid, tmp_path, name):
    """Of one of a grid's runs: it has failed, and what is left of the others is done."""
    path, whole = grid
    out = shutil.copytree(whole, tmp_path / "runs")
    damaged = out / "gru" / "all" / "seed-0" / name
    damaged.write_text("{")
    for retry in ((), ("--retry",)):
        code, _, stderr = run("run", path, "--out", out, *retry)
        assert code == 1
        assert stderr.count(f"failed: GRU; all; seed 0: {damaged} is damaged: ") == 1
        assert "3 of 4 runs are done" in stderr
    for action, code in (("status", 0), ("table", 0), ("plot", 0)):
        assert call(program.main, action, path, "--out", out)[0] == code
    shutil.rmtree(out / "nc-gru" / "all" / "seed-1")
    cells = tuple(cells_of(read(path)))
    assert [order.folder for order in orders_of(Grid(read(path), cells, out))] == [str(out / cells[3].folder)]


def test_a_run_that_is_of_no_grid(grid, tmp_path):
    """What a program of one's own left where a grid would have its run; a run of a grid is not made longer."""
    path, folder = tiny(tmp_path), tmp_path / "runs" / "gru" / "all" / "seed-0"
    folder.mkdir(parents=True)
    write_config(folder, {"mine": 1})
    for action in ("status", "run"):
        stderr = refusal(program.main, action, path, "--out", tmp_path / "runs")
        assert stderr == f"error: {folder} holds a run that belongs to no experiment; choose another --out\n"
    folder = grid[1] / "gru" / "all" / "seed-0"
    stderr = refusal(train.main, "adding", "--out", folder, "--resume", "--iterations", 999)
    assert f"is one of the grid tiny, whose runs have 10; allowed: another run with --init-from {folder}" in stderr


def test_scaling_what_runs_on_a_gpu_alone(tmp_path):
    """The engine is checked beside the device that the grid is run on."""
    path = tiny(tmp_path)
    path.write_text(path.read_text().replace("batch = 4", 'batch = 4\nengine = "persistent"'))
    cells = tuple(cells_of(read(path)))
    assert len(orders_of(Grid(read(path), cells, tmp_path / "runs", scale=0.5, device="gpu"))) == 4
    with pytest.raises(ValueError, match="GRU; all; seed 0: engine is 'persistent', which is for device 'gpu', and "):
        orders_of(Grid(read(path), cells, tmp_path / "runs", scale=0.5))


def test_a_grid_that_is_killed_again_and_again(tmp_path):
    """SIGKILL of workers and of the program: the table and the bits of an undisturbed one; `make torture` has more."""
    path = tiny(tmp_path, seeds=1, iterations=60)
    assert run("run", path, "--out", tmp_path / "left-alone", "--jobs", 2)[0] == 0
    kill_at_random(path, tmp_path / "killed", kills=3, seed=0)
    whole = bits(tmp_path / "killed")
    assert len(whole) == 2
    assert whole == bits(tmp_path / "left-alone")
    assert table_of(path, tmp_path / "killed") == table_of(path, tmp_path / "left-alone")


def test_a_worker_that_dies_is_replaced_once(tmp_path, monkeypatch):
    """Its run is resumed; dead twice, it is marked failed, with what killed it."""
    path = tiny(tmp_path, seeds=1, iterations=3)
    monkeypatch.setattr(engine, "command", lambda: [sys.executable, "-S", "-c", "import os; os.kill(os.getpid(), 9)"])
    code, _, stderr = call(program.main, "run", path, "--out", tmp_path / "runs", "--row", "GRU", "--no-estimate")
    assert code == 1
    assert stderr.count("GRU; all; seed 0: its worker died; it is resumed\n") == 1
    assert "GRU; all; seed 0: failed: its workers died, the last: killed by SIGKILL; see worker.log\n" in stderr


def test_a_worker_whose_program_was_gone_before_it_began(tmp_path):
    """SIGKILL of the program while a worker starts: the worker knows from whom its order was, saves, and ends."""
    path = tiny(tmp_path, seeds=1, iterations=400)
    (cell, _) = cells_of(read(path))
    order = Grid(read(path), (cell,), tmp_path / "runs").order(cell)
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    sent = json.dumps({"order": order._asdict(), "parent": gone.pid})
    end = subprocess.run(command(), cwd=ROOT, input=sent, text=True, timeout=PATIENCE)
    assert end.returncode == STOPPED
    assert [own["end"] for own in read_sessions(tmp_path / "runs" / cell.folder)] == ["stopped"]


@pytest.mark.parametrize("kind", ["a FIFO", "a link"])
def test_a_log_that_is_no_file(tmp_path, monkeypatch, kind):
    """Nothing is begun that would write through a link, or wait for a FIFO's reader."""
    monkeypatch.setattr(engine, "command", lambda: ["true"])
    log = tmp_path / engine.LOG
    if kind == "a link":
        log.symlink_to(tmp_path / "yours")
    else:
        os.mkfifo(log)
        reader = os.open(log, os.O_RDONLY | os.O_NONBLOCK)  # or a program that waits would wait for ever
    order = worker.Order(str(tmp_path), "adding", {"threads": 1}, {}, {}, [], None)
    with pytest.raises(OSError, match=re.escape(f"{log} cannot be written: ")):
        engine.start(order).wait()
    assert not (tmp_path / "yours").exists()
    if kind == "a FIFO":
        os.close(reader)


def test_a_signal_saves_what_was_begun(tmp_path):
    """Of a program that was started: it says how to go on."""
    path = tiny(tmp_path, seeds=1, iterations=400)
    own = process("run", path, "--out", tmp_path / "runs", "--jobs", 2, "--no-estimate")
    deadline = time.monotonic() + PATIENCE
    metrics = [tmp_path / "runs" / folder / "metrics.jsonl" for folder in folders(path)]
    while not all(one.exists() and one.stat().st_size for one in metrics):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    own.send_signal(signal.SIGINT)
    _, stderr = own.communicate(timeout=PATIENCE)
    assert own.returncode == 130, stderr
    assert "SIGINT: 0 of 2 runs are done, what was begun is saved; to go on:" in stderr
    assert f"python -m scripts.experiment run {path} --out {tmp_path / 'runs'} --jobs 2 --no-estimate" in stderr
    states = states_of(cells_of(read(path)), tmp_path / "runs")
    assert [state.how for state in states] == ["stopped", "stopped"]
    assert seconds_left(states) > 0
    assert "0 of 2 runs done" in overview(states)


def test_another_commit_does_not_go_on(tmp_path, monkeypatch):
    """The message names both; --other-commit goes on; a run that is done stays."""
    path, out = tiny(tmp_path, seeds=1, iterations=3), tmp_path / "runs"
    folder, arguments = out / cells_of(read(path))[0].folder, ("run", path, "--out", out, "--row", "GRU")
    monkeypatch.setattr(sessions, "commit", lambda: "a" * 40)
    assert run(*arguments)[0] == 0
    (folder / "summary.json").unlink()
    monkeypatch.setattr(sessions, "commit", lambda: "b" * 40)
    code, _, stderr = run(*arguments)
    assert code == 2
    assert f"was begun under commit {'a' * 40}, and this is {'b' * 40}" in stderr
    assert run(*arguments, "--other-commit")[0] == 0
    assert [own["commit"][0] for own in read_sessions(folder)] == ["a", "b"]


def test_code_that_changes_while_a_grid_is_on(tmp_path, monkeypatch):
    """A worker that has read other code than the grid was begun with leaves its run alone, and that is said."""
    path, program_itself = tiny(tmp_path, seeds=1, iterations=3), os.getpid()
    monkeypatch.setattr(sessions, "commit", lambda: "c" * 40 if os.getpid() == program_itself else "d" * 40)
    code, _, stderr = run("run", path, "--out", tmp_path / "runs", "--row", "GRU")
    assert code == 1
    assert "GRU; all; seed 0: left alone: the code has changed since the grid was begun\n0 of 1 runs are done" in stderr
    assert [own.name for own in (tmp_path / "runs" / "gru" / "all" / "seed-0").iterdir()] == ["worker.log"]


def test_two_programs_on_one_folder(tmp_path, monkeypatch):
    """The run that another process has in hand is waited for, which is said once, and is not marked as failed."""
    path = tiny(tmp_path, seeds=1, iterations=3)
    monkeypatch.setattr(worker, "PATIENCE", 0.2)
    monkeypatch.setattr(engine, "AGAIN", 0.3)
    folder = tmp_path / "runs" / "gru" / "all" / "seed-0"
    folder.mkdir(parents=True)
    holder = contextlib.ExitStack()
    holder.enter_context(files.locked(folder))
    threading.Timer(2.0, holder.close).start()
    code, _, stderr = run("run", path, "--out", tmp_path / "runs", "--jobs", 2)
    assert code == 0, stderr
    assert stderr.count("GRU; all; seed 0: another program is working on it; waiting\n") == 1
    assert stderr.index("NC-GRU; all; seed 0: done") < stderr.index("\nGRU; all; seed 0: done")
    assert [own["end"] for own in read_sessions(folder)] == ["done"]


def test_two_programs_at_once(tmp_path):
    """Each run has the bits of a grid left alone, whichever did it; neither calls one failed."""
    path = tiny(tmp_path, seeds=2, iterations=30)
    both = [process("run", path, "--out", tmp_path / "both", "--jobs", 2, "--no-estimate") for _ in range(2)]
    ends = [own.communicate(timeout=PATIENCE)[1] for own in both]
    assert [own.returncode for own in both] == [0, 0], ends
    assert "failed" not in "".join(ends).replace("done or failed", "")
    assert run("run", path, "--out", tmp_path / "alone")[0] == 0
    assert bits(tmp_path / "both") == bits(tmp_path / "alone")
    assert all(own["end"] == "done" for folder in folders(path) for own in read_sessions(tmp_path / "both" / folder))


def test_a_worker_that_hangs(tmp_path):
    """SIGSTOP: after --stalled seconds it is killed, and its run is resumed; Ctrl-C ends it too, by its id."""
    path = tiny(tmp_path, seeds=1, iterations=400)
    options = ("--no-estimate", "--stalled", 6)
    words = ("run", path, "--out", tmp_path / "runs", "--row", "GRU", *options)
    own = process(*words)
    (stopped,) = worker_of(own, tmp_path / "runs" / folders(path)[0])
    os.kill(stopped, signal.SIGSTOP)
    stderr = own.communicate(timeout=PATIENCE)[1]
    assert own.returncode == 0, stderr
    assert "GRU; all; seed 0: its worker died; it is resumed\n" in stderr
    assert [end["end"] for end in read_sessions(tmp_path / "runs" / folders(path)[0])] == [None, "done"]


def test_ctrl_c_ends_a_worker_that_hangs(tmp_path):
    """Once: it is told to end, and killed where it does not."""
    path = tiny(tmp_path, seeds=1, iterations=4000)
    grace = "from scripts.grid.experiment import engine; engine.GRACE = 1; import runpy, sys; "
    words = ["run", path, "--out", tmp_path / "runs", "--row", "GRU", "--no-estimate"]
    code = (
        f"{grace}sys.argv[1:] = {list(map(str, words))!r}; runpy.run_module('scripts.experiment', run_name='__main__')"
    )
    own = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stderr=subprocess.PIPE, text=True)
    (stopped,) = worker_of(own, tmp_path / "runs" / folders(path)[0])
    os.kill(stopped, signal.SIGSTOP)
    own.send_signal(signal.SIGINT)
    stderr = own.communicate(timeout=PATIENCE)[1]
    assert own.returncode == 130, stderr
    with pytest.raises(ProcessLookupError):
        os.kill(stopped, 0)


def worker_of(own, folder):
    """The workers of a program, once the run in a folder has begun."""
    deadline = time.monotonic() + PATIENCE
    while not (folder / "last.safetensors").exists():
        assert time.monotonic() < deadline
        assert own.poll() is None, own.communicate()
        time.sleep(0.05)
    return children(own.pid)


def test_a_scheduler_that_is_lost(tmp_path):
    """One line; what was begun is saved, no run is marked as failed, and the same command goes on to the same bits."""
    path = tiny(tmp_path, seeds=1, iterations=300)
    with Cluster(tmp_path) as cluster:
        own = process("run", path, "--out", tmp_path / "runs", "--scheduler", cluster.address, "--no-estimate")
        worker_of(own, tmp_path / "runs" / folders(path)[0])
        cluster.scheduler.kill()
        stderr = own.communicate(timeout=PATIENCE)[1]
    assert own.returncode == 2, stderr
    assert f"error: scheduler is {cluster.address}, and was lost; the same command goes on\n" in stderr
    assert "Traceback" not in stderr
    assert "failed" not in {state.how for state in states_of(cells_of(read(path)), tmp_path / "runs")}
    assert run("run", path, "--out", tmp_path / "runs", "--jobs", 2)[0] == 0
    assert run("run", path, "--out", tmp_path / "alone", "--jobs", 2)[0] == 0
    assert bits(tmp_path / "runs") == bits(tmp_path / "alone")


@pytest.mark.parametrize("name", ["config.json", "metrics.jsonl", "sessions.json", "last.safetensors"])
@pytest.mark.parametrize("odd", ["FIFO", "folder", "link", "older"])
def test_an_odd_file_hides_no_other_run(grid, tmp_path, name, odd):
    """Of status and table: that run has failed, and the reason is said; the others are what they are."""
    path, out = grid[0], shutil.copytree(grid[1], tmp_path / "runs")
    place = out / folders(path)[0] / name
    place.unlink()
    made = {"FIFO": lambda: os.mkfifo(place), "folder": place.mkdir, "link": lambda: place.symlink_to(path)}
    made.get(odd, lambda: place.write_text('{"format": "ortho_ref config 2"}\n'))()
    code, stdout, stderr = call(program.main, "status", path, "--out", out)
    assert (code, stderr) == (0, "")
    assert "3 of 4 runs done" in stdout
    assert re.search(rf"failed: GRU; all; seed 0: .*{name}", stdout)
    assert call(program.main, "table", path, "--out", out)[0] == 0


def test_a_full_disk_for_one_run(tmp_path, monkeypatch):
    """Of a run whose folder cannot be made: the others go on, and that is said."""
    path = tiny(tmp_path, seeds=1, iterations=3)
    right = engine.start

    def start(order):
        if "nc-gru" in order.folder:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return right(order)

    monkeypatch.setattr(engine, "start", start)
    code, _, stderr = call(program.main, "run", path, "--out", tmp_path / "runs", "--no-estimate")
    assert code == 1
    assert "NC-GRU; all; seed 0: failed: its workers died, the last: [Errno 28] No space left on device" in stderr
    assert "1 of 2 runs are done" in stderr


def test_changes_of_the_code_are_told_apart(monkeypatch):
    """Behind the commit a digest of what was changed of it."""
    found = []
    for changed in ("", "one line", "another line"):
        answers = {"rev-parse --show-toplevel": str(ROOT), "rev-parse HEAD": "d" * 40}

        def git(command, changed=changed, answers=answers, **options):
            words = " ".join(command[3:])
            return subprocess.CompletedProcess(command, 0, answers.get(words, changed), "")

        monkeypatch.setattr(subprocess, "run", git)
        found.append(sessions.commit.__wrapped__())
    assert found[0] == "d" * 40
    assert all(own.startswith("d" * 40 + "+") and len(own) == 49 for own in found[1:])
    assert len(set(found)) == 3


SCALED = "scale = { iterations = 1 }\n[options]\n"


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("batch = 4", "batch = 5", "batch is 5; the run in "),
        ("hidden = 4", "hidden = 0", "tiny.toml: GRU; all; seed 0: hidden is 0; allowed: "),
        ("hidden = 4", 'hidden = 4\noptimizer = "adma"', "seed 0: optimizer is 'adma' (did you mean 'adam'?)"),
        ("hidden = 4", "hidden = 4\nrecompute = 2", "tiny.toml, line 10: options has 'recompute'"),
        ('"gru"', '"grue"', "tiny.toml, line 17: row[0].options.model: model is 'grue' (did you mean 'gru'?); allowed"),
        ("seeds =", 'metric = "perplexity"\nseeds =', "metric is 'perplexity'; the task has 'within_0.04'"),
        ("[options]", f'{SCALED}schedule = "step"', "GRU; all; seed 0: schedule is 'step'; allowed: constant, "),
        ("[options]", f'{SCALED}schedule = "step:x:0.1"', "schedule is 'step:x:0.1'; allowed: constant, "),
    ],
)
def test_a_file_that_does_not_fit(grid, tmp_path, before, after, message):
    """Nothing is begun where a cell cannot be, scaled too, or where its folder holds what another file made."""
    path, out = grid
    other = tmp_path / "tiny.toml"
    other.write_text(path.read_text().replace(before, after, 1))
    more = ["--scale", 0.5] if "scale" in after else []
    code, stdout, stderr = run("run", other, "--out", out if "batch" in before else tmp_path / "x", *more)
    assert (code, stdout, stderr.count("\n")) == (2, "", 1)
    assert message in stderr
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run"], "run needs a FILE, as scripts/experiments/ncgru/table-1.toml"),
        (["run", "FILE", "--seeds", "x"], "seeds is 'x'; allowed: how many, 3, or which, 0,4,5"),
        (["run", "FILE", "--seeds", "1,1"], "seeds is '1,1', where one comes twice"),
        (["run", "FILE", "--seeds", ","], "seeds is ','; allowed: how many, 3, or which, 0,4,5 or 4,"),
        (["run", "FILE", "--seeds", "4,,"], "seeds is '4,,'; allowed: how many, 3, or which, 0,4,5 or 4,"),
        (["run", "FILE", "--seeds", "-1,"], "seeds is -1; allowed: an integer >= 0"),
        (["run", "FILE", "--seeds", "0"], "seeds is 0; allowed: an integer >= 1"),
        (["run", "FILE", "--scale", "0"], "scale is 0.0; allowed: 1e-06 to 1"),
        (["run", "FILE", "--scale", "nan"], "scale is nan; allowed: 1e-06 to 1"),
        (["run", "FILE", "--track", "x"], "track is 'x'; allowed: 'tensorboard'"),
        (["run", "FILE", "--column", "x"], "column is 'x'; allowed: all"),
        (["run", "FILE", "--jobs", "0"], "Invalid value for '--jobs': "),
        (["plot", "FILE"], "no run has been evaluated yet"),
        (["run", "FILE", "--scheduler", "tcp://127.0.0.1:1"], "scheduler is tcp://127.0.0.1:1"),
        (["run", "FILE", "--data", "none"], "data is none, which is not there"),
        (["run", "FILE", "--form", "csv"], "form is 'csv', and is for table; the action is run"),
        (["table", "FILE", "--picture", "x.png"], "picture is 'x.png', and is for plot; the action is table"),
        (["run", "FILE", "--per-device", "2"], "per_device is 2, and is for --device gpu; device is 'cpu'"),
        (["run", "FILE", "--jobs", "2", "--device", "gpu"], "jobs is 2, and is for --device cpu; device is 'gpu'"),
        (["schema", "FILE"], "which schema does not use; allowed with it: nothing"),
        (["status", "FILE", "--jobs", "2"], "jobs is '2', and is for run; the action is status"),
        (["run", "FILE", "--out", "FILE/x"], "tiny.toml/x: Not a directory"),
    ],
)
def test_bad_input(tmp_path, arguments, message, monkeypatch):
    """One line, exit code 2, and no folder."""
    monkeypatch.setattr(engine, "PATIENCE", 0.5)
    path = tiny(tmp_path, seeds=1, iterations=2)
    given = [own.replace("FILE", str(path)) for own in arguments]
    given += [] if "--out" in given else ["--out", tmp_path / "x"]
    alone = ["--no-estimate"] if arguments[0] == "run" else []
    code, stdout, stderr = call(program.main, *given, *alone)
    assert (code, stdout) == (2, ""), stderr
    assert message in stderr
    assert not list((tmp_path / "x").rglob("config.json"))


@pytest.mark.parametrize(
    ("given", "seeds"), [("2", {0, 1}), ("4,", {4}), ("0,", {0}), ("0,4", {0, 4}), ("0,4,", {0, 4}), (None, {0, 1, 2})]
)
def test_how_many_seeds_or_which(tmp_path, monkeypatch, given, seeds):
    """A number is how many, a list which; a comma behind it makes one number a list.  --help says so in its line."""
    path, begun = tiny(tmp_path, seeds=3, iterations=2), []
    monkeypatch.setattr(program, "states_of", lambda cells, out: begun.extend(cells) or [])
    more = [] if given is None else ["--seeds", given]
    assert call(program.main, "status", path, *more, "--out", tmp_path / "x")[0] == 0
    assert {cell.seed for cell in begun} == seeds
    monkeypatch.setenv("COLUMNS", "200")
    assert "How many, 3, or which, 0,4,5 (one: 4,)" in call(program.main, "--help")[1]


def test_what_a_grid_takes_is_said_first(tmp_path):
    """--dry-run says time, memory and disk of each kind of run, and begins none."""
    path = tiny(tmp_path)
    more = ["--dry-run", "--jobs", 2, "--memory", 0.01]
    code, _, stderr = call(program.main, "run", path, "--out", tmp_path / "x", *more)
    assert code == 0, stderr
    assert "Tiny: 4 runs, 0 of them done or failed" in stderr
    lines = [line for line in stderr.splitlines() if line.strip().startswith(("GRU; all: ", "NC-GRU; all: "))]
    assert len(lines) == 2
    assert all("GiB" in line and "MB on the disk; 2 runs" in line for line in lines)
    assert "note: 2 at a time may need more than 0.01 GiB" in stderr
    assert not (tmp_path / "x").exists()


def test_workers_over_the_limit_make_room(tmp_path):
    """The youngest saves and goes on later; all runs are done in the end."""
    path = tiny(tmp_path, seeds=1, iterations=300)
    code, _, stderr = run("run", path, "--out", tmp_path / "x", "--jobs", 2, "--memory", 0.01)
    assert code == 0, stderr
    assert "stopped, out of memory; resumed later" in stderr
    assert "2 of 2 runs are done" in stderr


def test_a_cluster_of_two_workers_one_of_which_is_killed(tmp_path):
    """SIGKILL of a Dask worker in the middle: every run has the bits of an undisturbed one."""
    path = tiny(tmp_path, seeds=1, iterations=300)
    assert run("run", path, "--out", tmp_path / "left-alone", "--jobs", 2)[0] == 0
    out = tmp_path / "clustered"
    with Cluster(tmp_path) as cluster:
        own = process("run", path, "--out", out, "--scheduler", cluster.address, "--no-estimate")
        for folder in folders(path):
            worker_of(own, out / folder)
        cluster.workers[0].send_signal(signal.SIGKILL)
        _, stderr = own.communicate(timeout=PATIENCE)
        assert own.returncode == 0, stderr
    assert bits(out) == bits(tmp_path / "left-alone")
    assert sorted(len(read_sessions(out / folder)) for folder in folders(path)) == [1, 2]
    assert not list(out.glob(".runs-*"))


def test_a_folder_that_workers_do_not_see(tmp_path, monkeypatch):
    """Said before anything is begun."""
    from distributed import Client, LocalCluster

    monkeypatch.setattr(engine, "PATIENCE", 1.0)
    monkeypatch.setattr(engine, "answer", lambda own: "elsewhere")
    (tmp_path / "own").mkdir()
    with LocalCluster(n_workers=1, processes=False, dashboard_address=None) as local, Client(local) as client:
        with pytest.raises(ValueError, match=r"which worker inproc.* does not see; choose a shared folder"):
            engine.check_shared(client, tmp_path / "own")
        monkeypatch.undo()
        engine.check_shared(client, tmp_path / "own")


# A part


@pytest.mark.parametrize(
    ("part", "scale", "size"),
    [
        (True, 1, "a part of the data: **not the paper's size**"),
        (True, 0.5, "a part of the data, scale 0.5: **not the paper's size**"),
        (False, 0.5, "scale 0.5: **not the paper's size**"),
        (False, 1, "scale 1"),
    ],
)
def test_what_is_less_than_the_papers(grid, tmp_path, figures, part, scale, size):
    """A part of the data is not taken for the paper's run: its table and its picture say so, at any scale."""
    path, out = grid
    experiment = replace(read(path), part=part)
    states = states_of(cells_of(experiment), out)
    lines = lines_of(experiment, states)
    assert markdown(experiment, lines, scale).splitlines()[0] == f"Tiny: evaluation loss; {size}."
    assert {record["part"] for record in json.loads(as_json(experiment, lines, scale))} == {part}
    curves.draw_experiment(experiment, states, scale, tmp_path / "x.png")
    (title,) = (" ".join(figure.get_suptitle().split()) for figure in figures)
    assert (size.replace("*", "") in title) == (size != "scale 1")


# What is measured besides


@pytest.mark.parametrize("model", ["rnn", "lstm", "urnn"])
def test_gradient_norms_are_those_of_a_run_from_there(model):
    """||dL/dh_t|| for every t: what backward gives for h0 of a run that begins at step t with h_t."""
    T = 6
    network = models.network(model, 2, [5], 1, readout="last", loss="mean_squared_error")
    params, buffers = network.init(np.random.default_rng(0), dtype=np.float64)
    x, y, _ = measures.held_out(Adding(T), params)
    x, y = x[:, :3], y[:3]
    scanning, cell = watched.watched(network)
    scanning.loss_and_gradients(params, buffers, x, y)
    (layer,) = network.layers
    own = {name.removeprefix("layer0."): value for name, value in params.items() if name.startswith("layer0.")}
    own_buffers = {name.removeprefix("layer0."): value for name, value in buffers.items()}
    h, _ = layer.forward(own, own_buffers, x)
    parts = h if isinstance(h, tuple) else (h,)
    np.testing.assert_allclose(np.stack(cell.history), parts[0][1:], rtol=1e-12)
    assert len(cell.gradient_norms) == T
    for t in range(1, T):
        h0 = tuple(part[t] for part in parts)
        found = tail_gradient(network, params, buffers, x[t:], y, h0 if len(h0) > 1 else h0[0])
        assert cell.gradient_norms[t - 1] == pytest.approx(3 * np.linalg.norm(found, axis=1).mean(), rel=1e-7)


def tail_gradient(network, params, buffers, x, y, h0):
    """dL/dh0, of an LSTM of its h, by central differences of the loss."""
    parts = [part.copy() for part in (h0 if isinstance(h0, tuple) else (h0,))]

    def loss():
        state = tuple(parts) if len(parts) > 1 else parts[0]
        return network.loss_and_gradients(params, buffers, x, y, h0=[state])[0]

    gradient, step = np.zeros_like(parts[0]), 1e-5
    for index in np.ndindex(gradient.shape):
        for unit in (1, 1j) if np.iscomplexobj(gradient) else (1,):
            at = parts[0][index]
            parts[0][index] = at + step * unit
            up = loss()
            parts[0][index] = at - step * unit
            gradient[index] += unit * (up - loss()) / (2 * step)
            parts[0][index] = at
    return gradient


def test_what_is_measured_of_a_run(tmp_path):
    """At the start, in the middle and at the end, with the weights that the run has then; the run's bits stay."""
    wanted = [("gradient_norms", 0), ("gradient_norms", 3), ("hidden_norms", None), ("correlation", None)]
    text = "".join(
        f'[[measure]]\nwhat = "{what}"\n' + ("" if after is None else f"after = {after}\n") for what, after in wanted
    )
    path = tiny(tmp_path, seeds=1, iterations=8, more=f'{text}[[measure]]\nwhat = "training_metric"\n')
    (tmp_path / "a").mkdir()
    bare = tiny(tmp_path / "a", seeds=1, iterations=8)
    for file, out in ((path, "with"), (bare, "without")):
        code, _, stderr = run("run", file, "--out", tmp_path / out, "--row", "NC-GRU")
        assert code == 0, stderr
    assert bits(tmp_path / "with") == bits(tmp_path / "without")
    folder = tmp_path / "with" / "nc-gru" / "all" / "seed-0"
    found = {(own["what"], own["after"]): own["values"] for own in read_measured(folder)}
    assert list(found) == [(what, 8 if after is None else after) for what, after in wanted] + [("training_metric", 8)]
    assert found["gradient_norms", 0] != found["gradient_norms", 3]
    assert len(found["hidden_norms", 8]["norm"]) == 6
    assert found["hidden_norms", 8]["distance"][-1] == 0
    last = load(folder, "last")
    outputs, y = [], []
    for batch in Adding(6).evaluation():
        outputs.append(last.network.forward(last.params, last.buffers, batch.x)[0][..., 0])
        marked = [np.flatnonzero(batch.x[:, b, 0])[0] for b in range(batch.x.shape[1])]
        y.append(batch.x[marked, np.arange(len(marked)), 1])
    expected = np.corrcoef(np.concatenate(outputs), np.concatenate(y))[0, 1]
    assert found["correlation", 8]["with_first"] == pytest.approx(expected, rel=1e-6)
    of_training, final = found["training_metric", 8], read_summary(folder)["evaluation_loss"]["final"]
    assert of_training["evaluation_loss"] == pytest.approx(final, rel=1e-6)
    assert of_training["training_evaluation_loss"] > 0


def test_what_was_measured_is_shown(tmp_path, figures):
    """Below the table, with mean and deviation over the seeds; norms over the steps and the rest over the updates."""
    wanted = [("gradient_norms", ""), ("training_metric", "after = 4"), ("training_metric", "")]
    more = "".join(f'[[measure]]\nwhat = "{what}"\n{after}\n' for what, after in wanted)
    path = tiny(tmp_path, seeds=2, iterations=8, more=more)
    out, arguments = tmp_path / "runs", ("--row", "GRU")
    assert run("run", path, "--out", out, *arguments)[0] == 0
    text = call(program.main, "table", path, "--out", out, *arguments)[1]
    found = [read_measured(out / "gru" / "all" / f"seed-{seed}") for seed in (0, 1)]
    (norms,) = zip(
        *([own["values"]["norm"] for own in one if own["what"] == "gradient_norms"] for one in found), strict=True
    )
    shown = ", ".join(f"{with_spread([one[t - 1] for one in norms])} at t = {t}" for t in (1, 3, 6))
    assert f"| GRU | all | gradient norms: norm | 8 | {shown} |" in text
    assert text.count("| training metric: training evaluation loss | ") == 2
    assert call(program.main, "plot", path, "--out", out, *arguments)[0] == 0
    assert [figure.get_label() for figure in figures] == ["curves.png", "curves-measured.png"]
    labels = {axis.get_ylabel(): axis for axis in figures[1].axes}
    axis = labels["gradient norms: norm\nafter 8 updates"]
    assert axis.get_xlabel() == "step t"
    np.testing.assert_allclose(axis.lines[0].get_ydata(), np.mean(norms, axis=0))
    axis = labels["training evaluation loss"]
    assert (axis.get_xlabel(), list(axis.lines[0].get_xdata())) == ("updates", [4, 8])
    with pytest.raises(ValueError, match="nothing has been measured yet"):
        curves.draw_measured(read(path), states_of(cells_of(read(path)), tmp_path / "none"), 1.0, tmp_path / "x.png")


def test_the_best_weights_on_the_test_part(tmp_path):
    """What `evaluate --eval-part test` says of the best checkpoint is what the table shows, and what a claim is of."""
    options = {'"adding"': '"shortest-path"', "length = 6\n": "", "eval_every = 4": "eval_every = 2"}
    more = '[[claim]]\ntext = "x"\nabove = ["GRU", "NC-GRU"]\nmean_of_columns = true\n[[measure]]\nwhat = "on_test"\n'
    path = tiny(tmp_path, seeds=1, iterations=4, more=more)
    text = functools.reduce(lambda text, pair: text.replace(*pair), options.items(), path.read_text())
    path.write_text(text.replace("seeds =", 'metric = "sequence_accuracy"\nstatistic = "on_test"\nseeds ='))
    out = tmp_path / "runs"
    code, _, stderr = run("run", path, "--out", out)
    assert code == 0, stderr
    lines = json.loads(call(program.main, "table", path, "--out", out, "--form", "json")[1])
    assert len(lines) == 2
    for line, folder in zip(lines, ("gru", "nc-gru"), strict=True):
        said = json.loads(call(evaluate.main, out / folder / "all" / "seed-0", "--eval-part", "test", "--json")[1])
        assert line["on_test_mean"] == pytest.approx(said["sequence_accuracy"], abs=1e-12)
        assert line["values"]["on_test"] == [line["on_test_mean"]]
    table = call(program.main, "table", path, "--out", out)[1]
    assert "| seeds | on test | maximum | final | median of last 20 |" in table
    assert len(re.findall(r"\*\* \| [\d.]+ \| [\d.]+ \| [\d.]+ \|", table)) == 2
    assert "Ratios" not in call(program.main, "table", path, "--out", out, "--row", "GRU")[1]
    assert re.search(rf"\n\| x \| {MEAN} \| GRU \| NC-GRU \| .* \| undecided, 1 of 3 seeds \|\n", table)
    experiment = read(path)
    states = states_of(cells_of(experiment), out)
    (found,) = comparisons_of(experiment, lines_of(experiment, states), states)
    assert (found.column, found.word, list(found.by)) == (MEAN, OPEN, ["on_test"])


@pytest.mark.parametrize(
    ("before", "after", "what", "message"),
    [
        ("hidden = 4", 'hidden = "4,4"', "gradient_norms", "is for networks of one layer; the run's has 2"),
        ("hidden = 4", 'hidden = "4,4"', "hidden_norms", "is for networks of one layer; the run's has 2"),
        ('task = "adding"', 'task = "copying"', "correlation", "is for the task adding; the run's is copying"),
        ("seeds", "seeds", "on_test", "is for tasks that have a test part; adding has none"),
        ('"adding"\nlength = 6', '"shortest-path"', "gradient_norms", "has times = 2; allowed: 1, as "),
        ('"adding"\nlength = 6', '"text"\nlength = 6', "gradient_norms", "has times = 2; allowed: 1, as "),
    ],
)
def test_what_cannot_be_measured(tmp_path, before, after, what, message):
    """Said before anything is begun; longer sequences there are not of data, nor of a task without a length."""
    times = "times = 2\n" if "times" in message else ""
    path = tiny(tmp_path, seeds=1, more=f'[[measure]]\nwhat = "{what}"\n{times}')
    path.write_text(path.read_text().replace(before, after))
    (tmp_path / "text.txt").write_text("All work and no play. " * 40)
    data = ["--data", tmp_path / "text.txt"] if "text" in after else []
    code, _, stderr = run("run", path, "--out", tmp_path / "runs", *data)
    assert code == 2
    assert f"measure '{what}' {message}" in stderr
    assert not (tmp_path / "runs").exists()


class Made:
    """One held-out batch of four steps, filled up to seven; a training set of four sequences."""

    readout = "every"

    def __init__(self):
        x = np.random.default_rng(0).standard_normal((7, 25, 2))
        mask = np.arange(7)[:, None] < np.where(np.arange(25) < 20, 4, 7)  # the first 20 are short
        self.held_out = Batch(x, np.zeros((7, 25, 3)), mask)

    def evaluation(self):
        """It."""
        return iter([self.held_out])


def test_norms_end_where_the_sequences_do():
    """Of the sequences that are taken: what fills them up has gradient 0, and no ratio to the first."""
    layer = models.gru(2, 4)
    network = Network((layer,), 3, loss="mean_squared_error")
    params, buffers = network.init(np.random.default_rng(1), dtype=np.float64)
    found = measures.gradient_norms(Loaded(network, params, buffers), Made())
    assert len(found["norm"]) == 4
    assert found["first_over_last"] == found["norm"][0] / found["norm"][-1] > 0
    nothing = {name: np.zeros_like(value) for name, value in params.items()}
    found = measures.gradient_norms(Loaded(network, nothing, network.rebuild(nothing, buffers)), Made())
    assert found == {"norm": [0.0] * 4}


def test_the_correlation_of_a_constant_is_0():
    """Of a dead network."""
    network = Network((models.irnn(2, 4),), 1, readout="last", loss="mean_squared_error")
    params, buffers = network.init(np.random.default_rng(0), dtype=np.float64)
    dead = {name: np.zeros_like(value) for name, value in params.items()}
    run = Loaded(network, dead, network.rebuild(dead, buffers))
    assert measures.correlation(run, Adding(6)) == {"with_first": 0.0, "with_second": 0.0}


def test_a_measure_that_was_lost(tmp_path):
    """A run is done when everything is measured; at its end it is measured when it goes on, else that fails."""
    path = tiny(tmp_path, seeds=1, iterations=4, more='[[measure]]\nwhat = "correlation"\n')
    out, arguments = tmp_path / "runs", ("--row", "GRU")
    command = ("run", path, "--out", out, *arguments)
    assert run(*command)[0] == 0
    folder = out / "gru" / "all" / "seed-0"
    found = read_measured(folder)
    (folder / measures.MEASURED).unlink()
    assert "0 of 1 runs done" in call(program.main, "status", path, "--out", out, *arguments)[1]
    assert run(*command)[0] == 0
    assert read_measured(folder) == found
    path.write_text(path.read_text() + '[[measure]]\nwhat = "gradient_norms"\nafter = 2\n')
    code, _, stderr = run(*command)
    assert code == 1
    assert "gradient_norms after 2 updates was not measured, and the run is past them: remove " in stderr


@pytest.mark.parametrize("action", ["status", "table", "plot", "store"])
def test_runs_that_are_not_the_files(grid, tmp_path, action):
    """Of another scale, or of options that the file had before: nothing shows them as the file's."""
    path, out = grid
    arguments = [action, path, "--out", out]
    stderr = refusal(program.main, *arguments, "--scale", 0.5)
    assert "scale is 0.5; the run in " in stderr
    assert "has 1: give --scale 1, or choose another --out" in stderr
    path = tmp_path / "tiny.toml"
    path.write_text(grid[0].read_text().replace("batch = 4", "batch = 5"))
    stderr = refusal(program.main, action, path, "--out", out)
    assert "batch is 5; the run in " in stderr
    assert "has 4: the file was changed since; choose another --out, or remove that run" in stderr


def test_only_what_is_quoted_is_called_so(grid):
    """A part of a table has no lines for the rest."""
    path, out = grid
    experiment = read(path)
    rows = (*experiment.rows, replace(experiment.rows[0], name="elsewhere", quoted=True))
    columns = (experiment.columns[0], replace(experiment.columns[0], name="b", of="all"))
    own = replace(experiment, rows=rows, columns=columns)
    states = states_of(cells_of(own, columns=["all"]), out)
    lines = [(line.name, line.column, line.wanted) for line in lines_of(own, states)]
    assert lines == [("GRU", "all", 2), ("NC-GRU", "all", 2), ("elsewhere", "all", 0), ("elsewhere", "b", 0)]


def test_tracked_by_tensorboard(tmp_path):
    """What TensorBoard reads there are the run's metrics, each once, after a run that was resumed too, from before a
    checkpoint that is damaged; what is held by another process is left as it is."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.util.tensor_util import make_ndarray

    options = ["adding", "--length", 6, "--hidden", 4, "--batch", 4, "--log-every", 2, "--eval-every", 4]
    out = tmp_path / "run"
    assert call(train.main, *options, "--iterations", 6, "--out", out, "--track", "tensorboard")[0] == 0
    again = ["adding", "--out", out, "--resume", "--track", "tensorboard"]
    assert call(train.main, *again, "--iterations", 12)[0] == 0
    written = {path: path.stat().st_ino for path in (out / "tensorboard").iterdir()}
    (out / "tensorboard" / "mine.txt").write_text("mine")
    with files.locked(out):
        assert call(train.main, *again, "--which", "previous")[0] == 2
    (out / "tensorboard" / "mine.txt").rename(out / "mine.txt")
    assert {path: path.stat().st_ino for path in (out / "tensorboard").iterdir()} == written
    (out / "mine.txt").rename(out / "tensorboard" / "mine.txt")
    (out / "last.safetensors").write_bytes(b"damaged")
    assert call(train.main, *again, "--which", "previous")[0] == 0
    assert (out / "tensorboard" / "mine.txt").read_text() == "mine"
    events = EventAccumulator(str(out / "tensorboard"))
    events.Reload()
    lines = read_metrics(out)
    for key in ("loss", "evaluation_loss", "weights/layer0.U_c/defect"):
        tensors = [(own.step, float(make_ndarray(own.tensor_proto))) for own in events.Tensors(key)]
        wanted = []
        for line in lines:
            value = line["weights"]["layer0.U_c"]["defect"] if "/" in key else line.get(key)
            if value is not None:
                wanted.append((line["iteration"], pytest.approx(value, rel=1e-6)))
        assert tensors == wanted


def test_a_model_has_one_colour_in_every_picture():
    """Whatever else is in it; a second line of a model, and what is no model, has another; no two are alike."""
    assert curves.numbers_of(["GRU", "NC-GRU(U_c)"]) == {"NC-GRU(U_c)": 0, "GRU": 1}
    several = curves.numbers_of(["NC-GRU(U_r, U_c)", "NC-GRU(U_c)", "b_z = 3", "LSTM", "IRNN", "RNN (tanh)", "uRNN"])
    assert len(set(several.values())) == len(several)
    assert (several["NC-GRU(U_r, U_c)"], several["LSTM"], several["uRNN"], several["IRNN"]) == (0, 2, 4, 6)
    assert 1 not in several.values()  # that is the GRU's


def test_lines_are_named_at_their_ends(tmp_path, figures):
    """Of one column: in their colours, no two in one place, and there is no legend; of several below all panels."""
    for columns in (["x"], ["x", "y", "z"]):
        lines = [("GRU", 0.5), ("LSTM", 0.501), ("scoRNN", 0.1)]
        drawn = [
            curves.Drawn(line, column, [{"iteration": k, "evaluation_loss": y} for k in (1, 2, 3)], {"baseline": 0.9})
            for line, y in lines
            for column in columns
        ]
        curves.draw_runs(drawn, ["evaluation_loss"], "title", tmp_path / "x.png")
    one, three = figures
    texts = {text.get_text(): text.get_position()[1] for text in one.axes[0].texts}
    assert texts.keys() == {"GRU", "LSTM", "scoRNN", "baseline"}
    places = sorted(texts.values())
    assert np.diff(places).min() > 0.06
    end = one.axes[0].transData.transform((3, 0.9))
    assert texts["baseline"] == pytest.approx(one.axes[0].transAxes.inverted().transform(end)[1])
    assert (one.legends, len(three.legends), len(three.axes)) == ([], 1, 3)
    assert three.get_figwidth() == one.get_figwidth() == 7


def test_a_picture_for_pages(tmp_path):
    """An SVG is the same each time, without a date or a ground, has its words as text, light in the dark, and every
    point of a line within a twentieth of a unit."""
    records = [{"iteration": k, "evaluation_loss": 20 + k * 7 % 11} for k in range(50)]
    drawn = [curves.Drawn("GRU", "x", records), curves.Drawn("LSTM", "x", records[:1])]
    written = []
    for _ in range(2):
        curves.draw_runs(drawn, ["evaluation_loss"], "title", tmp_path / "x.svg")
        written.append((tmp_path / "x.svg").read_text())
    assert written[0] == written[1]
    for part in (">GRU</text>", "@media (prefers-color-scheme: dark){svg{filter:", 'style="fill: none"'):
        assert part in written[0]
    assert "dc:date" not in written[0]
    path, _ = re.findall(r'<path d="m([^"z]*)" clip-path', written[0])
    steps = np.array([list(map(float, step.split())) for step in path.split("l")])
    for found, wanted in zip(np.cumsum(steps, axis=0).T, ("iteration", "evaluation_loss"), strict=True):
        values = [record[wanted] for record in records]
        np.testing.assert_allclose(found, np.polyval(np.polyfit(values, found, 1), values), atol=0.06)


def states_of_ends(ends, metric="evaluation_loss"):
    """States of lines by column: for each seed the last evaluation, after one at 1; None of one that diverged."""
    return [
        State(
            SimpleNamespace(line=line, column=SimpleNamespace(name=column)),
            Path(),
            "failed" if end is None else "done",
            config={"baseline": 1.0},
            records=[{"evaluation_loss": 1.0, metric: 1.0}, {"evaluation_loss": end or 1.0, metric: end or 1.0}],
        )
        for column, lines in ends.items()
        for line, own in lines.items()
        for end in own
    ]


@pytest.mark.parametrize(
    ("ends", "metric", "said"),
    [
        (
            {"x": {"a": [0.1, 0.2], "b": [0.3, 0.4], "c": [0.96, 0.99]}},
            "evaluation_loss",
            "At the end the lowest held-out loss is that of a. The loss never falls below 0.95 of the baseline for c.",
        ),
        (
            {"x": {"a": [0.1, 0.3], "b": [0.2, 0.4], "c": [0.5, None]}, "y": {"a": [0.1], "b": [0.1]}},
            "evaluation_loss",
            "At the end the lowest held-out loss is that of a, from which the seeds do not tell b (x). "
            "At the end the seeds tell no line from the best (y).",
        ),
        (
            {"x": {"a": [0.97], "b": [1.5]}},
            "evaluation_loss",
            "The loss never falls below 0.95 of the baseline for any line.",
        ),
        ({"x": {"a": [0.5, 0.25]}}, "evaluation_loss", "The lowest loss of a is 0.25 to 0.5 of the baseline's."),
        ({"x": {"a": [0.5], "b": [0.4]}}, "accuracy", "At the end the highest held-out accuracy is that of a."),
    ],
)
def test_captions(ends, metric, said):
    """Who ends in front, as far as every seed says so, and who never gets below the baseline, in which columns."""
    assert caption(SimpleNamespace(metric=metric), states_of_ends(ends, metric)) == said


def test_the_line_of_guessing(tmp_path, figures):
    """Of a drawn task an accuracy has a baseline, too."""
    records = [{"iteration": k, "evaluation_loss": 0.3, "accuracy": 0.9} for k in (1, 2, 3)]
    for task in ("copying", "text"):
        drawn = [curves.Drawn("GRU", "x", records, {"task": task, "length": 100, "baseline": 0.2})]
        curves.draw_runs(drawn, curves.keys_of(drawn), "title", tmp_path / "x.png")
    lines = [[line.get_ydata()[0] for line in figure.axes[1].lines] for figure in figures]
    assert lines == [[0.9, (110 + 10 / 8) / 120], [0.9]]
