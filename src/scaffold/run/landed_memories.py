"""Memories of attempts: an outcome that was verified confirms them, and its undoing takes that back."""

from collections.abc import Iterable

from scaffold.core.ids import AttemptId
from scaffold.store.database import Store


def source_of(attempt: AttemptId) -> str:
    """Return the source of what an attempt's agent remembers."""
    return f"attempt:{attempt}"


def confirm_memories(store: Store, attempt: AttemptId) -> None:
    """Let the memories of an attempt count, in the transaction that records that it has landed."""
    store.knowledge.chunks.move_all_of(source_of(attempt), before="unconfirmed", after="active")


def doubt_memories(store: Store, attempts: Iterable[AttemptId]) -> None:
    """Let the memories of attempts be unconfirmed again, in the transaction that records that they were undone."""
    for attempt in attempts:
        store.knowledge.chunks.move_all_of(source_of(attempt), before="active", after="unconfirmed")
