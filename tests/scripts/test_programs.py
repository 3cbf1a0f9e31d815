"""check_gradients, benchmark, demo, evaluate and plot, run in this process."""

import importlib
import inspect
import json
import re
import shutil
import sys

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from gradients import checks
from ortho_ref import backend, fused
from ortho_ref.parametrizations import ScaledCayley
from ortho_ref.parametrizations.by_name import FORMS
from ortho_ref.training import checkpoint
from ortho_ref.training.runs import load
from ortho_ref.training.trainer import Trainer
from scripts import bounds, check_gradients, demo, evaluate, experiment, plot, train
from scripts.grid.experiment import engine
from scripts.grid.experiment.cells import cells_of
from scripts.grid.experiment.file import read
from scripts.grid.experiment.grid import Grid
from scripts.grid.experiment.worker import DONE, work
from scripts.grid.options import OPTIONS
from scripts.maintain import benchmark, training_speed
from scripts.maintain.timing.steps import Size
from scripts.pictures.runs import drawn
from tests.ortho_ref.training.reading import read_config, read_metrics, write_config
from tests.scripts.grids import read_measured, read_sessions
from tests.scripts.runs import ROOT, call, forked, refusal
from tests.torture import sealing


def run(main, *arguments):
    """The program's exit code and output."""
    app = typer.Typer()
    app.command()(main)
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": "200"})
    return result.exit_code, result.output


def test_check_gradients_lists_everything(monkeypatch):
    """Every cell x activation, every parametrization, every model; exit code 0.  `make crosscheck` computes all."""

    def fine(subject_of):
        return lambda *given, **options: checks.Result(subject_of(*given, **options), 0.0, 0.0, None)

    monkeypatch.setattr(checks, "check_cell", fine(lambda name, *_: name))
    monkeypatch.setattr(checks, "check_parametrization", fine(lambda name, n, *_: f"{name}, n = {n}"))
    for check in ("check_network", "check_language_model", "check_reader"):
        monkeypatch.setattr(checks, check, fine(lambda name, *_, **options: f"{name} {options}"))
    code, output = run(check_gradients.main, "--seed", "1")
    assert code == 0, output
    assert "FAIL" not in output
    kinds = {name.split(":")[0] for name, *_ in checks.parametrizations()}
    assert kinds == {form.split(":")[0].split("[")[0] for form in FORMS.split(", ")} - {"free"}
    for subject in (*checks.cells(), *kinds, "scornn", "nc-gru {'orthogonal': 'ruc'}", "irnn"):
        assert subject in output


def test_check_gradients_of_some_rows():
    """Those whose subject has it, of cells, maps and networks; none at all is no success."""
    code, output = run(check_gradients.main, "--only", "goru reset")
    assert code == 0, output
    assert re.findall(r"^ *(\S.*?)  .* ok", output, re.M) == ["2 x goru reset_gate=False"]
    code, output = run(check_gradients.main, "--only", "lstm, twice")
    assert code == 2
    assert "only is 'lstm, twice', which no subject contains" in output


PNG = b"\x89PNG"
TINY = ["--hidden", "6", "--length", "5", "--batch", "2", "--iterations", "6", "--log-every", "2", "--eval-every", "3"]


def test_demo_draws_its_picture(tmp_path, monkeypatch):
    """Two runs as `train` leaves them, and a PNG; what is done is not done again; another demo is refused."""
    monkeypatch.setattr(engine, "start", forked)
    command = ["--out", tmp_path, "--iterations", 2, "--jobs", 2]
    for _ in range(2):
        code, stdout, stderr = call(demo.main, *command)
        assert (code, stdout) == (0, ""), stderr
        for model, folder in (("NC-GRU(U_c), n = 56", "nc-gru-u-c-n=56"), ("GRU, n = 50", "gru-n=50")):
            run = tmp_path / folder / "all" / "seed-0"
            assert (read_config(run)["task"], read_config(run)["length"]) == ("parenthesis", 100)
            (line,) = read_metrics(run)
            assert f"{model}: held-out loss {line['evaluation_loss']:.4f}, accuracy {line['accuracy']:.4f}" in stderr
            assert len(read_sessions(run)) == 1
    assert (tmp_path / "demo.png").read_bytes().startswith(PNG)
    assert "baseline (best constant prediction per step): 1.26" in stderr
    assert stderr.endswith(f"picture: {tmp_path / 'demo.png'}\n")
    fails(demo.main, "--out", tmp_path, "--iterations", 3, message="iterations is 3; the run in ")


def test_demo_refuses(tmp_path):
    """Impossible values and folders: one line, exit 2; what stands in the way is left alone."""
    for arguments, message in (
        (["--out", tmp_path / "a", "--iterations", "0"], "iterations is 0; allowed: an integer >= 1"),
        (["--out", tmp_path / "a", "--seed", "-1"], "seed is -1; allowed: an integer >= 0"),
        ([], "Missing option '--out'"),
    ):
        fails(demo.main, *arguments, message=message)
    assert not (tmp_path / "a").exists()
    (tmp_path / "gru").write_text("")
    fails(demo.main, "--out", tmp_path / "gru", "--iterations", 1, message="Not a directory")


def fails(main, *arguments, message):
    """Exit 2, nothing on stdout, and one line with the message."""
    assert message in refusal(main, *arguments)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Name -> folder of a finished run: with an orthogonal weight, without, and of a text."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "text.txt").write_text("All work and no play. " * 40)
    for name, arguments in {
        "nc-gru": ["parenthesis", "--model", "nc-gru", "--lr", "0.1", "--engine", "scan"],
        "gru": ["parenthesis", "--model", "gru"],
        "text": ["text", "--data", folder / "text.txt", "--model", "lstm", "--lr", "3"],
    }.items():
        code, _, stderr = call(train.main, *arguments, "--out", folder / name, *TINY)
        assert code == 0, stderr
    return {path.name: path for path in folder.iterdir()}


# evaluate


def data_of(folder):
    """Where the data of one of `runs` are, as the command line has it."""
    return ["--data", folder.parent / "text.txt"] if folder.name == "text" else []


def evaluated(line):
    """What `evaluate` prints, of a line of metrics."""
    return {key: line[key] for key in ("evaluation_loss", "accuracy", "bits_per_character") if key in line}


@pytest.mark.parametrize("name", ["nc-gru", "gru", "text"])
def test_evaluate_gives_what_training_gave(runs, name):
    """To the bit: the best evaluation of the run, or with --which last the last; the text's best is its first."""
    first, last = (line for line in read_metrics(runs[name]) if "evaluation_loss" in line)
    assert (first["evaluation_loss"] < last["evaluation_loss"]) == (name == "text")
    for which, line in ((None, min(first, last, key=lambda line: line["evaluation_loss"])), ("last", last)):
        code, stdout, stderr = call(
            evaluate.main, runs[name], "--json", *data_of(runs[name]), *(["--which", which] if which else [])
        )
        assert code == 0, stderr
        assert json.loads(stdout) == evaluated(line)
        config = read_config(runs[name])
        assert stderr.startswith(f"{config['model']}, n = 6, {config['task']}; baseline loss ")


def test_weights_that_are_too_large_to_evaluate(runs, tmp_path):
    """Finite, but their products are not: one line, exit code 1, and no warning of NumPy's."""
    folder = shutil.copytree(runs["gru"], tmp_path / "run")
    state = checkpoint.load(folder / "best.safetensors")
    signs = np.where(np.arange(len(state["params"]["readout.b"])) % 2, -1, 1).astype(np.float32)
    state["params"] |= {"readout.W": signs[:, None] * np.full((1, 6), 3e38, np.float32), "readout.b": signs * 3.4e38}
    state["params"] |= {name: value.astype(np.float32) for name, value in state["params"].items()}
    checkpoint.save(folder / "best.safetensors", state)
    code, stdout, stderr = call(evaluate.main, folder)
    assert (code, stdout, stderr.count("\n")) == (1, "", 1), stderr
    assert re.search(r"error: .*run: the loss is (nan|inf): its weights are too large to compute with", stderr)


def sampled(folder, *arguments):
    """The sample that `evaluate` prints after the line of figures."""
    code, stdout, stderr = call(evaluate.main, folder, *data_of(folder), *arguments)
    assert code == 0, stderr
    return stdout.partition("\n")[2].removesuffix("\n")


def test_a_sample_of_text(runs):
    """As long as asked, after the prompt, in the text's alphabet; the seed is everything; none of a text task's length
    0 but the prompt; a cold sample is the most likely text, whatever the seed."""
    text = runs["text"]
    alphabet = set((text.parent / "text.txt").read_text())
    sample = sampled(text, "--sample", 50, "--prompt", "no ")
    assert sample.startswith("no ")
    assert len(sample) == 53
    assert set(sample) <= alphabet
    assert sampled(text, "--sample", 50, "--prompt", "no ") == sample
    assert sampled(text, "--sample", 50, "--prompt", "no ", "--seed", 1) != sample
    assert sampled(text, "--sample", 0, "--prompt", "no ") == "no "
    assert len(sampled(text)) == 401
    cold, hot = ({sampled(text, "--temperature", t, "--seed", seed) for seed in (0, 1, 2)} for t in (1e-6, 1e6))
    assert len(cold) == 1
    assert set("".join(hot)) == alphabet


def test_a_sample_follows_the_network(runs):
    """Character by character, each from the network's outputs after the whole text before it."""
    text, T = runs["text"], 12
    network, params, buffers = load(text)
    alphabet = sorted(set((text.parent / "text.txt").read_text()))
    sample = sampled(text, "--sample", T, "--prompt", "All", "--temperature", 1e-6)
    tokens = np.array([alphabet.index(character) for character in sample])
    for i in range(3, 3 + T):
        outputs = network.forward(params, buffers, tokens[:i, None]).outputs[-1, 0]
        assert outputs.argmax() == tokens[i]


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("text", "--temperature 0", "temperature is 0.0; allowed: a finite number above 0"),
        ("text", "--temperature nan", "temperature is nan; allowed"),
        ("text", "--temperature inf", "temperature is inf; allowed"),
        ("text", "--prompt Zebra", "prompt is 'Zebra'; allowed: characters of the text, at least one"),
        ("text", "--sample -1", "sample is -1; allowed: an integer >= 0"),
        ("text", "--seed -1", "seed is -1; allowed: an integer >= 0"),
        ("text", "--which first", "which is 'first'; allowed: 'last', 'previous', 'best'"),
        ("text", "--device tpu", "device is 'tpu'; allowed: "),
        ("gru", "--prompt x", "--prompt is for text; parenthesis has none"),
        ("gru", "--eval-part test", "--eval-part is for tasks on a data set with parts; parenthesis has none"),
        ("text", "--eval-part test", "--eval-part is for tasks on a data set with parts; text has none"),
        ("none", "", "none holds no run: there is no config.json in it"),
        ("text.txt", "", "text.txt holds no run: there is no config.json in it"),
    ],
)
def test_evaluate_refuses(runs, name, arguments, message, monkeypatch):
    """One line, exit 2, before anything is evaluated."""
    monkeypatch.setattr(evaluate, "evaluate", lambda *arguments: pytest.fail("it was evaluated"))
    folder = runs.get(name, runs["gru"].parent / name)
    fails(evaluate.main, folder, *data_of(folder), *arguments.split(), message=message)


def test_evaluate_of_a_damaged_run(runs, tmp_path):
    """One line that names the file, exit 2; the last checkpoint is taken for the best where it is asked for only."""
    for name in ("config.json", "best.safetensors"):
        folder = shutil.copytree(runs["gru"], tmp_path / name)
        (folder / name).write_bytes((folder / name).read_bytes()[:50])
        fails(evaluate.main, folder, message=f"{folder / name} is damaged: ")
    (folder / "best.safetensors").unlink()
    fails(evaluate.main, folder, "--which", "best", message=f"{folder} has no best.safetensors\n")
    fails(
        evaluate.main, folder, message=f"{folder / 'best.safetensors'} is gone; whole: --which last, --which previous\n"
    )
    code, stdout, _ = call(evaluate.main, folder, "--which", "last", "--json")
    assert (code, json.loads(stdout)) == (0, evaluated(read_metrics(folder)[-1]))


def test_evaluate_of_another_text_or_task(runs, tmp_path):
    """A text that has changed since, to fewer characters or the same ones, and a config that train has not written:
    one line, exit 2."""
    folder, file = shutil.copytree(runs["text"], tmp_path / "run"), tmp_path / "text.txt"
    for text in ("All work." * 100, "No play and all work. " * 40):
        file.write_text(text)
        message = f"data is {file}, which is not what the run in {folder} began with: text (by SHA-256)"
        fails(evaluate.main, folder, "--data", file, message=message)
    fails(evaluate.main, folder, message="text needs --data DATA, a UTF-8 text")
    whole, written = read_config(folder), f"{folder / 'config.json'} was not written by scripts.train: "
    write_config(folder, whole | {"threads": 0})
    message = f"{written}threads is 0; allowed: an integer from 1 to 64"
    fails(train.main, "text", "--data", file, "--out", folder, "--resume", message=message)
    write_config(folder, {"network": whole["network"]})
    sealing.seal(folder, runs["text"])
    fails(evaluate.main, folder, message=f"{written}the document has no model, ")
    (folder / "config.json").write_text(json.dumps({"network": whole["network"]}))
    message = f"{folder / 'config.json'} has the format None: written by another version of "
    fails(evaluate.main, folder, message=message)


# plot


@pytest.mark.parametrize("names", [["nc-gru", "gru", "text"], ["gru", "gru"]])
def test_plot_draws(runs, tmp_path, names):
    """A picture of runs with and without orthogonal weights, of one or several tasks, twice the same."""
    out = tmp_path / "picture.png"
    code, stdout, stderr = call(plot.main, *(runs[name] for name in names), "--out", out)
    assert (code, stdout, stderr) == (0, "", f"{out}\n")
    assert out.read_bytes().startswith(PNG)


def test_runs_in_one_picture(runs, tmp_path):
    """Runs that differ in the seed are one line; where something else differs, the line says what."""
    same, other = tmp_path / "same", tmp_path / "other"
    for out, options in ((same, ["--seed", 7]), (other, ["--lr", 0.5])):
        assert call(train.main, "parenthesis", "--model", "gru", "--out", out, *TINY, *options)[0] == 0
    found = drawn([runs["gru"], same, runs["nc-gru"]])
    assert [own.line for own in found] == ["gru, n = 6", "gru, n = 6", "nc-gru, n = 6"]
    assert found[0].baseline("loss") == read_config(runs["gru"])["baseline"]
    worst = [line["weights"]["layer0.U_c"]["defect"] for line in read_metrics(runs["nc-gru"])]
    assert [line["defect"] for line in found[2].records] == worst
    apart = [own.line for own in drawn([runs["gru"], other])]
    assert apart == ["gru, n = 6, lr = 0.001, lr_orthogonal = 0.001", "gru, n = 6, lr = 0.5, lr_orthogonal = 0.5"]


def test_plot_refuses(runs, tmp_path):
    """Folders without a run or without a line, pictures that cannot be: one line, exit 2."""
    (tmp_path / "empty").mkdir()
    out = tmp_path / "losses.png"
    for folder in (tmp_path / "none", tmp_path / "empty", runs["text.txt"]):
        message = f"{folder} holds no run: there is no config.json in it"
        fails(plot.main, folder, "--out", out, message=message)
        fails(plot.main, runs["gru"], folder, "--out", out, message=message)
    young = shutil.copytree(runs["gru"], tmp_path / "young")
    (young / "metrics.jsonl").write_text('{"iterat')
    fails(plot.main, young, "--out", out, message=f"{young / 'metrics.jsonl'} is damaged: it is shorter than the ")
    for name in ("last.safetensors", "summary.json"):
        (young / name).unlink()
    fails(plot.main, young, "--out", out, message=f"{young} has no line of metrics yet")
    (young / "metrics.jsonl").unlink()
    fails(plot.main, young, "--out", out, message=f"{young} has no line of metrics yet")
    fails(plot.main, runs["gru"], "--out", tmp_path / "none" / "a.png", message="No such file or directory")
    fails(plot.main, runs["gru"], "--out", tmp_path / "a.xyz", message="xyz")
    fails(plot.main, message="Missing argument")
    assert not out.exists()


def test_a_run_that_is_on_is_drawn(runs, tmp_path):
    """Without the line that is being written, and before its first evaluation."""
    folder = shutil.copytree(runs["nc-gru"], tmp_path / "run")
    first, *_ = (folder / "metrics.jsonl").read_text().splitlines(keepends=True)
    (folder / "metrics.jsonl").write_text(first + '{"iteration": 3, "lo')
    for name in ("last.safetensors", "summary.json"):  # of later
        (folder / name).unlink()
    assert call(plot.main, folder, "--out", tmp_path / "a.png")[0] == 0


# --device


class OutOfMemoryError(MemoryError):
    """As cupy.cuda.memory.OutOfMemoryError says it."""

    def __init__(self, size, total):
        super().__init__(f"Out of memory allocating {size:,} bytes (allocated so far: {total:,} bytes).")


def test_out_of_memory(tmp_path, monkeypatch):
    """What was asked for and what needs less, one line and exit 2, of a program that trains and one that measures."""

    def update(*arguments):
        raise OutOfMemoryError(2**33, 2**30)

    monkeypatch.setattr(Trainer, "update", update)
    message = "out of memory: Out of memory allocating 8,589,934,592 bytes (allocated so far: 1,073,741,824 bytes); a "
    message += "smaller batch, length or hidden size needs less"
    fails(train.main, "parenthesis", "--out", tmp_path / "a", *TINY, message=message)
    monkeypatch.setattr(benchmark, "measured", update)
    monkeypatch.setattr(benchmark, "keep_freed_memory", lambda: True)
    fails(benchmark.main, message=message)


def test_every_program_that_computes_has_the_option():
    """docs/gpu.md lists them; where it is not given each computes on the host, but gpu_check."""
    page = (ROOT / "docs/gpu.md").read_text()
    listed = re.findall(r"`(\w+)`", page.split("`--device gpu` is an option of ")[1].split("; the default is")[0])
    found = {}
    for path in [*(ROOT / "scripts").glob("*.py"), *(ROOT / "scripts/maintain").glob("*.py")]:
        if path.stem == "__main__":
            continue
        program = importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
        if hasattr(program, "main") and "device" in inspect.signature(program.main).parameters:
            found[path.stem] = inspect.signature(program.main).parameters["device"].default
    assert found == dict.fromkeys(listed, "cpu") | {"train": None, "gpu_check": "gpu"}
    assert OPTIONS["device"].default == "cpu"


@pytest.mark.parametrize(
    ("main", "arguments"),
    [
        (demo.main, ["--out", "{out}/a"]),
        (experiment.main, ["run", str(demo.FILE), "--out", "{out}/a"]),
        (train.main, ["parenthesis", "--out", "{out}/a"]),
        *((program.main, []) for program in (benchmark, training_speed, check_gradients)),
    ],
    ids=lambda value: getattr(value, "__module__", ""),
)
def test_a_device_that_is_not_there(monkeypatch, tmp_path, main, arguments):
    """Every program says on one line what is missing, exits with 2, and has made and removed nothing."""
    monkeypatch.setitem(sys.modules, "cupy", None)
    monkeypatch.delitem(backend._LOADED, "cupy", raising=False)
    kept = tmp_path / "a" / "gru"
    kept.mkdir(parents=True)
    (kept / "config.json").write_text("{}")
    arguments = [argument.format(out=tmp_path) for argument in arguments]
    for device, message in (("gpu", "device 'gpu' needs CuPy: pip "), ("tpu", "device is 'tpu'; allowed: 'cpu'")):
        fails(main, *arguments, "--device", device, message=message)
    assert [path.name for path in tmp_path.rglob("*")] == ["a", "gru", "config.json"]


def test_what_other_timings_do_not_read():
    message = "cpu_time is 'True', which words does not use; allowed with it: rounds"
    fails(training_speed.main, "--words", "--cpu-time", message=message)


def test_a_worker_on_a_device(gpu, tmp_path):
    """A run of a grid with what is measured of it: the host's numbers to rounding; the config has the device."""
    path = tmp_path / "own.toml"
    path.write_text(
        'format = "ortho_ref experiment 1"\ntitle = "x"\n[options]\ntask = "adding"\nlength = 4\nbatch = 3\n'
        'iterations = 3\nmodel = "urnn"\nhidden = 4\ndtype = "float64"\n'
        '[[measure]]\nwhat = "gradient_norms"\nafter = 0\n[[measure]]\nwhat = "hidden_norms"\n'
    )
    own = read(path)
    (cell,) = cells_of(own)
    found = []
    for device in ("cpu", "gpu"):
        grid = Grid(own, (cell,), tmp_path / device, device=device)
        assert work(grid.order(cell)) == DONE
        folder = tmp_path / device / cell.folder
        assert read_config(folder)["device"] == device
        found.append((read_metrics(folder)[-1]["evaluation_loss"], read_measured(folder)))
    assert found[1][0] == pytest.approx(found[0][0], rel=1e-9)
    for ours, theirs in zip(found[1][1], found[0][1], strict=True):
        for name, values in theirs["values"].items():
            np.testing.assert_allclose(ours["values"][name], values, rtol=1e-8, atol=1e-12)


def test_measuring_programs_on_a_device(host_device, runs, monkeypatch, tmp_path):
    """benchmark and training_speed time the device's arrays; bounds are the host's, from the device's states."""
    monkeypatch.setattr(benchmark, "SIZES", {"parenthesis": Size(2, 5, 3, 4)})
    monkeypatch.setattr(benchmark, "keep_freed_memory", lambda: True)
    devices, forward = [], fused.forward

    def noted(cell, weights, x, h0=None):
        devices.append(backend.library_of(*weights.values(), x).device)
        return forward(cell, weights, x, h0)

    monkeypatch.setattr(fused, "forward", noted)
    arguments = ["--rounds", "1", "--seconds", "0", "--device", "gpu"]
    for model in ("nc-gru", "lstm", "urnn"):
        code, output = run(benchmark.main, *arguments, "--model", model, "--out", f"{tmp_path}/{model}", "--name", "b")
        assert code == 0, output
        report = json.loads((tmp_path / model / "b.json").read_text())
        assert report["settings"]["device"] == "gpu"
        (group,) = report["groups"]
        assert (group["reference"], "compiled" in group["contenders"]) == ("fused", False)
    message = "section is maps; allowed on gpu: cells"
    fails(benchmark.main, "--device", "gpu", "--section", "maps", message=message)
    code, output = run(training_speed.main, *arguments, "--only", "parenthesis")
    assert code == 0, output
    assert set(devices) == {"gpu"}
    outputs = []
    for device in ("cpu", "gpu"):
        with host_device.counted() as count:
            code, _, stderr = call(bounds.main, runs["nc-gru"], "--out", tmp_path / "b.png", "--device", device)
        assert code == 0, stderr
        outputs.append(stderr)
        assert (count.to_host > 0) == (device == "gpu")
    assert outputs[0] == outputs[1]


def test_check_gradients_on_a_device(gpu, monkeypatch):
    """One subject of each kind: the device's gradients pass; a wrong one that only the device has is seen."""
    rng = np.random.default_rng(0)
    for result in (
        checks.check_cell("LSTM", checks.cells()["LSTM"], rng, None, "gpu"),
        checks.check_parametrization("scaled_cayley:2", 5, False, rng, None, "gpu"),
        checks.check_network("nc-gru", 4, 6, 5, rng, "gpu"),
    ):
        assert result.passed, result
    right = ScaledCayley.pullback

    def wrong(self, params, buffers, dU):
        scale = 1.001 if backend.library_of(dU).device == "gpu" else 1
        return {"A": scale * right(self, params, buffers, dU)["A"]}

    monkeypatch.setattr(ScaledCayley, "pullback", wrong)
    assert checks.check_parametrization("scaled_cayley:2", 5, False, rng, None, "cpu").passed
    assert not checks.check_parametrization("scaled_cayley:2", 5, False, rng, None, "gpu").passed
