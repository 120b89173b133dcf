"""Keep the tests that a contract is about: those of the base that failed there in one of its required checks.

Work that makes such a check pass by skipping, removing or weakening them has not done what was asked for.
"""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct, structs

from scaffold.core.contract import Check, CheckResult, Contract
from scaffold.core.printable_text import join_limited, utf8_safe
from scaffold.git import worktree
from scaffold.git.commits import PathChange
from scaffold.verify.contract.checks import Tree, restore_tracked_files, run_check
from scaffold.verify.observation.observer import CheckObserver, Observation, ObservedOutcome

POINT_CHECK = "point of the contract"
"""The name of the result."""
MAX_TESTS = 20
MAX_FILES = 5
_HIDDEN: Mapping[ObservedOutcome, str] = {
    "skipped": "is skipped now",
    "xfailed": "is marked as an expected failure now",
}


class OutcomesNow(Struct, frozen=True):
    """How the tests of one check end with the work."""

    own: Mapping[str, ObservedOutcome]
    """With the work's own tests."""
    before: Mapping[str, ObservedOutcome] | None
    """With the base's version of the changed files; None if that is not known."""
    replaced: frozenset[str]
    """The files that the work changed or removed."""


async def check_point(
    contract: Contract, red: Mapping[str, Sequence[str]], changes: Sequence[PathChange], tree: Tree
) -> CheckResult | None:
    """Return a failing result if a test that failed on the base does not pass with the work; None otherwise.

    `red` are these tests by check; `tree` has observed the checks on the work, which is checked out before and after.
    Changed files of such tests run once more as they were on the base, so a test may be renamed, split or moved.
    """
    if tree.observer is None:
        return None
    found = dict[str, str]()
    changed = frozenset(change.path for change in changes if change.kind != "A")
    for check in contract.commands:
        seen = tree.observer.observations.get(check.command)
        # Nothing is known of a check that was not observed, and an optional one need not pass.
        if check.required and red.get(check.command) and seen is not None and seen.tests:
            replaced = changed.intersection(_file(test) for test in red[check.command])
            again = await _with_base_tests(check, sorted(replaced), tree) if replaced else None
            now = OutcomesNow(seen.tests, again.tests if again is not None else None, replaced)
            found.update(problems(red[check.command], now))
    return _result(found) if found else None


def problems(red: Sequence[str], now: OutcomesNow) -> Iterator[tuple[str, str]]:
    """Yield each test that does not pass as it was on the base, and what became of it.

    One without `::` is a file that could not be loaded there.
    """
    for test in red:
        file = _file(test)
        if hidden := _HIDDEN.get(now.own.get(test, "passed")) or _HIDDEN.get(now.own.get(file, "passed")):
            yield test, hidden
        elif now.own.get(test) == "failed":
            continue  # the check itself says whether that is allowed
        elif test == file:
            yield from _problems_of_file(file, now)
        elif why := _problem_of_test(test, now):
            yield test, why


def _problem_of_test(test: str, now: OutcomesNow) -> str | None:
    if now.before is None or _file(test) not in now.replaced:
        return None if test in now.own else "is gone"
    # A file that cannot be loaded as it was has none of its tests.
    before = now.before.get(test) or now.before.get(_file(test))
    if before == "failed":
        return "fails as it was before the work"
    return None if before == "passed" or test in now.own else "is gone"


def _problems_of_file(file: str, now: OutcomesNow) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with the tests of a file whose tests are not known from the base."""
    replaced = file in now.replaced and now.before is not None
    tests = _of_file(file, now.before if replaced and now.before is not None else now.own)
    if not any(outcome == "passed" for outcome in tests.values()):
        yield file, "has no test that passes as it was before the work" if replaced else "has no test that passes"
    for test, outcome in tests.items():
        if outcome == "failed":
            yield test, "fails as it was before the work"
        elif outcome == "passed" and (hidden := _HIDDEN.get(now.own.get(test, "passed"))):
            yield test, hidden


async def _with_base_tests(check: Check, files: Sequence[str], work: Tree) -> Observation | None:
    """Return what is seen of the check on the work with the base's version of these test files."""
    observer = CheckObserver(only=files)
    try:
        await restore_tracked_files(work)
        # `literal`: a path may contain characters that git would take for a pattern.
        await work.git("checkout", work.base, "--", *(f":(top,literal){path}" for path in files))
        await run_check(check, structs.replace(work, observer=observer))
    finally:
        await worktree.restore(work.git, work.commit)
    return observer.observations.get(check.command)


def _file(test: str) -> str:
    return test.partition("::")[0]


def _of_file(file: str, outcomes: Mapping[str, ObservedOutcome]) -> dict[str, ObservedOutcome]:
    return {test: outcome for test, outcome in outcomes.items() if test.startswith(f"{file}::")}


def _result(found: Mapping[str, str]) -> CheckResult:
    files = sorted({_file(test) for test in found})
    shown = [f"- {test} {why}" for test, why in list(found.items())[:MAX_TESTS]]
    more = [f"- … and {len(found) - MAX_TESTS} more"] if len(found) > MAX_TESTS else []
    why = "These tests failed before the work, so they show whether it is done; they have to pass as they were then:"
    what = (
        f"Restore them in {join_limited(files, MAX_FILES)} and change the code until they pass. They may be renamed, "
        "parametrized or moved, as long as they would also pass as they were."
    )
    return CheckResult(name=POINT_CHECK, verdict="fail", detail=utf8_safe("\n".join((why, *shown, *more, what))))
