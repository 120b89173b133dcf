"""What tests of agents share."""

import pytest

from integration.agent.fakes import ShiftedClock


@pytest.fixture
def path(tmp_path):
    """The place of the user's database."""
    return tmp_path / "home" / "user.db"


@pytest.fixture
def clock():
    return ShiftedClock()
