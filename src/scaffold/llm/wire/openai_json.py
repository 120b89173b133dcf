"""Common parts of OpenAI's two wire formats."""

from base64 import b64encode
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from scaffold.core.conversation import Image, Request, ToolCall
from scaffold.llm.wire.codec import ModelTarget
from scaffold.llm.wire.format import encode_json, parse_arguments, stable_id

SCHEMA_NAME = "answer"
"""The name of a reply's schema; the wire requires one but ignores it."""

# The JSON schema keywords that strict mode allows.
_STRICT = frozenset(
    {"type", "description", "title", "enum", "const", "properties", "required", "additionalProperties", "items"}
    | {"anyOf", "$ref", "$defs", "pattern", "format", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}
    | {"multipleOf", "minItems", "maxItems"}
)
_SAYING_WHAT = frozenset({"type", "enum", "const", "anyOf", "$ref"})


NO_ARGUMENTS = frozenset({"{}", "null", '""'})
"""How servers spell that nothing of a call's arguments has come."""


class WireToolCall(Struct, frozen=True):
    """A tool call as received; `opaque` are its fields that only its server understands."""

    id: str
    name: str
    arguments: str
    opaque: Mapping[str, Any] = {}


def data_url(image: Image) -> str:
    """Return the image as a data URL."""
    return f"data:{image.media_type};base64,{b64encode(image.data).decode()}"


def is_strict_schema(schema: Mapping[str, Any]) -> bool:
    """Return True if `schema` can be used in strict mode.

    Strict mode needs objects with all properties required and no additional ones, and supports only some keywords.
    """
    # At its top level strict mode accepts only an object, and no `anyOf`.
    return schema.get("type") == "object" and "anyOf" not in schema and _is_strict(schema)


def output_limit(request: Request, target: ModelTarget) -> int | None:
    """Return the output limit of the reply in tokens; None for the model's own limit."""
    if request.max_output_tokens is None or target.max_output_tokens is None:
        return request.max_output_tokens
    return min(request.max_output_tokens, target.max_output_tokens)


def arguments_text(arguments: object) -> str:
    """Return a call's arguments as text; some servers send an object instead of text."""
    return arguments if isinstance(arguments, str) else encode_json(arguments).decode() if arguments else ""


def add_arguments(pieces: list[str], words: str) -> str:
    """Add a piece of a call's arguments, and return what it adds: some servers begin with none, or repeat them all."""
    if (not pieces and words.strip() in NO_ARGUMENTS) or repeats_arguments(pieces, words):
        return ""
    if words:
        pieces.append(words)
    return words


def repeats_arguments(pieces: list[str], words: str) -> bool:
    """Return True if `words` are the complete arguments once more."""
    return words.lstrip().startswith("{") and words == "".join(pieces) and are_complete(pieces)


def are_complete(pieces: list[str]) -> bool:
    """Return True if nothing can follow the arguments."""
    try:
        return isinstance(msgspec.json.decode("".join(pieces)), dict)
    except (msgspec.DecodeError, RecursionError):
        return False


def build_tool_calls(
    written: Iterable[WireToolCall], *, reply: str, cut: bool
) -> tuple[tuple[ToolCall, ...], dict[str, Mapping[str, Any]]]:
    """Return the calls in order with unique ids, and what is opaque of them; missing and repeated ids are replaced.

    New ids depend only on the received data, so parsing a reply twice gives the same ids; `reply` is the reply's id.
    With `cut` the reply is incomplete, and no arguments are parsed.
    """
    calls: dict[str, ToolCall] = {}
    opaque = {}
    for number, call in enumerate(written):
        call_id = call.id
        if not call_id or call_id in calls:
            call_id = stable_id(reply, str(number), call.id, call.name, call.arguments)
        calls[call_id] = ToolCall(call_id, call.name, parse_arguments(call.arguments, cut=cut))
        if call.opaque:
            opaque[call_id] = call.opaque
    return tuple(calls.values()), opaque


def _is_strict(schema: object) -> bool:
    if not isinstance(schema, Mapping) or not schema.keys() <= _STRICT or schema.keys().isdisjoint(_SAYING_WHAT):
        return False
    properties = schema.get("properties", {})
    kinds = schema.get("type", ())
    if "object" in ((kinds,) if isinstance(kinds, str) else tuple(kinds)) or properties:
        whole = schema.get("additionalProperties") is False and set(schema.get("required", ())) == set(properties)
        if not whole:
            return False
    inner = [*properties.values(), *schema.get("$defs", {}).values(), *schema.get("anyOf", ())]
    return all(_is_strict(one) for one in ([*inner, schema["items"]] if "items" in schema else inner))
