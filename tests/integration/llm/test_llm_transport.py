import asyncio
import contextlib
import gc
import shutil
import ssl
import subprocess  # noqa: TID251 - a certificate is made from outside

import pytest
from msgspec import structs

from model_server.client import open_client
from model_server.server import serve
from model_server.turn import Turn
from scaffold.core.conversation import Image, Text, TextDelta, UserMessage
from scaffold.core.errors import ModelAccessDenied, ModelError
from scaffold.llm.transport.http_client import Transport
from scaffold.llm.transport.live_context import Deadlines, HttpRequest
from scaffold.llm.transport.proxies import ProxySettings, is_loopback

FINE = Turn(text="here I am")


def post(url, **deadlines):
    return HttpRequest(url=url, headers={"x-api-key": "secret"}, body=b"{}", deadlines=Deadlines(**deadlines))


async def error_at(url, **deadlines):
    async with Transport({}) as wire:
        with pytest.raises(ModelError) as caught:
            async with wire.post(post(url, **deadlines)):
                pass
    assert "secret" not in caught.value.what
    return caught.value


async def test_an_unresolvable_name_is_a_transient_error_without_credentials_and_query():
    error = await error_at("http://user:pw@nowhere.invalid:1/v1/x?key=k")
    assert "http://nowhere.invalid:1/v1/x " in error.what
    assert error.transient


@pytest.fixture
def certificate(tmp_path):
    """The file of a certificate for 127.0.0.1, and what a server needs to use it."""
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl")
    key, made = tmp_path / "key.pem", tmp_path / "certificate.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=nobody"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(made)]
    subprocess.run(command, check=True, capture_output=True)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(made, key)
    return made, tls


async def test_a_server_without_the_expected_certificate_is_refused(certificate):
    """AL-31: no request would be accepted, so it says nothing about any of them."""
    _, tls = certificate
    listening = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0, ssl=tls)
    async with listening:
        error = await error_at(f"https://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1")
    assert "TLS certificate" in error.what
    assert isinstance(error, ModelAccessDenied)
    assert not error.transient
    assert "SSL_CERT_FILE" in error.fix


async def test_a_fault_of_a_proxy_is_not_the_servers(certificate):
    """AL-31: the URL of the model is right, and the user looks where the fault is."""
    _, tls = certificate
    listening = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0, ssl=tls)
    async with (
        listening,
        Transport({"https_proxy": f"https://127.0.0.1:{listening.sockets[0].getsockname()[1]}"}) as wire,
    ):
        with pytest.raises(ModelAccessDenied, match=r"certificate of the proxy for https://api\.example"):
            async with wire.post(post("https://api.example.invalid/v1")):
                pass


async def test_a_server_that_fails_to_begin_tls_may_be_back():
    """AL-31: a proxy that restarts says nothing about the certificate."""

    async def answer(reader, writer):
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    listening = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with listening:
        error = await error_at(f"https://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1")
    assert "no TLS connection" in error.what
    assert error.transient


async def test_a_silent_server_is_abandoned_after_the_idle_time():
    async with serve("chat", [Turn(stall_at=-1)]) as server:
        error = await error_at(f"{server.base_url}/chat/completions", idle_s=0.1)
    assert (f"{server.base_url}/chat/completions " in error.what, "0.1 s" in error.what) == (True, True)
    assert error.transient


async def test_cancelling_closes_the_connection():
    async with serve("anthropic", [Turn(text="x" * 400, stall_at=100)]) as server, open_client(server) as asked:
        reply = asyncio.create_task(asked.reply())
        while not server.requests:  # noqa: ASYNC110 - a server's list rings no bell
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.02)
        assert server.open_connections == 1
        reply.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reply
        async with asyncio.timeout(2.0):
            while server.open_connections:  # noqa: ASYNC110
                await asyncio.sleep(0.001)


async def test_a_compressed_reply_is_read():
    async with serve("chat", [Turn(text="small", compressed=True)]) as server, open_client(server) as asked:
        reply = await asked.reply()
    assert reply.message.text == "small"


async def test_a_body_of_many_megabytes_is_sent():
    picture = UserMessage((Text("what is it?"), Image("image/png", b"\x89PNG" * 700_000)))
    async with serve("anthropic", [FINE]) as server, open_client(server) as asked:
        await asked.reply(picture)
    assert len(server.requests[0].body) > 3_700_000


def test_another_event_loop_gets_its_own_session():
    """As after a fork: the parent's connections are not used."""
    wire = Transport({})

    async def once(server):
        async with wire.post(post(f"{server.base_url}/chat/completions")) as answer:
            return answer.status

    async def in_a_loop():
        async with serve("chat", [FINE, FINE]) as server:
            assert await once(server) == 200
            assert await once(server) == 200
            await wire.close()
            return server.connections

    assert asyncio.run(in_a_loop()) == 1
    assert asyncio.run(in_a_loop()) == 1


@pytest.mark.filterwarnings("ignore:Unclosed")
def test_a_session_of_a_closed_event_loop_is_not_reused():
    wire = Transport({})

    async def once():
        async with serve("chat", [FINE]) as server, wire.post(post(f"{server.base_url}/chat/completions")) as answer:
            return answer.status

    async def once_and_close():
        try:
            return await once()
        finally:
            await wire.close()

    assert asyncio.run(once()) == 200
    assert asyncio.run(once_and_close()) == 200
    gc.collect()


async def test_a_connection_is_reusable_if_the_stream_ends_a_moment_later():
    late = Turn(text="a", drip_s=0.01)
    async with serve("anthropic", [late, FINE]) as server, open_client(server) as asked:
        await asked.reply()
        await asked.reply()
    assert server.connections == 1


async def test_a_connection_closed_by_the_server_meanwhile_is_replaced_silently():
    async with serve("chat", [Turn(text="a", framing="close"), FINE]) as server, open_client(server) as asked:
        await asked.reply()
        reply = await asked.reply()
    assert reply.message.text == "here I am"
    assert server.connections == 2
    assert asked.clock.slept_s == 0


def test_local_names_are_recognised():
    local = dict.fromkeys(["localhost", "127.0.0.1", "127.9.9.9", "::1", "a.localhost", "0.0.0.0", "::"], True)
    local |= dict.fromkeys(["localhost.example.org", "10.0.0.1", ""], False)
    assert {host: is_loopback(host) for host in local} == local


PROXIES = [
    ("https://api.x.org/v1", {"https_proxy": "http://p:1"}, "http://p:1"),
    ("https://api.x.org/v1", {"HTTPS_PROXY": "p:1"}, "http://p:1"),
    ("https://api.x.org/v1", {"http_proxy": "http://p:1"}, None),
    ("http://api.x.org/v1", {"http_proxy": "http://p:1", "HTTP_PROXY": "http://q:1"}, "http://p:1"),
    ("https://api.x.org/v1", {"ALL_PROXY": "http://u:w@p:1"}, "http://p:1"),
    ("https://api.x.org/v1", {"all_proxy": "http://p:1", "no_proxy": "y.org, .x.org"}, None),
    ("https://api.x.org/v1", {"all_proxy": "http://p:1", "NO_PROXY": "api.x.org:443"}, None),
    ("https://api.x.org:443/v1", {"all_proxy": "http://p:1", "NO_PROXY": "api.x.org:443"}, None),
    ("https://api.x.org/v1", {"all_proxy": "http://p:1", "NO_PROXY": "api.x.org:80"}, "http://p:1"),
    ("https://api.x.org/v1", {"all_proxy": "http://p:1", "no_proxy": "y.org *.X.org"}, None),
    ("http://10.0.3.9:8000/v1", {"http_proxy": "http://p:1", "no_proxy": "10.0.0.0/8"}, None),
    ("http://11.0.3.9:8000/v1", {"http_proxy": "http://p:1", "no_proxy": "10.0.0.0/8"}, "http://p:1"),
    ("http://[fd00::9]:8000/v1", {"http_proxy": "http://p:1", "no_proxy": "[fd00::9]:8000"}, None),
    ("http://[fd00::9]:8000/v1", {"http_proxy": "http://p:1", "no_proxy": "fd00::/8"}, None),
    ("https://notx.org/v1", {"all_proxy": "http://p:1", "no_proxy": "x.org"}, "http://p:1"),
    ("https://api.x.org/v1", {"all_proxy": "http://p:1", "no_proxy": "*"}, None),
    ("http://localhost:8000/v1", {"all_proxy": "http://p:1"}, None),
    ("http://[::1]:8000/v1", {"http_proxy": "http://p:1"}, None),
    ("http://10.0.0.9:8000/v1", {}, None),
]


def test_the_proxy_of_the_environment_is_used_except_for_local_servers():
    ways = [(url, environ, ProxySettings(environ).way(url).proxy) for url, environ, _ in PROXIES]
    assert [(url, environ, proxy and f"http://{proxy}") for url, environ, proxy in ways] == PROXIES


async def test_a_proxy_gets_its_credentials_and_the_request():
    async with serve("chat", [FINE]) as proxy:
        environ = {"http_proxy": f"http://me:p%20w@127.0.0.1:{proxy.port}"}
        async with open_client(proxy, model="local:tiny@http://models.example/v1", environ=environ) as asked:
            reply = await asked.reply()
    assert reply.message.text == "here I am"
    [seen] = proxy.requests
    assert seen.path == "http://models.example/v1/chat/completions"
    assert seen.headers["proxy-authorization"] == "Basic bWU6cCB3"


@pytest.mark.parametrize(("status", "transient"), [(407, False), (502, True)])
async def test_a_proxy_gets_its_credentials_for_a_tunnel_and_may_refuse(status, transient):
    seen = []

    async def refuse(reader, writer):
        seen.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 %d Refused\r\nContent-Length: 0\r\n\r\n" % status)
        writer.close()

    listening = await asyncio.start_server(refuse, "127.0.0.1", 0)
    environ = {"https_proxy": f"http://me:pw@127.0.0.1:{listening.sockets[0].getsockname()[1]}"}
    async with listening, Transport(environ) as wire:
        with pytest.raises(ModelError, match=rf"models\.example/v1 .*{status}") as caught:
            async with wire.post(post("https://models.example/v1")):
                pass
    assert caught.value.transient is transient
    assert b"CONNECT models.example:443" in seen[0]
    assert b"Basic bWU6cHc=" in seen[0]
    assert b"secret" not in seen[0]


async def answer_once(reader, writer):
    """A server: answer each request on a connection with its first line."""
    with contextlib.closing(writer), contextlib.suppress(asyncio.IncompleteReadError, OSError):
        while head := await reader.readuntil(b"\r\n\r\n"):
            await reader.readexactly(2)
            line = head.partition(b"\r\n")[0]
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(line), line))


async def tunnel(reader, writer):
    """A proxy: connect to where it is asked to, and pass on what comes."""
    target = (await reader.readuntil(b"\r\n\r\n")).split()[1].decode()
    host, _, port = target.rpartition(":")
    there, back = await asyncio.open_connection(host, int(port))
    writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")

    async def copy(source, sink):
        with contextlib.closing(sink), contextlib.suppress(OSError):
            while data := await source.read(65536):
                sink.write(data)

    async with asyncio.TaskGroup() as group:
        group.create_task(copy(reader, back))
        group.create_task(copy(there, writer))


@pytest.mark.parametrize("proxy_speaks", ["http", "https", None])
async def test_tls_reaches_the_server_directly_and_through_a_tunnel(certificate, monkeypatch, proxy_speaks):
    """RA-1: one connection for two requests; the proxy sees none of them."""
    made, tls = certificate
    monkeypatch.setenv("SSL_CERT_FILE", str(made))
    server = await asyncio.start_server(answer_once, "127.0.0.1", 0, ssl=tls)
    proxy = await asyncio.start_server(tunnel, "127.0.0.1", 0, ssl=tls if proxy_speaks == "https" else None)
    ports = [each.sockets[0].getsockname()[1] for each in (server, proxy)]
    environ = {"https_proxy": f"{proxy_speaks}://127.0.0.1:{ports[1]}"} if proxy_speaks else {}
    async with server, proxy, TunnelledTransport(environ) as wire:
        for _ in range(2):
            async with wire.post(post(f"https://127.0.0.1:{ports[0]}/v1/a b?q=ü")) as answer:
                assert await answer.read() == b"POST /v1/a%20b?q=%C3%BC HTTP/1.1"
        assert len(wire.kept) == 1
        await wire.close()
        await asyncio.sleep(0.05)  # in which the servers close their ends


class TunnelledTransport(Transport):
    """A transport that uses a proxy for loopback addresses, too."""

    def __init__(self, environ):
        super().__init__({})
        self._environ = environ

    def _way(self, url):
        way = ProxySettings(self._environ).way(url.replace("127.0.0.1", "models.example"))
        return structs.replace(way, server=structs.replace(way.server, host="127.0.0.1"))

    @property
    def kept(self):
        return [each for connections in self._idle.values() for each in connections]


async def test_what_a_server_says_before_it_has_read_the_request_is_heard():
    """A limit on the size of requests, for example."""

    async def refuse(reader, writer):
        await reader.read(100)
        writer.write(b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nno!")
        await writer.drain()
        writer.close()

    listening = await asyncio.start_server(refuse, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1"
    async with listening, Transport({}) as wire:
        request = HttpRequest(url=url, headers={}, body=b"x" * 30_000_000, deadlines=Deadlines())
        async with wire.post(request) as answer:
            assert answer.status == 413


@pytest.mark.parametrize("url", ["ftp://models.example/v1", "http:///v1", "http://models.example:port/v1"])
async def test_a_url_that_is_none_is_refused_for_good(url):
    error = await error_at(url)
    assert (url in error.what, error.transient) == (True, False)


@pytest.mark.parametrize("proxy", ["socks5h://me:pw@127.0.0.1:1080", "http://:8080", "http://p:many"])
async def test_a_proxy_that_cannot_be_used_is_named_as_the_cause(proxy):
    async with Transport({"ALL_PROXY": proxy}) as wire:
        with pytest.raises(ModelAccessDenied, match=r"proxy .*https://models\.example/v1 ") as caught:
            async with wire.post(post("https://models.example/v1")):
                pass
    assert "pw" not in caught.value.what


async def test_an_unreachable_proxy_is_reported_as_such():
    environ = {"http_proxy": "http://127.0.0.1:1"}
    async with Transport(environ) as wire:
        with pytest.raises(ModelError, match=r"proxy .*http://models\.example/v1 "):
            async with wire.post(post("http://models.example/v1")):
                pass


async def test_a_hundred_concurrent_streams_over_one_client_arrive_whole():
    """RA-1: one client serves all agents of a process; what it costs is measured in `bench/agents_ours.py`."""
    turn = Turn(text="some words that come in a few pieces, as they do")

    async def ask(asked, times):
        for _ in range(times):
            await asked.reply()

    async with (
        serve("anthropic", lambda received: turn) as server,
        open_client(server, deadlines=Deadlines()) as asked,
        asyncio.TaskGroup() as group,
    ):
        for _ in range(100):
            group.create_task(ask(asked, 3))
    assert sum(isinstance(delta, TextDelta) for delta in asked.heard) == 300 * 4
    assert server.connections <= 100
