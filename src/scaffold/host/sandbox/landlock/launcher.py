"""Restrict this process with Landlock and become a command: `main([KIND:VALUE..., "--", COMMAND...])`.

KIND is the kind of a path: `writable`, `sealed` (read-only), `hidden` or `shown` (readable). The deeper of two paths
decides, but nothing below a sealed one is writable. Other paths are readable. `filter:HEX` is a seccomp program, may be
repeated; `notify:HEX` is one that stops the calls which the broker answers. `network:open` leaves the network
unrestricted. The command replaces us (exec); if it needs a broker, it becomes our child and we the broker. It has no
capabilities and none of our descriptors. Exit code 126 if the sandbox could not be set up, 127 if the command was not
found. This must start fast, so it imports little. `command.py` describes what this sandbox does and does not restrict.
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


def main(words: list[str]) -> None:
    """Enter the domain described before `--` and become the command after it."""
    border = words.index("--")
    marks, filters, notifying = parse_arguments([word for word in words[:border] if word != OPEN_NETWORK])
    command = words[border + 1 :]
    try:
        kernel = RawSyscalls()
        kernel.drop_capabilities()
        held = _identities(marks)
        domain = LandlockDomain(kernel, held, open_network=OPEN_NETWORK in words[:border])
        top = path_tree(marks)
        broker = prepare_broker(kernel, marks, held, domain) if notifying else None
        connection = broker.fork_command() if broker else None
        domain.enter(access_rules(top, names_in))
        # After `enter`: without capabilities the kernel accepts a filter only from a process with no_new_privs.
        for program in filters:
            kernel.ask(program)
        kernel.restore_signals()
        if broker and connection:
            broker.stop_calls(notifying, connection)
    except OSError as error:
        _end(126, f"the sandbox could not be set up: {error}")
    # Landlock checks the opening of a file. A descriptor that is open already keeps all its rights.
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    try:
        os.execvp(command[0], command)  # noqa: S606 - no shell is wanted here
    except OSError as error:
        _end(127 if isinstance(error, FileNotFoundError) else 126, f"{error.strerror}: {command[0]}")


def parse_arguments(words: list[str]) -> tuple[PathMarks, list[bytes], bytes]:
    """Return the marked paths, the seccomp programs, and the one that notifies; empty: none.

    Sealed and hidden paths are returned also with symlinks resolved. Symlinks of paths that grant rights are not
    resolved: an earlier command may have planted them.
    """
    marks: PathMarks = {}
    filters = []
    notifying = b""
    for word in words:
        kind, _, value = word.partition(":")
        if kind == "filter":
            filters.append(bytes.fromhex(value))
            continue
        if kind == "notify":
            notifying = bytes.fromhex(value)
            continue
        marks.setdefault(os.path.normpath(value), set()).add(kind)
        if kind in RESTRICTING:
            marks.setdefault(os.path.realpath(value), set()).add(kind)
    return marks, filters, notifying


def _identities(marks: PathMarks) -> dict[tuple[int, int], set[str]]:
    """Return the marks of sealed and hidden files by device and inode: a file may have several names."""
    found: dict[tuple[int, int], set[str]] = {}
    for path, kinds in marks.items():
        if kinds & RESTRICTING and "shown" not in kinds and os.path.lexists(path):
            about = os.lstat(path)
            found.setdefault((about.st_dev, about.st_ino), set()).update(kinds)
    return found


def _end(code: int, reason: str) -> None:
    os.write(2, f"{reason}\n".encode(errors="surrogateescape"))
    os._exit(code)
