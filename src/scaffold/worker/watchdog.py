"""When an agent gets nowhere: what counts as the same failure, and what follows from it. Pure."""

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

NUDGE_AT = 2
"""So many turns with the same failure and no change, and the agent is told."""
END_AT = 3
"""So many, and the attempt ends."""

Rung = Literal["nudge", "fresh_attempt", "smaller", "human"]
"""What helps next: a word to the agent | another attempt that knows the cause | another plan | somebody to decide."""
FOLLOWS: Mapping[Rung, str] = {
    "nudge": "It was told to try another way.",
    "fresh_attempt": "The next attempt begins anew and knows of this.",
    "smaller": "The work is to be planned anew, in smaller steps.",
    "human": "Nobody but a human can help on.",
}

_VARYING = re.compile(r"0x[0-9a-f]+|\d+(?:\.\d+)?")


def next_rung(*, nudged: bool, attempts_left: int, planner: bool) -> Rung:
    """Return what helps an agent next that gets nowhere; `attempts_left` are those after the present one."""
    if not nudged:
        return "nudge"
    if attempts_left > 0:
        return "fresh_attempt"
    return "smaller" if planner else "human"


def fingerprint(tool: str, args: Mapping[str, Any], answer: str) -> str:
    """Return what tells a failed call from another one: numbers in the answer, e.g. how long it took, do not."""
    same = json.dumps([tool, args, _VARYING.sub("#", answer)], sort_keys=True)
    return hashlib.sha256(same.encode()).hexdigest()


class Failure(Struct, frozen=True, kw_only=True):
    """A call that failed, in which turn, and what the tree was like then."""

    turn: int
    call: str
    """A fingerprint."""
    tree: str
    """Differs as soon as the tree does."""


class Repetition(Struct, frozen=True, kw_only=True):
    """In which turns the same calls failed while the tree stayed as it is."""

    tree: str = ""
    turns: Mapping[str, frozenset[int]] = {}

    def after(self, failure: Failure) -> "Repetition":
        """Return what is known once `failure` has happened too; a changed tree makes all before it forgotten."""
        known = self.turns if failure.tree == self.tree else {}
        again = known.get(failure.call, frozenset()) | {failure.turn}
        return Repetition(tree=failure.tree, turns={**known, failure.call: again})

    def times(self, call: str) -> int:
        """Return in how many turns the call failed like this."""
        return len(self.turns.get(call, ()))
