"""Start a run in the background, for `--detach` and the REPL."""

import os
from threading import Event

from scaffold.cli.wiring import PROGRAM
from scaffold.core.errors import ScaffoldError
from scaffold.core.ids import RunId
from scaffold.host.identity import is_alive
from scaffold.host.process.child import start_detached
from scaffold.orchestrator.owner.run_lease import require_run
from scaffold.run.context import RunContext

POLL_S = 0.05
LOG_NAME = "background"
"""Name of its log; no attempt or goal has this id."""


def start_in_background(context: RunContext, run_id: RunId) -> int:
    """Start a process that outlives this one and executes the run; return its pid once it owns the run.

    The run must have no owner. Raises ScaffoldError with the end of the process log if the process exits earlier.
    """
    log = context.process_log(run_id, LOG_NAME)
    # Each claim raises the fence, so a higher one shows that the child owned the run, even if it has ended since.
    fence = require_run(context.store, run_id).fence
    child = start_detached([*PROGRAM, "background", run_id], cwd=context.repository.root, env=dict(os.environ), log=log)
    alive = True
    while alive:
        alive = is_alive(child)  # asked first: a process may take the run and exit between the two
        if require_run(context.store, run_id).fence > fence:
            return child.pid
        Event().wait(POLL_S)
    log_tail = context.log_tail(run_id, LOG_NAME)
    raise ScaffoldError(f"the run did not start in the background: {log_tail}", f"Try `scaffold resume {run_id}`.")
