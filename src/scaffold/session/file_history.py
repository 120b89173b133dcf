"""What files were before a conversation's tools changed them, by turn; kept in a private folder for `/undo`."""

import contextlib
import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field

from scaffold.core.tool import Tool, ToolCategory, ToolOutput
from scaffold.host.atomic_files import delete_folder_if_possible, write_atomic
from scaffold.tools.content.safe_open import CHANGE_RECORDER, FileChange
from scaffold.views.text_format import clip

FILE_HISTORY_FOLDER = "file-history"
"""The folder in the user's data directory with a folder for each conversation."""
MAX_TURNS = 50  # turns that are kept; the oldest are removed first
MAX_BYTES = 200_000_000
"""Of the contents kept for one conversation."""
MAX_WORDS = 60
# Categories of tools that may change files without reporting it.
UNTRACKED: frozenset[ToolCategory] = frozenset({"shell", "python", "plugin", "mcp", "subagent"})


class ChangedFile(Struct, frozen=True, kw_only=True):
    """What one turn did to a file; contents are named by their SHA-256."""

    before: str | None
    """None if the turn created the file."""
    mode: int | None
    """Its mode before the turn."""
    kept: bool
    """False if the content before was too long to be kept."""
    after: str | None
    """The content as the turn left it; None if the turn deleted the file."""
    made_anew: bool = False
    """Whether the turn deleted and created it, which gave it the mode of a new file."""
    shared: bool = False
    """Whether something else changed it between changes of the turn: that would be lost with the content before."""


class TurnChanges(Struct, kw_only=True):
    """What one turn did to files."""

    number: int
    words: str
    """The beginning of the user's message, in one line."""
    files: dict[bytes, ChangedFile] = field(default_factory=dict)
    """By absolute path, in the order of the first change."""
    ran: list[str] = field(default_factory=list)
    """The names of the tools that ran and whose changes are unknown, each once."""


class FileHistory:
    """The changes that one conversation made; only the process that has claimed the conversation uses it."""

    def __init__(self, folder: Path) -> None:
        self._turns = folder / "turns"
        self._contents = folder / "contents"
        self.begin_turn("")

    def begin_turn(self, words: str) -> None:
        """Count later changes as changes of a new turn."""
        # Input of a terminal can have undecodable bytes, which JSON cannot hold; `clip` makes them printable.
        self._turn = TurnChanges(number=0, words=clip(" ".join(words[: 10 * MAX_WORDS].split()), MAX_WORDS))
        self._kept_bytes = 0

    def watch(self, tool: Tool) -> Tool:
        """Return the tool; what it does to files is recorded from now on, or only that it ran if it reports none."""
        if tool.category not in {"file_write", *UNTRACKED}:
            return tool

        async def run(args: Mapping[str, Any]) -> ToolOutput:
            """Run the tool with this history as the recorder."""
            if tool.category in UNTRACKED:
                if tool.name not in self._turn.ran:
                    self._turn.ran.append(tool.name)
                    if self._turn.files:
                        with contextlib.suppress(OSError):
                            self._save_turn()
                return await tool.run(args)
            token = CHANGE_RECORDER.set(self._record_before)
            try:
                return await tool.run(args)
            finally:
                CHANGE_RECORDER.reset(token)

        return msgspec.structs.replace(tool, run=run)

    def turns(self) -> Sequence[TurnChanges]:
        """Return the turns that changed files, the latest first; an unreadable one is left out."""
        found = []
        for number in self._turn_numbers():
            with contextlib.suppress(OSError, msgspec.DecodeError):
                turn = msgspec.json.decode(self._turn_path(number).read_bytes(), type=TurnChanges)
                found += [turn] if turn.files else []
        return found

    def content(self, digest: str) -> bytes | None:
        """Return a kept content; None if it is gone."""
        with contextlib.suppress(OSError):
            data = (self._contents / digest).read_bytes()
            if hashlib.sha256(data).hexdigest() == digest:
                return data
        return None

    def forget(self, turn: TurnChanges) -> None:
        """Remove a turn: it was undone."""
        self._turn_path(turn.number).unlink(missing_ok=True)
        if turn.number == self._turn.number:
            self.begin_turn(turn.words)

    def _record_before(self, change: FileChange) -> None:
        # The tool's work is not held up by a full disk of the user's data: what is not recorded is never restored.
        with contextlib.suppress(OSError):
            # A turn gets its number with its first change: most turns change nothing.
            if not self._turn.number:
                for folder in (self._turns.parent, self._turns, self._contents):
                    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._make_room()
                self._turn.number = max(self._turn_numbers(), default=0) + 1
            path, before = os.fsencode(change.path), change.before
            earlier = self._turn.files.get(path)
            after = None if change.after is None else _content_digest(change.after)
            if earlier is not None:
                self._turn.files[path] = _changed_again(earlier, change, after)
            else:
                data = before.data if before is not None else None
                digest = None
                if data is not None and self._kept_bytes + len(data) <= MAX_BYTES:
                    # Named by its digest, so that equal contents are kept once.
                    digest = _content_digest(data)
                    if not (self._contents / digest).exists():
                        write_atomic(self._contents / digest, data)
                    self._kept_bytes += len(data)
                self._turn.files[path] = ChangedFile(
                    before=digest,
                    mode=before.mode if before else None,
                    kept=before is None or digest is not None,
                    after=after,
                )
            self._save_turn()

    def _make_room(self) -> None:
        # Turns go first, then the contents that no remaining turn needs.
        sizes = {entry.name: entry.stat().st_size for entry in os.scandir(self._contents)}
        needed: set[str] = set()
        full = False
        for index, turn in enumerate(self.turns(), start=1):
            own = {each.before for each in turn.files.values() if each.before is not None}
            full = full or index >= MAX_TURNS or sum(sizes.get(name, 0) for name in needed | own) > MAX_BYTES
            if full:
                self._turn_path(turn.number).unlink(missing_ok=True)
            else:
                needed |= own
        for name in sizes.keys() - needed:
            delete_folder_if_possible(self._contents / name)

    def _save_turn(self) -> None:
        write_atomic(self._turn_path(self._turn.number), msgspec.json.encode(self._turn))

    def _turn_numbers(self) -> list[int]:
        with contextlib.suppress(OSError):
            return sorted((int(path.stem) for path in self._turns.glob("[0-9]*.json")), reverse=True)
        return []

    def _turn_path(self, number: int) -> Path:
        return self._turns / f"{number:06}.json"


def _changed_again(earlier: ChangedFile, change: FileChange, after: str | None) -> ChangedFile:
    before = change.before
    known = before is None or (
        before.data is not None and _content_digest(before.data) in {earlier.after, earlier.before}
    )
    return msgspec.structs.replace(
        earlier,
        after=after,
        made_anew=earlier.made_anew or (before is None and earlier.before is not None),
        shared=earlier.shared or not known,
    )


def _content_digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
