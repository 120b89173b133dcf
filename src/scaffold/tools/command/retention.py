"""Expiry of what is saved for a conversation, in a folder of its own, while it may be resumed: outputs, old files."""

import contextlib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePosixPath

from msgspec import Struct

from scaffold.host.atomic_files import delete_folder_if_possible
from scaffold.host.folder_tree import walk

MAX_AGE = timedelta(days=7)
"""Since the last change for a conversation."""
MAX_TOTAL_BYTES = 8 << 30
"""Of all conversations together; the oldest are removed first."""


class _ConversationOutput(Struct, frozen=True):
    folder: Path
    size: int
    changed: datetime


def remove_expired(outputs: Path, *, conversation: str, now: datetime) -> None:
    """Remove expired folders of conversations from `outputs`, but never that of `conversation` and its subagents.

    `outputs` may be missing; folders that cannot be removed stay.
    """
    own = PurePosixPath(conversation).parts[0]
    room = MAX_TOTAL_BYTES
    for kept in sorted(_conversations(outputs), key=lambda each: each.changed, reverse=True):
        room -= kept.size
        if kept.folder.name != own and (room < 0 or now - kept.changed > MAX_AGE):
            delete_folder_if_possible(kept.folder)


def _conversations(outputs: Path) -> Iterator[_ConversationOutput]:
    """Yield each conversation's saved output; stop at the first folder that another process removes."""
    with contextlib.suppress(OSError):
        for folder in list(outputs.iterdir()):
            status = [path.lstat() for path in _everything(folder)]
            changed = datetime.fromtimestamp(max(each.st_mtime for each in status), UTC)
            yield _ConversationOutput(folder, sum(each.st_size for each in status), changed)


def _everything(folder: Path) -> Iterator[Path]:
    yield folder
    for parent, folders, files in walk(folder):
        yield from (Path(parent, name) for name in (*folders, *files))
