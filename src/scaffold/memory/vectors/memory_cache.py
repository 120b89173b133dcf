"""What a process keeps of the databases it searches, as a chat opens them for each use: their vectors.

Known without the libraries that compare vectors, as forgetting lets go of them at once.
"""

import hashlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Protocol, TypeVar

from msgspec import Struct

from scaffold.core.knowledge import CollectionName

UNFINISHED = ".by-"
"""How the names of files begin that are being written, see `host/leftovers.py`."""
MOST_VECTORS = 250_000
"""So many are kept in all; those that were used last, but always those of one collection."""
_lock = Lock()


class Kept(Protocol):
    """Vectors in memory."""

    def __len__(self) -> int: ...

    def clear(self) -> None:
        """Let go of all vectors."""


KeptType = TypeVar("KeptType", bound=Kept)


class Key(Struct, frozen=True):
    """Which vectors."""

    database: str
    collection: CollectionName
    model: str
    folder: str
    """Where their index is."""


_kept: dict[Key, Kept] = {}


def kept(key: Key, make: Callable[[], KeptType]) -> KeptType:
    """Return what is kept under a key, made if it is missing; what was not used for long may go instead."""
    with _lock:
        found = _kept.pop(key, None)
        if found is None:
            found = make()
        _kept[key] = found
        # The first is the one that was not used for longest.
        while len(_kept) > 1 and sum(len(each) for each in _kept.values()) > MOST_VECTORS:
            _kept.pop(next(iter(_kept))).clear()
        return found  # type: ignore[return-value]


def let_go(database: str, collection: CollectionName) -> None:
    """Clear the vectors of a collection from memory: text that belongs to them was forgotten."""
    with _lock:
        for key in [each for each in _kept if (each.database, each.collection) == (database, collection)]:
            _kept.pop(key).clear()


def index_folder(cache: Path, database: str) -> Path:
    """Return the folder of a database's indices in the user's cache."""
    return cache / "memory" / hashlib.sha256(database.encode()).hexdigest()[:16]


def index_path(folder: Path, collection: CollectionName) -> Path:
    """Return the file of a collection's index; its header is beside it, with the suffix `.json`."""
    # A name may have any characters, and be long.
    return folder / f"{hashlib.sha256(collection.encode()).hexdigest()[:32]}.usearch"


def delete_index(folder: Path, collection: CollectionName) -> None:
    """Delete a collection's index, if there is one: vectors in it may be of text that was forgotten.

    With what was left of one that was being written, or still is: then it is not made.
    """
    path = index_path(folder, collection)
    for each in (path.with_suffix(".json"), path, *folder.glob(f"{UNFINISHED}*")):
        with suppress(FileNotFoundError):
            each.unlink()
