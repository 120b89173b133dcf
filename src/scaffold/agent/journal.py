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
        self,
        path: ContainedPath,
        *,
        clock: Clock,
        fields: Mapping[str, Any] | None = None,
        redactor: Redactor | None = None,
    ) -> None:
        self.path = path
        self.redactor = redactor or Redactor()
        self._clock = clock
        self._fields = dict(fields or {})

    def note(self, kind: EntryKind, **fields: Any) -> None:
        """Append an entry in one write."""
        entry = {"ts": self._clock.now(), "type": kind, **self._fields, **self.redactor.clean_all(fields)}
        self.path.append(msgspec.json.encode(entry))


def approval_logger(journal: Journal) -> ApprovalListener:
    """Return a listener that records an approval gate's decisions."""

    def tell(approval: ApprovalOutcome) -> None:
        fields = msgspec.structs.asdict(approval)
        LOG.info("%s of %s: %s (%s)", approval.decision, approval.tool or "edits", approval.reason, approval.rule)
        # The entry of the call has the arguments.
        del fields["args"]
        journal.note("approval", **fields)

    return tell


class DecisionRecord:
    """The decisions of an approval gate: told to a journal, and kept in a file of their own with all arguments."""

    def __init__(self, journal: Journal, kept: JournalFile) -> None:
        self._journal = journal
        self._kept = kept
        self.path = kept.path.path
        """Of the file, which is made by the first decision."""
        self.denials: list[Mapping[str, object]] = []
        """Each denied call: its tool, arguments and the reason."""

    def add(self, approval: ApprovalOutcome) -> None:
        """Record a decision; one that cannot be kept is told to the journal."""
        approval_logger(self._journal)(approval)
        try:
            self._kept.note("approval", **msgspec.structs.asdict(approval))
        except OSError as error:
            self._journal.note("notice", text=f"a decision was not recorded in {self.path}: {error.strerror}")
        if approval.decision == "deny":
            args = msgspec.json.decode(approval.args)
            self.denials.append({"tool": approval.tool, "args": args, "reason": approval.reason})
