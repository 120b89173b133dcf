"""The tool that runs Python code in a separate process."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scaffold.core.tool import Tool, ToolOutput
from scaffold.tools.arguments import object_schema
from scaffold.tools.command.shell import TIMEOUT_SCHEMA, run_call
from scaffold.tools.workspace import Workspace, failed_answer

_LAUNCH_SCRIPT = """
import linecache, sys, traceback
sys.path += sys.argv[1:]
del sys.argv[1:]
code = sys.stdin.buffer.read().decode()
linecache.cache["<python>"] = (len(code), None, code.splitlines(True), "<python>")
sys.excepthook = lambda kind, error, frames: traceback.print_exception(kind, error, frames.tb_next)
exec(compile(code, "<python>", "exec"), {"__name__": "__main__"})
"""
"""Reads the code from stdin, so it may have any length, and shows its lines in tracebacks."""


def python(workspace: Workspace, *, packages: Path | None = None, outputs: Path | None = None) -> Tool:
    """Return the tool that runs code in the workspace with our interpreter; it answers like `shell`.

    The interpreter is isolated (-I): it imports neither user settings nor workspace modules by default.
    Code can import from the folder `packages`.
    """

    async def work(args: Mapping[str, Any]) -> ToolOutput:
        """Run the code in a new process."""
        try:
            code = args["code"].encode()
        except UnicodeEncodeError:
            return failed_answer("`code` contains a lone surrogate; write such characters as escapes.")
        argv = [sys.executable, "-I", "-u", "-X", "utf8", "-c", _LAUNCH_SCRIPT, *([str(packages)] if packages else ())]
        return await run_call(workspace, argv, args, outputs, stdin=code)

    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    return Tool(
        name="python",
        description=(
            f"Run Python {version} code as shell runs a command, in a new process; print what you want to see. "
            "To import the workspace's own modules, put '.' on sys.path first."
        ),
        schema=object_schema(
            {"code": {"type": "string", "description": "A complete program."}},
            timeout_s=TIMEOUT_SCHEMA,
        ),
        category="python",
        run=work,
        sandboxed=workspace.sandbox is not None,
    )
