"""Read what servers write: a field in any spelling gives the same value, and one that cannot be read is absent."""

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from scaffold.core.conversation import StopReason
from scaffold.core.errors import ModelError
from scaffold.core.model import Usage
from scaffold.core.tool import MAX_NESTING, is_nested_too_deeply
from scaffold.llm.wire.codec import ServerSentEvent
from scaffold.llm.wire.provider_errors import reported_error, unreadable_reply

_DONE = "[DONE]"
_FLAT_SIZE = 800
# Where texts are in the objects that servers write instead of a text, and what grows from piece to piece in them.
_TEXTS = ("text", "content", "thinking", "reasoning", "summary", "refusal", "value")
_GROWING = frozenset({*_TEXTS, "data"})

# Compared without case and punctuation. Any other reason means that the model was ready.
_STOPS: Mapping[str, StopReason] = {
    **dict.fromkeys(("length", "maxtokens", "maxoutputtokens", "modellength", "maxlength"), "max_tokens"),
    "modelcontextwindowexceeded": "max_tokens",
    **dict.fromkeys(("contentfilter", "contentfiltered", "refusal", "safety", "sensitive", "recitation"), "refused"),
    **dict.fromkeys(("blocklist", "prohibitedcontent", "spii", "guardrailintervened"), "refused"),
    "pauseturn": "paused",
}
_FAILURES = frozenset(
    {"error", "networkerror", "abort", "aborted", "cancelled", "canceled", "failed", "timeout"}
    | {"malformedfunctioncall", "insufficientsystemresource"}
)


class WireObject:
    """A JSON object of a reply; empty for any other value."""

    def __init__(self, value: object) -> None:
        self.fields: Mapping[str, Any] = value if isinstance(value, dict) else {}

    def text(self, *names: str) -> str:
        """Return the first of the fields that has a text; empty if none has one."""
        for name in names:
            if text := plain_text(self.fields.get(name)):
                return text
        return ""

    def number(self, name: str) -> int | None:
        """Return the field as a whole number, also from a text; None if it has none."""
        value = self.fields.get(name)
        try:
            number = math.nan if value is None or isinstance(value, bool) else float(value)
        except (TypeError, ValueError, OverflowError):
            return None
        return int(number) if math.isfinite(number) else None

    def inner(self, name: str) -> "WireObject":
        """Return the object in the field."""
        return WireObject(self.fields.get(name))

    def objects(self, name: str) -> list["WireObject"]:
        """Return the objects of the list in the field, or the only one."""
        value = self.fields.get(name)
        return [WireObject(each) for each in (value if isinstance(value, list) else [value]) if isinstance(each, dict)]

    def unread(self, read: frozenset[str]) -> dict[str, Any]:
        """Return the fields with a value that are not among those `read`."""
        return {name: value for name, value in self.fields.items() if name not in read and value not in (None, "", [])}


def plain_text(value: object) -> str:
    """Return the text in any value: a list's parts joined, of an object its first field of text."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "".join(map(plain_text, value))
    if isinstance(value, dict):
        return WireObject(value).text(*_TEXTS)
    return "" if value is None or isinstance(value, bool) else str(value)


def content_parts(content: object) -> Iterator[tuple[bool, str]]:
    """Yield the texts of a message's content, each with whether it is a thought."""
    if isinstance(content, str):
        yield False, content
        return
    for part in content if isinstance(content, list) else [content]:
        fields = WireObject(part).fields
        thought = str(fields.get("type")).startswith(("thinking", "reasoning")) or fields.get("thought") is True
        yield thought, plain_text(part)


def read_json(data: str | bytes) -> Any:
    """Return the JSON value in `data`; ModelError, transient, if there is none, or one that is nested too deeply."""
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        try:
            # Some servers write NaN, or control characters in texts. What no text may contain stays an error.
            value = msgspec.json.decode(msgspec.json.encode(json.loads(data, strict=False)))
        except (ValueError, RecursionError) as error:
            raise unreadable_reply(str(error)) from error
    # Short pieces are no deeper; the functions that read the others call themselves for each level.
    if len(data) > _FLAT_SIZE and isinstance(value, dict | list) and is_nested_too_deeply({"": value}):
        raise unreadable_reply(f"it is nested more than {MAX_NESTING} levels deep")
    return value


def body_object(body: bytes) -> WireObject:
    """Return the reply that was not streamed; ModelError if it is an error or cannot be read."""
    value = read_json(body)
    raise_error_in(value)
    return WireObject(value)


def event_objects(event: ServerSentEvent) -> Iterator[WireObject]:
    """Yield the objects of an event, usually one; ModelError if it reports an error or cannot be read."""
    data = event.data.strip().removesuffix(_DONE).strip()
    for value in _event_values(data, event.name) if data else ():
        raise_error_in(value, event.name)
        yield WireObject(value)


def is_last(event: ServerSentEvent) -> bool:
    """Return True if the event ends the stream."""
    return event.data.rstrip().endswith(_DONE)


def raise_error_in(value: object, event_name: str = "") -> None:
    """Raise the ModelError that an event, a choice or a complete body reports, if it does."""
    reply = WireObject(value)
    error = reply.fields.get("error")
    if not error and "error" in (event_name, reply.fields.get("object"), reply.fields.get("type")):
        error = value or "no reason given"
    if error:
        told = WireObject(error)
        code, kind = told.fields.get("code"), told.text("type")
        name = code if isinstance(code, str) and code else kind or code or ""
        # An event's own type says no more than that.
        raise reported_error("" if name == "error" else str(name), told.text("message", "detail") or plain_text(error))


def _event_values(data: str, event_name: str) -> list[Any]:
    try:
        return [read_json(data)]
    except ModelError as error:
        if event_name == "error":
            raise reported_error("", data) from error
        # Events without an empty line between them, and data that was marked as such twice.
        lines = [line.strip().removeprefix("data:").strip() for line in data.split("\n")]
        if lines == [data]:
            raise
        return [read_json(line) for line in lines if line and line != _DONE]


def stop_reason(word: str, *, calling: bool, refused: bool = False) -> StopReason:
    """Return why a reply ended, whatever its server calls that; ModelError, transient, if its server failed."""
    name = "".join(char for char in word.lower().rpartition(".")[2] if char.isalnum()).removeprefix("finishreason")
    if name in _FAILURES:
        raise unreadable_reply(f"its finish reason is `{word}`")
    stop = _STOPS.get(name, "end")
    if stop in {"max_tokens", "refused"}:
        return stop
    return "tool_calls" if calling else "refused" if refused else stop


class UsageCounts:
    """The token counts of one reply by their names on any wire: the last that is not 0, as each is a total."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def note(self, reported: object) -> None:
        """Take over the counts of a usage object; what cannot be read says nothing."""
        if not isinstance(reported, dict):
            return
        usage = WireObject(reported)
        for name, value in reported.items():
            if isinstance(value, dict):
                self.note(value)
            elif count := usage.number(name):
                self._counts[name] = count

    def usage(self, *, apart: bool = False) -> Usage:
        """Return the usage of this request; `apart`: `input_tokens` do not include what the cache has."""
        counts = self._counts
        written = counts.get("cache_creation_input_tokens", 0)
        names = ("cache_read_input_tokens", "cached_tokens", "prompt_cache_hit_tokens")
        cached = next((counts[name] for name in names if name in counts), 0)
        entered = counts.get("input_tokens", 0) + (written + cached if apart else 0)
        entered = counts.get("prompt_tokens", entered)
        written_out = counts.get("completion_tokens") or counts.get("output_tokens", 0)
        return Usage(
            input_tokens=entered,
            cached_input_tokens=cached,
            cache_write_tokens=written,
            # Some providers count thoughts only in the total.
            output_tokens=max(written_out, counts.get("total_tokens", 0) - entered),
            cost_usd=None,
            requests=1,
        )


def merge_opaque(before: Any, more: Any, name: str = "") -> Any:
    """Return a field that we do not understand as far as it has come: its pieces put together by their index."""
    if isinstance(before, dict) and isinstance(more, dict):
        return before | {key: merge_opaque(before.get(key), value, key) for key, value in more.items()}
    if isinstance(before, list) and isinstance(more, list):
        merged = list(before)
        for each in more:
            place = next((at for at in reversed(range(len(before))) if _continues(before[at], each)), len(merged))
            merged[place : place + 1] = [merge_opaque(merged[place], each) if place < len(merged) else each]
        return merged
    if more in (None, "") or (more == before and name not in _TEXTS):
        return before
    return before + more if name in _GROWING and isinstance(before, str) and isinstance(more, str) else more


def _continues(before: object, more: object) -> bool:
    """Return whether an item of a list is the next piece of one before: of the same index, or not signed yet."""
    if not isinstance(before, dict) or not isinstance(more, dict):
        return before == more
    if "index" in more or "index" in before:
        return before.get("index") == more.get("index") and before.get("type") == more.get("type")
    return before.get("type") == more.get("type") and not before.get("signature") and "data" not in before
