"""The time in which a reply makes no progress, and its body, whose bytes are progress."""

import asyncio

from scaffold.core.errors import ModelError
from scaffold.llm.transport.live_context import HttpResponse
from scaffold.llm.wire.provider_errors import unreadable_reply


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


class ResponseBody:
    """A response body whose first chunk was already read."""

    def __init__(self, answer: HttpResponse, first: bytes, silence: Silence) -> None:
        self.answer = answer
        self.silence = silence
        self._first = first

    async def start(self) -> bytes:
        """Return how the body begins after white space and a mark of UTF-8, before anything was read."""
        while not (begun := self._first.lstrip(b"\xef\xbb\xbf \t\r\n")) and (more := await self.answer.read()):
            self._first += more
        return begun

    async def read(self) -> bytes:
        """Return the next bytes; empty at the end."""
        first, self._first = self._first, b""
        return first or await self.answer.read()

    async def whole(self, longest: int, *, strict: bool = True) -> bytes:
        """Return the whole body; ModelError if it exceeds `longest` bytes or breaks off.

        With `strict=False` return the bytes read so far instead of raising.
        """
        read = bytearray()
        try:
            while chunk := await self.read():
                if not chunk.isspace():  # some servers send newlines while they compute
                    self.silence.broken()
                read += chunk
                if len(read) > longest:
                    raise unreadable_reply(f"it has more than {longest:,} bytes")
        except ModelError:
            if strict:
                raise
        return bytes(read[:longest])
