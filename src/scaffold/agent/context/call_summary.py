"""Calls of tools in few words, for the summary of a conversation."""

from collections.abc import Collection, Mapping
from typing import Literal

from msgspec import Struct

from scaffold.agent.context.text_size import cut_middle
from scaffold.core.conversation import ToolCall, ToolResult

# A change of files, another call that did something, or one that can be repeated to see the same.
CallKind = Literal["change", "tool", "read"]

# Arguments that describe a call best, best first.
KEY_ARGUMENTS = ("command", "path", "pattern", "url", "query", "name")
# Bytes of a call's argument or of the first line of its result, of the end of an output, and of a diff.
ABOUT_LIMIT, OUTPUT_LIMIT, DIFF_LIMIT = 120, 200, 600


class ToolEffects(Struct, frozen=True):
    """The names of tools by what their calls do; other tools may do anything."""

    reading: Collection[str] = frozenset()
    """Their results can be had again."""
    writing: Collection[str] = frozenset()
    """They change files; their results contain the diffs."""
    groups: Mapping[str, str] = {}
    """The name of the group of each tool that is offered only once its group is loaded."""


NO_EFFECTS = ToolEffects()


def call_kind(call: ToolCall, result: ToolResult | None, effects: ToolEffects) -> CallKind:
    """Return the kind of a call; a change is one that succeeded."""
    if call.name in effects.reading:
        return "read"
    return "change" if call.name in effects.writing and result and not result.failed else "tool"


def summarise_call(call: ToolCall, result: ToolResult | None, kind: CallKind) -> str:
    """Return a call and its outcome: a change with its diff, a command with the end of its output."""
    described = describe_call(call, result)
    if kind == "change" and result and (diff := result.content.strip().partition("\n")[2]):
        return f"{described}\n{cut_middle(diff, DIFF_LIMIT)}"
    lines = [line for line in result.content.split("\n") if line.strip()] if kind == "tool" and result else []
    if len(lines) > 1:
        # The last line mostly says how a command ended.
        return f"{described} … {cut_middle(' '.join(lines[-1].split()), OUTPUT_LIMIT)}"
    return described


def describe_call(call: ToolCall, result: ToolResult | None) -> str:
    """Return a call and its outcome as one line, e.g. ``shell `make`: failed: exit code 2 after 1.0 s``."""
    about = next((_summary_line(str(call.args[name])) for name in KEY_ARGUMENTS if name in call.args), "")
    named = f"{call.name} `{about}`" if about else call.name
    if result is None:
        return f"{named}: not answered"
    outcome = _summary_line(result.content.lstrip().split("\n", 1)[0])
    return f"{named}: {'failed: ' if result.failed else ''}{outcome}".rstrip()


def _summary_line(text: str) -> str:
    return cut_middle(" ".join(text.split()), ABOUT_LIMIT)
