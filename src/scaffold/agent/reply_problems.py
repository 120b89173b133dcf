"""Find a tool call that a model wrote into its text: nothing runs it, so the model is asked to make it.

Models without training for the wire's tools, and servers with a wrong template, do that. A call in a text is never run,
as it may be an example, or come from a file.
"""

import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from scaffold.core.errors import ModelError

MAX_TRIED = 20  # places of a text that are read as JSON
_NAMES = ("name", "tool", "tool_name", "function", "recipient_name")
_ARGUMENTS = ("arguments", "args", "parameters", "input", "tool_input")
EMPTY = "Your last reply was empty. If the task is done, say what you did and what came of it; otherwise go on."
CALL_IN_TEXT = (
    "Your last reply has a tool call in its text, where it runs nothing. Make it in the form that you were given; if "
    "the text is your answer, send it once more."
)


def call_in_text(text: str, tools: Collection[str]) -> str:
    """Return the name of the first of `tools` that a JSON object in the text calls; empty if none does."""
    return next((name for value in _json_in(text) if (name := _called_tool(value, tools))), "")


def _called_tool(value: Any, tools: Collection[str]) -> str:
    # Wires wrap calls differently: the name and arguments may be in an inner object.
    if isinstance(value, list):
        return next((name for each in value if (name := _called_tool(each, tools))), "")
    if not isinstance(value, Mapping):
        return ""
    if inner := next(
        (each for each in (value.get("function"), value.get("tool_calls")) if isinstance(each, Mapping | list)), None
    ):
        return _called_tool(inner, tools)
    name = next((value[key] for key in _NAMES if isinstance(value.get(key), str)), "")
    has_arguments = any(isinstance(value.get(key), Mapping | str) for key in _ARGUMENTS)
    return name if name in tools and has_arguments else ""


def _json_in(text: str) -> Iterator[Any]:
    decoder, at, tried = json.JSONDecoder(), 0, 0
    while tried < MAX_TRIED:
        at = min((found for found in (text.find("{", at), text.find("[", at)) if found >= 0), default=-1)
        if at < 0:
            return
        tried += 1
        try:
            value, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            at += 1
        else:
            yield value


def cutoff_error(times: int) -> ModelError:
    """Return the error after so many replies in a row that were cut off."""
    return ModelError(
        f"{times} replies in a row were cut off at the model's length limit",
        "Ask for less at a time, or choose a model with longer replies with `--model`.",
    )


def no_answer_error() -> ModelError:
    """Return the error after a second empty reply."""
    return ModelError(
        "the model ended its work without an answer, also when it was asked for one",
        "What it did is kept; ask it with `ralph -c`, or choose another model with `--model`.",
    )
