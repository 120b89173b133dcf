"""The journal of an agent: what was said and done, one JSON object a line."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Protocol

import msgspec

from scaffold.core.ports import Clock
from scaffold.host.files import append_line
from scaffold.policy.consent import Approval, Tell
from scaffold.policy.redaction import Redactor

Kind = Literal["prompt", "text", "thinking", "tool_call", "tool_result", "approval", "notice", "news", "usage"]


class Journal(Protocol):
    """Where an agent writes down what happens."""

    def note(self, kind: Kind, **fields: Any) -> None:
        """Add an entry; `fields` are JSON values by names other than `ts` and `type`."""
        ...


class JournalFile:
    """A journal in a file: each line has `ts` (ISO 8601, UTC) and `type`, then `fields` of all lines, then its own.

    It holds no secrets, whoever said them.
    """

    def __init__(
        self, path: Path, *, clock: Clock, fields: Mapping[str, Any], redactor: Redactor | None = None
    ) -> None:
        self._path = path
        self._redactor = redactor or Redactor()
        self._clock = clock
        self._fields = dict(fields)

    def note(self, kind: Kind, **fields: Any) -> None:
        """Append an entry in one write."""
        entry = {"ts": self._clock.now(), "type": kind, **self._fields, **self._redactor.clean_all(fields)}
        append_line(self._path, msgspec.json.encode(entry))


class JournalList:
    """A journal in memory: `entries` as they would stand in a file, without `ts`."""

    def __init__(self) -> None:
        self.entries: list[dict[str, Any]] = []

    def note(self, kind: Kind, **fields: Any) -> None:
        """Append an entry."""
        self.entries.append({"type": kind, **fields})


def noting(journal: Journal) -> Tell:
    """Return a listener that writes a gate's decisions down."""

    def tell(approval: Approval) -> None:
        journal.note("approval", **msgspec.structs.asdict(approval))

    return tell
