"""Write and delete several files of a workspace: all of them or none."""

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from scaffold.policy.path.containment import Refusal
from scaffold.tools.content.safe_open import FileContent, read_whole, remove_file, replace_file


class PlannedFile(Struct, frozen=True, kw_only=True):
    """What becomes of one file. The caller has checked that an agent may write it."""

    path: Path
    """Absolute, free of symlinks and inside the workspace."""
    shown: str
    """The path as the model wrote it."""
    before: FileContent | None
    """The whole file as it is now; None if there is none."""
    after: bytes | None
    """Its new content; None to delete it."""
    mode: int | None = None
    """Its permission bits; None: as they are, or of a new file by the umask."""


def change_files(root: Path, planned: Sequence[PlannedFile]) -> Refusal | None:
    """Write and delete the files below `root`; return why nothing was changed, or None.

    Each file is replaced atomically, deletions come last: a process that is killed in between has lost no content.
    After a failure the files that were changed until then get their former contents back.
    """
    done: list[PlannedFile] = []
    for file in sorted(planned, key=lambda each: each.after is None):
        problem = _tried(root, file)
        if problem is not None:
            left = [each.shown for each in reversed(done) if not _is_taken_back(root, each)]
            rest = f" But these were changed and could not be restored: {', '.join(left)}." if left else ""
            return Refusal(problem.reason + rest)
        done.append(file)
    return None


def _tried(root: Path, file: PlannedFile) -> Refusal | None:
    try:
        return _change(root, file)
    except OSError as error:
        return Refusal(f"{file.shown} cannot be changed ({error.strerror or error}); nothing was written.")


def _change(root: Path, file: PlannedFile) -> Refusal | None:
    origin = file.before.origin if file.before else None
    if file.after is not None:
        return replace_file(root, file.path, file.after, file.shown, origin=origin, mode=file.mode)
    return None if origin is None else remove_file(root, file.path, file.shown, origin=origin)


def _is_taken_back(root: Path, file: PlannedFile) -> bool:
    """Give the file its former content; return whether it has it."""
    now = None
    if file.after is not None:
        content = read_whole(root, file.path, file.shown, limit_bytes=len(file.after))
        # A change that was made in the meantime is not overwritten.
        if isinstance(content, Refusal) or content.data != file.after:
            return False
        now = content
    mode = file.before.mode if file.before else None
    back = PlannedFile(
        path=file.path, shown=file.shown, before=now, after=file.before.data if file.before else None, mode=mode
    )
    return _tried(root, back) is None
