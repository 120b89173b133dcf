"""JSON schemas of servers in the plain form that providers and our check of arguments understand."""

from collections.abc import Mapping
from typing import Any

MAX_DEPTH = 8
_KEPT = ("type", "description", "enum", "minimum")


def plain_schema(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema with references within it replaced, and of alternatives with null the other one.

    What is deeper than MAX_DEPTH may be anything. References to other documents are never followed.
    """
    return _plain(given, given, MAX_DEPTH)


def _plain(given: Any, root: Mapping[str, Any], depth: int) -> dict[str, Any]:
    node = _resolved(given, root)
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
            plain["properties"] = {str(name): _plain(each, root, depth - 1) for name, each in properties.items()}
            plain["required"] = required if isinstance(required := node.get("required"), list) else []
    if isinstance(node.get("items"), dict) and depth > 1:
        plain["items"] = _plain(node["items"], root, depth - 1)
    return plain


def _resolved(given: Any, root: Mapping[str, Any]) -> dict[str, Any]:
    """Return the object that a schema stands for; empty for one that may be anything."""
    for _ in range(MAX_DEPTH):
        if not isinstance(given, dict):
            return {}
        about = {"description": given["description"]} if isinstance(given.get("description"), str) else {}
        if isinstance(reference := given.get("$ref"), str):
            given = {**_target(reference, root), **about}
        elif len(others := _alternatives(given)) == 1:
            given = {**others[0], **about}
        else:
            return given
    return {}


def _alternatives(given: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the alternatives besides null; empty if there are none."""
    listed = given.get("anyOf") or given.get("oneOf") or given.get("allOf")
    if not isinstance(listed, list):
        return []
    return [each for each in listed if isinstance(each, dict) and each.get("type") != "null"]


def _target(reference: str, root: Mapping[str, Any]) -> dict[str, Any]:
    if not reference.startswith("#/"):
        return {}
    node: Any = root
    for part in reference[2:].split("/"):
        node = node.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(node, dict) else None
    return node if isinstance(node, dict) else {}
