"""What a plugin says it is: name, version, hooks, tools and priority."""

import re
from typing import Any, Literal, get_args

import msgspec
from msgspec import Struct

from scaffold.core.printable_text import one_line, printable, short_line, truncate_text
from scaffold.extensions.tool_schema import tool_schema

Hook = Literal[
    "post_user_input", "context_enhance", "pre_llm_send", "post_llm_response", "pre_tool_execute", "post_tool_execute"
]
HOOKS: tuple[Hook, ...] = get_args(Hook)
PRIORITY = 500
MAX_NAME_CHARS = 64
MAX_VERSION_CHARS = 32
MAX_TOOLS = 50
MAX_MANIFEST_BYTES = 2**20
MAX_DESCRIPTION_CHARS = 4_000
_TOOL_NAME = re.compile(r"[A-Za-z0-9_-]+")


class PluginTool(Struct, frozen=True):
    """A tool that a plugin offers, by the name the plugin gives it."""

    name: str
    description: str
    schema: dict[str, Any]


class Manifest(Struct, frozen=True, kw_only=True):
    """A plugin's answer to `initialize`, checked."""

    name: str
    version: str = ""
    hooks: tuple[Hook, ...] = ()
    tools: tuple[PluginTool, ...] = ()
    priority: int = PRIORITY
    """The lower runs earlier."""

    def tool_name(self, tool: PluginTool) -> str:
        """Return the name under which the agent calls a tool; the plugin's name has no underscore, so it is unique."""
        return f"plugin_{self.name}_{tool.name}"


class _ToolEntry(Struct):
    name: str
    description: str = ""
    schema: dict[str, Any] = {}


class _Manifest(Struct):
    name: str
    version: str = ""
    hooks: list[str] = []
    tools: list[_ToolEntry] = []
    priority: int = PRIORITY


def read_manifest(result: bytes) -> Manifest:
    """Return the manifest in the answer to `initialize`; ValueError says why it is invalid."""
    if len(result) > MAX_MANIFEST_BYTES:
        raise ValueError(f"its manifest has more than {MAX_MANIFEST_BYTES >> 20} MB")
    try:
        given = msgspec.json.decode(result, type=_Manifest)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(f"its manifest is invalid: {error}") from error
    if problem := _name_problem(given.name):
        raise ValueError(problem)
    if unknown := [hook for hook in given.hooks if hook not in HOOKS]:
        raise ValueError(f"there is no hook `{_visible(unknown[0])}`")
    manifest = Manifest(
        name=given.name,
        version=short_line(given.version, MAX_VERSION_CHARS),
        hooks=tuple(hook for hook in HOOKS if hook in given.hooks),
        tools=tuple(map(_parse_tool, given.tools[:MAX_TOOLS])),
        priority=given.priority,
    )
    if problem := _tools_problem(manifest, len(given.tools)):
        raise ValueError(problem)
    return manifest


def _name_problem(name: str) -> str:
    if not 1 <= len(name) <= MAX_NAME_CHARS:
        return f"its name has {len(name)} characters, not 1 to {MAX_NAME_CHARS}"
    if set("_/\\") & set(name):
        return f"its name `{_visible(name)}` contains `_`, `/` or `\\`"
    if one_line(name) != name:
        return f"its name `{_visible(name)}` has blanks or characters that cannot be printed"
    return ""


def _parse_tool(given: _ToolEntry) -> PluginTool:
    try:
        schema = tool_schema(given.schema)
    except ValueError as error:
        raise ValueError(f"its tool `{_visible(given.name)}` cannot be used: {error}") from error
    return PluginTool(given.name, truncate_text(printable(given.description), MAX_DESCRIPTION_CHARS), schema)


def _tools_problem(manifest: Manifest, offered: int) -> str:
    if offered > MAX_TOOLS:
        return f"it offers {offered} tools, more than {MAX_TOOLS}"
    names = [manifest.tool_name(tool) for tool in manifest.tools]
    for name in names:
        # Providers accept no other names.
        if len(name) > MAX_NAME_CHARS or not _TOOL_NAME.fullmatch(name) or name.endswith("_"):
            return f"`{_visible(name)}` is not a valid tool name: at most {MAX_NAME_CHARS} letters, digits, `-` and `_`"
    if len(set(names)) < len(names):
        return "it offers two tools of the same name"
    return ""


def _visible(text: str) -> str:
    return short_line(text, MAX_NAME_CHARS)
