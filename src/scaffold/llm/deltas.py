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
from scaffold.llm.wire.codec import BYTES_PER_TOKEN

ENDLESS_CHARS, MAX_PERIOD = 12_000, 400
"""A reply whose last so many characters repeat a piece of at most so many will go on so."""


def ignore_tries(tries: int, /) -> None:
    """Ignore how many tries may have been billed."""


class DeltaListener:
    """Passes the deltas of one request on and counts broken tries.

    A try that broke off after some output is discarded but still billed, and its usage is unknown.
    """

    def __init__(self, on_delta: DeltaHandler, on_tries: Callable[[int], None] = ignore_tries) -> None:
        """`on_tries` receives the number of tries that may have been billed whenever it grows; it starts at 1."""
        self._on_delta = on_delta
        self._on_tries = on_tries
        self._billable = 1
        self._broken = 0
        self.has_output = False
        """True if the current try has produced output."""

    def __call__(self, delta: Delta) -> None:
        """Pass on the next delta."""
        if isinstance(delta, StreamReset):
            # The provider bills what it sent, even if it is discarded.
            self._broken += 1
            self.has_output = False
        elif not isinstance(delta, RetryWait):
            self.has_output = True
        self._on_delta(delta)

    def understood(self) -> None:
        """Mark the current try as complete."""
        self.has_output = False

    def waits(self) -> None:
        """Note that nothing is under way until `sends`."""
        self._report_tries(self.void_tries)

    def sends(self) -> None:
        """Note that a try begins."""
        self._report_tries(self._broken + 1)

    def _report_tries(self, billable: int) -> None:
        # Each call writes to a database, and most requests are sent at once.
        if billable != self._billable:
            self._billable = billable
            self._on_tries(billable)

    @property
    def void_tries(self) -> int:
        """The number of discarded tries with output, including the current unfinished one."""
        return self._broken + self.has_output


class EndlessReplyGuard:
    """Passes the deltas of a reply on; raises ModelError when it repeats itself, or goes beyond its limit."""

    def __init__(self, model: str, most_tokens: float, on_delta: DeltaHandler) -> None:
        """`most_tokens` are compared with an estimate, so they should have a margin."""
        self._model = model
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
            how = f"went on beyond its limit, and was ended after about {self._size // BYTES_PER_TOKEN:,} tokens"
        elif self._size - self._looked_at > MAX_PERIOD and len(self._tail) == ENDLESS_CHARS:
            self._looked_at = self._size
            period = ENDLESS_CHARS - MAX_PERIOD - self._tail.rfind(self._tail[-MAX_PERIOD:], 0, -1)
            if period <= MAX_PERIOD and self._tail[period:] == self._tail[:-period]:
                again = " ".join(self._tail[-period:].split())[:60]
                how = f'repeated "{again}" without an end, and was ended'
        if how:
            fix = "Try again, with another model if it does so again; a local server may need a penalty on repetition."
            raise ModelError(f"the reply of {self._model} {how}", fix)


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
