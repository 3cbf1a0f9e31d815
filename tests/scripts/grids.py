"""Small grids, left alone and killed: what the tests and the torture of experiments share."""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from unittest import mock

from ortho_ref.training.run_folder import RunFolder
from ortho_ref.training.runs import load
from scripts import experiment as program
from scripts.grid.experiment import engine, measures, sessions
from scripts.grid.experiment.cells import cells_of
from scripts.grid.experiment.file import read
from tests.line import PATIENCE
from tests.ortho_ref.training.reading import read_metrics
from tests.scripts.runs import ROOT, call, forked

TINY = """format = "ortho_ref experiment 1"
title = "Tiny"
seeds = {seeds}

[options]
task = "adding"
length = 6
batch = 4
hidden = 4
iterations = {iterations}
eval_every = {iterations}
log_every = 5
checkpoint_every = 1

[[row]]
name = "GRU"
options = {{ model = "gru" }}
paper.v1 = {{ all = 0.1 }}
paper.v2 = {{ all = [0.2, 0.01] }}

[[row]]
name = "NC-GRU"
options = {{ model = "nc-gru" }}
others."a README" = {{ all = 0.3 }}
"""


def tiny(folder, seeds=2, iterations=10, more=""):
    """A file of 2 `seeds` short runs."""
    path = folder / "tiny.toml"
    path.write_text(TINY.format(seeds=seeds, iterations=iterations) + more)
    return path


def process(*arguments, **options):
    """The program, begun."""
    command = [sys.executable, "-W", "error", "-m", "scripts.experiment", *map(str, arguments)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def run(*arguments, real=False):
    """Exit code, stdout and stderr of the program, in this process and without trying what it takes.

    Its workers are forks; real: programs that are started, it and they.
    """
    if real:
        own = process(*arguments)
        out, err = own.communicate(timeout=PATIENCE)
        return own.returncode, out, err
    alone = ["--no-estimate"] if arguments[0] == "run" else []
    with mock.patch.object(engine, "start", forked):
        return call(program.main, *arguments, *alone)


def bits(out):
    """Run's folder -> the bytes of its weights, and its metrics but for the speeds."""
    found = {}
    for folder in sorted(path.parent for path in out.rglob("summary.json")):
        lines = [{k: v for k, v in line.items() if k != "steps_per_second"} for line in read_metrics(folder)]
        weights = {name: value.tobytes() for name, value in sorted(load(folder, "last").params.items())}
        found[str(folder.relative_to(out))] = (weights, lines)
    return found


def children(pid):
    """Process ids of a process's children."""
    found = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True).stdout.split()
    return [int(own) for own in found]


def kill_at_random(path, out, kills, seed):
    """Run a grid, killing the program or one of its workers, so many times; then let it end."""
    draw = random.Random(seed)
    killed = {"program": 0, "worker": 0}
    while sum(killed.values()) < kills:
        own = process("run", path, "--out", out, "--jobs", 2, "--retry", "--no-estimate")
        while own.poll() is None and sum(killed.values()) < kills:
            time.sleep(draw.uniform(0.2, 1.5))
            workers = children(own.pid)
            if draw.random() < 0.5 and workers:
                os.kill(draw.choice(workers), signal.SIGKILL)
                killed["worker"] += 1
            elif own.poll() is None:
                own.kill()
                killed["program"] += 1
                break
        if own.poll() is None:
            own.kill()
        own.communicate()
        if all((out / folder / "summary.json").exists() for folder in folders(path)):
            break
    code, _, stderr = run("run", path, "--out", out, "--jobs", 2, "--retry", "--no-estimate", real=True)
    assert code == 0, stderr
    return killed


class Cluster:
    """A Dask scheduler and two workers, each in a process of its own."""

    def __init__(self, folder):
        self.file, self.workers = folder / "scheduler.json", []
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": ROOT}
        dask = [sys.executable, "-m", "dask"]
        leader = [*dask, "scheduler", "--port", "0", "--no-dashboard", "--scheduler-file", self.file]
        worker = [*dask, "worker", "--scheduler-file", self.file, "--nthreads", "1", "--no-nanny", "--no-dashboard"]
        self.scheduler = subprocess.Popen(leader, **quiet)
        for k in range(2):
            self.workers.append(subprocess.Popen([*worker, "--local-directory", folder / f"w{k}"], **quiet))
        deadline = time.monotonic() + PATIENCE
        while not self.file.exists() or not self.file.read_text().endswith("}"):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        self.address = json.loads(self.file.read_text())["address"]

    def __enter__(self):
        return self

    def __exit__(self, *error):
        for own in (*self.workers, self.scheduler):
            own.kill()
            own.wait()


def kill_a_cluster(path, out, kills, seed):
    """Run a grid on clusters, killing a worker, the scheduler or the program, so many times; then let it end here."""
    draw = random.Random(seed)
    killed = {"worker": 0, "scheduler": 0, "program": 0}
    while sum(killed.values()) < kills:
        with tempfile.TemporaryDirectory() as folder, Cluster(Path(folder)) as cluster:
            own = process("run", path, "--out", out, "--scheduler", cluster.address, "--retry", "--no-estimate")
            while own.poll() is None and sum(killed.values()) < kills:
                time.sleep(draw.uniform(1, 4))
                kind = draw.choice([*killed])
                victim = {"worker": cluster.workers[0], "scheduler": cluster.scheduler, "program": own}[kind]
                if victim.poll() is None:
                    victim.kill()
                    killed[kind] += 1
                if kind != "worker":
                    break
            if own.poll() is None:
                own.kill()
            stderr = own.communicate()[1]
            assert "Traceback" not in stderr, stderr
    code, _, stderr = run("run", path, "--out", out, "--jobs", 2, "--retry", "--no-estimate", real=True)
    assert code == 0, stderr
    return killed


def folders(path):
    """Of every run of a grid."""
    return [cell.folder for cell in cells_of(read(path))]


def table_of(path, out):
    """The lines of a grid's table, but for the time that it took."""
    rows = json.loads(call(program.main, "table", path, "--out", out, "--form", "json")[1])
    return [{name: value for name, value in row.items() if name != "seconds"} for row in rows]


def read_measured(path):
    """Of a run's folder."""
    with RunFolder(path) as folder:
        return measures.read_measured(folder)


def read_sessions(path):
    """Of a run's folder."""
    with RunFolder(path) as folder:
        return sessions.read_sessions(folder)
