"""The calls that Landlock does not see and a network-less command has no need of, as a seccomp program."""

import struct

from msgspec import Struct

LOAD, EQUAL, ANY_BIT, AND, RETURN = 0x20, 0x15, 0x45, 0x54, 0x06
ALLOW, KILL, REFUSE, UNKNOWN = 0x7FFF_0000, 0x8000_0000, 0x0005_0001, 0x0005_0026
"""What a program answers; the refusals carry an errno: EPERM, ENOSYS."""
NUMBER, PROCESSOR, FIRST_ARGUMENT = 0, 4, 16
X32 = 0x4000_0000
AF_UNIX, SOCK_DGRAM, TYPE_MASK = 1, 2, 0xF
O_ACCMODE, O_TRUNC = 0o3, 0o1000
TRUNCATE_SINCE = 3
"""The version of Landlock that first sees a file cut short without being opened for writing."""

Step = tuple[int, int, int, int]


class Processor(Struct, frozen=True, kw_only=True):
    """How one kind of processor names itself and numbers its calls."""

    audit: int
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
        audit=0xC000_003E,
        socket=41,
        socketpair=53,
        prlimit=302,
        truncate=76,
        open=2,
        openat=257,
        shared=(29, 30, 31, 64, 65, 66, 68, 69, 70, 71, 220, 240, 241),
    ),
    "aarch64": Processor(
        audit=0xC000_00B7,
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
    steps: list[Step] = [
        *_load(PROCESSOR),
        (EQUAL, 1, 0, processor.audit),
        _answer(KILL),
        *_load(NUMBER),
        *([(0x35, 0, 1, X32), _answer(UNKNOWN)] if machine == "x86_64" else []),
        *_on(processor.socket, [*_argument(0), (EQUAL, 0, 1, AF_UNIX), _answer(REFUSE)]),
        *_on(processor.socketpair, _only_streams()),
        *_on(processor.prlimit, [*_argument(0), (EQUAL, 1, 0, 0), _answer(REFUSE)]),
        *(step for number in processor.shared for step in _on(number, [_answer(REFUSE)])),
        *(_cuts(processor) if version < TRUNCATE_SINCE else ()),
        _answer(ALLOW),
    ]
    return b"".join(struct.pack("=HBBI", *step) for step in steps)


def _only_streams() -> list[Step]:
    """Refuse pairs that send datagrams: either end can be turned to any socket of the machine."""
    return [*_argument(1), (AND, 0, 0, TYPE_MASK), (EQUAL, 0, 1, SOCK_DGRAM), _answer(REFUSE)]


def _cuts(processor: Processor) -> list[Step]:
    """Refuse to cut short what is not open for writing, which old kernels would let pass."""
    opening = {processor.openat: 2, **({} if processor.open is None else {processor.open: 1})}
    return [
        *_on(processor.truncate, [_answer(REFUSE)]),
        *_on(processor.openat2, [_answer(UNKNOWN)]),
        *(step for number, flags in opening.items() for step in _on(number, _cut_by_reader(flags))),
    ]


def _cut_by_reader(flags: int) -> list[Step]:
    return [*_argument(flags), (AND, 0, 0, O_ACCMODE | O_TRUNC), (EQUAL, 0, 1, O_TRUNC), _answer(REFUSE)]


def _on(number: int, steps: list[Step]) -> list[Step]:
    """Do `steps` for one call; whoever gets past them is allowed it, as far as we are asked."""
    body = [*steps, _answer(ALLOW)]
    return [(EQUAL, 0, len(body), number), *body]


def _argument(index: int) -> list[Step]:
    return _load(FIRST_ARGUMENT + 8 * index)


def _load(offset: int) -> list[Step]:
    return [(LOAD, 0, 0, offset)]


def _answer(value: int) -> Step:
    return (RETURN, 0, 0, value)
