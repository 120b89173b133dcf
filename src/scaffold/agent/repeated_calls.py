"""Calls that are made again with the same answer: counted, pointed out to the agent, and at last ended."""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from scaffold.core.conversation import ToolCall, ToolResult
from scaffold.core.errors import ModelError
from scaffold.core.tool import Tool, ToolOutput
from scaffold.tools.content.seen_files import CURRENT_REPLY
from scaffold.tools.read_cache import is_read_only

NOTE_AT = 3  # replies with the same failing call from which on its answer says so
MAX_REPEATS = 3
"""How often the same call gets the same answer, with nothing new in between, in a loop."""
MAX_SIMILAR = 6
"""How often a tool fails, or reads, with an answer that it gave before to whatever arguments, in a loop."""

# Addresses, durations and process ids differ each time the same test fails.
_VARYING = re.compile(r"0x[0-9a-f]+|\d+(?:\.\d+)?")


def call_fingerprint(tool: str, args: Mapping[str, Any], answer: str) -> str:
    """Return a fingerprint of a call and its answer; numbers in the answer, e.g. durations, do not count."""
    same = json.dumps([tool, args, _VARYING.sub("#", answer)], sort_keys=True)
    return hashlib.sha256(same.encode()).hexdigest()


class LoopDetected(ModelError):
    """The agent is in a loop; another request to its model would only cost more."""


Exchange = tuple[str, bytes, str]
"""The tool, the arguments and the answer of a call, as far as they are compared."""


class _Repeats:
    """Counts the replies with only known exchanges, since the last one with a new one."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._seen: set[Exchange] = set()
        self._repeats = Counter[Exchange]()

    def add(self, exchanges: set[Exchange]) -> str | None:
        # One new exchange makes a reply progress, however many old ones it repeats.
        if exchanges <= self._seen:
            self._repeats.update(exchanges)
        else:
            self._repeats.clear()
        self._seen |= exchanges
        return next((each[0] for each in exchanges if self._repeats[each] == self.most - 1), None)


class RepeatedExchanges:
    """Counts the calls of an agent that got the same answers, since it last heard something new."""

    def __init__(self, is_read_only: Callable[[ToolCall], bool]) -> None:
        self._is_read_only = is_read_only
        self.clear()

    def clear(self) -> None:
        """Forget all: whatever the agent has just been told may be a reason to call again."""
        self._equal, self._similar = _Repeats(MAX_REPEATS), _Repeats(MAX_SIMILAR)

    def add(self, calls: Sequence[ToolCall], results: Sequence[ToolResult]) -> str:
        """Count the exchanges of a reply; return which tool gave how many answers that say nothing new, or ""."""
        # Sets, because the order of parallel calls and duplicates in one reply do not matter. Sorted arguments,
        # because models vary the order of keys.
        equal, similar = set[Exchange](), set[Exchange]()
        for call, result in zip(calls, results, strict=True):
            args = msgspec.json.encode(call.args, order="sorted")
            equal.add((call.name, args, result.content))
            # Which arguments matter, only the tool knows; but a call that changes nothing has to say something new.
            answer = _VARYING.sub("#", result.content) if result.failed else result.content
            similar.add((call.name, b"" if result.failed or self._is_read_only(call) else args, answer))
        tool, again = self._similar.add(similar), self._equal.add(equal)
        if again:
            return f"`{again}` gave the same answer to the same call {MAX_REPEATS} times"
        return f"`{tool}` gave an answer that it gave before {MAX_SIMILAR} times" if tool else ""


class FailedCall(Struct, frozen=True, kw_only=True):
    """A failed tool call, its turn, and the state of the tree."""

    turn: int
    call: str
    """A fingerprint."""
    tree: str
    """A fingerprint of the worktree, or whatever else stays the same while nothing changes."""


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


class RepeatNotes:
    """Adds a note to the answer of a call that fails the same way for the third time.

    A change is a call that may change something, succeeded, and did not do so in the same way before.
    """

    def __init__(self) -> None:
        self._failures = RepeatedFailures()
        self._changes: set[str] = set()
        self._reply: object = None
        self._turn = 0

    async def watch(self, call: ToolCall, tool: Tool | None, answer: ToolOutput, /) -> ToolOutput:
        """Return the answer to a call, with a note if it is due; an `io_port.AnswerWatch`."""
        same = call_fingerprint(call.name, call.args, answer.content)
        if answer.failed:
            return self._add_note(same, answer)
        if tool is not None and not is_read_only(tool) and tool.category != "memory":
            self._changes.add(same)
        return answer

    def _add_note(self, call: str, output: ToolOutput) -> ToolOutput:
        # Equal calls of one reply are one failure: the model could not react in between.
        if (reply := CURRENT_REPLY.get()) is not self._reply or reply is None:
            self._reply, self._turn = reply, self._turn + 1
        tree = str(len(self._changes))
        self._failures = self._failures.after(FailedCall(turn=self._turn, call=call, tree=tree))
        times = self._failures.times(call)
        if times < NOTE_AT:
            return output
        note = f"This call failed the same way {times} times, and nothing was changed in between. Do something else."
        return msgspec.structs.replace(output, content=f"{output.content}\n{note}")
