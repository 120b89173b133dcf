"""The filter of system calls inside a sandbox: a classic BPF program, built here so that nothing need be installed.

It refuses what undoes a sandbox or reaches the kernel's rarely walked corners: new namespaces and mounts, modules,
keys, tracing of the kernel, io_uring (whose requests no filter sees), typing into a terminal, and kinds of sockets that
lead out of a network namespace. What is refused fails with EPERM; where a library knows an older way, with ENOSYS.
"""

import errno
import functools
import platform
import socket
from collections.abc import Iterator, Mapping

from msgspec import Struct

from scaffold.host.sandbox.bpf import ALLOW, ANY_OF, EQUAL, Step, answer, argument, assembled, on, refuse
from scaffold.host.sandbox.confinement import Reach

NEW_NAMESPACES = 0x7E020080
"""CLONE_NEWUSER, NEWNS, NEWPID, NEWNET, NEWIPC, NEWUTS, NEWCGROUP; NEWTIME lies among the exit signals of `clone`."""
NEW_TIME = 0x80
TERMINAL_INPUT = (0x5412, 0x541C)
"""TIOCSTI and TIOCLINUX: to type, and to paste, into the terminal."""
NETLINK, NETLINK_ROUTE = 16, 0
BORROWED_RIGHTS = 0o6000
"""S_ISUID and S_ISGID: who runs such a file of root's is root, outside as well."""
MAKES_A_FILE = 0o20000100
"""O_CREAT, and O_TMPFILE without O_DIRECTORY; without these the mode is whatever a register held."""


class Processor(Struct, frozen=True):
    """How Linux counts its calls on one kind of processor."""

    clone: int
    unshare: int
    ioctl: int
    socket: int
    modes: tuple[tuple[int, int], ...]
    """Calls that set a file's mode, and which of their arguments it is."""
    opening: tuple[tuple[int, int], ...]
    """Calls that may make a file, and which of their arguments the flags are; the mode comes after them."""
    refused: tuple[int, ...]
    """Answered with EPERM."""


UNKNOWN = (425, 426, 427, 435, 437)
"""io_uring, clone3 and openat2: no filter sees what they are given, so this kernel pretends to be older."""
YOUNG = (428, 429, 430, 431, 432, 433, 442, 443, 467)
"""open_tree, move_mount, fsopen, fsconfig, fsmount, fspick, mount_setattr, quotactl_fd, open_tree_attr."""

PROCESSORS: Mapping[str, Processor] = {
    "x86_64": Processor(
        clone=56,
        unshare=272,
        ioctl=16,
        socket=41,
        modes=((85, 1), (90, 1), (91, 1), (133, 1), (259, 2), (268, 2), (452, 2)),
        opening=((2, 1), (257, 2)),
        refused=(
            *(248, 249, 250),  # add_key, request_key, keyctl
            *(321, 298, 300, 323),  # bpf, perf_event_open, fanotify_init, userfaultfd
            *(246, 320, 169),  # kexec_load, kexec_file_load, reboot
            *(174, 175, 176, 313),  # create_module, init_module, delete_module, finit_module
            *(165, 166, 155, 161, 308),  # mount, umount2, pivot_root, chroot, setns
            *(167, 168, 179, 163, 180, 212),  # swapon, swapoff, quotactl, acct, nfsservctl, lookup_dcookie
            *(170, 171, 164, 227, 103, 153),  # sethostname, setdomainname, settimeofday, clock_settime, syslog, vhangup
            *(172, 173, 134, 304),  # iopl, ioperm, uselib, open_by_handle_at
            *YOUNG,
        ),
    ),
    "aarch64": Processor(
        clone=220,
        unshare=97,
        ioctl=29,
        socket=198,
        modes=((33, 2), (52, 1), (53, 2), (452, 2)),
        opening=((56, 2),),
        refused=(
            *(217, 218, 219),
            *(280, 241, 262, 282),
            *(104, 294, 142),
            *(105, 106, 273),
            *(40, 39, 41, 51, 268),
            *(224, 225, 60, 89, 42, 18),
            *(161, 162, 170, 112, 116, 58),
            265,
            *YOUNG,
        ),
    ),
}


def is_known(machine: str = "") -> bool:
    """Return whether there is a filter for this processor, or for the one named."""
    return (machine or platform.machine()) in PROCESSORS


@functools.cache
def program(network: Reach, machine: str = "") -> bytes:
    """Return the filter as an array of `struct sock_filter`; `none` refuses sockets of the internet too.

    KeyError for a processor that is not known.
    """
    machine = machine or platform.machine()
    return assembled(machine, _judged(PROCESSORS[machine], network))


def _judged(processor: Processor, network: Reach) -> Iterator[Step]:
    for number in UNKNOWN:
        yield from ((EQUAL, 0, 1, number), refuse(errno.ENOSYS))
    for number in processor.refused:
        yield from ((EQUAL, 0, 1, number), refuse())
    yield from on(processor.clone, (argument(0), (ANY_OF, 0, 1, NEW_NAMESPACES & ~NEW_TIME), refuse()))
    yield from on(processor.unshare, (argument(0), (ANY_OF, 0, 1, NEW_NAMESPACES), refuse()))
    for number, mode in processor.modes:
        yield from on(number, _borrowing(mode))
    for number, flags in processor.opening:
        borrowing = _borrowing(flags + 1)
        yield from on(number, (argument(flags), (ANY_OF, 0, len(borrowing), MAKES_A_FILE), *borrowing))
    yield from on(processor.ioctl, _typing())
    yield from on(processor.socket, _sockets(network))


def _borrowing(mode: int) -> tuple[Step, ...]:
    """Refuse a mode that has whoever runs the file be its owner or group."""
    return (argument(mode), (ANY_OF, 0, 1, BORROWED_RIGHTS), refuse())


def _typing() -> tuple[Step, ...]:
    tests = [part for request in TERMINAL_INPUT for part in ((EQUAL, 0, 1, request), refuse())]
    return (argument(1), *tests)


def _sockets(network: Reach) -> tuple[Step, ...]:
    """Allow Unix sockets, those of the internet if there is a network, and asking the kernel for its interfaces."""
    internet = () if network == "none" else (socket.AF_INET.value, socket.AF_INET6.value)
    families = [part for family in (socket.AF_UNIX.value, *internet) for part in ((EQUAL, 0, 1, family), answer(ALLOW))]
    route = (argument(2), (EQUAL, 0, 1, NETLINK_ROUTE), answer(ALLOW), refuse())
    return (argument(0), *families, (EQUAL, 0, len(route), NETLINK), *route, refuse())
