"""Build the permission request of a tool call: its category, its subject, and the paths it names."""

import json
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from scaffold.core.errors import UsageError
from scaffold.core.tool import MAX_NESTING, Tool, ToolCategory, is_nested_too_deeply
from scaffold.policy.path.containment import Refusal
from scaffold.policy.path.patch_text import parse_patch
from scaffold.policy.rule.tool_rules import SHELL_TOOLS, PermissionRequest, SubjectKind
from scaffold.policy.shell.workspace_paths import MAX_PATH_CHARS, WorkspacePaths

_NAMES: Mapping[ToolCategory, tuple[str, ...]] = {
    "file_read": (
        *("read_file", "file_read", "list_dir", "file_info", "search_files", "glob", "grep"),
        *("pip_list", "pdf_extract_text"),
    ),
    "file_write": (*("write_file", "file_write", "append_file", "apply_delta", "apply_patch", "edit", "edit_file"),),
    "shell": tuple(sorted(SHELL_TOOLS)),
    "network": ("web_fetch", "web_search", "pip_install", "network"),
    "memory": ("TodoWrite", "TodoRead", "memory"),
    "subagent": ("subagent",),
    "python": ("python",),
}
CATEGORY_BY_TOOL: Mapping[str, ToolCategory] = {name: category for category, names in _NAMES.items() for name in names}
"""Tool name -> category; includes the tool names of other agents."""
_PATHS = ("path", "file_path", "notebook_path", "file", "filename")
"""Names of the argument with the path, for tools of other agents too; the first one present counts."""
_PATCH = "input"
"""Name of the argument of `apply_patch` with the patch."""
_READ_ONLY = frozenset({"web_fetch", "web_search"})


class ToolInvocation(Struct, frozen=True, kw_only=True):
    """A call of a tool by any agent."""

    tool: str
    category: ToolCategory
    args: Mapping[str, Any]
    confined: bool = False
    read_only: bool = False


def category_of(tool: str) -> ToolCategory | None:
    """Return the category of the tool with this name; None if it is unknown."""
    if tool.startswith("mcp_"):
        return "mcp"
    return CATEGORY_BY_TOOL.get(tool)


def invocation_by_name(tool: str, args: Mapping[str, Any]) -> ToolInvocation:
    """Return the call of a tool known by name only; an unknown tool counts as a plugin's."""
    category = category_of(tool) or "plugin"
    return ToolInvocation(tool=tool, category=category, args=args, read_only=tool in _READ_ONLY)


def invocation_of(tool: Tool, args: Mapping[str, Any]) -> ToolInvocation:
    """Return the call of a given tool."""
    reads = tool.read_only or tool.category in {"file_read", "memory"}
    return ToolInvocation(tool=tool.name, category=tool.category, args=args, confined=tool.sandboxed, read_only=reads)


def permission_request(call: ToolInvocation, workspace: WorkspacePaths) -> PermissionRequest:
    """Return the permission request of a call in the workspace; links in its paths are resolved.

    Raises UsageError if the arguments are nested too deeply to be read safely.
    """
    if is_nested_too_deeply(call.args):
        raise UsageError(
            f"the arguments of {call.tool} are nested more than {MAX_NESTING} levels deep", "Pass flatter arguments."
        )
    kind, named = _call_subject(call)
    known = [path for path in named if len(path) <= MAX_PATH_CHARS] if kind == "path" else []
    reached: list[str] = []
    for path in known:
        tilde = path == "~" or path.startswith("~/")
        reached += map(workspace.within, workspace.reached(path, frozenset({workspace.root}), tilde=tilde))
    return PermissionRequest(
        tool=call.tool,
        category=call.category,
        kind=kind,
        subject="\n".join(named),
        named=named if kind == "path" else (),
        paths=tuple(dict.fromkeys(reached)),
        args=canonical_arguments(call.args),
        confined=call.confined,
        read_only=call.read_only,
    )


def canonical_arguments(args: Mapping[str, Any]) -> str:
    """Return the arguments as JSON, sorted by name."""
    # Sorted and without spaces: equal calls must have equal digests, since an approval is for a digest.
    return json.dumps(args, ensure_ascii=False, sort_keys=True, separators=(",", ":"), default=str)


def _call_subject(call: ToolInvocation) -> tuple[SubjectKind, tuple[str, ...]]:
    texts = {name: value for name, value in call.args.items() if isinstance(value, str)}
    match call.category:
        case "shell" if "command" in texts:
            return "command", (texts["command"],)
        case "file_write" if call.tool == "apply_patch" and (patched := _patched_paths(texts.get(_PATCH, ""))):
            return "path", patched
        case "file_read" | "file_write" | "memory" if named := [texts[name] for name in _PATHS if name in texts]:
            return "path", (named[0],)
        # Its pattern may contain a path that leads out of the workspace.
        case "file_read" if call.tool.lower() == "glob" and "pattern" in texts:
            return "path", (texts["pattern"],)
        case "network" if "url" in texts:
            return "url", (texts["url"],)
        case _:
            return "text", (canonical_arguments(call.args),)


def _patched_paths(patch: str) -> tuple[str, ...]:
    # The tool refuses a text that is not a patch.
    files = parse_patch(patch)
    if isinstance(files, Refusal):
        return ()
    return tuple(dict.fromkeys(path for file in files for path in file.paths))
