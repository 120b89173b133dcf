"""Where the index file of a collection is; known without the libraries that make one, as forgetting deletes it."""

import hashlib
from contextlib import suppress
from pathlib import Path

from scaffold.core.knowledge import CollectionName

UNFINISHED = ".by-"
"""How the names of files begin that are being written, see `host/leftovers.py`."""


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
