"""Explain failed tests by the sandbox, from the errors of the operating system that they raised.

The recorder inside the runner reports errors without their texts. Whether the sandbox is the cause follows from the
error's number, its path, and what the sandbox allows.
"""

import errno
import os
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from scaffold.core.printable_text import count_of, join_limited, printable, utf8_safe
from scaffold.host.sandbox.confinement import Confinement
from scaffold.verify.gates.reports.runner_result import OsFailure

DENIED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
MISSING = frozenset({errno.ENOENT, errno.ENOTDIR})
UNREACHABLE = frozenset({errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN})
SYSTEM_TEMPORARY = tuple(map(Path, ("/tmp", "/var/tmp", "/run")))  # noqa: S108 - compared only
MAX_NAMED = 3


def sandbox_refusals(
    raised: Mapping[str, Iterable[OsFailure]], zone: Confinement, cwd: Path, *, failed: Collection[str]
) -> dict[str, str]:
    """Return {test: what the sandbox forbids} for the failed tests that it explains, sorted by name."""
    found = {}
    for name in sorted(raised.keys() & frozenset(failed)):
        reasons = (refusal_reason(error, zone, cwd) for error in raised[name])
        reason = next(filter(None, reasons), None)
        if reason:
            found[name] = utf8_safe(printable(reason))
    return found


def describe_refused(refused: Mapping[str, str]) -> str:
    """Return the tests that cannot be checked here in one line: `2 tests not checkable here: NAME (REASON), ...`."""
    named = [f"{name} ({reason})" for name, reason in refused.items()]
    return f"{count_of(len(named), 'test')} not checkable here: {join_limited(named, MAX_NAMED)}"


def refusal_reason(error: OsFailure, zone: Confinement, cwd: Path) -> str | None:
    """Return the restriction of the sandbox that led to the error; None if the sandbox allows the access."""
    if error.resolving or (error.path is None and error.number in UNREACHABLE):
        return None if zone.network == "open" else f"the sandbox's network is {zone.network}"
    if error.path is None:
        name = errno.errorcode.get(error.number, "")
        return f"a system call was refused in the sandbox ({name})" if error.number in DENIED else None
    path = Path(os.path.normpath(cwd / error.path))
    # Links in the folders above lead to the place that the sandbox judges.
    path = Path(os.path.realpath(path.parent)) / path.name
    # No sandbox decides access to these.
    if _is_below(path, (Path("/proc"), Path("/sys"))):
        return None
    is_writable = _is_below(path, (*zone.writable, zone.temporary))
    may_write = is_writable and not _is_below(path, (*zone.protected, *zone.hidden))
    if error.number in DENIED and not may_write and _denied_only_inside(error.number, path, zone):
        return f"the sandbox forbids access to {path}"
    if error.number in MISSING and _is_hidden(path, zone) and os.path.lexists(path):
        return f"the sandbox hides {path}"
    return None


def _denied_only_inside(number: int, path: Path, zone: Confinement) -> bool:
    if number == errno.EROFS:
        return True
    if _is_hidden(path, zone) and os.access(path, os.R_OK):
        return True
    existing = next(each for each in (path, *path.parents) if os.path.lexists(each))
    return os.access(existing, os.W_OK)


def _is_hidden(path: Path, zone: Confinement) -> bool:
    system = _is_below(path, SYSTEM_TEMPORARY) and not _is_below(path, (*zone.writable, zone.temporary))
    return (system or _is_below(path, zone.hidden)) and not _is_below(path, zone.readable)


def _is_below(path: Path, folders: Iterable[Path]) -> bool:
    return any(path.is_relative_to(folder) for folder in folders)
