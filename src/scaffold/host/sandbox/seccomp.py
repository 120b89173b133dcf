"""The filter of system calls inside a sandbox: a classic BPF program, built here so that nothing need be installed.

It refuses what undoes a sandbox or reaches the kernel's rarely walked corners: new namespaces and mounts, modules,
keys, tracing of the kernel, io_uring (whose requests no filter sees), typing into a terminal, and kinds of sockets that
lead out of a network namespace. What is refused fails with EPERM; where a library knows an older way, with ENOSYS.
"""

import errno
import functools
import platform
import socket
import struct
from collections.abc import Iterator, Mapping

from msgspec import Struct

from scaffold.core.model import Network

LOAD, EQUAL, ANY_OF, RETURN = 0x20, 0x15, 0x45, 0x06
"""Operations on the one register: of a 32-bit word of the call, or of a constant."""
NUMBER, ARCHITECTURE = 0, 4
ALLOW, KILL, REFUSE = 0x7FFF0000, 0x80000000, 0x00050000
NEW_NAMESPACES = 0x7E020080
"""CLONE_NEWUSER, NEWNS, NEWPID, NEWNET, NEWIPC, NEWUTS, NEWCGROUP; NEWTIME lies among the exit signals of `clone`."""
NEW_TIME = 0x80
TERMINAL_INPUT = (0x5412, 0x541C)
"""TIOCSTI and TIOCLINUX: to type, and to paste, into the terminal."""
NETLINK, NETLINK_ROUTE = 16, 0
X32 = 0x40000000
BORROWED_RIGHTS = 0o6000
"""S_ISUID and S_ISGID: who runs such a file of root's is root, outside as well."""
MAKES_A_FILE = 0o20000100
"""O_CREAT, and O_TMPFILE without O_DIRECTORY; without these the mode is whatever a register held."""


class Processor(Struct, frozen=True):
    """How Linux counts its calls on one kind of processor."""

    architecture: int
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
    has_x32: bool = False


UNKNOWN = (425, 426, 427, 435, 437)
"""io_uring, clone3 and openat2: no filter sees what they are given, so this kernel pretends to be older."""
YOUNG = (428, 429, 430, 431, 432, 433, 442, 443, 467)
"""open_tree, move_mount, fsopen, fsconfig, fsmount, fspick, mount_setattr, quotactl_fd, open_tree_attr."""

PROCESSORS: Mapping[str, Processor] = {
    "x86_64": Processor(
        architecture=0xC000003E,
        clone=56,
        unshare=272,
        ioctl=16,
        socket=41,
        has_x32=True,
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
        architecture=0xC00000B7,
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

_Instruction = tuple[int, int, int, int]
"""Operation, how far to jump if it holds and if not, constant."""


def is_known(machine: str = "") -> bool:
    """Return whether there is a filter for this processor, or for the one named."""
    return (machine or platform.machine()) in PROCESSORS


@functools.cache
def program(network: Network, machine: str = "") -> bytes:
    """Return the filter as an array of `struct sock_filter`; `none` refuses sockets of the internet too.

    KeyError for a processor that is not known.
    """
    processor = PROCESSORS[machine or platform.machine()]
    return b"".join(struct.pack("=HBBI", *each) for each in _instructions(processor, network))


def _instructions(processor: Processor, network: Network) -> Iterator[_Instruction]:
    yield from _load(ARCHITECTURE)
    yield from ((EQUAL, 1, 0, processor.architecture), (RETURN, 0, 0, KILL), *_load(NUMBER))
    if processor.has_x32:
        yield from ((ANY_OF, 0, 1, X32), _refuse(errno.ENOSYS))
    for number in UNKNOWN:
        yield from ((EQUAL, 0, 1, number), _refuse(errno.ENOSYS))
    for number in processor.refused:
        yield from ((EQUAL, 0, 1, number), _refuse())
    yield from _on(processor.clone, (*_load(_argument(0)), (ANY_OF, 0, 1, NEW_NAMESPACES & ~NEW_TIME), _refuse()))
    yield from _on(processor.unshare, (*_load(_argument(0)), (ANY_OF, 0, 1, NEW_NAMESPACES), _refuse()))
    for number, mode in processor.modes:
        yield from _on(number, _borrowing(mode))
    for number, flags in processor.opening:
        borrowing = _borrowing(flags + 1)
        yield from _on(number, (*_load(_argument(flags)), (ANY_OF, 0, len(borrowing), MAKES_A_FILE), *borrowing))
    yield from _on(processor.ioctl, _typing())
    yield from _on(processor.socket, _sockets(network))
    yield (RETURN, 0, 0, ALLOW)


def _borrowing(mode: int) -> tuple[_Instruction, ...]:
    """Refuse a mode that has whoever runs the file be its owner or group."""
    return (*_load(_argument(mode)), (ANY_OF, 0, 1, BORROWED_RIGHTS), _refuse())


def _typing() -> tuple[_Instruction, ...]:
    tests = [part for request in TERMINAL_INPUT for part in ((EQUAL, 0, 1, request), _refuse())]
    return (*_load(_argument(1)), *tests)


def _sockets(network: Network) -> tuple[_Instruction, ...]:
    """Allow Unix sockets, those of the internet if there is a network, and asking the kernel for its interfaces."""
    internet = () if network == "none" else (socket.AF_INET.value, socket.AF_INET6.value)
    families = [part for family in (socket.AF_UNIX.value, *internet) for part in ((EQUAL, 0, 1, family), _allow())]
    route = (*_load(_argument(2)), (EQUAL, 0, 1, NETLINK_ROUTE), _allow(), _refuse())
    return (*_load(_argument(0)), *families, (EQUAL, 0, len(route), NETLINK), *route, _refuse())


def _on(number: int, judged: tuple[_Instruction, ...]) -> Iterator[_Instruction]:
    """Judge one call by its arguments; whoever passes is allowed."""
    yield (EQUAL, 0, len(judged) + 1, number)
    yield from judged
    yield _allow()


def _load(offset: int) -> tuple[_Instruction]:
    return ((LOAD, 0, 0, offset),)


def _argument(index: int) -> int:
    """Return where the low half of an argument is; both processors put it first."""
    return 16 + 8 * index


def _refuse(code: int = errno.EPERM) -> _Instruction:
    return (RETURN, 0, 0, REFUSE | code)


def _allow() -> _Instruction:
    return (RETURN, 0, 0, ALLOW)
