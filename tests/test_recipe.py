"""CONTRIBUTING.md, "How to add a cell": its first two steps make a cell work everywhere, the third is one row.

They are followed in a copy of the source tree, for a unit that the project does not have, and nothing else is touched.
"""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

# Step 1, the whole file.
MINIMAL_GATED_UNIT = '''"""The minimal gated unit (Zhou et al. 2016): one gate f resets and updates.

Forward.
    f_t = sigmoid(W_f x_t + U_f h_{t-1} + b_f)             [ext:mgu/f]
    s_t = f_t * h_{t-1}                                    [ext:mgu/s]
    c_t = tanh(W_c x_t + U_c s_t + b_c)                    [ext:mgu/c]
    h_t = (1 - f_t) * h_{t-1} + f_t * c_t                  [ext:mgu/h]

Backward.  dh is all of dL/dh_t; d<name> is dL/d<name>.
    df = dh * (c - h_prev)    dc = dh * f    dh_prev = dh * (1 - f)           [bp:mgu/1]
    da_c = dc * (1 - c^2);  ds = U_c^T da_c;  dU_c = da_c s^T                 [bp:mgu/2]
    df += ds * h_prev;  dh_prev += ds * f                                     [bp:mgu/3]
    da_f = df * f * (1 - f);  dh_prev += U_f^T da_f;  dU_f = da_f h_prev^T    [bp:mgu/4]
    dW_g = da_g x^T    db_g = da_g    dx = sum over g of W_g^T da_g           [bp:bptt/W]
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ortho_ref.activations import sigmoid, sigmoid_derivative
from ortho_ref.backend import Array, xp_of
from ortho_ref.cells.cell import Cell, Weights, draw, input_product, input_pullback


class Cache(NamedTuple):
    """All that step_backward reads.  x (B, m) or (B,); the rest (B, n)."""

    x: Array
    h_prev: Array
    f: Array
    s: Array
    c: Array


@dataclass(frozen=True)
class MinimalGatedUnit(Cell):
    """The minimal gated unit.  Weights W_f U_f b_f  W_c U_c b_c."""

    products: ClassVar[tuple[str, ...]] = ("f", "c")

    def init(self, rng: np.random.Generator, input_size: int, hidden_size: int, *, dtype: Any) -> Weights:
        """Matrices Glorot uniform, biases 0."""
        return draw(self.shapes(input_size, hidden_size), rng, dtype)

    def step_forward(self, weights: Weights, x: Array, h_prev: Array) -> tuple[Array, Cache]:
        """One step.  x (B, m) or tokens (B,), h_prev (B, n) -> h (B, n).  Pure."""
        w, xp = weights, xp_of(x, h_prev)
        f = sigmoid(input_product(w["W_f"], x) + h_prev @ w["U_f"].T + w["b_f"])  # [ext:mgu/f]
        s = f * h_prev  # [ext:mgu/s]
        c = xp.tanh(input_product(w["W_c"], x) + s @ w["U_c"].T + w["b_c"])  # [ext:mgu/c]
        h = (1 - f) * h_prev + f * c  # [ext:mgu/h]
        return h, Cache(x, h_prev, f, s, c)

    def step_backward(self, weights: Weights, dh: Array, cache: Cache) -> tuple[Array | None, Array, Weights]:
        """Adjoint of one step.  dh (B, n) -> dx (B, m), or None for tokens; dh_prev (B, n); dweights."""
        w, (x, h_prev, f, s, c) = weights, cache
        df, dc, dh_prev = dh * (c - h_prev), dh * f, dh * (1 - f)  # [bp:mgu/1]
        da_c = dc * (1 - c * c)  # [bp:mgu/2]
        ds, dU_c = da_c @ w["U_c"], da_c.T @ s  # [bp:mgu/2]
        df, dh_prev = df + ds * h_prev, dh_prev + ds * f  # [bp:mgu/3]
        da_f = df * sigmoid_derivative(f)  # [bp:mgu/4]
        dh_prev, dU_f = dh_prev + da_f @ w["U_f"], da_f.T @ h_prev  # [bp:mgu/4]
        dx_f, dW_f = input_pullback(w["W_f"], x, da_f)  # [bp:bptt/W]
        dx_c, dW_c = input_pullback(w["W_c"], x, da_c)  # [bp:bptt/W]
        dx = None if dx_f is None else dx_f + dx_c  # [bp:bptt/W]
        dweights = {"W_f": dW_f, "U_f": dU_f, "b_f": da_f.sum(axis=0)}  # [bp:bptt/W]
        dweights |= {"W_c": dW_c, "U_c": dU_c, "b_c": da_c.sum(axis=0)}  # [bp:bptt/W]
        return dx, dh_prev, dweights
'''
# Step 2.
LINE = "from ortho_ref.cells.minimal_gated_unit import MinimalGatedUnit as MinimalGatedUnit\n"
AFTER = "from ortho_ref.cells.lstm import LSTM as LSTM\n"
# Step 3.
ROW = """
    "MinimalGatedUnit": (
        (0.5, -1.0, 0.3, 1.5, -0.8, 0.1),
        2.0,
        (0.6,),
        ((1 - I) * 0.6 + I * math.tanh(1.5 * 2 - 0.8 * I * 0.6 + 0.1),),
    ),"""
TABLE = "\nBY_HAND = {"

# The gate's part in dh_prev left out: right but for what goes back through the reset.
RIGHT, WRONG = "df, dh_prev = df + ds * h_prev, dh_prev + ds * f", "df, dh_prev = df + ds * h_prev, dh_prev + ds"

# What a user does with it, in a process over the copy; prints one line of JSON.
USE = """
import json, sys
from dataclasses import replace
from pathlib import Path

import numpy as np

import ortho_ref
from ortho_ref import cells
from ortho_ref.cells import MinimalGatedUnit
from ortho_ref.finite_differences import compare_gradients
from ortho_ref.network import Network
from ortho_ref.training.optimizers import Adam
from ortho_ref.parametrizations import NeumannCayley
from ortho_ref.recurrent import Recurrent
from ortho_ref.training.runs import TrainingRun
from tasks.parenthesis import Parenthesis

layer = Recurrent(MinimalGatedUnit(), {"U_c": NeumannCayley(3)}, sizes=(4, 6))
rng = np.random.default_rng(0)
params, buffers = layer.init(rng, dtype=np.float64)
x, dh = rng.standard_normal((5, 3, 4)), rng.standard_normal((5, 3, 6))
h, tape = layer.forward(params, buffers, x)
gradients = layer.backward(params, buffers, tape, dh).params
report = compare_gradients(
    lambda p: (dh * layer.forward(p, layer.rebuild(p, buffers), x)[0][1:]).sum(),
    params, gradients, directions=3, rng=rng, skew=("U_c.A",),
)
moved, new_buffers = layer.retract(params, buffers, {key: 1e-2 * value for key, value in gradients.items()})

task = Parenthesis(8, "released")
own = Recurrent(MinimalGatedUnit(), {"U_c": NeumannCayley(4)}, sizes=(task.input.size, 8))
network = Network((own,), task.output_size, task.readout, task.loss)


def trainer():
    every = {"log_every": 5, "evaluate_every": 20, "checkpoint_every": 10}
    return TrainingRun(network, task, Adam(1e-2), iterations=20, batch_size=16, **every)


whole, stopped, resumed = trainer(), trainer(), trainer()
start = whole.evaluate()["evaluation_loss"]
records = whole.run(Path(sys.argv[1]) / "whole")
stopped.run(Path(sys.argv[1]) / "parts", should_stop=lambda: stopped.iteration == 10)
resumed.run(Path(sys.argv[1]) / "parts", resume=True)

print(json.dumps({
    "file": ortho_ref.__file__,
    "name": cells.by_name("minimal_gated_unit") == MinimalGatedUnit() and "MinimalGatedUnit" in cells.__all__,
    "repr": repr(layer),
    "count": layer.count(params),
    "largest": report.largest,
    "compared": sorted(row.tensor for row in report.rows),
    "moved": not any(np.array_equal(params[key], moved[key]) for key in params),
    "defect": layer.health(new_buffers)["U_c"]["defect"],
    "losses": [start, records[-1]["evaluation_loss"]],
    "stopped": stopped.iteration,
    "resumed": all(np.array_equal(value, resumed.params[key]) for key, value in whole.params.items()),
}))
"""


def copy_with_the_cell(folder, source):
    """The source tree with steps 1 to 3 in it; what they do not touch is linked."""
    ignored = shutil.ignore_patterns("__pycache__", ".hypothesis", "runs")
    for name in ("ortho_ref", "tests"):
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    for name in ("gradients", "tasks", "scripts", "pyproject.toml"):
        (folder / name).symlink_to(ROOT / name)
    (folder / "ortho_ref/cells/minimal_gated_unit.py").write_text(source)
    for file, before, added in (
        ("ortho_ref/cells/by_name.py", AFTER, LINE),
        ("tests/ortho_ref/test_cells.py", TABLE, ROW),
    ):
        text = (folder / file).read_text()
        assert text.count(before) == 1
        (folder / file).write_text(text.replace(before, before + added))
    return folder


def python(folder, *arguments):
    """What an interpreter of its own says over the copy, whose modules come before those that are installed."""
    return subprocess.run([sys.executable, *arguments], cwd=folder, capture_output=True, text=True, check=False)


FILES = ("tests/ortho_ref/test_cells.py", "tests/gradients/test_checks.py")
PYTEST = ("-m", "pytest", "-q", "-p", "no:cacheprovider", *FILES)
TESTS = (*PYTEST, "-k", "MinimalGatedUnit or every_cell or by_name")
# Where a test has to fail, its smallest case is not looked for.
PLUGIN = """
from hypothesis import Phase, settings
settings.register_profile("brief", phases=[Phase.generate], derandomize=True, deadline=None)
"""
BRIEF = ("-p", "brief", "--hypothesis-profile=brief")
CHECK = ("-m", "scripts.check_gradients", "--only", "MinimalGatedUnit")


def row_of(said):
    """The cell's row: its figures and the verdict."""
    rows = [line.split()[1:] for line in said.splitlines() if line.split()[:1] == ["MinimalGatedUnit"]]
    assert len(rows) == 1, said
    return rows[0]


@pytest.fixture(scope="module")
def right(tmp_path_factory):
    """The copy with the cell."""
    return copy_with_the_cell(tmp_path_factory.mktemp("right"), MINIMAL_GATED_UNIT)


def test_an_added_cell_is_used_like_any_other(right):
    """Exported and by its name; in a layer with U_c orthogonal, its gradients, an update; trained, stopped, resumed."""
    result = python(right, "-W", "error", "-c", USE, str(right / "runs"))
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    assert Path(found["file"]).is_relative_to(right)
    assert found["name"]
    told = "MinimalGatedUnit(), 4 -> 6, U_c: NeumannCayley(negative_ones=3, order=2, reset_every=50), by scan"
    assert found["repr"] == f"Recurrent({told}, {found['count']} parameters)"
    assert found["compared"] == ["U_c.A", "U_f", "W_c", "W_f", "b_c", "b_f"]
    assert found["largest"] < 1e-7
    assert found["moved"]
    assert found["defect"] < 1e-3
    start, end = found["losses"]
    assert end < start
    assert (found["stopped"], found["resumed"]) == (10, True)


def test_an_added_cell_has_its_row_of_check_gradients(right):
    """One figure, of differences: no fused form and no form in PyTorch is no failure."""
    result = python(right, *CHECK)
    assert result.returncode == 0, result.stdout + result.stderr
    figure, verdict = row_of(result.stdout)
    assert float(figure) < 1e-7
    assert verdict == "ok"


def test_an_added_cell_passes_the_tests_of_every_cell(right):
    """Its own of each, by its name, and those of the list: differences, complex step, value by hand, dtypes, tokens."""
    result = python(right, *TESTS)
    assert result.returncode == 0, result.stdout
    assert "[MinimalGatedUnit" not in result.stdout  # of none that failed or was skipped
    assert int(re.search(r"(\d+) passed", result.stdout)[1]) >= 12


def test_a_wrong_backward_is_seen(tmp_path):
    """By the tests and by check_gradients, each."""
    assert MINIMAL_GATED_UNIT.count(RIGHT) == 1
    wrong = copy_with_the_cell(tmp_path, MINIMAL_GATED_UNIT.replace(RIGHT, WRONG))
    (wrong / "brief.py").write_text(PLUGIN)
    result = python(wrong, *PYTEST, "-k", "MinimalGatedUnit and (finite or complex_step or by_hand)", *BRIEF)
    assert result.returncode == 1, result.stdout
    failed = set(re.findall(r"^FAILED \S+::(\w+)", result.stdout, re.M))
    assert failed == {"test_every_gradient_against_finite_differences", "test_smooth_cells_against_the_complex_step"}
    result = python(wrong, *CHECK)
    assert result.returncode == 1, result.stdout + result.stderr
    figure, verdict = row_of(result.stdout)
    assert float(figure) > 1e-3
    assert verdict == "FAIL"
