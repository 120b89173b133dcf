"""The seccomp program beside Landlock, run by a small machine."""

import errno
import struct

import pytest

from scaffold.host.sandbox.bpf import ALLOW, ARCHITECTURES, KILL, deny
from scaffold.host.sandbox.landlock_filter import SYSCALLS, program

X86 = SYSCALLS["x86_64"]
((*_, REFUSED), (*_, UNKNOWN)) = deny(), deny(errno.ENOSYS)


def answer(code, number, arguments=(), machine="x86_64"):
    """Run a program over one call, as the kernel would, and return what it answers."""
    data = struct.pack("=IIQ6Q", number, ARCHITECTURES[machine], 0, *arguments, *[0] * (6 - len(arguments)))
    steps = list(struct.iter_unpack("=HBBI", code))
    register = place = 0
    while True:
        operation, then, otherwise, constant = steps[place]
        place += 1
        match operation:
            case 0x20:
                (register,) = struct.unpack_from("=I", data, constant)
            case 0x54:
                register &= constant
            case 0x15:
                place += then if register == constant else otherwise
            case 0x45:
                place += then if register & constant else otherwise
            case 0x06:
                return constant


@pytest.mark.parametrize(
    ("number", "arguments", "wanted"),
    [
        (X86.socket, (1, 1), REFUSED),
        (X86.socket, (2, 1), ALLOW),
        (X86.socketpair, (1, 1), ALLOW),
        (X86.socketpair, (1, 2), REFUSED),
        (X86.socketpair, (1, 2 | 0o2000000), REFUSED),
        (X86.socketpair, (1, 5 | 0o4000), ALLOW),
        (X86.prlimit, (0, 7), ALLOW),
        (X86.prlimit, (1234, 7), REFUSED),
        (30, (), REFUSED),
        (240, (), REFUSED),
        (0, (), ALLOW),
        (X86.socket | 0x4000_0000, (2, 1), UNKNOWN),
    ],
)
def test_each_call_gets_its_answer(number, arguments, wanted):
    """BX-9"""
    assert answer(program("x86_64", 7), number, arguments) == wanted


@pytest.mark.parametrize(
    ("number", "arguments", "wanted"),
    [
        (X86.truncate, (), REFUSED),
        (X86.openat2, (), UNKNOWN),
        (X86.openat, (0, 0, 0o1000), REFUSED),
        (X86.openat, (0, 0, 0o1001), ALLOW),
        (X86.openat, (0, 0, 0o2000000), ALLOW),
        (X86.open, (0, 0o1000), REFUSED),
    ],
)
def test_where_landlock_does_not_see_files_cut_short_the_filter_does(number, arguments, wanted):
    assert answer(program("x86_64", 2), number, arguments) == wanted
    assert answer(program("x86_64", 3), number, arguments) == ALLOW


def test_calls_in_the_manner_of_another_processor_end_the_process():
    assert answer(program("x86_64", 7), 0, machine="aarch64") == KILL


def test_the_other_processor_counts_its_calls_differently():
    arm = SYSCALLS["aarch64"]
    assert answer(program("aarch64", 7), arm.socket, (1, 1), "aarch64") == REFUSED
    assert answer(program("aarch64", 7), X86.socket, (1, 1), "aarch64") == ALLOW
