"""Cassettes: written model replies, so that everything but the model's words is real.

A cassette is stateless: the first entry whose `when` fits a request answers it, so the same
request always gets the same reply, in whatever order processes ask, die and ask again.
"""

import asyncio
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from msgspec import Meta, Struct, field

from scaffold.core.conversation import (
    AssistantMessage,
    Caller,
    Hear,
    Image,
    Reply,
    Request,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    unheard,
)
from scaffold.core.errors import ModelTrouble, Unwritten
from scaffold.core.model import Usage
from scaffold.llm.telling import tell

OTHER_ROLES = frozenset(
    {"planner", "supervisor", "critic", "drafter", "reviewer", "merger", "learner", "auditor", "agent"}
)
"""Roles that are not workers; every other string is a worker's role."""

TRANSIENT_STATUSES = frozenset({408, 409, 429})
"""HTTP statuses below 500 after which trying again may help."""

Ordinal = Annotated[int, Meta(ge=1)]
Amount = Annotated[int, Meta(ge=0)]
Price = Annotated[float, Meta(ge=0)]


class When(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which requests an entry answers; None means any."""

    role: str | None = None
    action: str | None = None
    attempt: Ordinal | None = None
    turn: Ordinal | None = None
    event: str | None = None
    contains: str | None = None
    """A regular expression, searched for in the last message's words and tool results."""

    def __post_init__(self) -> None:
        try:
            re.compile(self.contains or "")
        except re.error as error:
            raise ValueError(f"`contains` is no regular expression ({error})") from error

    def fits(self, request: Request) -> bool:
        """Tell whether `request` is one of those; without a role only workers fit, unless nothing at all is named."""
        caller = request.caller
        if self.role is None and caller.role in OTHER_ROLES and self != ANYTHING:
            return False
        named = (
            (self.role, caller.role),
            (self.action, caller.action),
            (self.attempt, caller.attempt),
            (self.turn, caller.turn),
            (self.event, caller.event),
        )
        if any(wanted is not None and wanted != found for wanted, found in named):
            return False
        return self.contains is None or re.search(self.contains, last_words(request)) is not None


ANYTHING = When()


class WrittenCall(Struct, frozen=True, forbid_unknown_fields=True):
    """A tool call as written; its id is made up when it is played."""

    name: str
    args: dict[str, Any] = {}


class WrittenUsage(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The tokens a reply is said to have used."""

    input_tokens: Amount = 0
    """All input, cached included."""
    cached_input_tokens: Amount = 0
    output_tokens: Amount = 0

    def __post_init__(self) -> None:
        if self.cached_input_tokens > self.input_tokens:
            raise ValueError("`input_tokens` counts all input, so it is at least `cached_input_tokens`")


class Fault(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the first `times` tries of a request go wrong; `status` counts for `http` alone."""

    kind: Literal["http", "drop", "garbage", "hang"]
    status: Annotated[int, Meta(ge=300, le=599)] = 500
    times: Ordinal = 1


class Entry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A reply and the requests it answers."""

    when: When = field(default_factory=When)
    thinking: str = ""
    text: str = ""
    tool_calls: tuple[WrittenCall, ...] = ()
    usage: WrittenUsage = field(default_factory=WrittenUsage)
    fault: Fault | None = None


class WrittenPrices(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """US dollars for a million tokens."""

    input_per_mtok: Price = 0.0
    cached_input_per_mtok: Price | None = None
    """None means that cached input costs what other input costs."""
    output_per_mtok: Price = 0.0

    def cost_usd(self, usage: WrittenUsage) -> float:
        """Return what `usage` costs."""
        cached_price = self.input_per_mtok if self.cached_input_per_mtok is None else self.cached_input_per_mtok
        fresh = usage.input_tokens - usage.cached_input_tokens
        dollars = fresh * self.input_per_mtok + usage.cached_input_tokens * cached_price
        return (dollars + usage.output_tokens * self.output_per_mtok) / 1_000_000


class Cassette(Struct, frozen=True, kw_only=True):
    """A cassette as read from `path`; `digest` is the SHA-256 of the file's bytes, in hex."""

    path: Path
    digest: str
    entries: tuple[Entry, ...]
    prices: WrittenPrices = field(default_factory=WrittenPrices)


class CassetteModel:
    """Answers from a cassette; a Model whose tries can be told apart."""

    def __init__(self, cassette: Cassette) -> None:
        self._cassette = cassette

    @property
    def endpoint(self) -> str:
        """Return the cassette's path; nobody can ask too much of it."""
        return str(self._cassette.path)

    @property
    def window_tokens(self) -> None:
        """Return None: a cassette answers conversations of any length."""

    def estimate(self, request: Request) -> Usage:
        """Return exactly what the request will use; nothing if no entry fits."""
        entry = self._fitting(request)
        return Usage() if entry is None else self._usage(entry)

    async def reply(self, request: Request, hear: Hear = unheard) -> Reply:
        """Return what the first try gives; ModelTrouble as `attempt`."""
        return await self.attempt(request, 1, hear)

    async def attempt(
        self, request: Request, try_number: int, hear: Hear = unheard, *, silence_s: float | None = None
    ) -> Reply:
        """Return the fitting entry's reply, told to `hear` at once.

        Unwritten if none fits, ModelTrouble if its fault strikes at this try (from 1). What hangs, hangs for
        `silence_s`; None means for ever.
        """
        entry = self._fitting(request)
        if entry is None:
            raise _nothing_fits(self._cassette.path, request.caller)
        if entry.fault is not None and try_number <= entry.fault.times:
            await _strike(entry.fault, silence_s)
        message = _played(entry, request.caller)
        tell(message, hear)
        return Reply(message=message, usage=self._usage(entry), stop="tool_calls" if message.tool_calls else "end")

    def _fitting(self, request: Request) -> Entry | None:
        return next((entry for entry in self._cassette.entries if entry.when.fits(request)), None)

    def _usage(self, entry: Entry) -> Usage:
        return Usage(
            input_tokens=entry.usage.input_tokens,
            cached_input_tokens=entry.usage.cached_input_tokens,
            output_tokens=entry.usage.output_tokens,
            cost_usd=self._cassette.prices.cost_usd(entry.usage),
            requests=1,
        )


def last_words(request: Request) -> str:
    """Return the words and tool results of the request's last message, one below the other."""
    if not request.messages:
        return ""
    last = request.messages[-1]
    if isinstance(last, AssistantMessage):
        return last.text
    return "\n".join(_words(part) for part in last.parts)


def _words(part: Text | Image | ToolResult) -> str:
    match part:
        case Text(text):
            return text
        case ToolResult():
            return part.content
        case Image():
            return ""


def _played(entry: Entry, caller: Caller) -> AssistantMessage:
    calls = tuple(
        ToolCall(f"call-{caller.turn}-{index}", call.name, call.args) for index, call in enumerate(entry.tool_calls, 1)
    )
    thinking = (Thinking(entry.thinking),) if entry.thinking else ()
    text = (Text(entry.text),) if entry.text else ()
    return AssistantMessage((*thinking, *text, *calls))


async def _strike(fault: Fault, silence_s: float | None) -> None:
    match fault.kind:
        case "http":
            raise ModelTrouble(
                f"The model's endpoint answered with HTTP status {fault.status}.",
                "The cassette says so: change the entry's `fault` to let it answer.",
                transient=fault.status in TRANSIENT_STATUSES or fault.status >= 500,
            )
        case "drop":
            raise ModelTrouble(
                "The connection to the model was lost in the middle of a reply.",
                "The cassette says so: lower `times` of the entry's `fault` to let it answer.",
                transient=True,
            )
        case "garbage":
            raise ModelTrouble(
                "The model's reply could not be read.",
                "The cassette says so: lower `times` of the entry's `fault` to let it answer.",
                transient=True,
            )
        case "hang":
            await _hang(silence_s)


async def _hang(silence_s: float | None) -> None:
    try:
        async with asyncio.timeout(silence_s):
            await asyncio.Event().wait()
    except TimeoutError as error:
        raise ModelTrouble(
            f"The model did not answer within {silence_s:.0f} s.",
            "The cassette says so: lower `times` of the entry's `fault` to let it answer.",
            transient=True,
        ) from error


def _nothing_fits(path: Path, caller: Caller) -> Unwritten:
    described: Mapping[str, str | int] = {
        name: value
        for name, value in (
            ("role", caller.role),
            ("action", caller.action),
            ("attempt", caller.attempt),
            ("turn", caller.turn),
            ("event", caller.event),
        )
        if value is not None
    }
    when = yaml.safe_dump(dict(described), default_flow_style=True, sort_keys=False, width=10_000).strip()
    request = ", ".join(f"{name} {value}" for name, value in described.items())
    return Unwritten(
        f"The cassette {path} has no reply for this request: {request}.",
        f"Add an entry to its `replies`: `- when: {when}` with a `text` or `tool_calls`.",
    )
