"""The calls of a command under Landlock that the kernel stops until `broker` answers them.

The kernel's side is described in linux/seccomp.h and seccomp_unotify(2).
"""

import errno
import fcntl
import os
import sys

AT_FDCWD = -100
RECEIVE, SEND, IS_VALID, ADD_FD = 0xC050_2100, 0xC018_2101, 0x4008_2102, 0x4018_2103
"""The requests of `ioctl` on a listener."""
REQUEST_BYTES = 80
CONTINUE, SEND_WITH_FD = 1, 1 << 1
MAX_PATH = 4096

Place = tuple[int, int]
"""The arguments of a call with the folder's descriptor (-1: the current folder) and with the path, 0-based."""
Call = tuple[str, tuple[Place, ...], tuple[int, ...]]
"""What a call does, with which paths, and its further arguments, 0-based."""

HERE: tuple[Place, ...] = ((-1, 0),)
AT: tuple[Place, ...] = ((0, 1),)
BOTH_AT: tuple[Place, ...] = ((0, 1), (2, 3))
CALLS: dict[str, dict[int, Call]] = {
    "x86_64": {
        2: ("open", HERE, (1, 2)),
        257: ("open", AT, (2, 3)),
        85: ("create", HERE, (1,)),
        83: ("mkdir", HERE, (1,)),
        258: ("mkdir", AT, (2,)),
        87: ("unlink", HERE, ()),
        263: ("unlink", AT, (2,)),
        84: ("rmdir", HERE, ()),
        82: ("rename", ((-1, 0), (-1, 1)), ()),
        264: ("rename", BOTH_AT, ()),
        316: ("rename", BOTH_AT, (4,)),
        86: ("link", ((-1, 0), (-1, 1)), ()),
        265: ("link", BOTH_AT, (4,)),
        88: ("symlink", ((-1, 1),), (0,)),
        266: ("symlink", ((1, 2),), (0,)),
    },
    "aarch64": {
        56: ("open", AT, (2, 3)),
        34: ("mkdir", AT, (2,)),
        35: ("unlink", AT, (2,)),
        38: ("rename", BOTH_AT, ()),
        276: ("rename", BOTH_AT, (4,)),
        37: ("link", BOTH_AT, (4,)),
        36: ("symlink", ((1, 2),), (0,)),
    },
}
"""The calls we are notified of, by processor type and number; `open` only with the flag O_CREAT."""

SOCKET_CALLS: dict[str, dict[int, str]] = {
    "x86_64": {41: "socket", 49: "bind", 42: "connect"},
    "aarch64": {198: "socket", 200: "bind", 203: "connect"},
}
"""The calls on sockets that are stopped, too, if the command has a loopback network; `socket` only for the internet."""


def umask_of(pid: int) -> int:
    """Return the umask of a process."""
    with open(f"/proc/{pid}/status", "rb", buffering=0) as status:  # noqa: PTH123 - pathlib would double our start-up
        for line in status.read().split(b"\n"):
            if line.startswith(b"Umask:"):
                return int(line.split()[1], 8)
    return 0o22


class StoppedCall:
    """One stopped call of a command."""

    def __init__(self, data: bytearray) -> None:
        self.id = int.from_bytes(data[:8], sys.byteorder)
        self.pid = int.from_bytes(data[8:12], sys.byteorder)
        self.number = int.from_bytes(data[16:20], sys.byteorder)
        self._arguments = [int.from_bytes(data[at : at + 8], sys.byteorder) for at in range(32, 80, 8)]

    def integer(self, index: int) -> int:
        """Return an argument as a signed 32-bit integer."""
        low = self._arguments[index] & 0xFFFF_FFFF
        return low - (1 << 32) if low >> 31 else low

    def text(self, index: int) -> str:
        """Return the string that an argument points to; OSError if it cannot be read or is too long for a path."""
        content, end, _ = self.content(index, MAX_PATH).partition(b"\0")
        if not end:
            raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
        return os.fsdecode(content)

    def content(self, index: int, size: int) -> bytes:
        """Return `size` bytes that an argument points to; fewer if there are no more."""
        if self._arguments[index] >> 63:  # no address of a process, and more than `pread` takes
            raise OSError(errno.EFAULT, os.strerror(errno.EFAULT))
        memory = os.open(f"/proc/{self.pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.pread(memory, size, self._arguments[index])
        finally:
            os.close(memory)

    def socket_inode(self, index: int) -> int:
        """Return the inode of the open file that an argument names; OSError if there is none."""
        return os.stat(f"/proc/{self.pid}/fd/{self.integer(index)}").st_ino  # noqa: PTH116 - starts faster

    def folder(self, place: Place) -> tuple[int, str]:
        """Return the opened folder of a path argument and the last name in the path; OSError if there is none."""
        fd, index = place
        path = self.text(index).rstrip("/")
        above, _, name = path.rpartition("/")
        if name in {"", ".", ".."}:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        number = AT_FDCWD if fd < 0 else self.integer(fd)
        start = f"/proc/{self.pid}/cwd" if number == AT_FDCWD else f"/proc/{self.pid}/fd/{number}"
        where = f"{above}/" if path.startswith("/") else f"{start}/{above}"
        return os.open(where, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC), name


class Listener:
    """The end at which stopped calls arrive and are answered."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def receive(self) -> StoppedCall | None:
        """Wait for the next call; None if its caller was killed meanwhile."""
        data = bytearray(REQUEST_BYTES)
        try:
            fcntl.ioctl(self._fd, RECEIVE, data)
        except (InterruptedError, FileNotFoundError):
            return None
        return StoppedCall(data)

    def is_waiting(self, stopped: StoppedCall) -> bool:
        """Return False if the caller was killed: its number could be another process's by now."""
        try:
            fcntl.ioctl(self._fd, IS_VALID, _pack_fields((stopped.id, 8)))
        except OSError:
            return False
        return True

    def end(self, stopped: StoppedCall, problem: int) -> None:
        """Let the call fail with an errno, or succeed with the result 0 if that is 0."""
        self._send_answer(_pack_fields((stopped.id, 8), (0, 8), (-problem, 4), (0, 4)))

    def resume(self, stopped: StoppedCall) -> None:
        """Let the kernel perform the call."""
        self._send_answer(_pack_fields((stopped.id, 8), (0, 8), (0, 4), (CONTINUE, 4)))

    def give(self, stopped: StoppedCall, fd: int, *, close_on_exec: bool) -> None:
        """Let the call succeed with a copy of our descriptor `fd`; OSError if the caller cannot take it."""
        close = os.O_CLOEXEC if close_on_exec else 0
        fcntl.ioctl(self._fd, ADD_FD, _pack_fields((stopped.id, 8), (SEND_WITH_FD, 4), (fd, 4), (0, 4), (close, 4)))

    def _send_answer(self, answer: bytes) -> None:
        try:
            fcntl.ioctl(self._fd, SEND, answer)
        except FileNotFoundError:  # the caller was killed
            return


def _pack_fields(*fields: tuple[int, int]) -> bytes:
    return b"".join(value.to_bytes(size, sys.byteorder, signed=value < 0) for value, size in fields)
