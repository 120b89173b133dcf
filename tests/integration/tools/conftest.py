"""The workspace of a tool."""

import pytest


@pytest.fixture
def root(tmp_path):
    """A folder with a name that is not ASCII."""
    folder = tmp_path / "wörk"
    folder.mkdir()
    return folder
