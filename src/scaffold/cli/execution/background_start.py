"""Start a run in the background, for `--detach` and the REPL."""

import logging
import os
import sys
from pathlib import Path
from threading import Event

from scaffold.cli.global_options import LOG_VARIABLE
from scaffold.cli.wiring import PROGRAM
from scaffold.core.errors import ScaffoldError
from scaffold.core.model import Run
from scaffold.host.process import restarter
from scaffold.host.process.child import start_detached
from scaffold.host.process_identity import is_alive
from scaffold.host.user_dirs import user_dirs
from scaffold.orchestrator.owner.run_lease import hand_over_run, require_run
from scaffold.run.context import RunContext

LOG = logging.getLogger(__name__)
POLL_S = 0.05
LOG_NAME = "background"  # no attempt or goal has this id
RESTARTER = (sys.executable, "-I", "-S", restarter.__file__)


def start_in_background(context: RunContext, run: Run) -> int:
    """Hand the run, which this process owns, to a process that outlives this one; return its pid once it owns the run.

    A second process stays beside it, and starts another one if it is killed or crashes. Raises ScaffoldError with the
    end of the process log if it exits before it owns the run.
    """
    log = context.process_log(run.id, LOG_NAME)
    environ = dict(os.environ)
    # This process's log ends with it; the other one has its own, in its process log.
    verbose = ["--verbose"] if environ.pop(LOG_VARIABLE, None) else []
    LOG.debug("the background process logs to %s", log)
    argv = [*RESTARTER, *PROGRAM, "background", *verbose, run.id]
    starter = start_detached(argv, cwd=context.repository.root, env=environ, log=log)
    hand_over_run(context.store, run, starter)
    alive = True
    while alive:
        alive = is_alive(starter)  # asked first: the process may take the run and exit between the two
        # Each claim raises the fence, so a higher one shows that it owned the run, even if it has ended since.
        now = require_run(context.store, run.id)
        if now.fence > run.fence:
            return (now.owner or starter).pid
        Event().wait(POLL_S)
    log_tail = context.log_tail(run.id, LOG_NAME)
    raise ScaffoldError(f"the run did not start in the background: {log_tail}", f"Try `scaffold resume {run.id}`.")


def start_notifier() -> None:
    """Start a process that delivers what is left in the user's outbox, e.g. at the end of quiet hours, and then ends.

    If one runs already, the new one ends at once.
    """
    data = user_dirs().data
    start_detached([*PROGRAM, "notify", "--wait"], cwd=Path.home(), env=dict(os.environ), log=data / "notify.log")
