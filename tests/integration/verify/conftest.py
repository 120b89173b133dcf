"""A repository whose candidates are judged by real pytest."""

import pytest

from integration.verify.builders import CandidateRepository


@pytest.fixture
def candidates(harness, tmp_path):
    return CandidateRepository(harness, tmp_path)
