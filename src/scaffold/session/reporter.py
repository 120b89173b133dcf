"""What a session tells of its progress, as a Protocol; each output format implements it."""

from collections.abc import Mapping
from typing import Any, Protocol

from scaffold.agent.journal import EntryKind
from scaffold.core.conversation import Delta


class Reporter(Protocol):
    """Is told what happens, and tells it on; also an agent's journal."""

    for_people: bool
    """Whether errors are to be told in words, on standard error, and not in the result."""

    def session(self, **fields: str) -> None:
        """Take the beginning: which conversation, which model, where."""
        ...

    def hear(self, delta: Delta) -> None:
        """Take what a model says while it says it."""
        ...

    def note(self, kind: EntryKind, **fields: Any) -> None:
        """Take what was said and done."""
        ...

    def result(self, shape: Mapping[str, object]) -> None:
        """Take the end; `shape` is the object that `--output-format json` prints."""
        ...
