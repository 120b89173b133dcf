"""Restrict this process with Landlock and become a command: `main([KIND:VALUE..., "--", COMMAND...])`.

KIND is the kind of a path: `writable`, `sealed` (read-only), `hidden` or `shown` (readable). The deeper of two paths
decides, but nothing below a sealed one is writable. Other paths are readable. `filter:HEX` is a seccomp program, may be
repeated; `notify:HEX` is one that stops the calls which the broker answers, which needs `temporary:PATH`, the command's
TMPDIR; `alone:HEX` is used if there can be no broker. `port:NUMBER` is one of this machine's loopback that the broker
connects to; `network:open` leaves the network unrestricted. The command replaces us (exec); if it has a broker, it
becomes our child and we the broker. It has no capabilities and none of our descriptors. Exit code 126 if the sandbox
could not be set up, 127 if the command was not found. This must start fast, so it imports little.
`sandboxed_command.py` describes what it restricts.
"""

import os

from scaffold.host.sandbox.landlock.broker import prepare_broker
from scaffold.host.sandbox.landlock.domain import (
    LandlockDomain,
    PathMarks,
    RawSyscalls,
    access_rules,
    names_in,
    path_tree,
)

RESTRICTING = {"sealed", "hidden"}
OPEN_NETWORK = "network:open"


class Arguments:
    """What the words before `--` describe.

    Sealed and hidden paths are marked also with symlinks resolved. Symlinks of paths that grant rights are not
    resolved: an earlier command may have planted them.
    """

    def __init__(self, words: list[str]) -> None:
        self.marks: PathMarks = {}
        self.filters: list[bytes] = []
        self.alone: list[bytes] = []
        self.notifying = b""
        self.temporary = ""
        self.ports: list[int] = []
        self.open_network = False
        for word in words:
            kind, _, value = word.partition(":")
            match kind:
                case "filter":
                    self.filters.append(bytes.fromhex(value))
                case "alone":
                    self.alone.append(bytes.fromhex(value))
                case "notify":
                    self.notifying = bytes.fromhex(value)
                case "temporary":
                    self.temporary = value
                case "port":
                    self.ports.append(int(value))
                case "network":
                    self.open_network = True
                case _:
                    self.marks.setdefault(os.path.normpath(value), set()).add(kind)
                    if kind in RESTRICTING:
                        self.marks.setdefault(os.path.realpath(value), set()).add(kind)


def main(words: list[str]) -> None:
    """Enter the domain described before `--` and become the command after it."""
    border = words.index("--")
    given = Arguments(words[:border])
    command = words[border + 1 :]
    try:
        kernel = RawSyscalls()
        kernel.drop_capabilities()
        # By device and inode, since a file may have several names.
        held: dict[tuple[int, int], set[str]] = {}
        for path, kinds in given.marks.items():
            if kinds & RESTRICTING and "shown" not in kinds and os.path.lexists(path):
                about = os.lstat(path)
                held.setdefault((about.st_dev, about.st_ino), set()).update(kinds)
        domain = LandlockDomain(kernel, held, open_network=given.open_network)
        broker = (
            prepare_broker(kernel, given.marks, held, domain, given.temporary, given.ports) if given.notifying else None
        )
        connection = broker.fork_command() if broker else None
        domain.enter(access_rules(path_tree(given.marks), names_in))
        # After `enter`: without capabilities the kernel accepts a filter only from a process with no_new_privs.
        for program in given.filters:
            kernel.ask(program)
        kernel.restore_signals()
        has_broker = broker is not None and connection is not None and broker.stop_calls(given.notifying, connection)
        for program in () if has_broker else given.alone:
            kernel.ask(program)
    except OSError as error:
        _end_with(126, f"the sandbox could not be set up: {error}")
    # Landlock checks the opening of a file. A descriptor that is open already keeps all its rights.
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    try:
        os.execvp(command[0], command)  # noqa: S606 - no shell is wanted here
    except OSError as error:
        _end_with(127 if isinstance(error, FileNotFoundError) else 126, f"{error.strerror}: {command[0]}")


def _end_with(code: int, reason: str) -> None:
    os.write(2, f"{reason}\n".encode(errors="surrogateescape"))
    os._exit(code)
