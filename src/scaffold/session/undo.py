"""`/undo`: files become what they were before a turn's tools changed them, unless something else changed them since."""

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct

from scaffold.core.printable_text import join_limited
from scaffold.policy.path.containment import Refusal
from scaffold.session.file_history import ChangedFile, FileHistory, TurnChanges
from scaffold.tools.content.safe_open import FileContent, open_folder, read_whole, remove_file, replace_file
from scaffold.tools.workspace import printable_name

READ_BYTES = 20_000_000  # longer files are not compared; no tool writes one
MAX_NAMED = 30

UndoEffect = Literal["restored", "removed", "unchanged", "left"]


class UndoneFile(Struct, frozen=True):
    """What became of one file; `why` it was left as it is."""

    name: str
    effect: UndoEffect
    why: str = ""


class UndoReport(Struct, frozen=True):
    """What became of the files of one turn; `ran` names its tools whose changes are unknown."""

    words: str
    files: Sequence[UndoneFile]
    ran: Sequence[str]

    def names(self, effect: UndoEffect) -> list[str]:
        """Return the names of the files with this effect."""
        return [file.name for file in self.files if file.effect == effect]

    @property
    def changed(self) -> bool:
        """Whether any file is now as it was before the turn."""
        return any(file.effect != "left" for file in self.files)


def undo_turn(history: FileHistory, turn: TurnChanges, root: Path) -> UndoReport:
    """Undo a turn's changes in `root`, and forget the turn if any was undone; repeating completes it."""
    home = root.resolve()
    files = [_undo_file(history, home, Path(os.fsdecode(path)), change) for path, change in turn.files.items()]
    report = UndoReport(turn.words, files, turn.ran)
    if report.changed:
        history.forget(turn)
    return report


def undo_text(report: UndoReport) -> str:
    """Return what was undone and what was not, as lines for the user."""
    lines = (
        [f"undone, of {_turn_title(report)}:"] if report.changed else [f"nothing was changed of {_turn_title(report)}:"]
    )
    effects: tuple[tuple[UndoEffect, str], ...] = (("restored", "restored"), ("removed", "removed"))
    lines += [f"  {word} {join_limited(names, MAX_NAMED)}" for each, word in effects if (names := report.names(each))]
    if unchanged := report.names("unchanged"):
        lines.append(f"  already as before: {join_limited(unchanged, MAX_NAMED)}")
    lines += [f"  not {file.name}: {file.why}" for file in report.files if file.effect == "left"]
    if report.ran:
        lines.append(
            f"  not what {join_limited(report.ran, MAX_NAMED)} may have changed: only file tools can be undone"
        )
    return "\n".join(lines)


def undo_note(report: UndoReport) -> str:
    """Return the note about the undone changes for the agent."""
    return f"[The user took back changes of yours with /undo. Look at the files again.\n{undo_text(report)}]"


def _turn_title(report: UndoReport) -> str:
    return f'the turn "{report.words}"' if report.words else "the last turn"


def _undo_file(history: FileHistory, root: Path, path: Path, change: ChangedFile) -> UndoneFile:
    if not path.is_relative_to(root):
        return UndoneFile(printable_name(str(path)), "left", "it is outside of this directory")
    name = printable_name(str(path.relative_to(root)))
    try:
        effect = _undo_change(history, root, path, change, name)
    except OSError as error:
        return UndoneFile(name, "left", f"{error.strerror or error}")
    return UndoneFile(name, "left", effect.reason) if isinstance(effect, Refusal) else UndoneFile(name, effect)


def _undo_change(history: FileHistory, root: Path, path: Path, change: ChangedFile, name: str) -> UndoEffect | Refusal:
    now: FileContent | Refusal | None
    try:
        with open_folder(root, path.parent) as folder:
            os.stat(path.name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        now = None
    else:
        now = read_whole(root, path, name, limit_bytes=READ_BYTES)
    if isinstance(now, Refusal):
        return now
    digest = hashlib.sha256(now.data).hexdigest() if now else None
    as_before = change.kept and digest == change.before
    if as_before and (now is None or not change.made_anew or now.mode == change.mode):
        return "unchanged"
    if digest != change.after and not as_before:
        return Refusal("it was changed since, by you or by a command" if now else "it was deleted since")
    if not change.kept:
        return Refusal("what it was before was too long to be kept")
    if change.shared:
        return Refusal("it was also changed during the turn by you or by a command, which would be lost")
    return _restore_file(history, root, path, change, now, name)


def _restore_file(
    history: FileHistory, root: Path, path: Path, change: ChangedFile, now: FileContent | None, name: str
) -> UndoEffect | Refusal:
    if change.before is None:
        return (remove_file(root, path, name, origin=now.origin) if now else None) or "removed"
    data = history.content(change.before)
    if data is None:
        return Refusal("what it was before is no longer kept")
    mode = change.mode if now is None or change.made_anew else None
    return replace_file(root, path, data, name, origin=now.origin if now else None, mode=mode) or "restored"
