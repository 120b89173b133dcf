"""Fixtures of the tests that run the real commands."""

import pytest

from support.scenario import Scenario
from support.terminal import terminals


@pytest.fixture
def scenario(tmp_path):
    return Scenario(tmp_path)


@pytest.fixture
def terminal(scenario):
    """Start `ralph` in pseudo-terminals; all of them are ended with the test."""
    with terminals(scenario) as start:
        yield start
