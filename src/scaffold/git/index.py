"""Parse the index file just far enough to see whether flags hide changes of some files from git."""

import struct
from pathlib import Path

HEADER = struct.Struct(">4sII")
"""Signature, version, number of entries."""
STAT_BYTES = 40
"""Size of the times, device, inode, mode, owner and file size that precede an entry's hash."""
ASSUME_UNCHANGED, EXTENDED = 0x8000, 0x4000
SKIP_WORKTREE = 0x4000
"""A bit of the extended flags."""


def shows_all_changes(index: Path, *, hash_bytes: int) -> bool:
    """Return whether git sees the changes of every file with this index; a missing index hides nothing.

    False also for an unreadable index and for a split index.
    """
    if any(index.parent.glob("sharedindex.*")):
        return False
    try:
        return not _hides_changes(index.read_bytes(), hash_bytes)
    except FileNotFoundError:
        return True
    except (struct.error, IndexError, ValueError):
        return False


def _hides_changes(data: bytes, hash_bytes: int) -> bool:
    signature, version, count = HEADER.unpack_from(data)
    if signature != b"DIRC" or version not in {2, 3, 4}:
        raise ValueError(version)
    at = HEADER.size
    for _ in range(count):
        name = at + STAT_BYTES + hash_bytes + 2
        flags = int.from_bytes(data[name - 2 : name], "big")
        if flags & EXTENDED:
            name += 2
            if int.from_bytes(data[name - 2 : name], "big") & SKIP_WORKTREE:
                return True
        if flags & ASSUME_UNCHANGED:
            return True
        at = _entry_end(data, at, name, version)
    return False


def _entry_end(data: bytes, at: int, name: int, version: int) -> int:
    """Return the offset after the entry that starts at `at` and whose name starts at `name`."""
    if version == 4:
        while data[name] & 0x80:  # a varint: how many bytes of the previous name to drop
            name += 1
        return data.index(0, name + 1) + 1
    length = data.index(0, name) - at
    return at + (length + 8) // 8 * 8
