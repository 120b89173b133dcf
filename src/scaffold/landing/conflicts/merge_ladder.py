"""Merge a candidate into a tip in memory, by the cheapest way that gives a certified result."""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from msgspec import Struct, structs

from scaffold.core.conflict import FileMerge
from scaffold.core.ids import Commit, TreeId
from scaffold.core.run_settings import Signature
from scaffold.git.command import Git
from scaffold.git.merge import Merged, merge_commits
from scaffold.git.private_index import NewFile, private_index
from scaffold.landing.conflicts.not_mergeable import NotMergeable
from scaffold.landing.conflicts.rebase import certified_rebase, rebased_tree
from scaffold.landing.conflicts.resolution import IsUnion, ReadFile, Resolution, resolve_files, tree_of_resolution


class AgentResolution(Struct, frozen=True):
    """What a merge agent made of the files that were left; without a result for each of them, nothing counts."""

    files: dict[str, NewFile]
    told: tuple[FileMerge, ...]


AskAgent = Callable[[Sequence[ReadFile]], Awaitable[AgentResolution]]


class Integration(Struct, frozen=True, kw_only=True):
    """Where a candidate is merged, and who may help."""

    git: Git
    folder: Path
    """The folder for a temporary index."""
    identity: Signature
    """In whose name a rebase makes its commits, which no ref ever names."""
    is_union: IsUnion
    ask_agent: AskAgent | None = None


class TreeMerged(Struct, frozen=True, tag="merged"):
    """The result of a merge; `told` is what became of each file that both sides changed, empty after a plain merge."""

    tree: TreeId
    told: tuple[FileMerge, ...] = ()
    by_agent: bool = False


class TreeConflict(Struct, frozen=True, tag="conflict"):
    """The files of `paths` (sorted) are still in conflict."""

    paths: tuple[str, ...]
    told: tuple[FileMerge, ...]


async def merge_candidate(integration: Integration, *, tip: Commit, head: Commit) -> TreeMerged | TreeConflict:
    """Merge `head` into `tip`: at once, by its commits, file by file, then by the agent."""
    git = integration.git
    merged = await merge_commits(git, tip, head)
    if isinstance(merged, Merged):
        return TreeMerged(TreeId(merged.tree))
    async with private_index(git, integration.folder) as index:
        found = await resolve_files(git, index, merged, tip=tip, is_union=integration.is_union)
        rebased = await _rebased(integration, found, tip=tip, head=head)
        if rebased is not None:
            return rebased
        by_agent = bool(found.left) and len(found.left) == len(found.refused)
        if by_agent and integration.ask_agent is not None:
            found = _with_answers(found, await integration.ask_agent(found.left))
        if found.refused or not merged.files:
            return TreeConflict(tuple(sorted(each.path for each in found.refused)), found.told)
        tree = await tree_of_resolution(index, merged, found.files)
        return TreeMerged(tree, found.told, by_agent=by_agent)


async def _rebased(integration: Integration, found: Resolution, *, tip: Commit, head: Commit) -> TreeMerged | None:
    """Return the candidate applied commit by commit; None if that conflicts, too, or is not certified."""
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


def _with_answers(found: Resolution, answered: AgentResolution) -> Resolution:
    """Return the resolution with the agent's files; what it says of a file replaces what was said before."""
    said = {each.path: each for each in answered.told}
    told = tuple(said.get(each.path, each) for each in found.told)
    return structs.replace(found, files={**found.files, **answered.files}, told=told)
