"""Entries of agents' journals: read from lines, and told to people in a line each."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct

from scaffold.cli.safe import printable
from scaffold.cli.screen import clip, clock_time, money, paint

LINE_CELLS = 200
THINKERS = frozenset({"planner", "supervisor"})
"""Roles that work on plans; an action they name is one they think about."""
JUDGES = frozenset({"critic", "drafter"})
"""Roles that speak of an attempt's work and do none of it."""
DEEDS = frozenset({"text", "tool_call", "notice", "news", "prompt"})
"""Kinds of entries that tell people what an agent is at."""

Fields = Mapping[str, Any]


class Entry(Struct, frozen=True):
    """One line of a journal."""

    at: datetime
    line: bytes
    fields: Fields


def read_entry(line: bytes) -> Entry | None:
    """Return the entry on a line, None for one that is none."""
    try:
        fields = msgspec.json.decode(line, type=dict[str, Any])
        at = msgspec.convert(fields.get("ts"), datetime)
    except msgspec.MsgspecError:
        return None
    return Entry(at, line, fields) if at.tzinfo else None


def told(entry: Entry) -> str:
    """Return an entry for people, e.g. `12:03:04 store#1 shell: python -m pytest -q`."""
    head = f"{clock_time(entry.at)} {paint(printable(_who(entry.fields)), 'cyan')}"
    first, *rest = _words(entry.fields) or [""]
    return "\n".join([f"{head} {first}", *(f"    {line}" for line in rest)])


def deed(entry: Entry) -> str:
    """Return what an entry tells of an agent's work on one line, `""` where it tells nothing of it."""
    if entry.fields.get("type") not in DEEDS:
        return ""
    return next((line for line in _words(entry.fields) if line.strip()), "").strip()


def _who(fields: Fields) -> str:
    """Return `store#1` for a worker's attempt, `critic store#1` for its critic, `supervisor shop: store` for others."""
    role, action = str(fields.get("role", "")), fields.get("action")
    if role in THINKERS:
        about = ": ".join(str(each) for each in (fields.get("goal"), action) if each)
        return f"{role} {about}".strip()
    judge = f"{role} " if role in JUDGES else ""
    return f"{judge}{action or role or '?'}#{fields.get('attempt', '?')}"


def _words(fields: Fields) -> Sequence[str]:
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
    return f"{printable(tokens)}, {money(cost if isinstance(cost, int | float) else None)}"


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
