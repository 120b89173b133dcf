"""Every tool that a session has by itself; `builtin` has those that need nothing but a workspace."""

from pathlib import Path

from scaffold.core.tool import Tool
from scaffold.tools.builtin import builtin_tools
from scaffold.tools.fetch import Fetch, fetch_tool
from scaffold.tools.packages import pip_install, pip_list
from scaffold.tools.todos import Todos, todo_read, todo_write
from scaffold.tools.workspace import Workspace


def all_tools(
    workspace: Workspace, *, fetch: Fetch, todos: Todos, packages: Path, outputs: Path | None = None
) -> tuple[Tool, ...]:
    """Return all tools for `workspace`, in the order a model is told of them: those of `builtin_tools` first.

    `fetch` reads pages of the web, as `web.web_fetch` does. `packages` is the user's folder of installed packages,
    `outputs` one for output too long to be shown (None: it is not kept). The user's own tools come from
    `handmade.load_tools`.
    """
    return (
        *builtin_tools(workspace, packages=packages, outputs=outputs),
        fetch_tool(fetch),
        pip_list(packages),
        pip_install(workspace, packages),
        todo_write(todos),
        todo_read(todos),
    )
