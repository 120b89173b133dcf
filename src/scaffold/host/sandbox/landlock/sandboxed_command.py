"""The Landlock and seccomp sandbox, for machines where bubblewrap cannot run, like most containers.

A process can restrict itself with Landlock without privileges, but it keeps the same view of the file system. Therefore
this level differs from bubblewrap's:

- In a restricted folder, one directly above a protected or hidden path (existing or not), a command cannot create,
  remove or rename entries itself, as Landlock grants that right for all subfolders too, including `.git`. The broker
  does it. Before Linux 5.19 there is no broker: then such entries must be created by the tools that write files; an
  existing `build` or `node_modules` can be filled.
- Without a network namespace, all networking is denied, or with `open` all of it is allowed. With `loopback` or `hosts`
  the broker lets a command connect to its own TCP servers and to `ports`, one of them our proxy's. It cannot connect to
  Unix sockets (Docker, tmux, SSH agent), as Landlock does not restrict them by path; socket pairs work.
- `/tmp`, `/run` and `/dev` cannot be read, except harmless devices. So there are no terminals. The broker gives shared
  memory and semaphores a folder of their own. Names can be listed everywhere.
- A command sees this machine's processes and their arguments, but not their environment, memory or files. It can
  change the mode, owner and times of the user's files outside, never their content.
"""

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import scaffold
from scaffold.host.sandbox import seccomp
from scaffold.host.sandbox.confinement import Confinement
from scaffold.host.sandbox.landlock import broker, syscall_filter
from scaffold.host.sandbox.landlock.domain import SCOPE_SINCE, RawSyscalls
from scaffold.host.sandbox.landlock.launcher import OPEN_NETWORK
from scaffold.host.sandbox.mounts import ALWAYS_READABLE

BOOTSTRAP = (
    "import sys; sys.path.append(sys.argv.pop(1)); "
    "from scaffold.host.sandbox.landlock.launcher import main; main(sys.argv[1:])"
)
"""Imported instead of run, so that the bytecode is cached; compiling takes 8 ms."""
HIDDEN_SYSTEM_FOLDERS = tuple(map(Path, ("/tmp", "/var/tmp", "/run", "/dev")))  # noqa: S108 - nothing is written there
"""Other programs exchange files there."""


def unsupported_reason() -> str | None:
    """Return why Landlock does not work on this machine; None if it does. Asks the kernel, starts nothing."""
    if sys.platform != "linux":
        return "Landlock exists only on Linux"
    if os.uname().machine not in syscall_filter.SYSCALLS:
        return f"there is no Landlock filter for {os.uname().machine} processors"
    try:
        RawSyscalls().landlock_version()
    except OSError as error:
        return f"the kernel does not offer Landlock: {error.strerror}"
    return None


def weakness() -> str:
    """Return what this kernel's Landlock does not restrict but newer versions do; empty if nothing."""
    if RawSyscalls().landlock_version() >= SCOPE_SINCE:
        return ""
    return "before Linux 6.12 a command under Landlock can send signals to the user's other processes"


def has_broker() -> bool:
    """Return True if commands at the top of a checkout have a broker on this machine."""
    return unsupported_reason() is None and broker.is_supported(RawSyscalls())


def argv(confinement: Confinement, command: Sequence[str]) -> tuple[str, ...]:
    """Return the command line that runs `command` confined; see `launcher` for exit codes on failure."""
    machine, kernel = os.uname().machine, RawSyscalls()
    brokered = broker.is_supported(kernel)
    loopback = brokered and confinement.network in {"loopback", "hosts"}
    internet = "open" if confinement.network == "open" else "loopback" if loopback else "none"
    filters = seccomp.program(internet), syscall_filter.program(machine, kernel.landlock_version())
    stopping = syscall_filter.notifying_program(machine, sockets=loopback) if brokered else b""
    return (
        *(sys.executable, "-I", "-S", "-c", BOOTSTRAP, str(Path(scaffold.__file__).parents[1])),
        *(f"{kind}:{path}" for kind, paths in _paths_by_kind(confinement) for path in paths),
        *(f"filter:{program.hex()}" for program in filters),
        *((f"alone:{seccomp.program('none').hex()}",) if loopback else ()),
        *((f"notify:{stopping.hex()}", f"temporary:{confinement.temporary}") if stopping else ()),
        *(f"port:{port}" for port in (confinement.ports if loopback else ())),
        *((OPEN_NETWORK,) if confinement.network == "open" else ()),
        *("--", *command),
    )


def _paths_by_kind(confinement: Confinement) -> Iterator[tuple[str, Sequence[Path]]]:
    writable = (*confinement.writable, confinement.temporary)
    yield "writable", writable
    yield "sealed", confinement.protected
    # A missing path in a writable folder is skipped, as the command may create it.
    hidden = [
        path
        for path in confinement.hidden
        if os.path.lexists(path) or not any(path.is_relative_to(folder) for folder in writable)
    ]
    yield "hidden", (*(path for path in HIDDEN_SYSTEM_FOLDERS if path not in writable), *hidden)
    yield "shown", (*ALWAYS_READABLE, *confinement.readable)
