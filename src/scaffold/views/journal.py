"""Entries of agents' journals: read from lines, and told to people in a line each."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct

from scaffold.core.printable_text import printable
from scaffold.views.text_format import clip, format_cost

LINE_CELLS = 200
ACTIVITY_KINDS = frozenset({"text", "tool_call", "notice", "news", "prompt"})
"""Kinds of entries that tell people what an agent is at."""

Fields = Mapping[str, Any]


class JournalEntry(Struct, frozen=True):
    """One line of a journal."""

    at: datetime
    line: bytes
    fields: Fields


def read_entry(line: bytes) -> JournalEntry | None:
    """Return the entry on a line, None for one that is none."""
    try:
        fields = msgspec.json.decode(line, type=dict[str, Any])
        at = msgspec.convert(fields.get("ts"), datetime)
    except msgspec.MsgspecError:
        return None
    return JournalEntry(at, line, fields) if at.tzinfo else None


def activity_text(entry: JournalEntry) -> str:
    """Return what an entry tells of an agent's work on one line, `""` where it tells nothing of it."""
    if entry.fields.get("type") not in ACTIVITY_KINDS:
        return ""
    return next((line for line in entry_lines(entry.fields) if line.strip()), "").strip()


def entry_lines(fields: Fields) -> Sequence[str]:
    """Return what happened, safe to print; the model's own words whole, long outputs by their first line."""
    text = str(fields.get("text", ""))
    match fields.get("type"):
        case "text" | "notice":
            return printable(text).splitlines()
        case "prompt" | "news":
            words = _brief("is told: ", text)
        case "tool_call":
            words = f"{clip(str(fields.get('name')), 40)}: {_arguments(fields.get('args'))}"
        case "tool_result":
            words = _brief("failed: " if fields.get("failed") else "  -> ", str(fields.get("content", "")))
        case "usage":
            words = _usage(fields)
        case kind:
            words = _brief(f"{clip(str(kind), 40)}: ", text)
    return [words]


def _usage(fields: Fields) -> str:
    cost = fields.get("cost_usd")
    tokens = f"used {fields.get('input_tokens', 0)} tokens in, {fields.get('output_tokens', 0)} out"
    return f"{printable(tokens)}, {format_cost(cost if isinstance(cost, int | float) else None)}"


def _brief(head: str, text: str) -> str:
    more = text.strip().count("\n")
    return f"{head}{clip(text, LINE_CELLS)}" + (f" (+{more} lines)" if more else "")


def _arguments(args: object) -> str:
    """Return the argument that tells most of a tool call: the only one, the command, or the path."""
    if not isinstance(args, dict) or not args:
        return ""
    telling = next((args[name] for name in ("command", "path", "pattern", "query") if name in args), None)
    if telling is None:
        telling = next(iter(args.values())) if len(args) == 1 else msgspec.json.encode(args).decode()
    return clip(str(telling), LINE_CELLS)
