"""Code that runs on a device takes its library from its arrays; CuPy itself lets most of NumPy's functions pass."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "ortho_ref"
FOLDERS = {"cells", "fused", "language", "parametrizations"}
MODULES = {"activations", "layers", "losses", "network", "scan", "training/averaging", "training/optimizers"}
FILES = [path for folder in sorted(FOLDERS) for path in sorted((PACKAGE / folder).rglob("*.py"))]
FILES = [path for path in FILES if path.parent.name != "compiled"]  # of the host alone
FILES += [PACKAGE / f"{name}.py" for name in sorted(MODULES)]
#: Types, constants and what the host alone knows.
NAMED = {"ndarray", "generic", "integer", "dtype", "float32", "finfo", "iinfo"}
NAMED |= {"random", "errstate", "pi", "inf", "nan"}
#: What a kernel is told by value is the host's; a table by precision.
ALSO = {"launch.py": {"array", "int32"}, "exponential.py": {"float64"}}


def numpys(node):
    """The np.names of a piece of code; first values are drawn on the host, by who takes a generator or a shape."""
    if isinstance(node, ast.FunctionDef) and {"rng", "n"} & {one.arg for one in node.args.args}:
        return
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "np":
        yield node.attr, node.lineno
    for child in ast.iter_child_nodes(node):
        yield from numpys(child)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_function_of_numpy_in_code_for_devices(path):
    """Neither in a line of it nor as a value that it hands on."""
    allowed = NAMED | ALSO.get(path.name, set())
    assert [(name, line) for name, line in numpys(ast.parse(path.read_text())) if name not in allowed] == []


def test_a_function_of_numpy_is_seen():
    """In a method too; not where first values are drawn."""
    source = "class A:\n    def f(self, x):\n        np.tanh(x) + np.pi\n    def init(self, rng):\n        np.eye(2)\n"
    assert [name for name, _ in numpys(ast.parse(source)) if name not in NAMED] == ["tanh"]
