"""Confirm the memories and learnings of an attempt once its work has landed; unconfirm them if it is undone."""

from collections.abc import Iterable

from scaffold.core.ids import AttemptId
from scaffold.core.knowledge import OF_ATTEMPT
from scaffold.store.database import Store


def source_of(attempt: AttemptId) -> str:
    """Return the source of what an attempt's agent remembers."""
    return f"{OF_ATTEMPT}{attempt}"


def confirm_memories(store: Store, attempt: AttemptId) -> None:
    """Let the memories and learnings of an attempt count, in the transaction that records that it has landed."""
    store.knowledge.chunks.move_all_of(source_of(attempt), before="unconfirmed", after="active")


def doubt_memories(store: Store, attempts: Iterable[AttemptId]) -> None:
    """Let what attempts noted be unconfirmed again, in the transaction that records that their work is gone."""
    for attempt in attempts:
        store.knowledge.chunks.move_all_of(source_of(attempt), before="active", after="unconfirmed")
