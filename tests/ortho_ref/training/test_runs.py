"""`runs`: what `load` and a resumed run refuse of arrays, lengthened runs, runs that begin with another's weights."""

import copy
import re
import shutil
from dataclasses import replace

import numpy as np
import pytest

from ortho_ref import files, models
from ortho_ref.files import GONE, DamagedFile
from ortho_ref.training import checkpoint
from ortho_ref.training.arrays import Arrays
from ortho_ref.training.optimizers import SGD, Adam, ByName
from ortho_ref.training.run_folder import RunFolder
from ortho_ref.training.runs import TrainingRun, check_run, load
from tasks.parenthesis import Parenthesis
from tests.ortho_ref.training.reading import contents, iterations_of, read_metrics, read_summary
from tests.ortho_ref.training.test_checkpoint import assert_same
from tests.ortho_ref.training.test_run_folder import changed, config
from tests.ortho_ref.training.test_trainer import network_for, small_trainer

OPTIONS = {"iterations": 6, "checkpoint_every": 2, "log_every": 1, "evaluate_every": 3}


def trainer(model="nc-gru", **options):
    return small_trainer(Parenthesis(5), model, **OPTIONS | options)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A finished run: its folder."""
    out = tmp_path_factory.mktemp("finished") / "run"
    trainer().run(out, config())
    return out


@pytest.fixture(scope="module")
def averaged(tmp_path_factory):
    """A finished run whose parameters are averaged, as the loss that is held out rises: its folder."""
    out = tmp_path_factory.mktemp("averaged") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TrainingRun, "evaluate", lambda own: {"evaluation_loss": own.iteration, "accuracy": 0.0})
        trainer(average_after=1, evaluate_every=1).run(out, config())
    return out


@pytest.mark.parametrize(
    ("given", "kind", "message"),
    [
        (
            {"network": models.network(**network_for(Parenthesis(5)))},
            TypeError,
            r"^config\['network'\] is a Network, and .*; allow",
        ),
        ({"seed": np.int64(3)}, TypeError, r"^config\['seed'\] is an int64, and .*; allowed: numbers, words, lists"),
        ({"rate": float("nan")}, ValueError, r"^config\['rate'\] is a float, and .*; allowed: numbers, words, lists"),
        ([3], TypeError, r"^config is a list; allowed: a dict, as {'network': options}$"),
    ],
)
def test_a_config_is_json(tmp_path, given, kind, message):
    """What cannot be written is refused by its name, before a folder is made."""
    with pytest.raises(kind, match=message):
        trainer().run(tmp_path / "run", given)
    assert not (tmp_path / "run").exists()


def test_load_takes_no_other_mean(averaged, tmp_path):
    """The mean of the parameters is looked at as they are."""
    assert load(averaged, "last").params["readout.b"].shape == (110,)
    out = changed(averaged, tmp_path, "average/params/readout.b", lambda a: a * np.nan, "last")
    with pytest.raises(ValueError, match=r"last\.safetensors: average/readout\.b has an entry that is not finite"):
        load(out, "last")


def test_load_of_float64_and_of_complex_weights(tmp_path):
    """The precision is that of the real parts."""
    for model, dtype in (("nc-gru", np.float64), ("urnn", np.float32), ("urnn", np.float64)):
        out = tmp_path / f"{model}-{np.dtype(dtype)}"
        trainer(model, dtype=dtype, iterations=1).run(out, config(network=network_for(Parenthesis(5), model)))
        assert {a.real.dtype for a in load(out).params.values()} == {np.dtype(dtype)}


def test_check_run_looks_at_sizes(tmp_path):
    """Of every layer, before memory is asked for; a run that names no network has nothing to look at."""
    network = config()["network"] | {"hidden_sizes": [6, 4]}
    own = replace(trainer(iterations=1), network=models.network(**network))
    own.run(tmp_path / "run", {"network": network})
    check_run(RunFolder(tmp_path / "run"))
    for name in ("layer0.W_r", "layer1.W_r", "readout.b"):
        out = changed(tmp_path / "run", tmp_path / name, f"params/{name}", lambda a: a[:1])
        with pytest.raises(ValueError, match=rf"last\.safetensors: {name} is \(1,.*\); the network's is \("):
            check_run(RunFolder(out))
    trainer(iterations=1).run(tmp_path / "bare")
    check_run(RunFolder(tmp_path / "bare"))


def test_the_cadence_of_a_run_by_default():
    """A line every 50 updates, an evaluation and a checkpoint every 1,000; given by name alone."""
    own = small_trainer(Parenthesis(5), iterations=10)
    other = {"network": own.network, "task": own.task, "optimizer": own.optimizer, "batch_size": 4, "iterations": 10}
    assert [getattr(TrainingRun(**other), f"{n}_every") for n in ("log", "evaluate", "checkpoint")] == [50, 1000, 1000]
    for name in ("iterations", "log_every", "evaluate_every", "checkpoint_every"):
        with pytest.raises(ValueError, match=f"{name} is 1000000001; allowed: at most 1,000,000,000"):
            TrainingRun(**other | {name: 10**9 + 1})
    with pytest.raises(TypeError, match="positional"):
        TrainingRun(
            own.network, own.task, own.optimizer, 4, 0, None, None, None, None, None, "cpu", np.float32, True, 10
        )
    with pytest.raises(TypeError, match="positional"):
        own.run("run", config(), True)


def test_a_last_checkpoint_that_is_gone(tmp_path):
    """A trainer that has done updates cannot go on without it."""
    own = trainer()
    own.run(tmp_path, config(), should_stop=lambda: own.iteration == 2)
    for path in [*tmp_path.iterdir()]:
        if path.name != "config.json":
            path.unlink()
    with pytest.raises(DamagedFile, match=re.escape(f"{tmp_path / 'last.safetensors'} is {GONE}")):
        own.run(tmp_path, config(), resume=True)


def test_another_process_that_begins_in_between(tmp_path, monkeypatch):
    """A folder that was empty before it was held is looked at again when it is held."""
    out, right = tmp_path / "run", files.locked

    def late(path, folder):
        (path / "config.json").write_text("{}")
        return right(path, folder)

    monkeypatch.setattr(files, "locked", late)
    with pytest.raises(FileExistsError, match=r"which holds a run already \(config\.json\)"):
        trainer().run(out, config())
    assert (out / "config.json").read_text() == "{}"


# Lengthened, and begun with another's weights


def lines(out):
    """Of metrics, the speed aside."""
    return {line["iteration"]: {k: v for k, v in line.items() if k != "steps_per_second"} for line in read_metrics(out)}


@pytest.mark.parametrize("stopped_after", [None, 4])
def test_a_longer_run(tmp_path, stopped_after):
    """The weights and lines of a run that was begun with as many updates; only the earlier end was evaluated too."""
    out, own = tmp_path / "run", trainer(iterations=5)
    own.run(out, config(), should_stop=lambda: own.iteration == stopped_after)
    assert iterations_of(out) == 5
    trainer(iterations=11).run(out, config(), resume=True, lengthen=True)
    trainer(iterations=11).run(tmp_path / "other", config())
    assert iterations_of(out) == 11
    ours, theirs = load(out, "last"), load(tmp_path / "other", "last")
    for name, value in theirs.params.items():
        np.testing.assert_array_equal(ours.params[name], value)
    extra = [] if stopped_after else [5]
    assert {i: line for i, line in lines(out).items() if i not in extra} == {
        i: line for i, line in lines(tmp_path / "other").items() if i not in extra
    }
    assert read_summary(out)["iterations"] == 11


@pytest.mark.parametrize("end", [3, 5, 6, 7])
def test_a_longer_run_that_averages(tmp_path, monkeypatch, end):
    """To the bit the mean of a run begun with as many updates, wherever the earlier end was: such a run does not see
    the loss there, which would pull the trigger."""
    losses = {3: 5.0, 5: 7.0, 6: 9.0, 7: 8.0, 9: 6.0, 12: 1.0, 14: 1.0}
    monkeypatch.setattr(TrainingRun, "evaluate", lambda own: {"evaluation_loss": losses[own.iteration], "accuracy": 0})
    trainer(iterations=end, average_after=1).run(tmp_path / "run", config())
    trainer(iterations=14, average_after=1).run(tmp_path / "run", config(), resume=True, lengthen=True)
    trainer(iterations=14, average_after=1).run(tmp_path / "other", config())
    ours, theirs = (checkpoint.load(tmp_path / name / "last.safetensors")["average"] for name in ("run", "other"))
    assert ours["count"] == theirs["count"] == 5
    for name, value in theirs["params"].items():
        np.testing.assert_array_equal(ours["params"][name], value)


def test_a_longer_run_that_is_killed_at_once(finished, tmp_path, monkeypatch):
    """After its checkpoint that knows of the new end, with the old summary there or not: it goes on."""
    whole = shutil.copytree(finished, tmp_path / "whole")
    trainer(iterations=9).run(whole, config(), resume=True, lengthen=True)
    for name in ("_train", "remove"):
        out = shutil.copytree(finished, tmp_path / name)

        def killed(own, *arguments, right=RunFolder.remove, of=name):
            if of == "_train" or arguments == ("summary.json",):
                raise KeyboardInterrupt
            right(own, *arguments)

        monkeypatch.setattr(TrainingRun if name == "_train" else RunFolder, name, killed)
        with pytest.raises(KeyboardInterrupt):
            trainer(iterations=9).run(out, config(), resume=True, lengthen=True)
        monkeypatch.undo()
        assert iterations_of(out) == 9
        assert (out / "summary.json").exists() == (name == "remove")
        own = trainer(iterations=9)
        own.run(out, config(), resume=True, should_stop=lambda own=own: own.iteration == 8)  # and once more
        assert not (out / "summary.json").exists()
        trainer(iterations=9).run(out, config(), resume=True)
        assert lines(out) == lines(whole)
        assert read_summary(out)["iterations"] == 9


@pytest.mark.parametrize("which", ["previous", None])
def test_a_longer_run_without_the_best_of_the_earlier_end(tmp_path, monkeypatch, which):
    """From before the earlier end, whose loss was the smallest and is evaluated no more: the best one is of later."""
    losses = {3: 2.0, 5: 1.0, 6: 3.0, 9: 4.0, 11: 5.0}
    monkeypatch.setattr(TrainingRun, "evaluate", lambda own: {"evaluation_loss": losses[own.iteration], "accuracy": 0})
    out = tmp_path / "run"
    trainer(iterations=5).run(out, config())
    if which is None:  # killed between its last two checkpoints
        (out / "summary.json").unlink()
        (out / "previous.safetensors").replace(out / "last.safetensors")
    own = trainer(iterations=11)
    own.run(out, config(), resume=True, which=which, lengthen=True, should_stop=lambda: own.iteration == 5)
    assert not (out / "best.safetensors").exists()
    for end in (7, 11):
        own = trainer(iterations=11)
        own.run(out, config(), resume=True, should_stop=lambda own=own, end=end: own.iteration == end)
        assert checkpoint.load(out / "best.safetensors")["iteration"] == 6
    load(out)


def test_what_is_not_lengthened(finished, tmp_path):
    """Shorter; without being told to; a new run; other settings."""
    before = contents(finished)
    for options, arguments, message in (
        ({"iterations": 4}, {"resume": True, "lengthen": True}, "iterations is 4; .*last.safetensors has 6"),
        ({"iterations": 8}, {"resume": True}, "iterations is 8; .*last.safetensors has 6"),
        ({"iterations": 8, "log_every": 2}, {"resume": True, "lengthen": True}, "log_every is 2; .* has 1"),
        ({"iterations": 8}, {"lengthen": True}, "lengthen is True, but resume is False"),
    ):
        with pytest.raises(ValueError, match=message):
            trainer(**options).run(finished, config(), **arguments)
    assert contents(finished) == before
    assert iterations_of(tmp_path) is None


def test_begun_with_another_runs_weights(finished, tmp_path):
    """Its best ones unless told otherwise; the first line's loss is of these."""
    own = trainer(seed=3)
    own.begin_with(finished)
    best = load(finished)
    for name, value in best.params.items():
        np.testing.assert_array_equal(own.params[name], value)
    np.testing.assert_array_equal(own.buffers["layer0.U_c"]["U"], best.buffers["layer0.U_c"]["U"])
    own.begin_with(finished, "last")
    np.testing.assert_array_equal(own.params["readout.W"], load(finished, "last").params["readout.W"])
    own.run(tmp_path / "run", config())
    with pytest.raises(ValueError, match="this trainer has done 6 updates; make a new one"):
        own.begin_with(finished)


def test_weights_that_are_not_the_networks(finished):
    """Another model's, another precision's, or other -1s in D, which another run's weights do not bring along: the
    message names the run and the first that differs."""
    negative = replace(trainer(), network=models.network(**network_for(Parenthesis(5), "nc-gru", negative_ones=2)))
    theirs = int((load(finished).buffers["layer0.U_c"]["D"] < 0).sum())
    other = r"\S+ is .*; the network's is "
    for own, message in (
        (trainer("gru"), other),
        (trainer(dtype=np.float64), other),
        (negative, rf"negative_ones of layer0\.U_c is {theirs}; the network's is 2$"),
    ):
        before = copy.deepcopy((own.params, own.buffers))
        with pytest.raises(ValueError, match=f"^{re.escape(f'{finished}: ')}{message}"):
            own.begin_with(finished)
        assert_same((own.params, own.buffers), before)


def test_what_counts_updates_begins_at_0(finished, tmp_path):
    """Resets fall due, and forced ones are counted, as in any new run; so is the Neumann condition."""
    run = changed(finished, tmp_path, "buffers/layer0.U_c/forced_resets", lambda count: count + 40, "best")
    assert load(run).buffers["layer0.U_c"]["step"] > 0
    own = trainer(seed=3)
    own.begin_with(run)
    assert (own.buffers["layer0.U_c"]["step"], own.health()["layer0.U_c"]["forced_resets"]) == (0, 0)
    assert own.health()["layer0.U_c"]["condition"] == 0


def test_a_pattern_that_is_a_parameters_name(tmp_path):
    """Is no name of the optimizer's state: the run goes on, and an unknown parameter in it is refused as ever."""
    network = models.network(**config()["network"])

    def own():
        optimizer = ByName({"readout.b": Adam(1e-1), "readout.W": SGD(1e-2), "*": Adam(1e-2)})
        return TrainingRun(network, Parenthesis(5), optimizer, 4, **OPTIONS)

    out, first = tmp_path / "run", own()
    first.run(out, config(), should_stop=lambda: first.iteration == 4)
    wrong = changed(out, tmp_path / "wrong", "optimizer/*/buffers/readout.c", lambda there: {}, "last")
    with pytest.raises(ValueError, match=r"the optimizer knows readout\.c, which the network has not"):
        own().run(wrong, config(), resume=True)
    own().run(out, config(), resume=True)
    own().run(tmp_path / "other", config())
    assert lines(out) == lines(tmp_path / "other")


@pytest.mark.parametrize(
    "changes", [{"name": "scornn"}, {"orthogonal": "rc"}, {"order": 1}, {"hidden_sizes": [6, 6]}, {"dropout": 0.5}]
)
def test_a_config_of_another_network(tmp_path, changes):
    """Is refused before a run begins: `load` would build that one, and the weights may fit it."""
    own = trainer()
    other = config()["network"] | changes
    with pytest.raises(ValueError, match=r"^config\['network'\] makes .*; the trainer has "):
        own.run(tmp_path / "run", {"network": other})
    with pytest.raises(ValueError, match=r"^config\['network'\]: model is 'none'; allowed: "):
        own.run(tmp_path / "run", {"network": other | {"name": "none"}})
    assert not (tmp_path / "run").exists()
    own.run(tmp_path / "run", {"network": config()["network"] | {"reset_bias": 0.5}})


def test_settings_in_numpys_numbers(tmp_path):
    """Are those in Python's: such a run is saved, and goes on as one that is given the other."""
    own = trainer(
        iterations=np.int64(6), batch_size=np.int32(4), clip_norm=np.float64(0.5), checkpoint_every=np.int8(2)
    )
    own.run(out=tmp_path / "run", config=config())
    trainer(iterations=8, batch_size=4, clip_norm=0.5).run(tmp_path / "run", config(), resume=True, lengthen=True)
    assert checkpoint.load(tmp_path / "run" / "last.safetensors")["settings"]["clip_norm"] == 0.5


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (lambda x, y, held: (x + 1, y, held), "held out"),
        (lambda x, y, held: (x, y[::-1].copy(), held), "held out"),
        (lambda x, y, held: (x, y, held + 1), "held out"),
        (lambda x, y, held: (np.concatenate([x[:1] + 1, x[1:]]), y, held), "trained on"),
    ],
)
def test_arrays_of_ones_own_are_the_runs(tmp_path, change, part):
    """A run that was stopped goes on with its own, and with no others: config.json knows them by their SHA-256."""
    rng = np.random.default_rng(0)
    given = rng.random((12, 5, 2), np.float32), rng.integers(0, 2, 12), 4

    def own(x, y, held_out):
        task = Arrays(x, y, held_out=held_out)
        options = {"name": "gru", "hidden_sizes": [3]} | task.sizes_of_network
        return TrainingRun(models.network(**options), task, Adam(), 4, iterations=5, log_every=1), {"network": options}

    run, options = own(*given)
    run.run(tmp_path, options, should_stop=lambda: run.iteration == 2)
    other, options = own(*change(*given))
    with pytest.raises(ValueError, match=f"^data: sha256: {part} is '.*'; the run in {tmp_path} has '"):
        other.run(tmp_path, options, resume=True)
    again, options = own(*(value.copy() if isinstance(value, np.ndarray) else value for value in given))
    assert len(again.run(tmp_path, options, resume=True)) == 5
