"""The project's own rules: equation tags, who imports whom, what the README says."""

import ast
import re
import subprocess
import sys
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import numpy as np
import pytest

import ortho_ref
from ortho_ref import models
from ortho_ref.conformance.cases.case_files import vectors
from ortho_ref.conformance.mistakes import MISTAKES
from ortho_ref.parametrizations.by_name import FORMS
from scripts.grid.experiment.file import read
from scripts.grid.experiment.results import read_runs
from scripts.maintain.equations.tags import TAG, comments, tags_of

ROOT = Path(__file__).parent.parent
FOLDERS = ("ortho_ref", "gradients", "tasks", "scripts")
FILES = {str(path.relative_to(ROOT)): path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))}
CUDA = {path.name: path for path in sorted((ROOT / "ortho_ref" / "fused" / "persistent").glob("*.cu*"))}
PROGRAMS = {p.stem for part in ("", "maintain") for p in (ROOT / "scripts" / part).glob("[!_]*.py")}
LOOPS = ("forward_loop", "backward_loop")
CELLS = [name for name in FILES if re.fullmatch(r"ortho_ref/cells/(?!__init__|by_name|cell\b).*\.py", name)]


@cache
def source_of(name):
    """The text of a file."""
    return FILES[name].read_text()


@cache
def tree_of(name):
    """The syntax tree of a file."""
    return ast.parse(source_of(name))


def code_tags(source):
    """Tags in the comments of a source, in order of first appearance."""
    return tags_of(comments(source))


def test_tags_match_the_header():
    """Every equation a file's header names is tagged on a line of code, and every tag stands in the header."""
    for name in FILES:
        source, header = source_of(name), ast.get_docstring(tree_of(name)) or ""
        host = re.sub("/(kernels|persistent|compiled)/", "/", name) if "/fused/" in name else name
        if host == name or host not in FILES:
            assert sorted(tags_of(header)) == sorted(code_tags(source)), name
        else:  # a device's loops, and compiled ones, follow the equations in the header of the host's file
            assert not tags_of(header), name
            assert set(code_tags(source)) <= set(tags_of(ast.get_docstring(tree_of(host)) or "")), name


def test_tags_of_cuda_match_what_is_stated():
    """A cell's kernels follow the header of the host's file: no other tags, and every one of the host's loops.

    What the kernels share states its own in its head.
    """
    for name, path in CUDA.items():
        head, _, lines = path.read_text().partition("\n\n")
        if name == "common.cuh":
            assert sorted(tags_of(head)) == sorted(tags_of(lines))
            continue
        host = source_of(f"ortho_ref/fused/{name.removesuffix('.cu')}.py")
        loops = "".join(function(host, way)[0] for way in LOOPS)
        assert not tags_of(head), name
        assert set(code_tags(loops)) <= set(tags_of(lines)) <= set(tags_of(ast.get_docstring(ast.parse(host)))), name


def function(source, name):
    """The source of the method called `name`, and its statements."""
    node = next(n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.FunctionDef) and n.name == name)
    return ast.get_source_segment(source, node), node


@pytest.mark.parametrize("name", CELLS)
def test_cells_follow_their_equations_line_by_line(name):
    """Forward and backward tag the header's equations in the header's order, and leave no computing line untagged."""
    source = source_of(name)
    forward, backward = (ast.get_docstring(tree_of(name)) or "").split("Backward.")
    for part, method in ((forward, "step_forward"), (backward, "step_backward")):
        text, node = function(source, method)
        assert [tag for tag in code_tags(text) if tag in tags_of(part)] == tags_of(part)
        lines = source.splitlines()
        for statement in ast.walk(node):
            if isinstance(statement, ast.Assign | ast.AugAssign | ast.AnnAssign) and computes(statement):
                own = "\n".join(lines[statement.lineno - 1 : statement.end_lineno])
                assert TAG.search(own), f"{name}:{statement.lineno}: no equation tag"


def computes(statement):
    """Arithmetic, or a call but for those that only look something up."""
    looks_up = {"activation", "xp_of"}
    for node in ast.walk(statement.value):
        if isinstance(node, ast.BinOp):
            return True
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") not in looks_up:
            return True
    return False


def test_the_tag_test_sees_a_missing_and_a_stray_tag():
    """The test above can fail."""
    assert code_tags('"""[ncgru:1/r]"""\nr = 1  # [ncgru:1/u]\n') == ["ncgru:1/u"]
    assert tags_of("a [bp:gru1/2] b [bp:gru1/2] [goru:2.2] [notes:1] ncgru:3") == ["bp:gru1/2", "goru:2.2"]


CORE = {"numpy", "scipy", "safetensors", "msgspec", "ortho_ref"}
ALLOWED = {
    "ortho_ref": CORE,
    "gradients": CORE | {"gradients"},
    "tasks": CORE | {"tasks"},
    "scripts": CORE
    | {"gradients", "tasks", "scripts", "typer", "rich", "matplotlib", "threadpoolctl", "torch", "mpmath"},
}


def imports(tree):
    """Full names of the modules a source imports, anywhere in it."""
    for node in ast.walk(tree):
        yield from imported(node)


def imported(node):
    """What one node imports."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        assert node.level == 0, "relative import"
        yield from (f"{node.module}.{alias.name}" for alias in node.names)


def imports_at_once(tree):
    """Those that importing the module runs: outside of functions."""

    def outside(node):
        yield node
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                yield from outside(child)

    for node in outside(tree):
        yield from imported(node)


#: Who may import which framework, inside functions: whose adapter it is, or whom it times; what only a download needs.
FRAMEWORKS = {
    "ortho_ref/adapters/torch.py": {"torch"},
    "ortho_ref/adapters/jax.py": {"jax"},
    "ortho_ref/adapters/flax.py": {"flax"},
    "ortho_ref/adapters/equinox.py": {"equinox"},
    "ortho_ref/adapters/keras.py": {"keras", "torch", "tensorflow"},
    "tasks/files.py": {"pooch", "requests", "urllib3"},
    "tasks/arrays.py": {"pyarrow"},
    "ortho_ref/adapters/maps.py": {"torch", "jax"},
    "ortho_ref/conformance/cases/node_tests.py": {"onnx"},
    "ortho_ref/converters/onnx_network.py": {"onnx"},
    "ortho_ref/converters/_traced.py": {"onnx"},
    "scripts/maintain/timing/peers_jax.py": {"jax"},
    "scripts/maintain/node_test_kills.py": {"onnx"},
    "scripts/grid/experiment/engine.py": {"distributed"},
    "scripts/grid/track.py": {"tensorboard"},
}


#: What adapters share, and the libraries that it is of.
OF_ADAPTERS = {
    "scripts/maintain/scoreboard/tensorflow_1.py": {"tensorflow"},
    "scripts/maintain/scoreboard/peft_map.py": {"peft"},
}
#: What adapters in scripts/ are of: packages, and modules of checkouts.
LIBRARIES = {
    *("torch", "onnx", "onnxruntime", "thinc", "jax", "flax", "keras", "equinox", "mlx", "torchrecurrent", "geotorch"),
    *("torch_eunn", "peft", "xlstm", "mlstm_kernels", "transformers", "pytensor"),
}
CHECKOUTS = {"edgeml_pytorch", "goru", "lru", "scoRNN", "NCGRU", "model", "models", "orthogonal", "trivializations"}


#: What the group `docs` installs.
OF_DOCS = {"sphinx", "docutils", "latex2mathml", "markdown_it", "mdit_py_plugins", "jinja2", "markupsafe", "pygments"}
OF_DOCS |= {"nbformat"}


def allowed_in(name):
    """Who may be imported in a file, beside Python's own."""
    folder = name.split("/")[0]
    allowed = ALLOWED[folder] | ({"rich", "pytest"} if name.startswith("ortho_ref/conformance/") else set())
    if name.startswith("scripts/maintain/adapters/"):  # loaded by their path, each where its library is installed
        allowed = CORE | {"gradients", "tasks", "scripts"} | LIBRARIES | CHECKOUTS
    if name.startswith("ortho_ref/fused/compiled/"):
        allowed = allowed | {"numba", "llvmlite"}
    if name.startswith(("scripts/maintain/book/", "scripts/maintain/site.py")):
        allowed = allowed | OF_DOCS
    return allowed | FRAMEWORKS.get(name, set()) | OF_ADAPTERS.get(name, set())


def test_who_imports_whom():
    """ortho_ref stands alone; tasks sees what a task is and ortho_ref.backend only; nobody imports tests; no
    program another, as what two of them need is in a folder."""
    for name in FILES:
        tree = tree_of(name)
        if name in FRAMEWORKS:
            assert not FRAMEWORKS[name] & {module.split(".")[0] for module in imports_at_once(tree)}, name
        allowed = allowed_in(name)
        for module in imports(tree):
            root, *rest = module.split(".")
            assert root in sys.stdlib_module_names or root in allowed, f"{name} imports {module}"
            if name.startswith("tasks/") and root == "ortho_ref":
                own = ("ortho_ref.training.task.", "ortho_ref.training.examples.", "ortho_ref.training.arrays.")
                own += ("ortho_ref.backend.",)
                assert module.startswith(own), f"{name} imports {module}"
            if name.startswith("scripts/"):
                own = rest[1:] if rest[:1] == ["maintain"] else rest
                assert not (root == "scripts" and own[0] in PROGRAMS), f"{name} imports {module}"


def test_nothing_that_only_unix_has_is_imported_at_once():
    """Windows can import every module; what needs more says so where it does."""
    for name in FILES:
        found = {module.split(".")[0] for module in imports_at_once(tree_of(name))}
        assert not found & {"resource", "fcntl", "pwd", "grp", "termios", "pty"}, name


def test_no_import_circle():
    """In functions neither; what types alone need does not count."""
    modules = {name.removesuffix(".py").removesuffix("/__init__").replace("/", "."): name for name in FILES}

    def needed(node):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            return
        for full in imported(node):
            yield full if full in modules else full.rpartition(".")[0]
        for child in ast.iter_child_nodes(node):
            yield from needed(child)

    graph = {own: set(needed(tree_of(name))) & modules.keys() - {own} for own, name in modules.items()}
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the circle
    with pytest.raises(CycleError):
        TopologicalSorter(graph | {"ortho_ref.backend": {"ortho_ref.scan"}}).prepare()


def test_importing_the_adapters_imports_no_framework():
    """In a fresh interpreter; and the rule sees an import that is not in a function."""
    frameworks = sorted(set().union(*FRAMEWORKS.values()))
    program = f"import sys, ortho_ref.adapters; assert not set({frameworks}) & set(sys.modules)"
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)
    source = "try:\n    import torch\nexcept ImportError: ...\ndef f():\n    import jax\n"
    assert list(imports_at_once(ast.parse(source))) == ["torch"]


def test_version_is_a_literal_and_in_the_changelog():
    """__version__ can be read without importing; the changelog's newest entry is this version."""
    assert re.search(r'^__version__ = "(\d+\.\d+\.\d+)"$', source_of("ortho_ref/__init__.py"), re.MULTILINE)
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest is not None
    assert newest[1] == ortho_ref.__version__
    assert f"\nversion: {ortho_ref.__version__}\n" in (ROOT / "CITATION.cff").read_text()


@pytest.mark.parametrize(
    "page",
    [
        "README.md",
        "docs/library.md",
        "docs/models.md",
        "docs/check/adapters.md",
        "docs/check/ci.md",
        "docs/check/functions.md",
        "docs/check/weights.md",
        "docs/which-gru.md",
    ],
)
def test_the_pages_python_runs(page, tmp_path, monkeypatch):
    """A page's Python, in its order, in a folder of its own, with the kit's example as mine.py; warnings are errors."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    assert blocks
    adapters = (ROOT / "docs/check/adapters.md").read_text()
    (tmp_path / "mine.py").write_text(*re.findall(r"```python\n(.*?)```", adapters, re.DOTALL))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    exec(compile("\n".join(blocks), page, "exec"), {"__name__": "__main__"})


def test_the_departures_of_released_code_run(capsys):
    """docs/examples/departures.py prints the lines that docs/errata.md shows, rounding aside."""
    path = ROOT / "docs/examples/departures.py"
    exec(compile(path.read_text(), str(path), "exec"), {"__name__": "__main__"})
    (shown,) = re.findall(r"```text\n(.*?)```", (ROOT / "docs/errata.md").read_text(), re.DOTALL)
    printed = capsys.readouterr().out
    number = r"\b\d[\d.e+-]*"
    assert re.sub(number, "", printed) == re.sub(number, "", shown)


def rows_of(page, heading):
    """The cells of each row of the table under a heading, without the head."""
    table = page.split(f"## {heading}\n")[1].split("\n## ")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in re.findall(r"^\|.*\|$", table, re.M)][2:]


def test_the_models_page_lists_every_model():
    """docs/models.md: every model, in order, with its options; every parametrization by name."""
    page = (ROOT / "docs/models.md").read_text()
    listed = {row[0].strip("`"): row for row in rows_of(page, "Models")}
    assert list(listed) == models.names()
    for name, row in listed.items():
        assert set(re.findall(r"`(\w+)`", row[4])) == set(models.options_of(name)), name
    assert ", ".join(row[0].strip("`") for row in rows_of(page, "Parametrizations")).replace("`, `", ", ") == FORMS


def test_the_zoo_has_every_model():
    """In order, each with as many parameters as its stored run says."""
    rows = [row.name for row in read(ROOT / "scripts/experiments/zoo.toml").rows]
    assert rows == models.names()
    runs = read_runs(ROOT / "results/experiments/zoo.jsonl")
    for name in rows:
        run = runs[name, "all", 0].run
        network = models.network(name, 10, [run["config"]["hidden"]], 9)
        assert network.count(network.init(np.random.default_rng(0))[0]) == run["summary"]["parameters"], name


def test_every_erratum_has_its_test():
    """docs/errata.md lists 44, each by the name of the test that holds it; no test is of one that is not listed."""
    listed = re.findall(r"^### (E-\w+-\d\d)$", (ROOT / "docs/errata.md").read_text(), re.M)
    assert len(listed) == len(set(listed)) == 44
    sources = "".join(path.read_text() for path in ROOT.glob("tests/gradients/test_errata_*.py"))
    tested = {f"E-{paper}-{number}" for paper, number in re.findall(r"def test_E_([a-z]+)_(\d\d)", sources)}
    assert tested == set(listed)


def test_the_readme_counts_cases_and_mistakes():
    """As the kit has them, and the changelog."""
    text = " ".join((ROOT / "README.md").read_text().split())
    assert f"The kit has {len(vectors())} cases" in text
    assert f"It knows {len(MISTAKES)} wrong versions" in text
    assert f"{len(vectors())} cases with confirmed answers" in " ".join((ROOT / "CHANGELOG.md").read_text().split())


PAGES = ["README.md", "CONTRIBUTING.md", *(str(p.relative_to(ROOT)) for p in sorted(ROOT.glob("docs/**/*.md")))]


def test_pages_name_what_exists():
    """Their pictures and links, and the scripts they run, are there."""
    for page in [*PAGES, "results/README.md"]:
        text = (ROOT / page).read_text()
        for target in re.findall(r"\]\(([^)#:]+)[^):]*\)", text):
            assert ((ROOT / page).parent / target).exists(), f"{page}: {target}"
        for script in re.findall(r"python -m scripts\.([\w.]*\w)", text):
            assert (ROOT / "scripts" / f"{script.replace('.', '/')}.py").exists(), f"{page}: {script}"


#: Turns of phrase that were rewritten, and what to say instead.
NOT_ENGLISH = {
    r"sp(oke|eaks|oken) no sense": "sent a reply that cannot be read",
    r"\bof nothing:": "baseline:",
    r"(^|[\"' ])Theirs[;.,]": "name whose: of the orthogonal weights",
    r"but theirs\b": "except orthogonal weights",
    r"can(not)? be had from": "they can (cannot) produce",
    r"a peer's time by ours": "peer's time / ours",
    r"\bwe are (quicker|faster)\b": "ortho_ref is faster",
    r"needs no watching": "you can leave it alone",
    r"What is not given is\b": "options you leave out take",
    r"is the paper's where a paper says it": "the default is the paper's value, where it gives one",
    r"time left: nothing": "time left: none",
    r"on whose workers": "run on the workers of",
    r"Also for other programs": "also write logs for",
    r"that were begun need less": "unfinished runs need less",
    r"as it looks unless given": "default: guessed from",
    r"with nothing but \S+ changing": "if only ... changes",
    r"\bis all of \$": "is the full gradient",
    r"The picture has the\b": "the plot shows the",
}


def spoken():
    """Place -> words that users read: pages, docstrings, the texts of programs, labels of pictures that move."""
    for page in [*PAGES, "results/README.md"]:
        yield page, (ROOT / page).read_text(encoding="utf-8")
    for name in FILES:
        texts = (n.value for n in ast.walk(tree_of(name)) if isinstance(n, ast.Constant) and isinstance(n.value, str))
        yield name, "\n".join(texts)
    for path in sorted((ROOT / "docs/site/static/alive").glob("*.js")):
        yield path.name, path.read_text(encoding="utf-8")


def test_words_that_were_rewritten_do_not_come_back():
    """A short list of phrases that sounded translated; the message says what to write."""
    found = [
        f"{place}: {hit[0]!r}; better: {better}"
        for place, text in spoken()
        for pattern, better in NOT_ENGLISH.items()
        for hit in [re.search(pattern, text)]
        if hit
    ]
    assert not found, "\n".join(found)
    assert re.search(next(iter(NOT_ENGLISH)), "your program spoke no sense to the kit")


def test_scripts_has_programs_on_top():
    """What can be run stands there and in maintain/; the README lists what people use; all else is in folders."""
    for part in ("scripts", "scripts/maintain"):
        for path in (ROOT / part).glob("[!_]*.py"):
            assert re.search(r'\nif __name__ == "__main__":\n    .+\n*$', path.read_text()), path
    listed = (ROOT / "README.md").read_text().split("the programs people use: ")[1].split(";")[0]
    assert set(re.findall(r"\w+", listed)) == {path.stem for path in (ROOT / "scripts").glob("[!_]*.py")}
