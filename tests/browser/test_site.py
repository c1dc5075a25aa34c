"""The site that `make course` builds, in a browser; skipped without a site, playwright or Chromium."""

import os
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.browser.conftest import SECONDS
from tests.repo.tree import ROOT

SITE = Path(os.environ.get("CAUSALNB_SITE", ROOT / "build/course/site")).resolve()
SLIDES = SITE.parent / "slides"
if not (SITE / "index.html").is_file():
    pytest.skip(f"there is no site in {SITE}: make course builds it", allow_module_level=True)
PAGES = [path.relative_to(SITE).as_posix() for path in sorted(SITE.rglob("*.html"))]
DESK, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}


class Quiet(SimpleHTTPRequestHandler):
    """Serves a folder and says nothing."""

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def address():
    """Where the site and the slides beside it are served, on this machine alone."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=SITE.parent))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def page(browser, address):
    """A page that keeps what went wrong in `wrong`; what it asks of other machines goes wrong."""
    opened = browser.new_page(viewport=DESK, base_url=address)
    opened.route(lambda url: not url.startswith((address, "data:")), lambda route: route.abort())
    opened.set_default_timeout(60 * SECONDS)
    opened.wrong = []
    opened.on("console", lambda said: opened.wrong.append(said.text) if said.type == "error" else None)
    opened.on("pageerror", lambda error: opened.wrong.append(str(error)))
    opened.on("requestfailed", lambda asked: opened.wrong.append(f"not loaded: {asked.url}"))
    yield opened
    opened.close()


def visit(page, path: Path, viewport=DESK) -> None:
    page.set_viewport_size(viewport)
    page.goto(f"/{path.relative_to(SITE.parent).as_posix()}", wait_until="load")
    page.evaluate("window.MathJax?.startup?.promise")


@pytest.mark.parametrize("name", PAGES)
def test_a_page_opens_fits_a_phone_and_describes_its_pictures(page, name):
    visit(page, SITE / name)
    assert page.title() and page.locator("article").count() == 1
    bare = page.evaluate(
        "[...document.images].filter(image => !image.alt.trim()).map(image => image.src.slice(0, 90))"
    )
    lost = page.evaluate(  # what is loaded once it is in sight is looked at below
        "[...document.images].filter(image => !image.naturalWidth && image.loading !== 'lazy')"
        ".map(image => image.alt)"
    )
    assert not bare and not lost
    page.set_viewport_size(PHONE)
    wide = page.evaluate("document.documentElement.scrollWidth")
    assert wide <= PHONE["width"], f"{wide} pixels wide"
    assert not page.wrong


def test_formulas_are_set(page):
    visit(page, SITE / "notation.html")
    page.wait_for_selector("mjx-container")
    assert page.locator("mjx-merror").count() == 0


def test_search_finds(page):
    visit(page, SITE / "index.html")
    page.fill("input[name=q]", "collider")
    page.press("input[name=q]", "Enter")
    page.wait_for_selector("#search-results li a")
    found = page.locator("#search-results li a").evaluate_all(
        "links => links.map(link => link.getAttribute('href'))"
    )
    assert any("01_causal_primer" in target for target in found) and any(
        "glossary" in target for target in found
    )
    assert not page.wrong


def test_claims_are_filtered_by_source_and_verdict(page):
    visit(page, SITE / "results.html")
    every = page.locator(".claims tbody tr:visible").count()
    page.select_option("#claims-source", "sci")
    of_sci = page.locator(".claims tbody tr:visible").count()
    page.select_option("#claims-verdict", "reproduced")
    rows = page.locator(".claims tbody tr:visible")
    assert 0 < rows.count() < of_sci < every
    assert all("reproduced" in said for said in rows.all_inner_texts())
    assert page.locator("#claims-shown").inner_text() == f"{rows.count()} of {every} claims"
    page.reload()
    assert page.locator(".claims tbody tr:visible").count() == rows.count()


def test_a_claim_unfolds_its_figure_and_a_bar_leads_to_its_claims(page):
    visit(page, SITE / "index.html")
    page.click(".bar a.opposite >> nth=0")
    page.wait_for_selector("#claims-shown:has-text(' of ')")
    assert {row.get_attribute("data-verdict") for row in page.locator(".claims tbody tr:visible").all()} == {
        "opposite"
    }
    page.click(".claims tbody tr:visible summary >> nth=0")
    page.wait_for_function("[...document.querySelectorAll('details[open] img')].some(x => x.naturalWidth)")
    assert not page.wrong


@pytest.mark.skipif(not SLIDES.is_dir(), reason="no slides were built")
@pytest.mark.parametrize("path", sorted(SLIDES.glob("*.html")), ids=lambda path: path.stem)
def test_slides_open_and_hold_on_their_page(page, path):
    visit(page, path, {"width": 960, "height": 700})
    page.wait_for_function("window.Reveal && Reveal.isReady()")
    count = page.evaluate("Reveal.getTotalSlides()")
    assert 10 <= count <= 15
    heights = []
    for at in range(count):
        page.evaluate(f"Reveal.slide({at})")
        heights.append(page.evaluate("Reveal.getCurrentSlide().scrollHeight"))
    assert max(heights) <= 720, heights
    assert not page.wrong
