"""Servers whose HTTP is unusual or wrong, written byte by byte."""

import asyncio
import errno
import gc
import gzip
import warnings
from contextlib import asynccontextmanager, suppress

import pytest

from scaffold.core.errors import ModelError
from scaffold.llm.transport.http_client import Transport
from scaffold.llm.transport.http_connection import PIECE_BYTES, clearest_error
from scaffold.llm.transport.live_context import Deadlines, HttpRequest

FINE = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfine"
TIMEOUT = b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 3\r\n\r\nold"


class Asked:
    """A client of one server, which answers each request of a connection with the next of `answers`."""

    def __init__(self, url, wire):
        self.connections = 0
        self._url = url
        self._wire = wire

    async def reply(self, body=b"{}", *, idle_s=2.0, **more):
        """Return status and body of one more request."""
        request = HttpRequest(url=self._url, headers={}, body=body, deadlines=Deadlines(idle_s=idle_s), **more)
        async with self._wire.post(request) as answer:
            read = b""
            while data := await answer.read():
                read += data
            return answer.status, read


@asynccontextmanager
async def serving(answer, scheme="http"):
    """Yield a client of a server whose connections `answer` handles, and end these afterwards."""
    tasks = set()

    async def handle(reader, writer):
        tasks.add(asyncio.current_task())
        asked.connections += 1
        with suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            await answer(reader, writer)
        writer.close()

    listening = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with listening:
        async with Transport({}) as wire:
            asked = Asked(f"{scheme}://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1", wire)
            yield asked
        await asyncio.wait(tasks, timeout=5.0)


def answering(*answers, scheme="http"):
    async def answer(reader, writer):
        for each in answers:
            await reader.readuntil(b"\r\n\r\n{}")
            writer.write(each)

    return serving(answer, scheme)


@pytest.mark.parametrize("more", [TIMEOUT, b"\r\n", b"garbage"])
async def test_what_comes_after_a_response_is_not_the_answer_to_the_next_request(more):
    """RA-1: some servers announce that they close an idle connection; a conversation must not read it as its reply."""
    async with answering(FINE + more, FINE) as asked:
        assert [await asked.reply(), await asked.reply()] == [(200, b"fine")] * 2
    assert asked.connections == 2


async def test_what_comes_while_a_connection_is_idle_is_not_the_answer_to_the_next_request():
    """RA-1."""
    late = iter([TIMEOUT, b""])

    async def answer(reader, writer):
        await reader.readuntil(b"\r\n\r\n{}")
        writer.write(FINE)
        await asyncio.sleep(0.02)
        writer.write(next(late))
        await reader.read()

    async with serving(answer) as asked:
        assert await asked.reply() == (200, b"fine")
        await asyncio.sleep(0.1)
        assert await asked.reply() == (200, b"fine")


async def test_a_compressed_body_of_several_parts_is_read_whole():
    """RA-1."""
    parts = b"".join(map(gzip.compress, (b"one, ", b"two, ", b"three")))
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n"
    for cut in (1, len(gzip.compress(b"one, ")), 40):
        body = b"".join(b"%x\r\n%b\r\n" % (len(each), each) for each in (parts[:cut], parts[cut:], b"") if each)
        async with answering(head + body + b"0\r\n\r\n") as asked:
            assert await asked.reply() == (200, b"one, two, three")


async def test_cancelling_while_it_connects_leaves_no_socket_open():
    """RA-21: not even until the garbage collector comes, which agents run rarely."""
    async with answering(FINE) as asked:
        for step in range(100):
            reply = asyncio.create_task(asked.reply())
            await asyncio.sleep(step / 50_000)
            reply.cancel()
            with suppress(asyncio.CancelledError):
                await reply
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        gc.collect()
    assert [str(each.message) for each in caught if issubclass(each.category, ResourceWarning)] == []


async def test_a_server_that_takes_no_more_of_a_long_request_is_given_up():
    """RA-21: one that takes it slowly is not, see `tests/unit/llm/test_llm_deadlines.py`."""
    given_up = asyncio.Event()

    async def take_nothing(reader, writer):
        await given_up.wait()

    async with serving(take_nothing) as asked:
        with pytest.raises(ModelError, match=r"0\.2 s"):
            await asked.reply(b"x" * 30_000_000, idle_s=0.2)
        given_up.set()


async def test_every_piece_of_a_long_request_counts_as_progress():
    """RA-21."""

    async def take(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(10 * PIECE_BYTES)
        writer.write(FINE)

    sent = []
    async with serving(take) as asked:
        assert await asked.reply(b"x" * 10 * PIECE_BYTES, on_sent=lambda: sent.append(1)) == (200, b"fine")
    assert len(sent) == 9


async def test_a_broken_response_is_a_transient_error_with_its_cause():
    """RA-21."""
    for sent, what in (
        (b"\x16\x03\x01 no HTTP\r\n\r\n", "/v1 does not answer in HTTP"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 2**20, "/v1 does not answer in HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", "/v1 does not answer in HTTP"),
        (b"HTTP/1.1 101 Switching Protocols\r\n\r\n", "/v1 does not answer in HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab", "/v1 was lost"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nab", "/v1 was lost"),
        (b"", "/v1 was lost"),
    ):
        async with answering(sent) as asked:
            with pytest.raises(ModelError) as caught:
                await asked.reply()
        assert (sent, caught.value.what.endswith(what), caught.value.transient) == (sent, True, True)


async def test_a_server_that_closes_instead_of_speaking_tls_is_named_with_the_reason():
    """RA-21."""
    async with answering(scheme="https") as asked:
        with pytest.raises(ModelError, match="no TLS connection"):
            await asked.reply()


def test_a_closed_port_says_more_than_an_address_that_cannot_be_used():
    """RA-21: as on a machine that has an IPv6 address for `localhost`, but no IPv6."""
    closed = ConnectionRefusedError(errno.ECONNREFUSED, "closed")
    assert clearest_error([OSError(errno.EADDRNOTAVAIL, "no IPv6"), None, closed]) is closed
    assert clearest_error([TimeoutError(errno.ETIMEDOUT, "silent"), None]).errno == errno.ETIMEDOUT
    assert "no address" in f"{clearest_error([])}"
