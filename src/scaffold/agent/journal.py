"""The journal of an agent: its messages and tool calls, one JSON object a line."""

import logging
from collections.abc import Mapping
from typing import Any, Literal, Protocol

import msgspec

from scaffold.core.ports import Clock
from scaffold.host.contained_path import ContainedPath
from scaffold.policy.permission.approval_gate import ApprovalListener, ApprovalOutcome
from scaffold.policy.secret.redaction import Redactor

LOG = logging.getLogger(__name__)
EntryKind = Literal["prompt", "text", "thinking", "tool_call", "tool_result", "approval", "notice", "news", "usage"]


class Journal(Protocol):
    """Where an agent records what happens."""

    def note(self, kind: EntryKind, **fields: Any) -> None:
        """Add an entry; `fields` are JSON values by names other than `ts` and `type`."""
        ...


class JournalFile:
    """A journal in a file: each line has `ts` (ISO 8601, UTC), `type`, the common `fields`, then its own fields.

    Secrets are removed from every entry.
    """

    def __init__(
        self, path: ContainedPath, *, clock: Clock, fields: Mapping[str, Any], redactor: Redactor | None = None
    ) -> None:
        self._path = path
        self.redactor = redactor or Redactor()
        self._clock = clock
        self._fields = dict(fields)

    def note(self, kind: EntryKind, **fields: Any) -> None:
        """Append an entry in one write."""
        entry = {"ts": self._clock.now(), "type": kind, **self._fields, **self.redactor.clean_all(fields)}
        self._path.append(msgspec.json.encode(entry))


def approval_logger(journal: Journal) -> ApprovalListener:
    """Return a listener that records an approval gate's decisions."""

    def tell(approval: ApprovalOutcome) -> None:
        fields = msgspec.structs.asdict(approval)
        LOG.info("%s of %s: %s (%s)", approval.decision, approval.tool or "edits", approval.reason, approval.rule)
        # The entry of the call has the arguments.
        del fields["args"]
        journal.note("approval", **fields)

    return tell
