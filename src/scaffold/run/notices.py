"""Notices to the user, each recorded once in a run; who writes to agents, and what is asked at a terminal."""

from scaffold.core.events import NoticeRaised
from scaffold.core.ids import RunId
from scaffold.host.process_identity import is_alive, is_stopped
from scaffold.run.context import RunContext
from scaffold.store.database import Store

HUMAN = "human"
"""Sender of the user's messages, which are orders to an agent. No agent has this name."""
MERGE_QUEUE = "merge queue"
"""Sender of the owner's messages, which are facts about what has landed. No agent has this name."""


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


def asked_items(store: Store, run_id: RunId) -> frozenset[str]:
    """Return the run's inbox items that a process asks at a terminal; one that is suspended asks nothing."""
    terminals = store.inbox.terminals(run_id)
    return frozenset(
        item for item, asking in terminals.items() if any(is_alive(each) and not is_stopped(each) for each in asking)
    )
