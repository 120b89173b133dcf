"""Copies of the edits that agents ask for in their stories, for people, in the projections; nothing reads them."""

import contextlib

from scaffold.core.ids import ActionKey, AttemptId
from scaffold.host.atomic_files import read_untrusted, write_atomic
from scaffold.run.context import RunContext, safe_file_name

EDITS = "workflow_edits"
"""The folder for the files, in the projections and in the shared folder of an attempt."""
FAILED = "failed"
"""The folder in the first one for those that are not used."""


def edit_file_name(story: ActionKey) -> str:
    """Return the name of the file with the edits of a story."""
    return f"{safe_file_name(story)}.json"


def keep_edits(context: RunContext, story: ActionKey, edits: str) -> None:
    """Keep edits of a story that are pending or applied; a checkout that cannot be written is left alone."""
    _write(context, edit_file_name(story), edits.encode())


def keep_unused_file(context: RunContext, attempt: AttemptId, name: str, content: bytes) -> None:
    """Keep an edit file of an attempt that is not used."""
    _write(context, f"{FAILED}/{attempt}-{name}", content)


def keep_unused_edits(context: RunContext, attempt: AttemptId, story: ActionKey, edits: str) -> None:
    """Keep edits that were rejected or whose step failed; they are no longer pending."""
    name, content = edit_file_name(story), edits.encode()
    keep_unused_file(context, attempt, name, content)
    pending = context.projections / EDITS / name
    if read_untrusted(pending, len(content)) == content:
        with contextlib.suppress(OSError):
            pending.unlink()


def _write(context: RunContext, name: str, content: bytes) -> None:
    with contextlib.suppress(OSError):
        write_atomic(context.projections / EDITS / name, content)
