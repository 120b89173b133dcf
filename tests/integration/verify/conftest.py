"""A house for each test, and a bench in it."""

import pytest

from candidates import Bench
from fakes import House


@pytest.fixture
async def house(tmp_path):
    made = await House.build(tmp_path)
    yield made
    made.store.close()


@pytest.fixture
def bench(house, tmp_path):
    return Bench(house, tmp_path)
