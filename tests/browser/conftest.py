from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, expect
from support.browser import Viewer, chromium

expect.set_options(timeout=20_000)  # milliseconds; the machine may be busy


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture
def viewer(browser: Browser, request: pytest.FixtureRequest) -> Iterator[Viewer]:
    """A page that must not complain, open dialogs, or ask for anything but the file."""
    options: dict[str, Any] = {"viewport": {"width": 1280, "height": 800}, "color_scheme": "light"}
    context = browser.new_context(**(options | getattr(request, "param", {})))
    try:
        found = Viewer(context.new_page())
        yield found
        assert found.complaints == []
        assert found.requests <= found.opened
    finally:
        context.close()
