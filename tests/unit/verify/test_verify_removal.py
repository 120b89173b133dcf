"""What was deleted and has no successor: it may be put back beside the work without standing in for it."""

import pytest

from scaffold.verify.regression.removal import without_successor


@pytest.mark.parametrize(
    ("deleted", "changed", "paths", "alone"),
    [
        ("calc/old.py", [], ["calc/new.py"], True),
        ("calc/old.py", [], ["calc/old/__init__.py"], False),
        ("calc/old/__init__.py", [], ["calc/old.py"], False),
        ("calc.js", [], ["calc/index.js"], False),
        ("calc.js", [], ["calc.mjs"], False),
        ("calc/old.py", ["src/calc/old.py"], ["src/calc/old.py"], False),
        ("calc/old.py", [], ["src/calc/old.py"], True),
        ("calc/__init__.py", ["calc/core.py"], ["calc/core.py"], True),
    ],
)
def test_what_is_called_alike_may_be_loaded_in_place_of_what_was_deleted(deleted, changed, paths, alone):
    """AL-10, BX-5: beside it always, elsewhere where the work has touched it."""
    found = without_successor([deleted], [deleted, *changed], paths)
    assert found == ((deleted,) if alone else ())
