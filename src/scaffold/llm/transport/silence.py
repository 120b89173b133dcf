"""The time in which a reply makes no progress."""

import asyncio

from scaffold.core.errors import ModelError


class Silence:
    """The time in which a reply makes no progress: from the end of the request, later between real events."""

    def __init__(self, first_s: float, idle_s: float) -> None:
        self.timeout = asyncio.timeout(first_s)
        """Limits it."""
        self._limit_s = first_s
        self._idle_s = idle_s
        self._began = False
        self._until_s = 0.0

    def sending(self) -> None:
        """Begin to count again, because the request is still being sent."""
        self.timeout.reschedule(asyncio.get_running_loop().time() + self._limit_s)

    def broken(self) -> None:
        """Begin to count again, because the reply made progress."""
        now_s = asyncio.get_running_loop().time()
        # Not for every event of a fast stream: a slightly short limit is harmless.
        if not self._began or self._until_s - now_s < self._idle_s * 0.9:
            self._until_s, self._limit_s, self._began = now_s + self._idle_s, self._idle_s, True
            self.timeout.reschedule(self._until_s)

    def error(self, model: str) -> ModelError:
        """Return the error for a silence that was too long."""
        what = "sent nothing new for" if self._began else "did not answer within"
        fix = "Check the connection to the model, then continue; `ralph -c` resumes the conversation."
        return ModelError(f"{model} {what} {self._limit_s:.3g} s", fix, transient=True)
