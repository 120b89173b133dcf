"""Calls of our tools with the names and arguments of Claude Code, which existing hooks expect; and back."""

import os.path
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from scaffold.policy.path.containment import Refusal
from scaffold.policy.path.patch_text import FilePatch, parse_patch

PATCH_TOOL = "apply_patch"


class _Twin(Struct, frozen=True):
    """Claude Code's tool for the purpose of one of ours."""

    name: str
    arguments: Mapping[str, str] = {}
    """Our argument -> theirs, where they differ."""
    also: tuple[str, ...] = ()
    """Other tools of Claude Code whose hooks apply as well."""


# The one table of names, by our tool.
TWINS: Mapping[str, _Twin] = {
    "shell": _Twin("Bash", {"timeout_s": "timeout", "background": "run_in_background"}),
    "read_file": _Twin("Read", {"path": "file_path", "start_line": "offset"}),
    "write_file": _Twin("Write", {"path": "file_path"}),
    "append_file": _Twin("Edit", {"path": "file_path", "content": "new_string"}, ("Write",)),
    "edit": _Twin("Edit", {"path": "file_path", "old": "old_string", "new": "new_string"}, ("MultiEdit",)),
    "apply_delta": _Twin("Edit", {"path": "file_path"}, ("MultiEdit",)),
    "glob": _Twin("Glob"),
    "list_dir": _Twin("LS"),
    "search_files": _Twin("Grep"),
    "web_fetch": _Twin("WebFetch"),
    "subagent": _Twin("Task", {"task": "prompt", "agent": "subagent_type"}, ("Agent",)),
    "load_skill": _Twin("Skill", {"name": "skill"}),
    "TodoWrite": _Twin("TodoWrite"),
}


class HookCall(Struct, frozen=True):
    """A call as a hook sees it."""

    tool: str
    names: tuple[str, ...]
    """The names that a matcher may use: Claude Code's first, ours last."""
    input: Mapping[str, Any]
    arguments: Mapping[str, str] = {}
    """Our argument -> theirs."""
    whole: bool = True
    """Whether it is all that our call does; a patch is a call for each of its files."""

    def updated(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the arguments of our tool for an input that a hook has changed."""
        ours = {theirs: own for own, theirs in self.arguments.items()}
        args = {ours.get(name, name): value for name, value in given.items()}
        seconds = args.get("timeout_s")
        if self.tool == "shell" and isinstance(seconds, int | float):
            args["timeout_s"] = seconds / 1000
        return args


def hook_calls(tool: str, args: Mapping[str, Any], cwd: str) -> tuple[HookCall, ...]:
    """Return a call of our tool as hooks see it: one for each file of a patch, else one."""
    if tool == PATCH_TOOL and not isinstance(files := parse_patch(str(args.get("input", ""))), Refusal):
        return tuple(_file_call(each, args, cwd) for each in files)
    twin = TWINS.get(tool)
    if twin is None:
        return (HookCall(tool, tool_names(tool), args),)
    given = {
        twin.arguments.get(name, name): _absolute_path(twin.arguments.get(name), value, cwd)
        for name, value in args.items()
    }
    if tool == "shell" and isinstance(seconds := args.get("timeout_s"), int | float):
        given["timeout"] = int(seconds * 1000)
    return (HookCall(tool, tool_names(tool), given, twin.arguments),)


def tool_names(tool: str) -> tuple[str, ...]:
    """Return the names that a matcher may have for one of our tools."""
    twin = TWINS.get(tool)
    if twin is not None:
        return (twin.name, *twin.also, tool)
    if tool.startswith("mcp_") and tool.count("_") > 1:
        server, _, name = tool.removeprefix("mcp_").partition("_")
        return (f"mcp__{server}__{name}", tool)
    return (tool,)


def our_tools(names: Sequence[str], tools: Sequence[str]) -> frozenset[str]:
    """Return which of our `tools` these names mean, ours or Claude Code's; patterns in brackets are ignored."""
    wanted = {name.partition("(")[0].strip() for name in names}
    found = {tool for tool in tools if wanted & {*tool_names(tool), tool}}
    # Permission to edit covers every editing tool.
    return frozenset(found | ({PATCH_TOOL} & set(tools) if {"Edit", "Write"} <= wanted else set()))


def _file_call(patch: FilePatch, args: Mapping[str, Any], cwd: str) -> HookCall:
    name = "Write" if patch.kind == "add" else "Edit"
    given: dict[str, Any] = {"file_path": _absolute_path("file_path", patch.path, cwd), "patch": args.get("input", "")}
    if patch.kind == "add":
        given["content"] = patch.content
    if patch.move_to is not None:
        given["move_to"] = _absolute_path("file_path", patch.move_to, cwd)
    return HookCall(PATCH_TOOL, (name, "MultiEdit", PATCH_TOOL), given, whole=False)


def _absolute_path(name: str | None, value: Any, cwd: str) -> Any:
    if name != "file_path" or not isinstance(value, str) or not value or value.startswith("~"):
        return value
    return os.path.normpath(os.path.join(cwd, value))  # noqa: PTH118 - a text of a model, perhaps with surrogates
