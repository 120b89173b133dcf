"""Find out whether the tests that came with the work say anything about it.

A test may fail without the work only because it cannot be imported, and pass whatever the work does. Checks that also
pass while every function of the change does nothing do not show what these functions do.
"""

from collections.abc import Awaitable, Callable, Sequence

from scaffold.core.ids import Commit
from scaffold.core.printable_text import join_limited, utf8_safe
from scaffold.core.proof.contract import Check, Contract, Doubt, Verification
from scaffold.git import commits
from scaffold.git.checkouts import worktree
from scaffold.git.commits import PathChange
from scaffold.git.trees.links import follow_links
from scaffold.verify.contract.check_runs import Tree, required_names, restore_tracked_files, run_check
from scaffold.verify.contract.emptied_functions import Emptied, empty_changed_functions
from scaffold.verify.paths.conventions import is_test

MAX_S = 60.0
"""Checks that took longer are not run again for this."""
MAX_NAMED = 3


async def doubts_about_new_tests(
    contract: Contract,
    passed: Verification,
    code: Sequence[PathChange],
    clean_tree: Callable[[Commit], Awaitable[Tree]],
) -> tuple[Doubt, ...]:
    """Return the doubt about checks that show the work only by tests which pass without its functions; empty if none.

    For changes with tests; `code` are the changed files that are none. Only for Python. Afterwards the work is checked
    out, with nothing else but ignored files.
    """
    commands = {check.command for check in contract.commands}
    # A path that has to exist says nothing about what its code does.
    showing = required_names(contract).intersection(passed.failed_on_base, commands)
    took = sum(result.duration_s for result in passed.results if result.name in commands)
    if not showing or took > MAX_S:
        return ()
    tree = await clean_tree(passed.commit)
    try:
        emptied = await _empty_changed_code(code, tree)
        if not emptied.sources or not await _all_pass(contract.commands, showing, emptied, tree):
            return ()
    finally:
        await worktree.restore(tree.git, tree.commit)
    named = join_limited(emptied.names, MAX_NAMED)
    verb = "does" if len(emptied.names) == 1 else "do"
    return (Doubt("vacuous_tests", utf8_safe(f"the checks also pass if {named} {verb} nothing")),)


async def _empty_changed_code(code: Sequence[PathChange], tree: Tree) -> Emptied:
    followed = await follow_links(tree.git, tree.base, tree.commit, code)
    files = [each for each in followed if each.path.endswith(".py") and not is_test(each.path) and not each.is_link]
    new = [each for each in files if each.kind != "D"]
    before = await commits.batch_contents(tree.git, [each.former_id for each in files if each.kind != "A"])
    after = await commits.batch_contents(tree.git, [each.object_id for each in new])
    return empty_changed_functions(
        [source for source in before if source is not None],
        {each.path: source for each, source in zip(new, after, strict=True) if source is not None},
    )


async def _all_pass(checks: Sequence[Check], showing: frozenset[str], emptied: Emptied, tree: Tree) -> bool:
    """Return True if all checks that show the work pass with the emptied sources."""
    for check in checks:
        await restore_tracked_files(tree)
        for path, source in emptied.sources.items():
            (tree.git.cwd / path).write_bytes(source)
        if (await run_check(check, tree)).verdict != "pass" and check.command in showing:
            return False
    return True
