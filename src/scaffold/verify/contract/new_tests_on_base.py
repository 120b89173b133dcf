"""Find the checks that fail on the base with all changed tests of the work, but without the work itself.

A check may fail on the base only because its test does not exist there: a test that passes whatever the code does would
turn it green and prove nothing. One that passes on the base, such as the whole suite, shows the difference only with
the tests that came with the work.
"""

from collections.abc import Collection, Iterable, Sequence

from msgspec import structs

from scaffold.core.proof.contract import Check, Contract
from scaffold.git.checkouts import worktree
from scaffold.git.commits import PathChange
from scaffold.verify.contract.check_runs import CheckRunner, Tree, required_names, restore_tracked_files, run_check
from scaffold.verify.paths.conventions import is_test


def changed_tests(changes: Iterable[PathChange], found: Collection[str] = ()) -> tuple[str, ...]:
    """Return the paths of the tests and test data that the work added or changed.

    `found` are the files in which a runner found tests, by any name.
    """
    return tuple(
        change.path for change in changes if change.kind != "D" and (is_test(change.path) or change.path in found)
    )


async def red_with_new_tests(
    contract: Contract, red: Sequence[str], tests: Sequence[str], tree: Tree, *, run: CheckRunner = run_check
) -> tuple[str, ...]:
    """Return the checks that fail on the base with the work's tests: of those `red` without them, and of the others.

    The others are tried only if no required check is left otherwise, and until one fails. `tree` has the work checked
    out before and after; afterwards it has no untracked files except ignored ones. `run` replaces `run_check`.
    """
    if not tests:
        return tuple(red)
    required = required_names(contract)
    base = structs.replace(tree, commit=tree.base)
    try:
        green = [
            check.command
            for check in contract.commands
            if check.command in red and await _passes_with(tests, check, base, tree, run)
        ]
        found = tuple(name for name in red if name not in green)
        if not required.isdisjoint(found):
            return found
        for check in contract.commands:
            if check.command in required - {*red} and not await _passes_with(tests, check, base, tree, run):
                return (*found, check.command)
        return found
    finally:
        await worktree.restore(tree.git, tree.commit)


async def _passes_with(tests: Sequence[str], check: Check, base: Tree, work: Tree, run: CheckRunner) -> bool:
    # Again for each check, because the one before may have changed the tests.
    await restore_tracked_files(base)
    # `literal`: a path may contain characters that git would take for a pattern.
    await work.git("checkout", work.commit, "--", *(f":(top,literal){path}" for path in tests))
    return (await run(check, base)).verdict == "pass"
