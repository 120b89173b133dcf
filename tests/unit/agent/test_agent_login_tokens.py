from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from scaffold.core.errors import UsageError
from scaffold.login.callback import AuthorizationDenied, NotOurs, code_of_pasted, code_of_query
from scaffold.login.provider import LoginProvider, codex_provider, new_request
from scaffold.login.stored_tokens import SealBroken, seal, unseal
from scaffold.login.tokens import UnusableGrant, decode_claims, read_grant
from scaffold.policy.secret.redaction import Redactor, learn_secrets
from support.errors import error_of
from support.login_server import ACCOUNT, EMAIL, PLAN, LoginServer, jwt

NOW = datetime(2030, 1, 1, tzinfo=UTC)
REDIRECT = "http://localhost:1455/auth/callback"


def granted(**changes):
    return msgspec.json.encode({**LoginServer().issue("line"), **changes})


def test_the_challenge_is_the_s256_of_the_verifier():
    """RA-17: as in the example of RFC 7636."""
    request = msgspec.structs.replace(new_request(), verifier="dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk")
    assert request.challenge == "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"


def test_each_login_has_secrets_of_its_own_and_never_shows_them():
    """RA-17"""
    one, other = new_request(), new_request()
    assert one.state != other.state
    assert one.verifier != other.verifier
    assert len(one.verifier) >= 43
    assert repr(one) == "AuthorizationRequest()"
    assert one.verifier not in LoginProvider("https://as").authorization_url(one)


def test_a_login_is_never_sent_unencrypted():
    """RA-17: another server is for tests, on this machine or with TLS."""
    assert codex_provider({"CODEX_AUTH_URL": ""}).token_url == "https://auth.openai.com/oauth/token"
    for url in ("http://example.com", "ftp://x", "https://user:pass@host"):
        with pytest.raises(UsageError, match="CODEX_AUTH_URL"):
            codex_provider({"CODEX_AUTH_URL": url})


def test_the_account_comes_from_the_claims_of_the_tokens():
    """RA-17"""
    tokens = read_grant(granted(), NOW)
    assert (tokens.account, tokens.email, tokens.plan) == (ACCOUNT, EMAIL, PLAN)
    assert tokens.expires_at == NOW + timedelta(seconds=3600)
    assert tokens.access not in repr(tokens)
    assert tokens.refresh not in repr(tokens)


def test_a_wrong_clock_on_either_side_changes_no_lifetime():
    """RA-17: a lifetime is the difference of two times of the server's, counted from the receipt."""
    claims = {"iat": 1_000, "exp": 1_600, "chatgpt_account_id": "a"}
    tokens = read_grant(granted(access_token=jwt(claims), expires_in=None), NOW)
    assert tokens.expires_at == NOW + timedelta(seconds=600)
    assert not tokens.is_due(NOW + timedelta(seconds=449))
    assert tokens.is_due(NOW + timedelta(seconds=450))
    assert tokens.has_expired(NOW + timedelta(seconds=600))


def test_without_a_plausible_lifetime_a_token_is_used_until_it_is_refused():
    """RA-17"""
    lifetimes = [None, 0, -5, 1e12]
    grants = [granted(access_token="opaque-token", expires_in=lifetime) for lifetime in lifetimes]
    assert [read_grant(grant, NOW).expires_at for grant in grants] == [None] * 4


def test_an_answer_without_usable_tokens_is_refused_without_showing_it():
    """RA-17"""
    bodies = [
        b"<html>",
        b"",
        b"[]",
        b"{}",
        b"\xff",
        granted(access_token=""),
        granted(access_token="two\nlines"),
        granted(refresh_token=""),
        granted(id_token="", access_token="opaque-token"),
        b"[" * 100_000,
    ]
    refusals = [error_of(UnusableGrant, read_grant, body, NOW) for body in bodies]
    assert [
        body for body, refusal in zip(bodies, refusals, strict=True) if not refusal or len(str(refusal)) >= 80
    ] == []


def test_a_renewal_keeps_the_account_and_a_refresh_token_that_is_not_rotated():
    """RA-17"""
    before = read_grant(granted(), NOW)
    after = read_grant(granted(refresh_token="", id_token=""), NOW, before)
    assert (after.refresh, after.email) == (before.refresh, EMAIL)
    other = msgspec.structs.replace(before, account="another")
    with pytest.raises(UnusableGrant, match="account"):
        read_grant(granted(), NOW, other)


def test_what_is_no_jwt_has_no_claims():
    """RA-17"""
    tokens = ["", "a.b", "a.b.c", "..", "a.!!.c", "a.WzFd.c", "a.bnVsbA.c"]
    assert [token for token in tokens if decode_claims(token)] == []


def test_tokens_are_encrypted_with_a_nonce_each_and_bound_to_their_account():
    """RA-17"""
    tokens, key = read_grant(granted(), NOW), bytes(32)
    one, other = seal(tokens, key, "codex"), seal(tokens, key, "codex")
    assert one[:12] != other[:12]
    assert tokens.access.encode() not in one
    assert unseal(one, key, "codex", ACCOUNT) == tokens
    damaged = one[:-1] + bytes([one[-1] ^ 1])
    cases = [(one, b"k" * 32, ACCOUNT), (one, key, "other"), (damaged, key, ACCOUNT), (one[:20], key, ACCOUNT)]
    for sealed, used, account in [*cases, (b"", key, ACCOUNT)]:
        with pytest.raises(SealBroken):
            unseal(sealed, used, "codex", account)


def test_only_exactly_one_state_of_this_login_brings_a_code():
    """RA-17"""
    request = new_request()
    assert code_of_query(f"code=abc&state={request.state}", request) == "abc"
    wrong = [
        "code=abc",
        "code=abc&state=",
        f"code=abc&state={request.state}x",
        f"code=abc&state={request.state}&state=x",
        f"state={request.state}",
        f"code=a&code=b&state={request.state}",
        f"code=%0d%0a&state={request.state}",
        f"code=é&state={request.state}",
        "error=access_denied&state=stolen",
        "&".join(f"a{number}=1" for number in range(100)),
    ]
    for query in wrong:
        with pytest.raises(NotOurs):
            code_of_query(query, request)
    with pytest.raises(AuthorizationDenied, match="access_denied"):
        code_of_query(f"error=access_denied&state={request.state}", request)


def test_what_is_pasted_is_an_address_with_our_state_or_a_code():
    """RA-17"""
    request = new_request()
    good = f"code=ac_12345678&state={request.state}"
    for text in (f" {REDIRECT}?{good}\n", f"http://127.0.0.1:1455/auth/callback?{good}", f"?{good}", good):
        assert code_of_pasted(text, request) == "ac_12345678"
    assert code_of_pasted("ac_12345678\n", request) == "ac_12345678"
    page = LoginProvider("https://auth.openai.com").authorization_url(request)
    wrong = ["", "\n", page, f"{REDIRECT}?code=abc&state=stolen", f"https://evil.example/?{good}", "code=ac_12345678"]
    for text in (*wrong, "no", "http://[", REDIRECT):
        with pytest.raises(UsageError):
            code_of_pasted(text, request)


def test_tokens_that_come_later_are_redacted_by_earlier_redactors():
    """RA-17, BX-9: in each form that a text may have them in."""
    redactor, token = Redactor(), "rt_later-than-the-redactor-0123"
    assert token in redactor.clean(f"see {token}")
    learn_secrets([token])
    assert redactor.clean(f"see {token} and {token.encode().hex()}") == "see [redacted:login] and [redacted:login]"
    assert redactor.mark_in("see [redacted:login]")
