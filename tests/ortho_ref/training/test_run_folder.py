"""The files of a run hang together: what is not as it was written is refused wherever it is read; what is whole goes
on."""

import contextlib
import itertools
import json
import os
import shutil
import sys

import msgspec
import numpy as np
import pytest

from ortho_ref import files, formats
from ortho_ref.files import DamagedFile
from ortho_ref.losses import METRICS
from ortho_ref.training import checkpoint, forms, run_folder
from ortho_ref.training.run_folder import RunFolder
from ortho_ref.training.runs import TrainingRun, check_run, load
from scripts.maintain.timing.peak import traced
from tasks.parenthesis import Parenthesis
from tests.ortho_ref.training.reading import choices, contents, read_config, read_metrics, read_summary
from tests.ortho_ref.training.test_trainer import network_for, small_trainer

READERS = {
    "config.json": ("resume", "load", "config", "metrics", "summary"),
    "metrics.jsonl": ("metrics", "summary"),
    "last.safetensors": ("resume", "metrics", "summary"),
    "best.safetensors": ("resume", "load"),
    "summary.json": ("metrics", "summary"),
}
OPTIONS = {"checkpoint_every": 2, "log_every": 1}


def trainer(**options):
    return small_trainer(Parenthesis(5), "nc-gru", **OPTIONS | options)


def config(**changes):
    return {"network": network_for(Parenthesis(5), "nc-gru")} | changes


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A finished run: its folder."""
    out = tmp_path_factory.mktemp("finished") / "run"
    trainer().run(out, config())
    return out


@pytest.fixture(scope="module")
def half_done(tmp_path_factory):
    """A run that was stopped after five of seven updates, with a checkpoint before the last and a best one."""
    out, own = tmp_path_factory.mktemp("half") / "run", trainer()
    own.run(out, config(), should_stop=lambda: own.iteration == 5)
    assert sorted(contents(out)) == sorted(set(run_folder.RUN_FILES) - {"summary.json"} | {"lock"})
    return out


def read_by(reader, out):
    if reader == "resume":
        return trainer().run(out, config(), resume=True)
    return {"load": load, "config": read_config, "metrics": read_metrics, "summary": read_summary}[reader](out)


def end_of(out):
    """What a finished run leaves, the speed aside."""
    lines = [{k: v for k, v in line.items() if k != "steps_per_second"} for line in read_metrics(out)]
    states = {name: checkpoint.load(out / f"{name}.safetensors") for name in ("last", "best")}
    weights = {name: {k: v.tobytes() for k, v in state["params"].items()} for name, state in states.items()}
    return lines, weights, {name: state["generators"] for name, state in states.items()}


# Every bit


@pytest.mark.parametrize("name", READERS)
def test_every_flip_is_refused(finished, tmp_path, name):
    """A bit of every kind of byte of every file: each reader of it says which file it is, and changes nothing."""
    out = shutil.copytree(finished, tmp_path / "run")
    data = (out / name).read_bytes()
    rng = np.random.default_rng(list(name.encode()))
    for at in {0, len(data) - 1, *rng.integers(len(data), size=60).tolist()}:
        flipped = bytearray(data)
        flipped[at] ^= 1 << int(rng.integers(8))
        (out / name).write_bytes(flipped)
        before = contents(out)
        for reader in READERS[name]:
            with pytest.raises(ValueError, match=rf"{name} (is damaged: |has the format )"):
                read_by(reader, out)
        assert contents(out) == before


@pytest.mark.parametrize("name", READERS)
def test_every_cut_is_refused(finished, tmp_path, name):
    """At every length of a sample, to nothing too, and with bytes added."""
    out = shutil.copytree(finished, tmp_path / "run")
    data = (out / name).read_bytes()
    ends = np.random.default_rng(1).integers(len(data), size=20).tolist()
    line = data.find(b"\n") + 1 if name == "metrics.jsonl" else 0
    for other in [*(data[:end] for end in (0, 1, line, len(data) - 1, *ends)), data + b"\n", data + data]:
        (out / name).write_bytes(other)
        for reader in READERS[name]:
            with pytest.raises(ValueError, match=rf"{name} (is damaged: |has the format )"):
                read_by(reader, out)


@pytest.mark.parametrize("name", READERS)
def test_files_of_another_run(finished, tmp_path, name):
    """Each is whole, and does not belong to the others."""
    out = shutil.copytree(finished, tmp_path / "run")
    trainer(seed=1).run(tmp_path / "other", config(seed=1))
    shutil.copy(tmp_path / "other" / name, out / name)
    for reader in READERS[name]:
        if (name, reader) in (("config.json", "config"), ("config.json", "resume")):
            continue  # it is itself whole; the trainer compares it with its own
        with pytest.raises(ValueError, match=r"is damaged: "):
            read_by(reader, out)


@pytest.mark.parametrize("damage", ["flipped", "shorter", "gone", "of another run"])
def test_metrics_are_written_again(finished, half_done, tmp_path, damage):
    """From the checkpoint, which has them all, by a run that goes on, finished or not; weights are loaded without."""
    for i, source in enumerate((finished, half_done)):
        out = shutil.copytree(source, tmp_path / str(i))
        whole = (out / "metrics.jsonl").read_bytes()
        (out / "metrics.jsonl").write_bytes(
            {
                "flipped": whole.replace(b'"loss"', b'"lost"', 1),
                "shorter": whole[:-5],
                "gone": b"",
                "of another run": b"{}\n" + whole,
            }[damage]
        )
        if damage == "gone":
            (out / "metrics.jsonl").unlink()
        load(out)
        message = r"metrics\.jsonl is damaged: it.*; resume the run, which writes it again$"
        with pytest.raises(DamagedFile, match=message):
            read_metrics(out)
        trainer().run(out, config(), resume=True)
        assert end_of(out) == end_of(finished)


def test_a_reader_of_the_best_knows_the_last(finished, half_done, tmp_path):
    """An older best, and an older last beside a summary, are not taken for the run's."""
    out = changed(finished, tmp_path, "best", lambda loss: loss + 1, "best")
    for reader in ("load", "resume"):
        with pytest.raises(DamagedFile, match=r"best\.safetensors is damaged: its loss is .*; the smallest so far is "):
            read_by(reader, out)
    shutil.copy(out / "previous.safetensors", out / "last.safetensors")
    with pytest.raises(DamagedFile, match=r"last\.safetensors is damaged: it is not the one that summary\.json is of"):
        load(out, "last")


def test_an_edited_rate(finished, tmp_path):
    """The config is what the weights were made by: another rate, with a seal of its own, fits no checkpoint."""
    out = shutil.copytree(finished, tmp_path / "run")
    with RunFolder(out, "a") as folder:
        folder.write_document("config.json", run_folder.CONFIG_FORMAT, config(lr=0.5), forms.Config)
    with pytest.raises(DamagedFile, match=r"last\.safetensors is damaged: it is of another run than config\.json$"):
        trainer().run(out, config(lr=0.5), resume=True)
    with pytest.raises(DamagedFile, match=r"best\.safetensors is damaged: it is of another run than config\.json$"):
        load(out)


# What is whole goes on


@pytest.mark.parametrize("which", ["last", "previous", "best"])
@pytest.mark.parametrize("damaged", [(), ("last.safetensors",)], ids=["whole", "damaged"])
def test_a_run_goes_on_from_any_checkpoint(finished, half_done, tmp_path, which, damaged):
    """To the same bits, from one before the last too; a damaged last one is not in the way of the others."""
    out = shutil.copytree(half_done, tmp_path / "run")
    at = {name: checkpoint.load(out / f"{name}.safetensors")["iteration"] for name in run_folder.CHECKPOINTS}
    assert at == {"last": 5, "previous": 4, "best": 4}
    for name in damaged:
        (out / name).write_bytes(b"")
    own = trainer()
    if which == "last" and damaged:
        with pytest.raises(DamagedFile, match=r"; whole: which='previous' and which='best'$"):
            own.run(out, config(), resume=True)
        with pytest.raises(DamagedFile):
            own.run(out, config(), resume=True, which="last")
        return
    begun = []
    own.run(out, config(), resume=True, which=which, on_record=lambda record: begun.append(record["iteration"]))
    assert begun[0] == at[which] + 1
    assert end_of(out) == end_of(finished)
    assert choices(out) == ("last", "previous", "best")


@pytest.mark.parametrize("which", ["previous", "best"])
def test_a_finished_run_goes_back(finished, tmp_path, which):
    """And comes to the same end; its summary is away meanwhile."""
    out, own = shutil.copytree(finished, tmp_path / "run"), trainer()
    own.run(out, config(), resume=True, which=which, should_stop=lambda: True)
    assert not (out / "summary.json").exists() or own.iteration == 7
    trainer().run(out, config(), resume=True)
    assert end_of(out) == end_of(finished)
    left = {**read_summary(out), "steps_per_second": 0}
    assert left == {**read_summary(finished), "steps_per_second": 0}


def test_the_one_before_is_kept_until_the_next_is_whole(tmp_path, monkeypatch):
    """At every moment of a save there is a last checkpoint, and one before it or the same again."""
    seen, right = [], os.replace

    def replace(source, target, **folders):
        right(source, target, **folders)
        if (tmp_path / "last.safetensors").exists():
            seen.append(tuple(checkpoint.load(tmp_path / f"{name}.safetensors")["iteration"] for name in there()))

    def there():
        return [name for name in ("previous", "last") if (tmp_path / f"{name}.safetensors").exists()]

    monkeypatch.setattr(os, "replace", replace)
    trainer(evaluate_every=100).run(tmp_path, config())
    pairs = [pair for pair, _ in itertools.groupby(seen)]
    assert pairs == [(0,), (0, 0), (0, 2), (2, 2), (2, 4), (4, 4), (4, 6), (6, 6), (6, 7)]


@pytest.mark.parametrize("damage", ["cut", "gone"])
def test_a_best_that_is_lost(half_done, finished, tmp_path, damage):
    """Is said, by a finished run too; asked for by name, a run that is not finished goes on without it."""
    for source in (half_done, finished):
        out = shutil.copytree(source, tmp_path / source.parent.name)
        best = out / "best.safetensors"
        best.unlink() if damage == "gone" else best.write_bytes(best.read_bytes()[:-1])
        message = r"best\.safetensors is (gone|damaged: .*); whole: which="
        with pytest.raises(DamagedFile, match=message):
            trainer().run(out, config(), resume=True)
        with pytest.raises(DamagedFile, match=message + "'last' and which='previous'$"):
            load(out)
        assert load(out, "last").params.keys() == load(finished).params.keys()
    with pytest.raises(DamagedFile, match=message + "'previous'$"):
        trainer().run(out, config(), resume=True, which="last")
    out = tmp_path / half_done.parent.name
    own = trainer()
    own.run(out, config(), resume=True, which="last", should_stop=lambda: own.iteration == 6)
    assert not (out / "best.safetensors").exists()
    own.run(out, config(), resume=True)
    assert checkpoint.load(out / "best.safetensors")["iteration"] == 7
    assert end_of(out)[0] == end_of(finished)[0]


def test_which_goes_with_resume(tmp_path):
    """And is one of three."""
    with pytest.raises(ValueError, match=r"^which is 'best', but resume is False$"):
        trainer().run(tmp_path, which="best")
    with pytest.raises(ValueError, match=r"^which is 'first'; allowed: 'last', 'previous', 'best'$"):
        trainer().run(tmp_path, resume=True, which="first")
    own = trainer()
    own.run(tmp_path, config(), should_stop=lambda: own.iteration == 1)
    with pytest.raises(FileNotFoundError, match=r" has no best\.safetensors$"):
        trainer().run(tmp_path, config(), resume=True, which="best")


# Hostile files: the seals are right


def changed(run, tmp_path, path, change, which="last"):
    """A copy of a run, one entry of a checkpoint of which is changed and sealed as it has to be."""
    out = shutil.copytree(run, tmp_path / "run")
    state = checkpoint.load(out / f"{which}.safetensors")
    *way, last = path.split("/")
    tree = state
    for name in way:
        tree = tree[name]
    tree[last] = change(tree.get(last))
    if tree[last] is GONE:
        del tree[last]
    checkpoint.save(out / f"{which}.safetensors", state)
    return out


#: In the place of an entry: it is taken out.
GONE = object()


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("iteration", 10**18, r"its tree\.iteration is 10{18}; allowed: an integer from 0 to 1,000,000,000"),
        ("iteration", 6, "its iteration is 6 of 5"),
        ("iteration", -1, r"its tree\.iteration is -1; allowed: "),
        ("iteration", True, r"its tree\.iteration is True; allowed: an integer"),
        ("iteration", 5.0, r"its tree\.iteration is 5\.0; allowed: an integer"),
        ("interval/since", 9, "its iteration is 5 of 5"),
        ("interval/total", "1", r"its tree\.interval\.total is '1'; allowed: a finite number"),
        ("generators/data", None, r"its tree\.generators\.data is None; allowed: an object"),
        ("generators/data/bit_generator", "MT19937", r"bit_generator is 'MT19937'; allowed: 'PCG64'"),
        ("generators/dropout/state/state", 0.5, r"generators\.dropout\.state\.state is 0\.5; allowed: an integer"),
        ("best", "small", r"its tree\.best is 'small'; allowed: a finite number or null"),
        ("params", [], r"its tree\.params is \[\]; allowed: an object"),
        ("buffers", {"layer0.U_c": None}, r"its tree\.buffers\.layer0\.U_c is None; allowed: an object"),
        ("carried", {}, r"its tree\.carried is {}; allowed: a list or null"),
        ("more", 1, r"its tree has 'more'; allowed: settings, iteration, "),
        ("metrics", "", r"its tree\.metrics is ''; allowed: an object"),
        ("metrics", np.zeros(3, np.uint8), r"its metrics: line 1: "),
        ("config_sha256", "0" * 64, r"it is of another run than config\.json"),
    ],
)
def test_a_checkpoint_that_says_what_cannot_be(half_done, tmp_path, path, value, message):
    """Sealed as it has to be, and refused by its schema, or by what must agree: before anything is made of it."""
    shorter = changed(half_done, tmp_path / "shorter", "settings/iterations", lambda there: 5)
    out = changed(shorter, tmp_path, path, lambda there: value)
    with pytest.raises(DamagedFile, match=rf"(last\.safetensors|metrics\.jsonl) is damaged: .*{message}"):
        trainer(iterations=5).run(out, config(), resume=True)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("optimizer", {"*": 1}, "state has no step, buffers"),
        ("optimizer/buffers/readout.c", {}, "the optimizer knows readout.c, which the network has not"),
        ("optimizer/step", {}, r"last\.safetensors: state holds step or buffers of "),
        ("optimizer/step", [], r"last\.safetensors: state\.step is \[\]; allowed: an object"),
        ("optimizer/step/readout.b", [], r"last\.safetensors: state\.step\.readout\.b is \[\]; allowed: an integer"),
        ("optimizer/buffers/readout.b/v", np.zeros(110), r"is float64 .110,.; expected float32 .110,."),
        (
            "optimizer/buffers/readout.b/v",
            np.zeros((1, 110), np.float32),
            r"is float32 .1, 110.; expected float32 .110,.",
        ),
        ("optimizer/buffers/readout.b/m", np.zeros(1, np.float32), r"the optimizer's m of readout\.b is float32 "),
        ("settings/evaluate_every", 1.5, r"evaluate_every is 4; .*\.safetensors has 1\.5"),
        ("buffers/layer0.U_c/step", None, r"layer0\.U_c/step is NoneType; the network's is int"),
        ("buffers/layer0.U_c/step", 1.0, r"layer0\.U_c/step is float; the network's is int"),
    ],
)
@pytest.mark.parametrize("which", ["last", "best"])
def test_a_checkpoint_of_another_state(half_done, tmp_path, which, name, value, message):
    """Names, shapes, dtypes and types of moments and counts are the trainer's; of the best checkpoint too."""
    out = changed(half_done, tmp_path, name, lambda there: value, which)
    before = contents(out)
    with pytest.raises(ValueError, match=message.replace("last", which)):
        trainer().run(out, config(), resume=True)
    assert contents(out) == before


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("params/readout.b", lambda a: a * np.nan, r"params/readout\.b has an entry that is not finite"),
        ("params/layer0.W_r", lambda a: np.where(a == a.max(), np.inf, a), r"params/layer0\.W_r has an entry that"),
        ("buffers/layer0.U_c/U", lambda a: a * np.inf, r"buffers/layer0\.U_c/U has an entry that is not finite"),
        ("params/readout.b", lambda a: a.astype(float), r"readout\.b is float64 \(110,\); the network's is float32"),
        ("params/more", lambda a: np.zeros(2, np.float32), r"more is float32 \(2,\); the network's is missing"),
        (
            "buffers/layer0.U_c/U",
            lambda a: a[:1],
            r"layer0\.U_c(/U)? is (float32 )?\(1, 6\); the network's is (float32 )?\(6, 6",
        ),
        ("params/readout.b", lambda a: a[:3], r"readout\.b is (float32 )?\(3,\); the network's is (float32 )?\(110,"),
        (
            "params/layer0.W_c",
            lambda a: a.T,
            r"layer0\.W_c is (float32 )?\(30, 6\); the network's is (float32 )?\(6, 30",
        ),
        ("params/layer0.W_r", lambda a: GONE, r"layer0\.W_r is missing; the network's is (float32 )?\(6, 30\)"),
    ],
)
@pytest.mark.parametrize(("reader", "which"), [("load", "best"), ("resume", "best"), ("resume", "last")])
def test_a_checkpoint_of_other_arrays(half_done, tmp_path, reader, which, name, change, message):
    """Names, shapes and dtypes of parameters and buffers are the network's, and every entry is finite; the message
    names the file."""
    out = changed(half_done, tmp_path, name, change, which)
    before = contents(out)
    with pytest.raises(ValueError, match=rf"{which}\.safetensors.*: .*{message}"):
        read_by(reader, out)
    assert contents(out) == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda own: [own[0].astype(np.float16)], r"carried/0 is float16 \(B, 6\); expected float32 \(B, 6\)"),
        (lambda own: [own[0][:, :5]], r"carried/0 is float32 \(B, 5\); expected float32 \(B, 6\)"),
        (lambda own: [own[0][0]], r"carried/0 is float32 \(6,\); expected float32 \(B, 6\)"),
        (lambda own: [(own[0], own[0])], r"carried/0 is float32 \(B, 6\), float32 \(B, 6\); expected float32 \(B, 6\)"),
        (lambda own: [3], r"carried/0 is int; expected float32 \(B, 6\)"),
        (lambda own: [], r"carried is of 0 layers; the network has 1"),
    ],
)
def test_a_checkpoint_of_other_states(half_done, tmp_path, change, message):
    """What the next window would go on from."""
    out = changed(half_done, tmp_path, "carried", change)
    before = contents(out)
    with pytest.raises(ValueError, match=message):
        trainer().run(out, config(), resume=True)
    assert contents(out) == before


@pytest.mark.parametrize("which", ["last", "previous", "best"])
@pytest.mark.parametrize("kind", ["FIFO", "link", "folder"])
def test_metrics_that_are_no_file_are_refused_before_anything_is_changed(finished, tmp_path, which, kind):
    out = shutil.copytree(finished, tmp_path / "run")
    (out / "metrics.jsonl").unlink()
    {"FIFO": os.mkfifo, "link": lambda path: path.symlink_to(tmp_path), "folder": os.mkdir}[kind](out / "metrics.jsonl")
    names = sorted(path.name for path in out.iterdir() if path.name not in ("metrics.jsonl", "lock"))
    before = {name: (out / name).read_bytes() for name in names}
    with pytest.raises(OSError, match=r"metrics\.jsonl"):
        trainer().run(out, config(), resume=True, which=which)
    assert {name: (out / name).read_bytes() for name in names} == before


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"input_size": 10_000_000}, r"network\.input_size is 10000000; allowed: an integer from 1 to 1,000,000"),
        ({"input_size": 1_000_000}, r"layer0\.W_r is \(6, 30\); the network's is \(6, 1000000\)"),
        ({"hidden_sizes": [900_000]}, r"layer0\.W_r is \(6, 30\); the network's is \(900000, 30\)"),
        ({"hidden_sizes": "6"}, r"network\.hidden_sizes is '6'; allowed: a list"),
        ({"hidden_sizes": []}, r"network\.hidden_sizes is \[\]; allowed: a list of at least 1"),
        ({"loss": "none"}, r"network\.loss is 'none'; allowed: "),
        ({"dropout": "x"}, r"network\.dropout is 'x'; allowed: a finite number"),
        ({"order": -0.5}, r"config\.json: network: order is -0\.5; allowed: "),
        ({"more": 1}, r"config\.json: network: .*'more'"),
        ({"name": "gpt"}, r"config\.json: network: model is 'gpt'; allowed: "),
        ({"name": ["gru"]}, r"network\.name is \['gru'\]; allowed: a text"),
    ],
)
def test_a_network_that_is_not_the_checkpoints(finished, tmp_path, changes, message):
    """Sizes that do not agree are refused before memory is asked for."""
    out = shutil.copytree(finished, tmp_path / "run")
    whole = config()
    whole["network"] |= changes
    data, sha256 = formats.seal(whole, run_folder.CONFIG_FORMAT)
    (out / "config.json").write_bytes(data)
    for name in ("best", "last"):
        path = out / f"{name}.safetensors"
        own = {"config_sha256": sha256, "metrics": np.zeros(0, np.uint8)}
        checkpoint.save(path, checkpoint.load(path) | own)
    with pytest.raises(ValueError, match=message):
        load(out)


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"loss": None}, "the line.loss is None; allowed: a finite number"),
        ({"lost": 1}, r"the line has 'lost' \(did you mean 'loss'\?\); allowed: iteration, loss, "),
        ({"iteration": 0}, "the line.iteration is 0; allowed: an integer from 1"),
        ({"iteration": 1}, "iteration 1 comes after 1"),
        ({"weights": []}, r"the line\.weights is \[\]; allowed: an object"),
        ({"gradient_norm": -1}, "the line.gradient_norm is -1; allowed: a finite number from 0 on"),
    ],
)
def test_a_line_that_says_what_cannot_be(half_done, tmp_path, record, message):
    """Chained as it has to be."""
    out = shutil.copytree(half_done, tmp_path / "run")
    lines = (out / "metrics.jsonl").read_bytes().splitlines(keepends=True)
    whole = json.loads(lines[1])
    before = json.loads(lines[0])["sha256"]
    del whole["sha256"]
    line = run_folder._Log(before).add(whole | record)
    (out / "metrics.jsonl").write_bytes(lines[0] + line)
    for name in ("last.safetensors", "previous.safetensors", "best.safetensors"):
        (out / name).unlink()
    with pytest.raises(DamagedFile, match=rf"metrics\.jsonl is damaged: line 2: {message}"):
        read_metrics(out)


def ranges(schema, form=None, where=""):
    """Every place of a JSON Schema that numbers or lists are limited in, with the limits."""
    form = schema if form is None else form
    if "$ref" in form:
        form = schema["$defs"][form["$ref"].rpartition("/")[2]]
    if limits := tuple(form[word] for word in ("minimum", "maximum", "minItems", "maxItems") if word in form):
        yield where, limits
    for name, inner in form.get("properties", {}).items():
        yield from ranges(schema, inner, f"{where}.{name}" if where else name)
    for word, mark in (("items", "[]"), ("additionalProperties", "{}")):
        if isinstance(form.get(word), dict):
            yield from ranges(schema, form[word], where + mark)
    for one in form.get("anyOf", ()):
        yield from ranges(schema, one, where)


def test_the_range_of_every_number():
    """They are part of the formats: one that becomes narrower refuses what was written before."""
    size, count, anything = (1, 10**6), (0, 10**9), (0, sys.float_info.max)
    penalties = ("words", "inputs", "hidden", "outputs", "weights", "alpha", "beta")
    generator = {"has_uint32": (0, 1), "uinteger": (0, 2**32 - 1)}
    wanted = {
        forms.Network: {
            **dict.fromkeys(("input_size", "hidden_sizes[]", "output_size", "embedding"), size),
            "hidden_sizes": (1, 1000),
            "dropout": anything,
            **{f"regularizers.{name}": anything for name in penalties},
        },
        forms.Line: {"iteration": (1, 10**9), "gradient_norm": anything, "steps_per_second": anything},
        forms.Summary: {
            **dict.fromkeys((f"{name}.at" for name in ("evaluation_loss", *METRICS)), count),
            **dict.fromkeys(("iterations", "evaluations", "forced_resets"), count),
            "parameters": (0, 2**40),
            "steps_per_second": anything,
        },
        forms.State: {
            **dict.fromkeys(("iteration", "interval.since", "average.count"), count),
            **{f"generators.{of}.{name}": limits for of in ("data", "dropout") for name, limits in generator.items()},
        },
    }
    assert {form: dict(ranges(msgspec.json.schema(form))) for form in wanted} == wanted


def test_a_folder_in_the_place_of_a_file(half_done, tmp_path):
    """Is said before the first update, not when a checkpoint is to be written."""
    out = shutil.copytree(half_done, tmp_path / "run")
    (out / "previous.safetensors").unlink()
    (out / "previous.safetensors").mkdir()
    before = sorted(out.iterdir())
    with pytest.raises(OSError, match=r"previous\.safetensors is a folder, not a file; remove it$"):
        trainer().run(out, config(), resume=True)
    assert sorted(out.iterdir()) == before


def test_what_a_damaged_file_says_is_shown(half_done, tmp_path):
    """An escape sequence in a file does not reach who prints the error."""
    out = shutil.copytree(half_done, tmp_path / "run")
    (out / "config.json").write_bytes(b'{"format": "ortho_ref config 3", "network": {"name": "a\\u001b[2J"}}')
    with pytest.raises(DamagedFile) as caught:
        read_config(out)
    assert str(caught.value).isprintable()
    data = (out / "last.safetensors").read_bytes()
    (out / "last.safetensors").write_bytes(data.replace(b'"F32"', b'"\x1b[m"', 1))
    with pytest.raises(ValueError, match="config") as caught:
        load(out, "last")
    assert str(caught.value).isprintable()


def test_no_finished_run(half_done, tmp_path):
    """Of a run that is on there is no summary; of a folder that is none the message says so."""
    assert read_summary(half_done) is None
    with pytest.raises(FileNotFoundError, match=r"none holds no run: there is no config\.json in it"):
        read_summary(tmp_path / "none")


def test_a_line_that_cannot_be_written(half_done, tmp_path):
    """The error names the file, and is of the kind it was; closing the file, which fails as well, hides nothing."""
    resource = pytest.importorskip("resource", reason="limits of files: POSIX")
    out = shutil.copytree(half_done, tmp_path / "run")
    record, size = read_metrics(out)[-1] | {"iteration": 6}, (out / "metrics.jsonl").stat().st_size
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    def written():
        with RunFolder(out, "a") as folder:
            folder.go_on(None, folder.state_to_go_on())
            resource.setrlimit(resource.RLIMIT_FSIZE, (size + 9, hard))
            folder.add(record)

    try:
        with pytest.raises(OSError, match=r"metrics\.jsonl cannot be written: File too large$") as caught:
            written()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert caught.value.errno is None
    assert isinstance(caught.value.__cause__, OSError)
    assert read_metrics(out)[-1]["iteration"] == 5


@pytest.mark.parametrize("which", ["best", "previous", "last"])
def test_a_checkpoint_that_is_gone_on_from_is_the_last_one(half_done, tmp_path, monkeypatch, which):
    """From then on, before the first update: whoever is killed in it goes on from there."""
    out = shutil.copytree(half_done, tmp_path / "run")
    wanted = (out / f"{which}.safetensors").read_bytes()

    def killed(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(TrainingRun, "_train", killed)
    with pytest.raises(KeyboardInterrupt):
        trainer().run(out, config(), resume=True, which=which)
    assert (out / "last.safetensors").read_bytes() == wanted


@pytest.mark.parametrize("which", [None, *run_folder.CHECKPOINTS])
def test_a_run_that_goes_on_reads_each_checkpoint_once(half_done, tmp_path, monkeypatch, which):
    """What was checked is what is taken up: `scripts.train --resume` checks sizes and length first."""
    out = tmp_path / "run"
    shutil.copytree(half_done, out)
    read, names = files.read, []
    monkeypatch.setattr(files, "read", lambda path, folder=None: names.append(path.name) or read(path, folder))
    with RunFolder(out, "a") as folder:
        check_run(folder, which)
        assert folder.iterations(which) == 7
        trainer().run(folder, config(), resume=True, which=which)
    assert sorted(names) == sorted({*names}), names
    assert {run_folder.CHECKPOINTS[which or "last"], run_folder.BEST} <= {*names}


def test_an_older_folder_is_refused_by_its_version(finished, tmp_path):
    """As the commit before wrote it: no format in config.json; the error says who can go on with it."""
    out = shutil.copytree(finished, tmp_path / "run")
    (out / "config.json").write_text(json.dumps(config(), indent=2) + "\n")
    message = r"config\.json has the format None: written by another version of ortho_ref, which can go on with it; "
    for reader in READERS["config.json"]:
        with pytest.raises(ValueError, match=message):
            read_by(reader, out)


@pytest.mark.parametrize("name", [*run_folder.RUN_FILES, "lock"])
def test_no_link_is_followed(finished, half_done, tmp_path, name):
    """A folder from somebody else: what a file there leads to stays as it is, and is not read either."""
    for i, source in enumerate((finished, half_done)):
        out, victim = shutil.copytree(source, tmp_path / str(i)), tmp_path / f"victim-{i}"
        victim.write_bytes((out / name).read_bytes() if (out / name).exists() else b"mine")
        (out / name).unlink(missing_ok=True)
        (out / name).symlink_to(victim)
        before = victim.read_bytes()
        own = trainer(iterations=9)
        with contextlib.suppress(OSError, ValueError):
            own.run(out, config(), resume=True, lengthen=True)
        assert victim.read_bytes() == before
        if name == "lock":
            with pytest.raises(OSError, match=r"lock cannot be held: it is a link; remove it$"):
                trainer().run(out, config(), resume=True)
        elif (out / name).is_symlink():  # else a file was put in its place
            with pytest.raises(OSError, match=rf"{name} cannot be read: it is a link; remove it$"):
                RunFolder(out).read(name)


def test_a_folder_that_says_it_is_large(finished, tmp_path):
    """Sealed as it has to be, small, of an orthogonal weight of n = 6000: refused before the network is built."""
    out = shutil.copytree(finished, tmp_path / "run")
    whole, n = config(), 6000
    whole["network"] |= {"hidden_sizes": [n], "input_size": 1, "name": "scornn"}
    data, sha256 = formats.seal(whole, run_folder.CONFIG_FORMAT)
    (out / "config.json").write_bytes(data)
    state = checkpoint.load(out / "best.safetensors")
    zeros = {"layer0.W": (n, 1), "layer0.b": (n,), "readout.W": (10, n), "readout.b": (10,), "layer0.U.A": (1, 1)}
    state |= {"params": {name: np.zeros(shape, np.float32) for name, shape in zeros.items()}}
    state |= {"buffers": {"layer0.U": {"U": np.zeros((1, 1), np.float32)}}}
    state |= {"config_sha256": sha256, "metrics": np.zeros(0, np.uint8)}
    for name in ("best", "last"):
        checkpoint.save(out / f"{name}.safetensors", state)
    (out / "summary.json").unlink()

    def refused():
        with pytest.raises(ValueError, match=r"layer0\.U is \(1, 1\); the network's is \(6000, 6000\)"):
            load(out)

    assert traced(refused) < 8e6
