"""Cassettes: scripted model replies; everything else in a run is real.

A cassette is stateless: the first entry whose `when` matches a request answers it. So the same request always gets the
same reply, in whatever order processes call, crash and call again.
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
    DeltaHandler,
    Reply,
    Request,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    ignore_delta,
)
from scaffold.core.errors import CassetteMiss, ContextOverflow, ModelError
from scaffold.core.model import Usage
from scaffold.llm.deltas import emit_deltas
from scaffold.llm.wire.codec import BYTES_PER_TOKEN

NON_WORKER_ROLES = frozenset(
    {"planner", "supervisor", "critic", "drafter", "reviewer", "merger", "learner", "auditor", "agent"}
)
"""Roles that are not workers; every other role is a worker's."""
TRANSIENT_STATUSES = frozenset({408, 409, 429})
"""HTTP statuses below 500 after which a retry may help."""
CONTENT_TOO_LARGE = 413
Ordinal = Annotated[int, Meta(ge=1)]
Amount = Annotated[int, Meta(ge=0)]
Price = Annotated[float, Meta(ge=0)]


class RequestMatcher(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The requests that an entry answers; None matches any value."""

    role: str | None = None
    action: str | None = None
    attempt: Ordinal | None = None
    turn: Ordinal | None = None
    event: str | None = None
    contains: str | None = None
    """A regular expression, searched in the last message's text and tool results."""

    def __post_init__(self) -> None:
        try:
            re.compile(self.contains or "")
        except re.error as error:
            raise ValueError(f"`contains` is not a valid regular expression ({error})") from error

    def fits(self, request: Request) -> bool:
        """Return True if `request` matches; without `role` only workers match, unless all fields are None."""
        caller = request.caller
        # Scripted replies are mostly a worker's: a rule without a role must not answer the planner.
        if self.role is None and caller.role in NON_WORKER_ROLES and self != MATCH_ANY:
            return False
        conditions = (
            (self.role, caller.role),
            (self.action, caller.action),
            (self.attempt, caller.attempt),
            (self.turn, caller.turn),
            (self.event, caller.event),
        )
        if any(expected is not None and expected != actual for expected, actual in conditions):
            return False
        return self.contains is None or re.search(self.contains, last_message_text(request)) is not None


MATCH_ANY = RequestMatcher()


class CassetteToolCall(Struct, frozen=True, forbid_unknown_fields=True):
    """A tool call; its id is generated when it is replayed."""

    name: str
    args: dict[str, Any] = {}


class CassetteUsage(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The token usage that a reply reports."""

    input_tokens: Amount = 0
    """All input tokens, cached ones included."""
    cached_input_tokens: Amount = 0
    output_tokens: Amount = 0

    def __post_init__(self) -> None:
        if self.cached_input_tokens > self.input_tokens:
            raise ValueError("`input_tokens` includes cached input, so it must be at least `cached_input_tokens`")


class CassetteFault(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the first `times` tries of a request fail; `status` is used only for `http`."""

    kind: Literal["http", "drop", "garbage", "hang"]
    status: Annotated[int, Meta(ge=300, le=599)] = 500
    times: Ordinal = 1


class CassetteEntry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A reply and the requests it answers."""

    when: RequestMatcher = field(default_factory=RequestMatcher)
    thinking: str = ""
    text: str = ""
    tool_calls: tuple[CassetteToolCall, ...] = ()
    usage: CassetteUsage | None = field(default_factory=CassetteUsage)
    """None, written as `null`, for a reply that does not say what it used; by default it used nothing."""
    fault: CassetteFault | None = None


class CassettePrices(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """US dollars per million tokens."""

    input_per_mtok: Price = 0.0
    cached_input_per_mtok: Price | None = None
    """None: the same as `input_per_mtok`."""
    output_per_mtok: Price = 0.0

    def cost_usd(self, usage: CassetteUsage) -> float:
        """Return the cost of `usage` in US dollars."""
        cached_price = self.input_per_mtok if self.cached_input_per_mtok is None else self.cached_input_per_mtok
        fresh = usage.input_tokens - usage.cached_input_tokens
        dollars = fresh * self.input_per_mtok + usage.cached_input_tokens * cached_price
        return (dollars + usage.output_tokens * self.output_per_mtok) / 1_000_000


class Cassette(Struct, frozen=True, kw_only=True):
    """A cassette as read from `path`; `digest` is the SHA-256 of the file's bytes, in hex."""

    path: Path
    digest: str
    entries: tuple[CassetteEntry, ...]
    prices: CassettePrices = field(default_factory=CassettePrices)


class CassetteModel:
    """A `SingleTryModel` that answers from a cassette."""

    def __init__(self, cassette: Cassette) -> None:
        self._cassette = cassette

    @property
    def endpoint(self) -> str:
        """Return the cassette's path; a cassette has no rate limits."""
        return str(self._cassette.path)

    @property
    def window_tokens(self) -> None:
        """Return None: a cassette answers conversations of any length."""

    @property
    def slots(self) -> None:
        """Return None: a cassette answers any number of requests at once."""

    is_small = False

    def estimate(self, request: Request) -> Usage:
        """Return the exact usage of the request; zero if no entry matches."""
        entry = self._matching_entry(request)
        return Usage() if entry is None else self._usage_of_reply(entry, request)

    async def reply(self, request: Request, on_delta: DeltaHandler = ignore_delta) -> Reply:
        """Return the reply of the first try; errors as in `attempt`."""
        return await self.attempt(request, 1, on_delta)

    async def attempt(
        self,
        request: Request,
        try_number: int,
        on_delta: DeltaHandler = ignore_delta,
        *,
        silence_s: float | None = None,
    ) -> Reply:
        """Return the matching entry's reply and pass its deltas to `on_delta` at once.

        CassetteMiss if no entry matches, ModelError if the entry's fault applies to this try (1-based). A `hang` fault
        lasts `silence_s`; None: forever.
        """
        entry = self._matching_entry(request)
        if entry is None:
            raise _miss_error(self._cassette.path, request.caller)
        if entry.fault is not None and try_number <= entry.fault.times:
            await _inject_fault(entry.fault, silence_s)
        calls = tuple(
            ToolCall(f"call-{request.caller.turn}-{index}", call.name, call.args)
            for index, call in enumerate(entry.tool_calls, 1)
        )
        thinking = (Thinking(entry.thinking),) if entry.thinking else ()
        text = (Text(entry.text),) if entry.text else ()
        message = AssistantMessage((*thinking, *text, *calls))
        emit_deltas(message, on_delta)
        # At once: what is scripted needs no time.
        return Reply(
            message=message,
            usage=self._usage_of_reply(entry, request),
            stop="tool_calls" if message.tool_calls else "end",
        )

    def _matching_entry(self, request: Request) -> CassetteEntry | None:
        return next((entry for entry in self._cassette.entries if entry.when.fits(request)), None)

    def _usage_of_reply(self, entry: CassetteEntry, request: Request) -> Usage:
        used = entry.usage
        if used is None:
            # Estimated from the sizes of texts, as for live models.
            tools = [(tool.name, tool.description, tool.schema) for tool in request.tools]
            asked = (request.system, request.context, request.reminder, repr(request.messages), repr(tools))
            answered = (entry.text, entry.thinking, repr([(call.name, call.args) for call in entry.tool_calls]))
            sizes = (sum(map(len, texts)) // BYTES_PER_TOKEN for texts in (asked, answered))
            used = CassetteUsage(input_tokens=next(sizes), output_tokens=next(sizes))
        usage = Usage(
            input_tokens=used.input_tokens,
            cached_input_tokens=used.cached_input_tokens,
            output_tokens=used.output_tokens,
            cost_usd=self._cassette.prices.cost_usd(used),
            requests=1,
        )
        return usage if entry.usage is not None else usage.as_estimate


def last_message_text(request: Request) -> str:
    """Return the text and tool results of the request's last message, joined by newlines."""
    if not request.messages:
        return ""
    last = request.messages[-1]
    if isinstance(last, AssistantMessage):
        return last.text
    # Images have no text, but keep their place.
    return "\n".join(
        part.text if isinstance(part, Text) else part.content if isinstance(part, ToolResult) else ""
        for part in last.parts
    )


async def _inject_fault(fault: CassetteFault, silence_s: float | None) -> None:
    match fault.kind:
        case "http" if fault.status == CONTENT_TOO_LARGE:
            raise ContextOverflow(
                f"the model's endpoint answered with HTTP status {fault.status}: the request is too long for it",
                "Use a model with a larger window; the cassette's `fault` causes this.",
            )
        case "http":
            raise ModelError(
                f"the model's endpoint answered with HTTP status {fault.status}",
                "The cassette's `fault` causes this; change it to get the reply.",
                transient=fault.status in TRANSIENT_STATUSES or fault.status >= 500,
            )
        case "drop":
            raise ModelError(
                "the connection to the model was lost in the middle of a reply",
                "The cassette's `fault` causes this; lower its `times` to get the reply.",
                transient=True,
            )
        case "garbage":
            raise ModelError(
                "the model's reply could not be read",
                "The cassette's `fault` causes this; lower its `times` to get the reply.",
                transient=True,
            )
        case "hang":
            try:
                async with asyncio.timeout(silence_s):
                    await asyncio.Event().wait()
            except TimeoutError as error:
                raise ModelError(
                    f"the model did not answer within {silence_s:.0f} s",
                    "The cassette's `fault` causes this; lower its `times` to get the reply.",
                    transient=True,
                ) from error


def _miss_error(path: Path, caller: Caller) -> CassetteMiss:
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
    return CassetteMiss(
        f"the cassette {path} has no reply for this request: {request}",
        f"Add an entry to its `replies`: `- when: {when}` with a `text` or `tool_calls`.",
    )
