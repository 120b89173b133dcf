"""A tool call as it is asked about from outside, and what is to become of it."""

import os
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from scaffold.core.tool import Category
from scaffold.policy.areas import Areas
from scaffold.policy.gate import DEFAULTS, Judgement
from scaffold.policy.hosts import judge_url
from scaffold.policy.protected import protected_by
from scaffold.policy.secrets import secret_by, segments
from scaffold.policy.shell.places import Place

_NAMES: Mapping[Category, tuple[str, ...]] = {
    "file_read": (*("read_file", "file_read", "list_dir", "file_info", "search_files", "glob", "grep", "pip_list"),),
    "file_write": (*("write_file", "file_write", "append_file", "apply_delta", "apply_patch", "edit_file"),),
    "shell": ("shell", "bash", "powershell", "pwsh", "cmd"),
    "network": ("web_fetch", "web_search", "pip_install", "network"),
    "memory": ("TodoWrite", "TodoRead", "memory"),
    "subagent": ("subagent",),
    "python": ("python",),
}
TOOLS: Mapping[str, Category] = {name: category for category, names in _NAMES.items() for name in names}
"""The category of each tool by its name; names of other programs' tools are known, too."""
_NOT_FILES = ("/dev/", "/proc/", "/sys/")
LONGEST_PATH = 4_096
_CONTROLS = frozenset({"scaffold.config.json", ".scaffold.yaml", ".scaffold.yml", "scaffold.yaml"})
"""What an agent could turn its own gate off with."""
_AREAS = Areas()


class PathCall(Struct, frozen=True, kw_only=True):
    """A call of a tool that reads or writes a file."""

    tool: str
    path: str
    writes: bool


def category_of(tool: str) -> Category | None:
    """Return the category of a tool by its name; None if there is no such tool."""
    if tool.startswith("mcp_"):
        return "mcp"
    return TOOLS.get(tool)


def judge_path(call: PathCall, place: Place) -> Judgement:
    """Return whether a file may be read or written by a tool; links and `..` are followed first."""
    if not call.path or "\0" in call.path or any("\ud800" <= char <= "\udfff" for char in call.path):
        return Judgement("deny", "path", "the path is empty, has a NUL in it or is not valid text")
    tilde = call.path == "~" or call.path.startswith("~/")
    reached = place.reached(call.path, frozenset({place.root}), tilde=tilde)
    for path in reached:
        if denied := _denial(path, place, writes=call.writes):
            return denied
    if outside := next((path for path in reached if place.outside(path)), None):
        return Judgement("ask", "outside", f"{outside} is outside the workspace")
    if any(ord(char) < 32 or ord(char) == 127 for char in call.path):
        return Judgement("ask", "path", f"the path has a control character in it ({ascii(call.path)[1:-1]})")
    return _by_category(call, _within(reached[0], place))


def judge_arguments(tool: str, args: Mapping[str, Any], place: Place, allow: tuple[tuple[str, ...], ...]) -> Judgement:
    """Return whether a tool of a server, or one not known here, may be called; any text in `args` may be a path."""
    for text in _texts(args):
        path = text.removeprefix("file://")
        if not path or len(path) > LONGEST_PATH:
            continue
        judged = judge_path(PathCall(tool=tool, path=path, writes=True), place)
        if judged.rule.startswith(("protected:", "secret:")):
            return judged
    if (tool,) in allow:
        return Judgement("allow", f"allow:{tool}", f"the rule `{tool}` allows it")
    return judge_category(tool)


def judge_fetch(url: str, allow: tuple[tuple[str, ...], ...]) -> Judgement:
    """Return whether a URL may be fetched; a rule names a host as its last word."""
    return judge_url(url, tuple(rule[-1] for rule in allow if rule))


def judge_category(tool: str) -> Judgement:
    """Return what holds for a tool whose arguments say nothing."""
    category = category_of(tool)
    if category is None:
        return Judgement("ask", "unknown", f"there is no tool `{tool}` here")
    decision = DEFAULTS[category]
    words = f"{category} is allowed" if decision == "allow" else f"{tool} needs a human's consent ({category})"
    return Judgement(decision, "category", words)


def _denial(path: str, place: Place, *, writes: bool) -> Judgement | None:
    """Return why an absolute path may not be touched by anybody; None if nothing speaks against it."""
    names = segments(_within(path, place))
    if writes and (entry := protected_by("/".join(names)) or (names[-1] if names and names[-1] in _CONTROLS else None)):
        return Judgement("deny", f"protected:{entry}", f"{path} is protected ({entry}): no agent writes it")
    if entry := secret_by(path):
        return Judgement("deny", f"secret:{entry}", f"{path} holds secrets ({entry}): no agent touches it")
    if f"{path}/".startswith(_NOT_FILES):
        return Judgement("deny", "device", f"{path} is no ordinary file")
    return None


def _by_category(call: PathCall, path: str) -> Judgement:
    if not call.writes:
        return Judgement("allow", "category", "file_read is allowed")
    area = _AREAS.of(path)
    note = f"; it lies in a protected area ({area})" if area else ""
    return Judgement("ask", "category", f"{call.tool} needs a human's consent (file_write){note}")


def _within(path: str, place: Place) -> str:
    return path if place.outside(path) else os.path.relpath(path, place.root)


def _texts(value: object) -> Iterator[str]:
    """Yield every text in the arguments, however deep."""
    waiting = [value]
    while waiting:
        match waiting.pop():
            case str() as text:
                yield text
            case dict() as table:
                waiting += table.values()
            case list() | tuple() as items:
                waiting += items
