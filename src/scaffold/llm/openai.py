"""What the two wires of OpenAI have in common."""

from base64 import b64encode
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from scaffold.core.conversation import Image, Request, ToolCall
from scaffold.core.errors import ModelTrouble
from scaffold.llm.arguments import arguments
from scaffold.llm.codec import Target
from scaffold.llm.trouble import reported
from scaffold.llm.wires import encoded, made_id

ANSWER = "answer"
"""What the schema of a reply is called on the wire; a name is required there and means nothing."""

_STRICT = frozenset(
    {"type", "description", "title", "enum", "const", "properties", "required", "additionalProperties", "items"}
    | {"anyOf", "$ref", "$defs", "pattern", "format", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}
    | {"multipleOf", "minItems", "maxItems"}
)
"""The words of JSON schema that may be used where the model is held to every detail."""
_SAYING_WHAT = frozenset({"type", "enum", "const", "anyOf", "$ref"})


class WrittenCall(Struct, frozen=True):
    """A tool call as the wire gave it."""

    id: str
    name: str
    arguments: str


def data_url(image: Image) -> str:
    """Return the picture as an address that holds all of it."""
    return f"data:{image.media_type};base64,{b64encode(image.data).decode()}"


def fits_strictly(schema: Mapping[str, Any]) -> bool:
    """Tell whether the model can be held to every detail of `schema`.

    That takes objects with all properties required and no others allowed, and no words out of the ordinary.
    """
    return schema.get("type") == "object" and "anyOf" not in schema and _strict(schema)


def most_tokens(request: Request, target: Target) -> int | None:
    """Return how many tokens the reply may have at most; None for as many as the model may give."""
    if request.max_output_tokens is None or target.max_output_tokens is None:
        return request.max_output_tokens
    return min(request.max_output_tokens, target.max_output_tokens)


def written_arguments(said: object) -> str:
    """Return a call's arguments as text, which is what the wires say; some servers send the object itself."""
    return said if isinstance(said, str) else encoded(said).decode() if said else ""


def tool_calls(written: Iterable[WrittenCall], *, reply: str, cut: bool) -> tuple[ToolCall, ...]:
    """Return the calls in order, no two with the same id; ids that are missing or repeated are made anew.

    The ids depend on what was heard alone, so a reply read twice has the same ones; `reply` is the reply's own id.
    With `cut` the reply is not whole, and no call's arguments are read.
    """
    calls: dict[str, ToolCall] = {}
    for number, call in enumerate(written):
        own = call.id
        if not own or own in calls:
            own = made_id(reply, str(number), call.id, call.name, call.arguments)
        calls[own] = ToolCall(own, call.name, arguments(call.arguments, cut=cut))
    return tuple(calls.values())


def complaint(error: object) -> ModelTrouble:
    """Return the trouble of an error that came within a reply: an object with a message, or just words."""
    if not isinstance(error, Mapping):
        return reported("", str(error))
    code, kind = error.get("code"), error.get("type")
    name = code if isinstance(code, str) and code else kind or code or ""
    return reported(str(name), str(error.get("message") or ""))


def _strict(schema: object) -> bool:
    if not isinstance(schema, Mapping) or not schema.keys() <= _STRICT or schema.keys().isdisjoint(_SAYING_WHAT):
        return False
    properties = schema.get("properties", {})
    if "object" in _types(schema) or properties:
        whole = schema.get("additionalProperties") is False and set(schema.get("required", ())) == set(properties)
        if not whole:
            return False
    inner = [*properties.values(), *schema.get("$defs", {}).values(), *schema.get("anyOf", ())]
    return all(_strict(one) for one in ([*inner, schema["items"]] if "items" in schema else inner))


def _types(schema: Mapping[str, Any]) -> tuple[str, ...]:
    named = schema.get("type", ())
    return (named,) if isinstance(named, str) else tuple(named)
