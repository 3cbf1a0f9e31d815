"""What a language model is trained with where nothing is given: the papers' settings, docs/language-models.md."""

import shlex

import pytest

from ortho_ref import models
from scripts import train
from scripts.grid.build import make_optimizer
from scripts.grid.config import config_of
from scripts.grid.defaults import DEFAULTS
from scripts.grid.experiment.begun import differs
from scripts.grid.experiment.cells import cells_of
from scripts.grid.experiment.file import read
from tasks.windows import HALVED
from tests.ortho_ref.training.reading import read_config
from tests.scripts.runs import call

NOTHING = dict.fromkeys(("dropout", "dropout_words", "dropout_input", "dropout_hidden", "dropout_output"), 0.0)
NOTHING |= {"dropout_weights": 0.0, "alpha": 0.0, "beta": 0.0, "weight_decay": 0.0, "clip": None, "average": None}
AWD = NOTHING | {"optimizer": "adam", "schedule": "constant", "windows": "random", "scale_rate": True, "tied": True}
AWD |= {"state": "carried", "order": "2", "reset_every": "100", "model_options": {}}
CHARACTERS = {"batch": 32, "length": 100, "lr": 5e-4, "iterations": 163_000}
CHARACTERS |= {"dropout_input": 0.15, "dropout_hidden": 0.15, "dropout_output": 0.15}
NEGATIVE, FFT = {"negative_ones": 50}, {"model_options": {"style": "fft"}}
ORTHOGONAL = NEGATIVE | {"lr_orthogonal": 5e-4}
FREE = dict.fromkeys(("order", "reset_every", "negative_ones"))
GORU = NOTHING | FREE | {"batch": 32, "length": 50, "windows": "fixed", "state": "carried", "embedding": None}
SGORNN = NOTHING | FREE | {"batch": 100, "length": 300, "lr": 1e-3, "optimizer": "rmsprop-keras", "iterations": 9_000}
SGORNN |= {"windows": "fixed", "state": "zero", "schedule": "step:6000:0.1", "dropout_input": 0.3, "hidden": 256}
SGORNN |= {"embedding": 256, "tied": False, "model_options": {}}

PAPERS = [
    ("ptb-char", "nc-gru", AWD | CHARACTERS | ORTHOGONAL | {"hidden": [430, 1000, 430], "embedding": 430}),
    ("ptb-char", "lstm", AWD | CHARACTERS | FREE | {"hidden": [350, 880, 350], "embedding": 350}),
    ("ptb-char", "gru", AWD | CHARACTERS | FREE | {"hidden": [415, 950, 415], "embedding": 415}),
    ("ptb-char", "scornn", AWD | CHARACTERS | FREE | NEGATIVE | {"hidden": [500, 2000, 500], "embedding": 500}),
    ("ptb-char", "goru", GORU | {"hidden": 256, "lr": 1e-3, "optimizer": "rmsprop-tensorflow"}),
    ("ptb-char", "gru-modrelu", GORU | {"hidden": 216, "lr": 1e-3, "optimizer": "rmsprop-tensorflow:0.99"}),
    ("ptb-char", "urnn", GORU | {"hidden": 1024, "lr": 1e-4, "optimizer": "rmsprop-tensorflow"}),
    ("ptb-char", "eurnn", GORU | FFT | {"hidden": 1024, "lr": 1e-4, "optimizer": "rmsprop-tensorflow:0.5"}),
    ("ptb-char", "ornn", GORU | {"hidden": 512, "lr": 1e-4, "model_options": {"reflections": 510}}),
    (
        "ptb-word",
        "nc-gru",
        AWD
        | ORTHOGONAL
        | {"hidden": [400, 1150, 400], "lr": 5e-4, "embedding": 400}
        | {"batch": 20, "length": 70, "iterations": 343_000}
        | {"dropout_input": 0.4, "dropout_hidden": 0.4, "dropout_output": 0.25},
    ),
    ("ptb-word", "sgornn", SGORNN),
    ("ptb-word", "vprnn", SGORNN),
    ("ptb-word", "fastrnn", SGORNN | {"model_options": {"activation": "relu"}}),
    ("ptb-word", "lstm", SGORNN),
    (
        "wikitext-2",
        "nc-gru",
        AWD
        | {"hidden": [500, 1550, 500], "negative_ones": [100, 310, 100], "lr": 7e-4, "lr_orthogonal": 7e-4}
        | {"embedding": 500, "batch": 80, "length": 70, "iterations": 38_500, "alpha": 0.0008, "beta": 0.012}
        | {"dropout_words": 0.1, "dropout_input": 0.65, "dropout_hidden": 0.2, "dropout_output": 0.4},
    ),
]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Texts that are long enough for the papers' batches."""
    folder = tmp_path_factory.mktemp("texts")
    for name in ("ptb.{}.txt", "wiki.{}.tokens"):
        for part in ("train", "valid"):
            (folder / name.format(part)).write_text(" a cat sat \n" * (8000 if part == "train" else 9))
    return folder


@pytest.mark.parametrize(("task", "model", "expected"), PAPERS, ids=lambda value: value if type(value) is str else "")
def test_settings_of_the_papers(data, task, model, expected):
    """[ncgru:hyper] 4.5 to 4.7; [goru:hyper] 4.5, tables 3 and 8; [sgornn:hyper] 3.3: with no option but the data, each
    model has its paper's setting, and a network and an optimizer are made of it."""
    config = config_of(task, data=data, other_data=True, model=model)
    assert {name: config[name] for name in expected} == expected
    sizes = expected["hidden"] if isinstance(expected["hidden"], list) else [expected["hidden"]]
    network = models.network(**config["network"])
    assert [layer.sizes[1] for layer in network.layers] == sizes
    assert network.layers[0].sizes[0] == (config["embedding"] or network.input_size)
    assert set(make_optimizer(config).rates(0).values()) == {expected["lr"]}


def test_passes():
    """The papers' or AWD-LSTM's number of passes, by the mean length of a window; a best weight for each pass."""
    for task, rows, T, passes in (
        ("ptb-char", 158_110, 100, 100),
        ("ptb-word", 46_479, 70, 500),
        ("wikitext-2", 26_107, 70, 100),
    ):
        own = DEFAULTS[task]
        mean = (1 - HALVED) * (T - 0.5) + HALVED * (T / 2 - 0.5)
        assert own.iterations == passes * own.eval_every == passes * round(rows / mean)
    goru, sgornn = DEFAULTS["ptb-char"].models["goru"], DEFAULTS["ptb-word"].models["sgornn"]
    assert (goru.eval_every, goru.iterations) == (158_110 // 50, 40 * goru.eval_every)
    assert (sgornn.eval_every, sgornn.iterations) == (929_588 // 300 // 100, 300 * sgornn.eval_every)


TANH = {"model_options": {"activation": "tanh"}}
UNDROPPED = {"dropout_words": 0.0, "dropout_input": 0.0, "dropout_hidden": 0.15}


@pytest.mark.parametrize(
    ("task", "given", "expected"),
    [
        ("ptb-char", {"hidden": [9, 6]}, {"embedding": 6, "tied": True, "layers": 2, "negative_ones": [4, 3]}),
        ("ptb-char", {"hidden": 6, "model": "full-urnn"}, {"embedding": None, "tied": False, "length": 50}),
        ("ptb-word", {"hidden": 6, "model": "urnn"}, {"embedding": 12, "tied": True}),  # reads real and imaginary part
        ("ptb-word", {"hidden": 6, "model": "sgornn"}, {"embedding": 6, "tied": False}),
        ("ptb-word", {"hidden": 6, "embedding": 5}, {"embedding": 5, "tied": False}),
        ("ptb-word", {"hidden": 6, "tied": False}, {"embedding": 6, "tied": False}),
        ("wikitext-2", {"hidden": 6, "embedding": 0}, {"embedding": None, "tied": False, "dropout_words": 0.0}),
        ("ptb-word", {"hidden": 6, "state": "zero"}, {"windows": "fixed", "scale_rate": False, "tied": True}),
        ("ptb-word", {"hidden": 6, "windows": "fixed"}, {"windows": "fixed", "scale_rate": False}),
        ("ptb-word", {"hidden": 6, "scale_rate": False}, {"windows": "random", "scale_rate": False}),
        ("ptb-word", {"hidden": 6, "dropout_input": 0.0}, {"dropout_input": 0.0, "dropout_hidden": 0.4}),
        ("ptb-char", {"hidden": 6, "model": "ornn"}, {"model_options": {}, "length": 50}),
        ("ptb-char", {"hidden": 6, "model": "eurnn"}, {"model_options": {}}),
        ("ptb-char", {"model": "ornn", "model_options": {"reflections": 9}}, {"model_options": {"reflections": 9}}),
        ("ptb-char", {"model": "ornn"} | TANH, {"model_options": {"reflections": 510, "activation": "tanh"}}),
        ("ptb-word", {"model": "fastrnn"} | TANH, TANH),
        ("ptb-char", {"hidden": 6, "embedding": 0}, {"embedding": None, "tied": False} | UNDROPPED),
    ],
)
def test_what_does_not_go_with_what_is_given(data, task, given, expected):
    """An embedding follows the sizes, random windows a state that is carried, rates the windows; all else stays."""
    config = config_of(task, data=data, other_data=True, **given)
    assert {name: config[name] for name in expected} == expected


def test_switched_off_on_the_command_line(data, tmp_path):
    """--no-tied and --no-scale-rate."""
    words = "--other-data --no-tied --no-scale-rate --hidden 4 --batch 3 --iterations 1 --length 5"
    code, _, err = call(train.main, "ptb-word", "--data", data, "--out", tmp_path / "run", *shlex.split(words))
    assert code == 0, err
    config = read_config(tmp_path / "run")
    assert (config["tied"], config["scale_rate"], config["embedding"]) == (False, False, 4)


@pytest.mark.parametrize("text", ["rmsprop-keras:1", "rmsprop:", "rmsprop:x", "adam:0.9", "lion"])
def test_decays_that_are_none(text):
    """One line that names what was given and what is allowed."""
    with pytest.raises(
        ValueError, match=r"^(optimizer is '.*'; allowed: sgd, .*, rmsprop:0\.99|decay is 1\.0; allowed: )"
    ):
        make_optimizer(config_of("copying", optimizer=text))


def test_a_model_option_beside_the_tasks(data, tmp_path):
    """The same command line goes on with --resume, and a grid's file has its run, though the config has more options of
    the model than either; another value is another run."""
    words = (
        f"ptb-char --data {data} --other-data --model eurnn --batch 3 --iterations 1 --length 5 --out {tmp_path}/run"
    )
    for resume, value, code in (("", "false", 0), ("--resume", "false", 0), ("--resume", "true", 2)):
        end = call(train.main, *shlex.split(f"{words} --model-option complex={value} {resume}"))
        assert end[0] == code, end[2]
    assert end[2].startswith("error: model_options is {'complex': True}; the run in ")
    config = read_config(tmp_path / "run")
    assert config["model_options"] == {"style": "fft", "complex": False}
    path = tmp_path / "own.toml"
    for value, hidden, found in ((False, 1024, None), (True, 1024, "model_options"), (False, 512, "model_options")):
        own = f'{{ task = "ptb-char", model = "eurnn", model_options = {{ complex = {str(value).lower()} }} }}'
        path.write_text(f'format = "ortho_ref experiment 1"\ntitle = "Own"\noptions = {own}\n')
        (cell,) = cells_of(read(path))
        assert differs(cell, read(path), 1.0, config | {"hidden": hidden}) == found
