"""Agents of planners and supervisors for tests: what they say is written, and what they are asked is kept."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from scaffold.core.conversation import Request, Text, UserMessage, ignore_delta
from scaffold.llm.cassette.model import (
    Cassette,
    CassetteEntry,
    CassetteFault,
    CassetteModel,
    CassettePrices,
    CassetteToolCall,
    CassetteUsage,
    RequestMatcher,
)

Call = tuple[str, Mapping[str, Any]]
Said = str | CassetteFault | Call | Sequence[Call]
"""Last words, what goes wrong, or tool calls."""


def create(goal: str, *actions: Mapping[str, Any], parent: str | None = None) -> Call:
    """Return the call that creates actions, below `parent` if there is one."""
    under = {} if parent is None else {"parent": parent}
    return ("goap_create_actions", {"goal": goal, "actions": list(actions), **under})


def piece(key: str, *, gives: Sequence[str], needs: Sequence[str] = (), **fields: Any) -> dict[str, Any]:
    """Return an action as an agent writes it."""
    return {
        "key": key,
        "description": f"Do {key}.",
        "kind": "primitive",
        "preconditions": list(needs),
        "effects": list(gives),
    } | fields


class Mind:
    """A model that says these things in this order, by the number of the request; `asked` are the requests it got."""

    window_tokens = None

    def __init__(self, *said: Said, usd: float = 0.0, meanwhile: Callable[[int], None] | None = None) -> None:
        """`meanwhile` is called while a request waits for its reply, with the request's number."""
        self.asked: list[Request] = []
        self._meanwhile = meanwhile
        self._tape = CassetteModel(
            Cassette(
                path=Path("minds"),
                digest="",
                entries=tuple(_entry(at, each) for at, each in enumerate(said, 1)),
                prices=CassettePrices(input_per_mtok=usd),
            )
        )

    def estimate(self, request):
        return self._tape.estimate(request)

    async def reply(self, request, hear=ignore_delta):
        self.asked.append(request)
        if self._meanwhile is not None:
            self._meanwhile(len(self.asked))
        return await self._tape.reply(request, hear)

    def said_to(self, at: int) -> str:
        """Return the last words, or tool results, of the request of that number, from 1."""
        last = self.asked[at - 1].messages[-1]
        assert isinstance(last, UserMessage)
        return "\n".join(part.text if isinstance(part, Text) else part.content for part in last.parts)

    @asynccontextmanager
    async def opened(self):
        """Hold the model open, as faces do."""
        yield self


def _entry(turn: int, said: Said) -> CassetteEntry:
    when, usage = RequestMatcher(role="supervisor", turn=turn), CassetteUsage(input_tokens=1_000_000)
    match said:
        case str():
            return CassetteEntry(when=when, usage=usage, text=said)
        case CassetteFault():
            return CassetteEntry(when=when, usage=usage, fault=said)
        case (str(), Mapping()):
            return CassetteEntry(when=when, usage=usage, tool_calls=(CassetteToolCall(*said),))
        case _:
            return CassetteEntry(when=when, usage=usage, tool_calls=tuple(CassetteToolCall(*call) for call in said))
