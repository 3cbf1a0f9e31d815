"""Runs on data sets by the command line: --data, the cache, parts, and what the config says of them."""

import json
import re
import shutil

import numpy as np
import pytest

from ortho_ref import models
from ortho_ref.language.reader import Reader
from ortho_ref.training.runs import load
from scripts import bounds, evaluate, train
from scripts.grid.build import make_trainer
from scripts.grid.config import config_of
from scripts.maintain import training_speed
from tasks import by_name, files
from tests.ortho_ref.training.reading import read_config, read_metrics
from tests.scripts.runs import call, refusal
from tests.tasks import made

TINY = ["--hidden", "4", "--batch", "3", "--iterations", "4", "--eval-every", "2", "--log-every", "2"]


def words(name):
    """The options that go with made files, on the command line."""
    found = []
    for option, value in made.OPTIONS[name].items():
        found += [f"--{option.replace('_', '-')}", *([] if value is True else [str(value)])]
    return found


@pytest.fixture(autouse=True)
def no_cache(tmp_path, monkeypatch):
    """Nobody's own cache is looked at."""
    monkeypatch.setenv(files.CACHE, str(tmp_path / "cache"))


@pytest.mark.parametrize("name", list(made.MAKE))
def test_a_run_on_each_set(tmp_path, name):
    """From a folder; no path in the config, but set and contents; evaluated again to the bit, from the cache too; on
    another part."""
    made.MAKE[name](tmp_path / "mine")
    out = tmp_path / "run"
    code, line, err = call(train.main, name, "--data", tmp_path / "mine", "--out", out, "--json", *words(name), *TINY)
    assert code == 0, err
    config = read_config(out)
    known = name != "speech"  # nobody has said what a folder of recordings hashes to
    assert (f"note: the data are not {config['data']['set']} as it was published; the config says so\n" in err) == known
    assert config["data"]["published"] is (False if known else None)
    assert str(tmp_path) not in (out / "config.json").read_text()
    (tmp_path / "cache").mkdir()
    (tmp_path / "mine").rename(tmp_path / "cache" / config["data"]["set"])
    figures = {key: value for key, value in json.loads(line).items() if key in ("evaluation_loss", *line_metrics())}
    code, found, err = call(evaluate.main, out, "--which", "last", "--json")
    assert (code, json.loads(found)) == (0, figures), err
    code, found, err = call(evaluate.main, out, "--which", "last", "--eval-part", "test", "--json")
    assert code == 0, err
    assert (json.loads(found) == figures) == (name in ("har", "speech"))  # whose held-out part that is
    assert " on test; baseline loss " in err


def line_metrics():
    """Metrics of tasks on sets."""
    return "accuracy", "binary_accuracy", "bits_per_character", "perplexity", "root_mean_squared_error"


def goes_on_to_the_same_end(whole, out, *command):
    """A copy of a run, on whose end it comes again from before, by this command line."""
    shutil.copytree(whole, out)
    (out / "summary.json").unlink()
    code, _, err = call(train.main, *command)
    assert code == 0, err
    ours, theirs = ([{**line, "steps_per_second": 0} for line in read_metrics(run)] for run in (out, whole))
    assert ours == theirs


def test_resumed(tmp_path):
    """From another folder with the same contents, to the same bits; other contents, or none, are refused in one line;
    what was published need not be what the run is of."""
    made.har(tmp_path / "mine")
    whole, out = tmp_path / "whole", tmp_path / "out"
    command = ["har", "--other-data", *TINY]
    assert call(train.main, *command, "--data", tmp_path / "mine", "--out", whole)[0] == 0
    shutil.copytree(tmp_path / "mine", tmp_path / "copy")
    resume = ["har", "--out", out, "--resume", "--which", "previous"]
    goes_on_to_the_same_end(whole, out, *resume, "--data", tmp_path / "copy")
    assert call(bounds.main, out, "--data", tmp_path / "copy", "--steps", 3)[0] == 0  # as evaluate does
    assert refusal(train.main, *resume) == (
        f"error: har is not in the cache ({tmp_path / 'cache/har'}); get it by: python -m scripts.data fetch har, or "
        "give --data\n"
    )
    (tmp_path / "copy/test/y_test.txt").write_text("1\n" * 20)
    other = "test/y_test.txt (by SHA-256)"
    said = f"error: data is {tmp_path / 'copy'}, which is not what the run in {out} began with: {other}\n"
    assert refusal(train.main, *resume, "--data", tmp_path / "copy") == said
    stderr = refusal(train.main, *resume, "--data", tmp_path / "mine", "--classes", 6)
    assert stderr.startswith("error: classes is 6; the run in ")


@pytest.mark.parametrize("model", ["goru", "lstm"])
def test_a_reader_is_trained_resumed_and_loaded(tmp_path, model):
    """[goru:task-babi] Stopped and gone on with to the same bits; built again from its config, with three layers of the
    sizes given; what its layers are not is refused in one line."""
    made.babi(tmp_path / "mine")
    whole, out, place = tmp_path / "whole", tmp_path / "out", ("--data", tmp_path / "mine")
    command = ["babi", *place, *words("babi"), *TINY[2:], "--model", model, "--hidden", "4,2,8", "--join", "steps"]
    assert call(train.main, *command, "--out", whole)[0] == 0
    goes_on_to_the_same_end(whole, out, "babi", *place, "--out", out, "--resume", "--which", "previous")
    network, params, buffers = load(out)
    assert isinstance(network, Reader)
    assert (network.join, [layer.sizes for layer in network.layers]) == ("steps", [(50, 4), (50, 2), (6, 8)])
    task = by_name.make("babi", data=tmp_path / "mine", join="steps", **made.OPTIONS["babi"])
    batch = next(task.evaluation())
    assert network.forward(params, buffers, batch.x).outputs.shape == (10, task.output_size)
    code, _, err = call(bounds.main, out, *place)
    assert (code, err) == (2, f"error: {out} has a reader, of two texts; allowed: a network that reads one sequence\n")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--layers", 2], "hidden_sizes has 2 values; a reader has 3: of story, question and both"),
        (["--beta", 1], "regularizers has beta; allowed for a reader: words, weights, weights_of"),
        (["--qa", 0], "qa is '0'; allowed: '1', "),
        (["--scale-rate"], "--scale-rate is for --windows random; all windows of babi have the same length"),
    ],
)
def test_what_a_reader_does_not_have(tmp_path, options, message):
    """One line, before anything is written."""
    made.babi(tmp_path / "mine")
    command = ["babi", "--data", tmp_path / "mine", *words("babi"), *TINY, "--out", tmp_path / "run", *options]
    assert refusal(train.main, *command).startswith(f"error: {message}")
    assert not (tmp_path / "run").exists()


def test_a_config_of_before_a_task_s_option_was_there(tmp_path):
    """It lacks the option, which is another task's; the run goes on all the same.  One that lacks an option of every
    task is refused."""
    config = config_of("adding", hidden=4, batch=3, iterations=4, length=5, eval_every=2)
    before = {name: value for name, value in config.items() if name not in ("qa", "join")}
    assert len(before) == len(config) - 2
    run = make_trainer(before)
    run.run(tmp_path / "run", before, should_stop=lambda: run.iteration == 2)
    code, _, err = call(train.main, "adding", "--out", tmp_path / "run", "--resume")
    assert code == 0, err
    without = {name: value for name, value in before.items() if name != "batch"}
    make_trainer(before).run(tmp_path / "other", without)
    code, _, err = call(train.main, "adding", "--out", tmp_path / "other", "--resume")
    assert (code, "batch" in err) == (2, True)


def test_data_that_are_not_the_set(tmp_path):
    """Refused in one line that names the file, and what is to be done."""
    made.ptb(tmp_path / "mine")
    err = refusal(train.main, "ptb-word", "--data", tmp_path / "mine", "--out", tmp_path / "run", *TINY)
    assert f"{tmp_path / 'mine/ptb.train.txt'} is not the published ptb.train.txt: its contents' SHA-256 is " in err
    assert err.endswith("; get it by: python -m scripts.data fetch ptb; or give --other-data, to take it as it is\n")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("model", ["sgornn", "urnn"])
def test_the_speed_of_a_task_on_a_set(tmp_path, model):
    """[sgornn:hyper] Its updates at the paper's size are timed; a batch is at most a tenth of one."""
    made.har(tmp_path, (120, 20))
    arguments = ["--only", "har", "--model", model, "--data", tmp_path, "--other-data", "--cpu-time"]
    code, out, err = call(training_speed.main, *arguments, "--rounds", 1, "--seconds", 0)
    assert code == 0, err
    assert "time: this process's" in out
    share = re.search(r"│ har +│ 100, 128, \d+ +│.*│ +(\d\.\d+) │[^│]*GiB │", out)[1]
    assert float(share) <= 0.1
    assert refusal(training_speed.main, "--only", "cifar").startswith("error: only is 'cifar'; allowed: parenthesis, ")


def test_notes_of_a_text(tmp_path):
    """A byte order mark and line ends of two characters are told before the first figure."""
    (tmp_path / "a.txt").write_bytes(("\ufeff" + "ab\r\n" * 300).encode())
    arguments = ["text", "--data", tmp_path / "a.txt", "--out", tmp_path / "run", "--length", 5, *TINY]
    code, _, err = call(train.main, *arguments)
    assert code == 0, err
    assert err.startswith(f"note: {tmp_path / 'a.txt'} begins with a byte order mark, ")
    assert "has 300 line ends of two characters" in err


@pytest.mark.parametrize(
    ("model", "parameters"), [("vprnn", 2305), ("sgornn", 2307), ("fastrnn", 17_795), ("lstm", 19_009)]
)
def test_the_setting_of_har_is_the_papers(tmp_path, model, parameters):
    """[sgornn:hyper] Table 2 of the SGORNN paper, at the sizes that a run has unless told otherwise: one logit."""
    made.har(tmp_path, (120, 20))
    config = config_of("har", data=tmp_path, other_data=True, model=model)
    assert config["batch"] == 100
    assert config["network"].items() >= {"output_size": 1, "loss": "binary_cross_entropy"}.items()
    assert (config["optimizer"], config["lr"], config["schedule"]) == ("rmsprop-keras", 1e-3, "step:14600:0.1")
    network = models.network(**config["network"])
    assert network.count(network.init(np.random.default_rng(0))[0]) == parameters
