"""System calls that a sandbox refuses."""

import json
import platform
import sys

import pytest

from scaffold.host.sandbox import seccomp

ASK = """
import ctypes, errno, json, sys
libc = ctypes.CDLL(None, use_errno=True)
answers = {}
for name, number, args in json.loads(sys.argv[1]):
    ctypes.set_errno(0)
    done = libc.syscall(number, *args)
    answers[name] = errno.errorcode.get(ctypes.get_errno(), "fine") if done < 0 else "fine"
print(json.dumps(answers))
"""
NEW_USER, NEW_NET, FILES = 0x10000000, 0x40000000, 0x400
CALLS = {
    "add_key": (248, []),
    "keyctl": (250, []),
    "bpf": (321, []),
    "perf_event_open": (298, []),
    "userfaultfd": (323, [0]),
    "kexec_load": (246, []),
    "init_module": (175, []),
    "mount": (165, []),
    "umount": (166, []),
    "pivot_root": (155, []),
    "chroot": (161, []),
    "setns": (308, [0, 0]),
    "unshare a user": (272, [NEW_USER]),
    "unshare a network": (272, [NEW_NET]),
    "unshare time": (272, [0x80]),
    "clone into a user": (56, [NEW_USER, 0, 0, 0, 0]),
    "open_by_handle_at": (304, []),
    "open_tree": (428, []),
    "fsopen": (430, []),
    "mount_setattr": (442, []),
    "type into the terminal": (16, [0, 0x5412, 0]),
    "paste into the terminal": (16, [0, 0x541C, 0]),
}
PRETENDED = {
    "io_uring_setup": (425, [1, 0]),
    "clone3": (435, [0, 0]),
    "openat2": (437, [-100, 0, 0, 0]),
    "getpid of x32": (0x40000000 + 39, []),
}
GRANTED = {"getpid": (39, []), "unshare files": (272, [FILES]), "socketpair": (53, [1, 1, 0, 0])}

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="the system calls have the numbers of x86-64")


@pytest.fixture
def answers(inside):
    async def ask(calls):
        listed = json.dumps([(name, number, args) for name, (number, args) in calls.items()])
        finished = await inside([sys.executable, "-c", ASK, listed])
        assert finished.exit_code == 0, finished.stderr
        return json.loads(finished.stdout)

    return ask


async def test_calls_that_could_undo_a_sandbox_are_refused(answers):
    """BX-9"""
    assert await answers(CALLS) == dict.fromkeys(CALLS, "EPERM")


async def test_optional_calls_look_unimplemented(answers):
    """BX-9: a program that tries io_uring or clone3 falls back to the older call."""
    assert await answers(PRETENDED) == dict.fromkeys(PRETENDED, "ENOSYS")


async def test_ordinary_calls_are_allowed(answers):
    result = await answers(GRANTED)
    assert (result["getpid"], result["unshare files"], result["socketpair"]) == ("fine", "fine", "EFAULT")


LEND = """
import os, sys, ctypes
libc = ctypes.CDLL(None, use_errno=True)
open("file", "w").close()
here = os.open("file", os.O_RDONLY)
ways = {
    "chmod": lambda mode: os.chmod("file", mode),
    "fchmod": lambda mode: os.chmod(here, mode),
    "open": lambda mode: os.close(os.open("made", os.O_CREAT | os.O_EXCL, mode)),
    "temporary": lambda mode: os.close(os.open(".", os.O_TMPFILE | os.O_WRONLY, mode)),
    "creat": lambda mode: libc.creat(b"made", mode) >= 0 or os.stat("missing"),
    "mknod": lambda mode: os.mknod("made", mode),
    "old mknod": lambda mode: libc.syscall(133, b"made", mode | 0o100000, 0) == 0 or os.stat("missing"),
    "fchmodat2": lambda mode: libc.syscall(452, -100, b"file", mode, 0) == 0 or os.stat("missing"),
}
for name, way in ways.items():
    for mode in (0o4755, 0o2755, 0o755):
        try:
            way(mode)
            print(name, oct(mode))
        except OSError:
            pass
        if os.path.exists("made"):
            os.unlink("made")
os.open("file", os.O_RDONLY, 0o4755)
"""


async def test_no_set_user_id_file_can_be_created(inside, workspace):
    """BX-9: a set-user-ID shell of root would be a way out for any user, and we may run as root."""
    finished = await inside([sys.executable, "-c", LEND])
    ways = [line.split(" 0o")[0] for line in finished.stdout.decode().splitlines()]
    assert (finished.exit_code, finished.stderr) == (0, b"")
    assert {"chmod", "fchmod", "open", "temporary", "creat", "mknod", "old mknod"} <= set(ways)
    assert finished.stdout.count(b"0o755") == len(ways)


def test_every_architecture_refuses_the_same_calls():
    """The same calls, under other numbers; x86-64 has four more: iopl, ioperm, uselib, create_module."""
    x86, arm = seccomp.SYSCALL_TABLES["x86_64"], seccomp.SYSCALL_TABLES["aarch64"]
    assert len(set(x86.refused)) == len(x86.refused)
    assert len(set(x86.refused)) - len(set(arm.refused)) == 4
    assert len(seccomp.program("none", "x86_64")) < 8 * 256, "a jump is at most 255 long"
    assert seccomp.program("none", "x86_64") != seccomp.program("loopback", "x86_64")


def test_an_unknown_architecture_has_no_filter():
    assert (seccomp.is_supported("x86_64"), seccomp.is_supported("vax")) == (True, False)
    with pytest.raises(KeyError):
        seccomp.program("none", "vax")
