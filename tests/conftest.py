"""What tests of several packages share: a PostgreSQL server, and a stand-in for Docker."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from support.docker import Daemon, free_port
from support.postgres import private_server
from support.property_examples import up_to

settings.register_profile(
    "untimed", deadline=None, max_examples=up_to(100), suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("untimed")  # how long something takes says nothing of whether it is right


def pytest_configure() -> None:
    """Let signals mean something to the commands that tests start; shells ignore some for what runs behind them."""
    for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, usual)


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """The address of a private server; one for each process of a test run."""
    with private_server() as url:
        yield url


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    """A `docker` that begins real servers on loopback, and ends those that are left."""
    made = Daemon(tmp_path)
    yield made
    made.end()


@pytest.fixture
def port() -> int:
    """A port on which nobody listens."""
    return free_port()
