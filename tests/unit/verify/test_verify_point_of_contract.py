"""What became of tests that failed before the work."""

import pytest

from scaffold.verify.contract.point_of_contract import OutcomesNow, problems

FILE = "tests/test_a.py"
TEST = f"{FILE}::test_a"
OTHER = f"{FILE}::test_b"
GONE, FAILS = "is gone", "fails as it was before the work"
SKIPPED, XFAILED = "is skipped now", "is marked as an expected failure now"


def found(red, own, before=None):
    """Return what is wrong; with `before`, the file was changed."""
    replaced = frozenset() if before is None else frozenset({FILE})
    return dict(problems((red,), OutcomesNow(own, before, replaced)))


@pytest.mark.parametrize(
    ("own", "why"),
    [
        ({TEST: "passed"}, None),
        ({TEST: "failed"}, None),
        ({TEST: "skipped"}, SKIPPED),
        ({TEST: "xfailed"}, XFAILED),
        ({FILE: "skipped"}, SKIPPED),
        ({OTHER: "passed"}, GONE),
    ],
)
def test_a_test_has_to_pass_where_it_stands(own, why):
    """BX-5: one that fails is left to its check."""
    assert found(TEST, own) == ({TEST: why} if why else {})


@pytest.mark.parametrize(
    ("own", "before", "why"),
    [
        ({TEST: "passed"}, {TEST: "passed"}, None),
        ({OTHER: "passed"}, {TEST: "passed"}, None),
        ({TEST: "passed"}, {TEST: "failed"}, FAILS),
        ({OTHER: "passed"}, {TEST: "failed"}, FAILS),
        ({OTHER: "passed"}, {TEST: "skipped"}, GONE),
        ({TEST: "passed"}, {FILE: "failed"}, FAILS),
        ({TEST: "passed"}, {}, None),
        ({OTHER: "passed"}, {}, GONE),
        ({TEST: "skipped"}, {TEST: "passed"}, SKIPPED),
        ({TEST: "failed"}, {TEST: "failed"}, None),
    ],
)
def test_a_test_whose_file_changed_has_to_pass_as_it_was(own, before, why):
    """BX-5: so it may be renamed, parametrized or moved, and not be weakened."""
    assert found(TEST, own, before) == ({TEST: why} if why else {})


@pytest.mark.parametrize(
    ("own", "before", "why"),
    [
        ({TEST: "passed"}, None, {}),
        ({FILE: "failed"}, None, {}),
        ({TEST: "skipped"}, None, {FILE: "has no test that passes"}),
        ({FILE: "skipped"}, None, {FILE: SKIPPED}),
        ({OTHER: "passed"}, {TEST: "passed"}, {}),
        ({OTHER: "passed"}, {TEST: "failed", OTHER: "passed"}, {TEST: FAILS}),
        ({TEST: "skipped", OTHER: "passed"}, {TEST: "passed", OTHER: "passed"}, {TEST: SKIPPED}),
        ({OTHER: "passed"}, {FILE: "failed"}, {FILE: "has no test that passes as it was before the work"}),
    ],
)
def test_of_a_file_that_could_not_be_loaded_all_tests_count(own, before, why):
    """BX-5: its tests are known only from its version of before, with the work."""
    assert found(FILE, own, before) == why
