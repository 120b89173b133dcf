"""The tool that finds the files of a workspace by their names."""

from collections.abc import Mapping
from itertools import islice
from typing import Any

from scaffold.core.printable_text import utf8_safe
from scaffold.core.tool import Tool, ToolOutput
from scaffold.policy.path.containment import Refusal
from scaffold.tools.arguments import object_schema
from scaffold.tools.content.walk import files_below
from scaffold.tools.search.grep_process import matches_glob
from scaffold.tools.workspace import (
    Deadline,
    Workspace,
    failed_answer,
    printable_name,
    resolve_readable,
    run_with_deadline,
)

MAX_SHOWN = 300
TIME_LIMIT_S = 30.0


def find_files(workspace: Workspace, *, time_limit_s: float = TIME_LIMIT_S) -> Tool:
    """Return the tool that lists files whose path matches a glob: their number first, then one path a line."""

    def work(args: Mapping[str, Any], deadline: Deadline) -> ToolOutput:
        """Return the paths that match, or why there are none."""
        readable = resolve_readable(workspace, args.get("path", "."))
        if isinstance(readable, Refusal):
            return failed_answer(readable.reason)
        if not readable.path.exists():
            return failed_answer(f"There is no {args['path']}; leave `path` out to look everywhere.")
        found = []
        for file in files_below(readable.path):
            if deadline.expired:
                return failed_answer(f"It took more than {deadline.seconds:g} s; look below a folder with `path`.")
            path = file.relative_to(readable.folder.resolve()).as_posix()
            if matches_glob(path, args["pattern"]):
                found.append(str(file) if readable.folder != workspace.root else path)
        shown = [printable_name(utf8_safe(path)) for path in islice(found, MAX_SHOWN)]
        more = [f"... {len(found) - MAX_SHOWN} more; narrow the pattern"] if len(found) > MAX_SHOWN else []
        return ToolOutput("\n".join([f"{len(found)} found", *shown, *more]))

    return Tool(
        name="glob",
        description="Find files by name. Skips .git and folders of installed packages, unless given as `path`.",
        schema=object_schema(
            {"pattern": {"type": "string", "description": "`*_test.go` in any folder, or `src/**/*.{ts,tsx}`."}},
            path={"type": "string", "description": "Folder to look below; default the whole workspace."},
        ),
        category="file_read",
        run=run_with_deadline(work, time_limit_s),
    )
