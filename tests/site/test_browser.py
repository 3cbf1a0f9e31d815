"""The built site in a real browser: from a folder, nothing fetched, equations drawn, lines lit, equations found."""

import re
from urllib.parse import urlsplit

import pytest

from scripts.maintain.equations.held import CODE, TESTS, rows_of, sources
from scripts.maintain.equations.stated import STATED, read_equations
from scripts.maintain.equations.tags import id_of, tagged_lines
from tests.site.pages import ROOT, SITE
from tests.site.test_pages import PAGES

pytestmark = pytest.mark.site
PHONE, DESK = {"width": 390, "height": 844}, {"width": 1280, "height": 900}
CELL = "code/ortho_ref/cells/gru_reset_before.py.html"
AFTER = "code/ortho_ref/cells/gru_reset_after.py.html"
CAYLEY = "code/ortho_ref/parametrizations/cayley.py.html"
#: One of each kind of page, which axe-core looks at; in dark those with colours of our own.
KINDS = [
    "index.html",
    CELL,
    "papers/ncgru.html",
    "docs/reading-guide.html",
    "docs/routes/urnn.html",
    "docs/theorems/ncgru-theorem-1.html",
    "docs/errata.html",
    "api/ortho_ref.cells.gru_reset_before.html",
    "code/tests/gradients/test_cayley.py.html",
    "search.html",
]


@pytest.fixture
def opened(browser):
    """A page on a desk's screen, and what it complained of."""
    context = browser.new_context(viewport=DESK)
    page = context.new_page()
    page.complaints = watched(page)
    yield page
    context.close()


def watched(page):
    """What a page writes as an error, raises, or asks for outside of the folder."""
    complaints = []
    page.on("console", lambda said: complaints.append(said.text) if said.type in {"error", "warning"} else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    # what was still asked for as the next page opened is given up, which is no fault; a file that is not there is one
    page.on("requestfailed", lambda request: complaints.append(request.url) if missing(request) else None)
    page.on("request", lambda request: complaints.append(request.url) if leaves(request.url) else None)
    return complaints


def missing(request):
    return request.failure != "net::ERR_ABORTED"


def leaves(url):
    return not url.startswith((SITE.as_uri(), "data:", "blob:"))


def go(page, name, fragment=""):
    page.goto((SITE / name).as_uri() + fragment, wait_until="load")
    page.evaluate("() => document.fonts.ready.then(() => true)")


# What of the page stands further right than the window, and in nothing that is scrolled.
CUT = """() => {
  const width = document.documentElement.clientWidth;
  if (document.scrollingElement.scrollWidth > width) {
    return ['the page is ' + document.scrollingElement.scrollWidth + ' wide'];
  }
  const scrolled = (one) => {
    for (let at = one.parentElement; at; at = at.parentElement) {
      if (/auto|scroll/.test(getComputedStyle(at).overflowX)) return true;
      if (at.matches('article')) return false;
    }
    return false;
  };
  const code = [...document.querySelectorAll('article pre')].find((one) => one.scrollWidth > one.clientWidth + 1);
  if (code) return ['code is scrolled: ' + code.textContent.slice(0, 80)];
  return [...document.querySelectorAll('article *')]
    .filter((one) => { const at = one.getBoundingClientRect(); return at.width > 1 && at.right > width + 1; })
    .filter((one) => !one.closest('pre, math, svg, .table-wrapper table') && !scrolled(one))
    .slice(0, 3).map((one) => one.tagName + '.' + one.className + ' ' + one.textContent.slice(0, 40));
}"""


@pytest.mark.parametrize(("size", "least"), [(PHONE, 150), (DESK, 60)], ids=["phone", "desk"])
def test_every_page_opens_and_fits(browser, size, least):
    """Without an error in the console or a request that leaves the folder; at 390 pixels nothing is cut, at 1280 no
    page of prose is, and no code is scrolled sideways."""
    context = browser.new_context(viewport=size)
    page = context.new_page()
    complaints, wrong = watched(page), {}
    pages = PAGES if size is PHONE else [path for path in PAGES if path.is_relative_to(SITE / "docs")]
    assert len(pages) > least
    for path in pages:
        name = path.relative_to(SITE).as_posix()
        go(page, name)
        cut = page.evaluate(CUT)
        if complaints or cut:
            wrong[name] = [*complaints, *cut]
            complaints.clear()
    context.close()
    assert wrong == {}


@pytest.mark.parametrize("name", ["papers/ncgru.html", CELL, CAYLEY, "docs/equations.html"])
def test_equations_are_drawn(opened, name):
    """Each `math` has a height, is in the mathematics font, and shows no TeX."""
    go(opened, name)
    opened.evaluate("() => document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    opened.evaluate("() => document.fonts.ready")
    found = opened.evaluate(
        """() => [...document.querySelectorAll('math')].map((one) => ({
          height: one.getBoundingClientRect().height, text: one.textContent,
          font: getComputedStyle(one).fontFamily }))"""
    )
    assert len(found) > 5
    assert opened.evaluate(
        "() => [...document.fonts].some((one) => one.family.includes('STIX') && one.status === 'loaded')"
    )
    for one in found:
        assert one["height"] > 4, one
        assert "\\" not in one["text"], one
        assert "STIX Two Math" in one["font"]


def test_a_page_of_code_begins_with_its_equations(opened):
    """Of every cell and map with equations the first formula is within 600 pixels, and what has none is folded."""
    found = {}
    for path in sorted((SITE / "code" / "ortho_ref").glob("[cp]*/*.html")):
        if path.parent.name in ("cells", "parametrizations") and 'class="book columns"' in path.read_text("utf-8"):
            go(opened, path.relative_to(SITE).as_posix())
            found[path.name] = opened.evaluate("() => document.querySelector('.formula').getBoundingClientRect().top")
            assert opened.locator("details.folded:not([open]) .part.plain").count() <= 1
    assert len(found) >= 13
    assert {name: top for name, top in found.items() if not 0 < top < 600} == {}


def lit(page):
    """The lines and the equations that are lit."""
    return (
        page.eval_on_selector_all(".line.lit", "all => all.map((one) => Number(one.id.slice(1)))"),
        page.eval_on_selector_all(".equation.lit", "all => all.map((one) => one.dataset.ids)"),
    )


def test_an_equation_lights_its_line_and_a_line_its_equation(opened):
    """Under the pointer and in focus; elsewhere nothing is lit."""
    go(opened, CELL)
    assert lit(opened) == ([], [])
    opened.hover("#eq-ncgru-35 .formula")
    lines, equations = lit(opened)
    tagged = opened.eval_on_selector_all(
        '.line[data-ids~="ncgru:35"]', "all => all.map((one) => Number(one.id.slice(1)))"
    )
    assert lines == tagged != []
    assert equations == ["ncgru:35"]
    opened.hover(f"#L{tagged[0]} .tag")
    assert lit(opened) == (tagged, ["ncgru:35"])
    opened.hover("h1")
    assert lit(opened) == ([], [])
    opened.focus(f"#L{tagged[0]} .ln")
    assert lit(opened) == (tagged, ["ncgru:35"])
    opened.focus("#eq-ncgru-35 .number")
    assert lit(opened) == (tagged, ["ncgru:35"])


BOUNDS = "code/gradients/bounds.py.html"


@pytest.mark.parametrize(
    ("name", "tag"),
    [(CELL, "ncgru-19"), (CELL, "bp-gru1-3"), (CAYLEY, "ncgru-5"), (BOUNDS, "ncgru-44"), (BOUNDS, "ncgru-30")],
)
def test_links_land_on_lines(opened, name, tag):
    """The line is in view, and lit with its equation; so is that of the tag's link, and of the equation's."""
    go(opened, name, f"#{tag}")
    line = opened.locator(".line", has=opened.locator(f'[id="{tag}"]'))
    assert "lit" in line.get_attribute("class")
    box = line.bounding_box()
    assert 0 <= box["y"] <= DESK["height"]
    assert lit(opened)[1]
    opened.click(f'.line:has([id="{tag}"]) a.tag')
    assert urlsplit(opened.url).fragment.startswith("eq-")
    assert opened.locator(".equation:target").count() == 1


# Of each tag's link on a page of two columns whether the line is in view, and the formula of its equation.
LANDINGS = """async () => {
  const seen = (one) => {
    const at = one && one.getBoundingClientRect();
    return Boolean(at) && at.top >= 0 && at.bottom <= window.innerHeight;
  };
  const drawn = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  const found = [];
  for (const anchor of document.querySelectorAll('.line > span[id]')) {
    location.hash = anchor.id;
    await drawn();
    const line = document.querySelector('.line.here');
    const part = line.closest('.part');
    found.push([anchor.id, line === anchor.parentElement && seen(line), seen(part.querySelector('.lit .formula'))]);
  }
  return found;
}"""


def test_every_link_to_a_line_shows_its_equation_beside_it(opened):
    """Of every tag of every file: the line is in view, and all but a hundredth of the formulas are, beside it."""
    found = {}
    for path in sorted((SITE / "code").rglob("*.html")):
        if 'class="book columns"' in path.read_text(encoding="utf-8"):
            go(opened, path.relative_to(SITE).as_posix())
            found |= {(str(path), name): (line, formula) for name, line, formula in opened.evaluate(LANDINGS)}
    assert len(found) > 400
    assert [name for name, (line, _) in found.items() if not line] == []
    apart = [name for name, (_, formula) in found.items() if not formula]
    assert len(apart) <= len(found) / 100, apart


def here(page):
    """The line that a link has led to."""
    return page.eval_on_selector_all(".line.here", "all => all.map((one) => Number(one.id.slice(1)))")


def carriers(file, id):
    """The lines of a file that have an equation, or that part of it: by the source."""
    tagged = tagged_lines(file, (ROOT / file).read_text(encoding="utf-8"))
    return [line for line, tags in tagged.items() if any(id in {tag, id_of(tag)} for tag in tags)]


@pytest.mark.parametrize("tag", ["bp:gru1/2", "ncgru:1/c", "ncgru:19/c"])
def test_a_link_to_one_line_lights_all_of_its_equation(opened, tag):
    """The line is marked, and the equation's others are lit beside it: by the tag its own equation's, and no other's;
    by the number those of all that the line has.  What is pointed at is lit meanwhile."""
    file = "ortho_ref/cells/gru_reset_before.py"
    whole, line = carriers(file, id_of(tag)), carriers(file, tag)[0]
    go(opened, CELL, f"#{tag.replace(':', '-').replace('/', '-')}")
    assert (here(opened), lit(opened)) == ([line], (whole, [id_of(tag)]))
    opened.hover("#eq-ncgru-35 .formula")
    assert (here(opened), lit(opened)[0]) == ([line], carriers(file, "ncgru:35"))
    opened.hover("h1")
    assert lit(opened) == (whole, [id_of(tag)])
    marked, plain = opened.evaluate(
        """() => [document.querySelector('.line.here'), document.querySelector('.line:not(.tagged)')]
          .map((one) => getComputedStyle(one).backgroundColor)"""
    )
    others = opened.eval_on_selector_all(
        ".line.lit:not(.here)", "all => all.map((one) => getComputedStyle(one).backgroundColor)"
    )
    assert len({marked, plain, *others}) == 2 + (len(whole) > 1)
    opened.mouse.move(2, 2)  # out of the book, which moves below it
    opened.evaluate(f"() => {{ location.hash = 'L{line}' }}")
    opened.wait_for_function("() => document.querySelector('.line:target.here')")
    source = (ROOT / file).read_text(encoding="utf-8")
    ids = {id_of(one) for one in tagged_lines(file, source)[line]}
    assert lit(opened)[0] == sorted({one for id in ids for one in carriers(file, id)})
    assert set(lit(opened)[1]) == ids


ENTRIES = read_equations((ROOT / STATED).read_text(encoding="utf-8"))
ROWS = rows_of(ENTRIES, sources(ROOT, CODE), sources(ROOT, TESTS))
#: Equations of the papers, with a number or a name, that have a line: of code, or of a test.
PRINTED = [name for name in ENTRIES if not name.startswith("bp:") and (ROWS[name].code or ROWS[name].tests)]


def clicked(page, link):
    """One click, on what is there to be clicked, and the page that it opens."""
    link.scroll_into_view_if_needed()
    link.click()
    page.wait_for_load_state("load")


def test_every_link_of_a_row_says_where_it_leads(opened):
    """A row of several equations names the equation behind a file that has more than one of them."""
    for paper in sorted({name.partition(":")[0] for name in PRINTED}):
        go(opened, f"papers/{paper}.html")
        for row in opened.locator("tr[data-ids]").all():
            said = row.locator("ul.files a").all_inner_texts()
            assert len(said) == len(set(said)), said


def test_a_papers_list_says_why_a_line_is_missing(opened):
    """Every row of every paper has a line of code, or words that say why not."""
    for paper in sorted({name.partition(":")[0] for name in PRINTED}):
        go(opened, f"papers/{paper}.html")
        for row in opened.locator("tr[data-ids]").all():
            names = row.get_attribute("data-ids").split()
            code = any(ROWS[name].code for name in names)
            said = row.locator(".label").inner_text()
            assert said.startswith("code and test" if code and not ROWS[names[0]].reason else ("no line", "not built"))


@pytest.mark.parametrize(
    ("typed", "id"),
    [
        ("reset gate", "goru:2.4"),
        ("(5)", "ncgru:5"),
        ("ncgru:5", "ncgru:5"),
        ("[bp:gru1/2]", "bp:gru1"),
        ("E-ncgru-01", "E-ncgru-01"),
        ("goru 2.10", "goru:2.10"),
        ("eq. (19)", "ncgru:19"),
        ("uRNN equation 6", "urnn:6"),
        ("eqs (29)-(31)", "ncgru:30"),
    ],
)
def test_the_box_finds(opened, typed, id):
    """By number, name, erratum and words; Enter goes to the first; the search page asks the box's array first."""
    go(opened, "docs/training.html")
    opened.fill(".goto input", typed)
    listed = opened.eval_on_selector_all(".goto .goto-found code", "all => all.map((one) => one.textContent)")
    assert id in listed
    opened.press(".goto input", "Enter")
    opened.wait_for_url("**/*.html#*")
    assert not opened.url.endswith("docs/training.html")
    go(opened, "search.html", f"?q={typed}")
    assert opened.locator("section:has(> h2:text-is('Equations')) li", has_text=id).count() >= 1
    assert opened.complaints == []


@pytest.mark.parametrize(
    ("typed", "ids"),
    [
        ("tanh", {"ncgru:1", "goru:2.2", "bp:lstm"}),
        ("reset gate", {"ncgru:1", "goru:3.3"}),
        ("Theorem 1", {"ncgru:thm1", "sgornn:thm1"}),
        ("alpha", {"ncgru:9", "sgornn:1"}),
        ("(I + A)^-1", {"ncgru:2", "ncgru:4"}),
        ("prose", set()),
    ],
)
def test_the_box_finds_formulas(opened, typed, ids):
    """By the names in them, of Greek letters too, and as they are typed; what it shows has no TeX."""
    go(opened, "index.html")
    opened.fill(".goto input", typed)
    assert ids <= set(opened.eval_on_selector_all(".goto-found code", "all => all.map((one) => one.textContent)"))
    assert not re.search(r"\\[a-z]|[$*`]|\bprose: ", opened.inner_text(".goto-found"))


def test_a_result_of_a_search_says_how_its_page_begins(opened):
    """From a folder too, where nothing can be fetched; the words are the page's own."""
    go(opened, "search.html", "?q=parquet")
    opened.wait_for_selector("#search-results .excerpt")
    found = opened.eval_on_selector_all(
        "#search-results li:has(.excerpt)", "all => all.map((one) => [one.querySelector('a').href, one.innerText])"
    )
    address, words = found[0]
    go(opened, address.removeprefix(SITE.as_uri() + "/").partition("#")[0].partition("?")[0])
    assert words.split("\n")[-1].removesuffix(" …")[:40] in " ".join(opened.inner_text("article").split())


@pytest.mark.parametrize("name", ["papers/ncgru.html", "papers/goru.html", CELL, AFTER, BOUNDS])
def test_formulas_fit_their_place(opened, name):
    """None is wider than its column, and none is set letter below letter."""
    go(opened, name)
    sizes = opened.eval_on_selector_all(
        ".formula", "all => all.map((one) => [one.scrollWidth - one.clientWidth, one.querySelectorAll('br').length])"
    )
    assert len(sizes) > 3
    assert [width for width, _ in sizes if width > 1] == []
    heights = opened.eval_on_selector_all(
        ".formula math", "all => all.map((one) => one.getBoundingClientRect().height)"
    )
    assert max(heights) < 60


def test_sphinxs_own_search_works_from_a_folder(opened):
    """Words of the docs, by a script, without a request."""
    go(opened, "search.html", "?q=perplexity")
    opened.wait_for_selector("#search-results ul.search li a")
    assert opened.complaints == []


def test_by_keyboard_alone(opened):
    """The box is reached by the keyboard; so is what it lists."""
    go(opened, "index.html")
    opened.focus(".goto input")
    opened.keyboard.type("(19)")
    opened.keyboard.press("Tab")
    assert opened.evaluate("() => document.activeElement.closest('.goto-found') !== null")
    opened.keyboard.press("Enter")
    opened.wait_for_url("**/*#ncgru-19")
    assert opened.locator(".line.lit").count() >= 1


@pytest.mark.parametrize(
    ("name", "scheme"), [*((name, "light") for name in KINDS), *((name, "dark") for name in KINDS[:4])]
)
def test_axe_finds_no_serious_fault(browser, faults, name, scheme):
    """axe-core, as its wheel has it: nothing serious or critical."""
    context = browser.new_context(viewport=DESK, color_scheme=scheme)
    page = context.new_page()
    go(page, name)
    found = faults(page)
    context.close()
    assert found == []


@pytest.mark.parametrize("name", ["docs/routes/ncgru.html", "docs/theorems/ncgru-theorem-1.html", CELL])
def test_on_paper_code_is_whole(opened, name):
    """As wide as a page of A4 between its margins: no line of code is cut, and nothing of the screen is printed."""
    opened.set_viewport_size({"width": 680, "height": 960})
    go(opened, name)
    opened.emulate_media(media="print")
    cut = opened.eval_on_selector_all("article pre", "all => all.map((one) => one.scrollWidth - one.clientWidth)")
    assert len(cut) > 2
    assert max(cut) <= 1
    for frame in (".skip-to-content", ".back-to-top", ".sidebar-drawer", ".toc-drawer", ".mobile-header"):
        assert all(one.is_hidden() for one in opened.locator(frame).all()), frame
    opened.emulate_media(media="screen")
    assert opened.locator(".skip-to-content").is_visible()


@pytest.mark.parametrize(
    "name", ["docs/claims.html", "docs/training.html", "docs/equations.html", "docs/findings/scoreboard.html"]
)
def test_on_paper_tables_are_whole(opened, name):
    """No column is cut; that of somebody who reads in the dark has no grey pictures."""
    opened.set_viewport_size({"width": 680, "height": 960})
    opened.emulate_media(media="print", color_scheme="dark")
    go(opened, name)
    cut = opened.eval_on_selector_all(".table-wrapper", "all => all.map((one) => one.scrollWidth - one.clientWidth)")
    assert cut
    assert max(cut) <= 1
    filters = opened.eval_on_selector_all("article img", "all => all.map((one) => getComputedStyle(one).filter)")
    assert set(filters) <= {"none"}


@pytest.mark.parametrize("cell", ["elman", "fastrnn", "gru_reset_before", "gru_reset_after", "lstm"])
def test_a_cell_is_seven_sheets_at_most(opened, cell):
    """Wider than high, formula and code side by side."""
    go(opened, f"code/ortho_ref/cells/{cell}.py.html")
    sheets = max(map(int, re.findall(rb"/Count (\d+)", opened.pdf(prefer_css_page_size=True))))
    assert 1 < sheets <= 7
    opened.emulate_media(media="print")
    places = "all => all.slice(0, 2).map((one) => one.getBoundingClientRect())"
    left, right = opened.eval_on_selector_all(".part:not(.plain) > :is(.left, .right)", places)
    assert left["right"] <= right["left"]


def test_a_printed_page_hides_nothing(opened):
    """No frame, code that wraps, and no derivation or code folded away."""
    go(opened, CELL)
    opened.emulate_media(media="print")
    opened.evaluate("() => window.dispatchEvent(new Event('beforeprint'))")
    assert opened.locator("article details:not([open])").count() == 0
    assert opened.locator(".goto input").is_hidden()
    assert opened.evaluate("() => getComputedStyle(document.querySelector('.book pre')).whiteSpace") == "pre-wrap"
