"""Ways from a sandbox to servers on this machine's loopback: one socket for each port that is let through, outside.

Who can open the socket reaches that port of 127.0.0.1, and nothing else. Inside, `companion` listens on the same port
and leads here.
"""

import asyncio
import contextlib
import socket as sockets
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from pathlib import Path

from scaffold.host.sandbox.proxy import PIECE_BYTES, listening
from scaffold.host.sandbox.relay import BACKLOG, MOST_CONNECTIONS

LOOPBACK = "127.0.0.1"
PAUSE_S = 0.05


@contextlib.asynccontextmanager
async def opened_ways(folder: Path, ports: Sequence[int]) -> AsyncIterator[None]:
    """Lead from `folder`, where a socket is named by each port, to these ports; end every connection with the block.

    Through all of them at once there are as many connections as inside, as descriptors of ours are few; more wait to be
    accepted. OSError if a socket cannot be made.
    """
    ways = _Ways(asyncio.Semaphore(MOST_CONNECTIONS))
    with contextlib.ExitStack() as opened:
        listeners = {port: opened.enter_context(listening(folder / str(port))) for port in ports}
        try:
            for port, listener in listeners.items():
                listener.listen(BACKLOG)
                listener.setblocking(False)
                ways.begin(ways.accept(port, listener))
            yield
        finally:
            await ways.end()


async def accepts(port: int, *, patience_s: float = 1.0) -> bool:
    """Tell whether somebody listens on a port of this machine's loopback."""
    try:
        async with asyncio.timeout(patience_s):
            _, writer = await asyncio.open_connection(LOOPBACK, port)
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True


class _Ways:
    def __init__(self, places: asyncio.Semaphore) -> None:
        self._places = places
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(
        self, deed: Coroutine[None, None, None], then: Callable[[asyncio.Task[None]], None] | None = None
    ) -> None:
        """Do something in a task that ends with the ways; `then` is called at its end."""
        task = asyncio.get_running_loop().create_task(deed)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if then:
            task.add_done_callback(then)

    async def accept(self, port: int, listener: sockets.socket) -> None:
        """Serve one connection after the other, as many at once as there are places."""
        loop = asyncio.get_running_loop()
        while True:
            await self._places.acquire()
            try:
                near, _ = await loop.sock_accept(listener)
            except OSError:  # no descriptor is left
                self._places.release()
                await asyncio.sleep(PAUSE_S)
            else:
                self.begin(_serve(port, near), self._leave)

    async def end(self) -> None:
        """Break off every connection, and let no other in."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _leave(self, _served: asyncio.Task[None]) -> None:
        self._places.release()


async def _serve(port: int, near: sockets.socket) -> None:
    """Pass bytes both ways until both have ended; whoever breaks off breaks both off."""
    reader, writer = await asyncio.open_unix_connection(sock=near, limit=PIECE_BYTES)
    broken = [writer]
    try:
        far_reader, far_writer = await asyncio.open_connection(LOOPBACK, port, limit=PIECE_BYTES)
        broken.append(far_writer)
        async with asyncio.TaskGroup() as group:
            group.create_task(_pump(reader, far_writer))
            group.create_task(_pump(far_reader, writer))
        await _flushed(broken)
        broken.clear()
    except* OSError:
        pass
    finally:
        for each in broken:
            each.transport.abort()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass on what comes, no faster than it is taken; then say that it ended, while the other direction goes on."""
    while piece := await reader.read(PIECE_BYTES):
        writer.write(piece)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()


async def _flushed(writers: Sequence[asyncio.StreamWriter]) -> None:
    for writer in writers:
        writer.close()
        await writer.wait_closed()
