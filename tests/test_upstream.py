"""docs/upstream: each finding's program prints what its page says, where the libraries that it needs are installed."""

import ast
import re
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "docs" / "upstream"
FINDINGS = sorted(path for path in FOLDER.glob("*.md") if path.name != "README.md")


def needed(program):
    """The packages that it imports, in itself or in a program that it starts."""
    for node in ast.walk(ast.parse(program)):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module.partition(".")[0]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and "import " in node.value:
            yield from needed(node.value)


def parts(path):
    """Its program, and what it prints."""
    (found,) = re.findall(r"```python\n(.*?)```\n```text\n(.*?)```", path.read_text(), re.S)
    return found


@pytest.mark.parametrize("path", FINDINGS, ids=lambda path: path.stem)
def test_the_page_is_ready_to_be_reported(path):
    """Against what, whether it is known, a program that is one, what it prints, what was expected; listed."""
    text = path.read_text()
    for mark in ("**Against** ", "**Known:** ", "\nExpected: "):
        assert mark in text, mark
    program, printed = parts(path)
    ast.parse(program)
    assert printed.strip()
    assert f"]({path.name})" in (FOLDER / "README.md").read_text()


@pytest.mark.parametrize("path", FINDINGS, ids=lambda path: path.stem)
@pytest.mark.filterwarnings("default")
def test_the_program_prints_what_the_page_says(path, tmp_path, monkeypatch, capfd):
    """As it stands.  A difference is news: mended upstream, or a new version."""
    program, printed = parts(path)
    missing = sorted(name for name in set(needed(program)) if find_spec(name) is None)
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))  # for a program that it starts
    try:
        exec(compile(program, path.name, "exec"), {"__name__": "__main__"})
    except Exception as error:
        if re.search(r"ImportError|cudaErrorNoDevice|CUDARuntimeError", f"{type(error).__name__}: {error}"):
            pytest.skip(str(error))
        raise
    assert capfd.readouterr().out == printed
