"""Three-way merge of a list of tasks: task by task what is done, line by line all else. Pure."""

from scaffold.core.run_settings import TaskFormat
from scaffold.landing.conflicts.line_merge import merge_lines
from scaffold.landing.conflicts.not_mergeable import NotMergeable
from scaffold.plan.source.formats import with_done
from scaffold.plan.source.task_marks import containing, done_ids, with_marked, with_open


def merge_lists(task_format: TaskFormat, base: str, ours: str, theirs: str, *, name: str) -> str | None:
    """Return the list with the changes of both sides; None if they change the same lines in more than their marks.

    Marks never conflict: a task is done if a side marked it, unless one opened it again. Raises PlanInvalid if a
    version cannot be read.
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
    # What a task is a part of is not done without it, and done with the last one.
    opened = (every - ((mine | new) - opened)) | (containing(task_format, merged, opened, name=name) - other)
    # Which mark an open task has is what the side says that opened it.
    for version in (theirs, ours):
        open_there = opened - done_ids(task_format, version, name=name)
        merged = with_open(task_format, merged, open_there, like=version, name=name)
    merged = with_open(task_format, merged, opened, like=ours, name=name)
    return with_done(task_format, merged, new, name=name).text


def without_claims(task_format: TaskFormat, base: str, theirs: str, *, name: str) -> str:
    """Return an agent's list without the marks that it has beyond `base`: what lands decides what is done.

    Raises PlanInvalid if a version cannot be read.
    """
    was, now = (done_ids(task_format, text, name=name) for text in (base, theirs))
    return with_open(task_format, theirs, now - was, like=base, name=name)
