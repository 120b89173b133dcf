"""The level of macOS: a profile for its sandbox, in its own language, and how `sandbox-exec` is started with it.

Nothing is allowed but what is named, and of two rules that fit the later one counts. Rules go by path, so whatever
could put a file at another path is refused as well: of the folders that lead to something sealed, hidden or writable
none can be made, moved or removed. Refusals fit in small and capital letters, as the file systems there do; a
character that might be written in two ways fits any.

There is no network but the one port of our proxy: a loopback of one's own is unknown there, and the one of the machine
has the user's servers on it. The keychain, other applications and the clipboard are out of reach, as their services
are not named. Follows what the sandboxes of browsers and of other agents are known to need; it can only be tried on
macOS itself.
"""

import re
import string
from collections.abc import Iterator, Sequence
from pathlib import Path

from scaffold.host.sandbox.confinement import Confinement

PROGRAM = "/usr/bin/sandbox-exec"
"""By its full path: who can change PATH must not choose the sandbox."""
CLOSED = tuple(map(Path, ("/private/tmp", "/private/var/tmp", "/private/var/folders", "/private/var/run")))
"""What other programs leave for each other."""

_MEANINGS = (
    ("allow", "file-read* file-write*"),
    ("deny", "file-read-data file-read-xattr file-write*"),
    ("allow", "file-read*"),
)
"""Of what is writable, hidden and shown."""
_PLAIN = frozenset(string.ascii_letters + string.digits + "/_- ")
_STRETCH = re.compile(r"(?:\.\+?)*\.\+(?:\.\+?)*")
"""What comes of neighbours of which at least one is no ASCII character."""
MOST_STRETCHES = 4
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
    """Return what to start so that `command` runs confined."""
    return (PROGRAM, "-p", profile(confinement, proxy_port), "--", *command)


def profile(confinement: Confinement, proxy_port: int | None = None) -> str:
    """Return the profile; `proxy_port` is where our proxy listens on the loopback of this machine, None: nowhere.

    ValueError for a path with a null character, which no file has.
    """
    return "\n".join(_lines(confinement, proxy_port)) + "\n"


def _lines(confinement: Confinement, proxy_port: int | None) -> Iterator[str]:
    writable = (*confinement.writable, confinement.temporary)
    yield _PREAMBLE
    yield from _reach(confinement, writable)
    yield from (_rule("deny", "file-write*", path) for path in confinement.sealed)
    yield from _fixed((*confinement.sealed, *confinement.hidden, *writable), writable)
    yield _TERMINALS
    if confinement.network == "open":
        yield _NETWORK
    if proxy_port is not None:
        yield f'(allow network-outbound (remote ip "localhost:{proxy_port:d}"))'


def _reach(confinement: Confinement, writable: Sequence[Path]) -> Iterator[str]:
    """Yield what can be read and written; of two paths the deeper one comes later and counts."""
    marks = (
        *((path, 0) for path in writable),
        *((path, 1) for path in (*CLOSED, *confinement.hidden) if path not in writable),
        *((path, 2) for path in confinement.shown),
    )
    for path, kind in sorted(marks, key=lambda mark: (len(mark[0].parts), mark[1])):
        yield _rule(*_MEANINGS[kind], path)


def _rule(verdict: str, operations: str, path: Path) -> str:
    """Return a rule for a path and what lies below it."""
    filters = f"(subpath {_quoted(path)})"
    if verdict == "deny":
        filters += f' (regex #"^{_in_any_case(path)}(/|$)")'
    return f"({verdict} {operations} {filters})"


def _fixed(paths: Sequence[Path], writable: Sequence[Path]) -> Iterator[str]:
    """Yield rules that keep in place the writable folders and what leads from them to `paths`."""
    ways = {folder for path in paths for folder in path.parents} | set(writable)
    for way in sorted(way for way in ways if any(way.is_relative_to(folder) for folder in writable)):
        yield f'(deny file-write-create file-write-unlink (literal {_quoted(way)}) (regex #"^{_in_any_case(way)}$"))'


def _quoted(path: Path) -> str:
    """Return a path as a string of the profile's language, which nothing in it can end."""
    text = str(path)
    if "\0" in text:
        raise ValueError(f"a null character in {text!r}")
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r") + '"'


def _in_any_case(path: Path) -> str:
    """Return a regular expression for a path, of letters, digits, brackets, `.+` and little else.

    It may fit more than the path, so it is for refusals only. There are few `.+` in it: whoever tries them in turn
    takes longer with each.
    """
    told = _STRETCH.sub(".+", "".join(map(_character, str(path))))
    first, *more = told.split(".+")
    return ".+".join([first, *more[: MOST_STRETCHES - 1], ""]) if len(more) > MOST_STRETCHES else told


def _character(character: str) -> str:
    if character not in _PLAIN:
        return "." if character.isascii() else ".+"
    return f"[{character.lower()}{character.upper()}]" if character.isalpha() else character
