"""The calls that Landlock does not see and a network-less command has no need of, as a seccomp program."""

import errno

from msgspec import Struct

from scaffold.host.sandbox.bpf import AND, EQUAL, Step, argument, assembled, on, refuse

AF_UNIX, SOCK_DGRAM, TYPE_MASK = 1, 2, 0xF
O_ACCMODE, O_TRUNC = 0o3, 0o1000
TRUNCATE_SINCE = 3
"""The version of Landlock that first sees a file cut short without being opened for writing."""


class Processor(Struct, frozen=True, kw_only=True):
    """How one kind of processor numbers its calls."""

    socket: int
    socketpair: int
    prlimit: int
    truncate: int
    open: int | None
    openat: int
    openat2: int = 437
    shared: tuple[int, ...]
    """System V's shared memory, semaphores and messages, POSIX's message queues: others of the user's leave some."""


PROCESSORS = {
    "x86_64": Processor(
        socket=41,
        socketpair=53,
        prlimit=302,
        truncate=76,
        open=2,
        openat=257,
        shared=(29, 30, 31, 64, 65, 66, 68, 69, 70, 71, 220, 240, 241),
    ),
    "aarch64": Processor(
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
    """Return the program for a kind of processor, as `os.uname` calls it, and a version of Landlock."""
    processor = PROCESSORS[machine]
    judged = [
        *on(processor.socket, [argument(0), (EQUAL, 0, 1, AF_UNIX), refuse()]),
        *on(processor.socketpair, _only_streams()),
        *on(processor.prlimit, [argument(0), (EQUAL, 1, 0, 0), refuse()]),
        *(step for number in processor.shared for step in on(number, [refuse()])),
        *(_cuts(processor) if version < TRUNCATE_SINCE else ()),
    ]
    return assembled(machine, judged)


def _only_streams() -> list[Step]:
    """Refuse pairs that send datagrams: either end can be turned to any socket of the machine."""
    return [argument(1), (AND, 0, 0, TYPE_MASK), (EQUAL, 0, 1, SOCK_DGRAM), refuse()]


def _cuts(processor: Processor) -> list[Step]:
    """Refuse to cut short what is not open for writing, which old kernels would let pass."""
    opening = {processor.openat: 2, **({} if processor.open is None else {processor.open: 1})}
    return [
        *on(processor.truncate, [refuse()]),
        *on(processor.openat2, [refuse(errno.ENOSYS)]),
        *(step for number, flags in opening.items() for step in on(number, _cut_by_reader(flags))),
    ]


def _cut_by_reader(flags: int) -> list[Step]:
    return [argument(flags), (AND, 0, 0, O_ACCMODE | O_TRUNC), (EQUAL, 0, 1, O_TRUNC), refuse()]
