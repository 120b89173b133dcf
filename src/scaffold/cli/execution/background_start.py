"""Sending a run into the background: `--detach`, and the REPL."""

import os
from threading import Event

from scaffold.cli.wiring import PROGRAM
from scaffold.core.errors import ScaffoldError
from scaffold.core.ids import RunId
from scaffold.host.detached import start_detached
from scaffold.host.identity import is_alive
from scaffold.run.context import RunContext

POLL_S = 0.05
LOG_NAME = "background"
"""What its log is called: no attempt and no goal has such an id."""


def start_in_background(site: RunContext, run_id: RunId) -> int:
    """Have a run carried out by a process that outlives this one; return its pid once it has taken the run.

    The run must have no owner. ScaffoldError with its last words if it ends before it has taken the run.
    """
    log = site.process_log(run_id, LOG_NAME)
    begun = site.store.runs.get(run_id)
    child = start_detached([*PROGRAM, "background", run_id], cwd=site.repository.root, env=dict(os.environ), log=log)
    while is_alive(child):
        run = site.store.runs.get(run_id)
        if run is not None and begun is not None and run.fence > begun.fence:
            return child.pid
        Event().wait(POLL_S)
    run = site.store.runs.get(run_id)
    if run is not None and begun is not None and run.fence > begun.fence:
        return child.pid
    said = site.log_tail(run_id, LOG_NAME)
    raise ScaffoldError(f"the run did not begin in the background: {said}", f"Try `scaffold resume {run_id}`.")
