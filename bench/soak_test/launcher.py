"""Starts commands, adopts everything they leave behind, and tells how much CPU all of it used.

`python launcher.py LOG` reads command lines as JSON lists from its stdin and starts each; what they print is in LOG.
When stdin has ended and no process is left, it prints the seconds of CPU that all processes that ever lived below it
have used. Linux only.
"""

import ctypes
import json
import os
import resource
import select
import sys

PR_SET_CHILD_SUBREAPER = 36
POLL_S = 0.05


def main() -> None:
    """Serve until stdin has ended and no process is left."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")
    nothing = os.open(os.devnull, os.O_RDONLY)
    log = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    streams = [(os.POSIX_SPAWN_DUP2, each, number) for number, each in enumerate((nothing, log, log))]
    reading, buffer = True, b""
    while _reap() or reading:
        if not select.select([0] if reading else [], [], [], POLL_S)[0]:
            continue
        received = os.read(0, 65536)
        reading = bool(received)
        *lines, buffer = (buffer + received).split(b"\n")
        for line in lines:
            argv = json.loads(line)
            os.posix_spawn(argv[0], argv, os.environ, file_actions=streams, setsid=True)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    sys.stdout.write(f"{used.ru_utime + used.ru_stime}\n")


def _reap() -> bool:
    """Wait for all that has ended; return whether anything still lives."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


if __name__ == "__main__":
    main()
