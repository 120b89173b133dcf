"""The built-in tools, together."""

from scaffold.core.tool import Tool
from scaffold.tools.files import list_dir, read_file, write_file
from scaffold.tools.search import search_files
from scaffold.tools.shell import shell
from scaffold.tools.workspace import Workspace

__all__ = ["Workspace", "builtin_tools"]


def builtin_tools(workspace: Workspace) -> tuple[Tool, ...]:
    """Return every built-in tool for `workspace`, in the order a model is told of them."""
    return tuple(make(workspace) for make in (read_file, write_file, list_dir, search_files, shell))
