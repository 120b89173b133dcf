"""Keep the tests that a contract is about: tests of the base that failed in one of its required checks.

Work that makes such a check pass by skipping, removing or weakening them has not done its task.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence

from msgspec import Struct, structs

from scaffold.core.printable_text import join_limited, utf8_safe
from scaffold.core.proof.contract import Check, CheckResult, Contract, Doubt, ExitCode
from scaffold.git.checkouts import worktree
from scaffold.git.commits import PathChange
from scaffold.verify.contract.check_runs import Tree, restore_tracked_files, run_check
from scaffold.verify.observation.observer import CheckObserver, Observation
from scaffold.verify.observation.test_runs import ObservedOutcome
from scaffold.verify.paths.conventions import is_test, is_test_file

MAX_TESTS = 20
MAX_FILES = 5
MAX_IN_DOUBT = 3
FAILS_UNNOTICED = "fails, although its check passes"
CUT_OFF = "did not run to its end"
_HIDDEN: Mapping[ObservedOutcome, str] = {
    "skipped": "is skipped now",
    "xfailed": "is marked as an expected failure now",
}


class OutcomesNow(Struct, frozen=True):
    """How the tests of one check that passes end with the work."""

    own: Observation
    """With the work's own tests."""
    before: Observation | None
    """With the base's version of the changed files; None if that is not known."""
    replaced: frozenset[str]
    """The files that the work changed or removed."""
    told_by_exit: bool = False
    """Whether the check failed on the base with the exit code of the one program that runs its tests."""


class PointOfContract(Struct, frozen=True):
    """The verdict on the tests that a contract is about."""

    missed: CheckResult | None = None
    """The failing result if a test is known not to pass."""
    doubts: tuple[Doubt, ...] = ()
    """The doubt if not all tests are known to pass."""


async def check_point(
    contract: Contract,
    red: Mapping[str, Sequence[str]],
    changes: Sequence[PathChange],
    tree: Tree,
    *,
    failed_on_base: Collection[str] = (),
    direct: Collection[str] = (),
) -> PointOfContract:
    """Judge the tests that failed on the base.

    `red` are these tests by check; `failed_on_base` names the checks that failed there, `direct` those that run a test
    runner and nothing else. `tree` has observed the checks on the work, which is checked out before and after. Changed
    files of such tests run once more as they were on the base, so a test may be renamed, split or moved.
    """
    if tree.observer is None:
        return PointOfContract()
    wrong, open_ = dict[str, str](), dict[str, str]()
    changed = frozenset(change.path for change in changes if change.kind != "A")
    support = [change for change in changes if is_test(change.path) and not is_test_file(change.path)]
    for check in contract.commands:
        names = red.get(check.command)
        # An optional check need not pass.
        if not check.required or not names:
            continue
        seen = tree.observer.observations.get(check.command, Observation())
        if not seen.tests and not seen.began:
            open_.update(dict.fromkeys(names, "was not seen"))
            continue
        replaced = changed.intersection(map(_file_of_test, names))
        again = await _with_base_tests(check, sorted(replaced), tree) if replaced else None
        red_exit = check.expect == ExitCode(0) and check.command in failed_on_base
        now = OutcomesNow(seen, again, replaced, told_by_exit=red_exit and check.command in direct)
        wrong.update(problems(names, now))
        open_.update(unproven(names, now, red_exit=red_exit))
        if support:
            without = await _without_support(check, names, support, tree)
            open_.update(_needing_support(names, seen, without, [change.path for change in support]))
    named = join_limited([f"{test} {why}" for test, why in open_.items()], MAX_IN_DOUBT)
    doubt = Doubt("tests_not_passed", utf8_safe(f"not seen to pass after failing before the work: {named}"))
    doubts = (doubt,) if open_ else ()
    return PointOfContract(_failed_result(wrong) if wrong else None, doubts)


def problems(red: Sequence[str], now: OutcomesNow) -> Iterator[tuple[str, str]]:
    """Yield each test that does not pass as it was on the base, and its problem.

    One without `::` is a file that could not be loaded there.
    """
    own = now.own.tests
    for test in red:
        file = _file_of_test(test)
        if hidden := _HIDDEN.get(own.get(test, "passed")) or _HIDDEN.get(own.get(file, "passed")):
            yield test, hidden
        elif own.get(test) == "failed":
            # Of several programs, the check itself says whether that is allowed.
            if now.told_by_exit:
                yield test, FAILS_UNNOTICED
        elif test == file:
            yield from _problems_of_file(file, now)
        elif why := _problem_of_test(test, now):
            yield test, why


def unproven(red: Sequence[str], now: OutcomesNow, *, red_exit: bool) -> Iterator[tuple[str, str]]:
    """Yield each test that did not pass but may be fine, and why.

    `red_exit`: the check failed on the base, with an exit code that tells what passes.
    """
    for test in red:
        if red_exit and not now.told_by_exit and now.own.tests.get(test) == "failed":
            yield test, FAILS_UNNOTICED
        elif test == _file_of_test(test):
            # It is unknown whether they would have been skipped before the work.
            for each, outcome in _outcomes_of_file(test, _decisive_observation(test, now).tests).items():
                if outcome in _HIDDEN:
                    yield each, _HIDDEN[outcome]


def _needing_support(
    red: Sequence[str], seen: Observation, without: Observation | None, support: Sequence[str]
) -> Iterator[tuple[str, str]]:
    """Yield each test that passes, but not `without` the work's helpers, data and conftest.py for tests."""
    for test in red:
        failed = without is not None and "failed" in {without.tests.get(test), without.tests.get(_file_of_test(test))}
        if failed and seen.tests.get(test) == "passed":
            yield test, f"passes only with {join_limited(support, MAX_FILES)}"


def _problem_of_test(test: str, now: OutcomesNow) -> str | None:
    gone = CUT_OFF if now.own.unfinished or test in now.own.not_run else "is gone"
    if now.before is None or _file_of_test(test) not in now.replaced:
        return None if test in now.own.tests else gone
    # A file that cannot be loaded as it was runs none of its tests.
    before = now.before.tests.get(test) or now.before.tests.get(_file_of_test(test))
    if before == "failed":
        return "fails as it was before the work"
    if before is None and (now.before.unfinished or test in now.before.not_run):
        return CUT_OFF
    return None if before == "passed" or test in now.own.tests else gone


def _problems_of_file(file: str, now: OutcomesNow) -> Iterator[tuple[str, str]]:
    decisive = _decisive_observation(file, now)
    tests = _outcomes_of_file(file, decisive.tests)
    if not any(outcome == "passed" for outcome in tests.values()):
        replaced = decisive is not now.own
        yield file, "has no test that passes as it was before the work" if replaced else "has no test that passes"
    for test, outcome in tests.items():
        if outcome == "failed":
            yield test, "fails as it was before the work"
        elif outcome == "passed" and (hidden := _HIDDEN.get(now.own.tests.get(test, "passed"))):
            yield test, hidden
    cut_off = [test for test in sorted(decisive.not_run) if _file_of_test(test) == file]
    yield from ((test, CUT_OFF) for test in cut_off or ([file] if decisive.unfinished else ()))


def _decisive_observation(file: str, now: OutcomesNow) -> Observation:
    return now.before if file in now.replaced and now.before is not None else now.own


async def _with_base_tests(check: Check, files: Sequence[str], work: Tree) -> Observation | None:
    observer = CheckObserver(only=files)
    try:
        await restore_tracked_files(work)
        # `literal`: a path may contain characters that git would take for a pattern.
        await work.git("checkout", work.base, "--", *(f":(top,literal){path}" for path in files))
        await run_check(check, structs.replace(work, observer=observer))
    finally:
        await worktree.restore(work.git, work.commit)
    return observer.observations.get(check.command)


async def _without_support(
    check: Check, red: Sequence[str], support: Sequence[PathChange], work: Tree
) -> Observation | None:
    observer = CheckObserver(only=sorted(set(map(_file_of_test, red))))
    old = [f":(top,literal){change.path}" for change in support if change.kind != "A"]
    new = [f":(top,literal){change.path}" for change in support if change.kind == "A"]
    try:
        await restore_tracked_files(work)
        if new:
            await work.git("rm", "--force", "--quiet", "--", *new)
        if old:
            await work.git("checkout", work.base, "--", *old)
        await run_check(check, structs.replace(work, observer=observer))
    finally:
        await worktree.restore(work.git, work.commit)
    return observer.observations.get(check.command)


def _file_of_test(test: str) -> str:
    return test.partition("::")[0]


def _outcomes_of_file(file: str, outcomes: Mapping[str, ObservedOutcome]) -> dict[str, ObservedOutcome]:
    return {test: outcome for test, outcome in outcomes.items() if test.startswith(f"{file}::")}


def _failed_result(found: Mapping[str, str]) -> CheckResult:
    files = sorted({_file_of_test(test) for test in found})
    shown = [f"- {test} {why}" for test, why in list(found.items())[:MAX_TESTS]]
    more = [f"- … and {len(found) - MAX_TESTS} more"] if len(found) > MAX_TESTS else []
    why = "These tests failed before the work, so they show whether it is done; they have to pass as they were then:"
    what = (
        f"Restore them in {join_limited(files, MAX_FILES)} and change the code until they pass. They may be renamed, "
        "parametrized or moved, as long as they would also pass as they were."
    )
    return CheckResult(
        name="point of the contract", verdict="fail", detail=utf8_safe("\n".join((why, *shown, *more, what)))
    )
