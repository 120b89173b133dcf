"""A delta handler that counts the tries of a request that produced output."""

from scaffold.core.conversation import Delta, DeltaHandler, RetryWait, StreamReset


class DeltaListener:
    """Passes the deltas of one request on and counts broken tries.

    A try that broke off after some output is discarded but still billed, and its usage is unknown.
    """

    def __init__(self, hear: DeltaHandler) -> None:
        self._hear = hear
        self._broken = 0
        self.has_output = False
        """True if the current try has produced output."""

    def __call__(self, delta: Delta) -> None:
        """Pass on the next delta."""
        if isinstance(delta, StreamReset):
            self._broken += 1
            self.has_output = False
        elif not isinstance(delta, RetryWait):
            self.has_output = True
        self._hear(delta)

    def understood(self) -> None:
        """Mark the current try as complete."""
        self.has_output = False

    @property
    def void_tries(self) -> int:
        """The number of discarded tries with output, including the current unfinished one."""
        return self._broken + self.has_output
