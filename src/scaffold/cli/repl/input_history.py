"""Earlier inputs: a private file for each project, without secrets."""

import contextlib
import os
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

from prompt_toolkit.history import FileHistory, History, InMemoryHistory

from scaffold.git.checkouts.worktree_metadata import find_checkout
from scaffold.host.user_dirs import user_dirs

HISTORY_FOLDER = "input-history"
"""In the data directory: a file for each project."""
MAX_HISTORY_CHARACTERS = 20_000


def history_file(folder: Path) -> Path:
    """Return the file with the earlier inputs of the project that a folder belongs to."""
    project = find_checkout(folder) or folder.resolve()
    return user_dirs().data / HISTORY_FOLDER / sha256(os.fsencode(project)).hexdigest()[:16]


class ProjectHistory(FileHistory):
    """Earlier inputs: as they were typed in this session, and in the file as they were sent, without secrets."""

    def __init__(self, path: Path, sent: Callable[[str], str]) -> None:
        """`sent` returns what is stored of a line."""
        super().__init__(path)
        self._sent = sent

    def store_string(self, string: str) -> None:
        """Write a line to the file, unless it is too long to be edited again."""
        if len(text := self._sent(string)) <= MAX_HISTORY_CHARACTERS:
            with contextlib.suppress(OSError):  # the message is sent all the same
                super().store_string(text)


def open_history(path: Path, sent: Callable[[str], str]) -> History:
    """Return the history in this private file; one in memory if it cannot be written.

    `sent` returns what is stored of a line.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # The file exists with private permissions before prompt_toolkit opens it, which would create it by the umask.
        os.close(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600))
        # The mode of `open` applies only to a file that it creates.
        path.chmod(0o600)
    except OSError:
        return InMemoryHistory()
    return ProjectHistory(path, sent)
