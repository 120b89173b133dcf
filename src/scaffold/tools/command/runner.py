"""Describe or call functions of a user's tool file: `python -I runner.py PATHS FILE [FUNCTION] < ARGUMENTS`.

PATHS is a JSON list of folders to import from. Without FUNCTION the answer is `{"functions": [...], "left_out":
[...]}`; with it the function's result: text as it is, anything else as JSON. Only the answer goes to stdout; what
the file prints goes to stderr. It is a separate script so that user code is never imported into our process.
"""

import asyncio
import importlib.util
import inspect
import json
import os
import re
import sys
import types
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any

_KINDS = {str: "string", int: "integer", float: "number", bool: "boolean", list: "array", dict: "object"}


def main(paths: str, file: str, function: str | None = None) -> None:
    """Describe the functions of `file`, or call one with the JSON object on stdin."""
    answer = os.fdopen(os.dup(1), "w", encoding="utf-8", errors="backslashreplace")
    os.dup2(2, 1)  # what the file prints must not mix with the answer
    sys.path += [str(Path(file).parent), *json.loads(paths)]
    name = Path(file).stem
    spec = importlib.util.spec_from_file_location(name, Path(file))
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    # Before the code runs: dataclasses and type hints look their module up here.
    sys.modules[name] = module
    spec.loader.exec_module(module)
    with answer:
        if not function:
            answer.write(json.dumps(_describe_module(module)))
            return
        result = getattr(module, function)(**json.load(sys.stdin.buffer))
        if inspect.iscoroutine(result):
            result = asyncio.run(result)
        answer.write(result if isinstance(result, str) else json.dumps(result, ensure_ascii=False, default=str))


def _describe_module(module: types.ModuleType) -> dict[str, Any]:
    found = [
        (name, each)
        for name, each in vars(module).items()
        if inspect.isfunction(each) and each.__module__ == module.__name__ and not name.startswith("_")
    ]
    functions, left_out = [], []
    for name, each in found:
        try:
            functions.append(_describe_function(name, each))
        except (TypeError, NameError) as error:
            left_out.append(f"{name} {error}")
    return {"functions": functions, "left_out": left_out}


def _describe_function(name: str, function: Callable[..., Any]) -> dict[str, Any]:
    text = inspect.getdoc(function)
    if not text:
        raise TypeError("has no docstring")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError("yields; return a list")
    hints = typing.get_type_hints(function)
    properties: dict[str, Any] = {}
    required = []
    for parameter in inspect.signature(function).parameters.values():
        # A model passes arguments by name.
        if parameter.kind not in {parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY}:
            raise TypeError(f"takes `{parameter}`; name each parameter")
        if parameter.name not in hints:
            raise TypeError(f"has no type annotation for `{parameter.name}`")
        pattern = rf"^\s*(?::param(?: \w+)? )?`*{re.escape(parameter.name)}`*\s*(?:\([^)]*\))?\s*:\s*(.+)$"
        found = re.search(pattern, text, re.MULTILINE)
        doc = found[1].strip() if found else ""
        properties[parameter.name] = _type_schema(hints[parameter.name]) | ({"description": doc} if doc else {})
        if parameter.default is parameter.empty:
            required.append(parameter.name)
    summary = " ".join(text.split("\n\n")[0].split())
    return {"name": name, "description": summary, "properties": properties, "required": required}


def _type_schema(hint: Any) -> dict[str, Any]:
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    # An optional parameter has the schema of its type: it may be left out.
    if origin in {typing.Union, types.UnionType}:
        rest = [each for each in inner if each is not type(None)]
        if len(rest) == 1:
            return _type_schema(rest[0])
    if origin is typing.Literal and all(isinstance(each, str) for each in inner):
        return {"type": "string", "enum": list(inner)}
    if origin is list and inner:
        return {"type": "array", "items": _type_schema(inner[0])}
    kind = _KINDS.get(origin or hint)
    if kind is None:
        raise TypeError(f"has a parameter of type {hint}; use str, int, float, bool, list, dict or Literal")
    return {"type": kind}


if __name__ == "__main__":
    main(*sys.argv[1:])
