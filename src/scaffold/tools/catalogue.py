"""Every tool there is for one workspace; `builtin` has the few that an agent needs for its first request."""

from pathlib import Path

from scaffold.core.tool import Tool
from scaffold.tools.append import append_file
from scaffold.tools.edit import apply_delta
from scaffold.tools.files import list_dir, read_file, write_file
from scaffold.tools.info import file_info
from scaffold.tools.packages import pip_install, pip_list
from scaffold.tools.python import python
from scaffold.tools.search import search_files
from scaffold.tools.shell import shell
from scaffold.tools.todos import Todos, todo_read, todo_write
from scaffold.tools.web import web_fetch
from scaffold.tools.workspace import Workspace


def all_tools(
    workspace: Workspace, *, todos: Todos, packages: Path | None = None, outputs: Path | None = None
) -> tuple[Tool, ...]:
    """Return all tools for `workspace`, in the order a model is told of them: those of `builtin_tools` first.

    `packages` is the user's folder of installed packages (None: there are no pip tools), `outputs` a folder for output
    too long to be shown (None: it is not kept). The user's own tools come from `handmade.load_tools`.
    """
    pip = (pip_list(packages), pip_install(workspace, packages)) if packages else ()
    return (
        *(make(workspace) for make in (read_file, write_file, list_dir, search_files)),
        shell(workspace, outputs),
        *(make(workspace) for make in (append_file, file_info, apply_delta)),
        python(workspace, packages=packages, outputs=outputs),
        web_fetch(),
        *pip,
        todo_write(todos),
        todo_read(todos),
    )
