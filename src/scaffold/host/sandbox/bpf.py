"""Build seccomp filters as classic BPF programs. Pure."""

import errno
import struct
from collections.abc import Iterable, Sequence

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
    steps = [load(ARCHITECTURE), (EQUAL, 1, 0, ARCHITECTURES[machine]), ret(KILL), load(NUMBER)]
    if machine == "x86_64":
        steps += [(ANY_OF, 0, 1, X32), deny(errno.ENOSYS)]
    return b"".join(struct.pack("=HBBI", *step) for step in (*steps, *judged, ret(ALLOW)))
