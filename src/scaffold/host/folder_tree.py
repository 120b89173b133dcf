"""Walk and remove folder trees of any depth; the standard library recurses and fails at 1,000 folders in each other.

The broker of a command imports this and must start fast, so it imports none of our modules.
"""

import os
import sys
from _collections_abc import Iterator  # known by that name already; `collections` takes 2 ms
from itertools import islice

OPENING = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def walk(top: str | os.PathLike[str]) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield (folder, names of folders, names of other entries) from the top down, as `os.walk` does.

    The caller may change the list of folders. Links are not followed; folders that cannot be read are left out.
    """
    waiting = [os.fspath(top)]
    while waiting:
        path = waiting.pop()
        folders: list[str] = []
        others: list[str] = []
        try:
            with os.scandir(path) as entries:
                for entry in entries:
                    (folders if is_folder(entry) else others).append(entry.name)
        except OSError:
            continue
        yield path, folders, others
        below = [os.path.join(path, name) for name in reversed(folders)]  # noqa: PTH118 - as `os.walk`
        waiting.extend(each for each in below if not os.path.islink(each))  # noqa: PTH114 - as above


def is_folder(entry: os.DirEntry[str]) -> bool:
    """Return whether an entry is a folder or a link to one; a link that cannot be followed is none."""
    try:
        return entry.is_dir()
    except OSError:  # it leads in a circle, or where we may not look
        return False


def remove_tree(parent: int, name: str, *, most: int = sys.maxsize) -> None:
    """Remove a folder in the open folder `parent` with everything in it, whatever the modes, without following links.

    Stops after about `most` entries. What cannot be removed stays; OSError if anything does. Another process may add
    entries meanwhile.
    """
    top = open_folder(parent, name)
    stuck: dict[str, OSError] = {}
    try:
        while most > 0 and (entries := [each for each in _entry_names(top, most + len(stuck)) if each not in stuck]):
            for entry in entries:
                try:
                    most -= _remove_entry(top, entry, most)
                except OSError as error:
                    stuck[entry] = error
    finally:
        os.close(top)
    for problem in stuck.values():
        raise problem
    os.rmdir(name, dir_fd=parent)


def open_folder(parent: int, name: str) -> int:
    """Open a folder, and allow its owner everything, without following a link."""
    try:
        folder = os.open(name, OPENING, dir_fd=parent)
    except PermissionError:
        if sys.platform != "linux":
            os.chmod(name, 0o700, dir_fd=parent, follow_symlinks=False)
            return os.open(name, OPENING, dir_fd=parent)
        # Linux cannot change a mode without following links, but O_PATH opens a folder that may not be read.
        place = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
        try:
            os.chmod(f"/proc/self/fd/{place}", 0o700)  # noqa: PTH101 - as above
        finally:
            os.close(place)
        return os.open(name, OPENING, dir_fd=parent)
    try:
        os.fchmod(folder, 0o700)
    except OSError:  # another user's, which may be removable all the same
        return folder
    return folder


def _remove_entry(top: int, name: str, most: int) -> int:
    """Remove an entry of `top`, after moving at most this number of entries up from it; return how many there were."""
    if _is_unlinked(top, name):
        return 1
    folder = open_folder(top, name)
    try:
        entries = _entry_names(folder, most)
        for entry in entries:
            if not _is_unlinked(folder, entry):
                os.close(open_folder(folder, entry))  # a folder can be moved only by those who may write to it
                os.rename(entry, os.urandom(16).hex(), src_dir_fd=folder, dst_dir_fd=top)
        os.rmdir(name, dir_fd=top)
    finally:
        os.close(folder)
    return 1 + len(entries)


def _is_unlinked(folder: int, name: str) -> bool:
    """Remove an entry that is no folder; return False for a folder."""
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:  # removed meanwhile
        return True
    except (IsADirectoryError, PermissionError):  # macOS has the latter for folders
        return False
    return True


def _entry_names(folder: int, most: int) -> list[str]:
    with os.scandir(folder) as entries:
        return [entry.name for entry in islice(entries, most)]
