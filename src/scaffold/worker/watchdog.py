"""Agents without progress: which failures count as the same, and how to escalate. Pure."""

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

NUDGE_AT = 2
"""Turns with the same failure and no change after which the agent is nudged."""
END_AT = 3
"""Turns after which the attempt ends."""

Escalation = Literal["nudge", "fresh_attempt", "smaller", "human"]
"""What helps next: a message to the agent, an attempt that knows the cause, a plan with smaller steps, a human."""
ESCALATION_TEXT: Mapping[Escalation, str] = {
    "nudge": "The agent was told to try a different approach.",
    "fresh_attempt": "The next attempt starts over and is told the cause.",
    "smaller": "The work will be planned again in smaller steps.",
    "human": "A human has to decide how to continue.",
}

_VARYING = re.compile(r"0x[0-9a-f]+|\d+(?:\.\d+)?")


def next_escalation(*, nudged: bool, attempts_left: int, planner: bool) -> Escalation:
    """Return the next escalation for an agent without progress; `attempts_left` excludes the current one."""
    if not nudged:
        return "nudge"
    if attempts_left > 0:
        return "fresh_attempt"
    return "smaller" if planner else "human"


def call_fingerprint(tool: str, args: Mapping[str, Any], answer: str) -> str:
    """Return a fingerprint of a failed call; numbers in the answer, e.g. durations, do not count."""
    same = json.dumps([tool, args, _VARYING.sub("#", answer)], sort_keys=True)
    return hashlib.sha256(same.encode()).hexdigest()


class FailedCall(Struct, frozen=True, kw_only=True):
    """A failed tool call, its turn, and the state of the tree."""

    turn: int
    call: str
    """A fingerprint."""
    tree: str
    """A fingerprint of the worktree."""


class RepeatedFailures(Struct, frozen=True, kw_only=True):
    """The turns in which each call failed while the tree stayed the same."""

    tree: str = ""
    turns: Mapping[str, frozenset[int]] = {}

    def after(self, failure: FailedCall) -> "RepeatedFailures":
        """Return the counts including `failure`; a changed tree resets them."""
        known = self.turns if failure.tree == self.tree else {}
        again = known.get(failure.call, frozenset()) | {failure.turn}
        return RepeatedFailures(tree=failure.tree, turns={**known, failure.call: again})

    def times(self, call: str) -> int:
        """Return the number of turns in which the call failed."""
        return len(self.turns.get(call, ()))
