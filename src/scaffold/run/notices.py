"""Notices to the user, each recorded once in a run."""

from scaffold.core.events import NoticeRaised
from scaffold.core.ids import RunId
from scaffold.run.context import RunContext


def warn(context: RunContext, run_id: RunId, text: str) -> None:
    """Record a warning in the run, unless it is already there; secrets are removed."""
    _append_once(context, run_id, NoticeRaised("warning", context.redactor.clean(text)))


def inform(context: RunContext, run_id: RunId, text: str) -> None:
    """Record an informational notice in the run, unless it is already there; secrets are removed."""
    _append_once(context, run_id, NoticeRaised("info", context.redactor.clean(text)))


def _append_once(context: RunContext, run_id: RunId, notice: NoticeRaised) -> None:
    with context.store.transaction():
        if not context.store.events.has_notice(run_id, notice):
            context.store.events.append(run_id, notice)
