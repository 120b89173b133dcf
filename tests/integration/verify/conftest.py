"""A repository whose candidates are judged by real pytest."""

import pytest

from integration.verify.builders import Bench


@pytest.fixture
def bench(harness, tmp_path):
    return Bench(harness, tmp_path)
