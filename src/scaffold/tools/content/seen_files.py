"""What a conversation knows of files: their contents as it last read or wrote them, and its edits since.

No tool overwrites a change made outside the conversation. It reports the change instead, and then the conversation
knows that.
"""

import hashlib
from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path

from msgspec import Struct, field

from scaffold.core.printable_text import truncate_text
from scaffold.policy.path.containment import Refusal
from scaffold.tools.content.line_diff import format_line, line_diff
from scaffold.tools.content.line_edits import LineEdit, span_of
from scaffold.tools.content.safe_open import FileContent, FileVersion
from scaffold.tools.content.text_encoding import decode

CURRENT_REPLY: ContextVar[object] = ContextVar("CURRENT_REPLY", default=None)
"""The reply whose calls are running: all of them were written before any of them ran."""
KEPT_BYTES = 500_000
"""Longer contents are not kept, so their changes are reported without lines."""
KEPT_FILES = 200
"""Of more files, those seen longest ago are forgotten."""
SHOWN_CHANGE_CHARS = 6_000
LINES_UNKNOWN = "~"
"""Begins a stored version of a file whose lines the conversation no longer shows."""


class EditedSpan(Struct, frozen=True):
    """Lines `start` to `end` (0-based, `end` exclusive) that an edit replaced by `growth` more lines."""

    start: int
    end: int
    growth: int


class _SeenFile(Struct):
    """A file as last seen: its digest and, if it is not too long, its bytes; of a streamed one, only its version."""

    digest: bytes | None
    data: bytes | None
    version: FileVersion
    lines_known: bool = True
    """Whether the conversation still shows its lines with their numbers."""
    reply: object = None
    edits: list[EditedSpan] = field(default_factory=list)
    """What the calls of `reply` changed so far, in the line numbers from before the reply."""

    def to_text(self) -> str:
        """Return the version as text: the digest, or the fields of the version; marked if its lines are not known."""
        mark = "" if self.lines_known else LINES_UNKNOWN
        if self.digest is not None:
            return mark + self.digest.hex()
        version = self.version
        return f"{mark}{version.device} {version.inode} {version.size} {version.mtime_ns}"


def whole_content(data: bytes) -> FileContent:
    """Return the content of a file that was just written."""
    return FileContent(data, FileVersion(device=0, inode=0, size=len(data), mtime_ns=0))


class SeenFiles:
    """The files that one conversation has seen."""

    def __init__(self, versions: Mapping[str, str] | None = None) -> None:
        """Begin with the versions that an earlier process of the conversation took, by absolute path."""
        known = {path: _seen_file(version) for path, version in (versions or {}).items()}
        self._seen: OrderedDict[Path, _SeenFile] = OrderedDict(
            (Path(path), seen) for path, seen in known.items() if seen is not None
        )
        self.compactions = 0
        """How often its conversation was compacted, in this process."""
        # Tools add changes in their threads; another thread stores them.
        self._changes: deque[tuple[str, str | None]] = deque()

    def take_changes(self) -> Mapping[str, str | None]:
        """Return the versions since the last call, as text by absolute path; None for files that are forgotten."""
        taken: dict[str, str | None] = {}
        while self._changes:
            path, version = self._changes.popleft()
            # A name that no database can hold is not stored: a resumed conversation reads that file again.
            if not any("\ud800" <= char <= "\udfff" for char in path):
                taken[path] = version
        return taken

    def record(self, path: Path, content: FileContent) -> None:
        """Remember the content of a file that the conversation has read, or written as a whole."""
        self._remember_content(path, content, lines_known=True)

    def record_change(self, path: Path, content: FileContent) -> None:
        """Remember the content of a file of which the conversation was shown only a change."""
        earlier = self._seen.get(path)
        self._remember_content(path, content, lines_known=earlier is None or earlier.lines_known)

    def _remember_content(self, path: Path, content: FileContent, *, lines_known: bool) -> None:
        digest = None if content.cut else hashlib.sha256(content.data).digest()
        kept = content.data if not content.cut and len(content.data) <= KEPT_BYTES else None
        earlier = self._seen.pop(path, None)
        seen = _SeenFile(digest, kept, content.origin, lines_known)
        if earlier is not None and earlier.reply is CURRENT_REPLY.get():
            seen.reply, seen.edits = earlier.reply, earlier.edits
        self._seen[path] = seen
        self._changes.append((str(path), seen.to_text()))
        while len(self._seen) > KEPT_FILES:
            forgotten, _ = self._seen.popitem(last=False)
            self._changes.append((str(forgotten), None))

    def record_edits(self, path: Path, content: FileContent, edits: Sequence[LineEdit]) -> None:
        """Remember a file after edits of the conversation's own, in the order of the lines they changed.

        The edits have the line numbers from right before them, as `renumbered` returns them.
        """
        before = self._edits_of_reply(path)
        own = [EditedSpan(*_original_lines(before, edit), len(edit.new) - (edit.end - edit.start)) for edit in edits]
        self.record_change(path, content)
        seen = self._seen[path]
        seen.reply, seen.edits = CURRENT_REPLY.get(), sorted([*before, *own], key=lambda span: (span.start, span.end))

    def forget(self, path: Path) -> None:
        """Forget a file that is gone."""
        if self._seen.pop(path, None) is not None:
            self._changes.append((str(path), None))

    def knows(self, path: Path) -> bool:
        """Return whether the conversation has read or written the file."""
        return path in self._seen

    def knows_lines(self, path: Path) -> bool:
        """Return whether the conversation knows the file and still shows its lines with their numbers."""
        return path in self._seen and self._seen[path].lines_known

    def forget_lines(self) -> None:
        """Note that the lines of all files may no longer be shown: the conversation was compacted."""
        self.compactions += 1
        for path, seen in self._seen.items():
            if seen.lines_known:
                seen.lines_known = False
                self._changes.append((str(path), seen.to_text()))

    def change_since(self, path: Path, content: FileContent | None, shown: str) -> Refusal | None:
        """Return a description of a file's change since it was last seen, and remember it; None without a change.

        `content` is None for a file that does not exist. A file that was never seen has not changed.
        """
        seen = self._seen.get(path)
        if seen is None:
            return None
        if content is None:
            self.forget(path)
            return Refusal(f"{shown} was deleted since you read it; nothing was written. Repeat the call to create it.")
        # Without the whole content before and now, the version of the file has to tell.
        whole = seen.digest is not None and not content.cut
        if seen.digest == hashlib.sha256(content.data).digest() if whole else seen.version == content.origin:
            return None
        del self._seen[path]
        self._remember_content(path, content, lines_known=seen.lines_known)
        return Refusal(
            f"{shown} was changed since you read it, outside this conversation or by a command; nothing was written. "
            f"Make your change on what it contains now. {_describe_changes(seen, content)}"
        )

    def renumbered(self, path: Path, changes: Sequence[LineEdit]) -> Sequence[LineEdit] | Refusal:
        """Return edits with the line numbers of the file as it is now.

        The calls of one reply were all written before the first of them ran, so their numbers are those from before
        the reply. Refused if an earlier call of the reply changed the same lines.
        """
        spans = self._edits_of_reply(path)
        moved = []
        for change in changes:
            # They touch if both change the same line, or one inserts within the other's lines.
            if any(span.start < change.end and change.start < span.end for span in spans):
                return Refusal(
                    f"An earlier call of the same reply changed {span_of(change)}, or lines around it; "
                    "nothing was changed. Look at the file, then repeat this call with its new line numbers."
                )
            growth = sum(span.growth for span in spans if span.end <= change.start)
            moved.append(LineEdit(change.start + growth, change.end + growth, change.new, change.expected))
        return tuple(moved)

    def _edits_of_reply(self, path: Path) -> Sequence[EditedSpan]:
        seen, reply = self._seen.get(path), CURRENT_REPLY.get()
        return () if seen is None or reply is None or seen.reply is not reply else tuple(seen.edits)


def _seen_file(version: str) -> _SeenFile | None:
    # A newer program may have written a version that this one cannot read; the file is then unknown.
    lines_known = not version.startswith(LINES_UNKNOWN)
    version = version.removeprefix(LINES_UNKNOWN)
    try:
        if " " in version:
            return _SeenFile(None, None, FileVersion(*map(int, version.split(" "))), lines_known)
        return _SeenFile(bytes.fromhex(version), None, FileVersion(0, 0, 0, 0), lines_known)
    except (ValueError, TypeError):
        return None


def _original_lines(spans: Sequence[EditedSpan], edit: LineEdit) -> tuple[int, int]:
    # The calls of one reply were all written before the first of them ran.
    shift = 0
    for span in spans:
        if span.end + shift + span.growth <= edit.start:
            shift += span.growth
    return edit.start - shift, edit.end - shift


def _describe_changes(seen: _SeenFile, content: FileContent) -> str:
    before = decode(seen.data) if seen.data is not None else None
    after = None if content.cut else decode(content.data)
    if before is None or after is None:
        return "Read it again."
    diff = line_diff(before.text, after.text)
    if diff is None:
        return "Only its encoding changed; read it again."
    lines = "\n".join(format_line(line) for line in diff.lines)
    return f"What changed:\n{truncate_text(lines, SHOWN_CHANGE_CHARS)}"
