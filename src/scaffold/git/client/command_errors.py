"""Translate failures of git commands into errors that say what to do."""

import errno
import os
import re
from datetime import UTC, datetime
from pathlib import Path

from scaffold.core.errors import GitError, PermanentGitError
from scaffold.core.ids import Commit
from scaffold.host.clock import SystemClock
from scaffold.host.process.command_runner import CommandResult

_LOCKED = re.compile(rb"(?:'(?P<file>[^'\n]+\.lock)': File exists)|could not lock config file")
_FILTERED = re.compile(r"(?P<path>[^\n]+): (?:clean|smudge) filter '?(?P<name>[^'\n]+?)'? failed")
_ABSENT = re.compile(r"transport '[^']*' not allowed|promisor remote|lazy fetching disabled")
_FULL = re.compile(r"No space left on device|Disk quota exceeded")
_PERMANENT = (
    (
        # Not any denial: a file that an agent made unreadable is gone in the next worktree.
        re.compile(
            r"(?:cannot lock ref|unable to create|unable to write)[^\n]*"
            r"(?:Permission denied|Not a directory|exists; cannot create)"
            r"|insufficient permission for adding an object|Read-only file system",
            re.IGNORECASE,
        ),
        "make the path that git names writable, then retry",
    ),
    (
        re.compile(r"object (?:file )?\S+ (?:\(stored in \S+\) )?is (?:empty|corrupt)|inflate: data stream error"),
        "run `git fsck` for the broken objects and fetch them again from another clone, then retry",
    ),
)
"""What git says where it fails until someone changes the repository, and what to do."""
_SYSTEM_ERRORS = (
    errno.EIO,
    errno.ENOSPC,
    errno.EDQUOT,
    errno.ENOMEM,
    errno.EAGAIN,
    errno.EMFILE,
    errno.ENFILE,
    errno.ESTALE,
)
_PREFIX = re.compile(r"^(fatal|error): ")


def is_lock_error(stderr: bytes) -> bool:
    """Return whether the command failed because another process held a lock."""
    return _LOCKED.search(stderr) is not None


def is_system_error(stderr: bytes) -> bool:
    """Return whether reading, writing or allocating memory failed, judged by the system's messages in the C locale."""
    return any(os.strerror(number).encode() in stderr for number in _SYSTEM_ERRORS)


def git_failure(args: tuple[str, ...], cwd: Path, finished: CommandResult) -> GitError:
    """Return the error for a git command that ended with an unexpected result."""
    stderr = finished.stderr.decode(errors="replace").strip()
    if lock := _LOCKED.search(finished.stderr):
        return _lock_failure(f"`{_command_text(args)}` in {cwd}", lock["file"])
    if filtered := _FILTERED.search(stderr):
        name = filtered["name"]
        fix = f"only git-lfs may run; unset `filter={name}` for that path, or `git config filter.{name}.required false`"
        if name == "lfs":
            fix = (
                "install git-lfs, remove `lfs.extension` and `lfs.customtransfer` from its config, then `git lfs pull`"
            )
        path = _PREFIX.sub("", filtered["path"])
        return GitError(f"{path} in {cwd} needs the filter `{name}`, which failed or is not trusted", fix)
    if _ABSENT.search(stderr):
        return PermanentGitError(
            f"`{_command_text(args)}` needs objects that are missing in {cwd}: it is a partial clone",
            "fetch them: `git fetch --refetch --no-filter origin`",
        )
    if full := _FULL.search(stderr):
        return GitError(f"`{_command_text(args)}` in {cwd}: {full[0].lower()}", "free some space, then retry")
    lines = stderr.splitlines()
    reasons = [line for line in lines if line.startswith(("fatal:", "error:"))] or lines
    reason = " | ".join(reasons[-5:]) or "no error output"
    said = f"`{_command_text(args)}` in {cwd} {_describe_ending(finished)}: {reason}"
    if permanent := next((fix for pattern, fix in _PERMANENT if pattern.search(stderr)), None):
        return PermanentGitError(said, permanent)
    return GitError(said, "run the command in that directory to see more, fix the cause, then retry")


def _lock_failure(command: str, file: bytes | None) -> GitError:
    # The lock is never removed: its owner is unknown and may still be running.
    if file is None:
        return GitError(f"{command}: git's config is locked", "another process is changing it; wait and retry")
    held = Path(os.fsdecode(file))
    return GitError(
        f"{command}: the lock {held} exists{_lock_age(held)}",
        f"if no git command is running in that repository, `rm '{held}'`; then retry",
    )


def _lock_age(path: Path) -> str:
    try:
        made = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    except OSError:
        return ""
    return f", created {max(0, int((SystemClock().now() - made).total_seconds()))} s ago"


def _command_text(args: tuple[str, ...]) -> str:
    return " ".join(("git", *args))[:200]


def _describe_ending(finished: CommandResult) -> str:
    if finished.timed_out:
        return f"timed out after {finished.duration_s:.0f} s"
    if finished.signal is not None:
        return f"was killed by signal {finished.signal}"
    return f"failed with exit code {finished.exit_code}" if finished.exit_code else "produced too much output"


class ObjectsCollected(GitError):
    """`git gc` deleted new objects before a ref pointed to them; they must be created again."""


def objects_collected(commit: Commit) -> ObjectsCollected:
    """Return the error for a new commit whose objects are gone."""
    return ObjectsCollected(f"objects of {commit} were deleted by `git gc` as they were made", "let it finish, retry")
