"""The list of tasks in trees that are merged: taken out of the merge, merged task by task, and marked."""

import asyncio
from functools import partial

from msgspec import Struct

from scaffold.core.errors import PlanInvalid
from scaffold.core.ids import ActionKey, Commit, TreeId
from scaffold.core.run_settings import TaskFormat, WriteBack
from scaffold.git.client.command_line import Git
from scaffold.git.commits import commit_tree, merge_base, tree_of
from scaffold.git.trees.merge import HELPER
from scaffold.git.trees.tree_file import tree_with
from scaffold.landing.conflicts.line_merge import merge_lines
from scaffold.landing.conflicts.not_mergeable import NotMergeable
from scaffold.plan.source.formats import containing, done_ids, marked_tasks, with_done, with_marked, with_open
from scaffold.run.task_list import ListVersion, read_list, with_list

MESSAGE = "Work without its changes of the list of tasks\n"


class SetApart(Struct, frozen=True):
    """Work without its changes to the list of tasks, and the list with these changes merged."""

    head: Commit
    text: str | None = None
    """None if the work leaves the list alone, or if the list must be merged like any other file."""


class MarkedTree(Struct, frozen=True):
    """A tree with the landing task marked as done, or why it is not, as the predicate of a sentence about the list."""

    tree: TreeId
    why_not: str = ""


async def set_apart(git: Git, listed: WriteBack | None, *, tip: Commit, head: Commit) -> SetApart:
    """Return the work `head` with the list as its agent found it, and the agent's list merged into that of `tip`.

    The agent's own marks are dropped: only a landing marks a task as done.
    """
    base = await merge_base(git, tip, head) if listed is not None else None
    if listed is None or base is None:
        return SetApart(head)
    was, theirs, ours = [await read_list(git, listed, each) for each in (base, head, tip)]
    if was is None or theirs is None or ours is None or was.object_id == theirs.object_id:
        return SetApart(head)
    try:
        own = await asyncio.to_thread(without_claims, listed.format, was.text, theirs.text, name=listed.path)
        text = await _merge_texts(listed, was.text, ours.text, own)
    except PlanInvalid:
        return SetApart(head)
    if text is None:
        return SetApart(head)
    tree = await tree_with(git, await tree_of(git, head), listed.path, mode=theirs.mode, object_id=was.object_id)
    apart = await commit_tree(git, tree, parents=[head], message=MESSAGE, author=HELPER, committer=HELPER)
    return SetApart(apart, text)


async def marked(
    git: Git, listed: WriteBack, tree: TreeId, key: ActionKey, *, merged: str | None, base: Commit
) -> MarkedTree:
    """Return the tree with the task `key` marked in its list, after replacing the list by `merged` unless None."""
    version = await read_list(git, listed, tree)
    if version is None:
        return MarkedTree(tree, "is not a text file there any more")
    text, why = version.text if merged is None else merged, ""
    try:
        done = await asyncio.to_thread(with_done, listed.format, text, [key], name=listed.path)
        text = done.text
        # A task that the list did not have at the run's base either is not the user's.
        if done.unmarked and await _has_task(git, listed, base, key):
            why = f"does not have exactly one task `{key}` any more"
    except PlanInvalid as error:
        why = f"cannot be read any more: {error}"
    if text != version.text:
        tree = await with_list(git, listed, tree, version, text)
    return MarkedTree(tree, why)


async def _has_task(git: Git, listed: WriteBack, commit: Commit, key: ActionKey) -> bool:
    version = await read_list(git, listed, commit)
    if version is None:
        return False
    try:
        tasks = await asyncio.to_thread(marked_tasks, listed.format, version.text, name=listed.path)
    except PlanInvalid:
        return False
    return any(task.id == key for task in tasks)


async def merge_list(git: Git, listed: WriteBack, *, old: str, new: str, onto: str) -> ListVersion | None:
    """Return the merged list, with the contents of `old` and the mode of `new`; None if the change leaves it alone."""
    was, theirs, ours = [await read_list(git, listed, each) for each in (old, new, onto)]
    if was is None or theirs is None or ours is None or was.object_id == theirs.object_id:
        return None
    try:
        text = await _merge_texts(listed, was.text, ours.text, theirs.text)
    except PlanInvalid:
        return None
    return None if text is None else ListVersion(mode=theirs.mode, object_id=was.object_id, text=text)


async def _merge_texts(listed: WriteBack, was: str, ours: str, theirs: str) -> str | None:
    merge = partial(merge_lists, listed.format, was, ours, theirs, name=listed.path)
    return await asyncio.to_thread(merge)


def merge_lists(task_format: TaskFormat, base: str, ours: str, theirs: str, *, name: str) -> str | None:
    """Return the list with the changes of both sides; None if they change the same lines beyond their marks. Pure.

    Marks never conflict: a task is done if a side marked it, unless one opened it again. Raises PlanInvalid if a
    version cannot be parsed.
    """
    was, mine, other = (done_ids(task_format, text, name=name) for text in (base, ours, theirs))
    every, new, opened = was | mine | other, other - was, was - other
    versions = [with_marked(task_format, text, every, name=name) for text in (base, ours, theirs)]
    try:
        lines = merge_lines(*(text.splitlines(keepends=True) for text in versions))
    except NotMergeable:
        return None
    if lines is None:
        return None
    merged = "".join(lines)
    # A parent task is open while one of its parts is, and done with the last one.
    opened = (every - ((mine | new) - opened)) | (containing(task_format, merged, opened, name=name) - other)
    # An open task keeps the mark of the side that opened it.
    for version in (theirs, ours):
        open_there = opened - done_ids(task_format, version, name=name)
        merged = with_open(task_format, merged, open_there, like=version, name=name)
    merged = with_open(task_format, merged, opened, like=ours, name=name)
    return with_done(task_format, merged, new, name=name).text


def without_claims(task_format: TaskFormat, base: str, theirs: str, *, name: str) -> str:
    """Return an agent's list without the marks that it added to `base`; PlanInvalid for an invalid version. Pure."""
    was, now = (done_ids(task_format, text, name=name) for text in (base, theirs))
    return with_open(task_format, theirs, now - was, like=base, name=name)
