"""Logins at an MCP server with an authorization server that keeps to the protocol, or does not."""

import asyncio
import json
import os
from contextlib import asynccontextmanager, closing, suppress
from datetime import timedelta
from urllib.error import HTTPError
from urllib.parse import parse_qsl, urlsplit

import httpx2
import pytest
from inline_snapshot import snapshot
from msgspec import structs

from scaffold.core.errors import ModelAccessDenied, UsageError
from scaffold.core.tool import ToolOutput
from scaffold.extensions.mcp.offers import ask_nobody
from scaffold.extensions.mcp.pool import LocalPool, PoolSetup, tell_withheld
from scaffold.extensions.mcp.server_config import read_servers
from scaffold.extensions.mcp.stdio import ServerPlace
from scaffold.extensions.mcp.web import LoginTransport, address_client
from scaffold.llm.transport.http_client import Transport
from scaffold.login.callback import AuthorizationDenied
from scaffold.login.server_logins import LoginCommands, ServerLogins, login_name
from scaffold.policy.secret.redaction import Redactor
from scaffold.store.user_store import UserStore
from support.mcp_conformance_client import NoApprovals
from support.mcp_login_server import agree, serve_oauth
from support.mcp_web import serve_mcp


@pytest.fixture
def server():
    with serve_oauth() as server:
        yield server


@pytest.fixture
def opened(tmp_path, clock):
    """Open the user's logins as another process would."""

    @asynccontextmanager
    async def opening():
        data = tmp_path / "data"
        with closing(UserStore.open(data / "user.db", clock=clock)) as user:
            async with Transport({}) as wire:
                environ = {"PYTHON_KEYRING_BACKEND": "none"}
                yield ServerLogins(user, wire, environ, clock=clock, data=data)

    return opening


@pytest.fixture(autouse=True)
def _no_keyring(monkeypatch):
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")


def config_of(url, **more):
    entries = {"s": {"url": url, **more}}
    (config,) = read_servers(json.dumps({"mcpServers": entries}).encode(), file="mcp.json", scope="user").servers
    return config


@asynccontextmanager
async def pool_of(folder, logins, config):
    """Yield a pool with one server, and the lines that were told."""
    told = []
    place = ServerPlace(cwd=folder, environ=os.environ, sandbox=None)
    setup = PoolSetup(
        place=place, approvals=NoApprovals(), tell=told.append, withheld=tell_withheld(told.append), logins=logins.at
    )
    pool = LocalPool([config], setup)
    try:
        yield pool, told
    finally:
        await pool.close()


async def call(pool):
    (tool,) = await pool.tools()
    return await pool.call(tool, {"a": 1}, ask_nobody)


async def wait_for(pool, words):
    """Call until the answer has these words; fail after 5 s."""
    for _ in range(100):
        if words in (await call(pool)).content:
            return
        await asyncio.sleep(0.05)
    raise AssertionError(words)


def browser(page):
    """Agree in the background, as a browser does; it shows a refusal like any other page."""

    def visit():
        try:
            agree(page)
        except HTTPError as refused:
            refused.close()

    asyncio.get_running_loop().run_in_executor(None, visit)


async def log_in(logins, server, **more):
    await logins.log_in(config_of(server.url, **more), browser)


async def test_a_login_is_used_by_each_process_and_stored_encrypted(server, opened, tmp_path):
    """RA-15, RA-17: by resource and S256, never in a file as it is; a line says how to log in before."""
    async with opened() as logins, pool_of(tmp_path, logins, config_of(server.url)) as (pool, told):
        assert await pool.tools() == ()
        await log_in(logins, server)
        await pool.restart("s")
        assert await call(pool) == ToolOutput("sum 2")
    assert told == snapshot(["MCP server s does not run: it needs a login: `ralph /mcp login s`"])
    async with opened() as logins, pool_of(tmp_path, logins, config_of(server.url)) as (pool, told):
        assert await call(pool) == ToolOutput("sum 2")
    assert told == []
    (asked,) = server.asked("/token")
    assert (asked["resource"], asked["redirect_uri"].rpartition(":")[0]) == (server.url, "http://127.0.0.1")
    kept = b"".join(path.read_bytes() for path in (tmp_path / "data").rglob("*") if path.is_file())
    assert not any(secret.encode() in kept for secret in (*server.secrets, *server.clients))
    assert Redactor().clean(" ".join(server.secrets)) == "[redacted:login] [redacted:login]"


async def test_a_login_belongs_to_the_address_of_its_server(server, opened, tmp_path):
    """RA-15: the same name with another address, or another name, never gets the token."""
    async with opened() as logins:
        await log_in(logins, server)
        with serve_mcp("http") as other:
            async with pool_of(tmp_path, logins, config_of(other.url)) as (pool, _):
                assert await call(pool) == ToolOutput("sum 2")
        assert not any("Authorization" in headers or "authorization" in headers for _, headers in other.seen)
        renamed = structs.replace(config_of(server.url), name="t")
        assert await logins.at(renamed).current() == ""
        assert await logins.at(config_of(server.url, headers={"authorization": "Bearer x"})).current() == ""
        with pytest.raises(UsageError, match="is a program"):
            LoginCommands(_Programs(), logins, {}, print)._expanded_config("s")


class _Programs:
    """A pool with a program."""

    @property
    def servers(self):
        content = json.dumps({"mcpServers": {"s": {"command": "x"}}}).encode()
        return {"s": type("Server", (), {"config": read_servers(content, file="f", scope="user").servers[0]})}


async def test_tokens_are_renewed_once_for_all_processes(server, opened, clock):
    """RA-15: with rotation, for the same resource, at the address that the login named."""
    async with opened() as logins:
        await log_in(logins, server)
        before = await logins.at(config_of(server.url)).current()
        clock.by = timedelta(seconds=3590)
        async with opened() as others, asyncio.TaskGroup() as group:
            asked = [group.create_task(each.at(config_of(server.url)).current()) for each in (logins, others) * 4]
        (fresh,) = {each.result() for each in asked}
    assert fresh != before
    first, renewal = server.asked("/token")
    assert (renewal["grant_type"], renewal["resource"]) == ("refresh_token", server.url)
    assert renewal["client_id"] == first["client_id"]


@pytest.mark.parametrize("fault", ["revoked", "no refresh"])
async def test_a_login_that_ended_is_one_line_and_no_browser(server, opened, tmp_path, fault):
    """RA-15: also in the middle of a session; the token is not sent again, and a new login repairs it."""
    server.fault = fault
    async with opened() as logins:
        await log_in(logins, server)
        async with pool_of(tmp_path, logins, config_of(server.url)) as (pool, told):
            assert await call(pool) == ToolOutput("sum 2")
            server.access.clear()
            server.refresh.clear()
            output = await call(pool)
            assert output.failed
            assert "`ralph /mcp login s`" in output.content
            assert "effects" not in output.content
            await wait_for(pool, "does not run")
            await log_in(logins, server)
            await pool.restart("s")
            assert await call(pool) == ToolOutput("sum 2")
    assert len(told) == 1
    assert len([path for _, path, _, _ in server.seen if path == "/authorize"]) == 2


async def test_only_the_answer_with_the_state_of_the_login_counts(server, opened):
    """RA-15: a stolen or guessed state is refused, and the login goes on; each works once."""
    refused = []

    def attack(page):
        asked = dict(parse_qsl(urlsplit(page).query))
        last = "B" if asked["state"].endswith("A") else "A"
        for state in ("", "guessed", asked["state"][:-1] + last):
            with pytest.raises(HTTPError) as taken:
                agree(f"{asked['redirect_uri']}?code=stolen&state={state}")
            refused.append(taken.value.code)
            taken.value.close()
        with pytest.raises(HTTPError) as taken:
            agree(asked["redirect_uri"].replace("127.0.0.1", "localhost") + f"?code=stolen&state={asked['state']}")
        refused.append(taken.value.code)
        taken.value.close()
        agree(page)

    async with opened() as logins:
        loop = asyncio.get_running_loop()
        done = []
        await logins.log_in(config_of(server.url), lambda page: done.append(loop.run_in_executor(None, attack, page)))
        await done[0]
    assert refused == [400, 400, 400, 421]
    assert "stolen" not in [form["code"] for form in server.asked("/token")]


async def test_two_logins_at_once_do_not_get_in_each_others_way(server, opened):
    """RA-15: each has a port and a state of its own; the later one counts."""
    async with opened() as one, opened() as two:
        async with asyncio.TaskGroup() as group:
            group.create_task(log_in(one, server))
            group.create_task(log_in(two, server))
        config = config_of(server.url)
        assert await one.at(config).current() == await two.at(config).current() != ""
    first, second = server.asked("/token")
    assert first["redirect_uri"] != second["redirect_uri"]


FAULTS = {
    "issuer": "issuer",
    "iss": "iss",
    "plain": "S256",
    "huge": "1,048,576",
    "page elsewhere": "http",
    "token elsewhere": "http",
    "resource": "match",
    "fragment": "page",
}
"""What the error names of each."""


async def test_a_server_that_breaks_the_rules_gets_no_login(server, opened):
    """RA-15: nothing is sent where no secret may go, and the login there was is still there."""
    config = config_of(server.url)
    async with opened() as logins:
        await log_in(logins, server)
        before = await logins.at(config).current()
        for fault, named in FAULTS.items():
            server.fault = fault
            with pytest.raises(ModelAccessDenied, match=named):
                await log_in(logins, server)
            assert (fault, await logins.at(config).current()) == (fault, before)
    assert len(server.asked("/token")) == 1


async def test_metadata_that_are_elsewhere_are_not_followed(server, opened):
    """RA-15: a redirect leads to no other server; who does not agree is told so."""
    with serve_oauth() as other:
        server.fault, server.other = "redirect", other.origin
        async with opened() as logins:
            await log_in(logins, server)  # its own metadata, at the place of the older protocol
            server.fault = "refusal"
            with pytest.raises(AuthorizationDenied, match="access_denied"):
                await log_in(logins, server)
    assert other.seen == []


LOCAL = ("127.0.0.1", "localhost", "2130706433", "0x7f.1", "[::ffff:127.0.0.1]", "0.0.0.0", "127.0.0.1.", "[::1%25lo]")
MEMBERS = ("resource_metadata", "authorization_servers", "registration_endpoint", "authorization_endpoint")


@pytest.mark.slow
@pytest.mark.parametrize("member", [*MEMBERS, "token_endpoint", "revocation_endpoint"])
async def test_the_metadata_of_a_login_lead_nowhere_on_this_machine(server, opened, member):
    """BX-31: not by a name, a notation, a port or a login in the URL; the user named the server's own origin alone."""
    asked = []

    async def note(_reader, writer):
        asked.append(member)
        writer.close()

    async with await asyncio.start_server(note, "127.0.0.1", 0) as inner, opened() as logins:
        port = inner.sockets[0].getsockname()[1]
        schemes = [f"http://127.0.0.1:{port}", f"https://u:p@127.0.0.1:{port}", f"ftp://127.0.0.1:{port}"]
        for place in (*schemes, *(f"https://{host}:{port}" for host in LOCAL)):
            named = f"{place}/admin?cmd=1"
            server.leads = {member: [named] if member == "authorization_servers" else named}
            # Where the metadata cannot be read, those of the server's own origin count.
            with suppress(ModelAccessDenied):
                await log_in(logins, server)
                await logins.log_out(config_of(server.url))
        assert asked == []


class ResolvesHere(LoginTransport):
    """A transport whose names resolve to this machine; nothing listens at the first address."""

    async def addresses(self, url):
        return ["127.0.0.2", "127.0.0.1"]


async def test_a_checked_address_is_connected_to_under_its_name():
    """BX-31: `Host` and the name for TLS stay those of the URL; another address of the host is tried."""
    seen = []

    async def note(reader, writer):
        seen.append(await reader.read(4096))
        writer.close()

    listening = await asyncio.start_server(note, "127.0.0.1", 0)
    place = f"auth.example:{listening.sockets[0].getsockname()[1]}"
    async with listening, address_client(transport=ResolvesHere(frozenset())) as client:
        for scheme in ("http", "https"):
            with suppress(httpx2.TransportError):
                await client.get(f"{scheme}://{place}/")
    plain, hello = seen
    assert f"Host: {place}".encode() in plain
    assert b"auth.example" in hello


async def test_a_login_on_this_machine_is_used_where_the_user_names_it(server, opened):
    """RA-15: `oauth.origins` of the entry; without it the error names the member."""
    with serve_oauth() as other:
        for member, path in {"registration_endpoint": "/register", "token_endpoint": "/token"}.items():
            server.leads |= {member: f"{other.origin}{path}"}
        other.url, other.codes, other.clients = server.url, server.codes, server.clients
        async with opened() as logins:
            with pytest.raises(ModelAccessDenied, match="own origin"):
                await log_in(logins, server)
            assert other.seen == []
            await log_in(logins, server, oauth={"origins": [other.origin]})
    assert [path for _, path, _, _ in other.seen] == ["/register", "/token"]


async def test_nobody_logs_in_without_tls_at_another_machine(opened):
    """RA-15: not even a request is sent."""
    async with opened() as logins:
        with pytest.raises(ModelAccessDenied, match=r"tracker\.example\.invalid"):
            await logins.log_in(config_of("http://tracker.example.invalid/mcp"), browser)


async def test_rights_that_a_call_takes_are_asked_for_by_the_next_login_only(server, opened, tmp_path):
    """RA-15: with those there are; nothing is asked again by itself, nor for rights that are there."""
    server.scope = "base write"
    async with opened() as logins:
        await log_in(logins, server)
        async with pool_of(tmp_path, logins, config_of(server.url)) as (pool, _):
            output = await call(pool)
            assert output.failed
            assert "`ralph /mcp login s`" in output.content
            assert output.content.endswith("base write")
            await log_in(logins, server)
            assert await call(pool) == ToolOutput("sum 2")
            for token in server.access:
                server.access[token] = "base"
            refused = await call(pool)
            assert (refused.failed, "`ralph /mcp login s`" in refused.content) == (True, False)
    assert len(server.asked("/authorize")) == 2


async def test_a_logout_revokes_and_deletes_the_login(server, opened, tmp_path):
    """RA-15: the server refuses afterwards, and nothing is left in the database."""
    config = config_of(server.url)
    async with opened() as logins, pool_of(tmp_path, logins, config) as (pool, _):
        shown = []
        commands = LoginCommands(pool, logins, {}, shown.append)
        text = await commands.log_in("s")
        (page,) = [line for line in text.splitlines() if line.startswith(server.origin)]
        await asyncio.to_thread(agree, page)
        for _ in range(100):
            if shown:
                break
            await asyncio.sleep(0.05)
        assert shown == snapshot(
            [
                (
                    "Logged in at s. The tokens are stored encrypted; their key is in a private file of yours "
                    "(docs/login.md says what that is worth)."
                )
            ]
        )
        assert await call(pool) == ToolOutput("sum 2")
        assert await commands.log_out("s") == snapshot(
            "Logged out at s: the tokens and their key are deleted from this machine."
        )
        await wait_for(pool, "needs a login")
        assert await commands.log_out("s") == snapshot("You were not logged in at s.")
        await commands.close()
    (revoked,) = server.asked("/revoke")
    assert revoked["token"] == server.secrets[1]
    assert list((tmp_path / "data").glob("login-*.key")) == []
    assert login_name(config).provider.startswith("mcp:s:")


async def test_a_client_that_is_registered_already_is_used(server, opened):
    """RA-15: `oauth` of the entry names it, and the port that its redirects are registered for."""
    server.clients.append("known")
    async with opened() as logins:
        await log_in(logins, server, oauth={"clientId": "known"})
    assert server.asked("/register") == []
    assert server.asked("/token")[0]["client_id"] == "known"
