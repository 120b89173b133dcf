"""Merge a candidate into a tip in memory, by the cheapest way that gives a certified result.

At once; then file by file; then its commits one after another; then with a merge agent and the tools of lock files.
"""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct, structs

from scaffold.core.ids import Commit, TreeId
from scaffold.core.landing.conflict import FileMerge
from scaffold.core.run_settings import Signature
from scaffold.git.client.command_line import Git
from scaffold.git.commits import batch_contents, tree_of
from scaffold.git.trees.merge import Conflicted, Merged, apply_commit, merge_commits
from scaffold.git.trees.tree_file import NewFile, private_index
from scaffold.landing.conflicts.certificate import require_complete
from scaffold.landing.conflicts.lock_files import lock_tool
from scaffold.landing.conflicts.not_mergeable import NotMergeable
from scaffold.landing.conflicts.resolution import IsUnion, ReadFile, Resolution, read_text, resolve_files, resolved

Helper = Literal["agent", "lock tool"]
"""Resolves conflicts that take time: a merge agent, or the tools that make lock files."""


class HelpersAnswer(Struct, frozen=True):
    """What a helper made of the files left to it; it counts only if each file has a result."""

    files: dict[str, NewFile]
    told: tuple[FileMerge, ...]


AskAgent = Callable[[Sequence[ReadFile]], Awaitable[HelpersAnswer]]
"""Asks about files; raises NotMergeable if there is no answer."""
MakeLockFiles = Callable[[TreeId, Sequence[ReadFile]], Awaitable[HelpersAnswer]]
"""Regenerates lock files for a tree in which all else is merged; raises NotMergeable if they cannot be made."""
FAILURES = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)
"""What a helper may raise over file contents, which agents wrote, or over an answer of a model.

Errors of the machine, the store and the lease say nothing about the candidate, and go to the owner.
"""
MAX_COMMITS = 30
"""A candidate with more commits is not merged commit by commit."""


class Integration(Struct, frozen=True, kw_only=True):
    """Where a candidate is merged, and which helpers there are."""

    git: Git
    folder: Path
    """The folder for a temporary index."""
    identity: Signature
    """The author of the commits that a rebase makes; no ref ever points to them."""
    is_union: IsUnion
    ask_agent: AskAgent | None = None
    make_lock_files: MakeLockFiles | None = None

    @property
    def helpers(self) -> frozenset[Helper]:
        """The helpers that can be asked."""
        asked: dict[Helper, object] = {"agent": self.ask_agent, "lock tool": self.make_lock_files}
        return frozenset(each for each, ask in asked.items() if ask is not None)


class TreeMerged(Struct, frozen=True, tag="merged"):
    """The merged tree; `told` has the outcome of each file that both sides changed, empty after a plain merge."""

    tree: TreeId
    told: tuple[FileMerge, ...] = ()
    helpers: frozenset[Helper] = frozenset()
    """The helpers that resolved the rest."""


class TreeConflict(Struct, frozen=True, tag="conflict"):
    """The files at `paths` (sorted) are still in conflict."""

    paths: tuple[str, ...]
    told: tuple[FileMerge, ...]
    helpers: frozenset[Helper] = frozenset()
    """The helpers that could resolve it together; empty if only a new attempt can."""


async def merge_candidate(integration: Integration, *, tip: Commit, head: Commit) -> TreeMerged | TreeConflict:
    """Merge `head` into `tip` by the steps of the ladder; helpers are asked only if all that are needed exist."""
    git = integration.git
    merged = await merge_commits(git, tip, head)
    if isinstance(merged, Merged):
        return TreeMerged(TreeId(merged.tree))
    async with private_index(git, integration.folder) as index:
        found = await resolve_files(git, index, merged, tip=tip, is_union=integration.is_union)
        rebased = await _merge_by_commits(integration, found, tip=tip, head=head)
        if rebased is not None:
            return rebased
        helpers = _needed_helpers(found)
        if helpers and helpers <= integration.helpers:
            # Lock files come last: their tools need all other files merged.
            if found.left and integration.ask_agent is not None:
                found = _with_answers(found, await _await_answer(integration.ask_agent(found.left), found.left))
            if found.locks and not found.left and integration.make_lock_files is not None:
                tree = await index.tree_with(merged.tree, found.files)
                found = _with_answers(
                    found, await _await_answer(integration.make_lock_files(tree, found.locks), found.locks)
                )

        if found.refused or not merged.files:
            return TreeConflict(tuple(sorted(each.path for each in found.refused)), found.told, helpers)
        tree = await index.tree_with(merged.tree, found.files)
        return TreeMerged(tree, found.told, helpers)


def _needed_helpers(found: Resolution) -> frozenset[Helper]:
    # One file that nobody can resolve makes the help for all others useless.
    if len(found.left) + len(found.locks) < len(found.refused) or not all(lock_tool(each.path) for each in found.locks):
        return frozenset()
    needed: dict[Helper, object] = {"agent": found.left, "lock tool": found.locks}
    return frozenset(each for each, files in needed.items() if files)


async def _await_answer(helper: Awaitable[HelpersAnswer], files: Sequence[ReadFile]) -> HelpersAnswer:
    # A failing helper costs its candidate this step of the ladder, not the run.
    try:
        return await helper
    except NotMergeable as refused:
        why = str(refused)
    except FAILURES as error:
        why = f"merging it failed: {type(error).__name__}: {error}"
    return HelpersAnswer({}, tuple(FileMerge(each.path, "refused", why) for each in files))


async def _merge_by_commits(
    integration: Integration, found: Resolution, *, tip: Commit, head: Commit
) -> TreeMerged | None:
    readable = [each.path for each in found.readable]
    in_conflict = {each.path for each in found.told if each.status != "merged"}
    if in_conflict != set(readable):
        return None
    tree = await rebased_tree(integration.git, tip=tip, head=head, identity=integration.identity)
    if tree is None:
        return None
    try:
        told = await certified_rebase(integration.git, tree, found.readable)
    except NotMergeable:
        return None
    return TreeMerged(tree, (*(each for each in found.told if each.status == "merged"), *told))


async def rebased_tree(git: Git, *, tip: Commit, head: Commit, identity: Signature) -> TreeId | None:
    """Return the tree after applying a candidate's commits one by one; None if one conflicts.

    Also None for a single commit, which is the plain merge, and for a history with merges, which has no linear order.
    """
    listed = await git(
        "rev-list", "--reverse", "--topo-order", "--parents", f"--max-count={MAX_COMMITS + 1}", head, f"^{tip}"
    )
    chain = [line.split() for line in listed.line.split("\n")]
    if not 1 < len(chain) <= MAX_COMMITS or any(len(each) != len(("commit", "parent")) for each in chain):
        return None
    tree = await tree_of(git, tip)
    for commit, parent in chain:
        applied = await apply_commit(git, Commit(commit), parent=Commit(parent), onto=tree, identity=identity)
        if isinstance(applied, Conflicted):
            return None
        tree = TreeId(applied.tree)
    return tree


async def certified_rebase(git: Git, tree: TreeId, files: tuple[ReadFile, ...]) -> tuple[FileMerge, ...]:
    """Return how each file was merged; raise NotMergeable if the rebased tree lost or invented part of a file."""
    contents = await batch_contents(git, [f"{tree}:{each.versions.path}" for each in files])
    for each, data in zip(files, contents, strict=True):
        if data is None:
            raise NotMergeable(f"the rebase would have removed {each.versions.path}")
        require_complete(each.versions, read_text(data)[0])
    return tuple(resolved(each.versions.path, "rebase") for each in files)


def _with_answers(found: Resolution, answered: HelpersAnswer) -> Resolution:
    said = {each.path: each for each in answered.told}
    told = tuple(said.get(each.path, each) for each in found.told)
    return structs.replace(found, files={**found.files, **answered.files}, told=told)
