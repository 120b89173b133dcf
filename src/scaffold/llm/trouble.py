"""Why there is no reply: what a provider answered instead, sorted by what to do next. Pure."""

import math
import re
from collections.abc import Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any, Literal

import msgspec
from msgspec import Struct

from scaffold.core.errors import ContextOverflow, ModelTrouble

READ, SHOWN = 2000, 300
"""Characters of a provider's words that are looked at, and that are shown."""

Sort = Literal["overflow", "quota", "key", "forbidden", "unknown", "busy", "passing", "final"]

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
_QUOTA_KINDS = frozenset(
    {"insufficient_quota", "billing_error", "billing_hard_limit_reached", "billing_not_active"}
    | {"usage_limit_reached", "usage_not_included"}
)
_QUOTA_WORDS = re.compile(r"credit balance is too low|insufficient (balance|credit)", re.IGNORECASE)
_KINDS: Mapping[str, Sort] = {
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
_STATUSES: Mapping[int, Sort] = {
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
_KEYS: Mapping[str, str] = {
    "anthropic": "Set ANTHROPIC_API_KEY to a valid key",
    "openai": "Set OPENAI_API_KEY to a valid key",
    "openai-chat": "Set OPENAI_API_KEY to a valid key",
    "codex": "Log in again with `ralph login`",
    "local": "Set LOCAL_API_KEY to the key the server was started with",
}
_ANY_KEY = "Set ANTHROPIC_API_KEY or OPENAI_API_KEY to a valid key"
_FIXES: Mapping[Sort, str] = {
    "overflow": "Start a new conversation, or choose a model with a larger window with `--model`.",
    "quota": "Add credit or wait until the limit is reset at the provider, or choose another model with `--model`.",
    "key": "{key}, or choose another model with `--model`.",
    "forbidden": "{key} that may use this model, or choose another one with `--model`.",
    "unknown": "Check the model's name and, if ANTHROPIC_BASE_URL or OPENAI_BASE_URL is set, that address.",
    "busy": "Wait a while, let fewer agents work at a time, or choose another model with `--model`.",
    "passing": "Try again later, or choose another model with `--model`.",
    "final": "Choose a model that takes this request with `--model`, or start a new conversation.",
}

_SECRETS = re.compile(
    r"\b(?:sk|sess)-[\w*.-]{6,}|(?<=bearer )\S+|(?<=x-api-key: )\S+|\beyJ[\w-]+\.[\w.-]+|(?<=://)[^/@\s]+(?=@)",
    re.IGNORECASE,
)


class _Complaint(Struct, frozen=True):
    """What a server said: `kinds` are its own names for the error, in lower case."""

    kinds: frozenset[str]
    message: str
    resets_in_s: float | None = None


_ONE_SYSTEM_MESSAGE = re.compile(
    r"system message must be|one system message|system.{0,40}\b(first|beginning)\b|roles must alternate", re.IGNORECASE
)
"""What the templates of local models say; llama.cpp and vLLM pass it on, with status 500 or 400."""


class SystemMessageRefused(ModelTrouble):
    """The template of the server's model takes one system message, and there were two."""


def refused(
    status: int, body: bytes, *, who: str, retry_after: str | None, now: datetime, should_retry: str | None = None
) -> ModelTrouble:
    """Return the trouble an HTTP answer other than 2xx means.

    `who` is the model string. `retry_after` is the header of that name or what `wish` makes of all of them,
    `should_retry` the header `x-should-retry`; `now` is aware.
    """
    said = _complaint(body, now)
    after_s = _seconds(retry_after, now)
    sort = _sort(status, said)
    if status == 503 and after_s is not None:
        sort = "busy"
    key = _KEYS.get(who.partition(":")[0], _ANY_KEY)
    trouble = _trouble(sort, f"{_shown(who)} answered HTTP {status}", said, key=key, after_s=after_s)
    if _ONE_SYSTEM_MESSAGE.search(body[:READ].decode(errors="replace")):
        trouble = SystemMessageRefused(trouble.what, trouble.fix)
    if should_retry == "false":
        trouble.transient = False
    return trouble


def reported(kind: str, message: str) -> ModelTrouble:
    """Return the trouble a server reports after it said 200: `kind` is its name, code or HTTP status of the error.

    The request had been accepted, so whatever has a name nobody knows passes.
    """
    said = _Complaint(frozenset({kind.lower()}), message[:READ])
    status = int(kind) if re.fullmatch("[1-5][0-9][0-9]", kind) else 200
    name = f" ({_shown(kind)})" if kind else ""
    start = f"The model's server reported an error{name}"
    return _trouble(_sort(status, said), start, said, key=_ANY_KEY, after_s=None)


def unreadable(detail: str) -> ModelTrouble:
    """Return the trouble, transient, that a reply is not what its wire allows; `detail` is a clause, no sentence."""
    return ModelTrouble(
        f"The model's reply cannot be read: {_shown(detail)}.",
        "Try again; if it stays so, check that the base URL is the provider's and nothing on the way alters replies.",
        transient=True,
    )


def cut_short() -> ModelTrouble:
    """Return the trouble, transient, that a stream ended before the reply was whole."""
    return ModelTrouble(
        "The connection ended in the middle of the model's reply.",
        "Try again; if it stays so, check the network and any proxy on the way.",
        transient=True,
    )


def wish(headers: Mapping[str, str]) -> str | None:
    """Return when a server wants to be asked again, in the form of `Retry-After`; None if it does not say.

    `headers` are looked up in lower case; `retry-after-ms` is finer and goes first.
    """
    milliseconds = _number(headers.get("retry-after-ms"))
    return headers.get("retry-after") if milliseconds is None else f"{milliseconds / 1000}"


def _sort(status: int, said: _Complaint) -> Sort:
    if said.kinds & _OVERFLOW_KINDS or _OVERFLOW_WORDS.search(said.message):
        return "overflow"
    if said.kinds & _QUOTA_KINDS or _QUOTA_WORDS.search(said.message):
        return "quota"
    by_kind = next((_KINDS[kind] for kind in sorted(said.kinds) if kind in _KINDS), None)
    if status == 200:
        unacceptable = any(kind.startswith(("invalid", "unsupported")) for kind in said.kinds)
        return by_kind or ("final" if unacceptable else "passing")
    return by_kind or _STATUSES.get(status) or _by_class(status)


def _by_class(status: int) -> Sort:
    if status >= 500:
        return "passing"
    return "unknown" if status < 400 else "final"  # a redirect: the address is not the provider's


def _trouble(sort: Sort, start: str, said: _Complaint, *, key: str, after_s: float | None) -> ModelTrouble:
    # a server may well repeat a key it does not know, so its words about keys are left out
    words = "the key is missing or not valid" if sort == "key" else _shown(said.message).rstrip(".")
    what = f"{start}: {words}." if words else f"{start}."
    fix = _FIXES[sort].format(key=key)
    if sort == "overflow":
        return ContextOverflow(what, fix)
    if sort == "quota":
        after_s = said.resets_in_s
    limited = sort == "busy" or (sort == "quota" and after_s is not None)
    return ModelTrouble(what, fix, transient=limited or sort == "passing", limited=limited, retry_after_s=after_s)


def _complaint(body: bytes, now: datetime) -> _Complaint:
    """Return what an error's body says, in any of the forms providers and local servers use."""
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return _Complaint(frozenset(), body[:READ].decode(errors="replace"))
    outer: Mapping[str, Any] = value if isinstance(value, dict) else {"message": value}
    error = outer.get("error", outer)
    inner: Mapping[str, Any] = error if isinstance(error, dict) else {"message": error}
    kinds = {str(inner[field]).lower() for field in ("type", "code") if inner.get(field)}
    message = str(inner.get("message") or outer.get("detail") or "")
    resets_at_s = _number(inner.get("resets_at"))
    resets_in_s = None if resets_at_s is None else max(0.0, resets_at_s - now.timestamp())
    return _Complaint(frozenset(kinds), message[:READ], _number(inner.get("resets_in_seconds", resets_in_s)))


def _seconds(retry_after: str | None, now: datetime) -> float | None:
    """Return how long the header wants us to wait; None if it is absent or says nothing."""
    seconds = _number(retry_after)
    if seconds is not None or retry_after is None:
        return seconds
    try:
        date = parsedate_to_datetime(retry_after)
    except (ValueError, OverflowError):
        return None
    return max(0.0, (date.replace(tzinfo=date.tzinfo or now.tzinfo) - now).total_seconds())


def _number(value: object) -> float | None:
    """Return a number of at least 0, None for anything else."""
    try:
        number = float(str(value))
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


def _shown(text: str) -> str:
    """Return foreign words as one bounded line: no control characters, nothing that looks like a key."""
    line = _SECRETS.sub("***", " ".join(text[:READ].split()))
    line = "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in line)
    return line if len(line) <= SHOWN else f"{line[:SHOWN]}..."
