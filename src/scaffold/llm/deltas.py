"""Deltas of a request: a handler that counts broken tries, and the deltas of a complete reply."""

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
