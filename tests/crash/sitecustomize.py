"""Kills the process that passes the N-th persisted transition of a run, in whichever process that is.

Python imports this at start when the folder is on PYTHONPATH, so workers are reached as well; without `CRASH_COUNTER`
it does nothing. A transition is a commit of the store, a git command that changes something, or what `git push` and
`gh` change elsewhere; there is a point right before and right after each. With `CRASH_PHASE` only entering that phase
of an attempt is one; `drafting` and `refining` a contract are phases with points within. With `CRASH_DISTINCT`,
`before` or `after`, only points before or after a change count, and each once for its place in the source, but not
those in the file `CRASH_KNOWN`. With `CRASH_CALLER` only those count whose place in the source contains it. With
`CRASH_OWNER`, the path of a file of ours, it is not who passes the point that
dies, but the command that was started by hand; with `CRASH_ALL` both do. `CRASH_SIGNAL` names another signal than
SIGKILL. With `CRASH_STAYS` who passes the point and does not die comes no further until it is ended. With
`CRASH_REMOVE`, the cache, nobody dies: the worktrees in it are removed. With `CRASH_FILE`, a part of a path,
only a file with such a path is one that is replaced: when the new one is complete, and in place.
"""

import fcntl
import os
import signal
import sys
from contextlib import contextmanager
from pathlib import Path

CHANGING = frozenset(
    {"update-ref", "worktree", "commit-tree", "checkout", "clean", "add", "reset", "write-tree", "merge"}
)


CHANGING_ELSEWHERE = frozenset({"push", "create", "PATCH"})
"""Words of the commands by which git and `gh` change what is on a server."""


def point(name: str) -> None:
    """Count this point across all processes, log its name, and die if it is the selected one."""
    with Path(os.environ["CRASH_COUNTER"]).open("r+") as counter:
        fcntl.flock(counter, fcntl.LOCK_EX)
        passed = counter.read().splitlines()
        if "CRASH_CALLER" in os.environ:
            name = f"{name} in {_caller()}"
            if os.environ["CRASH_CALLER"] not in name:
                return
        if "CRASH_DISTINCT" in os.environ:
            name = f"{name} in {_caller()}"
            if not name.startswith(os.environ["CRASH_DISTINCT"]) or name in passed or name in _known():
                return
        counter.write(f"{name}\n")
        counter.flush()
        if len(passed) + 1 == int(os.environ["CRASH_AT"]):
            _harm(name)


def _harm(name: str) -> None:
    if "CRASH_REMOVE" in os.environ:
        from scaffold.host.atomic_files import delete_path

        for worktree in Path(os.environ["CRASH_REMOVE"]).glob("runs/*/*/attempts/*"):
            delete_path(worktree)
        return
    victims = _victims()
    for pid in victims:
        os.kill(pid, signal.Signals[os.environ.get("CRASH_SIGNAL", "SIGKILL")])
    # The owner could not write if the transaction stayed open.
    while "CRASH_STAYS" in os.environ and os.getpid() not in victims and name.partition(" in ")[0] != "before commit":
        signal.pause()


def _known() -> list[str]:
    """Return the points that are tried elsewhere."""
    return Path(os.environ["CRASH_KNOWN"]).read_text().splitlines() if "CRASH_KNOWN" in os.environ else []


def _caller() -> str:
    """Return the two innermost functions outside of store and git on the stack."""
    frame, callers = sys._getframe(1), []
    while frame is not None and len(callers) < 2:
        module = frame.f_globals.get("__name__", "")
        if module.startswith("scaffold.") and not module.startswith(("scaffold.store.", "scaffold.git.")):
            callers.append(f"{module}.{frame.f_code.co_qualname}")
        frame = frame.f_back
    return " for ".join(callers)


def _victims() -> list[int]:
    """Return the pids to kill: this process, or the owner of the run, which waits for this one and so is alive."""
    owner = os.environ.get("CRASH_OWNER")
    own = [os.getpid()] if not owner or "CRASH_ALL" in os.environ else []
    return [*([int(Path(owner).read_text())] if owner else []), *own]


def install(counts=lambda: True) -> None:
    """Put a point around every commit and every changing git command, while `counts` is true."""
    from scaffold.git.client.command_line import Git
    from scaffold.store.driver.connection import Connection

    transaction, call = Connection.transaction, Git.__call__

    @contextmanager
    def crashing_transaction(self, *, durable=False):
        with transaction(self, durable=durable):
            yield
            if counts():
                point("before commit")
        if counts():
            point("after commit")

    async def crashing_call(self, *args, **options):
        if args[0] not in CHANGING or "list" in args or not counts():
            return await call(self, *args, **options)
        point(f"before git {args[0]}")
        answer = await call(self, *args, **options)
        point(f"after git {args[0]}")
        return answer

    Connection.transaction = crashing_transaction
    Git.__call__ = crashing_call
    install_elsewhere()


def install_elsewhere() -> None:
    """Put a point around every program of the user's that changes something on a server."""
    from scaffold.landing.taking import user_programs

    run = user_programs.run_as_user

    async def crashing_run(context, *argv, **options):
        changed = CHANGING_ELSEWHERE.intersection(argv[:4])
        for word in changed:
            point(f"before {argv[0]} {word}")
        finished = await run(context, *argv, **options)
        for word in changed:
            point(f"after {argv[0]} {word}")
        return finished

    user_programs.run_as_user = crashing_run


def install_at(phase):
    """Put a point right after an attempt has entered the phase, and one after it was `criticised`."""
    from scaffold.worker.attempt_records import AttemptRecords

    enter, criticised = AttemptRecords.enter, AttemptRecords.criticised

    def crashing_enter(self, entered, **options):
        enter(self, entered, **options)
        if entered == phase:
            point(f"in {phase}")

    def crashing_criticised(self, *args, **options):
        criticised(self, *args, **options)
        if phase == "criticised":
            point(phase)

    AttemptRecords.enter, AttemptRecords.criticised = crashing_enter, crashing_criticised


def install_within(phase):
    """Put points at both ends of drafting or refining a contract, and at each change in between."""
    from scaffold.worker.verification import AttemptVerifier

    within = []
    begun, strengthened = AttemptVerifier.prepare, AttemptVerifier.strengthened

    async def crashing(work, *args):
        within.append(phase)
        point(f"begin {phase}")
        done = await work(*args)
        point(f"end {phase}")
        within.clear()
        return done

    async def crashing_begun(_, *args):
        return await crashing(begun, *args)

    async def crashing_strengthened(self, *args):
        return await crashing(strengthened, self, *args)

    if phase == "drafting":
        AttemptVerifier.prepare = classmethod(crashing_begun)
    else:
        AttemptVerifier.strengthened = crashing_strengthened
    install(counts=lambda: bool(within))


def install_at_file(part):
    """Put a point before and after a file whose path contains `part` is replaced by a new one."""
    replace = os.replace

    def crashing_replace(source, target, **folders):
        folder = Path(f"/proc/self/fd/{folders['dst_dir_fd']}").readlink() if folders else ""
        is_it = part in f"{folder}/{target}"
        if is_it:
            point("written")
        replace(source, target, **folders)
        if is_it:
            point("in place")

    os.replace = crashing_replace


if "CRASH_COUNTER" in os.environ and "scaffold" in sys.orig_argv:
    if "CRASH_OWNER" in os.environ and "run" in sys.orig_argv:
        Path(os.environ["CRASH_OWNER"]).write_text(str(os.getpid()))
    phase = os.environ.get("CRASH_PHASE")
    if "CRASH_FILE" in os.environ:
        install_at_file(os.environ["CRASH_FILE"])
    elif phase in {"drafting", "refining"}:
        install_within(phase)
    elif phase:
        install_at(phase)
    else:
        install()
