"""How long output is kept that was too long to be shown: in a folder for each conversation, while one may go on."""

import contextlib
import os
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePosixPath

from msgspec import Struct

KEPT_FOR = timedelta(days=7)
"""Since the last output of a conversation."""
KEPT_BYTES = 8 << 30
"""Of all conversations together; the latest come first."""


class _Kept(Struct, frozen=True):
    folder: Path
    size: int
    changed: datetime


def retire(outputs: Path, *, conversation: str, now: datetime) -> None:
    """Remove from `outputs` what is older than is kept, but nothing of `conversation` and its subagents.

    `outputs` need not exist; what cannot be removed stays.
    """
    own = PurePosixPath(conversation).parts[0]
    room = KEPT_BYTES
    for kept in sorted(_conversations(outputs), key=lambda each: each.changed, reverse=True):
        room -= kept.size
        if kept.folder.name != own and (room < 0 or now - kept.changed > KEPT_FOR):
            shutil.rmtree(kept.folder, ignore_errors=True)


def _conversations(outputs: Path) -> Iterator[_Kept]:
    """Yield what is kept of each conversation; nothing of one that goes away meanwhile."""
    with contextlib.suppress(OSError):
        for folder in list(outputs.iterdir()):
            status = [path.lstat() for path in _everything(folder)]
            changed = datetime.fromtimestamp(max(each.st_mtime for each in status), UTC)
            yield _Kept(folder, sum(each.st_size for each in status), changed)


def _everything(folder: Path) -> Iterator[Path]:
    yield folder
    for place, folders, files in os.walk(folder):
        yield from (Path(place, name) for name in (*folders, *files))
