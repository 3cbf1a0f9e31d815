"""Formulas, Markdown and code as HTML."""

import re

import pytest

from scripts.maintain.book.listing import coloured, linked

pytest.importorskip("latex2mathml", reason="latex2mathml is not installed")
pytest.importorskip("mdit_py_plugins", reason="mdit-py-plugins is not installed")

from scripts.maintain.book.cards import in_lines
from scripts.maintain.book.extension import docstring, escaped
from scripts.maintain.book.finder import greek, plain
from scripts.maintain.book.mathml import broken, mathml, plain as formula, styled
from scripts.maintain.book.prose import Prose
from scripts.maintain.book.stage import entry, with_errata


def test_formulas():
    """A `math` element, in a line or on its own; TeX that is none is refused with what it is."""
    assert mathml(r"U^{\mathsf T} U = I").startswith("<math ")
    assert 'display="block"' in mathml("a", display=True)
    for tex in (r"\nosuchcommand x", r"\frac{a}"):
        with pytest.raises(ValueError, match="TeX that cannot be shown: "):
            mathml(tex)


def test_formulas_are_mended():
    """Letters of a style are Unicode's, a sign has no space behind it, a function's name is a word."""
    assert "\U0001d5b3" in mathml(r"A^{\mathsf T}")
    found = [styled("R", "double-struck"), styled("U", "script"), styled("L", "script")]
    assert found == ["\u211d", "\U0001d4b0", "\u2112"]
    assert [styled("h", "script"), styled("1", "sans-serif")] == ["\U0001d4bd", "1"]
    assert mathml("A = -B").count('form="prefix"') == 1
    assert mathml("(-B, -A)").count('form="prefix"') == 2
    assert 'form="prefix"' not in mathml("A - B")
    assert 'form="prefix"' not in mathml("(A) - B")
    assert mathml(r"\lVert x \rVert_F").count('stretchy="false"') == 2
    assert 'accent="true"' in mathml(r"\dot X")
    assert "<mi>diag</mi><mo" in mathml(r"\operatorname{diag}(a)")
    assert '<mi>a</mi><mspace width="0.167em" /><mi>tr</mi><mspace width="0.167em" /><mi>X</mi>' in mathml(
        r"a \operatorname{tr} X"
    )
    thin = '<mspace width="0.167em" />'
    assert f"<mn>10</mn>{thin}<mi>ln</mi>{thin}<mn>8</mn>" in mathml(r"10 \ln 8")
    assert f"<mi>i</mi></msub>{thin}<msub><mi>u</mi>" in mathml(r"\max_i u_i")
    assert f"</mo>{thin}<mi>max</mi>" in mathml(r"\lVert U \rVert \max h")
    assert "</mo><mi>max</mi>" in mathml(r"\lVert \max h \rVert")
    assert mathml(r"(\max_i u_i)").count(thin) == 1
    assert "<mo>\u223c</mo>" in mathml(r"t \sim u")


@pytest.mark.parametrize(
    ("tex", "text"),
    [
        (r"U = (I + A)^{-1} (I - A) D", "U = (I + A)⁻¹(I - A) D"),
        (r"A^{\mathsf T} = -A", "Aᵀ = -A"),
        (r"c_t = \tanh(W_c x_t + U_c (r_t \odot h_{t-1}))", "c_t = tanh(W_c x_t + U_c(r_t ⊙ h_(t-1)))"),
        (r"\beta \le \lVert U_r \rVert / 4 + \vert \Phi'\vert \lVert U \rVert", "β ≤ ‖U_r‖/4 + |Φ\u2032|‖U‖"),
        (r"\frac{\partial h_t}{\partial h_{t-1}} \ne \frac{1 + a}{2}", "∂h_t/∂h_(t-1) ≠ (1 + a)/2"),
        (r"\sqrt{a} x^{(i)} + P_k^{q+1} + \kappa^T", "√a x^(i) + P_k^(q+1) + κ^T"),
        (r"v \sim u", "v ~ u"),
        (r"\dot X = \overline z + \widetilde A", "Ẋ = z̄ + Ã"),
        (r"\begin{pmatrix} 0 & -s \cr s & 0 \end{pmatrix}", "(0, -s; s, 0)"),
    ],
)
def test_formulas_in_words(tex, text):
    """What the box and the search page show of a formula, who draw none."""
    assert formula(tex) == text


def test_what_the_box_looks_through():
    """Words without Markdown's signs and without TeX; the names of Greek letters."""
    assert plain(r"Of `A`, **not** [this](a.md): $\alpha_t \le 1$ at 5 * 3") == "Of A, not this: \u03b1_t ≤ 1 at 5 3"
    assert greek("\u03b1 β \u03b1 λ 𝛿 x") == "alpha beta lambda delta"


def test_the_lines_of_a_formula():
    """Numbered parts where it has them, else one for each semicolon, but none within TeX, code or brackets."""
    assert in_lines("$a$; `x; y` and $b; c$; (d; e)") == ["$a$", "`x; y` and $b; c$", "(d; e)"]
    assert in_lines("line 2: $a$; $b$; 4: $c$") == ["line 2: $a$; $b$", "4: $c$"]
    assert in_lines("") == [""]


def test_a_long_formula_goes_on_in_the_next_line():
    """Cut before relations and signs outside of brackets and bars, a row for each piece; a short one is whole."""
    made = broken(
        r"\alpha = \delta_u (\max \vert h + 1\vert + \max \vert c_t\vert) \lVert U_u \rVert + \max(1 - u_t) - w"
    )
    assert made.count("<math ") == made.count("</math>") == 4
    assert made.count('"infix"') == 3
    assert all(piece.split(">", 1)[1].startswith("<mrow>") for piece in made.split("<math ")[1:])
    assert made.count('<span class="statement">') == 1
    assert broken("a = b") == mathml("a = b")
    made = broken(
        r"\alpha = \delta_u (H + C) \lVert U_u \rVert + w, \quad \beta = (x \quad y), \quad \gamma", display=True
    )
    statements = made.split('<span class="statement">')
    assert [one.count("<math ") for one in statements] == [0, 3, 2, 1]
    assert made.count('display="inline"') == made.count('displaystyle="true"') == 6
    html = Prose("page", lambda *_: None, lambda *_: "").formula("$a$; and $b$", "docs/equations.md")
    assert re.search(r'<span class="together"><math [^>]*alttext="a".*?</math>;</span></span> and', html)


@pytest.fixture
def prose():
    """Ids lead to #ID; links to what they name, in brackets."""
    return Prose("page", lambda name: f"#{name}" if name == "ncgru:5" else None, lambda *given: f"<{given}>")


def test_markdown(prose):
    """Formulas, ids in backticks and errata are made what they are; what is code stays code."""
    html = prose.inline("$a_1$ by `ncgru:5`, `b`, E-ncgru-01; <b>", "docs/equations.md")
    assert "<math " in html
    assert '<a href="#ncgru:5"><code>ncgru:5</code></a>, <code>b</code>' in html
    assert ">E-ncgru-01</a>; &lt;b&gt;" in html
    html = prose.inline("[E-ncgru-01 and `ncgru:5`](models.md#a)", "docs/equations.md")
    assert html.count("<a ") == 1
    assert "models.md#a" in html


def test_a_display_is_on_its_own(prose):
    """Between $$ of their own lines."""
    assert 'display="block"' in prose.block("So\n\n$$\na = b\n$$\n\nand `c`.", "docs/derivations/a.md")


def test_code_keeps_its_lines():
    """As many as the source has, with its text, though a string goes over several; tags are links."""
    source = '"""Head\n\n    a  [ncgru:5]\n"""\n\nx = "<a>"  # [ncgru:5] [ncgru:6]\n'
    lines = coloured("a.py", source)
    assert len(lines) == 6
    assert re.sub("<[^>]*>", "", lines[5]) == 'x = "&lt;a&gt;"  # [ncgru:5] [ncgru:6]'
    made = linked(lines[5], {"ncgru:5": "#eq-ncgru-5"})
    assert made.count("<a ") == 1
    assert 'href="#eq-ncgru-5">[ncgru:5]</a> [ncgru:6]' in made


def test_docstrings_are_words():
    """A star is a star, a single backtick code; a module's header stands as it is."""
    assert escaped("r * h, |v|, W_ and `a * b`, ``c``, d_x") == r"r \* h, \|v\|, W\_ and ``a * b``, ``c``, d_x"
    lines = ["Head of r * h.", "", "    a = b    [x:1]", "more"]
    docstring(None, "module", "m", None, None, lines)
    assert lines == [r"Head of r \* h.", "", "::", "", "       a = b    [x:1]", "   more", ""]


def test_errata_in_words_are_links():
    """Not where a link, a heading or code stands already, nor of an erratum that is not there."""
    to = "[E-urnn-01](/docs/errata.md#e-urnn-01)"
    assert with_errata("By (E-urnn-01), | E-urnn-01 |", {"E-urnn-01"}) == f"By ({to}), | {to} |"
    for kept in ("E-urnn-99", "`E-urnn-01`", "[E-urnn-01](a.md#b)", "## E-urnn-01", "<p>E-urnn-01</p>", "$E-urnn-01$"):
        assert with_errata(kept, {"E-urnn-01"}) == kept
    assert with_errata("# A\n\nE-urnn-01", {"E-urnn-01"}).endswith(to)


def test_names_in_the_navigation():
    """A claim's page by its paper and place; any other by its title."""
    assert entry("docs/claims/ncgru-table-1.md") == "NC-GRU, table 1 </docs/claims/ncgru-table-1>"
    assert entry("docs/claims/urnn-copying-lstm-seeds.md").startswith("uRNN, copying LSTM seeds <")
    assert entry("docs/claims/zoo.md") == "/docs/claims/zoo"
    assert entry("docs/errata.md") == "/docs/errata"
