"""Tools that answer in compact JSON of limited length, which says what was left out, or with an error message."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from scaffold.core.errors import IllegalTransition, PlanInvalid, RunBusy, UsageError
from scaffold.core.tool import Tool, ToolOutput
from scaffold.plan.edit.draft import ChangeRejected
from scaffold.tools.workspace import failed_answer

RESPONSE_CHARS = 8_000
"""Approximate limit for an answer, in characters."""
MAX_NAMES = 40
"""Limit for a list of names."""
NAMES_CHARS = 2_000
"""Limit for a list of names, in characters."""
REPORTED_ERRORS = (ChangeRejected, PlanInvalid, IllegalTransition, RunBusy, UsageError)
"""Errors that the model can react to; others are bugs and propagate."""
Args = Mapping[str, Any]
ToolHandler = Callable[[Args], Awaitable[Mapping[str, Any]]]
STRING_SCHEMA = {"type": "string"}
STRING_LIST_SCHEMA = {"type": "array", "items": STRING_SCHEMA}


def json_tool(
    name: str, description: str, schema: Mapping[str, Any], answer: ToolHandler, *, read_only: bool = False
) -> Tool:
    """Return a tool that answers with the result of `answer` as JSON, without None values."""

    async def run(args: Args) -> ToolOutput:
        try:
            response = await answer(args)
        except REPORTED_ERRORS as refusal:
            return failed_answer(refusal.in_full)
        return ToolOutput(compact_json({name: value for name, value in response.items() if value is not None}))

    return Tool(name=name, description=description, schema=schema, category="memory", run=run, read_only=read_only)


def compact_json(value: object) -> str:
    """Return `value` as JSON without spaces."""
    return msgspec.json.encode(value).decode()


def truncate_names(each: Sequence[str], *, room: int = NAMES_CHARS) -> list[str]:
    """Return the names that fit into `room` characters, at least one, followed by a count of the others."""
    taken = 0
    for name in each[:MAX_NAMES]:
        room -= len(name) + len('"",')
        if taken and room < 0:
            break
        taken += 1
    return [*each] if taken == len(each) else [*each[:taken], f"... and {len(each) - taken} more"]


def fit_entries(entries: Iterable[Mapping[str, Any]], *, most: int, room: int) -> tuple[list[Mapping[str, Any]], int]:
    """Return the first entries, at most `most` and what fits into `room` characters, and the number left out.

    At least one entry is returned, if there is one.
    """
    taken: list[Mapping[str, Any]] = []
    left = 0
    for entry in entries:
        room -= len(compact_json(entry))
        # Once one is left out, so are all later ones: otherwise the list would look complete.
        if taken and (left or room < 0 or len(taken) >= most):
            left += 1
        else:
            taken.append(entry)
    return taken, left
