"""The index file, read just far enough to see whether git was told to look away from some of the files."""

import struct
from pathlib import Path

HEADER = struct.Struct(">4sII")
"""Signature, version, number of entries."""
STAT_BYTES = 40
"""Times, device, inode, mode, owner and size, in front of an entry's hash."""
ASSUME_UNCHANGED, EXTENDED = 0x8000, 0x4000
SKIP_WORKTREE = 0x4000
"""In the extended flags."""


def trusted(index: Path, *, hash_bytes: int) -> bool:
    """Return whether every file's changes are seen by way of this index; one that is not there hides nothing.

    False as well for one that cannot be read, and for one of several files.
    """
    if any(index.parent.glob("sharedindex.*")):
        return False
    try:
        return not _looks_away(index.read_bytes(), hash_bytes)
    except FileNotFoundError:
        return True
    except (struct.error, IndexError, ValueError):
        return False


def _looks_away(data: bytes, hash_bytes: int) -> bool:
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
        at = _after(data, at, name, version)
    return False


def _after(data: bytes, at: int, name: int, version: int) -> int:
    """Return where the entry at `at` ends, whose name starts at `name`."""
    if version == 4:
        while data[name] & 0x80:  # how much of the name before is not repeated, in as many bytes as it takes
            name += 1
        return data.index(0, name + 1) + 1
    length = data.index(0, name) - at
    return at + (length + 8) // 8 * 8
