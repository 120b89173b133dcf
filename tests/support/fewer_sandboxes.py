"""Run a command as on a machine with a weaker sandbox: `fewer_sandboxes.py landlock|none COMMAND...`.

The kernel refuses what bubblewrap needs, and for `none` what Landlock needs, too.
"""

import errno
import os
import sys

from scaffold.host.sandbox.landlock.domain import RawSyscalls
from scaffold.host.sandbox.seccomp import ANY_OF, SYSCALL_TABLES, argument, assemble, deny, on_syscall

CLONE3 = 435
LANDLOCK_CALLS = (444, 445, 446)
NEW_USER_NAMESPACE = 0x1000_0000
PR_SET_NO_NEW_PRIVS = 38


def program(machine: str, level: str) -> bytes:
    """Return the seccomp program; a C library that has no `clone3` uses `clone`, whose flags a program can read."""
    table = SYSCALL_TABLES[machine]
    hidden = (CLONE3, *(LANDLOCK_CALLS if level == "none" else ()))
    steps = [step for number in hidden for step in on_syscall(number, [deny(errno.ENOSYS)])]
    for number in (table.clone, table.unshare):
        steps += on_syscall(number, [argument(0), (ANY_OF, 0, 1, NEW_USER_NAMESPACE), deny()])
    return assemble(machine, steps)


def main(level: str, *command: str) -> None:
    """Become the command."""
    kernel = RawSyscalls()
    kernel.control(PR_SET_NO_NEW_PRIVS, 1)
    kernel.ask(program(os.uname().machine, level))
    os.execvp(command[0], command)


if __name__ == "__main__":
    if len(sys.argv) < 3 or sys.argv[1] not in {"landlock", "none"}:
        sys.exit(__doc__)
    main(*sys.argv[1:])
