"""Check that the tests added by the work fail on the base, without the work.

A check may fail on the base only because its test does not exist there. A test that passes whatever the code does would
turn the check green and prove nothing.
"""

from collections.abc import Sequence

from msgspec import structs

from scaffold.core.contract import Contract
from scaffold.git import worktree
from scaffold.git.commits import PathChange
from scaffold.verify.contract.checks import Tree, restore_tracked_files, run_check
from scaffold.verify.paths.conventions import is_test


def added_tests(changes: Sequence[PathChange]) -> tuple[str, ...]:
    """Return the paths of the tests that the work added."""
    return tuple(change.path for change in changes if change.kind == "A" and is_test(change.path))


async def still_red_on_base(
    contract: Contract, red: Sequence[str], changes: Sequence[PathChange], tree: Tree
) -> tuple[str, ...]:
    """Return the `red` checks that still fail on the base once the new tests are added there.

    `tree` has the work checked out before and after; afterwards it has no untracked files except ignored ones.
    """
    added = added_tests(changes)
    checks = [check for check in contract.commands if check.command in red]
    if not added or not checks:
        return tuple(red)
    base = structs.replace(tree, commit=tree.base)
    try:
        green = set()
        for check in checks:
            # Again for each check, because the one before may have changed the new tests.
            await restore_tracked_files(base)
            # `literal`: a path may contain characters that git would take for a pattern.
            await tree.git("checkout", tree.commit, "--", *(f":(top,literal){path}" for path in added))
            if (await run_check(check, base)).verdict == "pass":
                green.add(check.command)
    finally:
        await worktree.restore(tree.git, tree.commit)
    return tuple(name for name in red if name not in green)
