"""The seccomp filter inside a sandbox: a classic BPF program, assembled here to avoid a dependency.

It denies calls that can undo a sandbox or reach rarely used kernel code: new namespaces and mounts, modules, keys,
kernel tracing, io_uring (whose requests no filter sees), terminal input injection, and socket families that reach out
of a network namespace. Denied calls fail with EPERM, or with ENOSYS where libraries have a fallback.
"""

import errno
import functools
import platform
import socket
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from scaffold.host.sandbox.confinement import NetworkAccess

LOAD, EQUAL, ANY_OF, AND, RETURN = 0x20, 0x15, 0x45, 0x54, 0x06
"""Operations on the accumulator, with a 32-bit word of the call or a constant."""
NUMBER, ARCHITECTURE, FIRST_ARGUMENT = 0, 4, 16
"""Byte offsets in struct seccomp_data."""
ALLOW, KILL, DENY = 0x7FFF_0000, 0x8000_0000, 0x0005_0000
"""Return values of a program; DENY is combined with an errno."""
X32 = 0x4000_0000
"""The bit of x32 system call numbers on x86-64."""

ARCHITECTURES = {"x86_64": 0xC000_003E, "aarch64": 0xC000_00B7}
"""The kernel's AUDIT_ARCH value for each machine name of `os.uname`."""

Instruction = tuple[int, int, int, int]
"""Operation, jump offset if true, jump offset if false, constant."""
NEW_NAMESPACES = 0x7E020080
"""CLONE_NEWUSER, NEWNS, NEWPID, NEWNET, NEWIPC, NEWUTS, NEWCGROUP; NEWTIME overlaps the exit signal bits of `clone`."""
NEW_TIME = 0x80
TERMINAL_INPUT = (0x5412, 0x541C)
"""TIOCSTI and TIOCLINUX: type and paste into the terminal."""
NETLINK, NETLINK_ROUTE = 16, 0
SETUID_BITS = 0o6000
"""S_ISUID and S_ISGID: a setuid file of root gives root rights outside the sandbox too."""
CREATE_FLAGS = 0o20000100
"""O_CREAT, and O_TMPFILE without O_DIRECTORY; without these flags the mode argument is undefined."""
DENIED_AS_UNKNOWN = (425, 426, 427, 435, 437)
"""io_uring, clone3 and openat2: filters cannot see their arguments, so they fail with ENOSYS like on older kernels."""
NEW_MOUNT_CALLS = (428, 429, 430, 431, 432, 433, 442, 443, 467)
"""open_tree, move_mount, fsopen, fsconfig, fsmount, fspick, mount_setattr, quotactl_fd, open_tree_attr."""


def load(offset: int) -> Instruction:
    """Load a word of the call into the accumulator."""
    return (LOAD, 0, 0, offset)


def argument(index: int) -> Instruction:
    """Load the low half of an argument (0-based); both processors are little-endian."""
    return load(FIRST_ARGUMENT + 8 * index)


def ret(value: int) -> Instruction:
    """Return `value`, ending the program."""
    return (RETURN, 0, 0, value)


def deny(code: int = errno.EPERM) -> Instruction:
    """Return an errno, so that the call fails."""
    return ret(DENY | code)


def on_syscall(number: int, judged: Sequence[Instruction]) -> tuple[Instruction, ...]:
    """Apply `judged` to one call and allow it at the end; other calls skip this block."""
    body = (*judged, ret(ALLOW))
    return ((EQUAL, 0, len(body), number), *body)


def assemble(machine: str, judged: Iterable[Instruction]) -> bytes:
    """Return a program for one processor as an array of `struct sock_filter`; calls that `judged` passes are allowed.

    A call for another architecture kills the process; x32 calls fail with ENOSYS. KeyError for an unknown processor.
    """
    # First of all, because the same number is another call on another architecture.
    steps = [load(ARCHITECTURE), (EQUAL, 1, 0, ARCHITECTURES[machine]), ret(KILL), load(NUMBER)]
    if machine == "x86_64":
        steps += [(ANY_OF, 0, 1, X32), deny(errno.ENOSYS)]
    return b"".join(struct.pack("=HBBI", *step) for step in (*steps, *judged, ret(ALLOW)))


class SyscallTable(Struct, frozen=True):
    """Linux system call numbers of one processor type."""

    clone: int
    unshare: int
    ioctl: int
    socket: int
    modes: tuple[tuple[int, int], ...]
    """Calls that set a file's mode, and the index of the mode argument."""
    opening: tuple[tuple[int, int], ...]
    """Calls that may create a file, and the index of the flags argument; the mode follows it."""
    refused: tuple[int, ...]
    """Calls that fail with EPERM."""


SYSCALL_TABLES: Mapping[str, SyscallTable] = {
    "x86_64": SyscallTable(
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
            *NEW_MOUNT_CALLS,
        ),
    ),
    "aarch64": SyscallTable(
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
            *NEW_MOUNT_CALLS,
        ),
    ),
}


def is_supported(machine: str = "") -> bool:
    """Return True if there is a filter for `machine` (default: this processor)."""
    return (machine or platform.machine()) in SYSCALL_TABLES


@functools.cache
def program(network: NetworkAccess, machine: str = "") -> bytes:
    """Return the filter as an array of `struct sock_filter`; `none` denies internet sockets too.

    KeyError for an unknown processor.
    """
    machine = machine or platform.machine()
    return assemble(machine, _filter_rules(SYSCALL_TABLES[machine], network))


def _filter_rules(processor: SyscallTable, network: NetworkAccess) -> Iterator[Instruction]:
    for number in DENIED_AS_UNKNOWN:
        yield from ((EQUAL, 0, 1, number), deny(errno.ENOSYS))
    for number in processor.refused:
        yield from ((EQUAL, 0, 1, number), deny())
    yield from on_syscall(processor.clone, (argument(0), (ANY_OF, 0, 1, NEW_NAMESPACES & ~NEW_TIME), deny()))
    yield from on_syscall(processor.unshare, (argument(0), (ANY_OF, 0, 1, NEW_NAMESPACES), deny()))
    for number, mode in processor.modes:
        yield from on_syscall(number, _deny_setuid_modes(mode))
    for number, flags in processor.opening:
        denied = _deny_setuid_modes(flags + 1)
        yield from on_syscall(number, (argument(flags), (ANY_OF, 0, len(denied), CREATE_FLAGS), *denied))
    tests = [part for request in TERMINAL_INPUT for part in ((EQUAL, 0, 1, request), deny())]
    yield from on_syscall(processor.ioctl, (argument(1), *tests))
    # Unix sockets, internet sockets if there is a network, and netlink route queries, which list interfaces.
    internet = () if network == "none" else (socket.AF_INET.value, socket.AF_INET6.value)
    families = [part for family in (socket.AF_UNIX.value, *internet) for part in ((EQUAL, 0, 1, family), ret(ALLOW))]
    route = (argument(2), (EQUAL, 0, 1, NETLINK_ROUTE), ret(ALLOW), deny())
    rules = (argument(0), *families, (EQUAL, 0, len(route), NETLINK), *route, deny())
    yield from on_syscall(processor.socket, rules)


def _deny_setuid_modes(mode: int) -> tuple[Instruction, ...]:
    return (argument(mode), (ANY_OF, 0, 1, SETUID_BITS), deny())
