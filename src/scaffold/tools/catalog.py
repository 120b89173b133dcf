"""The tools of a session except the user's own: all of them, or those that need only a workspace."""

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import structs

from scaffold.core.errors import GitError
from scaffold.core.tool import Tool, ToolOutput
from scaffold.git.client.command_line import Git
from scaffold.git.ignored_files import IgnoreRule, ignoring_rules
from scaffold.host.contained_path import ContainedPath
from scaffold.tools.command.background_commands import BackgroundCommands, background
from scaffold.tools.command.packages import pip_install, pip_list
from scaffold.tools.command.shell import python, shell
from scaffold.tools.file.append import append_file
from scaffold.tools.file.apply_patch import apply_patch, written_paths
from scaffold.tools.file.edit_lines import apply_delta, edit
from scaffold.tools.file.info import file_info
from scaffold.tools.file.read_write import list_dir, read_file, write_file
from scaffold.tools.search.search_files import find_files, search_files
from scaffold.tools.todos import Todos, todo_read, todo_write
from scaffold.tools.web.fetch import FetchFunction, fetch_tool
from scaffold.tools.workspace import Workspace


def all_tools(
    workspace: Workspace,
    *,
    fetch: FetchFunction,
    todos: Todos,
    packages: Path,
    outputs: Path | None = None,
    commands: BackgroundCommands | None = None,
) -> tuple[Tool, ...]:
    """Return all tools for `workspace`, in the order a model sees them: `builtin_tools` first.

    `fetch` reads web pages, as `web.http.web_fetch` does. `packages` is the user's folder of installed packages.
    Output too long to show is saved in the folder `outputs` (None: discarded). `user.tools.load_user_tools` loads
    the user's own tools.
    """
    return (
        *builtin_tools(workspace, packages=packages, outputs=outputs, commands=commands),
        fetch_tool(fetch),
        pip_list(packages),
        pip_install(workspace, packages),
        todo_write(todos),
        todo_read(todos),
    )


def builtin_tools(
    workspace: Workspace,
    *,
    packages: Path | None = None,
    outputs: Path | None = None,
    commands: BackgroundCommands | None = None,
) -> tuple[Tool, ...]:
    """Return the tools that need only a workspace (files, commands, Python), in the order a model sees them.

    Python code can import from the folder `packages`. Output too long to show is saved in the folder `outputs`
    (None: discarded). The caller ends the background `commands`; with None there are none.
    """
    return (
        read_file(workspace),
        *(naming_ignored(make(workspace), workspace) for make in (write_file, append_file)),
        *(make(workspace) for make in (edit, apply_delta)),
        naming_ignored(apply_patch(workspace), workspace),
        *(make(workspace) for make in (list_dir, find_files, search_files, file_info)),
        shell(workspace, outputs, commands),
        *(() if commands is None else (background(commands),)),
        python(workspace, packages=packages, outputs=outputs),
    )


def naming_ignored(tool: Tool, workspace: Workspace) -> Tool:
    """Return a tool whose answer also says which of the files that it created git ignores, and by which rule."""

    async def run(args: Mapping[str, Any]) -> ToolOutput:
        paths = written_paths(tool.name, args)
        new = [path for path in paths if not ContainedPath(workspace.root, path).status()]
        output = await tool.run(args)
        made = [path for path in new if ContainedPath(workspace.root, path).is_file()]
        rules: Mapping[str, IgnoreRule] = {}
        with contextlib.suppress(GitError, OSError):  # the file is written all the same
            rules = await ignoring_rules(Git(workspace.root, environ=workspace.own_env), made)
        notes = [f"Git ignores {path} ({rule}): it is not part of what is committed." for path, rule in rules.items()]
        return structs.replace(output, content="\n".join([output.content, *notes]))

    return structs.replace(tool, run=run)
