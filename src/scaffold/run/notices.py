"""Notices to the user, each recorded once in a run."""

from scaffold.core.events import NoticeRaised
from scaffold.core.ids import RunId
from scaffold.run.context import RunContext


def warn(site: RunContext, run_id: RunId, text: str) -> None:
    """Record a warning in the run, unless it is already there; secrets are removed."""
    _append_once(site, run_id, NoticeRaised("warning", site.redactor.clean(text)))


def inform(site: RunContext, run_id: RunId, text: str) -> None:
    """Record an informational notice in the run, unless it is already there; secrets are removed."""
    _append_once(site, run_id, NoticeRaised("info", site.redactor.clean(text)))


def _append_once(site: RunContext, run_id: RunId, notice: NoticeRaised) -> None:
    with site.store.transaction():
        if all(recorded.event != notice for recorded in site.store.events.since(run_id, 0)):
            site.store.events.append(run_id, notice)
