"""How files in conflict are told."""

import pytest

from scaffold.core.conflict import FileMerge


@pytest.mark.parametrize(
    ("told", "line"),
    [
        (FileMerge("a.py", "resolved", "by its entries"), "a.py: resolved by its entries"),
        (FileMerge("a.py", "merged"), "a.py: merged"),
        (FileMerge("a.py", "refused", "it is a binary file"), "a.py: it is a binary file"),
    ],
)
def test_a_file_is_told_in_one_line(told, line):
    """AL-13."""
    assert told.line == line
