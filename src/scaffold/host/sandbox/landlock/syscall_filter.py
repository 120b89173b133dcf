"""The seccomp programs that complement Landlock.

One denies calls which Landlock does not check and a command without network does not need; one stops the calls that the
broker answers.
"""

import errno

from msgspec import Struct

from scaffold.host.sandbox.landlock.calls import CALLS, SOCKET_CALLS
from scaffold.host.sandbox.seccomp import AND, ANY_OF, EQUAL, Instruction, argument, assemble, deny, on_syscall, ret

AF_UNIX, SOCK_DGRAM, TYPE_MASK = 1, 2, 0xF
O_ACCMODE, O_CREAT, O_TRUNC = 0o3, 0o100, 0o1000
NOTIFY = 0x7FC0_0000
"""Stop the call and notify the listener."""
AF_INET, AF_INET6, MSG_FASTOPEN = 2, 10, 0x2000_0000
SENDING = {"x86_64": {44: 3, 46: 2, 307: 3}, "aarch64": {206: 3, 211: 2, 269: 3}}
"""sendto, sendmsg and sendmmsg with the index of their flags, by processor type."""
OPEN_FLAGS = {"x86_64": (0o200000, 0o400000), "aarch64": (0o40000, 0o100000)}
"""O_DIRECTORY and O_NOFOLLOW by processor type."""
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
        socket=198, socketpair=199, prlimit=261, truncate=45, open=None, openat=56, shared=(*range(186, 198), 180, 181)
    ),
}


def program(machine: str, version: int) -> bytes:
    """Return the program for a processor type, as `os.uname` names it, and a Landlock version."""
    processor = SYSCALLS[machine]
    judged = [
        *on_syscall(processor.socket, [argument(0), (EQUAL, 0, 1, AF_UNIX), deny()]),
        # Only stream pairs: either end of a datagram pair can be reconnected to any socket of the machine.
        *on_syscall(processor.socketpair, [argument(1), (AND, 0, 0, TYPE_MASK), (EQUAL, 0, 1, SOCK_DGRAM), deny()]),
        # Landlock has no rights for resource limits; pid 0 is the caller itself.
        *on_syscall(processor.prlimit, [argument(0), (EQUAL, 1, 0, 0), deny()]),
        *(step for number in processor.shared for step in on_syscall(number, [deny()])),
        *(_deny_truncation(processor) if version < TRUNCATE_SINCE else ()),
    ]
    return assemble(machine, judged)


def notifying_program(machine: str, *, sockets: bool) -> bytes:
    """Return the program that stops the calls which the broker answers, those on `sockets` if it is to."""
    steps: list[Instruction] = []
    directory, no_follow = OPEN_FLAGS[machine]
    # Shared memory is opened without following links; else mostly folders are.
    unlinked = (ANY_OF, 2, 0, directory), (ANY_OF, 0, 1, no_follow), ret(NOTIFY)
    for number, (action, _, further) in CALLS[machine].items():
        if action == "open":
            steps += on_syscall(number, [argument(further[0]), (ANY_OF, 0, 1, O_CREAT), ret(NOTIFY), *unlinked])
        else:
            steps += on_syscall(number, [ret(NOTIFY)])
    for number, name in SOCKET_CALLS[machine].items() if sockets else ():
        internet = argument(0), (EQUAL, 1, 0, AF_INET), (EQUAL, 0, 1, AF_INET6)
        steps += on_syscall(number, [*(internet if name == "socket" else ()), ret(NOTIFY)])
    for number, flags in SENDING[machine].items() if sockets else ():
        # sending like this connects, too
        steps += on_syscall(number, [argument(flags), (ANY_OF, 0, 1, MSG_FASTOPEN), deny()])
    return assemble(machine, steps)


def _deny_truncation(processor: LandlockSyscalls) -> list[Instruction]:
    # Landlock in old kernels does not check it.
    opening = {processor.openat: 2, **({} if processor.open is None else {processor.open: 1})}
    return [
        *on_syscall(processor.truncate, [deny()]),
        *on_syscall(processor.openat2, [deny(errno.ENOSYS)]),
        *(
            step
            for number, flags in opening.items()
            for step in on_syscall(
                number, [argument(flags), (AND, 0, 0, O_ACCMODE | O_TRUNC), (EQUAL, 0, 1, O_TRUNC), deny()]
            )
        ),
    ]
