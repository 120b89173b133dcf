"""The macOS sandbox: a profile in its language and the `sandbox-exec` command line.

Everything not allowed is denied, and the last matching rule decides. Rules match paths, so operations that could move a
file to another path are denied too: the folders above a protected, hidden or writable path cannot be created, moved or
removed. Deny rules ignore case, as macOS file systems do; a character with several spellings matches any character.

The only network is our proxy's port and other ports of ours: macOS has no private loopback, and the machine's has the
user's servers. The keychain, other applications and the clipboard are unreachable because their services are not
listed. The profile follows the known needs of browsers' and other agents' sandboxes; it can only be tested on macOS.
"""

import re
import string
from collections.abc import Iterator, Sequence
from pathlib import Path

from scaffold.host.sandbox.confinement import Confinement

PROGRAM = "/usr/bin/sandbox-exec"
"""An absolute path, so that PATH cannot choose another program."""
HIDDEN_SYSTEM_FOLDERS = tuple(
    map(Path, ("/private/tmp", "/private/var/tmp", "/private/var/folders", "/private/var/run"))
)
"""Other programs exchange files there."""

_OPERATIONS = (
    ("allow", "file-read* file-write*"),
    ("deny", "file-read-data file-read-xattr file-write*"),
    ("allow", "file-read*"),
)
"""Rules for writable, hidden and readable paths, in this order."""
_PLAIN = frozenset(string.ascii_letters + string.digits + "/_- ")
_WILDCARDS = re.compile(r"(?:\.\+?)*\.\+(?:\.\+?)*")
"""Adjacent wildcards, at least one from a non-ASCII character; merged into one `.+`."""
MAX_WILDCARDS = 4
_PREAMBLE = """\
(version 1)
(deny default)
(deny process-info* nvram*)
(allow process-exec process-fork)
(allow process-info* signal mach-priv-task-port (target same-sandbox))
(allow ipc-posix-sem)
(allow ipc-posix-shm-read-data (ipc-posix-name "apple.shm.notification_center"))
(allow user-preference-read)
(allow iokit-open (iokit-registry-entry-class "RootDomainUserClient"))
(allow mach-lookup
  (global-name "com.apple.bsd.dirhelper")
  (global-name "com.apple.logd")
  (global-name "com.apple.PowerManagement.control")
  (global-name "com.apple.system.logger")
  (global-name "com.apple.system.notification_center")
  (global-name "com.apple.system.opendirectoryd.libinfo")
  (global-name "com.apple.system.opendirectoryd.membership")
  (global-name "com.apple.trustd.agent"))
(allow sysctl-read
  (sysctl-name-prefix "hw.")
  (sysctl-name-prefix "machdep.")
  (sysctl-name-prefix "vm.")
  (sysctl-name "kern.argmax")
  (sysctl-name "kern.boottime")
  (sysctl-name "kern.hostname")
  (sysctl-name "kern.maxfiles")
  (sysctl-name "kern.maxfilesperproc")
  (sysctl-name "kern.maxproc")
  (sysctl-name "kern.ngroups")
  (sysctl-name "kern.osproductversion")
  (sysctl-name "kern.osrelease")
  (sysctl-name "kern.ostype")
  (sysctl-name "kern.osvariant_status")
  (sysctl-name "kern.osversion")
  (sysctl-name "kern.secure_kernel")
  (sysctl-name "kern.usrstack64")
  (sysctl-name "kern.version")
  (sysctl-name "security.mac.lockdown_mode_state")
  (sysctl-name "sysctl.proc_cputype"))
(allow file-read*)
(deny file-read-data file-read-xattr (regex #"^/dev/(r?disk|tty|mem|kmem)"))"""
_TERMINALS = """\
(allow pseudo-tty)
(allow file-read* file-write* file-ioctl (literal "/dev/ptmx"))
(allow file-read* file-write* file-ioctl
  (require-all (regex #"^/dev/ttys[0-9]+") (extension "com.apple.sandbox.pty")))
(allow file-ioctl file-read-data file-write-data
  (literal "/dev/null") (literal "/dev/zero") (literal "/dev/random") (literal "/dev/urandom")
  (literal "/dev/dtracehelper"))"""

_NETWORK = """\
(allow system-socket)
(allow network-outbound (remote ip "*:*") (literal "/private/var/run/mDNSResponder"))
(allow network-bind network-inbound (local ip "localhost:*"))"""


def argv(confinement: Confinement, command: Sequence[str], proxy_port: int | None = None) -> tuple[str, ...]:
    """Return the command line that runs `command` confined."""
    return (PROGRAM, "-p", profile(confinement, proxy_port), "--", *command)


def profile(confinement: Confinement, proxy_port: int | None = None) -> str:
    """Return the profile; `proxy_port` is our proxy's port on this machine's loopback, None: no proxy.

    ValueError for a path with a NUL character.
    """
    return "\n".join(_profile_lines(confinement, proxy_port)) + "\n"


def _profile_lines(confinement: Confinement, proxy_port: int | None) -> Iterator[str]:
    writable = (*confinement.writable, confinement.temporary)
    yield _PREAMBLE
    marks = (
        *((path, 0) for path in writable),
        *((path, 1) for path in (*HIDDEN_SYSTEM_FOLDERS, *confinement.hidden) if path not in writable),
        *((path, 2) for path in confinement.readable),
    )
    # Deeper paths come later, so they decide.
    for path, kind in sorted(marks, key=lambda mark: (len(mark[0].parts), mark[1])):
        yield _path_rule(*_OPERATIONS[kind], path)
    yield from (_path_rule("deny", "file-write*", path) for path in confinement.protected)
    # The writable folders, and those between them and a path in them, have to stay in place.
    kept = (*confinement.protected, *confinement.hidden, *writable)
    parents = {folder for path in kept for folder in path.parents} | set(writable)
    for each in sorted(each for each in parents if any(each.is_relative_to(folder) for folder in writable)):
        named = f'(literal {_quote_path(each)}) (regex #"^{_in_any_case(each)}$")'
        yield f"(deny file-write-create file-write-unlink {named})"
    yield _TERMINALS
    if confinement.network == "open":
        yield _NETWORK
    for port in (*confinement.ports, *([] if proxy_port is None else [proxy_port])):
        yield f'(allow network-outbound (remote ip "localhost:{port:d}"))'


def _path_rule(verdict: str, operations: str, path: Path) -> str:
    filters = f"(subpath {_quote_path(path)})"
    if verdict == "deny":
        filters += f' (regex #"^{_in_any_case(path)}(/|$)")'
    return f"({verdict} {operations} {filters})"


def _quote_path(path: Path) -> str:
    text = str(path)
    if "\0" in text:
        raise ValueError(f"NUL character in path {text!r}")
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r") + '"'


def _in_any_case(path: Path) -> str:
    """Return a case-insensitive regular expression for a path.

    It may match more than the path, so use it in deny rules only. The number of `.+` is limited, because each one
    multiplies the matching time.
    """
    pattern = _WILDCARDS.sub(".+", "".join(map(_regex_character, str(path))))
    first, *more = pattern.split(".+")
    return ".+".join([first, *more[: MAX_WILDCARDS - 1], ""]) if len(more) > MAX_WILDCARDS else pattern


def _regex_character(character: str) -> str:
    if character not in _PLAIN:
        return "." if character.isascii() else ".+"
    return f"[{character.lower()}{character.upper()}]" if character.isalpha() else character
