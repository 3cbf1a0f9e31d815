"""The built site, and a browser."""

import os
import shutil

import pytest

from tests.site.pages import SITE


@pytest.fixture(scope="session")
def site():
    """build/site; `make site-test` builds it first."""
    if not (SITE / "index.html").is_file():
        pytest.fail("there is no build/site; make site builds it")
    return SITE


@pytest.fixture(scope="session")
def browser():
    """A headless browser: ORTHO_REF_BROWSER, else the first that is on the path."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    named = os.environ.get("ORTHO_REF_BROWSER")
    found = named or next(filter(None, map(shutil.which, ("chromium", "google-chrome", "msedge"))), None)
    if found is None:
        pytest.skip("no browser: ORTHO_REF_BROWSER is not set, and neither chromium, google-chrome nor msedge is found")
    with api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(scope="session")
def faults():
    """What axe-core, as its wheel has it, calls serious or critical of an open page."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed").Axe()

    def of(page):
        return [
            (one["id"], one["impact"], [node["html"][:150] for node in one["nodes"][:3]])
            for one in axe.run(page).response["violations"]
            if one["impact"] in {"serious", "critical"}
        ]

    return of
