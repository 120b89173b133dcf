"""Forward allowed ports of this machine's loopback into a sandbox: one Unix socket for each port.

The socket gives access to that port of 127.0.0.1 only. Inside the sandbox, `sidecar` listens on the same port and
connects to the socket.
"""

import asyncio
import contextlib
import socket as sockets
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from pathlib import Path

from scaffold.host.sandbox.proxy import CHUNK_BYTES, bind_unix_socket, pump_bytes
from scaffold.host.sandbox.relay import BACKLOG, MAX_CONNECTIONS

LOOPBACK = "127.0.0.1"
PAUSE_S = 0.05


@contextlib.asynccontextmanager
async def forward_ports(folder: Path, ports: Sequence[int]) -> AsyncIterator[None]:
    """Forward a socket in `folder`, named by the port, to each of `ports`; close all connections with the block.

    All ports share MAX_CONNECTIONS, as our descriptors are limited; further connections wait to be accepted.
    OSError if a socket cannot be created.
    """
    forwarder = _PortForwarder(asyncio.Semaphore(MAX_CONNECTIONS))
    with contextlib.ExitStack() as opened:
        listeners = {port: opened.enter_context(bind_unix_socket(folder / str(port))) for port in ports}
        try:
            for port, listener in listeners.items():
                listener.listen(BACKLOG)
                listener.setblocking(False)
                forwarder.begin(forwarder.accept(port, listener))
            yield
        finally:
            await forwarder.end()


async def is_listening(port: int, *, timeout_s: float = 1.0) -> bool:
    """Return True if a port of this machine's loopback accepts a connection within `timeout_s` seconds."""
    try:
        async with asyncio.timeout(timeout_s):
            _, writer = await asyncio.open_connection(LOOPBACK, port)
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True


class _PortForwarder:
    def __init__(self, slots: asyncio.Semaphore) -> None:
        self._slots = slots
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(
        self, work: Coroutine[None, None, None], then: Callable[[asyncio.Task[None]], None] | None = None
    ) -> None:
        """Run `work` in a task that `end` cancels; `then` is called when the task is done."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if then:
            # A callback, not a `finally` in the coroutine, which a task cancelled before its first step never enters.
            task.add_done_callback(then)

    async def accept(self, port: int, listener: sockets.socket) -> None:
        """Accept connections while there are free slots; runs until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            await self._slots.acquire()
            try:
                near, _ = await loop.sock_accept(listener)
            except OSError:  # out of descriptors: retry later
                self._slots.release()
                await asyncio.sleep(PAUSE_S)
            else:
                self.begin(_serve_connection(port, near), lambda _served: self._slots.release())

    async def end(self) -> None:
        """Close all connections and stop accepting."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)


async def _serve_connection(port: int, near: sockets.socket) -> None:
    # An error on one side aborts both.
    reader, writer = await asyncio.open_unix_connection(sock=near, limit=CHUNK_BYTES)
    unfinished = [writer]
    try:
        far_reader, far_writer = await asyncio.open_connection(LOOPBACK, port, limit=CHUNK_BYTES)
        unfinished.append(far_writer)
        async with asyncio.TaskGroup() as group:
            group.create_task(pump_bytes(reader, far_writer))
            group.create_task(pump_bytes(far_reader, writer))
        for each in unfinished:
            each.close()
            await each.wait_closed()
        unfinished.clear()
    except* OSError:
        pass
    finally:
        for each in unfinished:
            each.transport.abort()
