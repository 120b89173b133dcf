"""Filters of system calls as the kernel takes them: the steps of a classic BPF program. Pure."""

import errno
import struct
from collections.abc import Iterable, Sequence

LOAD, EQUAL, ANY_OF, AND, RETURN = 0x20, 0x15, 0x45, 0x54, 0x06
"""Operations on the one register: of a 32-bit word of the call, or of a constant."""
NUMBER, ARCHITECTURE, FIRST_ARGUMENT = 0, 4, 16
"""Where the parts of a call are, in bytes."""
ALLOW, KILL, REFUSE = 0x7FFF_0000, 0x8000_0000, 0x0005_0000
"""What a program answers; a refusal carries an errno."""
X32 = 0x4000_0000
"""Is in the numbers of calls in x86-64's other way of counting them."""

ARCHITECTURES = {"x86_64": 0xC000_003E, "aarch64": 0xC000_00B7}
"""How the kernel names the processor a call was made for; by what `os.uname` calls it."""

Step = tuple[int, int, int, int]
"""Operation, how far to jump if it holds and if not, constant."""


def load(offset: int) -> Step:
    """Take a word of the call into the register."""
    return (LOAD, 0, 0, offset)


def argument(index: int) -> Step:
    """Take the low half of an argument, counted from 0; both processors put it first."""
    return load(FIRST_ARGUMENT + 8 * index)


def answer(value: int) -> Step:
    """End the program."""
    return (RETURN, 0, 0, value)


def refuse(code: int = errno.EPERM) -> Step:
    """End the program, and have the call fail."""
    return answer(REFUSE | code)


def on(number: int, judged: Sequence[Step]) -> tuple[Step, ...]:
    """Judge one call; whoever passes is allowed it. Other calls go on behind."""
    body = (*judged, answer(ALLOW))
    return ((EQUAL, 0, len(body), number), *body)


def assembled(machine: str, judged: Iterable[Step]) -> bytes:
    """Return a program for one processor as an array of `struct sock_filter`; what `judged` does not end is allowed.

    Calls made for another processor kill, those counted in x86-64's other way are unknown. KeyError for a processor
    that is not known.
    """
    steps = [load(ARCHITECTURE), (EQUAL, 1, 0, ARCHITECTURES[machine]), answer(KILL), load(NUMBER)]
    if machine == "x86_64":
        steps += [(ANY_OF, 0, 1, X32), refuse(errno.ENOSYS)]
    return b"".join(struct.pack("=HBBI", *step) for step in (*steps, *judged, answer(ALLOW)))
