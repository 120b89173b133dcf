"""Check a call's arguments against the tool's JSON schema and word the problems for a model.

Our schemas use only `type`, `required`, `properties`, `additionalProperties`, `items`, `enum` and `minimum`.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from scaffold.core.tool import Tool, is_nested_too_deeply

MAX_PARSED_CHARS = 1_000_000
"""Longer text is not read as JSON."""

_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list, tuple),
    "object": (dict,),
}


def object_schema(required: Mapping[str, Mapping[str, Any]], **optional: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of an object with these properties and no others."""
    return {
        "type": "object",
        "properties": {**required, **optional},
        "required": list(required),
        "additionalProperties": False,
    }


def read_arguments(tool: Tool, args: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the arguments as they are meant, also inside of lists and objects.

    Some models send every optional argument as null, numbers as text, a list or an object as JSON text, or the only
    object of a list without the list. Whatever cannot be read as the schema's type stays as it is.
    """
    return _read_object(args, tool.schema)


def argument_problems(tool: Tool, args: Mapping[str, Any]) -> str | None:
    """Return all problems of `args` in one line; None if they match the tool's schema."""
    return "; ".join(_object_problems(args, tool.schema, tool.name, "")) or None


def _read_object(args: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    # Some models send every optional argument as null.
    properties, required = schema.get("properties", {}), schema.get("required", ())
    return {
        name: _read_value(value, properties.get(name, {}))
        for name, value in args.items()
        if value is not None or name not in properties or name in required
    }


def _read_value(value: Any, schema: Mapping[str, Any]) -> Any:
    kind = schema.get("type")
    if isinstance(value, str):
        value = _parse_value(value, kind)
    if isinstance(value, float) and kind == "integer" and value.is_integer():
        value = int(value)
    if isinstance(value, dict) and kind == "array" and schema.get("items", {}).get("type") == "object":
        value = [value]
    if isinstance(value, list) and "items" in schema:
        return [_read_value(each, schema["items"]) for each in value]
    return _read_object(value, schema) if isinstance(value, dict) else value


def _parse_value(text: str, kind: str | None) -> Any:
    # A text that cannot be parsed stays text, so that the problem names what the model sent.
    if kind not in {"integer", "number", "boolean", "array", "object"} or len(text) > MAX_PARSED_CHARS:
        return text
    try:
        value = json.loads(text.lower() if kind == "boolean" else text)
    except (ValueError, RecursionError):
        return text
    return text if isinstance(value, Mapping | list) and is_nested_too_deeply({"": value}) else value


def _object_problems(value: Mapping[str, Any], schema: Mapping[str, Any], owner: str, prefix: str) -> Iterator[str]:
    properties: Mapping[str, Mapping[str, Any]] = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{owner} needs `{name}` ({properties[name].get('type', 'anything')})"
    if not schema.get("additionalProperties", True):
        known = ", ".join(f"`{name}`" for name in properties) or "nothing"
        yield from (f"{owner} has no `{name}`, it takes {known}" for name in value if name not in properties)
    for name, inner in properties.items():
        if name in value:
            yield from _value_problems(value[name], inner, f"{prefix}{name}")


def _value_problems(value: Any, schema: Mapping[str, Any], where: str) -> Iterator[str]:
    if not _fits_schema(value, schema):
        shown = repr(value)
        yield f"`{where}` must be {_type_name(schema)}, not {shown if len(shown) <= 60 else f'{shown[:60]}...'}"
    elif isinstance(value, dict):
        yield from _object_problems(value, schema, f"`{where}`", f"{where}.")
    elif isinstance(value, list | tuple) and "items" in schema:
        for index, item in enumerate(value):
            yield from _value_problems(item, schema["items"], f"{where}[{index}]")


def _fits_schema(value: Any, schema: Mapping[str, Any]) -> bool:
    kind = schema.get("type")
    if kind is None:
        return True
    # In Python a bool is also an int.
    if isinstance(value, bool) and kind != "boolean":
        return False
    if not isinstance(value, _TYPES[kind]):
        return False
    if "enum" in schema:
        return value in schema["enum"]
    return "minimum" not in schema or bool(value >= schema["minimum"])


def _type_name(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return "one of " + ", ".join(schema["enum"])
    article = "an" if schema["type"][0] in "aio" else "a"
    bound = f" of at least {schema['minimum']}" if "minimum" in schema else ""
    return f"{article} {schema['type']}{bound}"
