"""Kills the process that passes the N-th persisted transition of a run, in whichever process that is.

Python imports this at start when the folder is on PYTHONPATH, so workers are reached as well; without
`CRASH_COUNTER` it does nothing. A transition is a commit of the store or a git command that changes something;
there is a point right before and right after each. With `CRASH_PHASE` only entering that phase of an attempt is one.
"""

import fcntl
import os
import signal
import sys
from contextlib import contextmanager
from pathlib import Path

CHANGING = frozenset({"update-ref", "worktree", "commit-tree", "checkout", "clean", "add", "reset", "write-tree"})


def point(name: str) -> None:
    """Count this point for all processes together, write its name down, and die if it is the one."""
    with Path(os.environ["CRASH_COUNTER"]).open("r+") as counter:
        fcntl.flock(counter, fcntl.LOCK_EX)
        passed = counter.read().splitlines()
        counter.write(f"{name}\n")
        counter.flush()
        if len(passed) + 1 == int(os.environ["CRASH_AT"]):
            os.kill(os.getpid(), signal.SIGKILL)


def install() -> None:
    """Put a point around every commit and every changing git command."""
    from scaffold.git.command import Git
    from scaffold.store.connection import Connection

    transaction, call = Connection.transaction, Git.__call__

    @contextmanager
    def crashing_transaction(self, *, durable=False):
        with transaction(self, durable=durable):
            yield
            point("before commit")
        point("after commit")

    async def crashing_call(self, *args, **options):
        if args[0] not in CHANGING or "list" in args:
            return await call(self, *args, **options)
        point(f"before git {args[0]}")
        answer = await call(self, *args, **options)
        point(f"after git {args[0]}")
        return answer

    Connection.transaction = crashing_transaction
    Git.__call__ = crashing_call


def install_at(phase):
    """Put a point right after an attempt is known to have entered the phase, and one after it was `criticised`."""
    from scaffold.worker.record import Record

    enter, criticised = Record.enter, Record.criticised

    def crashing_enter(self, entered, **options):
        enter(self, entered, **options)
        if entered == phase:
            point(f"in {phase}")

    def crashing_criticised(self, *args, **options):
        criticised(self, *args, **options)
        if phase == "criticised":
            point(phase)

    Record.enter, Record.criticised = crashing_enter, crashing_criticised


if "CRASH_COUNTER" in os.environ and "scaffold" in sys.orig_argv:
    if "CRASH_PHASE" in os.environ:
        install_at(os.environ["CRASH_PHASE"])
    else:
        install()
