"""The built site in a real browser: from a folder, nothing fetched, equations drawn, lines lit, equations found."""

from urllib.parse import urlsplit

import pytest

from tests.site.pages import SITE
from tests.site.test_pages import PAGES

pytestmark = pytest.mark.site
PHONE, DESK = {"width": 390, "height": 844}, {"width": 1400, "height": 900}
CELL = "code/ortho_ref/cells/gru_reset_before.py.html"
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
  return [...document.querySelectorAll('article *')]
    .filter((one) => { const at = one.getBoundingClientRect(); return at.width > 1 && at.right > width + 1; })
    .filter((one) => !one.closest('pre, math, svg, .table-wrapper table') && !scrolled(one))
    .slice(0, 3).map((one) => one.tagName + '.' + one.className + ' ' + one.textContent.slice(0, 40));
}"""


def test_every_page_opens_and_fits_a_phone(browser):
    """Without an error in the console or a request that leaves the folder; at 390 pixels nothing is cut."""
    context = browser.new_context(viewport=PHONE)
    page = context.new_page()
    complaints, wrong = watched(page), {}
    assert len(PAGES) > 150
    for path in PAGES:
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


@pytest.mark.parametrize(("name", "tag"), [(CELL, "ncgru-19"), (CELL, "bp-gru1-3"), (CAYLEY, "ncgru-5")])
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


@pytest.mark.parametrize(
    ("typed", "id"),
    [
        ("reset gate", "goru:2.4"),
        ("(5)", "ncgru:5"),
        ("ncgru:5", "ncgru:5"),
        ("[bp:gru1/2]", "bp:gru1"),
        ("E-ncgru-01", "E-ncgru-01"),
        ("goru 2.10", "goru:2.10"),
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


def test_the_box_finds_ranges(opened):
    """(29)-(45): the seventeen of the paper that has them, in print order."""
    go(opened, "index.html")
    opened.fill(".goto input", "(29)-(45)")
    listed = opened.eval_on_selector_all(".goto .goto-found code", "all => all.map((one) => one.textContent)")
    assert [one for one in listed if one.startswith("ncgru:")] == [f"ncgru:{k}" for k in range(29, 46)]
    opened.fill(".goto input", "(9999)")
    assert "no equation" in opened.inner_text(".goto-count")


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
def test_axe_finds_no_serious_fault(browser, name, scheme):
    """axe-core, as its wheel has it: nothing serious or critical."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed").Axe()
    context = browser.new_context(viewport=DESK, color_scheme=scheme)
    page = context.new_page()
    go(page, name)
    found = axe.run(page).response["violations"]
    context.close()
    serious = [
        (one["id"], one["impact"], [node["html"][:150] for node in one["nodes"][:3]])
        for one in found
        if one["impact"] in {"serious", "critical"}
    ]
    assert serious == []


def test_a_printed_page_hides_nothing(opened):
    """No frame, one column, code that wraps, and nothing folded away."""
    go(opened, CELL)
    opened.emulate_media(media="print")
    opened.evaluate("() => window.dispatchEvent(new Event('beforeprint'))")
    assert opened.locator("article details:not([open])").count() == 0
    assert opened.locator(".goto input").is_hidden()
    assert opened.evaluate("() => getComputedStyle(document.querySelector('.book pre')).whiteSpace") == "pre-wrap"
