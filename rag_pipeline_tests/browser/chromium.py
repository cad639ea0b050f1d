"""Headless Chromium of this machine, driven by Playwright."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Page

PROGRAM_VARIABLE = "RAG_PIPELINE_TEST_CHROMIUM"
NAMED = os.environ.get(PROGRAM_VARIABLE)
# The sandbox does not start as root, and the others keep it from calling its maker's hosts.
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
WIDTH, HEIGHT = 1600, 1000


def program() -> str:
    """Chromium's path. That it is missing is a failure: a page that nobody has opened is not tested."""
    found = NAMED or next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    assert found, f"no Chromium: install one (on Debian: apt-get install chromium), or name it in {PROGRAM_VARIABLE}"
    return found


@contextlib.contextmanager
def browser() -> Iterator[Page]:
    """A page of a browser with a profile of its own."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=program(), args=FLAGS)
        try:
            page = chromium.new_page(viewport={"width": WIDTH, "height": HEIGHT})
            page.set_default_timeout(60_000)
            yield page
        finally:
            chromium.close()
