"""Tools that answer in short JSON: what is refused is told, what is too long is cut, and what was left out is said."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from scaffold.core.errors import IllegalMove, PlanInvalid, RunBusy, UsageProblem
from scaffold.core.tool import Tool, ToolOutput
from scaffold.plan.draft import DraftRefused
from scaffold.tools.workspace import failed

WHOLE = 8_000
"""Characters of an answer, about."""
NAMES = 40
"""Names in a list."""
ROOM = 2_000
"""Characters of a list of names."""
TOLD_FAILURES = (DraftRefused, PlanInvalid, IllegalMove, RunBusy, UsageProblem)
"""What the model may mend, or must learn to live with; anything else is nobody's answer."""

Args = Mapping[str, Any]
Answer = Callable[[Args], Awaitable[Mapping[str, Any]]]
TEXT = {"type": "string"}
TEXTS = {"type": "array", "items": TEXT}


def answering(
    name: str, description: str, schema: Mapping[str, Any], answer: Answer, *, only_reads: bool = False
) -> Tool:
    """Return a tool whose answer is the JSON of what `answer` returns, without what is None."""

    async def run(args: Args) -> ToolOutput:
        try:
            said = await answer(args)
        except TOLD_FAILURES as refusal:
            return failed(refusal.in_full)
        return ToolOutput(encoded({name: value for name, value in said.items() if value is not None}))

    return Tool(name=name, description=description, schema=schema, category="memory", run=run, only_reads=only_reads)


def encoded(value: object) -> str:
    """Return compact JSON."""
    return msgspec.json.encode(value).decode()


def names(each: Sequence[str], *, room: int = ROOM) -> list[str]:
    """Return a list of names; of more than fit into `room` characters, the first (at least one) and a count."""
    taken = 0
    for name in each[:NAMES]:
        room -= len(name) + len('"",')
        if taken and room < 0:
            break
        taken += 1
    return [*each] if taken == len(each) else [*each[:taken], f"... and {len(each) - taken} more"]


def fitting(entries: Iterable[Mapping[str, Any]], *, most: int, room: int) -> tuple[list[Mapping[str, Any]], int]:
    """Return the first `most` entries, as many as fit into `room` characters, at least one, and how many are left."""
    taken: list[Mapping[str, Any]] = []
    left = 0
    for entry in entries:
        room -= len(encoded(entry))
        if taken and (left or room < 0 or len(taken) >= most):
            left += 1
        else:
            taken.append(entry)
    return taken, left
