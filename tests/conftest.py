"""Fixtures of several packages: a PostgreSQL server, and a fake Docker."""

import os
import signal
import sys
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from scaffold.host.startup import importing
from support import run_folder
from support.docker import FakeDocker, free_port
from support.own_coverage import OwnCoverage
from support.postgres import private_server
from support.property_examples import up_to
from support.second_try import SecondTry
from support.slow_lane import SlowLane

settings.register_profile(
    "untimed", deadline=None, max_examples=up_to(100), suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("untimed")  # how long something takes says nothing of whether it is right


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Activate our environment, restore the signal handling that background shells change, and load our plugins."""
    run_folder.begin(config)
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    os.putenv("ORT_DISABLE_TELEMETRY", "1")  # as `cli.entry` does for each command
    os.environ["VIRTUAL_ENV"] = sys.prefix  # our programs are on the PATH of commands only if it is activated
    for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, usual)
    if (minutes := config.getoption("minutes")) is not None:
        config.pluginmanager.register(SlowLane(config, minutes))
    if config.getoption("numprocesses", None):  # in the process that distributes the tests
        config.pluginmanager.register(SecondTry(config))
    if config.getoption("cov_source", None):
        config.pluginmanager.register(OwnCoverage(config))


def pytest_unconfigure(config: pytest.Config) -> None:
    """Leave nothing behind."""
    run_folder.end(config)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let a run have so many minutes."""
    parser.addoption(
        "--minutes",
        type=float,
        help="run tests for so long: of what changed last, then others by turns (support.slow_lane)",
    )


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without garbage collection, which took a third of the time; what is collected stays to the end anyway."""
    with importing():
        return (yield)


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """The address of a private server; one for each process of a test run."""
    with private_server() as url:
        yield url


@pytest.fixture
def docker(tmp_path: Path) -> Iterator[FakeDocker]:
    """A fake `docker` that starts real servers on loopback, and ends those that are left."""
    made = FakeDocker(tmp_path)
    yield made
    made.end()


@pytest.fixture
def port() -> int:
    """A free port."""
    return free_port()
