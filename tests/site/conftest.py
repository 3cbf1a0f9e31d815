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
