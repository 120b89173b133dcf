"""Fixtures of the tests that run the real commands."""

from pathlib import Path

import pytest

from support.scenario import COMMAND_S, Scenario
from support.terminal import terminals


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give each test here the time for several waits on a busy machine, unless it says how long it may take."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(2 * COMMAND_S))


@pytest.fixture
def scenario(tmp_path):
    """A repository with its own home, whose processes must not outlive the test."""
    made = Scenario(tmp_path)
    yield made
    made.wait_for_end()


@pytest.fixture
def terminal(scenario):
    """Start `ralph` in pseudo-terminals; all of them are ended with the test."""
    with terminals(scenario) as start:
        yield start
