"""What became of tests that failed before the work."""

from msgspec import structs

from scaffold.verify.contract.point_of_contract import OutcomesNow, problems, unproven
from scaffold.verify.observation.observer import Observation

FILE = "tests/test_a.py"
TEST = f"{FILE}::test_a"
OTHER = f"{FILE}::test_b"
GONE, FAILS = "is gone", "fails as it was before the work"
CUT_OFF, UNNOTICED = "did not run to its end", "fails, although its check passes"
SKIPPED, XFAILED = "is skipped now", "is marked as an expected failure now"


def found(red, own, before=None):
    """Return what is wrong; with `before`, the file was changed."""
    return dict(problems((red,), now(own, before)))


def now(own, before=None, **fields):
    seen = None if before is None else Observation(tests=before)
    replaced = frozenset() if before is None else frozenset({FILE})
    return OutcomesNow(Observation(tests=own, **fields), seen, replaced)


def test_a_test_has_to_pass_where_it_stands():
    """BX-5: one that fails is left to its check."""
    rows = [
        ({TEST: "passed"}, None),
        ({TEST: "failed"}, None),
        ({TEST: "skipped"}, SKIPPED),
        ({TEST: "xfailed"}, XFAILED),
        ({FILE: "skipped"}, SKIPPED),
        ({OTHER: "passed"}, GONE),
    ]
    assert [(own, why) for own, why in rows if found(TEST, own) != ({TEST: why} if why else {})] == []


def test_a_test_whose_file_changed_has_to_pass_as_it_was():
    """BX-5: so it may be renamed, parametrized or moved, and not be weakened."""
    rows = [
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
    ]
    assert [
        (own, before, why) for own, before, why in rows if found(TEST, own, before) != ({TEST: why} if why else {})
    ] == []


def test_of_a_file_that_could_not_be_loaded_all_tests_count():
    """BX-5: its tests are known only from its version of before, with the work."""
    rows = [
        ({TEST: "passed"}, None, {}),
        ({FILE: "failed"}, None, {}),
        ({TEST: "skipped"}, None, {FILE: "has no test that passes"}),
        ({FILE: "skipped"}, None, {FILE: SKIPPED}),
        ({OTHER: "passed"}, {TEST: "passed"}, {}),
        ({OTHER: "passed"}, {TEST: "failed", OTHER: "passed"}, {TEST: FAILS}),
        ({TEST: "skipped", OTHER: "passed"}, {TEST: "passed", OTHER: "passed"}, {TEST: SKIPPED}),
        ({OTHER: "passed"}, {FILE: "failed"}, {FILE: "has no test that passes as it was before the work"}),
    ]
    assert [(own, before, found(FILE, own, before)) for own, before, _ in rows] == rows


def test_a_run_that_ends_before_its_end_proves_nothing():
    """BX-5: os._exit(0) and pytest.exit() make a check pass whose tests never ran."""
    rows = [
        (TEST, {"unfinished": True}, {TEST: CUT_OFF}),
        (TEST, {"not_run": frozenset({TEST})}, {TEST: CUT_OFF}),
        (OTHER, {"unfinished": True}, {}),
        (FILE, {"not_run": frozenset({TEST, "other.py::test"})}, {TEST: CUT_OFF}),
        (FILE, {"unfinished": True}, {FILE: CUT_OFF}),
        (FILE, {}, {}),
    ]
    assert [(red, fields, dict(problems((red,), now({OTHER: "passed"}, **fields)))) for red, fields, _ in rows] == rows


def test_the_version_of_the_base_must_run_to_its_end_too():
    """BX-5: a weakened test passes, and the run of its former version ends early."""
    seen = OutcomesNow(Observation(tests={TEST: "passed"}), Observation(unfinished=True), frozenset({FILE}))
    assert dict(problems((TEST,), seen)) == {TEST: CUT_OFF}


def test_a_failure_that_the_exit_code_of_its_only_program_hides_is_refused():
    """BX-5: with several programs it is a doubt, as they may have a reason."""
    several = now({TEST: "failed"})
    direct = structs.replace(several, told_by_exit=True)
    assert dict(problems((TEST,), direct)) == {TEST: UNNOTICED}
    assert dict(unproven((TEST,), several, red_exit=True)) == {TEST: UNNOTICED}
    assert not dict(unproven((TEST,), several, red_exit=False))
    assert not dict(unproven((TEST,), direct, red_exit=True))


def test_a_skip_in_a_file_that_could_not_be_loaded_is_a_doubt():
    """BX-5: the work may decide it, or the platform."""
    for before in [None, {TEST: "skipped", OTHER: "xfailed"}]:
        own = {TEST: "skipped", OTHER: "xfailed"} if before is None else {TEST: "passed"}
        assert dict(unproven((FILE,), now(own, before), red_exit=True)) == {TEST: SKIPPED, OTHER: XFAILED}, before
