"""Apply what a landing changed to another commit, in memory: marks in the list of tasks never conflict."""

from collections.abc import Mapping

from scaffold.core.ids import Commit, TreeId
from scaffold.core.model import Run
from scaffold.git.trees.merge import Conflicted
from scaffold.git.trees.tree_file import tree_with
from scaffold.landing.marked_tree import merge_list
from scaffold.landing.taking.remake import apply_change
from scaffold.run.context import RunContext
from scaffold.run.task_list import read_list, with_list


async def apply_work(
    context: RunContext, run: Run, *, old: Commit, new: Commit, onto: Commit, trees: Mapping[Commit, str]
) -> str | Conflicted:
    """Return what `apply_change` does, with the list of tasks merged by itself."""
    git, listed = context.git, run.settings.landing.tracked_list
    merged = await merge_list(git, listed, old=trees[old], new=trees[new], onto=trees[onto]) if listed else None
    if listed is None or merged is None:
        return await apply_change(context, old=old, new=new, onto=onto, trees=trees)
    without = await tree_with(git, TreeId(trees[new]), listed.path, mode=merged.mode, object_id=merged.object_id)
    applied = await apply_change(context, old=old, new=new, onto=onto, trees={**trees, new: without})
    version = None if isinstance(applied, Conflicted) else await read_list(git, listed, applied)
    if isinstance(applied, Conflicted) or version is None:
        return applied
    return await with_list(git, listed, TreeId(applied), version, merged.text)
