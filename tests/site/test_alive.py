"""The pages that move, in a real browser: their numbers are ortho_ref's, and a keyboard, a phone or paper will do."""

import math

import numpy as np
import pytest

from tests.alive import reference, test_agreement
from tests.alive.test_pictures import close
from tests.site.pages import ROOT, SITE
from tests.site.test_browser import CUT, DESK, PHONE, go, watched

pytestmark = pytest.mark.site
PAGES = sorted(path.stem for path in (ROOT / "docs" / "alive").glob("*.md") if path.stem != "README")
#: Those with sliders.
MOVING = [name for name in PAGES if name != "your-own-cell"]
#: Of each that has one, a picture with a button that plays, and the slider that it moves.
PLAYED = {
    "eigenvalues": [("eigenvalues", "t"), ("half-turn", "short")],
    "neumann": [("neumann", "rate")],
    "modrelu": [("modrelu", "b"), ("gates", "angle")],
    "delta-rule": [("delta-rule", "beta")],
}


@pytest.fixture
def opened(browser):
    """A page on a desk's screen, and what it complained of."""
    context = browser.new_context(viewport=DESK)
    page = context.new_page()
    page.complaints = watched(page)
    yield page
    context.close()
    assert page.complaints == []


def alive(page, name):
    """A page that moves, with its tables unfolded."""
    go(page, f"docs/alive/{name}.html")
    page.evaluate("() => document.querySelectorAll('article details').forEach((one) => { one.open = true; })")


def put(page, picture, **settings):
    """Sets controls of a picture, as if somebody had."""
    for name, value in settings.items():
        page.evaluate(
            """([id, value]) => {
              const control = document.getElementById(id);
              control.value = value;
              control.dispatchEvent(new Event('input', { bubbles: true }));
            }""",
            [f"{picture}-{name.replace('_', '-')}", str(value)],
        )


def value_of(page, picture, name):
    """What a slider stands at."""
    return float(page.locator(f"#{picture}-{name}").input_value())


def numbers(page, picture, table=0):
    """The rows of a picture's table: numbers in full, NaN where there is none; words are left out."""
    return page.evaluate(
        """([id, table]) => [...document.querySelectorAll(`#picture-${id} table`)[table].querySelectorAll('tbody tr')]
          .map((row) => [...row.querySelectorAll('data')].map((one) => one.value))""",
        [picture, table],
    )


def test_there_are_six():
    """The list of docs/alive/README.md has each of them."""
    listed = (ROOT / "docs" / "alive" / "README.md").read_text(encoding="utf-8")
    assert len(PAGES) == 6
    assert all(f"]({name}.md)" in listed for name in PAGES)


def test_eigenvalues_are_ortho_refs(opened):
    """The table has the angles of the U that ortho_ref makes of the page's parameters, at three settings."""
    alive(opened, "eigenvalues")
    for t, direction, negative_ones, reflections in ((1, 1, 2, 3), (0, 5, 3, 2), (7.5, 12, 5, 5)):
        put(opened, "eigenvalues", t=t, direction=direction, negative_ones=negative_ones, reflections=reflections)
        settings = {"t": t, "direction": direction, "negativeOnes": negative_ones, "reflections": reflections}
        expected = reference.eigenvalues(opened.evaluate("(s) => window.alive.eigenvalues.parameters(s)", settings))
        close(np.abs(np.array(numbers(opened, "eigenvalues"), float)), np.abs(expected))
        determinants = [float(row[0]) for row in numbers(opened, "eigenvalues")]
        close(determinants, expected[:, 0])
    for power in (-1, -3, 0.05):
        put(opened, "half-turn", short=power)
        close(numbers(opened, "half-turn"), reference.half_turn(10**power))


def test_neumanns_drift_is_ortho_refs(opened):
    """The table has the defects of ortho_ref's updates, at three settings, and of one update by rate."""
    alive(opened, "neumann")
    A = np.array(opened.evaluate("() => window.alive.neumann.start()"))
    for rate, size, order, resets in ((-3, -1, 2, "50"), (-0.5, -2, 1, "20"), (-2, -3, 3, "never")):
        put(opened, "neumann", rate=rate, size=size, order=order, resets=resets)
        gradients = np.array(opened.evaluate("(size) => window.alive.neumann.gradients(size)", 10**size))
        reset_every = None if resets == "never" else int(resets)
        of = (A, gradients, 10**rate, order, reset_every)
        expected = np.column_stack([reference.algorithm_1(*of), reference.released(*of)])
        rows = np.array(numbers(opened, "neumann"), float)
        assert len(rows) > 20
        close(rows[:, 1:], expected[rows[:, 0].astype(int) - 1])
    step = np.array(opened.evaluate("() => window.alive.neumann.firstStep()"))
    for row in np.array(numbers(opened, "neumann", 1), float)[[0, 10, 22]]:
        close(row[1:], reference.one_update(A, row[0] * step))


def test_modrelu_and_gates_are_ortho_refs(opened):
    """Both tables, at three settings each."""
    alive(opened, "modrelu")
    for z, b, h in ((0.8, 0.5, -1), (-1.3, -0.62, -6), (0.03, 0.71, 0)):
        put(opened, "modrelu", z=z, b=b, h=h)
        close(np.ravel(np.array(numbers(opened, "modrelu"), float)), reference.modrelu_at(z, b, 10**h))
    for angle, kind, a in ((128.2, "rotation", 10), (40, "rotation", 1.5), (110, "reflection", 4)):
        put(opened, "gates", angle=angle, kind=kind, a=a)
        single, product = reference.gates(math.radians(angle), kind, a)
        rows = np.array(numbers(opened, "gates"), float)
        close(rows[:, 1:], product[rows[:, 0].astype(int) - 1])
        close(np.ravel(np.array(numbers(opened, "gates", 1), float)), single)


def test_gradients_are_ortho_refs(opened):
    """The norms of dL/dh_t, and the LSTM's of dL/dc_t, of six trained models at three settings."""
    alive(opened, "gradients")
    for settings in test_agreement.SETTINGS:
        put(opened, "gradients", **settings)
        rows = np.array(numbers(opened, "gradients", 1), float)
        norms = []
        for model in test_agreement.CELLS:
            norms += test_agreement.reference(model, **settings)[2].values()
        assert rows.shape == (settings["T"] + 20, 1 + len(norms))
        for found, expected in zip(rows[:, 1:].T, norms, strict=True):
            assert test_agreement.close(found, expected)


@pytest.mark.parametrize(("cell", "phi"), [("gru_reset_before", "modrelu"), ("lstm", "tanh"), ("elman", "tanh")])
def test_a_step_of_your_own_is_ortho_refs(opened, cell, phi):
    """Every line of the step forward and back, of numbers that are pasted."""
    alive(opened, "your-own-cell")
    put(opened, "your-own-cell", cell=cell, phi=phi)
    own = test_agreement.STEPS[cell, phi]
    step = test_agreement.drawn(own, 3, 2, seed=5)
    for name, text in test_agreement.texts_of(own, *step).items():
        opened.locator(f"#your-own-cell-{name}").fill(text)
    found = opened.evaluate(
        """() => [...document.querySelectorAll('section:not([hidden]) > .table-wrapper [data-line]')]
          .map((one) => [one.dataset.line, [...one.querySelectorAll('data')].map((own) => own.value)])"""
    )
    assert len(found) > 5
    expected = test_agreement.lines_of(own, *step)
    for line, values in found:
        close(values, np.ravel(expected[line]))


def test_a_wrong_field_is_named(opened):
    """What was given and what is allowed, and the field is marked; the lines are empty until it is right."""
    alive(opened, "your-own-cell")
    field = opened.locator("#your-own-cell-h")
    before = field.input_value()
    field.fill("0.5 x")
    said = opened.locator("#picture-your-own-cell .said").inner_text()
    assert "h has 'x'" in said
    assert "allowed: numbers" in said
    assert field.get_attribute("aria-invalid") == "true"
    assert opened.locator("[data-line] data").count() == 0
    field.fill(before)
    assert field.get_attribute("aria-invalid") is None
    assert opened.locator("[data-line] data").count() > 5


def shapes(page):
    """All that is drawn."""
    return page.evaluate("() => [...document.querySelectorAll('.chart svg')].map((one) => one.innerHTML).join()")


def cells(page):
    """All that stands in tables."""
    return page.evaluate("() => [...document.querySelectorAll('.picture data')].map((one) => one.value).join()")


@pytest.mark.parametrize("name", MOVING)
def test_every_slider_moves_picture_and_numbers_by_keyboard(opened, name):
    """An arrow key moves each slider by a step; picture, table and the words beside the slider follow."""
    alive(opened, name)
    sliders = opened.locator(".picture input[type=range]")
    assert sliders.count() >= 2
    for slider in sliders.all():
        slider.focus()
        before = shapes(opened), cells(opened), slider.get_attribute("aria-valuetext")
        at, most = float(slider.input_value()), float(slider.get_attribute("max"))
        opened.keyboard.press("ArrowLeft" if at >= most else "ArrowRight")
        after = shapes(opened), cells(opened), slider.get_attribute("aria-valuetext")
        assert abs(float(slider.input_value()) - at) == pytest.approx(float(slider.get_attribute("step")))
        assert all(old != new for old, new in zip(before, after, strict=True)), slider.get_attribute("id")
        for key in ("Home", "End"):
            opened.keyboard.press(key)
        assert float(slider.input_value()) == pytest.approx(most)


@pytest.mark.parametrize("name", PAGES)
def test_every_control_is_reached_by_tab(opened, name):
    """In the order of the page, from the first to the last."""
    alive(opened, name)
    ids = opened.eval_on_selector_all(
        ".picture :is(input, select, textarea, button)", "all => all.map((one) => one.id || one.textContent)"
    )
    opened.locator(".picture :is(input, select, textarea, button)").first.focus()
    reached = []
    for _ in range(8 * len(ids)):
        at = opened.evaluate(
            "() => { const one = document.activeElement;"
            " return one.closest('.picture') && one.matches('input, select, textarea, button')"
            "   ? one.id || one.textContent : null; }"
        )
        reached += [at] if at is not None else []
        if len(reached) == len(ids):
            break
        opened.keyboard.press("Tab")
    assert reached == ids


def pressed(page, picture):
    """The button that plays, pressed by keyboard."""
    button = page.locator(f"#picture-{picture} button.play")
    button.focus()
    page.keyboard.press("Enter")
    return button


@pytest.mark.parametrize("name", PLAYED)
def test_nothing_moves_until_it_is_asked_to(opened, name):
    """The button moves its slider, and stops it."""
    alive(opened, name)
    for picture, slider in PLAYED[name]:
        at = value_of(opened, picture, slider)
        button = pressed(opened, picture)
        opened.wait_for_function(
            "([id, at]) => Number(document.getElementById(id).value) !== at", arg=[f"{picture}-{slider}", at]
        )
        assert button.inner_text() == "Pause"
        opened.keyboard.press("Enter")
        assert button.inner_text() != "Pause"
        stopped = value_of(opened, picture, slider)
        assert stopped != at
        frames(opened)
        assert value_of(opened, picture, slider) == stopped


def frames(page):
    """Waits until the browser has drawn thirty times."""
    page.evaluate(
        """() => new Promise((done) => {
          let left = 30;
          const next = () => { left -= 1; if (left) requestAnimationFrame(next); else done(); };
          requestAnimationFrame(next);
        })"""
    )


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_serious_fault(browser, faults, name, scheme):
    """axe-core, with the tables unfolded: nothing serious or critical."""
    context = browser.new_context(viewport=DESK, color_scheme=scheme)
    page = context.new_page()
    alive(page, name)
    found = faults(page)
    context.close()
    assert found == []


def contrast(one, other):
    """WCAG's ratio of two colours."""

    def luminance(colour):
        parts = [part / 255 for part in colour]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted([luminance(one), luminance(other)])
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_curves_stand_out(browser, scheme):
    """Every colour of curves has a contrast of 3 or more on the page, which axe does not look at."""
    context = browser.new_context(viewport=DESK, color_scheme=scheme)
    page = context.new_page()
    alive(page, "neumann")
    colours = page.evaluate(
        """() => {
          const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
          const style = getComputedStyle(document.body);
          const names = ['--color-background-primary', ...[0, 1, 2, 3, 4, 5, 6].map((k) => '--series-' + k)];
          return names.map((name) => {
            canvas.fillStyle = style.getPropertyValue(name).trim();
            canvas.fillRect(0, 0, 1, 1);
            return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
          });
        }"""
    )
    context.close()
    assert len({tuple(colour) for colour in colours}) == 8
    assert min(contrast(colours[0], colour) for colour in colours[1:]) >= 3
    assert contrast([255, 255, 255], [200, 200, 200]) < 3


@pytest.mark.parametrize("name", PAGES)
def test_a_phone_cuts_nothing(browser, name):
    """390 pixels wide, tables unfolded; the charts take the width there is, and their words stay readable."""
    context = browser.new_context(viewport=PHONE)
    page = context.new_page()
    alive(page, name)
    assert page.evaluate(CUT) == []
    scales = page.eval_on_selector_all(
        ".chart > svg", "all => all.map((one) => one.getBoundingClientRect().width / one.viewBox.baseVal.width)"
    )
    assert all(scale >= 0.85 for scale in scales)
    context.close()


@pytest.mark.parametrize("name", PAGES)
def test_a_printed_page_is_a_handout(opened, name):
    """The settings as words, the picture, every number; nothing to press, and dark ink on white."""
    go(opened, f"docs/alive/{name}.html")
    opened.emulate_media(media="print", color_scheme="dark")
    opened.evaluate("() => window.dispatchEvent(new Event('beforeprint'))")
    assert opened.locator("article details:not([open])").count() == 0
    for control in opened.locator(".picture :is(input[type=range], button)").all():
        assert control.is_hidden()
    for output in opened.locator(".picture output").all():
        assert output.is_visible()
        assert output.inner_text() != ""
    scrolled = opened.eval_on_selector_all(
        ".picture .table-wrapper", "all => all.filter((one) => one.scrollHeight > one.clientHeight + 1).length"
    )
    assert scrolled == 0
    inks = opened.evaluate("() => getComputedStyle(document.body).getPropertyValue('--series-1').trim()")
    assert inks == "#1f5fbf"


@pytest.mark.parametrize("name", PAGES)
def test_without_scripts_the_page_says_so(browser, name):
    """The words stand, and where the picture would be it says what draws it."""
    context = browser.new_context(viewport=DESK, java_script_enabled=False)
    page = context.new_page()
    page.goto((SITE / f"docs/alive/{name}.html").as_uri(), wait_until="load")
    assert "JavaScript" in page.locator(".picture").first.inner_text()
    context.close()
