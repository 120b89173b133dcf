"""Running Python code in a process of its own."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scaffold.core.tool import Tool, ToolOutput
from scaffold.tools.arguments import object_schema
from scaffold.tools.outputs import Command, run_told
from scaffold.tools.shell import DEFAULT_TIMEOUT_S, LONGER, LONGEST_TIMEOUT_S, answer, bounds
from scaffold.tools.workspace import Workspace, failed

_LAUNCH = """
import linecache, sys, traceback
sys.path += sys.argv[1:]
del sys.argv[1:]
code = sys.stdin.buffer.read().decode()
linecache.cache["<python>"] = (len(code), None, code.splitlines(True), "<python>")
sys.excepthook = lambda kind, error, frames: traceback.print_exception(kind, error, frames.tb_next)
exec(compile(code, "<python>", "exec"), {"__name__": "__main__"})
"""
"""Has the code's own lines in a traceback, and takes code of any length."""


def python(workspace: Workspace, *, packages: Path | None = None, outputs: Path | None = None) -> Tool:
    """Return the tool that runs code with our interpreter, in the workspace; it answers as shell does.

    The interpreter is isolated: neither the user's settings nor modules of the workspace are imported unasked.
    What lies in the folder `packages` can be imported.
    """

    async def work(args: Mapping[str, Any]) -> ToolOutput:
        """Run the code in a process of its own."""
        try:
            code = args["code"].encode()
        except UnicodeEncodeError:
            return failed("`code` has half a surrogate pair in it; write such characters as escapes.")
        command = Command(
            argv=[sys.executable, "-I", "-X", "utf8", "-c", _LAUNCH, *([str(packages)] if packages else ())],
            cwd=workspace.root,
            env=workspace.env,
            timeout_s=min(args.get("timeout_s", DEFAULT_TIMEOUT_S), LONGEST_TIMEOUT_S),
            outputs=outputs,
            stdin=code,
            enclosure=workspace.walls(),
            clean=workspace.redactor.clean,
            heard=workspace.heard,
        )
        return answer(await run_told(command), LONGER)

    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    return Tool(
        name="python",
        description=(
            f"Run Python {version} code in the workspace, in a fresh process; print what you want to see. "
            f"To import the workspace's own modules, put '.' on sys.path first.{bounds(workspace.enclosure)}"
        ),
        schema=object_schema(
            {"code": {"type": "string", "description": "A whole program."}},
            timeout_s={
                "type": "number",
                "minimum": 1,
                "description": f"Seconds; default {DEFAULT_TIMEOUT_S}, at most {LONGEST_TIMEOUT_S}.",
            },
        ),
        category="python",
        run=work,
        confined=workspace.enclosure is not None,
    )
