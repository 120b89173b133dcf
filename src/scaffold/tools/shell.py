"""Running commands in a workspace."""

import shutil
from collections.abc import Mapping
from typing import Any

from scaffold.core.tool import Tool, ToolOutput
from scaffold.host.process import Finished, run
from scaffold.tools.arguments import object_schema
from scaffold.tools.workspace import ANSWER_LIMIT, Workspace, excerpt, failed

DEFAULT_TIMEOUT_S = 120
LONGEST_TIMEOUT_S = 600


def shell(workspace: Workspace) -> Tool:
    """Return the tool that runs a command: how it ended on the first line, then its output and its errors.

    Nothing a command starts outlives it.
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
            leash=True,
        )
        return ToolOutput(_report(finished), failed=finished.exit_code != 0)

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


def _report(finished: Finished) -> str:
    parts = [f"{_ending(finished)} after {finished.duration_s:.1f} s"]
    for title, output, limit in (
        ("stdout", finished.stdout, ANSWER_LIMIT * 2 // 3),
        ("stderr", finished.stderr, ANSWER_LIMIT // 3),
    ):
        text = output.decode(errors="replace").rstrip("\n")
        if text:
            parts += [f"--- {title}", excerpt(text, limit)]
    return "\n".join(parts)


def _ending(finished: Finished) -> str:
    if finished.timed_out:
        return "stopped at its time limit (give timeout_s for longer work)"
    if finished.signal is not None:
        return f"killed by signal {finished.signal}"
    return f"exit code {finished.exit_code}"
