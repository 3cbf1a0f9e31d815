"""The framework adapters without a framework: the table of weights, what `new` writes, what is missing."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from ortho_ref import adapters, converters
from ortho_ref.adapters.sequence import of_yours, one_cell, sequence_of
from ortho_ref.adapters.starting_point import cells, starting_point
from ortho_ref.adapters.weight_map import WeightMap
from ortho_ref.conformance import check, load_adapter
from ortho_ref.conformance.__main__ import main
from ortho_ref.conformance.linear.table import RECURRENCES
from ortho_ref.installed import needed
from tests.ortho_ref.conformance.adapters import BY_ID
from tests.ortho_ref.test_converters import draw

GRU = converters.config_of("gru")
NAMES = [f"{kind}_{gate}" for gate in "ruc" for kind in "WUb"]
TABLE = {
    "kernel": ["W_r.T", "-W_u.T", "W_c.T"],
    "gates": [["U_r", "U_u"], ["W_r", "W_u"]],
    "candidate": "U_c",
    "bias": ["b_r", "0", "b_u", "b_c"],
}


def test_a_table_of_weights_by_hand():
    """Transposed and joined, a sign changed, zeros, a list of lists."""
    w = draw(GRU, np.random.default_rng(0), 3, 4)
    made = WeightMap(TABLE, GRU).to_framework(w)
    assert (made["kernel"] == np.concatenate([w["W_r"].T, -w["W_u"].T, w["W_c"].T], axis=1)).all()
    assert (made["gates"] == np.block([[w["U_r"], w["W_r"]], [w["U_u"], w["W_u"]]])).all()
    assert (made["bias"] == np.concatenate([w["b_r"], np.zeros(4), w["b_u"], w["b_c"]])).all()
    columns = {"all": [["W_r.T", "W_u.T", "W_c.T"], ["U_r.T", "U_u.T", "U_c.T"]], "b": ["b_r", "b_u", "b_c"]}
    expected = np.block([[w[f"{kind}_{gate}"].T for gate in "ruc"] for kind in "WU"])
    assert (WeightMap(columns, GRU).to_framework(w)["all"] == expected).all()


def test_gradients_by_a_table_are_the_adjoint():
    """<g, to(w)> = <gradients_from(g), w>; W_r and W_u stand in two places each."""
    table, w = WeightMap(TABLE, GRU), draw(GRU, np.random.default_rng(0), 3, 4)
    made = table.to_framework(w)
    rng = np.random.default_rng(1)
    g = {name: rng.standard_normal(a.shape) for name, a in made.items()}
    back = table.gradients_from(g, w)
    assert back.keys() == w.keys()
    left = sum((g[name] * made[name]).sum() for name in made)
    assert left == pytest.approx(sum((back[name] * w[name]).sum() for name in w), abs=1e-11)


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("form", ["full", "skew"])
def test_the_gradient_of_a_skew_matrix(upper, form):
    """[ncgru:6] of a full gradient G is G - G^T; of one that is skew already itself; of the upper triangle both."""
    rng = np.random.default_rng(0)
    G = rng.standard_normal((4, 4))
    wanted = G - G.T
    given = {(False, "full"): G, (False, "skew"): wanted, (True, "full"): np.triu(wanted, 1), (True, "skew"): wanted}
    table = {name: name for name in NAMES if name != "U_c"} | {"A": "U_c.A.triu" if upper else "U_c.A", "D": "U_c.D"}
    w = draw(GRU, np.random.default_rng(0), 3, 4)
    A = w.pop("U_c") - w["U_r"]
    own = WeightMap(table, GRU)
    w |= {"U_c.A": A - A.T, "U_c.D": np.ones(4)}
    made = own.to_framework(w)
    assert (made["A"] == (np.triu(A - A.T, 1) if upper else A - A.T)).all()
    gradients = {name: np.zeros_like(a) for name, a in made.items() if name != "D"} | {"A": given[upper, form]}
    np.testing.assert_allclose(own.gradients_from(gradients, w)["U_c.A"], wanted, atol=1e-15)
    assert own.kept == "U_c"


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"layers": 0}, ValueError, "layers is 0; allowed"),
        ({"layers": 1.5}, ValueError, r"layers is 1\.5; allowed: an integer"),
        ({"bidirectional": True}, TypeError, "bidirectional is for a module that is checked as a whole; give layers"),
    ],
)
def test_layers_that_are_none(options, error, message):
    """Said in one line, not ignored."""
    pytest.importorskip("torch", reason="torch is not installed: `make crosscheck` installs it")
    with pytest.raises(error, match=message):
        adapters.from_torch(lambda m, n: None, cell="gru", weights={}, **options)


def test_several_layers_and_no_biases():
    """Every direction's weights by its name; a layer above takes both directions of the one below."""
    from ortho_ref.conformance.cases.layered import directions

    ways = tuple(directions({"layers": 2, "bidirectional": True}))
    names = [f"{way.name}.{name}" for way in ways for name in NAMES if not name.startswith("b")]
    own = WeightMap({name: name for name in names}, GRU, ways)
    assert own.bias is False
    assert {name: a.shape for name, a in own.zeros(3, 4).items() if name.endswith("W_r")} == {
        "layer0.W_r": (4, 3),
        "layer0_reverse.W_r": (4, 3),
        "layer1.W_r": (4, 8),
        "layer1_reverse.W_r": (4, 8),
    }
    with pytest.raises(ValueError, match=r"weights leaves out layer0\.W_r; "):
        WeightMap({name: name for name in names[1:]}, GRU, ways)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({name: name for name in NAMES[:-1]}, "weights leaves out b_c; gru_reset_before has W_r, "),
        ({name: name for name in NAMES} | {"x": "W_z"}, r"weights\['x'\] has 'W_z'; allowed: W_r, "),
        ({name: name for name in NAMES} | {"x": ["W_r", "W_u.T"]}, r"weights\['x'\] is .*; allowed: .* all transposed"),
        ({name: name for name in NAMES} | {"x": []}, r"weights\['x'\] is \[\]"),
        (
            {name: name for name in NAMES} | {"x": ["W_r", "b_r"]},
            r"'x'\] joins arrays that do not fit: \[\(4, 3\), \(4,\)",
        ),
        ({name: name for name in NAMES} | {"b_r": "b_r.T"}, r"weights\['b_r'\] has 'b_r.T'"),
        ({name: name for name in NAMES} | {"x": 3.0}, r"weights\['x'\]"),
        (
            {name: name for name in NAMES} | {"U_c": "U_c.A", "U_r": "U_r.A"},
            "weights has A of U_c, U_r; allowed",
        ),
    ],
)
def test_tables_that_do_not_fit(table, message):
    """Which entry, what it has, what is allowed."""
    with pytest.raises((ValueError, TypeError), match=message):
        WeightMap(table, GRU)


@pytest.mark.parametrize(
    ("cell", "signs", "is_exp"), [("exprnn", {}, True), ("scornn", {}, False), ("exprnn", {"D": "U.D"}, False)]
)
def test_a_map_with_signs_is_not_exp(cell, signs, is_exp):
    """scoRNN's cell is expRNN's too: the cases of exp(A) are not of its map."""
    config, layout = one_cell(cell, {"W": "W", "b": "b", "A": "U.A"} | signs, "from_torch")
    found = of_yours(config, layout)(sequence_of(BY_ID["layer/exprnn/parametrized"].case))
    assert (found is layout) == is_exp


def test_either():
    """The first that supports a case; None where none does."""
    first, second = (lambda case: {"a": 1} if case == 1 else NotImplemented), (lambda case: {"b": 2} if case else None)
    run = adapters.either(first, second)
    assert [run(case) for case in (1, 2, 0)] == [{"a": 1}, {"b": 2}, None]


@pytest.mark.parametrize(
    ("make", "module"),
    [
        (adapters.from_torch, "torch"),
        (adapters.from_jax, "jax"),
        (adapters.from_keras, "keras"),
        (adapters.from_flax, "flax"),
        (adapters.from_equinox, "equinox"),
    ],
)
def test_a_framework_that_is_not_installed(make, module, monkeypatch):
    """One line that says what to install."""
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=f"{module} is not installed: pip install {module}") as raised:
        make(SimpleNamespace)
    assert "\n" not in str(raised.value)


def test_an_error_inside_a_framework_is_told_as_it_is():
    """Something else is missing, which it needs."""
    error = ImportError("no libcudnn", name="libcudnn")
    with pytest.raises(ImportError) as raised, needed("torch", "pip install torch"):
        raise error
    assert raised.value is error


@pytest.mark.parametrize("cell", cells())
def test_starting_points_in_numpy_run_and_are_right(cell, tmp_path):
    """Forward alone: partial cases, and none that fails."""
    path = tmp_path / "mine.py"
    path.write_text(starting_point("function", cell, "mine.py"))
    report = check(load_adapter(str(path)), f"cell/{converters.config_of(cell)['cell']}", allow_partial=True)
    assert report.ok, str(report)


@pytest.mark.parametrize("framework", ["torch", "jax", "keras", "flax", "equinox", "function"])
def test_starting_points_are_tidy(framework):
    """They compile, their lines fit, and the command names the file."""
    for cell in (*cells(), *(RECURRENCES if framework in ("torch", "jax") else ())):
        text = starting_point(framework, cell, "my cell.py")
        compile(text, "mine.py", "exec")
        assert max(map(len, text.splitlines())) <= 120
        assert "--adapter 'my cell.py'" in text
        assert text.endswith("\n")


BAD = {
    "--torch lstm --out {mine}": "which exists; allowed: a file that does not",
    "--torch gru-torch": "cell is 'gru-torch' (did you mean 'gru-modrelu'?); allowed: elman, ",
    "--torch urnn": "cell is 'urnn', whose states are complex: there is no file to begin from; write run(case)",
    "--keras kda": "--keras: kda is a linear recurrence; allowed: --torch, --jax",
    "--torch gru --jax gru": "not allowed with",
    "--torch gru --out {folder}/no/mine.py": ", which cannot be written",
}


def test_new_on_the_command_line(tmp_path, capsys):
    """To a file, which is not written over; to stdout; unknown names are refused."""
    path = tmp_path / "mine.py"
    assert main(["new", "--function", "gru", "--out", str(path)]) == 0
    assert check(load_adapter(str(path)), "cell/gru_reset_before/tanh", allow_partial=True).ok
    before = path.read_text()
    capsys.readouterr()
    for line, message in BAD.items():
        with pytest.raises(SystemExit) as ended:
            main(["new", *line.format(mine=path, folder=tmp_path).split()])
        assert ended.value.code == 2
        assert message in capsys.readouterr().err
    assert path.read_text() == before
