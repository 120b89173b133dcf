"""Running commands in a workspace."""

import asyncio
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scaffold.core.tool import Tool, ToolOutput
from scaffold.host.process import Finished, run
from scaffold.tools.arguments import object_schema
from scaffold.tools.outputs import KEPT_BYTES, ending, told
from scaffold.tools.workspace import Workspace, failed

DEFAULT_TIMEOUT_S = 120
LONGEST_TIMEOUT_S = 600


def shell(workspace: Workspace, outputs: Path | None = None) -> Tool:
    """Return the tool that runs a command: how it ended on the first line, then its output and its errors.

    Nothing a command starts outlives it. Output too long to be shown is kept in the folder `outputs`, if one is given.
    """
    interpreter = shutil.which("bash", path=workspace.env.get("PATH")) or "/bin/sh"

    async def work(args: Mapping[str, Any]) -> ToolOutput:
        if not _sayable(args["command"]):
            return failed("`command` has a NUL or half a surrogate pair in it; write such characters as escapes.")
        finished = await run(
            [interpreter, "-c", args["command"]],
            cwd=workspace.root,
            env=workspace.env,
            timeout_s=min(args.get("timeout_s", DEFAULT_TIMEOUT_S), LONGEST_TIMEOUT_S),
            limit_bytes=KEPT_BYTES,
            leash=True,
        )
        return await answer(finished, outputs)

    return Tool(
        name="shell",
        description=(
            "Run a shell command in the workspace. It gets no input, and everything it starts ends with it: "
            "nothing goes on in the background."
        ),
        schema=object_schema(
            {"command": {"type": "string", "description": "One command line, or several lines."}},
            timeout_s={
                "type": "number",
                "minimum": 1,
                "description": f"Seconds; default {DEFAULT_TIMEOUT_S}, at most {LONGEST_TIMEOUT_S}.",
            },
        ),
        category="shell",
        run=work,
    )


def _sayable(command: str) -> bool:
    """Tell whether an operating system can be given `command` at all."""
    return "\0" not in command and not any("\ud800" <= character <= "\udfff" for character in command)


async def answer(finished: Finished, outputs: Path | None) -> ToolOutput:
    """Return how a command ended on the first line, then what it said; a failed answer unless it ended well."""
    try:
        said = await asyncio.to_thread(told, finished, outputs)
    except OSError as error:
        said = f"{told(finished, None)}\n--- not kept on disk: {error.strerror}"
    return ToolOutput(f"{ending(finished)}\n{said}".rstrip("\n"), failed=finished.exit_code != 0)
