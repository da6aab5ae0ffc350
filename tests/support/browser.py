"""A headless Chromium, and a page in it that tells what went wrong there."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Dialog, Page, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--no-sandbox",  # it refuses to run as root otherwise; the pages are the tests' own
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start the browser of ``RLENV_BROWSER``, else the machine's, else Playwright's own."""
    path = os.environ.get("RLENV_BROWSER") or next(filter(None, map(shutil.which, NAMES)), None)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


class Viewer:
    """A page with a report, and what it did besides showing it."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.complaints: list[str] = []
        self.opened: set[str] = set()
        self.requests: set[str] = set()
        page.set_default_timeout(20_000)
        page.on("console", lambda message: self.complaints.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("dialog", self._refuse)
        page.on("request", lambda request: self.requests.add(request.url.partition("#")[0]))

    def open(self, report: Path, fragment: str = "") -> Page:
        self.opened.add(report.as_uri())
        self.page.goto(report.as_uri() + fragment)
        return self.page

    def _refuse(self, dialog: Dialog) -> None:
        self.complaints.append(f"a dialog was opened: {dialog.message}")
        dialog.dismiss()


def tasks_shown(page: Page) -> list[str]:
    """Return the tasks of the rows that are in the page, in order."""
    return page.locator("table.rollouts tbody a").all_inner_texts()
