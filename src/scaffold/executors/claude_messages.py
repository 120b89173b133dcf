"""What Claude Code writes: only the fields that are read, and none of them has to be there."""

from typing import Any

from msgspec import Struct

from scaffold.core.model import Usage


class ClaudeTokens(Struct, frozen=True):
    """What the provider counted for one message; what is None is not in this report."""

    input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    output_tokens: int | None = None


class ModelTokens(Struct, frozen=True, rename="camel"):
    """What one model has used."""

    input_tokens: int = 0
    cache_creation_input_tokens: int = 0
    cache_read_input_tokens: int = 0
    output_tokens: int = 0


class Block(Struct, frozen=True):
    """A piece of a message, whole or as a delta of it: text, thinking, a call of a tool, its result."""

    type: str = ""
    text: str = ""
    thinking: str = ""
    id: str = ""
    name: str = ""
    input: Any = None
    tool_use_id: str = ""
    content: Any = None
    is_error: bool | None = None
    partial_json: str = ""


class ClaudeMessage(Struct, frozen=True):
    """A message of the model, or the results of its calls."""

    id: str = ""
    model: str = ""
    content: list[Block] | str = ""
    usage: ClaudeTokens | None = None


class Denial(Struct, frozen=True):
    """A call that was denied."""

    tool_name: str = ""
    tool_use_id: str = ""


class ClaudeRequest(Struct, frozen=True):
    """What it asks us; only `can_use_tool` has these fields."""

    subtype: str = ""
    tool_name: str = ""
    tool_use_id: str = ""
    input: dict[str, Any] = {}
    title: str | None = None
    display_name: str | None = None
    description: str | None = None
    decision_reason: str | None = None


class RateLimit(Struct, frozen=True, rename={"resets_at": "resetsAt", "kind": "rateLimitType"}):
    """The limit of a subscription; `kind` is its window, `resets_at` in seconds since 1970."""

    status: str = ""
    resets_at: float | None = None
    kind: str | None = None


class SessionUsage(Struct, frozen=True):
    """What a conversation has used."""

    total_cost_usd: float = 0
    model_usage: dict[str, ModelTokens] = {}


class AnswerFields(Struct, frozen=True):
    """What of its answers is read: that to `get_usage`."""

    session: SessionUsage | None = None


class ControlAnswer(Struct, frozen=True):
    """Its answer to a request of ours."""

    subtype: str = ""
    request_id: str = ""
    error: str | None = None
    response: AnswerFields = AnswerFields()


class ClaudeLine(Struct, frozen=True, rename={"permission_mode": "permissionMode", "model_usage": "modelUsage"}):
    """The fields of all its messages that are read, of the events of the provider's interface too."""

    type: str = ""
    subtype: str | None = None
    session_id: str | None = None
    message: ClaudeMessage | str | None = None
    error: Any = None
    # control requests and their answers
    request_id: str = ""
    request: ClaudeRequest = ClaudeRequest()
    response: ControlAnswer = ControlAnswer()
    # `system`
    model: str | None = None
    permission_mode: str | None = None
    retry_delay_ms: float = 0
    error_status: int | None = None
    tool_name: str = ""
    tool_use_id: str = ""
    rate_limit_info: RateLimit = RateLimit()
    # `stream_event`, and the events of the provider's interface
    event: Any = None
    content_block: Block = Block()
    delta: Block = Block()
    usage: ClaudeTokens | None = None
    # `result`
    is_error: bool = False
    result: str | None = None
    errors: list[str] | None = None
    structured_output: Any = None
    terminal_reason: str | None = None
    api_error_status: int | None = None
    startup_failure_reason: str | None = None
    total_cost_usd: float | None = None
    model_usage: dict[str, ModelTokens] | None = None
    permission_denials: list[Denial] | None = None


def usage_of(tokens: ClaudeTokens | ModelTokens, requests: int) -> Usage:
    """Return the tokens of as many requests, without a price."""
    cached, written = tokens.cache_read_input_tokens or 0, tokens.cache_creation_input_tokens or 0
    return Usage(
        input_tokens=(tokens.input_tokens or 0) + cached + written,
        cached_input_tokens=cached,
        cache_write_tokens=written,
        output_tokens=tokens.output_tokens or 0,
        cost_usd=None,
        requests=requests,
    )


def usage_between(before: SessionUsage, after: SessionUsage, requests: int) -> Usage:
    """Return what was used from `before` to `after`, in as many requests of the main loop."""
    first, last = (
        sum((usage_of(tokens, 0) for tokens in each.model_usage.values()), Usage()) for each in (before, after)
    )
    return Usage(
        input_tokens=last.input_tokens - first.input_tokens,
        cached_input_tokens=last.cached_input_tokens - first.cached_input_tokens,
        cache_write_tokens=last.cache_write_tokens - first.cache_write_tokens,
        output_tokens=last.output_tokens - first.output_tokens,
        cost_usd=after.total_cost_usd - before.total_cost_usd,
        requests=requests,
    )
