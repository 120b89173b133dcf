"""What waits for a user, in a repository and in all of them, with what only the user's own database knows.

Git alone knows which finished work was taken: `views/changes/taken_work.py` drops it from these lists.
"""

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from scaffold.core.errors import StoreEmpty
from scaffold.core.knowledge import MEMORIES, NOTED_IN, Chunk, ChunkFilter
from scaffold.host.user_dirs import user_dirs
from scaffold.store.driver.columns import TimeSource
from scaffold.store.user_store import UserStore, user_database
from scaffold.views.store_reader import StoreAccess
from scaffold.views.waiting import UnreadRepository, WaitingEntry, read_waiting, read_waiting_of_user

MOST_MEMORIES = 20
UNCONFIRMED = ChunkFilter(states=("unconfirmed",))


def read_waiting_here(reader: StoreAccess | None, clock: TimeSource) -> tuple[WaitingEntry, ...]:
    """Return what waits in the repository (None: it has no runs), and memories about the user, oldest first."""
    found = () if reader is None else read_waiting(reader)
    return _oldest_first(*found, *_memories(clock))


def read_waiting_everywhere(
    clock: TimeSource, environ: Mapping[str, str]
) -> tuple[tuple[WaitingEntry, ...], tuple[UnreadRepository, ...]]:
    """Return what waits in all repositories of the user, oldest first, and those that could not be read.

    Known is each one in which the user has had a run. One whose folder is gone has nothing that could be decided.
    """
    entries, unread = read_waiting_of_user(known_repositories(clock), environ)
    return _oldest_first(*entries, *_memories(clock)), unread


def known_repositories(clock: TimeSource) -> tuple[Path, ...]:
    """Return a checkout of each repository in which the user has had a run, the one used last first."""
    if (user := _user_store_if_any(clock)) is None:
        return ()
    with closing(user):
        return user.repositories.roots()


def _memories(clock: TimeSource) -> tuple[WaitingEntry, ...]:
    if (user := _user_store_if_any(clock)) is None:
        return ()
    with closing(user):
        return tuple(map(_memory_entry, user.knowledge.chunks.newest(MEMORIES, UNCONFIRMED, most=MOST_MEMORIES)))


def _user_store_if_any(clock: TimeSource) -> UserStore | None:
    path = user_database(user_dirs().data)
    if not path.exists():
        return None
    try:
        return UserStore.open(path, clock=clock, create=False)
    except StoreEmpty:  # another process makes it at this moment
        return None


def _oldest_first(*entries: WaitingEntry) -> tuple[WaitingEntry, ...]:
    return tuple(sorted(entries, key=lambda entry: entry.since))


def _memory_entry(chunk: Chunk) -> WaitingEntry:
    folder = chunk.meta.get(NOTED_IN, "another folder")
    return WaitingEntry(
        kind="memory",
        id=chunk.id,
        run=None,
        repository=None,
        text=chunk.text,
        since=chunk.created_at,
        holds_up=f"its use outside of {folder}",
        choices={word: f"scaffold memory {word} {chunk.id}" for word in ("confirm", "forget")},
        memory=chunk,
    )
