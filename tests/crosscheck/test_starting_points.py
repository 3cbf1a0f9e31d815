"""What `new` writes for each framework runs, and is right; a linear recurrence by its forward pass."""

import importlib.util
import subprocess
import sys

import pytest

from ortho_ref import adapters, converters
from ortho_ref.adapters.starting_point import starting_point
from ortho_ref.conformance import check, load_adapter
from ortho_ref.conformance.linear.table import RECURRENCES


@pytest.mark.parametrize("cell", RECURRENCES)
@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_starting_points_of_linear_recurrences_are_right(framework, cell, tmp_path):
    """Every case in PyTorch, one in JAX; of another recurrence, or as another, it is none."""
    if importlib.util.find_spec(framework) is None:
        pytest.skip(f"{framework} is not installed")
    path = tmp_path / "mine.py"
    path.write_text(starting_point(framework, cell, path.name))
    run, shorts = load_adapter(str(path)), ("*",) if framework == "torch" else ("resets",)
    report = check(run, [f"linear/{cell}/{short}" for short in shorts])
    assert report.counts["passed"] == len(report.results), str(report)
    other = "lru" if cell != "lru" else "mingru"
    assert check(run, f"linear/{other}/plain").results[0].message == f"it is {cell}"


def test_a_linear_recurrence_that_gives_something_else():
    """One line: what it returned, what is expected; a wrong one is named; None is not supported."""
    torch = pytest.importorskip("torch", reason="torch is not installed: `make crosscheck` installs it")

    def first(forward):
        (result,) = check(adapters.from_torch(forward, cell="mingru"), "linear/mingru/plain").results
        return f"{result.status} {result.message} {result.diagnosis}"

    assert "the forward pass returned a tuple; expected a dict of o, h_T" in first(lambda x, config: (1, 2))
    assert "the forward pass returned o, S; expected a dict of o, h_T" in first(lambda x, config: {"o": 1, "S": 2})
    assert first(lambda x, config: None).startswith("unsupported")

    def swapped(x, config):
        h, every = x["h0"], []
        for a, c in zip(x["a"], x["c"], strict=True):
            c = torch.where(c >= 0, c + 0.5, torch.sigmoid(c))
            h = torch.sigmoid(a) * h + torch.sigmoid(-a) * c
            every.append(h)
        return {"o": torch.stack(every), "h_T": h}

    assert "your outputs equal mingru with" in first(swapped)
    with pytest.raises(TypeError, match=r"a linear recurrence is a function \(x, config\); leave out weights"):
        adapters.from_torch(swapped, cell="mingru", weights={})
    with pytest.raises(TypeError, match=r"leave out step"):
        adapters.from_torch(swapped, cell="mingru", step=True)
    with pytest.raises(TypeError, match=r"^target is <class .*; allowed for a linear recurrence: a function"):
        adapters.from_torch(torch.nn.Linear, cell="mingru")


@pytest.mark.parametrize("framework", ["torch", "jax", "keras", "flax", "equinox"])
def test_starting_points_in_frameworks_run_and_are_right(framework, tmp_path):
    """One cell of each kind; one by the command in the file."""
    if importlib.util.find_spec(framework) is None:
        pytest.skip(f"{framework} is not installed")
    dtype = "float32" if framework == "keras" else "float64"
    for cell in (*(["sgornn"] if framework == "torch" else []), "irnn", "fastrnn", "nc-gru", "gru-cudnn", "lstm"):
        path, only = tmp_path / f"{cell}.py", f"cell/{converters.config_of(cell)['cell']}*"
        path.write_text(starting_point(framework, cell, path.name))
        if cell != "lstm":
            assert check(load_adapter(str(path)), only, dtype).ok, cell
            continue
        command = [sys.executable, "-m", "ortho_ref.conformance", "run", "--adapter", str(path), "--only", only]
        done = subprocess.run([*command, "--dtype", dtype], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
