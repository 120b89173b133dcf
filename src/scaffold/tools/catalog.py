"""The tools of a session except the user's own: all of them, or those that need only a workspace."""

from pathlib import Path

from scaffold.core.tool import Tool
from scaffold.tools.command.background_commands import BackgroundCommands, background
from scaffold.tools.command.packages import pip_install, pip_list
from scaffold.tools.command.shell import python, shell
from scaffold.tools.file.append import append_file
from scaffold.tools.file.apply_patch import apply_patch
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
        *(make(workspace) for make in (read_file, write_file, append_file, edit, apply_delta, apply_patch)),
        *(make(workspace) for make in (list_dir, find_files, search_files, file_info)),
        shell(workspace, outputs, commands),
        *(() if commands is None else (background(commands),)),
        python(workspace, packages=packages, outputs=outputs),
    )
