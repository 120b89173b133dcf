"""The tools that need nothing but a workspace: files, commands and Python."""

from pathlib import Path

from scaffold.core.tool import Tool
from scaffold.tools.append import append_file
from scaffold.tools.edit import apply_delta
from scaffold.tools.files import list_dir, read_file, write_file
from scaffold.tools.info import file_info
from scaffold.tools.python import python
from scaffold.tools.search import search_files
from scaffold.tools.shell import shell
from scaffold.tools.workspace import Workspace


def builtin_tools(
    workspace: Workspace, *, packages: Path | None = None, outputs: Path | None = None
) -> tuple[Tool, ...]:
    """Return these tools for `workspace`, in the order a model is told of them.

    What lies in the folder `packages` Python code can import; `outputs` is a folder for output too long to be shown
    (None: it is not kept).
    """
    return (
        *(make(workspace) for make in (read_file, write_file, append_file, apply_delta)),
        *(make(workspace) for make in (list_dir, search_files, file_info)),
        shell(workspace, outputs),
        python(workspace, packages=packages, outputs=outputs),
    )
