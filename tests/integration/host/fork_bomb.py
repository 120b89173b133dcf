"""A fork bomb with bounds: `fork_bomb.py FOLDER HEADS SECONDS`; it ends by itself after SECONDS.

At most HEADS processes live at a time, each with the lock of a file in FOLDER and in a session of its own. Each fills
three places that are free and makes place itself then, so that whoever looks for them finds others than he saw.
"""

import fcntl
import os
import signal
import sys
import time


def place(folder, number):
    """Return a descriptor that locks a slot, None if another process has it."""
    fd = os.open(f"{folder}/{number}", os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    return fd


def main(folder, heads, seconds):
    """Keep starting processes; the first process only waits for the end."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    end = time.monotonic() + float(seconds)
    if os.fork():
        signal.alarm(int(float(seconds)) + 1)
        signal.pause()
    mine, children, number = place(folder, 0), 0, os.getpid()
    while time.monotonic() < end and children < 3:
        number = (number + 1) % int(heads)
        free = place(folder, number)
        if free is None:
            continue
        if os.fork():
            os.close(free)
            children += 1
            continue
        os.close(mine)
        mine, children, number = free, 0, os.getpid()
        os.setsid()
        signal.alarm(max(1, int(end - time.monotonic()) + 1))


if __name__ == "__main__":
    main(*sys.argv[1:])
