"""Apply a candidate's commits one after another, which can succeed where merging all of them at once conflicts."""

from scaffold.core.ids import Commit, TreeId
from scaffold.core.landing.conflict import FileMerge
from scaffold.core.run_settings import Signature
from scaffold.git.client.command_line import Git
from scaffold.git.commits import batch_contents, tree_of
from scaffold.git.trees.merge import Conflicted, apply_commit
from scaffold.landing.conflicts.certificate import require_complete
from scaffold.landing.conflicts.not_mergeable import NotMergeable
from scaffold.landing.conflicts.resolution import ReadFile, resolved
from scaffold.landing.conflicts.text_form import read_text

MAX_COMMITS = 30
"""Candidates with more commits are merged at once only."""


async def rebased_tree(git: Git, *, tip: Commit, head: Commit, identity: Signature) -> TreeId | None:
    """Return the tree after all commits of a candidate; None if one conflicts, or if this is the merge itself.

    That is so for one commit, and for a history with merges, which has no order in which to apply it.
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
    """Return how each file was merged; raise NotMergeable if the rebased tree lost or invented something in one."""
    contents = await batch_contents(git, [f"{tree}:{each.versions.path}" for each in files])
    for each, data in zip(files, contents, strict=True):
        if data is None:
            raise NotMergeable(f"the rebase would have removed {each.versions.path}")
        require_complete(each.versions, read_text(data)[0])
    return tuple(resolved(each.versions.path, "rebase") for each in files)
