"""JupyterLab in a browser, as `make lab` opens it: the first notebook runs, moves and describes itself."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest

from causalnb.course import copies
from causalnb.course.source import Source
from tests.browser.conftest import SECONDS
from tests.repo.tree import ROOT

pytest.importorskip("jupyterlab")
FIRST, TOKEN = "00_start_here.ipynb", "course"
START, RUN, WAIT = 180, 900, 120  # seconds: the server, all cells of a notebook, anything else
ALL_IN_THE_PAGE = {"@jupyterlab/notebook-extension/tracker.jupyterlab-settings": {"windowingMode": "none"}}
ERROR = '.jp-OutputArea-output[data-mime-type="application/vnd.jupyter.error"]'
PROMPTS = "[...document.querySelectorAll('.jp-CodeCell .jp-InputArea-prompt')].map(one => one.textContent)"


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """The address of a JupyterLab on a folder with the student's copy of 00 and, in source/, 00 itself."""
    folder = tmp_path_factory.mktemp("lab")
    work, settings = folder / "work", folder / "settings"
    copies.write(copies.student(Source(ROOT / "notebooks" / FIRST)), work / FIRST)
    (work / "source").mkdir()
    shutil.copy(ROOT / "notebooks" / FIRST, work / "source")
    for name, values in ALL_IN_THE_PAGE.items():
        (settings / name).parent.mkdir(parents=True)
        (settings / name).write_text(json.dumps(values), encoding="utf-8")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    own = {f"JUPYTER_{kind}_DIR": str(folder / kind.lower()) for kind in ("CONFIG", "DATA", "RUNTIME")}
    own |= {f"JUPYTERLAB_{kind}_DIR": str(folder / kind.lower()) for kind in ("SETTINGS", "WORKSPACES")}
    server = subprocess.Popen(
        [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", f"--port={port}"]
        + ["--ServerApp.port_retries=0", f"--IdentityProvider.token={TOKEN}"]
        + ["--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate", "--LabApp.news_url=''"]
        + [f"--ServerApp.root_dir={work}", "--expose-app-in-browser"],
        env={
            **os.environ,
            **own,
            "CAUSALNB_PROFILE": "quick",
            "CAUSALNB_OFFLINE": "1",
            "OMP_NUM_THREADS": "1",
        },
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    address = f"http://127.0.0.1:{port}"
    try:
        answers(server, f"{address}/api/status?token={TOKEN}")
        yield address
    finally:
        server.terminate()
        try:
            server.wait(30)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait(30)


def answers(server: subprocess.Popen, address: str) -> None:
    """Wait until a server answers; fail where it ends or is late."""
    end = time.monotonic() + START
    while time.monotonic() < end:
        assert server.poll() is None, f"JupyterLab ended with {server.returncode}"
        try:
            urllib.request.urlopen(address, timeout=5).close()
            return
        except (urllib.error.URLError, OSError):
            time.sleep(0.5)
    pytest.fail(f"JupyterLab was not ready within {START} seconds")


@pytest.fixture(scope="module")
def opened(browser, lab):
    """A function that opens a notebook on a page of its own; its cells are all in the page."""
    pages = []

    def open_notebook(path: str):
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        pages.append(page)
        page.set_default_timeout(WAIT * SECONDS)
        page.goto(f"{lab}/lab/tree/{path}?token={TOKEN}&reset", wait_until="load")
        page.wait_for_selector(".jp-NotebookPanel .jp-CodeCell")
        page.wait_for_function("jupyterapp.shell.currentWidget?.sessionContext?.isReady")
        return page

    yield open_notebook
    for page in pages:
        page.close()


@pytest.fixture(scope="module")
def ran(opened):
    """The student's copy after Run All Cells."""
    page = opened(FIRST)
    page.click('.lm-MenuBar-itemLabel:text-is("Run")')
    page.click('.lm-Menu-itemLabel:text-is("Run All Cells")')
    page.wait_for_function(f"{PROMPTS}.every(said => /\\[\\d+\\]/.test(said))", timeout=RUN * SECONDS)
    return page


def test_all_cells_of_a_students_copy_run_without_an_error(ran):
    assert ran.locator(".jp-CodeCell").count() > 20
    assert ran.locator(ERROR).all_inner_texts() == []
    assert ran.get_by_text("the course's version stands in").count() >= 1


def test_every_picture_has_its_alt_text_in_the_page(ran):
    ran.wait_for_function(
        "[...document.querySelectorAll('.jp-OutputArea img')].every(image => image.naturalWidth)"
    )
    alts = ran.locator(".jp-OutputArea img").evaluate_all("images => images.map(image => image.alt.trim())")
    assert len(alts) >= 4 and all(len(alt) > 20 for alt in alts)


def test_a_slider_moves_its_figure(ran):
    figure = ran.locator(".widget-interact .widget-output img, .widget-interact .jp-OutputArea img").first
    before = figure.get_attribute("src")
    assert "over 5 seeds" in figure.get_attribute("alt")
    slider = ran.locator(".widget-interact .widget-slider:has-text('seeds') .noUi-handle")
    slider.focus()
    slider.press("ArrowRight")
    ran.wait_for_selector(".widget-interact img[alt*='over 6 seeds']")
    assert ran.locator(".widget-interact img").first.get_attribute("src") != before


def test_solutions_are_folded(opened):
    page = opened(f"source/{FIRST}")
    cells = json.loads((ROOT / "notebooks" / FIRST).read_text(encoding="utf-8"))["cells"]
    solutions = [at for at, cell in enumerate(cells) if "solution" in cell["metadata"].get("tags", [])]
    page.wait_for_function(f"document.querySelectorAll('.jp-Notebook .jp-Cell').length >= {len(cells)}")
    folded = page.locator(".jp-Notebook .jp-Cell").evaluate_all(
        "cells => cells.flatMap((cell, at) => cell.querySelector('.jp-InputPlaceholder') ? [at] : [])"
    )
    assert folded == solutions != []
