"""Check whether the checks that the work passes prove anything about it.

A test may fail without the work only because it cannot be imported, and pass whatever the work does. So the checks run
once more with every function of the change emptied: if they still pass, they do not show what these functions do.
"""

import ast
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence

from msgspec import Struct

from scaffold.core.ids import Commit
from scaffold.core.printable_text import join_limited, utf8_safe
from scaffold.core.proof.contract import Check, Contract, Doubt, Verification
from scaffold.git import commits
from scaffold.git.checkouts import worktree
from scaffold.git.commits import PathChange
from scaffold.git.trees.links import follow_links
from scaffold.host.contained_path import ContainedPath
from scaffold.verify.contract.check_runs import Tree, required_names, restore_tracked_files, run_check
from scaffold.verify.paths.conventions import is_test

Function = ast.FunctionDef | ast.AsyncFunctionDef
MAX_S = 60.0
"""Checks that took longer, in seconds, are not repeated."""
MAX_NAMED = 3
NO_CODE = b")]}\n"
"""A line that is an error in every language."""


class Emptied(Struct, frozen=True):
    """The sources of a change with its functions emptied."""

    sources: Mapping[str, bytes]
    """By path; only files in which a function was emptied."""
    names: tuple[str, ...]
    """The functions, as `name` or `Class.name`, sorted."""


async def doubts_about_new_tests(
    contract: Contract,
    passed: Verification,
    code: Sequence[PathChange],
    clean_tree: Callable[[Commit], Awaitable[Tree]],
) -> tuple[Doubt, ...]:
    """Return the doubt about checks whose tests also pass with the functions of the work emptied; empty without any.

    For Python changes with tests; `code` are the changed files that are not tests. Afterwards the work is checked out,
    with nothing else but ignored files.
    """
    showing = _showing_commands(contract, passed)
    if not showing:
        return ()
    tree = await clean_tree(passed.commit)
    try:
        emptied = await _empty_functions(code, tree)
        if not emptied.sources or not await _all_pass(contract.commands, showing, emptied.sources, tree):
            return ()
    finally:
        await worktree.restore(tree.git, tree.commit)
    named = join_limited(emptied.names, MAX_NAMED)
    verb = "does" if len(emptied.names) == 1 else "do"
    return (Doubt("vacuous_tests", utf8_safe(f"the checks also pass if {named} {verb} nothing")),)


async def pass_without_program(
    contract: Contract,
    passed: Verification,
    program: Sequence[PathChange],
    clean_tree: Callable[[Commit], Awaitable[Tree]],
) -> bool:
    """Return True if the checks that show the work also pass if no program can read the changed files of `program`.

    Or if the Python functions that changed in them do nothing.
    """
    showing = _showing_commands(contract, passed)
    if not showing:
        return False
    tree = await clean_tree(passed.commit)
    try:
        found = await commits.batch_contents(tree.git, [each.object_id for each in program])
        sources = {each.path: source or b"" for each, source in zip(program, found, strict=True)}
        # The text stays, for a check that looks for it; no language takes the lines around it.
        unreadable = {path: NO_CODE + source + b"\n" + NO_CODE for path, source in sources.items()}
        if await _all_pass(contract.commands, showing, unreadable, tree):
            return True
        emptied = (await _empty_functions(program, tree)).sources
        return bool(emptied) and await _all_pass(contract.commands, showing, emptied, tree)
    finally:
        await worktree.restore(tree.git, tree.commit)


def _showing_commands(contract: Contract, passed: Verification) -> frozenset[str]:
    """Return the required commands that show the work; none if they take long."""
    commands = {check.command for check in contract.commands}
    took = sum(result.duration_s for result in passed.results if result.name in commands)
    # A path that has to exist proves nothing about the code in it.
    showing = required_names(contract).intersection(passed.failed_on_base, commands)
    return showing if took <= MAX_S else frozenset()


async def _empty_functions(code: Sequence[PathChange], tree: Tree) -> Emptied:
    """Return the changed Python files of `code` with the functions emptied that the change added or changed."""
    followed = await follow_links(tree.git, tree.base, tree.commit, code)
    files = [each for each in followed if each.path.endswith(".py") and not is_test(each.path) and not each.is_link]
    new = [each for each in files if each.kind != "D"]
    before = await commits.batch_contents(tree.git, [each.former_id for each in files if each.kind != "A"])
    after = await commits.batch_contents(tree.git, [each.object_id for each in new])
    return empty_changed_functions(
        [source for source in before if source is not None],
        {each.path: source for each, source in zip(new, after, strict=True) if source is not None},
    )


async def _all_pass(checks: Sequence[Check], showing: frozenset[str], sources: Mapping[str, bytes], tree: Tree) -> bool:
    for check in checks:
        await restore_tracked_files(tree)
        for path, source in sources.items():
            ContainedPath(tree.git.cwd, path).followed().write(source)
        if (await run_check(check, tree)).verdict != "pass" and check.command in showing:
            return False
    return True


def empty_changed_functions(before: Collection[bytes], after: Mapping[str, bytes]) -> Emptied:
    """Return the Python sources of `after` with every function emptied that no source of `before` contains.

    A moved function counts as unchanged. Sources that cannot be parsed stay as they are.
    """
    known = {(name, ast.dump(node)) for source in before for name, node in _find_functions(source)}
    sources: dict[str, bytes] = {}
    names: set[str] = set()
    for path, source in after.items():
        changed = [(name, node) for name, node in _find_functions(source) if (name, ast.dump(node)) not in known]
        if changed:
            functions = [node for _, node in changed]
            lines = source.splitlines(keepends=True)
            # From the end, so that the remaining positions stay right.
            for node in sorted(functions, key=lambda each: each.body[0].lineno, reverse=True):
                first, last = node.body[0], node.body[-1]
                # A decorated function or class begins with its decorator.
                begin = min([first.lineno, *(each.lineno for each in getattr(first, "decorator_list", ()))])
                end = last.end_lineno or last.lineno
                # Columns count bytes.
                lead, rest = lines[begin - 1][: first.col_offset], lines[end - 1][last.end_col_offset or 0 :]
                lines[begin - 1 : end] = [lead + (b"return; yield" if _is_generator(node) else b"return None") + rest]
            sources[path] = b"".join(lines)
            names.update(name for name, _ in changed)
    return Emptied(sources, tuple(sorted(names)))


def _find_functions(source: bytes) -> Iterator[tuple[str, Function]]:
    try:
        module = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return
    left: list[tuple[str, ast.AST]] = [("", module)]
    while left:
        prefix, node = left.pop()
        for child in ast.iter_child_nodes(node):
            if isinstance(child, Function):
                yield f"{prefix}{child.name}", child
            else:
                left.append((f"{prefix}{child.name}." if isinstance(child, ast.ClassDef) else prefix, child))


def _is_generator(node: Function) -> bool:
    # A `yield` of an inner function does not count.
    left: list[ast.AST] = list(node.body)
    while left:
        each = left.pop()
        if isinstance(each, ast.Yield | ast.YieldFrom):
            return True
        if not isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            left += ast.iter_child_nodes(each)
    return False
