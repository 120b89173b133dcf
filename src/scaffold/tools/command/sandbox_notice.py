"""What to do when a sandboxed command failed with an error that the sandbox causes: a line for the agent."""

import errno
import os
import signal
from typing import assert_never

from scaffold.host.process.command import CommandResult
from scaffold.host.sandbox.confinement import SandboxSpec

NO_NAME = ("Temporary failure in name resolution", "Could not resolve host", "Name or service not known")
"""How programs report a name that they cannot look up: texts of the C library and of curl."""
UNREACHABLE = tuple(map(os.strerror, (errno.ENETUNREACH, errno.EHOSTUNREACH)))
DENIED = tuple(map(os.strerror, (errno.EACCES, errno.EPERM)))


def sandbox_notice(finished: CommandResult, output: str, sandbox: SandboxSpec | None) -> str:
    """Return a line with the likely reason and the way out; empty if the sandbox is no likely reason."""
    if sandbox is None or finished.exit_code == 0:
        return ""
    if finished.signal == signal.SIGSYS:
        return "notice: the sandbox forbids a system call that it made; tell the user, who can run it outside"
    zone = sandbox.confinement
    if zone.network != "open" and any(text in output for text in (*NO_NAME, *UNREACHABLE)):
        return f"notice: {_reachable(sandbox)}; work without it, or tell the user, who can allow hosts: {_ALLOW}"
    if os.strerror(errno.EROFS) in output or (sandbox.level == "landlock" and any(text in output for text in DENIED)):
        return (
            "notice: in the sandbox only the workspace and $TMPDIR are writable, and .git is not; write there, or tell "
            "the user, who can run it outside"
        )
    return ""


_ALLOW = "`scaffold config sandbox.network hosts`, `scaffold config sandbox.hosts NAME`"


def _reachable(sandbox: SandboxSpec) -> str:
    zone = sandbox.confinement
    match zone.network:
        case "none" | "loopback":
            return "the sandbox has no network"
        case "hosts":
            return f"from the sandbox only {', '.join(zone.hosts) or 'nothing'} can be reached"
        case "open":
            return "the sandbox has the whole network"
        case _:
            assert_never(zone.network)
