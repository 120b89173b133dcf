"""Whether tests that came with the work tell it from nothing: put on the base, without the work, they have to fail.

A check may have been red on the base only because its test was not there yet. A test that is true whatever the code
does would turn it green, and prove nothing.
"""

from collections.abc import Sequence

from msgspec import structs

from scaffold.core.contract import Contract
from scaffold.git import worktree
from scaffold.git.commit import Change
from scaffold.verify.contract import Tree, run_check, undo_changes
from scaffold.verify.testlike import is_test


def brought(changes: Sequence[Change]) -> tuple[str, ...]:
    """Return the paths of tests that came with the work."""
    return tuple(change.path for change in changes if change.kind == "A" and is_test(change.path))


async def still_red(contract: Contract, red: Sequence[str], changes: Sequence[Change], tree: Tree) -> tuple[str, ...]:
    """Return those of the `red` checks that the work's own new tests do not turn green on the base.

    `tree` has the work checked out, and has it again at the end, with nothing in it that git does not know or ignore.
    """
    added = brought(changes)
    asked = [check for check in contract.commands if check.command in red]
    if not added or not asked:
        return tuple(red)
    bare = structs.replace(tree, commit=tree.base)
    try:
        green = set()
        for check in asked:
            await undo_changes(bare)
            await tree.git("checkout", tree.commit, "--", *(f":(top,literal){path}" for path in added))
            if (await run_check(check, bare)).verdict == "pass":
                green.add(check.command)
    finally:
        await worktree.restore(tree.git, tree.commit)
    return tuple(name for name in red if name not in green)
