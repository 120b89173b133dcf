"""Entries of agents' journals as text for people, and an agent's last activity, read from its journal's end."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct

from scaffold.core.printable_text import printable
from scaffold.host.contained_path import ContainedPath
from scaffold.verify.output_excerpt import deciding_line
from scaffold.views.text_format import brief, clip, format_cost

LINE_CELLS = 200
NAME_CELLS = 40
FAILED, DONE = "failed: ", "  -> "
ACTIVITY_KINDS = frozenset({"text", "tool_call", "notice", "news", "prompt"})
"""Types of entries that show an agent's activity."""
TAIL_SIZES = (16_384, 131_072, 1_048_576)
"""Bytes from a journal's end to search, one size after another, until an activity is found."""

Fields = Mapping[str, Any]


class JournalEntry(Struct, frozen=True):
    """One line of a journal."""

    at: datetime
    line: bytes
    fields: Fields


def read_entry(line: bytes) -> JournalEntry | None:
    """Return the entry on a line; None if the line is not an entry."""
    try:
        fields = msgspec.json.decode(line, type=dict[str, Any])
        at = msgspec.convert(fields.get("ts"), datetime)
    except msgspec.MsgspecError:  # a killed process may leave half a line
        return None
    return JournalEntry(at, line, fields) if at.tzinfo else None


def activity_text(entry: JournalEntry) -> str:
    """Return one line about the agent's work; empty for an entry that is not about it."""
    if entry.fields.get("type") not in ACTIVITY_KINDS:
        return ""
    return next((line for line in entry_lines(entry.fields) if line.strip()), "").strip()


def entry_lines(fields: Fields) -> Sequence[str]:
    """Return an entry as lines that are safe to print: messages of the model in full, outputs as their first line.

    Of an output that tells of a failure, the line that decided follows.
    """
    text = str(fields.get("text", ""))
    match fields.get("type"):
        case "text" | "notice":
            return printable(text).splitlines()
        case "tool_call":
            return [f"{_tool_name(fields)}: {brief(_telling_argument(fields.get('args')), LINE_CELLS)}"]
        case "tool_result":
            content = str(fields.get("content", ""))
            if fields.get("failed"):
                return _with_deciding_line(FAILED, content, or_last=True)
            return [f"{DONE}{brief(content, LINE_CELLS)}"]
        case "usage":
            return [_usage_text(fields)]
        case kind:
            return _with_deciding_line(f"{clip(str(kind), NAME_CELLS)}: ", text)


def whole_entry_lines(fields: Fields) -> Sequence[str]:
    """Return an entry as lines that are safe to print: arguments and results of tools, and all texts, in full."""
    text = str(fields.get("text", ""))
    match fields.get("type"):
        case "text" | "notice":
            words = text
        case "tool_call":
            args = fields.get("args")
            named = args.items() if isinstance(args, dict) else [("args", args)]
            words = "\n".join([f"{_tool_name(fields)}:", *(_named_value(name, value) for name, value in named)])
        case "tool_result":
            words = f"{FAILED if fields.get('failed') else DONE}{fields.get('content', '')}"
        case "usage":
            words = _usage_text(fields)
        case kind:
            words = f"{kind}: {text}"
    return printable(words).split("\n")


def _tool_name(fields: Fields) -> str:
    return clip(str(fields.get("name")), NAME_CELLS)


def _named_value(name: str, value: object) -> str:
    shown = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    begin, *more = shown.split("\n")
    return "\n".join([f"  {name}: {begin}", *(f"    {line}" for line in more)])


def _with_deciding_line(head: str, text: str, *, or_last: bool = False) -> list[str]:
    # Of a failed output, the line that says what is wrong tells more than the last one.
    further = text.strip().splitlines()[1:]
    decided = deciding_line("\n".join(further)) or (further[-1] if further and or_last else "")
    first = f"{head}{brief(text, LINE_CELLS)}"
    return [first, f"  {clip(decided, LINE_CELLS)}"] if decided else [first]


def _usage_text(fields: Fields) -> str:
    cost = fields.get("cost_usd")
    tokens = f"used {_count_text(fields, 'input_tokens')} tokens in, {_count_text(fields, 'output_tokens')} out"
    return f"{printable(tokens)}, {format_cost(cost if isinstance(cost, int | float) else None)}"


def _count_text(fields: Mapping[str, object], name: str) -> str:
    found = fields.get(name, 0)
    return f"{found:,}" if isinstance(found, int) else f"{found}"


def _telling_argument(args: object) -> str:
    """Return the most telling argument of a call: the command, the path, or the only one."""
    if not isinstance(args, dict) or not args:
        return ""
    telling = next((args[name] for name in ("command", "path", "pattern", "query") if name in args), None)
    if telling is None:
        telling = next(iter(args.values())) if len(args) == 1 else msgspec.json.encode(args).decode()
    return str(telling)


class LastActivity(Struct, frozen=True):
    """The last activity of an agent."""

    at: datetime
    """The time of the last entry in its journal."""
    text: str
    """The agent's last message or started call, on one line and safe to print; empty if no entry has one."""


def last_activity(path: ContainedPath, belongs: Callable[[JournalEntry], bool]) -> LastActivity | None:
    """Return the activity in the last entries that belong; None if there are none within a mebibyte of the end."""
    found: LastActivity | None = None
    # The last entries are usually enough, and a journal may have hundreds of megabytes.
    for window in TAIL_SIZES:
        lines, whole = _tail_lines(path, window)
        entries = (entry for line in reversed(lines) if (entry := read_entry(line)) is not None and belongs(entry))
        if (newest := next(entries, None)) is not None:
            words = activity_text(newest) or next(filter(None, map(activity_text, entries)), "")
            found = LastActivity(newest.at, words)
        if whole or (found is not None and found.text):
            break
    return found


def _tail_lines(path: ContainedPath, window: int) -> tuple[list[bytes], bool]:
    """Return the complete lines within the last `window` bytes, and whether these are all of the file's."""
    try:
        with path.reading() as file:
            size = file.seek(0, 2)
            start = max(0, size - window)
            file.seek(start)
            lines = file.read(window).split(b"\n")[:-1]  # the last one is incomplete, or empty
    except OSError:
        return [], True
    # Unless the window begins with the file, its first line is probably cut.
    return (lines, True) if start == 0 else (lines[1:], False)
