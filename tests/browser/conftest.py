"""A headless Chromium for all tests here; they are skipped without it or without playwright."""

import shutil

import pytest

SECONDS = 1000  # playwright counts in milliseconds


@pytest.fixture(scope="session")
def browser():
    """Chromium as Debian or the maker has it; nothing is downloaded."""
    sync_api = pytest.importorskip("playwright.sync_api")
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        pytest.skip("Chromium is not installed")
    with sync_api.sync_playwright() as play:
        opened = play.chromium.launch(executable_path=found, args=["--no-sandbox"], timeout=120 * SECONDS)
        yield opened
        opened.close()
