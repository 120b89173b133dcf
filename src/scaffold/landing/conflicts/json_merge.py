"""Merge two versions of a JSON file, e.g. `package.json`, key by key; unchanged text keeps its formatting. Pure."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from scaffold.landing.conflicts.line_merge import merged_items, merged_keys
from scaffold.landing.conflicts.not_mergeable import NotMergeable

_SPACE = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()


class JsonValue(Struct, frozen=True):
    """A value that is merged as a whole, with its source text."""

    text: str
    value: Any

    def written(self) -> str:
        """Return its source text."""
        return self.text


class JsonObject(Struct, frozen=True):
    """An object: its members in order, and the text between braces and members."""

    members: Mapping[str, "JsonMember"]
    first: str
    between: str
    last: str

    @property
    def value(self) -> Any:
        """Return it as a Python object."""
        return {key: each.node.value for key, each in self.members.items()}

    def written(self) -> str:
        """Return it as text."""
        return _enclose_parts("{", [each.head + each.node.written() for each in self.members.values()], self, "}")


class JsonArray(Struct, frozen=True):
    """An array of strings and numbers."""

    items: tuple[JsonValue, ...]
    first: str
    between: str
    last: str

    @property
    def value(self) -> Any:
        """Return it as a Python object."""
        return [each.value for each in self.items]

    def written(self) -> str:
        """Return it as text."""
        return _enclose_parts("[", [each.text for each in self.items], self, "]")


JsonNode = JsonValue | JsonObject | JsonArray


class JsonMember(Struct, frozen=True):
    """A key with its colon and the space around it, and the value."""

    head: str
    node: JsonNode


def merge_json(base: str, ours: str, theirs: str) -> str:
    """Return the file with the changes of both sides. Raises NotMergeable with the reason."""
    start, mine, end = _parse_file(ours)
    (_, was, _), (_, other, _) = _parse_file(base), _parse_file(theirs)
    return start + _merge_nodes(was, mine, other, "").written() + end


def _merge_nodes(base: JsonNode | None, ours: JsonNode, theirs: JsonNode, place: str) -> JsonNode:
    if base is not None and _is_same(theirs, base):
        return ours
    if base is not None and _is_same(ours, base):
        return theirs
    if _is_same(ours, theirs):
        return ours
    if isinstance(ours, JsonObject) and isinstance(theirs, JsonObject) and isinstance(base, JsonObject | None):
        return _merge_objects(base, ours, theirs, place)
    if isinstance(ours, JsonArray) and isinstance(theirs, JsonArray) and isinstance(base, JsonArray | None):
        sides = [base.items if base else (), ours.items, theirs.items]
        every = {each.text: each for side in sides for each in side}
        like = ours if len(ours.items) > 1 or len(theirs.items) <= len(ours.items) else theirs
        merged = merged_items(place.removeprefix("."), *([each.text for each in side] for side in sides))
        return JsonArray(tuple(every[text] for text in merged), like.first, like.between, like.last)
    raise NotMergeable(f"both sides change {place.removeprefix('.') or 'the whole'}")


def _is_same(one: JsonNode, other: JsonNode) -> bool:
    # `1`, `1.0` and `true` are equal in Python and different in JSON.
    return json.dumps(one.value) == json.dumps(other.value)


def _merge_objects(base: JsonObject | None, ours: JsonObject, theirs: JsonObject, place: str) -> JsonObject:
    was = base.members if base else {}
    members = {}
    for key in {**was, **ours.members, **theirs.members}:
        mine, other = ours.members.get(key), theirs.members.get(key)
        if mine is not None and other is not None:
            node = _merge_nodes(was[key].node if key in was else None, mine.node, other.node, f"{place}.{key}")
            members[key] = JsonMember(mine.head, node)
        elif (left := mine or other) is not None:
            if key in was and not _is_same(was[key].node, left.node):
                raise NotMergeable(f"one side changes {place.removeprefix('.')}.{key}, the other removes it")
            members[key] = left
    order = merged_keys(list(was), list(ours.members), list(theirs.members))
    # Only an object with several members shows how they are separated.
    like = ours if len(ours.members) > 1 or len(theirs.members) <= len(ours.members) else theirs
    return JsonObject({key: members[key] for key in order}, like.first, like.between, like.last)


def _enclose_parts(opening: str, parts: Sequence[str], layout: JsonObject | JsonArray, closing: str) -> str:
    if not parts:
        return opening + closing
    return opening + layout.first + layout.between.join(parts) + layout.last + closing


def _parse_file(text: str) -> tuple[str, JsonNode, str]:
    """Return the text before the value, the value, and the text after it."""
    try:
        start = _skip_space(text, 0)
        node, end = _parse_value(text, start)
    except (ValueError, IndexError, RecursionError) as error:
        raise NotMergeable(f"invalid JSON: {error}") from error
    if _skip_space(text, end) != len(text):
        raise NotMergeable("invalid JSON: something follows its value")
    return text[:start], node, text[end:]


def _skip_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _parse_value(text: str, at: int) -> tuple[JsonNode, int]:
    if text[at] == "{":
        return _parse_object(text, at)
    value, end = _DECODER.raw_decode(text, at)
    leaf = JsonValue(text[at:end], value)
    scalars = isinstance(value, list) and not any(isinstance(each, list | dict) for each in value)
    return (_parse_array(text, at), end) if scalars else (leaf, end)


def _parse_object(text: str, at: int) -> tuple[JsonObject, int]:
    inner = _skip_space(text, at + 1)
    first, between, members = text[at + 1 : inner], "", {}
    at = inner
    while text[at] != "}":
        key, end = _DECODER.raw_decode(text, at)
        colon = _skip_space(text, end)
        if not isinstance(key, str) or text[colon] != ":":
            raise ValueError(f"no key with a colon at character {at}")
        if key in members:
            raise NotMergeable(f"an object has the key `{key}` twice")
        value_at = _skip_space(text, colon + 1)
        node, end = _parse_value(text, value_at)
        members[key] = JsonMember(text[at:value_at], node)
        at, last, gap = _next_member(text, end, "}")
        between = between or gap
        if last is not None:
            return JsonObject(members, first, between or "," + (first or " "), last), at
    return JsonObject(members, first, ", ", ""), at + 1


def _parse_array(text: str, at: int) -> JsonArray:
    inner = _skip_space(text, at + 1)
    first, between, items = text[at + 1 : inner], "", []
    at = inner
    while text[at] != "]":
        value, end = _DECODER.raw_decode(text, at)
        items.append(JsonValue(text[at:end], value))
        at, last, gap = _next_member(text, end, "]")
        between = between or gap
        if last is not None:
            return JsonArray(tuple(items), first, between or "," + (first or " "), last)
    return JsonArray((), first, ", ", "")


def _next_member(text: str, at: int, closing: str) -> tuple[int, str | None, str]:
    """Return (next position, text before the closing bracket or None if more follows, separator of two members)."""
    end = _skip_space(text, at)
    if text[end] == closing:
        return end + 1, text[at:end], ""
    if text[end] != ",":
        raise ValueError(f"no comma at character {end}")
    following = _skip_space(text, end + 1)
    if text[following] == closing:
        raise ValueError(f"a comma before the end at character {end}")
    return following, None, text[at:following]
