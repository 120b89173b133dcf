"""The step that merges a story with what landed since it began: the agent resolves what git could not merge."""

import os

from msgspec import Struct, structs

from scaffold.core.ids import Commit
from scaffold.core.printable_text import join_limited, utf8_safe
from scaffold.core.proof.contract import CheckResult, Verification
from scaffold.git import commits, refs
from scaffold.git.trees.merge import Conflicted, merge_commits
from scaffold.worker.workspace.work_commit import WorkCommit
from scaffold.worker.workspace.workplace import Workplace

REBASE_STEP = "rebase_resolve"
MARKERS_CHECK = "conflict markers"
_MARKERS = ("<<<<<<< ", ">>>>>>> ")


class PreparedMerge(Struct, frozen=True):
    """A merge of the branch's tip into the story, which the worktree shows with conflict markers."""

    tip: Commit
    paths: tuple[str, ...]
    """The files in conflict."""


async def prepare_merge(place: Workplace) -> PreparedMerge | None:
    """Show the merge with what landed in the worktree; None if the attempt is at another step. HEAD does not move."""
    if place.task.action.role != REBASE_STEP or place.task.attempt.kind != "step":
        return None
    git, start = place.workspace.git, place.workspace.start
    tip = await refs.resolve(place.run_context.git, place.task.run.session_ref)
    if tip is None:
        return None
    merged = await merge_commits(place.run_context.git, start, tip)
    await git("read-tree", "-u", "--reset", merged.tree)
    paths = merged.paths if isinstance(merged, Conflicted) else ()
    if paths:  # conflict markers are not a version that its agent staged
        listed = b"".join(os.fsencode(path) + b"\0" for path in paths)
        await git("reset", "-q", start, "--pathspec-from-file=-", "--pathspec-file-nul", stdin=listed)
    return PreparedMerge(tip, paths)


def merge_note(merge: PreparedMerge) -> str:
    """Return the paragraph about the merge for the prompt of the step."""
    files = "\n".join(f"- {utf8_safe(path)}" for path in merge.paths) or "- none: git merged all of it"
    return (
        f"# The merge\nYour worktree has both sides merged: the story's work, and what landed since, up to {merge.tip}."
        f"\nFiles in conflict have conflict markers:\n{files}"
    )


async def with_second_parent(place: Workplace, merge: PreparedMerge, work: WorkCommit) -> WorkCommit | Verification:
    """Return the work as a merge with the tip; a failed verification while files have conflict markers."""
    git, identity = place.workspace.git, place.task.run.settings.identity
    left = []
    for path in merge.paths:
        found = await place.run_context.git("cat-file", "blob", f"{work.head}:{path}", ok=frozenset({0, 128}))
        if any(line.startswith(_MARKERS) for line in found.out.decode("utf-8", "replace").splitlines()):
            left.append(path)
    if left:
        names = join_limited([utf8_safe(path) for path in left], 20)
        problem = CheckResult(name=MARKERS_CHECK, verdict="fail", detail=f"These files have conflict markers: {names}")
        return Verification(commit=work.head, results=(problem,))
    head = await commits.commit_tree(
        git,
        work.tree,
        parents=[work.head, merge.tip],
        message=f"Merge what landed into {place.task.action.key}",
        author=identity.author,
        committer=identity.committer,
    )
    return structs.replace(work, head=head)
