"""A tool call, and what it comes to in one workspace: its category, what it is about, and the files it names."""

import json
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from scaffold.core.tool import Category, Tool
from scaffold.policy.rules import SHELLS, SubjectKind, Wish
from scaffold.policy.shell.places import LONGEST_PATH, Place

_NAMES: Mapping[Category, tuple[str, ...]] = {
    "file_read": (*("read_file", "file_read", "list_dir", "file_info", "search_files", "glob", "grep", "pip_list"),),
    "file_write": (*("write_file", "file_write", "append_file", "apply_delta", "apply_patch", "edit_file"),),
    "shell": tuple(sorted(SHELLS)),
    "network": ("web_fetch", "web_search", "pip_install", "network"),
    "memory": ("TodoWrite", "TodoRead", "memory"),
    "subagent": ("subagent",),
    "python": ("python",),
}
TOOLS: Mapping[str, Category] = {name: category for category, names in _NAMES.items() for name in names}
"""The category of each tool by its name; names of other programs' tools are known, too."""
_PATHS = ("path", "file_path", "file", "filename")
"""What tools call the file they are about; the first there is counts."""
_READ_ONLY = frozenset({"web_fetch", "web_search"})


class Call(Struct, frozen=True, kw_only=True):
    """A call of a tool, by whomever."""

    tool: str
    category: Category
    args: Mapping[str, Any]
    confined: bool = False
    only_reads: bool = False


def category_of(tool: str) -> Category | None:
    """Return the category of a tool by its name; None if there is no such tool."""
    if tool.startswith("mcp_"):
        return "mcp"
    return TOOLS.get(tool)


def call_by_name(tool: str, args: Mapping[str, Any]) -> Call:
    """Return the call of a tool that is known by its name alone; one that is not known counts as a plugin's."""
    category = category_of(tool) or "plugin"
    return Call(tool=tool, category=category, args=args, only_reads=tool in _READ_ONLY)


def call_of(tool: Tool, args: Mapping[str, Any]) -> Call:
    """Return the call of a tool that is at hand."""
    reads = tool.only_reads or tool.category in {"file_read", "memory"}
    return Call(tool=tool.name, category=tool.category, args=args, confined=tool.confined, only_reads=reads)


def wish_for(call: Call, place: Place) -> Wish:
    """Return what a call comes to in the workspace; links are followed as far as they exist."""
    kind, subject = _subject(call)
    paths: tuple[str, ...] = ()
    if kind == "path" and len(subject) <= LONGEST_PATH:
        tilde = subject == "~" or subject.startswith("~/")
        reached = place.reached(subject, frozenset({place.root}), tilde=tilde)
        paths = tuple(dict.fromkeys(map(place.within, reached)))
    return Wish(
        tool=call.tool,
        category=call.category,
        kind=kind,
        subject=subject,
        paths=paths,
        args=written_arguments(call.args),
        confined=call.confined,
        only_reads=call.only_reads,
    )


def written_arguments(args: Mapping[str, Any]) -> str:
    """Return arguments as JSON, by name in order."""
    return json.dumps(args, ensure_ascii=False, sort_keys=True, separators=(",", ":"), default=str)


def _subject(call: Call) -> tuple[SubjectKind, str]:
    texts = {name: value for name, value in call.args.items() if isinstance(value, str)}
    match call.category:
        case "shell" if "command" in texts:
            return "command", texts["command"]
        case "file_read" | "file_write" if named := [texts[name] for name in _PATHS if name in texts]:
            return "path", named[0]
        case "file_read" if call.tool == "glob" and "pattern" in texts:
            return "path", texts["pattern"]
        case "network" if "url" in texts:
            return "url", texts["url"]
        case _:
            return "text", written_arguments(call.args)
