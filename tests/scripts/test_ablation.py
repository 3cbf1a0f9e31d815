"""ablation: every study at a tiny scale, in this process."""

import json
import shutil

import numpy as np
import pytest

from ortho_ref import models
from ortho_ref.run_folder import read_config, read_metrics
from scripts import ablation, train
from scripts.ablation import Name
from scripts.grid.config import made_by
from scripts.timing.rounds import time_interleaved
from tasks.adding import Adding
from tasks.copying import Copying
from tasks.denoise import Denoise
from tasks.parenthesis import Parenthesis
from tests.scripts.runs import call

#: Name -> the scale of the test, the folders of its runs.
TINY = {
    Name.neumann_order: (
        1e-4,
        [f"{q}-seed{k}" for q in ("order-1", "order-2", "order-3", "exact") for k in (5, 6, 7)],
    ),
    Name.neumann_time: (1e-6, []),
    Name.orthogonal_weights: (
        1e-4,
        [f"{which}-seed{k}" for which in ("U_c", "U_r-U_c", "U_r-U_u-U_c") for k in (5, 6, 7)],
    ),
    Name.norm_condition: (1e-3, ["order-2"]),
    Name.goru_gates: (
        1e-5,
        [
            f"{t}-{v}"
            for t in ("copying", "denoise")
            for v in ("goru", "relu", "tanh", "no-reset-gate", "no-update-gate")
        ],
    ),
    Name.goru_style: (1e-5, [f"{t}-{v}" for t in ("copying", "denoise") for v in ("fft", "householder")]),
    Name.urnn_gradients: (1e-5, ["urnn", "lstm", "rnn", "irnn"]),
}


@pytest.fixture(scope="module", autouse=True)
def quick():
    """Small held-out sets, and short rounds of timing."""
    with pytest.MonkeyPatch.context() as patch:
        for task in (Parenthesis, Copying, Denoise, Adding):
            patch.setattr(task, "held_out", (0, 1, 20))
        patch.setattr(ablation, "time_interleaved", lambda steps, **options: time_interleaved(steps, 3, 0))
        yield


@pytest.fixture(scope="module", params=TINY)
def study(request, tmp_path_factory):
    """Name, folder and numbers of a study with seed 5."""
    out = tmp_path_factory.mktemp("ablation")
    code, stdout, stderr = call(
        ablation.main, request.param, "--scale", TINY[request.param][0], "--out", out, "--seed", 5
    )
    assert (code, stdout) == (0, ""), stderr
    assert stderr.endswith(f"picture: {out / request.param}.png\n")
    text = (out / f"{request.param}.json").read_text()
    return request.param, out, json.loads(text, parse_constant=lambda constant: pytest.fail(f"JSON has {constant}"))


def test_a_study_leaves_its_numbers_its_picture_and_its_runs(study):
    """Strict JSON with what the paper shows, versions and every run's config and losses, as in the runs' folders; a
    PNG; nothing else."""
    name, out, numbers = study
    scale, folders = TINY[name]
    assert numbers["ablation"] == name
    assert (numbers["scale"], numbers["seed"]) == (scale, 5)
    assert numbers["made_by"] == made_by()
    assert numbers["paper"].split(",")[0] in ("NC-GRU", "GORU", "uRNN")
    assert numbers["shows"]
    assert (out / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert {path.name for path in out.iterdir()} == {f"{name}.json", f"{name}.png", *([name] if folders else [])}
    assert sorted(numbers.get("runs", {})) == sorted(folders)
    for folder, one in numbers.get("runs", {}).items():
        assert one["config"] == read_config(out / name / folder)
        assert one["config"]["ablation"] == name
        lines = read_metrics(out / name / folder)
        assert [line["loss"] for line in one["curve"]] == [line["loss"] for line in lines]
        assert lines[-1]["iteration"] == one["config"]["iterations"]


def test_what_varies_and_what_is_measured(study):
    """The runs differ in what the figure is about; the figures have the sizes and the values they must."""
    name, _, numbers = study
    configs = {folder: one["config"] for folder, one in numbers.get("runs", {}).items()}
    if name == Name.neumann_order:
        assert {(c["order"], c["seed"]) for c in configs.values()} == {
            (q, k) for q in ("1", "2", "3", "exact") for k in (5, 6, 7)
        }
        losses = [one["curve"][-1]["evaluation_loss"] for f, one in numbers["runs"].items() if f.startswith("order-2")]
        assert numbers["held_out_loss"]["order-2"]["mean"][-1] == pytest.approx(np.mean(losses))
        assert numbers["held_out_loss"]["order-2"]["standard_deviation"][-1] == pytest.approx(np.std(losses))
    if name == Name.orthogonal_weights:
        assert {c["orthogonal"] for c in configs.values()} == {"c", "rc", "ruc"}
        assert {(c["hidden"], c["length"], c["iterations"]) for c in configs.values()} == {(56, 100, 2)}
    if name == Name.norm_condition:
        weights = [line["weights"]["layer0.U_c"] for line in numbers["runs"]["order-2"]["curve"]]
        assert len(weights) == 20
        assert numbers["worst"] == {key: max(own[key] for own in weights) for key in ("condition", "defect")}
        assert 0 < numbers["worst"]["condition"] < 1
    if name == Name.neumann_time:
        assert numbers["sizes"] == [32]
        assert numbers["ratio_to_lu"]["exact, LU"] == [1]
        assert all(values[0] > 0 for values in numbers["milliseconds"].values())
        assert len(numbers["milliseconds"]) == 5
    if name in (Name.goru_gates, Name.goru_style):
        assert {(c["model"], c["hidden"], c["batch"]) for c in configs.values()} == {("goru", 4, 128)}
        assert len({json.dumps(c["network"]) for c in configs.values()}) == len(configs)
    if name == Name.urnn_gradients:
        early, T, length = numbers["early"], numbers["T"], numbers["length"]
        assert length == 5 * T
        for own in numbers["measured"].values():
            assert [len(own[key]) for key in ("start", "early", "norm", "distance")] == [T, T, length, length]
            assert own["distance"][-1] == 0
            assert own["start"] != own["early"]
        assert 0 < early < configs["urnn"]["iterations"]


def test_an_earlier_study_is_replaced_and_other_runs_are_not(tmp_path):
    """The same again, with another seed; a run of `train` in one of its folders is refused and left as it is."""
    arguments = ["norm-condition", "--scale", "1e-4", "--out", tmp_path]
    run = tmp_path / "norm-condition" / "order-2"
    for seed in (0, 1):
        assert call(ablation.main, *arguments, "--seed", seed)[0] == 0
        assert read_config(run)["seed"] == seed
        assert len(read_metrics(run)) == 2
    shutil.rmtree(run)
    assert call(train.main, "parenthesis", "--iterations", 1, "--hidden", 4, "--length", 3, "--out", run)[0] == 0
    before = {path.name: path.read_bytes() for path in run.iterdir()}
    message = f"out is {tmp_path}, where norm-condition/order-2 holds another run; choose another folder"
    fails(*arguments, message=message)
    assert {path.name: path.read_bytes() for path in run.iterdir()} == before


def fails(*arguments, message):
    """Exit 2, nothing on stdout, and one line with the message."""
    code, stdout, stderr = call(ablation.main, *arguments)
    assert (code, stdout) == (2, ""), stderr
    assert stderr.startswith("error: ")
    assert stderr.count("\n") == 1
    assert message in stderr


def test_bad_input(tmp_path):
    """A name, a scale, a seed or a folder that cannot be: one line, and nothing is made."""
    for arguments, message in (
        (["figure-5"], "'figure-5' is not one of 'neumann-order', 'neumann-time'"),
        ([], "Missing argument"),
        *(
            (["neumann-time", "--scale", scale], f"scale is {scale}; allowed: above 0, at most 1")
            for scale in ("0.0", "1.5", "nan")
        ),
        (["norm-condition", "--seed", "-1"], "seed is -1; allowed: an integer >= 0"),
    ):
        fails(*arguments, "--out", tmp_path / "a", message=message)
    assert not (tmp_path / "a").exists()
    (tmp_path / "file").write_text("")
    fails("neumann-time", "--out", tmp_path / "file", message=f"out is {tmp_path / 'file'}: File exists")


def test_a_run_that_overflows_is_told_and_the_study_goes_on(tmp_path, monkeypatch):
    """Its lines so far are kept, its config has the reason, and the picture is drawn."""
    right = ablation.config_of
    monkeypatch.setattr(ablation, "config_of", lambda **o: right(**o) | ({"lr": 1e30} if o.get("order") == "1" else {}))
    code, _, stderr = call(ablation.main, "neumann-order", "--scale", 1e-4, "--out", tmp_path)
    assert code == 0, stderr
    runs = json.loads((tmp_path / "neumann-order.json").read_text())["runs"]
    assert {name for name, one in runs.items() if "diverged" in one["config"]} == {f"order-1-seed{k}" for k in range(3)}
    assert "iteration 1" in runs["order-1-seed0"]["config"]["diverged"]


def test_least_squares_is_the_exact_update():
    """The contenders of neumann-time arrive at the same U, the series up to their error; LU and least squares to
    rounding."""
    (A, U), *others = (
        (params["A"], buffers["U"])
        for params, buffers in (
            update() for update in reversed(ablation.updates_of_U(40, np.random.default_rng(0)).values())
        )
    )
    for other_A, other_U in others:
        np.testing.assert_array_equal(other_A, A)
        np.testing.assert_allclose(other_U, U, atol=1e-5)


@pytest.mark.parametrize("model", ["rnn", "lstm", "urnn"])
def test_gradient_norms_are_those_of_a_run_from_there(model):
    """||dL/dh_t|| for every t: what backward gives for h0 of a run that begins at step t with h_t."""
    T = 6
    network = models.network(model, 2, [5], 1, readout="last", loss="mean_squared_error")
    params, buffers = network.init(np.random.default_rng(0), np.float64)
    x, y = ablation.held_out(T, sequences=3)
    scanning, cell = ablation.watched(network)
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
