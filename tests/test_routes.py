"""docs/routes, exercises, theorems and chapters: every block prints what stands below it, alone and in turn.

Exercises are graded, as notebooks too; a chapter's excerpts are the code's.
"""

import contextlib
import io
import re
import sys
import textwrap
from code import InteractiveConsole
from pathlib import Path

import nbformat
import pytest

from scripts.maintain.book.order import number_of
from scripts.maintain.book.routes import (
    CHAPTERS,
    EQUATIONS,
    EXERCISES,
    HOLE,
    ROUTES,
    THEOREMS,
    Block,
    answered,
    blocks,
    graded,
    notebook,
    pieces,
    with_formulas,
)
from scripts.maintain.equations.stated import STATED, read_equations
from scripts.maintain.equations.tags import id_of

ROOT = Path(__file__).parents[1]
ROUTE_PAGES = sorted(path.stem for path in (ROOT / ROUTES).glob("*.md"))
THEOREM_PAGES = sorted(path.stem for path in (ROOT / THEOREMS).glob("*-*.md"))
TEXTS = {name: (ROOT / ROUTES / f"{name}.md").read_text(encoding="utf-8") for name in ROUTE_PAGES}
TEXTS |= {name: (ROOT / THEOREMS / f"{name}.md").read_text(encoding="utf-8") for name in THEOREM_PAGES}
CHAPTER_PAGES = sorted(path.stem for path in (ROOT / CHAPTERS).glob("*.md"))
TEXTS |= {name: (ROOT / CHAPTERS / f"{name}.md").read_text(encoding="utf-8") for name in CHAPTER_PAGES}
ENTRIES = read_equations((ROOT / STATED).read_text(encoding="utf-8"))
#: Of a route's name.
TASKS = {name: (ROOT / EXERCISES / f"{name}.md").read_text(encoding="utf-8") for name in ROUTE_PAGES}


def run(code, names=None):
    """What a block prints, and the names that it leaves, beside those that it finds."""
    names, printed = {} if names is None else names, io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "<block>", "exec"), names)
    return printed.getvalue(), names


class Pasted(InteractiveConsole):
    """Python's prompt, which runs nothing."""

    def runcode(self, code):
        """Nothing."""

    def showsyntaxerror(self, *_, **__):
        """As a failure."""
        raise sys.exc_info()[1]


def steady(text):
    """Without what another machine or a later version prints otherwise: errors that are rounding, the version."""
    return re.sub(r"\d\.\de-1\d|(?<=ortho_ref )\d+\.\d+\.\d+", "...", text)


@pytest.mark.parametrize("text", [*TEXTS.values(), *TASKS.values()], ids=[*TEXTS, *(f"exercises-{n}" for n in TASKS)])
def test_a_block_alone_prints_what_stands_below_it(text):
    """Behind the page's imports, and nothing else; pasted at Python's prompt too."""
    found = blocks(text)
    assert [steady(run(block.code)[0]) for block in found] == [steady(block.printed) for block in found]
    for block in filter(lambda piece: isinstance(piece, Block), pieces(text)):
        prompt = Pasted()
        assert not [prompt.push(line) for line in (*block.code.split("\n"), "")][-1]


@pytest.mark.parametrize("name", ROUTE_PAGES)
def test_a_notebook_prints_what_the_page_prints(name, monkeypatch):
    """All blocks of a route in turn, the first route's by a kernel: nothing that one leaves behind changes another."""
    made = notebook(with_formulas(TEXTS[name], ENTRIES), f"{ROUTES}/{name}.md")
    cells = [cell for cell in made.cells if cell.cell_type == "code"]
    expected = [steady(cell.outputs[0].text) if cell.outputs else "" for cell in cells]
    assert sum(map(bool, expected)) >= 9
    if name == ROUTE_PAGES[0]:
        from nbclient import NotebookClient

        monkeypatch.setenv("PYTHONPATH", str(ROOT))
        monkeypatch.setenv("PYDEVD_DISABLE_FILE_VALIDATION", "1")
        NotebookClient(made, resources={"metadata": {"path": str(ROOT)}}).execute()
        printed = ["".join(one.text for one in cell.outputs) for cell in cells]
    else:
        names = {}
        printed = [run(cell.source, names)[0] for cell in cells]
    assert [steady(text) for text in printed] == expected


def strangers(page):
    """Excerpts of a chapter, blocks of `py`, that are not whole lines of the file which is linked last before them."""
    found = []
    for block in re.finditer(r"^```py\n(.*?)^```$", page, re.M | re.S):
        (*_, target) = re.findall(r"\]\(([^)#]+\.py)\)", page[: block.start()])
        lines = [line.strip() for line in (ROOT / CHAPTERS / target).read_text(encoding="utf-8").splitlines()]
        own = [line.strip() for line in textwrap.dedent(block[1]).splitlines()]
        if not any(lines[k : k + len(own)] == own for k in range(len(lines))):
            found.append(block[1])
    return found


@pytest.mark.parametrize("name", CHAPTER_PAGES)
def test_a_chapters_excerpts_are_the_codes(name):
    """Word for word, lines in their order; a changed sign is seen."""
    assert strangers(TEXTS[name]) == []


def test_an_excerpt_that_is_not_the_codes_is_seen():
    """One changed sign, and two lines that do not follow each other."""
    page = TEXTS["linear-recurrences"]
    assert page.count("\n```py\n") >= 8
    assert len(strangers(page.replace("eigenvalue * before + scale * u", "eigenvalue * before - scale * u"))) == 1
    assert len(strangers(page.replace("scale, name, slope = gamma(config, x)\n", ""))) == 1


@pytest.mark.parametrize("name", CHAPTER_PAGES)
def test_a_chapters_code_is_shown_whole(name):
    """At most 88 columns: a screen of 1280 pixels shows no more."""
    shown = re.findall(r"^```\w*\n(.*?)^```$", TEXTS[name], re.M | re.S)
    assert [line for block in shown for line in block.splitlines() if len(line) > 88] == []


@pytest.mark.parametrize("name", THEOREM_PAGES)
def test_a_theorem_has_its_parts(name):
    """Statement, fault, correction, proof and check; an erratum and a test of it that exist."""
    headings = re.findall(r"^## (.*)$", TEXTS[name], re.M)
    assert headings == ["As printed", "What is wrong", "What holds", "Proof", "The check"]
    assert r"\square" in TEXTS[name]
    tests = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    held = re.findall(r"`(test_\w+)`", TEXTS[name])
    assert held
    assert [one for one in held if f"def {one}(" not in tests] == []


@pytest.mark.parametrize("name", ROUTE_PAGES)
def test_exercises_are_graded(name):
    """As they stand they fail, of the missing line alone; with the answer they pass."""
    for hole, filled in answered(TASKS[name]):
        empty, right = (run(code)[1]["report"] for code in (hole.code, filled))
        assert not empty.ok
        assert any("all zeros" in result.message for result in empty.results)
        assert right.ok
        assert right.checked > right.skipped
        assert HOLE not in filled


@pytest.mark.parametrize("name", ROUTE_PAGES)
def test_every_stop_has_its_exercise(name):
    """One a stop, in the same order, each linked from its stop by its number; answers bear the same titles."""
    stops = re.findall(r"^### (\d+)\. ", TEXTS[name], re.M)
    titles = re.findall(r"^## (\d+\. .*)$", TASKS[name], re.M)
    assert len(stops) >= 9
    assert [title.split(".")[0] for title in titles] == stops
    assert re.findall(rf"^\[Exercise (\d+)\]\(\.\./exercises/{name}\.md#\1-", TEXTS[name], re.M) == stops
    assert re.findall(r"^\*\*(\d+\. .*?)\.\*\*", TASKS[name], re.M) == titles
    assert len(answered(TASKS[name])) == len(stops)


@pytest.mark.parametrize("name", ROUTE_PAGES)
def test_exercises_as_notebooks(name):
    """A point each: nothing for what stands there, all of them with the answers, which can be taken out again."""
    count = len(re.findall(r"^## \d+\. ", TASKS[name], re.M))
    for solved, points in ((False, 0), (True, count)):
        made = graded(TASKS[name], f"{EXERCISES}/{name}.md", solved)
        names, found, sources, checks = {}, 0, [], []
        for cell in (cell for cell in made.cells if cell.cell_type == "code"):
            own = cell.metadata.get("nbgrader", {})
            sources += [cell.source] if own.get("solution") else []
            checks += [own["points"]] if own.get("grade") else []
            if own.get("grade") and not solved:
                with pytest.raises(AssertionError, match="all zeros"):
                    run(cell.source, names)
            else:
                run(cell.source, names)
                found += own.get("points", 0)
        assert (found, sum(checks), len(sources)) == (points, count, count)
        assert all(("### BEGIN SOLUTION\n" in one) == solved == (HOLE not in one) for one in sources)
        ids = [cell.metadata.nbgrader.grade_id for cell in made.cells if "nbgrader" in cell.metadata]
        assert len(ids) == len(set(ids)) == 2 * count
        assert all("Answers" not in cell.source for cell in made.cells)


@pytest.mark.parametrize("name", ["ncgru", "urnn", "sgornn", "goru"])
def test_a_route_is_in_print_order_and_leaves_nothing_out(name):
    """Numbers rise from stop to stop; each that is stated for itself, and can be computed, is in one."""
    named = [i for line in EQUATIONS.findall(TEXTS[name]) for i in re.findall("`(.*?)`", line)]
    names = [id_of(i) for i in named]
    numbers = [number_of(one) for one in names if one.startswith(f"{name}:") and number_of(one) is not None]
    assert numbers == sorted(numbers)
    own = [i for i, e in ENTRIES.items() if i.startswith(f"{name}:") and number_of(i) and not e.same and not e.mark]
    assert [i for i in own if i not in names] == []


@pytest.mark.parametrize("name", TEXTS)
def test_errata_and_ids_exist(name):
    """Every id in backticks is stated in docs/equations.md, every erratum in docs/errata.md; of exercises too."""
    text = TEXTS[name] + TASKS.get(name, "")
    for tag in re.findall(r"`((?:ncgru|urnn|sgornn|goru|bp):[\w./-]+)`", text):
        assert id_of(tag) in ENTRIES, tag
    errata = re.findall(r"^### (E-\w+-\d\d)$", (ROOT / "docs/errata.md").read_text(encoding="utf-8"), re.M)
    assert set(re.findall(r"E-[a-z]+-\d\d", text)) <= set(errata)


def test_every_erratum_of_a_paper_is_on_its_routes():
    """A stop says what is wrong in print where it stands."""
    for name in ("ncgru", "urnn", "sgornn", "goru"):
        text = "".join(TEXTS[route] for route in ROUTE_PAGES if route.startswith(name))
        listed = re.findall(rf"^### (E-{name}-\d\d)$", (ROOT / "docs/errata.md").read_text(encoding="utf-8"), re.M)
        assert [one for one in listed if f"[{one}](" not in text] == []


PAGE = """# A page

```python
import math
```

Equations: `x:1`, see [a file](a.py).

```python
print(math.pi > 3)
```
```text
True
```

```python
y = 0   # your line
```

<details>
<summary>Answers</summary>

```py
y = 1
z = 2
```

</details>
"""


def test_a_page_is_read():
    """Words and blocks in turn; blocks with what they need; an answer, several lines of it, in place of the hole."""
    assert [type(piece) for piece in pieces(PAGE)] == [str, Block, str, Block, Block, str]
    assert [block.printed for block in blocks(PAGE)] == ["", "True\n", ""]
    assert blocks(PAGE)[1].code == "import math\nprint(math.pi > 3)\n"
    assert answered(PAGE)[0][1] == "import math\ny = 1\nz = 2\n"
    printing = PAGE.replace("import math\n", "print(1)\n", 1).replace("```\n\nEq", "```\n```text\n1\n```\n\nEq", 1)
    assert blocks(printing)[1].code == "print(math.pi > 3)\n"
    with pytest.raises(ValueError, match="1 exercises and 0 answers"):
        answered(PAGE.partition("<details>")[0])


def test_formulas_are_put_in():
    """From docs/equations.md, below the line; an equation that is not stated there is refused."""
    made = with_formulas("Equations: `urnn:1`, `ncgru:42`, `ncgru:43`\n\nWords.\n", ENTRIES)
    assert made.splitlines()[4].startswith("| `urnn:1` | $z_t = W x_t")
    assert made.count("\n| `") == 2
    assert with_formulas("Equations: `ncgru:thm1`\n", ENTRIES) == "Equations: `ncgru:thm1`\n"
    with pytest.raises(ValueError, match=r"x:1, which docs/equations\.md does not state"):
        with_formulas(PAGE, ENTRIES)


#: How docs/teach.md calls the exercises.
COURSE = {"ncgru": "NC-GRU", "ncgru-v2": "NC-GRU v2", "urnn": "uRNN", "sgornn": "SGORNN", "goru": "GORU"}


def numbers_of(words):
    """[1, 2, 3, 9] of "1 to 3, 9"."""
    ends = [[int(end) for end in part.split(" to ")] for part in words.split(", ")]
    return [number for first, *last in ends for number in range(first, (last or [first])[0] + 1)]


def handed_out(page):
    """Exercises of the course, name and number: of the table of lectures, and at home."""
    rows = re.findall(r"^\| \d \|.*\| (.*) \|$", page, re.M)
    home = re.search(r"no lecture has: (.*?)\.", page, re.S)[1].replace("\n", " ")
    pairs = [re.fullmatch(r"(.*?) ([\d, to]+)", part).groups() for words in [*rows, home] for part in words.split("; ")]
    return [(name, number) for name, words in pairs for number in numbers_of(words)]


def test_the_course_has_every_exercise_once():
    """In a lecture or at home; one that is left out, or handed out twice, is seen."""
    page = (ROOT / "docs" / "teach.md").read_text(encoding="utf-8")
    every = sorted((COURSE[name], k + 1) for name in ROUTE_PAGES for k in range(len(answered(TASKS[name]))))
    assert sorted(handed_out(page)) == every
    assert sorted(handed_out(page.replace("uRNN 8 to 14", "uRNN 8 to 13"))) != every
    assert sorted(handed_out(page.replace("uRNN 8 to 14", "uRNN 7 to 14"))) != every


def test_a_lecture_names_the_exercises_of_its_row():
    """The table and the sections of docs/teach.md say the same."""
    page = (ROOT / "docs" / "teach.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \d \|.*\| (.*) \|$", page, re.M)
    sections = [part for part in page.split("\n## ") if re.match(r"\d\. ", part)]
    assert len(rows) == len(sections) == 6
    for row, section in zip(rows, sections, strict=True):
        words = " ".join(section.split("* Exercises: ")[1].split())
        named = re.findall(r"\(exercises/([\w-]+)\.md\) ([\d, to]*\d)", words)
        assert "; ".join(f"{COURSE[name]} {numbers}" for name, numbers in named) == row


def test_an_exercise_that_nothing_checks_is_refused():
    """Its notebook would have no point to give."""
    with pytest.raises(ValueError, match="nothing checks the line to fill in"):
        graded(PAGE, "docs/exercises/page.md")


def test_a_notebook_is_the_page():
    """Valid, the same each time, its outputs the page's, its links names of files."""
    made = notebook(PAGE, "docs/routes/page.md")
    assert nbformat.writes(made) == nbformat.writes(notebook(PAGE, "docs/routes/page.md"))
    assert [cell.cell_type for cell in made.cells] == ["markdown", "code", "markdown", "code", "code", "markdown"]
    assert made.cells[3].outputs[0].text == "True\n"
    assert "see a file (`docs/routes/a.py`)" in made.cells[2].source
