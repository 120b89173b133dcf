"""What git says when it fails, in words that tell a user what to do."""

import os
import re
from datetime import UTC, datetime
from pathlib import Path

from scaffold.core.errors import GitFailed
from scaffold.host.clock import SystemClock
from scaffold.host.process import Finished

FIX = "run the command by hand in that directory to see more, mend what it names, then try again"

_LOCKED = re.compile(rb"(?:'(?P<file>[^'\n]+\.lock)': File exists)|could not lock config file")
_FILTERED = re.compile(r"(?P<path>[^\n]+): (?:clean|smudge) filter '?(?P<name>[^'\n]+?)'? failed")
_ABSENT = re.compile(r"transport '[^']*' not allowed|promisor remote|lazy fetching disabled")
_FULL = re.compile(r"No space left on device|Disk quota exceeded")
_PREFIX = re.compile(r"^(fatal|error): ")


def locked(stderr: bytes) -> bool:
    """Return whether somebody else's lock was in the way."""
    return _LOCKED.search(stderr) is not None


def explain(args: tuple[str, ...], cwd: Path, finished: Finished) -> GitFailed:
    """Return the error for a git command that ended in a way nobody expected."""
    said = finished.stderr.decode(errors="replace").strip()
    if held := _LOCKED.search(finished.stderr):
        return _held(held["file"], f"`{_command(args)}` in {cwd}")
    if unrun := _FILTERED.search(said):
        return _unrun(_PREFIX.sub("", unrun["path"]), unrun["name"], cwd)
    if _ABSENT.search(said):
        return GitFailed(
            f"`{_command(args)}` needs objects that {cwd} has not fetched: it is a partial clone",
            "fetch them first: `git config --unset-all remote.origin.partialclonefilter`, "
            "then `git fetch --refetch origin`",
        )
    if full := _FULL.search(said):
        return GitFailed(f"`{_command(args)}` in {cwd}: {full[0].lower()}", "free some space, then try again")
    lines = said.splitlines()
    reasons = [line for line in lines if line.startswith(("fatal:", "error:"))] or lines
    reason = " | ".join(reasons[-5:]) or "it gave no reason"
    return GitFailed(f"`{_command(args)}` in {cwd} {_ending(finished)}: {reason}", FIX)


def _held(file: bytes | None, command: str) -> GitFailed:
    """Name the lock and leave it: nothing tells who holds it and whether they live, so only a human may remove it."""
    if file is None:
        return GitFailed(f"{command}: git's settings are locked", "wait for whoever changes them, then try again")
    path = Path(os.fsdecode(file))
    return GitFailed(
        f"{command}: {path} is in the way{_age(path)}",
        f"if no git command runs in that repository any more, `rm '{path}'`; then try again",
    )


def _age(path: Path) -> str:
    try:
        made = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    except OSError:
        return ""
    return f", for {max(0, int((SystemClock().now() - made).total_seconds()))} s"


def _unrun(path: str, name: str, cwd: Path) -> GitFailed:
    if name == "lfs":
        fix = "install git-lfs, have it without `lfs.extension` and `lfs.customtransfer`, then `git lfs pull`"
    else:
        fix = f"only git-lfs is run; take `filter={name}` off that path, or `git config filter.{name}.required false`"
    return GitFailed(f"{path} in {cwd} needs the filter `{name}`, which could not be run or is not trusted", fix)


def _command(args: tuple[str, ...]) -> str:
    return " ".join(("git", *args))[:200]


def _ending(finished: Finished) -> str:
    if finished.timed_out:
        return f"took longer than {finished.duration_s:.0f} s"
    if finished.signal is not None:
        return f"was ended by signal {finished.signal}"
    return f"failed with exit code {finished.exit_code}" if finished.exit_code else "said too much to hold"
