"""What to do when a sandboxed command failed with an error that the sandbox causes: a line for the agent."""

import errno
import os
import re
import signal
from collections.abc import Sequence
from typing import assert_never

from scaffold.host.process.command_runner import CommandResult
from scaffold.host.sandbox.confinement import SandboxSpec
from scaffold.policy.secret.home import SHOW, hidden_path

NO_NAME = (
    *("temporary failure in name resolution", "could not resolve host", "name or service not known"),
    *("getaddrinfo eai_again", "getaddrinfo enotfound", "no such host", "unknownhostexception"),
    "temporary failure resolving",
)
"""How programs report a name that they cannot look up: the C library, curl, Node.js, Go, Java, apt; in lower case."""
UNREACHABLE = (errno.ENETUNREACH, errno.EHOSTUNREACH)
DENIED = (errno.EACCES, errno.EPERM)


def sandbox_notice(finished: CommandResult, output: str, sandbox: SandboxSpec | None, *, command: str) -> str:
    """Return a line with the likely reason and the way out; empty if the sandbox is not a likely reason."""
    if sandbox is None or finished.exit_code == 0:
        return ""
    if finished.signal == signal.SIGSYS:
        return "notice: the sandbox forbids a system call that it made; tell the user, who can run it outside"
    if hidden := hidden_path(f"{command}\n{output}", sandbox.confinement):
        return f"notice: {SHOW.format(hidden)}"
    zone, output = sandbox.confinement, output.casefold()
    if zone.network != "open" and (any(text in output for text in NO_NAME) or _reports_error(output, UNREACHABLE)):
        return f"notice: {_writable_text(sandbox)}; work without it, or tell the user, who can allow hosts: {_ALLOW}"
    if _reports_error(output, [errno.EROFS]) or (sandbox.level == "landlock" and _reports_error(output, DENIED)):
        return (
            "notice: in the sandbox only the workspace and $TMPDIR are writable, and .git is not; write there, or tell "
            "the user, who can run it outside"
        )
    return ""


def _reports_error(output: str, errors: Sequence[int]) -> bool:
    # Programs print the system's text, translated or not, or the error's name.
    names = "|".join(errno.errorcode[number].casefold() for number in errors)
    named = re.search(rf"\b(?:{names})\b", output) is not None
    return named or any(os.strerror(number).casefold() in output for number in errors)


_ALLOW = "`scaffold config sandbox.network hosts`, `scaffold config sandbox.hosts NAME`"


def _writable_text(sandbox: SandboxSpec) -> str:
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
