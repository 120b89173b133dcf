"""Questions of servers to the user: how they are asked, how many, and what an answer in words stands for."""

from collections.abc import Mapping
from typing import Any

import mcp_types
import msgspec

from scaffold.core.printable_text import printable, truncate_text
from scaffold.extensions.mcp.offers import Question

MAX_QUESTIONS = 3
"""In one call; further ones are declined."""
MAX_QUESTION_CHARS = 2_000
MAX_FIELDS = 20
REFUSALS = frozenset({"", "cancel", "decline", "no", "none", "reject"})
YES = frozenset({"true", "yes", "y", "1", "on"})
DECLINED = mcp_types.ElicitResult(action="decline")


def question_of(server: str, params: mcp_types.ElicitRequestParams) -> Question | None:
    """Return the question; None for one that we do not ask, as it would send the user to an address."""
    if not isinstance(params, mcp_types.ElicitRequestFormParams):
        return None
    schema = dict(params.requested_schema or {})
    fields = schema.get("properties")
    if not isinstance(fields, dict) or len(fields) > MAX_FIELDS:
        fields = {}
    required = tuple(str(name) for name in schema.get("required") or () if name in fields)
    return Question(server, truncate_text(printable(params.message), MAX_QUESTION_CHARS), fields, required)


def read_reply(question: Question, words: str | None) -> mcp_types.ElicitResult:
    """Return what the user's words mean to the server; words that do not answer it decline."""
    if words is None or (words.strip().lower() in REFUSALS and not _is_boolean(question)):
        return DECLINED
    given = _given(question, words.strip())
    content = {}
    for name, field in question.fields.items():
        if name in given:
            content[name] = _typed(given[name], field)
        elif isinstance(field, dict) and "default" in field:
            content[name] = field["default"]
    if any(name not in content for name in question.required):
        return DECLINED
    return mcp_types.ElicitResult(action="accept", content=content)


def _is_boolean(question: Question) -> bool:
    return len(question.fields) == 1 and all(
        isinstance(field, dict) and field.get("type") == "boolean" for field in question.fields.values()
    )


def _given(question: Question, words: str) -> Mapping[str, Any]:
    try:
        table = msgspec.json.decode(words)
    except (msgspec.DecodeError, RecursionError):
        table = None
    if isinstance(table, dict):
        return table
    if len(question.fields) == 1:
        return dict.fromkeys(question.fields, words)
    pairs = (line.partition(":") for line in words.splitlines())
    return {name.strip(): value.strip() for name, found, value in pairs if found}


def _typed(value: Any, field: Any) -> Any:
    kind = field.get("type") if isinstance(field, dict) else None
    text = value.strip() if isinstance(value, str) else value
    try:
        if kind == "boolean" and isinstance(text, str):
            return text.lower() in YES
        if kind == "integer":
            return int(text)
        if kind == "number":
            return float(text)
    except (TypeError, ValueError):
        return value
    if kind == "array" and isinstance(text, str):
        return [each.strip() for each in text.split(",")]
    return value
