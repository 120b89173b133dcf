"""Landlock and seccomp: how commands are held where bubblewrap cannot run, as in most containers.

Every process may shut itself in like this, but it can only give up rights, not see another world. So it differs from
bubblewrap's level:

- In a folder with something sealed or hidden directly below it, there or not, nothing can be made, removed, renamed or
  exchanged: a right to make entries holds for all folders below too, for a `.git` as well. What is in such a folder can
  be changed in place, its other folders freely. At the top of a workspace new entries must thus come from the tools
  that write files; `build` or `node_modules` can be filled once they are there. A `.git` that is a file is no
  exception: in a worktree of the user's own his prompt would trust a changed one. Who trusts none seals none.
- There is no network, whatever the confinement grants, but all of it where that is `open`: without a network of its own
  a command would reach the loopback of this machine. Nor can it connect to Unix sockets, those of Docker, tmux or the
  SSH agent among them, as Landlock knows no path to a socket; connected pairs of streams remain. Pipes, pytest's
  workers and Node's child processes work, databases and all else that listens does not.
- `/tmp`, `/run` and `/dev` cannot be read, besides harmless devices. So there are no terminals, and no shared memory:
  Python's locks between processes, and the process pools that are built on them, do not work. Names can be listed
  everywhere.
- The processes of this machine can be seen with their arguments, though not their environment, memory and files; of
  files outside, mode, owner and times can be changed as far as they are the user's, never content.
"""

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from scaffold.host.sandbox import landlock_filter, seccomp
from scaffold.host.sandbox.confinement import Confinement
from scaffold.host.sandbox.ground import NEEDED
from scaffold.host.sandbox.landlock_launcher import OPEN_NETWORK, SCOPE_SINCE, Kernel

START = "import sys; sys.path.append(sys.argv.pop(1)); from landlock_launcher import main; main(sys.argv[1:])"
"""Imported, not run, as then it is compiled once and not each time, which takes 8 ms."""
CLOSED = tuple(map(Path, ("/tmp", "/var/tmp", "/run", "/dev")))  # noqa: S108 - nothing is written there
"""What other programs leave for each other."""


def usable() -> str | None:
    """Return why Landlock cannot hold commands on this machine; None if it can. Asks the kernel, starts nothing."""
    if sys.platform != "linux":
        return "Landlock is a part of Linux"
    if os.uname().machine not in landlock_filter.PROCESSORS:
        return f"calls on a {os.uname().machine} processor are not known here"
    try:
        Kernel().landlock_version()
    except OSError as error:
        return f"the kernel offers no Landlock here: {error.strerror}"
    return None


def weakness() -> str:
    """Return what this kernel, which offers Landlock, leaves open beyond what every one does; empty for nothing."""
    if Kernel().landlock_version() >= SCOPE_SINCE:
        return ""
    return "before Linux 6.12 a command under Landlock can send signals to the user's other processes"


def argv(confinement: Confinement, command: Sequence[str]) -> tuple[str, ...]:
    """Return what to start so that `command` runs confined; see the launcher for how it ends where it cannot."""
    internet = seccomp.program("open" if confinement.network == "open" else "none")
    filters = internet, landlock_filter.program(os.uname().machine, Kernel().landlock_version())
    return (
        *(sys.executable, "-I", "-S", "-c", START, str(Path(__file__).parent)),
        *(f"{kind}:{path}" for kind, paths in _marked(confinement) for path in paths),
        *(f"filter:{program.hex()}" for program in filters),
        *((OPEN_NETWORK,) if confinement.network == "open" else ()),
        *("--", *command),
    )


def _marked(confinement: Confinement) -> Iterator[tuple[str, Sequence[Path]]]:
    """Yield the kinds of path that the launcher knows, with theirs."""
    writable = (*confinement.writable, confinement.temporary)
    yield "writable", writable
    yield "sealed", confinement.sealed
    yield "hidden", tuple(_hidden(confinement, writable))
    yield "shown", (*NEEDED, *confinement.shown)


def _hidden(confinement: Confinement, writable: Sequence[Path]) -> Iterator[Path]:
    """Yield what is hidden; what is not there hides nothing where the command itself could make it."""
    yield from (path for path in CLOSED if path not in writable)
    for path in confinement.hidden:
        there = os.path.lexists(path)
        if there or not any(path.is_relative_to(folder) for folder in writable):
            yield path
