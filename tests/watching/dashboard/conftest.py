"""A served scene, and a real browser to look at it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from group_coordinator.watching.dashboard.server import RunningServer, start_server
from tests.watching.dashboard import scene
from tests.watching.dashboard.values_source import ValuesSource

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "browser" in getattr(item, "fixturenames", ()):
            item.add_marker("browser")


@pytest.fixture(scope="session")
def served() -> Iterator[RunningServer]:
    """The scene as a replay, on a free port."""
    with start_server(ValuesSource("the scene", scene.values())) as server:
        yield server


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium as the system has it; `CHROMIUM` names another one. It ends with the module: until then Playwright keeps
    an event loop in this thread, in which no other can be run."""
    names = (os.environ.get("CHROMIUM"), "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    path = next((executable for name in names if name and (executable := shutil.which(name))), None)
    if path is None:
        pytest.skip("there is no Chromium here")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        yield chromium
        chromium.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page of 1280 pixels. Whatever it writes to the console as an error, and every exception, fails the test."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    new_page = context.new_page()
    problems: list[str] = []
    new_page.on(
        "console", lambda message: problems.append(message.text) if message.type in ("error", "warning") else None
    )
    new_page.on("pageerror", lambda error: problems.append(str(error)))
    yield new_page
    context.close()
    assert problems == []
