"""What a process keeps of the databases it searches, as a chat opens them for each use: their vectors.

Known without the libraries that compare vectors, as forgetting lets go of them at once.
"""

from collections.abc import Callable
from threading import Lock
from typing import Protocol, TypeVar

from msgspec import Struct

from scaffold.core.knowledge import CollectionName

MOST_VECTORS = 250_000
"""So many are kept in all; those that were used last, but always those of one collection."""


class Kept(Protocol):
    """Vectors in memory."""

    def __len__(self) -> int: ...

    def clear(self) -> None:
        """Let go of all vectors."""
        ...


KeptType = TypeVar("KeptType", bound=Kept)


class Key(Struct, frozen=True):
    """Which vectors."""

    database: str
    collection: CollectionName
    model: str
    folder: str
    """Where their index is."""


_kept: dict[Key, Kept] = {}
_lock = Lock()


def kept(key: Key, make: Callable[[], KeptType]) -> KeptType:
    """Return what is kept under a key, made if it is missing; what was not used for long may go instead."""
    with _lock:
        found = _kept.pop(key, None)
        if found is None:
            found = make()
        _kept[key] = found
        while len(_kept) > 1 and sum(len(each) for each in _kept.values()) > MOST_VECTORS:
            _kept.pop(next(iter(_kept))).clear()
        return found  # type: ignore[return-value]


def let_go(database: str, collection: CollectionName) -> None:
    """Clear the vectors of a collection from memory: text that belongs to them was forgotten."""
    with _lock:
        for key in [each for each in _kept if (each.database, each.collection) == (database, collection)]:
            _kept.pop(key).clear()
