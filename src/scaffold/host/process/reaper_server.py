"""Fork a reaper for each request: that costs about a fifth of the CPU that starting Python for it does.

`serve` reads requests from the socket that is our standard input; its end ends us, but no reaper. Descriptors come with
each: of a file with NUL-separated words, of the working directory, and of those that the reaper gets. The words are
`NUMBERS COUNT VARIABLE... WORDS...`: the numbers that its descriptors get, separated by commas, COUNT environment
variables, and what `reaper.run_argv` takes. The last descriptor is that of REPORT, on which the reaper first tells its
own pid. Like the reaper, this script imports only what is quick to import.
"""

import _signal as signal  # type: ignore[import-not-found]
import _socket
import fcntl
import os

import reaper  # type: ignore[import-not-found]

MAX_DESCRIPTORS = 253
"""The most that Linux passes with one message."""
FILE, FOLDER, FIRST = 0, 1, 2
"""The places of the descriptors."""


def serve() -> None:
    """Fork a reaper on each request until the socket is closed."""
    line = _socket.socket(fileno=0)
    os.chdir("/")
    # Our owner may have inherited some descriptors that commands must not get.
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208
        try:
            if int(name) > 2:
                os.close(int(name))
        except OSError:  # that of the listing
            continue
    # Not just ignored: then the time that they used would not count as that of our owner's children.
    signal.signal(signal.SIGCHLD, _wait_for_ended)
    while True:
        message, ancillary, _, _ = line.recvmsg(1, _socket.CMSG_SPACE(MAX_DESCRIPTORS * 4))
        if not message:
            return
        data = b"".join(each for *_, each in ancillary)
        descriptors = [int.from_bytes(data[at : at + 4], "little") for at in range(0, len(data), 4)]
        try:
            child = os.fork()
        except OSError as error:
            os.write(descriptors[-1], b"reaper 0\nerror %d\n" % (error.errno or 0))
            child = -1
        if child == 0:
            _become_reaper(descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def _wait_for_ended(_number: int, _frame: object) -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return


def _become_reaper(descriptors: list[int]) -> None:
    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    content = b""
    while piece := os.pread(descriptors[FILE], 1 << 20, len(content)):
        content += piece
    words = os.fsdecode(content).split("\0")
    numbers, count = [int(each) for each in words[0].split(",")], int(words[1])
    report = descriptors[-1]
    os.write(report, b"reaper %d\n" % os.getpid())
    try:
        os.fchdir(descriptors[FOLDER])
    except OSError as error:
        os.write(report, b"error %d\n" % (error.errno or 0))
        os._exit(0)
    # First above all numbers that are asked for, so that none is overwritten before it has its own.
    above = [fcntl.fcntl(each, fcntl.F_DUPFD_CLOEXEC, max(numbers) + 1) for each in descriptors[FIRST:]]
    for descriptor in descriptors:
        os.close(descriptor)
    for descriptor, number in zip(above, numbers, strict=True):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.environ.clear()
    for name, _, value in (each.partition("=") for each in words[2 : 2 + count]):
        os.environ[name] = value
    reaper.run_argv(words[2 + count :])
    os._exit(0)
