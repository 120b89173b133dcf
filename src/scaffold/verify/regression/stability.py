"""Repeat the contract's checks and the tests that came with the work, with other hash seeds.

Checks run with one fixed seed, so that their results are reproducible. Work that passes only with that seed, or only
most of the time, is not done. Instability that existed before the work does not count against it.

Tests are repeated in one process where their runner can be told to, which finds more in less time. One that fails there
and never in a process of its own cannot run twice in one, and passes.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence

from msgspec import Struct, structs

from scaffold.core.ids import Commit
from scaffold.core.printable_text import join_limited, utf8_safe
from scaffold.core.proof.contract import Check, CheckResult, ExitCode, Verification
from scaffold.core.proof.gates import EXIT_OUTCOME, Gate, GateRun
from scaffold.git import commits
from scaffold.git.checkouts import worktree
from scaffold.git.commits import PathChange
from scaffold.host.slots import Slots
from scaffold.verify.contract.check_runs import Tree, restore_tracked_files, run_check
from scaffold.verify.contract.new_tests_on_base import changed_tests
from scaffold.verify.gates.observed_run import run_gate
from scaffold.verify.gates.runner_detection import detect_runner
from scaffold.verify.locate_tests import files_with_tests, path_from_gate, path_of_test
from scaffold.verify.paths.conventions import is_test_file
from scaffold.verify.proof_request import ProofRequest
from scaffold.verify.regression.test_identity import VARIES, has_shape

HASH_SEED = "PYTHONHASHSEED"
SEEDS: tuple[str | None, ...] = (None, "1", "2", "3")
"""One repetition each; None leaves the variable unset, as it is for users."""
BASE_RUNS = 8
"""How often a failure is tried on the base; it counts only if it was stable there."""
MIN_S = 1.0
MAX_S = 60.0
SHARE = 0.25
"""The time for repetitions: a quarter of what the contract and the gates took; at least a second, at most a minute."""
IN_PROCESS = 0.5
"""The share of that time in which tests are repeated in their first process."""
MAX_NAMED = 5
FAILED = frozenset({"failed", "error"})
NAMING_RUNNERS = frozenset({"pytest", "unittest"})
"""The runners that run exactly the tests they are asked for, so that tests can be tried one by one."""


class _Repeated(Struct, frozen=True, kw_only=True):
    """The subject of a repetition: all commands of the contract in order, or the work's test files of one gate."""

    checks: tuple[Check, ...] = ()
    gate: Gate | None = None
    files: tuple[str, ...] = ()
    known: Collection[str] = frozenset()
    """Tests that failed or were flaky before the work, and shapes of names that vary."""
    duration_s: float
    """The duration of the first run in seconds; for test files, by how many of its tests they have."""


class _Failure(Struct, frozen=True, kw_only=True):
    seed: str | None = None
    detail: str
    before: tuple[Check, ...] = ()
    """The commands of the contract before the failed one, which may need their files."""
    check: Check | None = None
    """The command that failed; None for the work's tests."""
    gate: Gate | None = None
    """The gate that runs the failed tests; None if they have no names."""
    files: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    """The failed tests, if the runner names them."""


CleanTree = Callable[[Commit], Awaitable[Tree]]
"""Checks out a commit without the leftovers of earlier checks, and returns the tree."""


async def unstable_result(
    request: ProofRequest, passed: Verification, tree: Tree, clean_tree: CleanTree
) -> CheckResult | None:
    """Return the blocking result for work that passed and fails when it is repeated; None if it passes again.

    Afterwards the work is checked out in `tree`, with nothing else but ignored files.
    """
    changes = await commits.path_changes(tree.git, tree.base, tree.commit)
    repeated = [*_new_tests(request, passed, changes), *_repeated_checks(request, passed)]
    if not repeated:
        return None
    # A check may have run as a gate.
    took = {each.gate.command: each.duration_s for each in passed.gates}
    took |= {each.name: each.duration_s for each in passed.results}
    allowed_s = min(MAX_S, max(MIN_S, SHARE * sum(took.values())))
    try:
        failure = await _first_failure(repeated, passed.commit, clean_tree, allowed_s, request.slots)
        new = changed_tests(change for change in changes if change.kind == "A")
        if failure is None or await _unstable_before(failure, tree.base, new, passed, clean_tree):
            return None
    finally:
        await worktree.restore(tree.git, tree.commit)
    what = f"`{failure.check.command}`" if failure.check else f"The tests in {join_limited(failure.files, MAX_NAMED)}"
    how = f"with {HASH_SEED}={failure.seed}" if failure.seed is not None else f"without {HASH_SEED}, as users run it"
    named = f": {join_limited(failure.tests, MAX_NAMED)}" if failure.tests else ""
    why = (
        f"{what} passed, and failed when repeated {how}{named}. The work must pass every time: it must not depend on "
        "the order of a set, on chance or on time."
    )
    return CheckResult(name="stability", verdict="fail", detail=utf8_safe(f"{why}\n{failure.detail}"))


def _repeated_checks(request: ProofRequest, passed: Verification) -> Iterator[_Repeated]:
    checks = request.contract.commands if request.contract else ()
    names = {check.command for check in checks}
    if any(check.required for check in checks):
        known = frozenset(name for run in request.baseline_runs for name in _unstable_tests(run))
        known = known.union(*(result.varying for result in passed.gates))
        took = sum(result.duration_s for result in passed.results if result.name in names)
        yield _Repeated(checks=checks, known=known, duration_s=took)


def _new_tests(request: ProofRequest, passed: Verification, changes: Sequence[PathChange]) -> Iterator[_Repeated]:
    before = {run.gate.name: run for run in request.baseline_runs}
    found = files_with_tests(request.baseline_runs, [change.path for change in changes])
    changed = [path for path in changed_tests(changes, found) if is_test_file(path) or path in found]
    for result in passed.gates:
        files = tuple(inside for path in changed if (inside := path_from_gate(result.gate, path)))
        if files and result.gate.runner in NAMING_RUNNERS and result.verdict != "not_applicable":
            known = before.get(result.gate.name)
            unstable = (_unstable_tests(known) if known else frozenset()).union(result.varying)
            # New files are not counted; how long they take is known only once they have run alone.
            places = [path_of_test(result.gate, name, changed) for name in known.outcomes] if known else []
            share = sum(place in changed for place in places) / max(1, len(places))
            yield _Repeated(gate=result.gate, files=files, known=unstable, duration_s=share * result.duration_s)


async def _first_failure(
    repeated: Sequence[_Repeated], work: Commit, clean_tree: CleanTree, allowed_s: float, slots: Slots | None
) -> _Failure | None:
    """Repeat everything once with each seed, as long as there is time; return the first failure.

    After the first seed, only while no other attempt waits to run its gates on this machine.
    """
    clock = asyncio.get_running_loop()
    took = [each.duration_s for each in repeated]
    spent_s = 0.0
    for seed in SEEDS:
        if seed != SEEDS[0] and slots is not None and slots.all_taken:
            break
        for at, each in enumerate(repeated):
            if spent_s + took[at] > allowed_s:
                continue
            began = clock.time()
            again_s = IN_PROCESS * (allowed_s - spent_s) if seed == SEEDS[0] else 0.0
            failure = await _repeat_once(each, work, seed, clean_tree, again_s)
            took[at] = clock.time() - began
            spent_s += took[at]
            if failure is not None:
                return failure
    return None


async def _repeat_once(
    repeated: _Repeated, work: Commit, seed: str | None, clean_tree: CleanTree, again_s: float
) -> _Failure | None:
    """Return the failure of one repetition in a clean tree; None if it passed or proves nothing about the work.

    Tests are repeated for `again_s` in their process.
    """
    tree = _with_seed(await clean_tree(work), seed)
    if repeated.gate is not None:
        run = await _run_tests(repeated.gate, tree, repeated.files, again_s)
        tests = _unknown_failures(run, repeated.known)
        for _ in range(BASE_RUNS if tests and again_s else 0):
            tree = _with_seed(await clean_tree(work), seed)
            run = await _run_tests(repeated.gate, tree, tests)
            if failed := _unknown_failures(run, repeated.known):
                tests, again_s = failed, 0.0
                break
        broken = _Failure(seed=seed, detail=run.detail, gate=repeated.gate, files=repeated.files, tests=tests)
        return broken if tests and not again_s else None
    for at, check in enumerate(repeated.checks):
        if at:
            await restore_tracked_files(tree)
        failure = await _repeat_check(check, tree, repeated.known)
        if failure is not None and check.required:
            return structs.replace(failure, seed=seed, before=repeated.checks[:at])
    return None


async def _repeat_check(check: Check, tree: Tree, known: Collection[str]) -> _Failure | None:
    """Return a command's failure, with the failed tests if its runner names them, or None."""
    runner = detect_runner("test", check.command, {})
    expects_success = check.expect == ExitCode(0)
    gate = (
        Gate(kind="test", command=check.command, runner=runner)
        if expects_success and runner in NAMING_RUNNERS
        else None
    )
    if gate is not None:
        run = await _run_tests(gate, tree, ())
        tests = _unknown_failures(run, known)
        if tests:
            return _Failure(detail=run.detail, check=check, gate=gate, tests=tests)
        if not run.problem and EXIT_OUTCOME not in run.outcomes:
            return None
        await restore_tracked_files(tree)
    result = await run_check(check, tree)
    # A timeout is about the machine: the work has already passed within it.
    unstable = result.verdict in {"fail", "error", "vacuous"}
    return _Failure(detail=result.detail, check=check) if unstable else None


async def _unstable_before(
    failure: _Failure, base: Commit, new: Sequence[str], passed: Verification, clean_tree: CleanTree
) -> bool:
    """Return True if the failure also occurs in one of a few runs on the base, with the work's `new` test files."""
    left = set(failure.tests)
    paths = [path_of_test(failure.gate, name, new) for name in left] if failure.gate else []
    if any(path and any(f"/{each}".endswith(f"/{path}") for each in new) for path in paths):
        return False
    # A check that always fails without the work cannot prove instability, unless its tests have names.
    if not left and (failure.check is None or failure.check.command in passed.failed_on_base):
        return False
    for number in range(BASE_RUNS):
        tree = await _base_with(base, new, passed.commit, clean_tree)
        tree = _with_seed(tree, failure.seed if number == 0 else SEEDS[number % len(SEEDS)])
        for check in failure.before:
            await run_check(check, tree)
        if left and failure.gate:
            # A missing test does not fail.
            left -= {*_failed_tests(await _run_tests(failure.gate, tree, sorted(left)))}
            if not left:
                return True
        elif failure.check and (await run_check(failure.check, tree)).verdict != "pass":
            return True
    return False


async def _base_with(base: Commit, new: Sequence[str], work: Commit, clean_tree: CleanTree) -> Tree:
    tree = await clean_tree(base)
    if new:
        await tree.git("checkout", work, "--", *(f":(top,literal){path}" for path in new))
    return tree


async def _run_tests(gate: Gate, tree: Tree, only: Sequence[str], again_s: float = 0.0) -> GateRun:
    return await run_gate(gate, tree, only=only, environment="", timeout_s=MAX_S, repeat_s=again_s)


def _with_seed(tree: Tree, seed: str | None) -> Tree:
    others = {name: value for name, value in tree.environ.items() if name != HASH_SEED}
    return structs.replace(tree, environ=others if seed is None else {**others, HASH_SEED: seed})


def _failed_tests(run: GateRun) -> tuple[str, ...]:
    failed = (name for name, outcome in run.outcomes.items() if outcome in FAILED and name != EXIT_OUTCOME)
    return () if run.problem else tuple(sorted(failed))


def _unknown_failures(run: GateRun, known: Collection[str]) -> tuple[str, ...]:
    shapes = [each for each in known if VARIES in each]
    return tuple(
        name for name in _failed_tests(run) if name not in known and not any(has_shape(name, each) for each in shapes)
    )


def _unstable_tests(run: GateRun) -> frozenset[str]:
    return frozenset(name for name, outcome in run.outcomes.items() if outcome in {*FAILED, "flaky"})
