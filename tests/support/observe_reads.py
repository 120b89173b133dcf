"""Run programs that should only read, each under a filter of system calls, and report those that do more.

A program that starts a process, opens a file for writing, changes a file or opens a connection is killed by the kernel
with SIGSYS. Reads of the files in `secrets` are counted with inotify. Nothing is installed: the filter and the
watches need no rights.

Input, one JSON object a line: {"run": [path, argument...]}. Output likewise: {"status", "read", "error"}; a status
below 0 is a signal.
"""

import ctypes
import json
import os
import platform
import resource
import signal
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

from scaffold.host.sandbox.seccomp import (
    DENIED_AS_UNKNOWN,
    KILL,
    Instruction,
    argument,
    assemble,
    deny,
    on_syscall,
    ret,
)

EQUAL, ANY_OF = 0x15, 0x45
WRITES = 0o3103  # O_WRONLY, O_RDWR, O_CREAT, O_TRUNC, O_APPEND
LOOSER_WRITES = 0o3101  # without O_RDWR, with which a shell opens /dev/tty, and git /dev/null
LOOSER = {"bash", "git"}
THREAD = 0x10000
UNIX, NETLINK = 1, 16  # a lookup of users asks the cache daemon and the kernel; both are refused, not reported
IN_ACCESS, IN_NONBLOCK = 0x1, 0o4000
LIMIT_S = 3

CALLS = {
    "x86_64": {
        "execve": 59,
        "clone": 56,
        "socket": 41,
        "opening": ((2, 1), (257, 2)),
        "changing": (
            *(322, 57, 58, 85, 87, 263, 82, 264, 316, 83, 258, 84, 86, 265, 88, 266, 90, 91, 268, 452, 92, 93, 94, 260),
            *(132, 235, 261, 280, 76, 77, 285, 133, 259, 188, 189, 190, 197, 198, 199, 62, 129, 164, 227, 170, 171),
        ),
    },
    "aarch64": {
        "execve": 221,
        "clone": 220,
        "socket": 198,
        "opening": ((56, 2),),
        "changing": (
            *(281, 35, 38, 276, 34, 37, 36, 52, 53, 452, 55, 54, 88, 45, 46, 47, 33, 5, 6, 7, 14, 15, 16, 129),
            *(138, 170, 112, 161, 162),
        ),
    },
}

LIBC = ctypes.CDLL(None, use_errno=True)


class Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def judged(first_path: int, *, looser: bool) -> Iterator[Instruction]:
    """Yield the filter; only the execve whose path is at the address `first_path` may happen."""
    calls = CALLS[platform.machine()]
    wrong = ret(KILL)
    low = first_path & 0xFFFFFFFF
    yield from on_syscall(calls["execve"], (argument(0), (EQUAL, 1, 0, low), wrong))
    yield from on_syscall(calls["clone"], (argument(0), (ANY_OF, 1, 0, THREAD), wrong))
    refused = deny(13)
    yield from on_syscall(
        calls["socket"], (argument(0), (EQUAL, 0, 1, UNIX), refused, (EQUAL, 0, 1, NETLINK), refused, wrong)
    )
    for number, index in calls["opening"]:
        flags = LOOSER_WRITES if looser else WRITES
        yield from on_syscall(number, (argument(index), (ANY_OF, 0, 1, flags), wrong))
    for number in DENIED_AS_UNKNOWN:
        yield from on_syscall(number, (deny(38),))
    for number in calls["changing"]:
        yield from on_syscall(number, (wrong,))


def confine(first_path: int, *, looser: bool) -> None:
    code = assemble(platform.machine(), judged(first_path, looser=looser))
    kept = ctypes.create_string_buffer(code)
    program = Program(len(code) // 8, ctypes.addressof(kept))
    if LIBC.prctl(38, 1, 0, 0, 0) or LIBC.prctl(22, 2, ctypes.byref(program), 0, 0):
        os._exit(120)


def start(run: list[str], errors: int) -> int:
    """Return the process id of a child that runs the program, its output thrown away."""
    path = ctypes.create_string_buffer(os.fsencode(run[0]))
    looser = Path(run[0]).name in LOOSER
    argv = (ctypes.c_char_p * (len(run) + 1))(*map(os.fsencode, (Path(run[0]).name, *run[1:])), None)
    env = [f"{name}={value}".encode() for name, value in os.environ.items()]
    envp = (ctypes.c_char_p * (len(env) + 1))(*env, None)
    child = os.fork()
    if child == 0:
        null = os.open(os.devnull, os.O_RDWR)
        for stream, target in ((0, os.memfd_create("input")), (1, null), (2, errors)):
            os.dup2(target, stream)
        resource.setrlimit(resource.RLIMIT_CPU, (LIMIT_S, LIMIT_S))
        signal.alarm(LIMIT_S)
        confine(ctypes.addressof(path), looser=looser)
        LIBC.execve(path, argv, envp)
        os._exit(121)
    return child


class Reads:
    """Counts the reads of files."""

    def __init__(self, files: list[str]) -> None:
        self._watch = LIBC.inotify_init1(IN_NONBLOCK)
        self._names = {LIBC.inotify_add_watch(self._watch, os.fsencode(name), IN_ACCESS): name for name in files}
        if min(self._names, default=0) < 0:
            sys.exit("inotify does not work here")

    def since_last(self) -> list[str]:
        try:
            events = os.read(self._watch, 65536)
        except BlockingIOError:
            return []
        found, at = set(), 0
        while at < len(events):
            number, _, _, length = struct.unpack_from("iIII", events, at)
            found.add(self._names[number])
            at += 16 + length
        return sorted(found)


def main() -> None:
    reads = Reads(sys.argv[1:])
    errors = os.memfd_create("errors")
    for line in sys.stdin:
        os.ftruncate(errors, 0)
        os.lseek(errors, 0, os.SEEK_SET)
        _, status = os.waitpid(start(json.loads(line)["run"], errors), 0)
        error = os.pread(errors, 2000, 0).decode(errors="replace")
        answer = {"status": os.waitstatus_to_exitcode(status), "read": reads.since_last(), "error": error}
        print(json.dumps(answer), flush=True)


main()
