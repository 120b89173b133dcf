"""The progress of a session, as a Protocol; each output format implements it."""

from collections.abc import Mapping
from typing import Any, Protocol

from scaffold.agent.journal import EntryKind
from scaffold.core.conversation import Delta


class Reporter(Protocol):
    """Receives and shows the events of a session; also the agent's journal."""

    for_people: bool
    """Whether errors are shown as text on standard error instead of in the result."""

    def session(self, **fields: str) -> None:
        """Report the start of the session: the conversation, the model, the directory."""
        ...

    def on_delta(self, delta: Delta) -> None:
        """Report a piece of a reply while it is streamed."""
        ...

    def note(self, kind: EntryKind, **fields: Any) -> None:
        """Report an entry of the journal."""
        ...

    def result(self, shape: Mapping[str, object]) -> None:
        """Report the end of the session; `shape` is the object that `--output-format json` prints."""
        ...
