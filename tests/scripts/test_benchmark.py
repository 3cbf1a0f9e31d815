"""`scripts.maintain.benchmark`: one computation, timed in several libraries; and what becomes of the figures."""

import copy
import importlib.util
import json
import re

import numpy as np
import pytest

from gradients.problem import largest_error
from ortho_ref import fused, scan
from ortho_ref.fused import compiled
from ortho_ref.losses import LOSSES
from scripts.grid.build import make_trainer
from scripts.grid.config import begun
from scripts.maintain import benchmark
from scripts.maintain.timing import (
    benchmark_file,
    machine,
    map_rows,
    memory_rows,
    page_tables,
    peers_jax,
    peers_torch,
    update_rows,
)
from scripts.maintain.timing.steps import DTYPES, MODELS, SIZES, Size, numpy_contender, problem
from scripts.pictures import speed
from tests.scripts.runs import ROOT, call, refusal

TINY = Size(batch=3, length=5, inputs=4, hidden=6)
PARTS = ["--rounds", 1, "--seconds", 0]
HAS_JAX, HAS_TORCH = (importlib.util.find_spec(name) is not None for name in ("jax", "torch"))


# what is timed


def with_biases(model, dtype):
    """A tiny problem with biases that are not 0, or a contender could forget them."""
    own, rng = problem(TINY, model, dtype), np.random.default_rng(1)
    for name, value in own.weights.items():
        if name.startswith("b") and value.ndim:
            value[:] = 0.1 * rng.standard_normal(value.shape)
    return own


def gradients(contender):
    return contender.gradients(contender.step())


def agree(ours, theirs, dtype):
    """To rounding, under the same names, in the same shapes and precision."""
    assert ours.keys() == theirs.keys()
    assert {name: (a.shape, a.dtype) for name, a in ours.items()} == {n: (a.shape, a.dtype) for n, a in theirs.items()}
    return largest_error(ours, theirs)[0] < {"float64": 1e-12, "float32": 1e-4}[dtype]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("model", MODELS)
def test_all_compute_the_same(model, dtype):
    """Gradients of every weight, of x and of the first state: all engines, and where they are installed PyTorch's
    module, both eager cells and JAX."""
    own = with_biases(model, dtype)
    ours = gradients(numpy_contender(fused, own))
    assert {"x", "h0", *own.weights} <= ours.keys()
    for engine in (scan, compiled):
        assert agree(ours, gradients(numpy_contender(engine, own, keep=False)), dtype)
    wrong = {name: value * own.dh.dtype.type(1.01) if name == "x" else value for name, value in ours.items()}
    if not own.cell.complex:
        assert not agree(ours, wrong, dtype)
    theirs = peers_torch.contenders(own) if HAS_TORCH else {}
    assert not HAS_TORCH or ("torch.nn" in theirs) == (model in ("rnn", "lstm", "gru-cudnn"))
    theirs |= {"jax": peers_jax.contender(own)} if HAS_JAX else {}
    for name, contender in theirs.items():
        assert agree(ours, gradients(contender), dtype), name


# maps, memory, updates


@pytest.mark.parametrize("kind", ["Cayley", "exponential"])
def test_maps_compute_the_same(kind):
    """U and dL/dA of PyTorch's; by the series U is nearly that of A - delta, the nearer the higher its order."""
    torch = pytest.importorskip("torch")
    assert torch.get_num_threads() >= 1
    steps = (
        map_rows.cayley_steps(6, "float64", True)
        if kind == "Cayley"
        else map_rows.exponential_steps(6, 2.0, "float64", True)
    )
    (U, dA), (theirs, above) = (steps[name]() for name in (next(iter(steps)), list(steps)[-1]))
    np.testing.assert_allclose(U, theirs.detach().numpy(), atol=1e-12)
    np.testing.assert_allclose(np.triu(dA, 1), np.triu(above.numpy(), 1), atol=1e-14)  # of ||dL/dU|| = 1e-3
    if kind == "Cayley":
        by_svd, by_lu = (steps[name]() for name in ("least squares", "exact"))
        np.testing.assert_allclose(by_svd[0], by_lu[0], atol=1e-12)
        np.testing.assert_allclose(by_svd[1], by_lu[1], atol=1e-14)
        series = [steps[f"Neumann, order {order}"]()[0] for order in map_rows.ORDERS]
        defects = [np.linalg.norm(U.T @ U - np.eye(6)) for U in series]
        assert 1e-4 > defects[0] > defects[1] > defects[2]


def test_torch_has_the_tasks_loss():
    """Of the same outputs, ours to rounding."""
    torch = pytest.importorskip("torch")
    for name in ("parenthesis", "denoise", "adding", "copying"):
        config, task = begun(name)
        batch = next(task.batches(np.random.default_rng(0), 3))
        steps = batch.y.shape[:2] if task.readout == "every" else batch.y.shape[:1]
        outputs = np.random.default_rng(0).standard_normal((*steps, task.output_size))
        batch = batch._replace(y=batch.y.astype("float64") if batch.y.dtype.kind == "f" else batch.y)
        theirs = update_rows.loss(task, torch.from_numpy(outputs), batch)
        assert float(theirs) == pytest.approx(float(LOSSES[task.loss](outputs, batch.y, None)[0]), rel=1e-12)
        assert make_trainer(config, task).task.loss == task.loss


# the program


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Everything at tiny sizes, once: the folder that a whole run leaves."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(benchmark, "MODELS", ("nc-gru", "lstm"))
        patch.setattr(benchmark, "SIZES", {"parenthesis": TINY})
        patch.setattr(benchmark, "keep_freed_memory", lambda: True)
        patch.setattr(map_rows, "SIZES", (6,))
        patch.setattr(map_rows, "NORMS", (0.1, 1.0))
        patch.setattr(memory_rows, "resident", lambda model, *rest: {"fused": 4000} if model == "lstm" else "not here")
        folder = tmp_path_factory.mktemp("benchmark")
        code, out, err = call(benchmark.main, *PARTS, "--out", folder, "--name", "here")
        assert code == 0, err
        assert "Whole updates" in out
    return folder


def measuring(monkeypatch, groups):
    """The program measures these."""
    monkeypatch.setattr(benchmark, "measured", lambda sections, own: iter(groups))
    monkeypatch.setattr(benchmark, "keep_freed_memory", lambda: True)
    monkeypatch.setattr(speed, "draw", lambda groups, picture, title: picture.write_bytes(b"drawn"))


def stored(folder):
    return json.loads((folder / "here.json").read_text())


def test_a_whole_run_writes_file_page_and_picture(whole):
    """Every section, its contenders with CPU and wall time, or why they are not there; machine and libraries."""
    own = benchmark_file.read(whole / "here.json")
    assert [section for section in benchmark_file.TITLES if benchmark_file.of_section(own, section)] == list(
        benchmark.SECTIONS
    )
    group = benchmark_file.of_section(own, "cells")[0]
    assert {"compiled", "fused"} <= group["contenders"].keys()
    assert (group["reference"], group["contenders"]["compiled"]["ratio"]) == ("compiled", 1)
    assert group["case"] == {"model": "nc-gru", "size": "parenthesis", "threads": 1}
    assert all({"median", "low", "high", "ratio", "wall"} == set(figures) for figures in group["contenders"].values())
    if not HAS_JAX:
        assert group["skipped"]["jax"] == "JAX is not installed"
    assert own["machine"]["kernels"]
    assert own["libraries"]["numpy"] == np.__version__
    assert own["libraries"]["blas"].count(" x1") == own["libraries"]["blas"].count(",") + 1
    assert "mallopt" in own["settings"]["memory"]
    page = (whole / "here.md").read_text()
    assert "![Peers, on one core and on all](here.svg)" in page
    assert page.count("\n## ") == len(benchmark.SECTIONS) + 1
    assert "* resident, memory: nc-gru, parenthesis: not here" in page
    assert (whole / "here.svg").read_bytes().startswith(b"<?xml")


def test_a_part_takes_the_place_of_its_own(whole, tmp_path, monkeypatch):
    """Other groups stay; a part of another machine or other libraries does not go with them."""
    own = stored(whole)
    (tmp_path / "here.json").write_text(json.dumps(own))
    group = copy.deepcopy(own["groups"][0])
    group["contenders"]["fused"]["median"] = 123.0
    measuring(monkeypatch, [group])
    arguments = ["--section", "cells", "--out", tmp_path, "--name", "here"]
    code, _, err = call(benchmark.main, *arguments)
    assert code == 0, err
    now = stored(tmp_path)
    assert now["groups"][0]["contenders"]["fused"]["median"] == 123
    assert now["groups"][1:] == own["groups"][1:]
    assert now["commands"] == [
        "python -m scripts.maintain.benchmark --rounds 1 --seconds 0",
        "python -m scripts.maintain.benchmark --section cells",
    ]
    own["libraries"]["numpy"] = "1.0"
    (tmp_path / "here.json").write_text(json.dumps(own))
    code, _, err = call(benchmark.main, *arguments)
    assert code == 2
    assert "its libraries is " in err
    assert "allowed: another --name, or a whole run" in err
    assert stored(tmp_path) == own


def test_check_passes_against_itself(monkeypatch, whole):
    """A figure that is not in both is named."""
    groups = stored(whole)["groups"]
    del groups[0]["contenders"]["fused"]
    groups.append(copy.deepcopy(groups[0]) | {"case": {"model": "other", "size": "parenthesis"}})
    measuring(monkeypatch, groups)
    code, out, err = call(benchmark.main, "--check", "--out", whole, "--name", "here")
    assert code == 0, err
    assert "figures compared, 0 moved" in out
    assert "not compared: cells: nc-gru, parenthesis, threads = 1: fused\n" in err
    assert "not compared: cells: other, parenthesis\n" in err


@pytest.mark.parametrize("factor", [1.3, 0.7])
def test_check_fails_where_a_ratio_has_moved(monkeypatch, whole, factor):
    """Up or down by more than 25 %: what is stored is true no longer."""
    groups = stored(whole)["groups"]
    groups[0]["contenders"]["fused"]["ratio"] *= factor
    measuring(monkeypatch, groups)
    code, out, _ = call(benchmark.main, "--check", "--against", whole / "here.json")
    assert code == 1
    assert "1 moved by more than 25 %" in out
    groups[0]["contenders"]["fused"]["ratio"] /= factor * 0.9
    assert call(benchmark.main, "--check", "--against", whole / "here.json")[0] == 0


def test_check_refuses_another_machine(monkeypatch, whole, tmp_path):
    """Its processor, kernels, or the variables that choose them."""
    own = stored(whole)
    measuring(monkeypatch, own["groups"])
    for field, value, told in (
        ("cpu", "abacus", "cpu: abacus there"),
        ("kernels", ["openblas Abacus"], "kernels: openblas Abacus there"),
        ("variables", {"MALLOC_ARENA_MAX": "1"}, "variables: MALLOC_ARENA_MAX=1 there, "),
    ):
        other = own | {"machine": own["machine"] | {field: value}}
        (tmp_path / "other.json").write_text(json.dumps(other))
        assert told in refusal(benchmark.main, "--against", tmp_path / "other.json")
    assert machine.difference(own["machine"], own["machine"] | {"cores": 1000}) == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--only", "tiny"], "only is 'tiny'; allowed: parenthesis, denoise"),
        (["--model", "transformer"], "model is 'transformer'; allowed: nc-gru, gru"),
        (["--section", "weather"], "section is 'weather'; allowed: cells, updates"),
        (["--dtype", "float16"], "dtype is 'float16' (did you mean 'float64'?); allowed: float32, float64"),
        (["--name", "../x"], "name is '../x'; allowed: up to 100 letters"),
        (["--threads", "2", "--section", "maps"], "section is maps; allowed with several threads: cells, updates"),
        (["--against", "nowhere.json"], "against: "),
        (["--check", "--against", "{whole}", "--dtype", "float64"], "dtype is float64; allowed: float32, as in"),
        (["--redraw", "nowhere.json"], "redraw: "),
        (["--redraw", "{whole}", "--rounds", "3"], "rounds is '3', which redraw does not use; allowed with it: pag"),
        (["--only", "adding", "--page"], "page is for what is written: "),
        (["--check", "--against", "{whole}", "--page"], "page is for what is written: "),
        (["--out", "{whole}"], "out: "),
    ],
)
def test_bad_input_is_a_line(monkeypatch, whole, arguments, message):
    measuring(monkeypatch, [])
    assert message in refusal(benchmark.main, *(word.format(whole=whole / "here.json") for word in arguments))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda own: own.pop("groups"), "the document has no groups"),
        (lambda own: own.update(format="ortho_ref benchmark 0"), "format is 'ortho_ref benchmark 0'"),
        (lambda own: own["groups"][0].update(reference="x"), r"groups[0].reference is 'x', which is no contender"),
        (lambda own: own["groups"][0]["contenders"]["fused"].update(median=0), "groups[0] has a time that is not abov"),
        (lambda own: own["groups"][0]["contenders"]["fused"].update(median="1"), "is '1'; allowed: a finite number"),
    ],
)
def test_a_file_that_is_none(whole, tmp_path, change, message):
    own = stored(whole)
    change(own)
    (tmp_path / "own.json").write_text(json.dumps(own))
    err = refusal(benchmark.main, "--redraw", tmp_path / "own.json")
    assert message in err
    assert "own.json: " in err


# the pages


def test_the_page_has_the_stored_figures():
    """docs/performance.md: its tables are those of the report that they name, none by hand."""
    text = (ROOT / page_tables.PAGE).read_text()
    (name,) = set(re.findall(r"<!-- figures: ([^/ ]+)/", text))
    assert page_tables.fill(text, name, benchmark_file.read(page_tables.FOLDER / f"{name}.json")) == text, (
        f"python -m scripts.maintain.benchmark --redraw results/benchmark/{name}.json --page"
    )


def test_the_page_has_the_sizes():
    """docs/performance.md, under "Sizes": B, T, m and n of each, in order."""
    table = (ROOT / "docs/performance.md").read_text().split("### Sizes\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| ([\w -]+) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|", table, re.M)
    assert [(name, Size(*map(int, size))) for name, *size in rows] == list(SIZES.items())


def test_stored_pages_are_of_their_files():
    """results/benchmark/NAME.md is what NAME.json gives."""
    found = sorted(page_tables.FOLDER.glob("*.json"))
    assert found
    for path in found:
        assert (
            benchmark_file.markdown(benchmark_file.read(path), f"{path.stem}.svg")
            == path.with_suffix(".md").read_text()
        )
        assert path.with_suffix(".svg").exists()
