"""Classify provider errors by what to do next. Pure."""

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec
from msgspec import Struct

from scaffold.core.errors import ContextOverflow, ModelAccessDenied, ModelError
from scaffold.host.startup import importing

MAX_READ_CHARS, MAX_SHOWN_CHARS = 2000, 300
"""Limits of a provider's error text: characters examined, and characters shown."""
SERVER_ERROR = 500
"""llama.cpp and vLLM answer so where a model's chat template refuses the request, too."""
_REFUSED_FORM = re.compile(r"\b(chat[ _]?)?template|\bjinja|\broles?\b|\bschema\b|\bgrammar\b", re.IGNORECASE)
"""What an error 500 names that comes for the same request each time: asking again does not help."""
ProviderErrorKind = Literal["overflow", "quota", "key", "forbidden", "unknown", "busy", "passing", "final"]
_OVERFLOW_KINDS = frozenset({"context_length_exceeded", "exceed_context_size_error", "request_too_large"})
_OVERFLOW_WORDS = re.compile(
    r"prompt (\([^)]*\) )?is too long"  # Anthropic, vLLM
    r"|context[ _](length|window|size|limit)[^.]*(exceed|not enough|too (small|long))"
    r"|exceed[^.]*(context[ _](length|window|size|limit)|maximum (input|number of tokens)|n_ctx)"  # llama.cpp, Ollama
    r"|(maximum|max) (context|model) length"  # OpenAI, vLLM, Mistral, DeepSeek
    r"|context (the )?overflow"  # LM Studio
    r"|request too large for"  # OpenAI: one request above the tokens of a minute
    r"|tokens \+ `?max_new_tokens`? must be",  # text-generation-inference
    re.IGNORECASE,
)
_TOKENS = r"(\d[\d,_]*)"
# The context window, as an overflow names it.
_WINDOWS = re.compile(
    rf"(?:context|model) (?:length|size|window)(?: is| of)?(?: only)? \(?{_TOKENS}"  # OpenAI, llama.cpp, LM Studio
    rf"|with {_TOKENS} maximum context length"  # Mistral
    rf"|(?:tokens|\d) > {_TOKENS}",  # Anthropic
    re.IGNORECASE,
)
_QUOTA_KINDS = frozenset(
    {"insufficient_quota", "billing_error", "billing_hard_limit_reached", "billing_not_active"}
    | {"usage_limit_reached", "usage_not_included"}
)
_QUOTA_WORDS = re.compile(r"credit balance is too low|insufficient (balance|credit)", re.IGNORECASE)
_KINDS: Mapping[str, ProviderErrorKind] = {
    "authentication_error": "key",
    "invalid_api_key": "key",
    "permission_error": "forbidden",
    "not_found_error": "unknown",
    "model_not_found": "unknown",
    "rate_limit_error": "busy",
    "rate_limit_exceeded": "busy",
    "overloaded_error": "busy",
    "engine_overloaded_error": "busy",
    "server_is_overloaded": "busy",
    "slow_down": "busy",
    "badrequesterror": "final",
    "bio_policy": "final",
    "content_policy_violation": "final",
    "cyber_policy": "final",
}
_STATUSES: Mapping[int, ProviderErrorKind] = {
    401: "key",
    402: "quota",
    403: "forbidden",
    404: "unknown",
    405: "unknown",
    408: "passing",
    409: "passing",
    413: "overflow",
    425: "passing",
    429: "busy",
    529: "busy",
}
_KEYS: Mapping[str, tuple[str, str]] = {
    "anthropic": ("Set ANTHROPIC_API_KEY to a valid key", "if set, ANTHROPIC_BASE_URL"),
    "openai": ("Set OPENAI_API_KEY to a valid key", "if set, OPENAI_BASE_URL"),
    "openai-chat": ("Set OPENAI_API_KEY to a valid key", "if set, OPENAI_BASE_URL"),
    "codex": ("Log in again with `ralph login`", "if set, CODEX_BASE_URL"),
    "local": (
        "Set LOCAL_API_KEY to the key of the server",
        "the URL behind the `@`, which ends with /v1 at most servers",
    ),
}
"""How a valid key is given to each provider, and where its address comes from."""
_ANY_KEY = "Set ANTHROPIC_API_KEY or OPENAI_API_KEY to a valid key", "if set, ANTHROPIC_BASE_URL or OPENAI_BASE_URL"
OVERFLOW_FIX = "Start a new conversation, or choose a model with a larger window with `--model`."
_FIXES: Mapping[ProviderErrorKind, str] = {
    "overflow": OVERFLOW_FIX,
    "quota": "Add credit or wait until the limit is reset at the provider, or choose another model with `--model`.",
    "key": "{key}, or choose another model with `--model`.",
    "forbidden": "{key} that may use this model, or choose another one with `--model`.",
    "unknown": "Check the model's name and {address}.",
    "busy": "Wait a while, run fewer agents at a time, or choose another model with `--model`.",
    "passing": "Retry later, or choose another model with `--model`.",
    "final": "Choose a model that accepts this request with `--model`, or start a new conversation.",
}
# Errors that say nothing about the request: every other one would get the same answer.
_REFUSES_ALL: frozenset[ProviderErrorKind] = frozenset({"quota", "key", "forbidden", "unknown"})

_SECRETS = re.compile(
    r"\b(?:sk|sess)-[\w*.-]{6,}|(?<=bearer )\S+|(?<=x-api-key: )\S+|\beyJ[\w-]+\.[\w.-]+|(?<=://)[^/@\s]+(?=@)",
    re.IGNORECASE,
)


class _ErrorBody(Struct, frozen=True):
    """A parsed error response: `kinds` are the server's names for the error, in lower case."""

    kinds: frozenset[str]
    message: str
    resets_in_s: float | None = None
    window_tokens: int | None = None
    """The context window it names."""


class RequestRejected(ModelError):
    """The endpoint rejects this request, as it is; `answer` is the body of its answer."""

    def __init__(self, what: str, fix: str, *, answer: str = "", transient: bool = False) -> None:
        super().__init__(what, fix, transient=transient)
        self.answer = answer


def http_error(
    status: int, body: bytes, *, who: str, retry_after: str | None, now: datetime, should_retry: str | None = None
) -> ModelError:
    """Return the ModelError for an HTTP status other than 2xx.

    `who` is the model string, `retry_after` the result of `retry_after_header`, `should_retry` the header
    `x-should-retry`, `now` an aware time.
    """
    parsed = _parse_error_body(body, now)
    after_s = _retry_seconds(retry_after, now)
    kind = _classify_error(status, parsed)
    # A server that names a time is overloaded; one that is down does not know it.
    if after_s is not None and (status == 503 or kind == "passing"):
        kind = "busy"
    access = _KEYS.get(who.partition(":")[0], _ANY_KEY)
    error = _model_error(kind, f"{_bounded_line(who)} answered HTTP {status}", parsed, access=access, after_s=after_s)
    answer = body[:MAX_READ_CHARS].decode(errors="replace")
    if kind == "final" or (kind == "passing" and status == SERVER_ERROR):
        error = RequestRejected(error.what, error.fix, answer=answer, transient=error.transient)
    # Of a load or a rate limit it says only that this client should not ask again at once.
    if should_retry == "false" and not error.limited:
        error.transient = False
    return error


def reported_error(kind: str, message: str) -> ModelError:
    """Return the ModelError for an error reported after status 200; `kind` is its name, code or HTTP status.

    The request was accepted, so an unknown error type counts as transient.
    """
    message = message[:MAX_READ_CHARS]
    parsed = _ErrorBody(frozenset({kind.lower()}), message, window_tokens=_named_window(None, message))
    status = int(kind) if re.fullmatch("[1-5][0-9][0-9]", kind) else 200
    name = f" ({_bounded_line(kind)})" if kind else ""
    start = f"the model's server reported an error{name}"
    classified = _classify_error(status, parsed)
    error = _model_error(classified, start, parsed, access=_ANY_KEY, after_s=None)
    if classified not in {"final", "passing"}:
        return error
    return RequestRejected(error.what, error.fix, answer=message, transient=error.transient)


def provider_error_kind(status: int, body: bytes) -> ProviderErrorKind:
    """Return what an error is that another program got from its provider, and passes on."""
    return _classify_error(status, _parse_error_body(body, datetime.fromtimestamp(0, UTC)))


def unreadable_reply(detail: str) -> ModelError:
    """Return a transient ModelError for a reply that does not match the wire format; `detail` is a clause."""
    return ModelError(
        f"the model's reply cannot be read: {_bounded_line(detail)}",
        "Retry; if it persists, check that the base URL is the provider's and that no proxy alters replies.",
        transient=True,
    )


def web_page(who: str) -> ModelError:
    """Return the ModelError for a web page in the place of a reply of `who`: asking again brings it again."""
    _, address = _KEYS.get(who.partition(":")[0], _ANY_KEY)
    return ModelAccessDenied(
        f"the address of {_bounded_line(who)} answers with a web page",
        f"Check its address ({address}). If that is right, a proxy or the login page of a network answers.",
    )


def truncated_stream() -> ModelError:
    """Return a transient ModelError for a stream that ended before the reply was complete."""
    return ModelError(
        "the connection ended in the middle of the model's reply",
        "Retry; if it persists, check the network and any proxy.",
        transient=True,
    )


def retry_after_header(headers: Mapping[str, str]) -> str | None:
    """Return the server's retry time in the form of `Retry-After`; None if it sent none.

    `headers` have lower-case names; `retry-after-ms` is more precise and takes precedence.
    """
    milliseconds = _finite_number(headers.get("retry-after-ms"))
    return headers.get("retry-after") if milliseconds is None else f"{milliseconds / 1000}"


def _classify_error(status: int, parsed: _ErrorBody) -> ProviderErrorKind:
    # Before the status, because servers report an overflow under many statuses and under general names.
    if parsed.kinds & _OVERFLOW_KINDS or _OVERFLOW_WORDS.search(parsed.message):
        return "overflow"
    if parsed.kinds & _QUOTA_KINDS or _QUOTA_WORDS.search(parsed.message):
        return "quota"
    by_kind = next((_KINDS[kind] for kind in sorted(parsed.kinds) if kind in _KINDS), None)
    refused = _REFUSED_FORM.search(parsed.message)
    if status == 200:
        unacceptable = refused or any(kind.startswith(("invalid", "unsupported")) for kind in parsed.kinds)
        return by_kind or ("final" if unacceptable else "passing")
    if by_kind is None and status == SERVER_ERROR and refused:
        return "final"
    # A redirect is final: the address is not the provider's.
    return by_kind or _STATUSES.get(status) or ("passing" if status >= 500 else "unknown" if status < 400 else "final")


def _model_error(
    kind: ProviderErrorKind, start: str, parsed: _ErrorBody, *, access: tuple[str, str], after_s: float | None
) -> ModelError:
    # a server may repeat an invalid key in its message, so messages about keys are not shown
    message = "the key is missing or not valid" if kind == "key" else _bounded_line(parsed.message).rstrip(".")
    what = f"{start}: {message}" if message else start
    fix = _FIXES[kind].format(key=access[0], address=access[1])
    if kind == "overflow":
        return ContextOverflow(what, fix, window_tokens=parsed.window_tokens)
    if kind == "quota":
        after_s = parsed.resets_in_s
    limited = kind == "busy" or (kind == "quota" and after_s is not None)
    if kind in _REFUSES_ALL and not limited:
        return ModelAccessDenied(what, fix)
    return ModelError(what, fix, transient=limited or kind == "passing", limited=limited, retry_after_s=after_s)


def _parse_error_body(body: bytes, now: datetime) -> _ErrorBody:
    """Parse an error body in any of the forms that providers and local servers use."""
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        text = body[:MAX_READ_CHARS].decode(errors="replace")
        return _ErrorBody(frozenset(), text, window_tokens=_named_window(None, text))
    value = value[0] if isinstance(value, list) and value else value  # Gemini
    outer: Mapping[str, Any] = value if isinstance(value, dict) else {"message": value}
    error = outer.get("error", outer)
    inner: Mapping[str, Any] = error if isinstance(error, dict) else {"message": error}
    kinds = {str(inner[field]).lower() for field in ("type", "code") if inner.get(field)}
    message = str(inner.get("message") or outer.get("detail") or "")
    resets_at_s = _finite_number(inner.get("resets_at"))
    resets_in_s = None if resets_at_s is None else max(0.0, resets_at_s - now.timestamp())
    message = message[:MAX_READ_CHARS]
    return _ErrorBody(
        frozenset(kinds),
        message,
        resets_in_s=_finite_number(inner.get("resets_in_seconds", resets_in_s)),
        window_tokens=_named_window(inner.get("n_ctx"), message),
    )


def _named_window(field: object, message: str) -> int | None:
    """Return the context window that an error names, in a field of its own or in its message; None if it names none."""
    tokens = _finite_number(field)
    if tokens is None:
        found = _WINDOWS.search(message)
        tokens = None if found is None else _finite_number(re.sub("[,_]", "", found[found.lastindex or 0]))
    return None if not tokens else int(tokens)


def _retry_seconds(retry_after: str | None, now: datetime) -> float | None:
    """Return the seconds to wait by the header; None if it is absent or invalid."""
    seconds = _finite_number(retry_after)
    if seconds is not None or retry_after is None:
        return seconds
    with importing():
        from email.utils import parsedate_to_datetime
    try:
        date = parsedate_to_datetime(retry_after)
    except (ValueError, OverflowError):
        return None
    return max(0.0, (date.replace(tzinfo=date.tzinfo or now.tzinfo) - now).total_seconds())


def _finite_number(value: object) -> float | None:
    try:
        number = float(str(value))
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


def _bounded_line(text: str) -> str:
    """Return external text as one bounded line, with control characters escaped and apparent keys masked."""
    line = _SECRETS.sub("***", " ".join(text[:MAX_READ_CHARS].split()))
    line = "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in line)
    return line if len(line) <= MAX_SHOWN_CHARS else f"{line[:MAX_SHOWN_CHARS]}..."
