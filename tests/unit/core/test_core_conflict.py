"""How files in conflict are told."""

from scaffold.core.landing.conflict import FileMerge


def test_a_file_is_told_in_one_line():
    """AL-13."""
    lines = {
        FileMerge("a.py", "resolved", "by its entries"): "a.py: resolved by its entries",
        FileMerge("a.py", "merged"): "a.py: merged",
        FileMerge("a.py", "refused", "it is a binary file"): "a.py: it is a binary file",
        FileMerge("a.py", "explained", "both set it"): "a.py: both set it",
    }
    assert {told: told.line for told in lines} == lines
