"""`python -m scripts.train` as a user runs it, and as a machine ends it."""

import itertools
import json
import math
import os
import shlex
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest

from ortho_ref import models
from ortho_ref.cells import GRUResetAfter
from ortho_ref.formats import check
from ortho_ref.fused import compiled
from ortho_ref.fused.compiled import sequence
from ortho_ref.fused.kernels import without_kernels
from ortho_ref.language.regularizers import Regularizers
from ortho_ref.parametrizations import Householder, ScaledCayley, TunableRotations
from ortho_ref.training import checkpoint
from ortho_ref.training.run_folder import RUN_FILES, RunFolder
from ortho_ref.training.runs import load
from scripts import evaluate, train
from scripts.grid.build import make_trainer
from scripts.grid.config import FORM, config_of, read_run
from scripts.grid.run import signals
from scripts.pictures.runs import drawn
from scripts.program import blas
from tests.line import PATIENCE
from tests.ortho_ref.training.reading import contents, read_config, read_metrics, read_summary, write_config
from tests.scripts.runs import POINTS, ROOT, call, refusal
from tests.torture import sealing

TINY = ["--hidden", "6", "--length", "5", "--batch", "2", "--iterations", "3", "--log-every", "2"]


def process(*arguments):
    """The finished process."""
    command = [sys.executable, "-W", "error", "-m", "scripts.train", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE)


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """A text file that is just long enough."""
    path = tmp_path_factory.mktemp("texts") / "text.txt"
    path.write_text("All work and no play. " * 30)
    return path


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run of the parenthesis task, as a real process with warnings as errors: its folder, and the process."""
    out = tmp_path_factory.mktemp("runs") / "deep" / "paren"
    return out, process("parenthesis", "--out", out, "--json", "--seed", 5, "--negative-ones", 2, *TINY)


# A run from end to end


def test_a_run_and_its_folder(finished):
    """Exit 0; the options given and the defaults are all in config.json; stdout is the last line of the metrics; the
    figures on stderr, and where the picture is and what may come next; every file of a finished run, the curve too."""
    out, end = finished
    assert end.returncode == 0, end.stderr
    assert sorted(contents(out)) == sorted([*RUN_FILES, "curve.png", "lock"])
    config, lines = read_config(out), read_metrics(out)
    given = {"task": "parenthesis", "hidden": 6, "length": 5, "batch": 2, "iterations": 3, "log_every": 2, "seed": 5}
    own = {"model": "nc-gru", "lr": 1e-3, "lr_orthogonal": 1e-3, "optimizer_orthogonal": "adam", "negative_ones": 2}
    assert config.items() >= (given | own | {"reset_every": "50", "device": "cpu", "data": None}).items()
    assert config["network"].items() >= {"name": "nc-gru", "hidden_sizes": [6], "negative_ones": 2}.items()
    assert config["made_by"]["blas"]
    assert [line["iteration"] for line in lines] == [2, 3]
    assert end.stdout.count("\n") == 1
    assert json.loads(end.stdout) == lines[-1]
    assert "evaluation_loss" in lines[-1]
    assert (out / "curve.png").read_bytes().startswith(b"\x89PNG")
    summary = read_summary(out)
    assert summary["evaluation_loss"]["final"] == lines[-1]["evaluation_loss"]
    assert summary["baseline"] == config["baseline"]
    assert f"{summary['parameters']} parameters; held out: loss" in end.stderr
    assert end.stderr.splitlines()[-3:] == [
        f"picture: {out / 'curve.png'}",
        f"its best weights, evaluated: python -m scripts.evaluate {out}",
        f"longer: python -m scripts.train parenthesis --out {out} --resume --iterations 6",
    ]


@pytest.fixture
def reached(tmp_path, monkeypatch):
    """The trainer that is run by a command line."""
    seen = []

    def stop(trainer, *arguments):
        seen.append(trainer)
        raise ValueError("seen")

    def of(*words):
        assert call(train.main, *words, "--out", tmp_path / "run")[0] == 2
        return seen.pop()

    monkeypatch.setattr(train, "train", stop)
    return of


def test_every_option_reaches_the_run(text, reached):
    """Each option of the command line, with values that are not the defaults, is found in the trainer that is run."""
    arguments = shlex.split(
        "--model nc-gru --layers 2 --hidden 6 --length 5 --batch 3 --iterations 9 --lr 0.1 --lr-orthogonal 0.2 "
        "--optimizer rmsprop-keras --optimizer-orthogonal momentum --weight-decay 0.3 --schedule step:4:0.5 --clip "
        "norm:0.7 --dropout 0.4 --orthogonal rc --order 3 --reset-every 7 --negative-ones 2 --seed 8 --dtype float64 "
        "--log-every 2 --eval-every 3 --checkpoint-every 5"
    )
    own = reached("text", "--data", text, *arguments)
    assert (own.iterations, own.batch_size, own.seed) == (9, 3, 8)
    assert (own.log_every, own.evaluate_every, own.checkpoint_every) == (2, 3, 5)
    assert (own.clip_value, own.clip_norm, own.dtype) == (None, 0.7, np.dtype("float64"))
    assert own.optimizer.rates(0) == {"layer*.*.*": 0.2, "*": 0.1}
    assert own.optimizer.rates(4) == {"layer*.*.*": 0.1, "*": 0.05}
    skew, others = own.optimizer.optimizers.values()
    assert (skew.momentum, skew.weight_decay) == (0.9, 0.0)
    assert (others.decay, others.epsilon, others.weight_decay) == (0.9, 1e-7, 0.3)
    assert (own.network.dropout, len(own.network.layers), own.task.length) == (0.4, 2, 5)
    for layer in own.network.layers:
        assert sorted(layer.parametrizations) == ["U_c", "U_r"]
        for p in layer.parametrizations.values():
            assert (p.negative_ones, p.order, p.reset_every) == (2, 3, 7)
    language = shlex.split(
        "--hidden 6,7,5 --embedding 5 --tied --negative-ones 2,3,1 --dropout-words 0.1 --dropout-input 0.2 "
        "--dropout-hidden 0.3 --dropout-output 0.4 --dropout-weights 0.5 --dropout-weights-of U_r,U_u --alpha 2 "
        "--beta 1 --average 3 --windows random --scale-rate --rates embedding.*=0.01 --rates readout.b=0.02 --length 9 "
        "--batch 3 --iterations 9"
    )
    own = reached("text", "--data", text, *language)
    assert [layer.sizes for layer in own.network.layers] == [(5, 6), (6, 7), (7, 5)]
    assert [layer.parametrizations["U_c"].negative_ones for layer in own.network.layers] == [2, 3, 1]
    assert own.network.tied
    assert own.network.regularizers == Regularizers(0.1, 0.2, 0.3, 0.4, 0.5, ("U_r", "U_u"), 2.0, 1.0)
    assert (own.average_after, own.rate_per_window, own.task.windows) == (3, 9, "random")
    assert own.optimizer.rates(0) == {"layer*.*.*": 2e-3, "embedding.*": 0.01, "readout.b": 0.02, "*": 2e-3}
    others = shlex.split("--reset-every never --clip value:2 --schedule linear --threads 1")
    own = reached("denoise", "--form", "released", *others, *TINY)
    assert (own.task.form, own.clip_value, own.clip_norm) == ("released", 2.0, None)
    assert own.network.layers[0].parametrizations["U_c"].reset_every is None
    np.testing.assert_allclose([own.optimizer.rates(k)["*"] for k in range(4)], [1e-3, 2e-3 / 3, 1e-3 / 3, 0])
    own = reached("copying", "--layout", "C", "--order", "exact", *TINY)
    assert own.task.layout == "C"
    assert type(own.network.layers[0].parametrizations["U_c"]).__name__ == "ScaledCayley"
    words = "--model goru --model-option style=tunable --model-option capacity=4 --model-option reset_gate=False"
    words += " --parametrize U_h=householder:2 --parametrize U_z=scaled_cayley:1"
    layer = reached("copying", *words.split(), *TINY).network.layers[0]
    assert layer.cell == GRUResetAfter("modrelu", reset_gate=False)
    assert layer.parametrizations == {"U_h": Householder(2), "U_z": ScaledCayley(1)}
    own = reached("copying", "--model", "eurnn", "--model-option", "capacity=4", *TINY)
    assert own.network.layers[0].parametrizations == {"U": TunableRotations(4, complex=True)}
    own = reached("copying", "--model", "full-urnn", *TINY)
    assert [type(optimizer).__name__ for optimizer in own.optimizer.optimizers.values()] == ["SGD", "Adam"]
    own = reached("adding", "--model", "scornn", "--lr", "0.5", *TINY)
    assert own.optimizer.rates(0) == {"layer*.*.*": 0.5, "*": 0.5}
    own = reached("adding", "--model", "ornn", "--rates", "layer0.h0=0.25", "--rates", "*=0.125", *TINY)
    assert own.optimizer.rates(0) == {"layer*.*.*": 1e-3, "layer0.h0": 0.25, "*": 0.125}


@pytest.mark.parametrize(
    ("task", "model"),
    [
        *(("copying", model) for model in models.names()),
        *itertools.product(("denoise", "text"), ("gru", "nc-gru", "urnn")),
    ],
)
def test_every_model_on_a_task_of_each_kind(tmp_path, text, task, model):
    """Exit 0 and a finished run."""
    file = ["--data", text] if task == "text" else []
    code, out, err = call(train.main, task, "--model", model, "--json", "--out", tmp_path / "run", *file, *TINY)
    assert code == 0, err
    metric = "bits_per_character" if task == "text" else "accuracy"
    assert json.loads(out)[metric] == read_metrics(tmp_path / "run")[-1][metric]
    orthogonal = models.names()[models.names().index("scornn") :]
    assert ("defect" in err) == (model in orthogonal and model != "fastrnn")


def test_a_language_model_goes_on(tmp_path, text):
    """Switches and lists need not be given again on resume; one that is given and differs is refused."""
    words = shlex.split("--hidden 6,5 --embedding 5 --tied --average 1 --windows random --scale-rate --beta 1")
    out = ["--data", text, "--out", tmp_path / "run"]
    assert call(train.main, "text", *out, *words, *TINY[2:])[0] == 0
    assert read_config(tmp_path / "run").items() >= {"hidden": [6, 5], "tied": True, "layers": 2}.items()
    assert call(train.main, "text", *out, "--resume")[0] == 0
    assert call(train.main, "text", *out, "--resume", "--tied", "--hidden", "6,5")[0] == 0
    assert call(train.main, "text", *out, "--resume", "--hidden", "6,6")[0] == 2
    code, printed, _ = call(
        evaluate.main, tmp_path / "run", "--data", text, "--sample", "5", "--which", "last", "--json"
    )
    assert code == 0
    found = json.loads(printed)
    assert found["evaluation_loss"] == read_metrics(tmp_path / "run")[-1]["evaluation_loss"]
    assert len(found["sample"]) == 6


# hidden sizes; -1 in D where the paper says; sections 4.1 to 4.4 of the NC-GRU paper
PAPER = {
    "parenthesis": {"length": 100, "batch": 16, "iterations": 20_000, "lr_orthogonal": 1e-3, "reset": 50},
    "denoise": {"length": 200, "batch": 128, "iterations": 10_000, "lr_orthogonal": 1e-3, "reset": 50},
    "adding": {"length": 200, "batch": 50, "iterations": 20_000, "lr_orthogonal": 1e-3, "reset": 50, "eval_every": 100},
    "copying": {"length": 1000, "batch": 50, "iterations": 10**4, "lr_orthogonal": 1e-4, "reset": 20, "eval_every": 50},
}
SIZES = {
    "parenthesis": {"lstm": 42, "gru": 50, "scornn": 110, "nc-gru": 56},
    "denoise": {"lstm": 90, "gru": 100, "scornn": 200, "nc-gru": 118},
    "adding": {"lstm": 68, "gru": 70, "scornn": 190, "nc-gru": 80},
    "copying": {"lstm": 68, "gru": 78, "scornn": 190, "nc-gru": 96},
}
NEGATIVE_ONES = {
    "parenthesis": {"scornn": 20, "nc-gru": 40},
    "denoise": {"nc-gru": 50},
    "adding": {"scornn": 95, "nc-gru": 43},
    "copying": {"scornn": 95, "nc-gru": 80},
}


@pytest.mark.parametrize("model", ["lstm", "gru", "scornn", "nc-gru"])
@pytest.mark.parametrize("task", PAPER)
def test_the_defaults_are_the_papers(task, model):
    """Length, batch, updates, Adam's rates, sizes, -1s and resets; one layer, U_c alone, the series of order 2."""
    config, paper = config_of(task, model=model), dict(PAPER[task])
    reset = paper.pop("reset")
    if model not in ("scornn", "nc-gru"):
        paper["lr_orthogonal"] = 1e-3  # of no weight
    expected = {"hidden": SIZES[task][model], "layers": 1, "lr": 1e-3, "optimizer": "adam", "weight_decay": 0.0}
    assert config.items() >= (expected | paper | {"clip": None, "dropout": 0.0, "schedule": "constant"}).items()
    own = make_trainer(config)
    assert own.optimizer.rates(0) == {"layer*.*.*": paper["lr_orthogonal"], "*": 1e-3}
    (layer,) = own.network.layers
    assert layer.sizes[1] == SIZES[task][model]
    if model in ("scornn", "nc-gru"):
        k = NEGATIVE_ONES[task].get(model, SIZES[task][model] // 2)
        ((name, p),) = layer.parametrizations.items()
        assert (name, p.negative_ones) == ("U_c" if model == "nc-gru" else "U", k)
    if model == "nc-gru":
        assert (p.order, p.reset_every) == (2, reset)


def test_what_is_not_given_is_written_down():
    """config.json says what was run: with another hidden size n / 2 entries -1; the rate of A in the paper's ratio."""
    assert config_of("parenthesis", hidden=10)["negative_ones"] == 5
    assert config_of("parenthesis", hidden=56)["negative_ones"] == 40
    assert config_of("copying", lr=0.5)["lr_orthogonal"] == 0.05
    assert config_of("copying", lr=1e-3) == config_of("copying")
    names = ("orthogonal", "order", "reset_every", "layout", "form")
    assert [config_of("copying")[name] for name in names] == ["c", "2", "20", "A", None]
    assert [config_of("denoise", model="gru")[name] for name in names] == [None, None, None, None, "paper"]
    with pytest.raises(
        TypeError, match=r"there is no option hiden \(did you mean 'hidden'\?\); allowed: model, hidden"
    ):
        config_of("copying", hiden=5)


# Bad input


BAD = [
    # unknown names
    ("gpt", "task is 'gpt'; allowed: 'parenthesis', 'denoise', 'adding', 'copying', 'text'"),
    ("parenthesis --model gpt", "model is 'gpt'; allowed: rnn, irnn, lstm, gru, gru-cudnn, "),
    ("parenthesis --clip value:x", "clip is 'value:x'; allowed: value:LIMIT or norm:LIMIT"),
    ("parenthesis --orthogonal x", "orthogonal is 'x'; allowed: 'c', 'rc', 'ruc'"),
    ("parenthesis --order 2.5", "order is '2.5'; allowed: 1, 2, 3 or exact"),
    ("parenthesis --reset-every often", "reset_every is 'often'; allowed: N or never"),
    ("copying --layout D", "layout is 'D'; allowed: 'A', 'B', 'C'"),
    ("parenthesis --dtype float16", "dtype is 'float16' (did you mean 'float64'?); allowed: float32, float64"),
    ("parenthesis --depth 3", "No such option: --depth (Possible options: --data, --dropout, --length)"),
    ("parenthesis more", "unexpected extra argument"),
    ("", "which task? One of parenthesis, denoise, "),
    ("parenthesis --hidden", "Option '--hidden' requires an argument"),
    ("parenthesis --seed 1 --seed=2", "--seed is given twice"),
    # options of another task or model
    ("parenthesis --model scornn --order 2", "scornn has no option 'order'; allowed: negative_ones"),
    ("parenthesis --model lstm --model-option style=fft", "--model-option names 'style'; allowed for lstm: none"),
    ("parenthesis --model goru --model-option style=fft --model-option style=tunable", "gives style twice: 'fft' and"),
    ("parenthesis --parametrize U_c=fft_rotations --parametrize U_c=free", "gives U_c twice: 'fft_rotations' and"),
    ("parenthesis --model goru --model-option capacity=nan", "capacity is 'nan'; allowed: an even number"),
    ("parenthesis --model goru --model-option activation=[1]", "activation is '[1]'; allowed: 'tanh', 'relu', 'mod"),
    ("parenthesis --model ornn --model-option reflections=true", "reflections is True; allowed: an integer"),
    ("parenthesis --parametrize U_c=volume_preserving:99999999", "parametrization is 'volume_preserving:99999999'"),
    ("parenthesis --parametrize U_c=householder:2 --order 3", "order is '3', but --parametrize replaces U_c"),
    ("parenthesis --model goru --model-option style", "--model-option is 'style'; allowed: NAME=VALUE"),
    ("parenthesis --model goru --model-option reset_gate=0", "reset_gate is 0; allowed: True, False"),
    ("parenthesis --model-option order=2", "--model-option names 'order', which is --order"),
    ("parenthesis --parametrize U_c", "--parametrize is 'U_c'; allowed: NAME=VALUE"),
    ("parenthesis --model gru --lr-orthogonal 1", "lr_orthogonal is 1.0, but gru has no orthogonal weight"),
    # numbers that are none
    ("parenthesis --layers x", "Invalid value for '--layers': Input should be a valid integer"),
    ("parenthesis --lr x", "Invalid value for '--lr': Input should be a valid number"),
    # impossible values
    *(
        (f"parenthesis --{name} 0", f"{name.replace('-', '_')} is 0; allowed: an integer >= 1")
        for name in ("batch", "iterations", "layers", "checkpoint-every", "log-every", "eval-every", "hidden", "length")
    ),
    ("parenthesis --reset-every 0", "reset_every is 0; allowed: an integer >= 1"),
    ("parenthesis --lr -0.1", "lr is -0.1; allowed: a finite number >= 0"),
    ("parenthesis --lr-orthogonal nan", "lr_orthogonal is nan; allowed: a finite number >= 0"),
    ("parenthesis --dropout 1.0", "dropout is 1.0; allowed: 0 <= dropout < 1"),
    ("parenthesis --weight-decay nan", "weight_decay is nan; allowed: a finite"),
    *(
        (f"parenthesis --clip {kind}:{v}", f"clip is '{kind}:{v}'; allowed: value:LIMIT or norm:LIMIT with LIMIT above")
        for kind, v in (("value", "0"), ("norm", "inf"))
    ),
    *(
        (f"parenthesis --schedule step:{v}", f"schedule is 'step:{v}'; allowed: constant, linear, or step:EVERY")
        for v in ("0:0.5", "2:1.5", "2", "2.5:0.5")
    ),
    ("parenthesis --engine quick", "engine is 'quick'; allowed: 'auto', 'fused', 'scan', 'persistent', 'compiled'"),
    ("parenthesis --engine persistent", "engine is 'persistent', which is for device 'gpu', and device is 'cpu'; all"),
    # language models
    *(
        ("text --data {good} " + words, message)
        for words, message in (
            ("--hidden 6,x", "hidden is '6,x'; allowed: an integer, or one for each layer: 430,1000,430"),
            ("--hidden 6,0", "hidden is 0; allowed: an integer >= 1"),
            ("--hidden 6,5 --layers 3", "layers is 3, but hidden has 2 sizes; allowed: 2"),
            (
                "--hidden 6 --rates readout=1",
                "--rates names 'readout', which matches no free parameter: readout.b, readout.W",
            ),
            ("--rates layer0.W_[!/]=1", "--rates names 'layer0.W_[!/]'; allowed: a pattern without /"),
            (
                "--hidden 6 --dropout-input 0.1",
                "--dropout-input is 0.1, and the input of text is tokens; give --embedding",
            ),
            (
                "--hidden 6 --rates read*=1 --rates readout.W=2",
                "--rates names 'readout.W' after patterns that match all its",
            ),
            ("--rates *=x", "--rates gives * the rate 'x'; allowed: a finite number >= 0"),
            ("--embedding -1", "embedding is -1; allowed: an integer >= 0"),
            ("--scale-rate", "--scale-rate is for --windows random; all windows of text have the same length"),
            ("--average 0", "average is 0; allowed: an integer >= 1"),
        )
    ),
    ("adding --embedding 4", "embedding is 4, but the input of adding is vectors, not tokens\n"),
    # files
    ("text --data {missing}", "data is {missing}: No such file or directory"),
    ("text --data {folder}", "data is {folder}: it is a folder, not a file"),
    ("text --data {good} --length 300", "{good} has 594 characters to train on; batch 2 and length 300"),
    ("text --data {good}[draft].txt", "{good}[draft].txt"),
    # folders
    ("parenthesis --resume", "{out} holds no run: there is no config.json in it"),
]


@pytest.fixture(scope="module")
def names(tmp_path_factory, text):
    """Files by what is wrong with them."""
    folder = tmp_path_factory.mktemp("bad")
    return {"missing": str(folder / "missing"), "folder": str(folder), "good": str(text)}


@pytest.mark.parametrize(("line", "message"), BAD, ids=[line or "nothing" for line, _ in BAD])
def test_bad_input(tmp_path, names, line, message):
    """Exit 2, nothing on stdout, one line on stderr that begins with "error: " and says what was given and what is
    allowed; no folder is left."""
    out = tmp_path / "run"
    words = line.format(**names).split()
    task, given = words[:1], words[1:]
    tiny = [word for pair in zip(TINY[::2], TINY[1::2], strict=True) if pair[0] not in given for word in pair]
    where = [] if "--out" in given else ["--out", str(out)]
    if line and given != ["--hidden"] and given != ["more"]:
        words = [*task, *([] if "--resume" in given else tiny), *where, *given]
    assert message.format(**names, out=out) in refusal(train.main, *words)
    assert not out.exists()


def test_another_engine(tmp_path):
    """--engine reaches the trainer and the config; `fused` reads what the run leaves; a config from before there was
    the option is one still."""
    engines = lambda network: [layer.engine for layer in network.layers]  # noqa: E731
    assert call(train.main, "copying", *TINY, "--engine", "scan", "--out", tmp_path / "run")[0] == 0
    with RunFolder(tmp_path / "run") as folder:
        config = read_run(folder)
    assert (config["engine"], engines(make_trainer(config).network)) == ("scan", ["scan"])
    assert engines(load(tmp_path / "run").network) == ["fused"]
    del config["engine"]
    check(config, FORM)
    assert engines(make_trainer(config).network) == ["fused"]


def test_the_engine_is_chosen_by_name(tmp_path, monkeypatch):
    """auto, the default: compiled, on a GPU persistent, where that can run every cell, else fused; the config, the
    checkpoint and all that go on have what was chosen."""
    out, own = tmp_path / "run", {"hidden": 6, "length": 5, "batch": 2, "iterations": 3}
    assert call(train.main, "copying", *TINY, "--engine", "auto", "--out", out)[0] == 0
    with RunFolder(out) as folder:
        config, state = read_run(folder), folder.state("last")
    assert (config["engine"], state["engine"]) == ("compiled", "compiled")
    again = ["copying", *TINY, "--out", out, "--resume"]
    assert "engine is 'fused'; the run in " in refusal(train.main, *again, "--engine", "fused")
    assert call(train.main, *again, "--engine", "auto")[0] == 0
    trainer = make_trainer(config | {"engine": "fused"})
    with pytest.raises(ValueError, match=r"^engine is 'fused'; .*last.safetensors is of 'compiled'$"):
        trainer.run(out, config, resume=True)
    assert config_of("copying", **(own | {"hidden": 1025}))["engine"] == "fused"
    assert config_of("copying", **own, device="gpu")["engine"] == "persistent"
    assert config_of("copying", **(own | {"hidden": 769}), device="gpu")["engine"] == "fused"
    with without_kernels():
        assert config_of("copying", **own, device="gpu")["engine"] == "fused"
    monkeypatch.setattr(compiled, "_is_there", lambda module: module != "numba")
    assert config_of("copying", **own)["engine"] == "fused"
    message = "engine is 'compiled', which needs Numba: pip install 'ortho-ref[fast]'"
    assert message in refusal(train.main, "copying", *TINY, "--engine", "compiled", "--out", tmp_path / "other")
    assert message in refusal(train.main, *again)


def test_threads_of_the_compiled_engine(tmp_path, monkeypatch):
    """All cores unless given; BLAS has one; a run goes on with any number, to the same bits."""
    assert config_of("copying", hidden=6, length=5)["threads"] == min(64, len(os.sched_getaffinity(0)))
    assert config_of("copying", hidden=6, length=5, engine="fused")["threads"] == 1
    large = ["copying", "--hidden", "6", "--length", "5", "--batch", "33", "--iterations", "4", "--log-every", "2"]
    monkeypatch.setattr(sequence, "WORTH", 0)
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert call(train.main, *large, "--threads", 4, "--out", whole)[0] == 0
    assert (compiled.threads(), {line.split()[-1] for line in blas()}) == (4, {"x1"})
    assert call(train.main, *large, "--threads", 1, "--checkpoint-every", 2, "--out", parts)[0] == 0
    (parts / "summary.json").unlink()
    assert call(train.main, *large, "--threads", 3, "--out", parts, "--resume", "--which", "previous")[0] == 0
    assert compiled.threads() == 3
    one, other = (load(path, "last") for path in (whole, parts))
    assert all(one.params[name].tobytes() == other.params[name].tobytes() for name in one.params)


# Folders that are used


def test_a_folder_that_is_used(finished):
    """A second run into the same folder is refused, in one line, and the first stays as it is."""
    out, _ = finished
    before = contents(out)
    said = refusal(train.main, "parenthesis", "--out", out, *TINY)
    assert said.startswith(f"error: out is {out}, which holds a run already (config.json); choose another folder, or ")
    assert contents(out) == before


@pytest.mark.parametrize(
    ("option", "value", "has"),
    [
        ("hidden", "7", "6"),
        ("model", "gru", "'nc-gru'"),
        ("lr", "0.002", "0.001"),
        ("clip", "norm:1", "None"),
        ("iterations", "2", "3: it can be made longer, not shorter"),
        ("reset-every", "never", "'50'"),
    ],
)
def test_resume_with_another_option(finished, option, value, has):
    """Refused in one line that names the option and both values; nothing is changed.  The task is one too."""
    out, _ = finished
    before = contents(out)
    stderr = refusal(train.main, "parenthesis", "--out", out, "--resume", f"--{option}", value)
    said = rf"error: {option.replace('-', '_')} is '?{value}'?; the run in {out} has {has}"
    assert stderr.replace("'", "") == said.replace("'?", "").replace("'", "") + "\n"
    assert contents(out) | {"lock": before["lock"]} == before
    stderr = refusal(train.main, "adding", "--out", out, "--resume")
    assert "'adding'" in stderr
    assert stderr.endswith(f"; the run in {out} has 'parenthesis'\n")


def test_resume_with_the_same_options(finished):
    """Accepted; a finished run says its end again, and no weight or line changes."""
    out, first = finished
    before = contents(out)
    again = ["--resume", "--json", "--seed", 5, "--lr", 1e-3, "--model", "nc-gru", *TINY]
    code, stdout, stderr = call(train.main, "parenthesis", "--out", out, *again)
    assert (code, stdout) == (0, first.stdout), stderr
    after = contents(out)
    for name in ("config.json", "metrics.jsonl", *(f"{which}.safetensors" for which in ("last", "previous", "best"))):
        assert after[name] == before[name]


def test_resume_after_the_text_has_changed(tmp_path):
    """The file's bytes are the run's: a text of the same length but for one character is refused."""
    path, out = tmp_path / "text.txt", tmp_path / "run"
    path.write_text("All work and no play. " * 30)
    assert call(train.main, "text", "--data", path, "--out", out, *TINY)[0] == 0
    assert str(path.parent) not in (out / "config.json").read_text()
    assert call(train.main, "text", "--data", path, "--out", out, "--resume")[0] == 0
    moved = path.rename(path.with_name("moved.txt"))
    assert call(train.main, "text", "--out", out, "--resume", "--data", moved)[0] == 0
    assert call(evaluate.main, out, "--data", moved)[0] == 0
    needed = "text needs --data DATA, a UTF-8 text"
    assert refusal(train.main, "text", "--out", out, "--resume") == f"error: {needed}\n"
    moved.rename(path)
    path.write_text("All work and no play! " + "All work and no play. " * 29)
    assert (
        refusal(train.main, "text", "--out", out, "--resume", "--data", path)
        == f"error: data is {path}, which is not what the run in {out} began with: text (by SHA-256)\n"
    )
    path.unlink()
    assert (
        refusal(train.main, "text", "--out", out, "--resume", "--data", path)
        == f"error: data is {path}: No such file or directory\n"
    )


def test_resume_by_other_libraries(tmp_path):
    """A note says that the bits may differ, and only then; --exact refuses."""
    out = tmp_path / "run"
    assert "note: the run" not in call(train.main, "parenthesis", "--out", out, *TINY)[2]
    for other in (False, True):
        if other:
            untouched, config = shutil.copytree(out, tmp_path / "untouched"), read_config(out)
            config["made_by"]["numpy"] = "1.0"
            write_config(out, config)
            sealing.seal(out, untouched)
        code, _, stderr = call(train.main, "parenthesis", "--out", out, "--resume")
        assert (code, "note: the run was begun by" in stderr) == (0, other), stderr
    stderr = refusal(train.main, "parenthesis", "--out", out, "--resume", "--exact")
    assert stderr.startswith("error: --exact, but the run was begun by {'ortho_ref': ")


def test_a_run_that_diverges(tmp_path):
    """Exit 1; the line names the update, what is not finite, and the checkpoint, which is there and good."""
    out = tmp_path / "run"
    arguments = ["--model", "irnn", "--optimizer", "sgd", "--lr", "1e30", "--out", out]
    code, stdout, stderr = call(train.main, "parenthesis", *arguments, *TINY)
    assert (code, stdout) == (1, "")
    line = stderr.splitlines()[-1]
    assert line.startswith("error: iteration ")
    assert line.endswith(f"; the last good checkpoint is {out / 'last.safetensors'}")
    assert "Traceback" not in stderr
    state = checkpoint.load(out / "last.safetensors")
    assert state["iteration"] == 0
    assert all(np.isfinite(value).all() for value in state["params"].values())


# Runs that are ended


RUN = shlex.split(
    "parenthesis --layers 2 --orthogonal rc --dropout 0.2 --reset-every 3 --hidden 6 --negative-ones 2 --length 5 "
    "--batch 2 --lr 0.05 --iterations 24 --log-every 3 --eval-every 10 --checkpoint-every 4"
)


#: What is not the same from run to run: speed, and what follows from it.
SPEED = ("metrics_sha256", "steps_per_second")


def end_of(out):
    """All that a finished run leaves, wall times aside, with arrays as bytes."""

    def plain(value):
        if isinstance(value, dict):
            return {key: plain(item) for key, item in value.items() if key not in SPEED}
        if isinstance(value, list | tuple):
            return [*map(plain, value)]
        if isinstance(value, np.ndarray):
            return value.dtype, value.shape, value.flags.c_contiguous, value.tobytes()
        return value

    trees = {name: plain(checkpoint.load(out / f"{name}.safetensors")) for name in ("last", "best")}
    for own in trees.values():
        del own["metrics"]  # in which the speeds are
    return trees | {
        "metrics": plain(read_metrics(out)),
        "summary": plain(read_summary(out)),
        "files": sorted(path.name for path in out.iterdir() if path.name != "curve.png"),
    }


@pytest.fixture(scope="module")
def uninterrupted(forks, tmp_path_factory):
    """What a run leaves that was not ended, how often it passed each point, and its folder."""
    out = tmp_path_factory.mktemp("uninterrupted") / "run"
    end = forks.train(*RUN, "--out", out)
    assert end["code"] == 0, end
    assert all(end["calls"][point] for point in POINTS)
    return end_of(out), end["calls"], out


@pytest.mark.parametrize(
    ("damaged", "whole"),
    [
        ("last.safetensors", "previous, best"),
        ("best.safetensors", "previous"),
        ("config.json", None),
        ("older", ""),
        ("lengthened", ""),
    ],
)
def test_a_damaged_run(tmp_path, uninterrupted, damaged, whole):
    """A file that cannot be read, is gone or of before is one line that names it, and what goes on without it: to the
    end of an undisturbed run, one that was lengthened to its own end."""
    expected, _, untouched = uninterrupted
    out = shutil.copytree(untouched, tmp_path / "run")
    if damaged == "older":
        shutil.copy(out / "previous.safetensors", out / "last.safetensors")
    elif damaged == "lengthened":
        assert call(train.main, "parenthesis", "--out", out, "--resume", "--iterations", 32)[0] == 0
        expected = end_of(out)
        (out / "last.safetensors").unlink()
    else:
        data = (out / damaged).read_bytes()
        (out / damaged).write_bytes(data[:-10])
    stderr = refusal(train.main, "parenthesis", "--out", out, "--resume")
    said, _, advised = stderr.strip().partition("; to go on: python -m scripts.train ")
    assert (advised == "") == (whole is None)
    if whole != "":
        assert said.startswith(f"error: {out / damaged} is damaged: ")
    if advised:
        assert said.endswith(f"; whole: {whole}" if whole else "")
        assert advised == f"parenthesis --out {out} --resume --which previous"
        assert call(train.main, *shlex.split(advised))[0] == 0
        assert end_of(out) == expected


@pytest.mark.parametrize(
    ("point", "share"),
    [
        *((point, 0.5) for point in POINTS),
        *((point, 0) for point in ("fsync", "file", "update")),
        *((point, 1) for point in ("renamed", "line", "evaluation")),
    ],
)
def test_a_run_that_is_killed_goes_on_to_the_same_bits(tmp_path, forks, uninterrupted, point, share):
    """SIGKILL at the first, the last and other passes of each point, and again while it is resumed: the run ends as if
    nothing had been, in weights, metrics, best checkpoint and files."""
    expected, calls, _ = uninterrupted
    out, number = tmp_path / "run", 1 + round(share * (calls[point] - 1))
    end = forks.train(*RUN, "--out", out, at=point, number=number)
    assert end["code"] == -signal.SIGKILL, end
    for again in (True, False):
        # killed before it had begun: there is no run yet, and nothing in the way of one
        arguments = (
            ["parenthesis", "--out", out, "--resume"] if (out / "config.json").exists() else [*RUN, "--out", out]
        )
        end = forks.train(*arguments, **({"at": point, "number": 3} if again else {}))
        assert end["code"] in ((0, -signal.SIGKILL) if again else (0,)), end
    assert end_of(out) == expected


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_and_says_how_to_go_on(tmp_path, forks, uninterrupted, number):
    """Exit 128 + the signal; after the update that was on, whatever checkpoint_every says; the line that it says does
    go on, to the same bits."""
    out = tmp_path / "a folder" / "run"
    end = forks.train(*RUN, "--out", out, at="update", number=7, send=[number])
    assert (end["code"], end["stdout"]) == (128 + number, ""), end
    *_, said, command = end["stderr"].splitlines()
    assert said == f"{signal.Signals(number).name}: saved after update 7 of 24; to go on:"
    assert checkpoint.load(out / "last.safetensors")["iteration"] == 7
    assert not (out / "summary.json").exists()
    assert command.startswith("python -m scripts.train ")
    resumed = forks.train(*shlex.split(command)[3:])
    assert resumed["code"] == 0, resumed["stderr"]
    assert end_of(out) == uninterrupted[0]


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="SIGHUP: POSIX")
def test_what_is_ignored_stays_so():
    """nohup has a program ignore SIGHUP: whoever logs out does not stop a run then.  The others are heard."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with signals() as received:
            os.kill(os.getpid(), signal.SIGHUP)
            assert received == []
            os.kill(os.getpid(), signal.SIGTERM)
            assert received == [signal.SIGTERM]
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_signal_at_the_last_update(tmp_path, forks, uninterrupted):
    """The run is finished: exit 0."""
    end = forks.train(*RUN, "--out", tmp_path / "run", at="update", number=24, send=[signal.SIGTERM])
    assert end["code"] == 0
    assert end_of(tmp_path / "run") == uninterrupted[0]


def test_a_second_signal_interrupts(tmp_path, forks, uninterrupted):
    """Without a checkpoint, in one line and with exit code 130; the run goes on from the checkpoint before."""
    out = tmp_path / "run"
    end = forks.train(*RUN, "--out", out, at="update", number=7, send=[signal.SIGINT, signal.SIGINT])
    assert (end["code"], end["stdout"]) == (130, "")
    said = (
        f"error: interrupted; go on from the last checkpoint: python -m scripts.train parenthesis --out {out} --resume"
    )
    assert end["stderr"].splitlines()[-1] == said
    assert checkpoint.load(out / "last.safetensors")["iteration"] == 4
    assert forks.train("parenthesis", "--out", out, "--resume")["code"] == 0
    assert end_of(out) == uninterrupted[0]


def test_a_real_process_is_killed(tmp_path, uninterrupted):
    """From outside, once it has written a line; while it runs its folder is refused to others."""
    out = tmp_path / "run"
    arguments = [str(10**6) if word == "24" else word for word in RUN]
    command = [sys.executable, "-m", "scripts.train", *arguments, "--out", str(out)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as running:
        try:
            assert any(said.startswith("3/1000000 ") for said in running.stderr)
            refused = call(train.main, "parenthesis", "--out", out, "--resume")
        finally:
            running.kill()
    assert refused == (2, "", f"error: out is {out}, which process {running.pid} is using\n")
    assert running.returncode == -signal.SIGKILL
    first = uninterrupted[0]["metrics"][0]
    assert {key: read_metrics(out)[0][key] for key in first} == first
    state = checkpoint.load(out / "last.safetensors")
    assert (out / "metrics.jsonl").read_bytes().startswith(state["metrics"].tobytes())
    assert not math.isnan(state["interval"]["total"])


# Longer runs, and runs that begin with another's weights


def test_a_run_is_lengthened(tmp_path):
    """--resume --iterations N goes on to N, finished or not; later --resume goes on to there."""
    base = ["adding", "--length", 5, "--hidden", 4, "--batch", 2, "--log-every", 2, "--eval-every", 3]
    out, other = tmp_path / "run", tmp_path / "other"
    assert call(train.main, *base, "--iterations", 4, "--out", out)[0] == 0
    code, _, stderr = call(train.main, "adding", "--out", out, "--resume", "--iterations", 9)
    assert code == 0, stderr
    assert call(train.main, "adding", "--out", out, "--resume")[0] == 0
    assert call(train.main, *base, "--iterations", 9, "--out", other)[0] == 0
    for name, value in load(other, "last").params.items():
        np.testing.assert_array_equal(load(out, "last").params[name], value)
    assert read_config(out)["iterations"] == 4
    assert read_summary(out)["iterations"] == 9
    assert [own.line for own in drawn([out, other])] == ["nc-gru, n = 4"] * 2
    for iterations, message in ((6, "has 9: it can be made longer, not shorter"), (4, "has 9: it can be made longer")):
        stderr = refusal(train.main, "adding", "--out", out, "--resume", "--iterations", iterations)
        assert f"iterations is {iterations}; the run in {out} {message}" in stderr


def test_a_schedule_of_the_length_is_not_lengthened(tmp_path):
    """Its rates would have been others from the first update on; steps of so many updates are none of these."""
    base = ["adding", "--length", 5, "--hidden", 4, "--batch", 2, "--iterations", 2]
    for schedule, code in (("linear", 2), ("step:1:0.5", 0)):
        out = tmp_path / schedule[:4]
        end, _, stderr = call(train.main, *base, "--schedule", schedule, "--out", out)
        assert (end, "longer: " in stderr) == (0, code == 0)
        found, _, stderr = call(train.main, "adding", "--out", out, "--resume", "--iterations", 3)
        assert found == code, stderr
        assert ("its schedule, linear, goes to zero over them" in stderr) == (code == 2)


def test_a_run_begins_with_another_runs_weights(tmp_path):
    """The best ones; the config says which, and --resume needs them no more."""
    base = ["adding", "--length", 5, "--hidden", 4, "--batch", 2, "--iterations", 3, "--eval-every", 1]
    first, second = tmp_path / "first", tmp_path / "second"
    assert call(train.main, *base, "--out", first)[0] == 0
    assert call(train.main, *base, "--lr", 0, "--lr-orthogonal", 0, "--init-from", first, "--out", second)[0] == 0
    for name, value in load(first).params.items():
        np.testing.assert_array_equal(load(second, "last").params[name], value)
    _, sha256 = checkpoint.load_with_hash(first / "best.safetensors", dict, None)
    damaged = shutil.copytree(first, tmp_path / "damaged")
    (damaged / "best.safetensors").write_bytes(b"")
    assert read_config(second)["init_from"] == {"checkpoint": "best", "sha256": sha256}
    assert call(train.main, "adding", "--out", second, "--resume", "--iterations", 4)[0] == 0
    for arguments, message in (
        ([*base, "--init-from", tmp_path / "none"], f"init_from is {tmp_path / 'none'}: "),
        ([*base, "--init-from", damaged], f"init_from is {damaged}: {damaged / 'best.safetensors'} is damaged: "),
        ([*base, "--model", "gru", "--init-from", first], "the network's is "),
        (["adding", "--resume", "--init-from", first], "--init-from is for a new run; one that goes on has its own"),
    ):
        out = second if "--resume" in arguments else tmp_path / "third"
        assert message in refusal(train.main, *arguments, "--out", out)
    assert not (tmp_path / "third").exists()
    for name in ("last.safetensors", "best.safetensors", "previous.safetensors", "summary.json"):
        (second / name).unlink()
    (second / "metrics.jsonl").write_bytes(b"")  # as where the disk was full at the first checkpoint
    stderr = refusal(train.main, "adding", "--out", second, "--resume")
    assert stderr.startswith(
        f"error: the run in {second} began with another run's weights, and has no checkpoint yet; "
    )
