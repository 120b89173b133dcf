"""`logs/orchestrator.jsonl` in the projections: what happened in the stories of all runs, one JSON object a line."""

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from scaffold.host.atomic_files import append_line, read_untrusted
from scaffold.plan.story.history import log_line
from scaffold.plan.story.record import StoryRecord

NAME = "orchestrator.jsonl"
MAX_BYTES = 256 * 1024 * 1024
"""A larger file gets no more lines: whether it has them already could not be read."""


class StoryLog:
    """The file, which only grows; a lock that the caller holds is needed for each call.

    A line is the projection of an entry that the store has. So what a killed process has not written is added later,
    and nothing is written twice.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / "logs" / NAME
        self._logged = Counter[bytes]()
        self._size: int | None = None
        """How long the file was when `_logged` was all that it had; None before it is read."""

    def add(self, stories: Sequence[StoryRecord]) -> None:
        """Add what the file does not have of these stories, in the order in which it happened; OSError if it cannot."""
        if self._size is None or self._size != self._size_now():
            self._read_log()
        new = list(self._new_lines(stories))
        if new and self._size is not None:
            append_line(self._path, b"\n".join(new))
            self._logged.update(new)
            self._size += sum(len(line) + 1 for line in new)

    def _new_lines(self, stories: Sequence[StoryRecord]) -> Iterator[bytes]:
        entries = [(entry.timestamp, log_line(story.story_id, entry)) for story in stories for entry in story.history]
        # Operations of one edit are equal lines: each is there as often as it happened.
        left = self._logged.copy()
        for _, line in sorted(entries, key=lambda each: each[0]):
            written = line.encode()
            if left[written]:
                left[written] -= 1
            else:
                yield written

    def _size_now(self) -> int:
        try:
            return self._path.stat(follow_symlinks=False).st_size
        except FileNotFoundError:
            return 0

    def _read_log(self) -> None:
        """Read what the file has; a line that a killed process began is removed."""
        content = read_untrusted(self._path, MAX_BYTES) if self._size_now() else b""
        if isinstance(content, str):
            raise OSError(f"{self._path} is not read: {content}")
        whole = content[: content.rfind(b"\n") + 1]
        if whole != content:
            os.truncate(self._path, len(whole))
        self._logged, self._size = Counter(whole.splitlines()), len(whole)
