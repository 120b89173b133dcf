"""Output of any length in bounded memory, read as it arrives."""

import asyncio
import hashlib
import os
from typing import Protocol

READ_BYTES = 65536


class OutputSink(Protocol):
    """A consumer of output as it arrives."""

    def write(self, data: bytes, /) -> object:
        """Consume all of `data`; OSError on failure."""


class HeadTailBuffer:
    """The head and tail of a byte stream, and the hash of the whole stream."""

    def __init__(self, limit_bytes: int) -> None:
        self._head_limit = limit_bytes // 2
        self._tail_limit = limit_bytes - self._head_limit
        self._head = bytearray()
        self._tail = bytearray()
        self.total = 0
        """Bytes added so far."""
        self._sha256 = hashlib.sha256()

    def add(self, data: bytes) -> None:
        """Add the next bytes of the stream."""
        self.total += len(data)
        self._sha256.update(data)
        room = self._head_limit - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        if len(self._tail) > 2 * self._tail_limit + READ_BYTES:
            self._trim()

    @property
    def left_out(self) -> int:
        """The number of bytes omitted between head and tail."""
        return max(0, self.total - self._head_limit - self._tail_limit)

    @property
    def sha256(self) -> str:
        """The hash of the whole stream, in hex."""
        return self._sha256.hexdigest()

    def content(self) -> bytes:
        """Return the whole stream if it fits the limit, else head and tail with a line between that counts the rest."""
        self._trim()
        between = f"\n... {self.left_out} bytes left out ...\n".encode() if self.left_out else b""
        return bytes(self._head + between + self._tail)

    def _trim(self) -> None:
        del self._tail[: max(0, len(self._tail) - self._tail_limit)]


class OutputPipe:
    """A pipe: a command writes to `entrance`, the running event loop reads into `excerpt`."""

    def __init__(self, limit_bytes: int, sink: OutputSink | None) -> None:
        self.excerpt = HeadTailBuffer(limit_bytes)
        self.error: OSError | None = None
        """Why a write to `sink` failed; None if none did."""
        self._sink = sink
        self._exit, entrance = os.pipe()
        self.entrance = os.fdopen(entrance, "wb", buffering=0)
        os.set_blocking(self._exit, False)
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._exit, self._read)
        self.closed: asyncio.Future[None] = self._loop.create_future()

    def take(self, data: bytes) -> None:
        """Treat `data` as if the command had written it."""
        self.excerpt.add(data)
        if self._sink:
            self._sink.write(data)

    def close(self) -> None:
        """Stop reading; safe to repeat."""
        self.entrance.close()
        if not self.closed.done():
            self._loop.remove_reader(self._exit)
            os.close(self._exit)
            self.closed.set_result(None)

    def _read(self) -> None:
        try:
            data = os.read(self._exit, READ_BYTES)
        except BlockingIOError:
            return
        try:
            self.take(data)
        except OSError as error:
            self.error = error
            data = b""
        if not data:
            self.close()
