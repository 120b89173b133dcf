"""A house for each test."""

import pytest

from fakes import House


@pytest.fixture
async def house(tmp_path):
    made = await House.build(tmp_path)
    yield made
    made.store.close()
