"""A real server of the pages, and a real browser that opens them."""

import http.cookiejar
import shutil
import subprocess  # noqa: TID251 - the real command is started
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from support.scenario import PATIENCE_S, Scenario, wait_until

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
CHROMIUM_FLAGS = ("--no-sandbox", "--disable-dev-shm-usage")


class Server:
    """A `scaffold serve` that runs."""

    def __init__(self, scenario: Scenario, process: subprocess.Popen, link: str) -> None:
        self.scenario = scenario
        self.process = process
        self.link = link
        self.address = link.partition("/?")[0]

    def opener(self) -> urllib.request.OpenerDirector:
        """Use the link, and return what opens addresses with the session of it."""
        made = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()))
        made.open(self.link, timeout=PATIENCE_S).close()
        return made


@contextmanager
def served(scenario: Scenario, *flags: str) -> Iterator[Server]:
    """Serve the pages of a scenario's user; the server is ended by its process id."""
    process = subprocess.Popen(
        scenario.command("serve", "--no-open", *flags),
        cwd=scenario.repo,
        env=scenario.environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        line = process.stdout.readline().strip()
        assert line.startswith("http"), process.stderr.read()
        yield Server(scenario, process, line)
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE_S)


@contextmanager
def chromium() -> Iterator:
    """Yield a browser."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as tools:
        made = tools.chromium.launch(executable_path=CHROMIUM, args=list(CHROMIUM_FLAGS))
        try:
            yield made
        finally:
            made.close()


def press_by_keyboard(page, name: str) -> None:
    """Go to the button of this name by the tab key alone, and press it."""
    for _ in range(200):
        page.keyboard.press("Tab")
        if (
            page.evaluate("document.activeElement.tagName + ' ' + document.activeElement.textContent")
            == f"BUTTON {name}"
        ):
            page.keyboard.press("Enter")
            return
    raise AssertionError(f"the tab key reaches no button `{name}`")


def ended(process: subprocess.Popen) -> bool:
    """Return whether a process ends within the time that tests have."""
    return wait_until(lambda: process.poll() is not None)
