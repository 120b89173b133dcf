"""Deltas of a request: handlers that count broken tries and end endless replies, and those of a complete reply."""

from collections.abc import Callable

import msgspec

from scaffold.core.conversation import (
    AssistantMessage,
    Delta,
    DeltaHandler,
    RetryWait,
    StreamReset,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolCall,
    ToolCallDelta,
)
from scaffold.core.errors import ModelError
from scaffold.core.model import Usage
from scaffold.core.ports import NO_USAGE
from scaffold.llm.wire.codec import BYTES_PER_TOKEN

ENDLESS_CHARS, MAX_PERIOD = 12_000, 400
"""A reply whose last so many characters repeat a piece of at most so many will go on so."""


TOLD_TOKENS = 1_000
"""A reply that grew beyond its estimate is told again after so many tokens, as each time is a write to a database."""


def ignore_tries(tries: int, estimate: Usage | None = None, /) -> None:
    """Ignore how many tries may have been billed, and an estimate that takes the place of the earlier one of a try."""


class DeltaListener:
    """Passes the deltas of one request on and sums up broken tries.

    A try that broke off after some output is discarded but still billed, and nobody says how much.
    """

    def __init__(
        self, on_delta: DeltaHandler, on_tries: Callable[..., None] = ignore_tries, estimate: Usage = NO_USAGE
    ) -> None:
        """`on_tries` is called as `ignore_tries` is, whenever the number changes; it starts at 1.

        `estimate` is what a broken try is taken to have used, unless its model says it better by `streamed`.
        """
        self._on_delta = on_delta
        self._on_tries = on_tries
        self._estimate = estimate
        self._streamed: Usage | None = None
        self._told_tokens = estimate.counted_tokens
        self._void = Usage()
        self._billable = 1
        self._broken = 0
        self.has_output = False
        """True if the current try has produced output."""

    def __call__(self, delta: Delta) -> None:
        """Pass on the next delta."""
        if isinstance(delta, StreamReset):
            # The provider bills what it sent, even if it is discarded.
            self._void, self._broken = self.void_usage, self._broken + 1
            self.has_output, self._streamed = False, None
        elif not isinstance(delta, RetryWait):
            self.has_output = True
        self._on_delta(delta)

    def streamed(self, usage: Usage) -> None:
        """Note what the current try has used so far, as far as its output shows."""
        self._streamed = usage
        if usage.counted_tokens > self._told_tokens + TOLD_TOKENS:
            self._told_tokens = usage.counted_tokens
            self._on_tries(self._billable, usage)

    def understood(self) -> None:
        """Mark the current try as complete."""
        self.has_output = False

    def waits(self) -> None:
        """Note that nothing is under way until `sends`."""
        self._report_tries(self._broken + self.has_output)

    def sends(self) -> None:
        """Note that a try begins."""
        self._report_tries(self._broken + 1)

    def _report_tries(self, billable: int) -> None:
        # Each call writes to a database, and most requests are sent at once.
        if billable != self._billable:
            self._billable = billable
            self._on_tries(billable)

    @property
    def void_usage(self) -> Usage:
        """The estimated usage of discarded tries with output, including the current unfinished one."""
        last = msgspec.structs.replace((self._streamed or self._estimate).as_estimate, requests=0)
        return self._void + last if self.has_output else self._void


class EndlessReplyGuard:
    """Passes the deltas of a reply on; raises ModelError when it repeats itself, or goes beyond its limit."""

    def __init__(
        self, model: str, most_tokens: float, on_delta: DeltaHandler, on_growth: Callable[[int], None]
    ) -> None:
        """`most_tokens` are compared with an estimate, so they should have a margin.

        `on_growth` receives the tokens of the reply so far, from time to time.
        """
        self._model = model
        self._on_growth = on_growth
        self._most = int(most_tokens) * BYTES_PER_TOKEN
        self.on_delta = on_delta
        self._tail = ""
        self._size = self._looked_at = 0

    def __call__(self, delta: Delta) -> None:
        """Pass on the next delta; ModelError if the reply is not worth waiting for."""
        text = delta.text if isinstance(delta, TextDelta | ThinkingDelta) else ""
        text = delta.arguments if isinstance(delta, ToolCallDelta) else text
        self._size += len(text)
        self._tail = (self._tail + text)[-ENDLESS_CHARS:]
        self.on_delta(delta)
        how = ""
        if self._size > self._most:
            how = f"went on beyond its limit, and was ended after about {self.tokens:,} tokens"
        elif self._size - self._looked_at > MAX_PERIOD:
            self._looked_at = self._size
            self._on_growth(self.tokens)
        if not how and self._looked_at == self._size and len(self._tail) == ENDLESS_CHARS:
            period = ENDLESS_CHARS - MAX_PERIOD - self._tail.rfind(self._tail[-MAX_PERIOD:], 0, -1)
            if period <= MAX_PERIOD and self._tail[period:] == self._tail[:-period]:
                again = " ".join(self._tail[-period:].split())[:60]
                how = f'repeated "{again}" without an end, and was ended'
        if how:
            fix = "Try again, with another model if it does so again; a local server may need a penalty on repetition."
            raise ModelError(f"the reply of {self._model} {how}", fix)

    @property
    def tokens(self) -> int:
        """The estimated tokens of the reply so far."""
        return self._size // BYTES_PER_TOKEN


def emit_deltas(message: AssistantMessage, on_delta: DeltaHandler) -> None:
    """Call `on_delta` with one delta for each part of a complete message, as if it had been streamed."""
    index = 0
    for part in message.parts:
        match part:
            case Text():
                on_delta(TextDelta(part.text))
            case Thinking():
                on_delta(ThinkingDelta(part.text))
            case ToolCall():
                on_delta(ToolCallDelta(index, part.name, msgspec.json.encode(part.args).decode()))
                index += 1
