"""All tools of a session except the user's own; `builtin` has those that need only a workspace."""

from pathlib import Path

from scaffold.core.tool import Tool
from scaffold.tools.builtin import builtin_tools
from scaffold.tools.command.packages import pip_install, pip_list
from scaffold.tools.todos import Todos, todo_read, todo_write
from scaffold.tools.web.fetch import FetchFunction, fetch_tool
from scaffold.tools.workspace import Workspace


def all_tools(
    workspace: Workspace, *, fetch: FetchFunction, todos: Todos, packages: Path, outputs: Path | None = None
) -> tuple[Tool, ...]:
    """Return all tools for `workspace`, in the order a model sees them: those of `builtin_tools` first.

    `fetch` reads web pages, as `web.http.web_fetch` does. `packages` is the user's folder of installed packages.
    Output too long to show is saved in the folder `outputs` (None: discarded). `user.tools.load_user_tools` loads
    the user's own tools.
    """
    return (
        *builtin_tools(workspace, packages=packages, outputs=outputs),
        fetch_tool(fetch),
        pip_list(packages),
        pip_install(workspace, packages),
        todo_write(todos),
        todo_read(todos),
    )
