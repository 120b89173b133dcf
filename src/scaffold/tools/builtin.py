"""The tools that need nothing but a workspace: files, commands and Python."""

from pathlib import Path

from scaffold.core.tool import Tool
from scaffold.tools.command.python import python
from scaffold.tools.command.shell import shell
from scaffold.tools.file.append import append_file
from scaffold.tools.file.edit import apply_delta
from scaffold.tools.file.info import file_info
from scaffold.tools.file.read_write import list_dir, read_file, write_file
from scaffold.tools.search.search_files import search_files
from scaffold.tools.workspace import Workspace


def builtin_tools(
    workspace: Workspace, *, packages: Path | None = None, outputs: Path | None = None
) -> tuple[Tool, ...]:
    """Return these tools for `workspace`, in the order a model sees them.

    Python code can import from the folder `packages`. Output too long to show is saved in the folder `outputs`
    (None: discarded).
    """
    return (
        *(make(workspace) for make in (read_file, write_file, append_file, apply_delta)),
        *(make(workspace) for make in (list_dir, search_files, file_info)),
        shell(workspace, outputs),
        python(workspace, packages=packages, outputs=outputs),
    )
