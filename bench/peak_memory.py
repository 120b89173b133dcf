"""`python peak_memory.py PROGRAM [ARG...]` runs a program and prints the peak of its memory in kB.

A child counts the memory of whoever starts it as its own until it has a program of its own, so this must be small.
"""

import os
import sys


def main(argv: list[str]) -> None:
    """Run it with its output thrown away; end with its exit code."""
    quiet = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_RDWR, 0)]
    _, status, used = os.wait4(os.posix_spawnp(argv[0], argv, os.environ, file_actions=quiet), 0)
    sys.stdout.write(str(used.ru_maxrss if sys.platform == "linux" else used.ru_maxrss // 1024))
    sys.exit(os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main(sys.argv[1:])
