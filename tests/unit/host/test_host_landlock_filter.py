"""The seccomp program that complements Landlock, run by a small interpreter."""

import errno
import struct

from scaffold.host.sandbox.landlock.syscall_filter import SYSCALLS, program
from scaffold.host.sandbox.seccomp import ALLOW, ARCHITECTURES, KILL, deny

X86 = SYSCALLS["x86_64"]
((*_, REFUSED), (*_, UNKNOWN)) = deny(), deny(errno.ENOSYS)


def answer(code, number, arguments=(), machine="x86_64"):
    """Run a program on one system call, as the kernel would, and return its answer."""
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


def test_each_system_call_gets_the_expected_answer():
    """BX-9"""
    table = {
        (X86.socket, (1, 1)): REFUSED,
        (X86.socket, (2, 1)): ALLOW,
        (X86.socketpair, (1, 1)): ALLOW,
        (X86.socketpair, (1, 2)): REFUSED,
        (X86.socketpair, (1, 2 | 0o2000000)): REFUSED,
        (X86.socketpair, (1, 5 | 0o4000)): ALLOW,
        (X86.prlimit, (0, 7)): ALLOW,
        (X86.prlimit, (1234, 7)): REFUSED,
        (30, ()): REFUSED,
        (240, ()): REFUSED,
        (0, ()): ALLOW,
        (X86.socket | 0x4000_0000, (2, 1)): UNKNOWN,
    }
    assert {
        (number, arguments): answer(program("x86_64", 7), number, arguments) for number, arguments in table
    } == table


def test_the_filter_blocks_truncation_where_landlock_cannot():
    rows = [
        (X86.truncate, (), REFUSED),
        (X86.openat2, (), UNKNOWN),
        (X86.openat, (0, 0, 0o1000), REFUSED),
        (X86.openat, (0, 0, 0o1001), ALLOW),
        (X86.openat, (0, 0, 0o2000000), ALLOW),
        (X86.open, (0, 0o1000), REFUSED),
    ]
    assert [(number, given, answer(program("x86_64", 2), number, given)) for number, given, _ in rows] == rows
    assert {answer(program("x86_64", 3), number, given) for number, given, _ in rows} == {ALLOW}


def test_system_calls_of_a_foreign_architecture_end_the_process():
    assert answer(program("x86_64", 7), 0, machine="aarch64") == KILL


def test_the_other_architecture_numbers_its_calls_differently():
    arm = SYSCALLS["aarch64"]
    assert answer(program("aarch64", 7), arm.socket, (1, 1), "aarch64") == REFUSED
    assert answer(program("aarch64", 7), X86.socket, (1, 1), "aarch64") == ALLOW
