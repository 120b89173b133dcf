"""Checking a call's arguments against the tool's JSON schema, in words a model can act on.

Our schemas are objects of plain values: `type`, `required`, `properties`, `minimum` are all they say.
"""

from collections.abc import Mapping
from typing import Any

from scaffold.core.tool import Tool

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


def misfit(tool: Tool, args: Mapping[str, Any]) -> str | None:
    """Return everything that is wrong with `args`, in one line; None if they fit the tool's schema."""
    properties: Mapping[str, Mapping[str, Any]] = tool.schema.get("properties", {})
    required = tool.schema.get("required", ())
    missing = [f"{tool.name} needs {_described(name, properties[name])}" for name in required if name not in args]
    unknown = [f"{tool.name} knows no `{name}`, {_takes(properties)}" for name in args if name not in properties]
    wrong = [
        f"`{name}` must be {_kind(schema)}, not {_shown(args[name])}"
        for name, schema in properties.items()
        if name in args and not _fits(args[name], schema)
    ]
    problems = missing + unknown + wrong
    return "; ".join(problems) if problems else None


def _fits(value: Any, schema: Mapping[str, Any]) -> bool:
    wanted = schema["type"]
    if isinstance(value, bool) and wanted != "boolean":
        return False
    if not isinstance(value, _TYPES[wanted]):
        return False
    return "minimum" not in schema or bool(value >= schema["minimum"])


def _kind(schema: Mapping[str, Any]) -> str:
    article = "an" if schema["type"][0] in "aio" else "a"
    bound = f" of at least {schema['minimum']}" if "minimum" in schema else ""
    return f"{article} {schema['type']}{bound}"


def _described(name: str, schema: Mapping[str, Any]) -> str:
    return f"`{name}` ({schema['type']})"


def _takes(properties: Mapping[str, Any]) -> str:
    return "it takes " + (", ".join(f"`{name}`" for name in properties) or "nothing")


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."
