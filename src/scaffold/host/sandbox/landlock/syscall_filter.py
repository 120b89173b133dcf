"""The seccomp programs that complement Landlock.

One denies calls which Landlock does not check and a command without network does not need; one stops the calls that the
broker answers.
"""

import errno

from msgspec import Struct

from scaffold.host.sandbox.landlock.calls import CALLS, Call
from scaffold.host.sandbox.seccomp import AND, ANY_OF, EQUAL, Instruction, argument, assemble, deny, on_syscall, ret

AF_UNIX, SOCK_DGRAM, TYPE_MASK = 1, 2, 0xF
O_ACCMODE, O_CREAT, O_TRUNC = 0o3, 0o100, 0o1000
NOTIFY = 0x7FC0_0000
"""Stop the call and notify the listener."""
TRUNCATE_SINCE = 3
"""The first Landlock version that checks truncation of files."""


class LandlockSyscalls(Struct, frozen=True, kw_only=True):
    """System call numbers of one processor type."""

    socket: int
    socketpair: int
    prlimit: int
    truncate: int
    open: int | None
    openat: int
    openat2: int = 437
    shared: tuple[int, ...]
    """System V IPC and POSIX message queues: other programs of the user may have left some open."""


SYSCALLS = {
    "x86_64": LandlockSyscalls(
        socket=41,
        socketpair=53,
        prlimit=302,
        truncate=76,
        open=2,
        openat=257,
        shared=(29, 30, 31, 64, 65, 66, 68, 69, 70, 71, 220, 240, 241),
    ),
    "aarch64": LandlockSyscalls(
        socket=198,
        socketpair=199,
        prlimit=261,
        truncate=45,
        open=None,
        openat=56,
        shared=(*range(186, 198), 180, 181),
    ),
}


def program(machine: str, version: int) -> bytes:
    """Return the program for a processor type, as `os.uname` names it, and a Landlock version."""
    processor = SYSCALLS[machine]
    judged = [
        *on_syscall(processor.socket, [argument(0), (EQUAL, 0, 1, AF_UNIX), deny()]),
        *on_syscall(processor.socketpair, _only_streams()),
        # Landlock has no rights for resource limits; pid 0 is the caller itself.
        *on_syscall(processor.prlimit, [argument(0), (EQUAL, 1, 0, 0), deny()]),
        *(step for number in processor.shared for step in on_syscall(number, [deny()])),
        *(_deny_truncation(processor) if version < TRUNCATE_SINCE else ()),
    ]
    return assemble(machine, judged)


def notifying_program(machine: str) -> bytes:
    """Return the program that stops the calls which the broker answers."""
    return assemble(machine, (step for number, call in CALLS[machine].items() for step in _stop(number, call)))


def _stop(number: int, call: Call) -> tuple[Instruction, ...]:
    action, _, further = call
    if action != "open":
        return on_syscall(number, [ret(NOTIFY)])
    return on_syscall(number, [argument(further[0]), (ANY_OF, 0, 1, O_CREAT), ret(NOTIFY)])


def _only_streams() -> list[Instruction]:
    """Deny datagram socket pairs: either end can be reconnected to any socket of the machine."""
    return [argument(1), (AND, 0, 0, TYPE_MASK), (EQUAL, 0, 1, SOCK_DGRAM), deny()]


def _deny_truncation(processor: LandlockSyscalls) -> list[Instruction]:
    """Deny truncating a file that is not open for writing; Landlock in old kernels does not check it."""
    opening = {processor.openat: 2, **({} if processor.open is None else {processor.open: 1})}
    return [
        *on_syscall(processor.truncate, [deny()]),
        *on_syscall(processor.openat2, [deny(errno.ENOSYS)]),
        *(step for number, flags in opening.items() for step in on_syscall(number, _deny_truncating_open(flags))),
    ]


def _deny_truncating_open(flags: int) -> list[Instruction]:
    return [argument(flags), (AND, 0, 0, O_ACCMODE | O_TRUNC), (EQUAL, 0, 1, O_TRUNC), deny()]
