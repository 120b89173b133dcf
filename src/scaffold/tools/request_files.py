"""The tool that asks for further files to change."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from scaffold.core.tool import Tool, ToolOutput
from scaffold.tools.arguments import object_schema
from scaffold.tools.workspace import failed_answer

RequestHandler = Callable[[Sequence[str], str], Awaitable[ToolOutput]]
"""Takes the paths and the reason; returns what was granted or denied, or raises HumanDecisionRequired."""

MAX_PATHS = 20
MAX_PATH_CHARS = 300
MAX_REASON_CHARS = 2_000


def request_files(ask: RequestHandler) -> Tool:
    """Return the tool that asks for a wider declaration of the task's files; `ask` decides."""

    async def run(args: Mapping[str, Any]) -> ToolOutput:
        paths, reason = tuple(dict.fromkeys(each.strip() for each in args["paths"])), args["reason"].strip()
        if not paths or len(paths) > MAX_PATHS or any(len(path) > MAX_PATH_CHARS for path in paths):
            return failed_answer(
                f"Name 1 to {MAX_PATHS} paths, folders or globs of at most {MAX_PATH_CHARS} characters in `paths`."
            )
        if not reason or len(reason) > MAX_REASON_CHARS:
            return failed_answer(f"Say why the task needs them, in `reason`, in at most {MAX_REASON_CHARS} characters.")
        return await ask(paths, reason)

    return Tool(
        name="request_files",
        description=(
            "Ask to change files that this task does not list. Ordinary paths are granted at once. Files that decide "
            "whether the work passes (existing tests, their configuration, protected paths) take a reviewer or a human "
            "and may take long: ask only if the task cannot be done without them. New tests in new files, and "
            "dependencies in manifests, need no request."
        ),
        schema=object_schema(
            {
                "paths": {
                    "type": "array",
                    "items": {"type": "string"},
                    "description": "Paths, folders or globs, relative to the root of the repository.",
                },
                "reason": {"type": "string", "description": "Why the task cannot be done without changing them."},
            }
        ),
        category="memory",
        run=run,
    )
