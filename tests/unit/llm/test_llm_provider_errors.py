import json
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from scaffold.core.errors import ContextOverflow, ModelError
from scaffold.llm.wire.provider_errors import (
    http_error,
    reported_error,
    retry_after_header,
    truncated_stream,
    unreadable_reply,
)

NOW = datetime(2026, 11, 22, 12, 0, 0, tzinfo=UTC)
CLAUDE = "anthropic:claude-sonnet-4-6"


def answer(status: int, body: object = b"", *, who: str = CLAUDE, retry_after: str | None = None) -> ModelError:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return http_error(status, data, who=who, retry_after=retry_after, now=NOW)


def anthropic(kind: str, message: str) -> object:
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}


def openai(message: str, *, kind: str = "invalid_request_error", code: str | None = None) -> object:
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def sort(error: ModelError) -> tuple[bool, bool]:
    return error.transient, error.limited


FINAL, PASSING, BUSY = (False, False), (True, False), (True, True)


def test_a_status_says_whether_a_retry_may_help():
    """RA-21."""
    expected = {
        **dict.fromkeys((301, 400, 401, 402, 403, 404, 405, 422), FINAL),
        **dict.fromkeys((408, 409, 425, 500, 502, 503, 504), PASSING),
        **dict.fromkeys((429, 529), BUSY),
    }
    errors = {status: answer(status, b"<html>\n<h1>oops</h1>") for status in expected}
    assert {status: sort(error) for status, error in errors.items()} == expected
    assert [status for status, error in errors.items() if f"HTTP {status}" not in error.what] == []
    assert {CLAUDE in error.what for error in errors.values()} == {True}


def test_a_server_that_names_a_time_is_overloaded():
    """AL-31: its time is for all agents; one that is asked for in vain counts against no action."""
    for status in [408, 500, 502, 503, 520]:
        for should_retry in [None, "true"]:
            error = http_error(status, b"", who=CLAUDE, retry_after="7", now=NOW, should_retry=should_retry)
            assert (sort(error), error.retry_after_s) == (BUSY, 7), (status, should_retry)


def test_a_servers_error_type_overrides_the_status():
    statuses = [400, 403, 500, 503]
    assert [
        status
        for status in statuses
        if sort(answer(status, openai("Try later", kind="server_error", code="rate_limit_exceeded"))) != BUSY
    ] == []


def test_a_server_that_says_not_to_retry_is_believed_but_for_its_limits():
    """AL-31: the request is not repeated at once, but the agents wait for the limit to end."""
    expected = {(500, None): FINAL, (429, "9"): BUSY, (529, "9"): BUSY}
    assert {
        (status, after): sort(http_error(status, b"", who=CLAUDE, retry_after=after, now=NOW, should_retry="false"))
        for status, after in expected
    } == expected


OVERFLOWS = [
    (400, anthropic("invalid_request_error", "prompt is too long: 207791 tokens > 200000 maximum")),
    (413, anthropic("request_too_large", "Request exceeds the maximum size")),
    (413, b"<html>413 Request Entity Too Large</html>"),
    (400, openai("This model's maximum context length is 128000 tokens.", code="context_length_exceeded")),
    (429, openai("Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 30610.", kind="tokens")),
    (500, {"error": {"code": 500, "message": "the request exceeds the available context size"}}),
    (400, {"object": "error", "message": "This model's maximum context length is 4096 tokens.", "code": 400}),
    (400, {"error": "input length exceeds maximum context length"}),
    (400, {"error": "This model does not currently support mid-generation context overflow."}),
    (422, {"error": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096"}),
    (400, {"detail": "Requested tokens (600) exceed context window of 512"}),
]


def test_a_context_overflow_is_recognised_in_every_providers_wording():
    """RA-21, RA-10: only a recognised overflow leads to compaction; more wordings are read for the window they name."""
    errors = [answer(status, body) for status, body in OVERFLOWS]
    assert [error.what for error in errors if not isinstance(error, ContextOverflow) or sort(error) != FINAL] == []


def test_other_limits_are_not_a_context_overflow():
    messages = [
        "max_tokens: 100000 > 64000, which is the maximum allowed number of output tokens for claude-sonnet-4-6",
        "max_tokens is too large: 100000. This model supports at most 16384 completion tokens",
        "messages.1.content.0: unexpected `tool_use_id` found in `tool_result` blocks",
        "The image exceeds 5 MB maximum",
        "tools.0.name: String should have at most 128 characters",
    ]
    for message in messages:
        error = answer(400, anthropic("invalid_request_error", message))
        assert not isinstance(error, ContextOverflow), message
        assert sort(error) == FINAL, message
        assert message in error.what, message
        assert "`--model`" in error.fix, message


def test_a_refused_key_error_says_where_the_key_is_configured():
    """RA-21."""
    others = [
        (CLAUDE, "ANTHROPIC_API_KEY"),
        ("openai:gpt-5", "OPENAI_API_KEY"),
        ("openai-chat:gpt-5", "OPENAI_API_KEY"),
        ("codex:gpt-5", "`ralph login`"),
        ("local:llama@http://127.0.0.1:8080/v1", "LOCAL_API_KEY"),
        ("else", "ANTHROPIC_API_KEY or OPENAI_API_KEY"),
    ]
    for status in [401, 403]:
        for who, hint in others:
            error = answer(status, openai("Incorrect API key provided"), who=who)
            assert sort(error) == FINAL, (status, who)
            assert hint in error.fix, (status, who)
            assert "`--model`" in error.fix, (status, who)


def test_a_key_is_never_shown_even_if_the_server_repeats_it():
    """RA-21."""
    others = [
        "Incorrect API key provided: sk-proj-abc123DEF. You can find yours in the dashboard",
        "bad header Authorization: Bearer abc123DEF",
        "bad header x-api-key: abc123DEF",
        "token eyJhbc123DEF.eyJabc123DEF.abc123DEF expired",
        "cannot reach http://user:abc123DEF@proxy:8080",
    ]
    for status in [400, 401, 403, 500]:
        for words in others:
            said = answer(status, openai(words)), answer(status, words.encode()), reported_error("server_error", words)
            assert "abc123DEF" not in " ".join(error.what + error.fix for error in said), (status, words)


def test_a_key_unknown_to_the_server_is_hidden_in_any_form():
    """RA-21."""
    said = answer(401, openai("unknown key abc123DEF")), reported_error("authentication_error", "unknown key abc123DEF")
    assert "abc123DEF" not in " ".join(error.what for error in said)


def test_a_password_in_the_models_address_is_not_shown():
    assert "secret" not in answer(500, who="local:llama@http://me:secret@host/v1").what


def test_an_unknown_model_or_address_error_says_what_to_check():
    """RA-21."""
    for status in [301, 404, 405]:
        error = answer(status, anthropic("not_found_error", "model: claude-nope"))
        assert "model: claude-nope" in error.what, status
        assert "ANTHROPIC_BASE_URL" in error.fix, status
    by_code = answer(400, openai("The model `x` does not exist", code="model_not_found"))
    assert "ANTHROPIC_BASE_URL" in by_code.fix


def test_an_exhausted_quota_is_not_retried():
    """RA-21."""
    rows = [
        (429, openai("You exceeded your current quota", kind="insufficient_quota", code="insufficient_quota")),
        (400, anthropic("invalid_request_error", "Your credit balance is too low to access the Anthropic API.")),
        (403, anthropic("billing_error", "billing")),
        (402, {"error": {"message": "Insufficient Balance"}}),
    ]
    for status, body in rows:
        error = answer(status, body, retry_after="3")
        assert sort(error) == FINAL, status
        assert error.retry_after_s is None, status
        assert "credit" in error.fix, status


def test_a_quota_error_says_when_the_quota_resets():
    for reset in [{"resets_in_seconds": 3600}, {"resets_at": NOW.timestamp() + 3600}]:
        body = {"error": {"type": "usage_limit_reached", "message": "The usage limit has been reached", **reset}}
        error = answer(429, body, who="codex:gpt-5")
        assert (sort(error), error.retry_after_s) == (BUSY, 3600), reset


def test_retry_after_is_seconds_or_a_date():
    """RA-21, AL-31."""
    rows = [
        ("20", 20),
        ("0.25", 0.25),
        (" 5 ", 5),
        ("Sun, 22 Nov 2026 12:00:30 GMT", 30),
        ("Sun, 22 Nov 2026 12:00:30 -0000", 30),
        ("Sun, 22 Nov 2026 13:00:30 +0100", 30),
        ("Sun, 22 Nov 2026 11:00:00 GMT", 0),
        (None, None),
        ("", None),
        ("-1", None),
        ("nan", None),
        ("inf", None),
        ("soon", None),
        ("Sun, 22 Nov 999999999999 12:00:30 GMT", None),
    ]
    assert [
        (header, seconds)
        for header, seconds in rows
        if answer(429, retry_after=header).retry_after_s != seconds
        or answer(500, retry_after=header).retry_after_s != seconds
    ] == []


@given(
    st.text() | st.from_regex(r"[A-Z][a-z]{2}, \d{1,12} [A-Z][a-z]{2} \d{1,12} \d+:\d+:\d+ [-+]?\w+", fullmatch=True)
)
def test_an_absurd_retry_after_does_no_harm(header):
    """AL-31."""
    after_s = answer(429, retry_after=header).retry_after_s
    assert after_s is None or after_s >= 0


def test_milliseconds_win_over_seconds():
    """AL-31."""
    rows = [
        ({}, None),
        ({"retry-after": "3"}, "3"),
        ({"retry-after": "3", "retry-after-ms": "2500"}, "2.5"),
        ({"retry-after": "3", "retry-after-ms": "soon"}, "3"),
    ]
    assert [(headers, retry_after_header(headers)) for headers, _ in rows] == rows


@given(st.integers(300, 599), st.binary() | st.text().map(str.encode), st.text())
def test_any_response_body_is_shown_as_one_bounded_line(status, body, who):
    """RA-21."""
    error = answer(status, body, who=who)
    assert error.what.isprintable()
    assert len(error.what) < 700
    assert error.fix.isprintable()


def test_bodies_of_any_shape_are_parsed_as_far_as_possible():
    bodies = [
        b"",
        b"null",
        b"[]",
        b'"text"',
        b'{"error": null}',
        b'{"error": []}',
        b'{"error": {"message": {"a": 1}, "type": 7}}',
        b'{"error": {"message": "\xff"}}',
        b"[" * 100_000,
        b'{"message": "x"',
    ]
    assert [body for body in bodies if sort(answer(500, body)) != PASSING] == []


def test_control_characters_are_shown_escaped():
    error = answer(400, openai("a\nb \x1b[31mred\x07 \u202eback"))
    assert error.what.endswith("HTTP 400: a b \\x1b[31mred\\x07 \\u202eback")


def test_errors_within_a_stream_are_classified_by_name():
    """RA-21."""
    expected = {
        "overloaded_error": BUSY,
        "rate_limit_error": BUSY,
        "rate_limit_exceeded": BUSY,
        "429": BUSY,
        "api_error": PASSING,
        "server_error": PASSING,
        "timeout_error": PASSING,
        "502": PASSING,
        "": PASSING,
        "something_new": PASSING,
        "invalid_request_error": FINAL,
        "invalid_prompt": FINAL,
        "unsupported_value": FINAL,
        "BadRequestError": FINAL,
        "400": FINAL,
        "authentication_error": FINAL,
        "permission_error": FINAL,
        "not_found_error": FINAL,
        "insufficient_quota": FINAL,
        "cyber_policy": FINAL,
    }
    found = {kind: reported_error(kind, "what it says") for kind in expected}
    assert {kind: sort(error) for kind, error in found.items()} == expected
    assert [kind for kind, error in found.items() if isinstance(error, ContextOverflow)] == []
    assert [kind for kind, error in found.items() if kind not in error.what or not error.fix] == []


def test_a_context_overflow_is_recognised_within_a_stream_too():
    for kind, message in [
        ("context_length_exceeded", ""),
        ("invalid_request_error", "prompt is too long: 2 tokens > 1 maximum"),
        ("exceed_context_size_error", "the request exceeds the available context size"),
    ]:
        assert isinstance(reported_error(kind, message), ContextOverflow), kind


def test_connection_errors_are_transient():
    """RA-21, trap (f)."""
    for error in (truncated_stream(), unreadable_reply("an event\nis odd")):
        assert sort(error) == PASSING
        assert error.what.isprintable()
        assert error.fix
