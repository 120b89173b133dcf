"""The tokens of a login against a server that rotates refresh tokens and detects their reuse."""

import asyncio
import sqlite3
import stat
from contextlib import asynccontextmanager, closing
from datetime import timedelta
from pathlib import Path

import pytest
from msgspec import structs

from scaffold.core.errors import ModelAccessDenied, ModelError, UsageError
from scaffold.llm.transport.http_client import Transport
from scaffold.llm.transport.live_context import Deadlines, HttpRequest, LoginClient
from scaffold.login.callback_server import CallbackServer
from scaffold.login.device import DeviceAuthorization
from scaffold.login.keys import PASSPHRASE, KeyTrouble, LoginKeys
from scaffold.login.os_keyring import KeyringTrouble
from scaffold.login.provider import LoginProvider, new_request
from scaffold.login.state import LoginEnded
from scaffold.login.subscription import SubscriptionTokens
from scaffold.login.token_endpoint import TokenEndpoint
from scaffold.store.user_store import UserStore
from support.login_server import ACCOUNT, CLIENT, USER_CODE, browse, callback_port, serve_logins
from support.scenario import wait_until


class NoKeyring:
    def write(self, name, secret):
        raise KeyringTrouble("the extra `keyring` is not installed")

    def read(self, name):
        raise KeyringTrouble("the extra `keyring` is not installed")

    def delete(self, name):
        raise KeyringTrouble("the extra `keyring` is not installed")


NO_KEYRING = NoKeyring()
NAMES = ("localhost", "127.0.0.1", *(["[::1]"] if Path("/proc/net/if_inet6").exists() else []))
QUICK = Deadlines(connect_s=2.0, idle_s=0.3, total_s=2.0)


class HastyDevice(DeviceAuthorization):
    """Asks a hundred times a second, instead of once."""

    async def begin(self):
        return structs.replace(await super().begin(), interval_s=0.01)


@pytest.fixture
def server():
    with serve_logins() as server:
        yield server


@pytest.fixture
def opened(tmp_path, server, clock):
    """Open the tokens as another process would."""

    @asynccontextmanager
    async def opening(keyring=NO_KEYRING, device_wait_s=30, **environ):
        data = tmp_path / "data"
        with closing(UserStore.open(data / "user.db", clock=clock)) as user:
            async with Transport({}) as wire:
                provider = LoginProvider(server.environ["CODEX_AUTH_URL"])
                endpoint = TokenEndpoint(provider, wire, clock, deadlines=QUICK)
                device = HastyDevice(provider, wire, wait_s=device_wait_s)
                keys = LoginKeys(data, environ, keyring)
                yield SubscriptionTokens(user, keys, endpoint, device, clock=clock, data=data)

    return opening


async def all_of(*asked):
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(each) for each in asked]
    return [task.result() for task in tasks]


async def log_in(server, stored):
    request = new_request()
    url = server.agree(LoginProvider("https://as").authorization_url(request))
    return await stored.log_in(url.split("code=")[1].split("&")[0], request.verifier)


def database(tmp_path):
    return b"".join(path.read_bytes() for path in (tmp_path / "data").glob("user.db*"))


async def test_a_login_is_stored_encrypted_and_read_by_another_process(server, opened, tmp_path):
    """RA-17: the key is in a private file where there is no keyring, and a file that others may read is refused."""
    async with opened() as stored:
        tokens, key = await log_in(server, stored)
    assert key.place == "file"
    file = tmp_path / "data" / f"login-{key.name}.key"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert not any(token.encode() in database(tmp_path) for token in server.tokens)
    async with opened() as stored:
        assert (await stored.current()).token == tokens.access
    file.chmod(0o644)
    async with opened() as stored:
        with pytest.raises(KeyTrouble, match="other users"):
            await stored.current()


async def test_a_code_works_once_and_only_with_its_verifier(server, opened):
    """RA-17"""
    async with opened() as stored:
        request = new_request()
        url = server.agree(LoginProvider("https://as").authorization_url(request))
        code = url.split("code=")[1].split("&")[0]
        with pytest.raises(ModelAccessDenied, match="invalid_grant") as caught:
            await stored.log_in(code, new_request().verifier)
        assert code not in caught.value.in_full
        assert await stored.overview() is None


async def test_a_code_that_is_entered_on_another_device_logs_in(server, opened):
    """RA-17: whatever the server says until then, if it is not that the code is refused."""
    shown = []
    async with opened() as stored:
        login = asyncio.create_task(stored.log_in_by_device(shown.append))
        for pending in (403, 404, 429, 500):
            server.poll_status, polls = pending, server.polls
            assert await asyncio.to_thread(wait_until, lambda polls=polls: server.polls > polls + 1)
            assert not login.done()
        server.enter(USER_CODE)
        tokens, _ = await login
        assert (await stored.current()).token == tokens.access
    assert [(code.user_code, code.page.endswith("/codex/device")) for code in shown] == [(USER_CODE, True)]


@pytest.mark.parametrize(
    ("fault", "user_code", "poll_status", "what", "fix"),
    [
        ("no device", USER_CODE, 403, "HTTP 404", "--headless"),
        ("", "\x1b[2J-evil", 403, "no code", "--headless"),
        ("", USER_CODE, 400, "HTTP 400", "--device"),
        ("", USER_CODE, 403, "minutes", "--device"),
    ],
)
async def test_a_device_login_that_comes_to_nothing_says_why_and_stores_nothing(
    server, opened, fault, user_code, poll_status, what, fix
):
    """RA-17: no code of it is in the error."""
    server.fault, server.user_code, server.poll_status = fault, user_code, poll_status
    async with opened(device_wait_s=0.2) as stored:
        with pytest.raises(ModelError) as caught:
            await stored.log_in_by_device(lambda code: None)
        assert await stored.overview() is None
    assert (what in caught.value.what, fix in caught.value.fix) == (True, True)
    assert not any(secret in caught.value.in_full for secret in (user_code, *server.devices))


async def test_tokens_are_renewed_before_they_expire_once_for_all_who_need_them(server, opened, clock):
    """RA-17"""
    async with opened() as one, opened() as other:
        await log_in(server, one)
        clock.by = timedelta(seconds=3600 - 200)
        tokens = await all_of(*(each.current() for each in (one, other) * 4))
    assert server.renewals == 1
    assert len({each.token for each in tokens}) == 1
    assert server.refusals == 0


async def test_a_refused_token_is_renewed_once_and_a_new_one_not_again(server, opened):
    """RA-17: after a 401; a server that refuses all tokens does not use up refresh tokens."""
    async with opened() as one, opened() as other:
        await log_in(server, one)
        refused = await one.current()
        first, second = await one.renewed(refused), await other.renewed(refused)
        assert first == second
        assert first != refused
        assert await one.renewed(first) is None
    assert server.renewals == 1


async def test_a_request_is_sent_once_more_after_a_renewal_and_no_third_time(server, opened):
    """RA-17: a second refusal is the answer; neither has more of a token in it than the server wrote."""
    request = HttpRequest(
        url=f"{server.environ['CODEX_BASE_URL']}/responses",
        headers={"Content-Type": "application/json"},
        body=b"{}",
        deadlines=QUICK,
    )
    async with opened() as stored, Transport({}) as wire:
        await log_in(server, stored)
        client = LoginClient(wire, stored)
        statuses = []
        for _ in range(3):
            async with client.post(request) as answer:
                statuses.append(answer.status)
            server.access.clear()
    assert statuses == [200, 200, 401]
    assert (len(server.asked), server.renewals) == (4, 1)
    assert "Authorization" not in request.headers


async def test_a_clock_that_is_set_back_or_forward_keeps_nobody_from_renewing(server, opened, clock):
    """RA-17: clock skew; what the server refuses is renewed, whatever our clock says."""
    async with opened() as stored:
        await log_in(server, stored)
        clock.by = timedelta(days=400)
        renewed = await stored.current()
        clock.by = timedelta(days=-400)
        assert await stored.current() == await stored.current() == renewed
        assert await stored.renewed(renewed) != renewed
    assert (server.renewals, server.refusals) == (2, 0)


@pytest.mark.parametrize("fault", ["html", "huge", "never", "500"])
async def test_a_broken_token_endpoint_costs_no_login(server, opened, clock, fault):
    """RA-17: a token that has not expired is used on; later the error is that of the server."""
    async with opened() as stored:
        tokens, _ = await log_in(server, stored)
        server.fault = fault
        clock.by = timedelta(seconds=3600 - 200)
        assert (await stored.current()).token == tokens.access
        clock.by = timedelta(seconds=3700)
        with pytest.raises(ModelError) as caught:
            await stored.current()
        assert caught.value.transient
        assert "<" not in caught.value.what
        server.fault = ""
        assert (await stored.current()).token != tokens.access


async def test_a_lost_answer_ends_the_login_with_its_reason(server, opened, clock):
    """RA-17: the server rotated, we never learned the new tokens; the reason is kept for every later command."""
    async with opened() as stored:
        await log_in(server, stored)
        clock.by = timedelta(seconds=3700)
        server.fault = "lost"
        with pytest.raises(ModelError, match="lost") as caught:
            await stored.current()
        assert caught.value.transient
        server.fault = ""
        for _ in range(2):
            with pytest.raises(LoginEnded) as ended:
                await stored.current()
            assert "ralph login" in ended.value.fix
    async with opened() as stored:
        seen = await stored.overview()
    assert seen.account == ACCOUNT
    assert "interrupted" in seen.problem
    assert server.refusals == 1


async def test_a_refresh_token_that_another_program_used_is_said(server, opened, clock):
    """RA-17: replay."""
    async with opened() as stored:
        tokens, _ = await log_in(server, stored)
        server.grant({"grant_type": "refresh_token", "refresh_token": tokens.refresh, "client_id": CLIENT})
        clock.by = timedelta(seconds=3700)
        with pytest.raises(LoginEnded, match="used before") as caught:
            await stored.current()
    assert tokens.refresh not in caught.value.in_full


async def test_an_interrupted_renewal_is_stored_nevertheless(server, opened, clock):
    """RA-17"""
    async with opened() as stored:
        await log_in(server, stored)
        clock.by = timedelta(seconds=3700)
        server.fault, server.slow_s = "slow", 0.2
        asking = asyncio.ensure_future(stored.current())
        await asyncio.to_thread(wait_until, lambda: server.renewals)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
    server.fault = ""
    async with opened() as stored:
        assert await stored.current()
    assert (server.renewals, server.refusals) == (1, 0)


LOCKED = "the keyring is locked"


class FakeKeyring:
    """A keyring in memory, which may be locked."""

    def __init__(self):
        self.kept = {}
        self.locked = False

    def write(self, name, secret):
        self._check()
        self.kept[name] = secret

    def read(self, name):
        self._check()
        return self.kept.get(name)

    def delete(self, name):
        self._check()
        self.kept.pop(name, None)

    def _check(self):
        if self.locked:
            raise KeyringTrouble(LOCKED)


async def test_the_key_is_in_the_keyring_and_a_locked_one_is_said(server, opened, tmp_path):
    """RA-17: locked later, the login waits for it; locked at the login, the key goes elsewhere, which is said."""
    keyring = FakeKeyring()
    async with opened(keyring) as stored:
        tokens, key = await log_in(server, stored)
    assert (key.place, key.note, list(keyring.kept)) == ("keyring", "", [key.name])
    assert not list((tmp_path / "data").glob("*.key"))
    keyring.locked = True
    async with opened(keyring) as stored:
        with pytest.raises(KeyTrouble, match=LOCKED):
            await stored.current()
        assert LOCKED in (await stored.overview()).problem
    keyring.locked = False
    async with opened(keyring) as stored:
        assert (await stored.current()).token == tokens.access
        keyring.locked = True
        _, other = await log_in(server, stored)
        assert (other.place, other.note) == ("file", LOCKED)
        keyring.locked = False
        await log_in(server, stored)
        keyring.locked = True
        assert LOCKED in (await stored.log_out()).left


async def test_a_passphrase_takes_the_place_of_a_keyring(server, opened, tmp_path):
    """RA-17: with another one, or without, nothing can be read, and nothing is lost."""
    async with opened(**{PASSPHRASE: "correct horse battery"}) as stored:
        tokens, key = await log_in(server, stored)
    assert key.place == "passphrase"
    assert not list((tmp_path / "data").glob("*.key"))
    for environ, problem in (({PASSPHRASE: "another horse"}, "passphrase is another"), ({}, "is not set")):
        async with opened(**environ) as stored:
            with pytest.raises(ModelAccessDenied, match=problem):
                await stored.current()
    async with opened(**{PASSPHRASE: "correct horse battery"}) as stored:
        assert (await stored.current()).token == tokens.access
    async with opened(**{PASSPHRASE: "short"}) as stored:
        with pytest.raises(KeyTrouble, match="fewer than 8"):
            await log_in(server, stored)


async def test_a_damaged_row_is_an_error_and_a_new_login_repairs_it(server, opened, tmp_path):
    """RA-17"""
    async with opened() as stored:
        await log_in(server, stored)
    for change in ("tokens = X'00'", "tokens = substr(tokens, 1, 40)", "account = 'other'", "key_name = 'none'"):
        with closing(sqlite3.connect(tmp_path / "data" / "user.db")) as raw, raw:
            raw.execute(f"UPDATE login SET {change}")
        async with opened() as stored:
            with pytest.raises(ModelAccessDenied) as caught:
                await stored.current()
            assert "ralph login" in caught.value.fix
            await log_in(server, stored)
            assert await stored.current()


@pytest.mark.parametrize("up", [True, False])
async def test_a_logout_revokes_and_deletes_for_good_also_without_the_server(server, opened, tmp_path, up):
    """RA-17"""
    server.can_revoke = up
    async with opened() as stored:
        tokens, key = await log_in(server, stored)
        encrypted = _encrypted(tmp_path)
        assert encrypted in database(tmp_path)
        done = await stored.log_out()
        assert (done.account, done.revoked, done.left) == (ACCOUNT, up, "")
        assert server.revoked == ([tokens.refresh] if up else [])
        assert await stored.log_out() is None
        assert encrypted not in database(tmp_path)
    assert not (tmp_path / "data" / f"login-{key.name}.key").exists()


def _encrypted(tmp_path):
    with closing(sqlite3.connect(tmp_path / "data" / "user.db")) as raw:
        return raw.execute("SELECT tokens FROM login").fetchone()[0]


async def test_a_second_login_replaces_the_first_with_a_key_of_its_own(server, opened, tmp_path):
    """RA-17"""
    async with opened() as one, opened() as other:
        first, second = await all_of(log_in(server, one), log_in(server, other))
        last = await one.current()
    assert last.token in {first[0].access, second[0].access}
    assert len(list((tmp_path / "data").glob("*.key"))) == 1


async def test_only_the_redirect_of_this_login_ends_the_wait():
    """RA-17: other states, hosts (DNS rebinding), methods and paths are refused, and the login goes on."""
    request = new_request()
    there = "http://127.0.0.1:1455/auth/callback"
    right = f"?code=ac_1&state={request.state}"
    with callback_port():
        async with CallbackServer(request) as server:
            refused = [
                (await asyncio.to_thread(browse, url, **given))[0]
                for url, given in (
                    (f"{there}?code=evil&state=stolen", {}),
                    (f"{there}?code=evil", {}),
                    (f"{there}?error=access_denied", {}),
                    (there + right, {"Host": "evil.example:1455"}),
                    (there + right, {"Host": "localhost"}),
                    (there + right, {"method": "POST"}),
                    (there + right, {"method": "HEAD"}),
                    (there.replace("/auth/callback", "/other") + right, {}),
                    (f"{there}/{right}", {}),
                )
            ]
            assert refused == [400, 400, 400, 421, 421, 405, 405, 404, 404]
            reader, writer = await asyncio.open_connection("127.0.0.1", 1455)
            writer.write(b"\x16\x03\x01 rubbish\r\n\r\n")
            assert b" 400 " in await reader.readline()
            writer.close()
            with pytest.raises(ModelAccessDenied, match=r"0\.05 s"):
                await server.code(0.05)
            with pytest.raises(UsageError, match="port 1455") as taken:
                async with CallbackServer(new_request()):
                    pass
            assert "--headless" in taken.value.fix


async def test_the_redirect_is_taken_once_by_any_name_of_this_machine():
    """RA-17: `localhost` may be either address; a page that is loaded again is told that it is over."""
    for host in NAMES:
        request = new_request()
        url = f"http://{host}:1455/auth/callback?code=ac_1&state={request.state}"
        with callback_port():
            async with CallbackServer(request) as server:
                status, page = await asyncio.to_thread(browse, url)
                again, _ = await asyncio.to_thread(browse, url)
                assert await server.code() == "ac_1"
        assert (status, again) == (200, 409)
        assert "ac_1" not in page
