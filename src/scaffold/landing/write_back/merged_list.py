"""Three-way merge of a list of tasks: task by task what is done, line by line all else. Pure."""

from scaffold.core.run_settings import TaskFormat
from scaffold.landing.conflicts.line_merge import merge_lines
from scaffold.landing.conflicts.not_mergeable import NotMergeable
from scaffold.plan.source.formats import with_done
from scaffold.plan.source.task_marks import done_ids, with_open


def merge_lists(task_format: TaskFormat, base: str, ours: str, theirs: str, *, name: str) -> str | None:
    """Return the list with the changes of both sides; None if they change the same lines in more than their marks.

    Marks never conflict: a task is done if a side marked it, unless one opened it again. Raises PlanInvalid if a
    version cannot be read.
    """
    was, mine, other = (done_ids(task_format, text, name=name) for text in (base, ours, theirs))
    every = was | mine | other
    versions = [with_done(task_format, text, every, name=name).text for text in (base, ours, theirs)]
    try:
        lines = merge_lines(*(text.splitlines(keepends=True) for text in versions))
    except NotMergeable:
        return None
    if lines is None:
        return None
    # Those whose parts are all done without them being so were left open by their user.
    left_open = done_ids(task_format, with_done(task_format, ours, mine, name=name).text, name=name) - mine
    opened = (every | left_open) - ((mine | (other - was)) - (was - other))
    merged = "".join(lines)
    # Which mark an open task has is what the side says that opened it.
    for version in (theirs, ours):
        open_there = opened - done_ids(task_format, version, name=name)
        merged = with_open(task_format, merged, open_there, like=version, name=name)
    return merged


def without_claims(task_format: TaskFormat, base: str, theirs: str, *, name: str) -> str:
    """Return an agent's list without the marks that it has beyond `base`: what lands decides what is done.

    Raises PlanInvalid if a version cannot be read.
    """
    was, now = (done_ids(task_format, text, name=name) for text in (base, theirs))
    return with_open(task_format, theirs, now - was, like=base, name=name)
