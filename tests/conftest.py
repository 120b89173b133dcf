"""What tests of several packages share: a PostgreSQL server that is started when the first test asks for it."""

import signal
from collections.abc import Iterator

import pytest

from postgres import private_server


def pytest_configure() -> None:
    """Let an interrupt mean something to the commands that tests start: shells ignore it for what runs behind them."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """The address of a private server; one for each process of a test run."""
    with private_server() as url:
        yield url
