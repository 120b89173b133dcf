"""The JSON schema of a plugin's tool, reduced to what arguments are checked against."""

from collections.abc import Mapping
from typing import Any

from scaffold.core.printable_text import one_line, short_line

MAX_REFERENCES = 8
_KEPT = ("type", "description", "enum", "minimum")
MAX_DEPTH = 8
MAX_MEMBERS = 100  # properties in all of a schema
MAX_DESCRIPTION_CHARS = 1_000
MAX_NAME_CHARS = 64
MAX_ENUM = 100
_TYPES = frozenset({"string", "integer", "number", "boolean", "array", "object"})


def tool_schema(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a schema that we understand; ValueError if its type is not `object`, or it is too large.

    A plugin checks its arguments itself: other keywords are left out, and a value that has only those may be anything.
    """
    if given.get("type", "object") != "object":
        raise ValueError("its schema must have type `object`")
    reduced = _Reducer().reduced({**given, "type": "object"}, MAX_DEPTH)
    return {"properties": {}, "required": [], **reduced, "additionalProperties": False}


class _Reducer:
    def __init__(self) -> None:
        self._members = 0

    def reduced(self, given: Any, depth: int) -> dict[str, Any]:
        """Return the parts of a schema that are checked, at most `depth` levels deep; ValueError says why not."""
        if not isinstance(given, dict):
            raise ValueError("a part of its schema is not an object")  # noqa: TRY004 - of JSON, not of a type of ours
        if depth == 0:
            raise ValueError(f"its schema is nested more than {MAX_DEPTH} levels deep")
        kept: dict[str, Any] = {}
        if isinstance(text := given.get("description"), str):
            kept["description"] = short_line(text, MAX_DESCRIPTION_CHARS)
        kind = given.get("type")
        if not isinstance(kind, str) or kind not in _TYPES:
            return kept
        kept["type"] = kind
        if kind == "object" and "properties" in given:
            kept |= self._reduce_object(given, depth)
        if kind == "array" and "items" in given:
            kept["items"] = self.reduced(given["items"], depth - 1)
        if kind == "string" and _is_choice(given.get("enum")):
            kept["enum"] = given["enum"]
        minimum = given.get("minimum")
        if kind in {"integer", "number"} and isinstance(minimum, int | float) and not isinstance(minimum, bool):
            kept["minimum"] = minimum
        return kept

    def _reduce_object(self, given: Mapping[str, Any], depth: int) -> dict[str, Any]:
        properties, required = given["properties"], given.get("required", [])
        if not isinstance(properties, dict) or not isinstance(required, list):
            raise ValueError("its schema has no object `properties` or no list `required`")  # noqa: TRY004
        self._members += len(properties)
        if self._members > MAX_MEMBERS:
            raise ValueError(f"its schema has more than {MAX_MEMBERS} properties")
        for name in properties:
            if not 1 <= len(name) <= MAX_NAME_CHARS or one_line(name) != name:
                raise ValueError("its schema has a property with an empty, long or unprintable name")
        return {
            "properties": {name: self.reduced(each, depth - 1) for name, each in properties.items()},
            "required": [name for name in properties if name in required],
        }


def _is_choice(value: Any) -> bool:
    return (
        isinstance(value, list)
        and 0 < len(value) <= MAX_ENUM
        and all(isinstance(each, str) and len(each) <= MAX_DESCRIPTION_CHARS for each in value)
    )


def plain_schema(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema with references within it replaced, and of alternatives with null the other one.

    What is deeper than MAX_REFERENCES may be anything. References to other documents are never followed.
    """
    return _plain_part(given, given, MAX_REFERENCES)


def _plain_part(given: Any, root: Mapping[str, Any], depth: int) -> dict[str, Any]:
    node = _resolve_reference(given, root)
    if depth == 0 or not node:
        return {}
    plain = {key: node[key] for key in _KEPT if key in node}
    if isinstance(kinds := plain.get("type"), list):
        others = [kind for kind in kinds if kind != "null"]
        plain["type"] = others[0] if len(others) == 1 else "any"
    properties = node.get("properties")
    if isinstance(properties, dict):
        plain.setdefault("type", "object")
        if depth > 1:
            plain["properties"] = {str(name): _plain_part(each, root, depth - 1) for name, each in properties.items()}
            plain["required"] = required if isinstance(required := node.get("required"), list) else []
    if isinstance(node.get("items"), dict) and depth > 1:
        plain["items"] = _plain_part(node["items"], root, depth - 1)
    return plain


def _resolve_reference(given: Any, root: Mapping[str, Any]) -> dict[str, Any]:
    for _ in range(MAX_REFERENCES):
        if not isinstance(given, dict):
            return {}
        about = {"description": given["description"]} if isinstance(given.get("description"), str) else {}
        listed = given.get("anyOf") or given.get("oneOf") or given.get("allOf")
        others = [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
        others = [each for each in others if each.get("type") != "null"]
        if isinstance(reference := given.get("$ref"), str):
            given = {**_reference_target(reference, root), **about}
        elif len(others) == 1:
            given = {**others[0], **about}
        else:
            return given
    return {}


def _reference_target(reference: str, root: Mapping[str, Any]) -> dict[str, Any]:
    if not reference.startswith("#/"):
        return {}
    node: Any = root
    for part in reference[2:].split("/"):
        node = node.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(node, dict) else None
    return node if isinstance(node, dict) else {}
