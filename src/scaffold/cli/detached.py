"""Sending a run into the background: `--detach`, and the REPL."""

import os
from threading import Event

from scaffold.cli.wiring import PROGRAM
from scaffold.core.errors import ScaffoldError
from scaffold.core.ids import RunId
from scaffold.host.detached import detach
from scaffold.host.identity import alive
from scaffold.worker.site import Site

GLANCE_S = 0.05
BACKGROUND = "background"
"""What its log is called: no attempt and no goal has such an id."""


def send_away(site: Site, run_id: RunId) -> int:
    """Have a run carried out by a process that outlives this one; return its pid once it has taken the run.

    The run must have no owner. ScaffoldError with its last words if it ends before it has taken the run.
    """
    log = site.process_log(run_id, BACKGROUND)
    begun = site.store.runs.get(run_id)
    child = detach([*PROGRAM, "conduct", run_id], cwd=site.repository.root, env=dict(os.environ), log=log)
    while alive(child):
        run = site.store.runs.get(run_id)
        if run is not None and begun is not None and run.fence > begun.fence:
            return child.pid
        Event().wait(GLANCE_S)
    run = site.store.runs.get(run_id)
    if run is not None and begun is not None and run.fence > begun.fence:
        return child.pid
    said = site.last_words(run_id, BACKGROUND)
    raise ScaffoldError(f"the run did not begin in the background: {said}", f"Try `scaffold resume {run_id}`.")
