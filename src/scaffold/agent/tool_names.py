"""Which tool a model may have meant by a name that no tool has."""

import re
from collections.abc import Collection, Mapping
from difflib import get_close_matches

OTHER_NAMES: Mapping[str, tuple[str, ...]] = {
    "shell": (
        "bash", "sh", "cmd", "exec", "exec_command", "execute", "execute_bash", "execute_command", "run", "run_bash",
        "run_command", "run_in_terminal", "run_shell_command", "run_terminal_cmd", "terminal",
    ),
    "read_file": (
        "cat", "get_file", "get_file_contents", "open", "open_file", "read", "read_many_files", "view", "view_file",
    ),
    "write_file": ("create", "create_file", "new_file", "save_file", "write", "write_to_file"),
    "edit": (
        "edit_file", "multi_edit", "replace", "replace_in_file", "replace_string_in_file", "search_replace",
        "str_replace", "str_replace_based_edit_tool", "str_replace_editor", "text_editor",
    ),
    "apply_patch": ("apply_diff", "patch"),
    "list_dir": ("list_directory", "list_files", "ls"),
    "glob": ("file_search", "find", "find_file", "find_files", "search_file"),
    "search_files": ("code_search", "codebase_search", "grep", "grep_search", "rg", "search", "search_file_content"),
    "python": ("code_interpreter", "execute_python", "ipython", "run_code", "run_python"),
    "web_fetch": ("browse", "fetch", "fetch_url", "read_url", "url_fetch"),
    "TodoWrite": ("todo", "update_plan", "update_todo_list", "write_todos"),
    "subagent": ("agent", "dispatch_agent", "new_task", "spawn_agent", "task"),
}  # fmt: skip
"""What widespread agents call their tool for the same purpose, by the name that ours has."""

NEAR = 0.75
"""Names at least this similar count as near, from 0 to 1."""


def meant_tool(name: str, tools: Collection[str]) -> str:
    """Return the tool that `name` may stand for, whatever its case and separators; empty if none."""
    plain = {_plain(tool): tool for tool in tools}
    others = {_plain(other): tool for tool, names in OTHER_NAMES.items() if tool in tools for other in names}
    near = get_close_matches(_plain(name), {**others, **plain}, n=1, cutoff=NEAR)
    return {**others, **plain}[near[0]] if near else ""


def _plain(name: str) -> str:
    return re.sub(r"[\W_]", "", name).casefold()
