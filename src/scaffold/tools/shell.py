"""Running commands in a workspace."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, assert_never

from scaffold.core.tool import Tool, ToolOutput
from scaffold.host.sandbox.confinement import Enclosure
from scaffold.tools.arguments import object_schema
from scaffold.tools.outputs import Command, Told, ending, run_told
from scaffold.tools.workspace import Workspace, failed

DEFAULT_TIMEOUT_S = 120
LONGEST_TIMEOUT_S = 600
LONGER = "give timeout_s for longer work"
LONGEST_COMMAND = 131_071
"""Bytes of one argument that Linux takes."""


def shell(workspace: Workspace, outputs: Path | None = None) -> Tool:
    """Return the tool that runs a command: how it ended on the first line, then its output and its errors.

    Nothing a command starts outlives it, and too many processes at once end it. Output too long to be shown is kept in
    the folder `outputs`, if one is given; to have it read, name that folder in the workspace's `readable`.
    """
    interpreter = shutil.which("bash", path=workspace.env.get("PATH")) or "/bin/sh"

    async def work(args: Mapping[str, Any]) -> ToolOutput:
        """Run the command, or say why no system could be given it."""
        if problem := _unfit(args["command"]):
            return failed(problem)
        command = Command(
            argv=[interpreter, "-c", args["command"]],
            cwd=workspace.root,
            env=workspace.env,
            timeout_s=min(args.get("timeout_s", DEFAULT_TIMEOUT_S), LONGEST_TIMEOUT_S),
            outputs=outputs,
            enclosure=workspace.walls(),
            clean=workspace.redactor.clean,
            heard=workspace.heard,
        )
        return answer(await run_told(command), LONGER)

    return Tool(
        name="shell",
        description=(
            "Run a shell command in the workspace. It gets no input, and everything it starts ends with it: "
            f"nothing goes on in the background.{bounds(workspace.enclosure)}"
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
        confined=workspace.enclosure is not None,
    )


def bounds(enclosure: Enclosure | None) -> str:
    """Return what a model is told of the sandbox its commands run in, as further sentences; empty without one."""
    if enclosure is None:
        return ""
    allowed = enclosure.confinement
    match allowed.network:
        case "none" | "loopback":
            network = "there is no network"
        case "hosts":
            network = (
                f"of the network only {', '.join(allowed.hosts) or 'nothing'} can be reached, by the proxy that is set"
            )
        case "open":
            network = "the whole network can be reached"
        case _:
            assert_never(allowed.network)
    return (
        f" It runs in a sandbox: only the workspace and $TMPDIR can be written, git's own data cannot, and {network}."
        f"{_weaker(enclosure)}"
    )


def _weaker(enclosure: Enclosure) -> str:
    """Return what else a model must know where Landlock holds a command, as further sentences."""
    if enclosure.level != "landlock":
        return ""
    listening = " No program can listen there, not even on 127.0.0.1."
    entries = " At the top of the workspace it cannot make, rename or remove anything: make files there by write_file."
    return listening + (entries if enclosure.confinement.sealed else "")


def _unfit(command: str) -> str | None:
    """Return why an operating system cannot be given `command`."""
    if "\0" in command or any("\ud800" <= character <= "\udfff" for character in command):
        return "`command` has a NUL or half a surrogate pair in it; write such characters as escapes."
    if len(command.encode()) > LONGEST_COMMAND:
        return f"`command` has more than {LONGEST_COMMAND} bytes; put it into a file with write_file and run that."
    return None


def answer(told: Told, if_late: str = "") -> ToolOutput:
    """Return how a command ended on the first line, then what it said; a failed answer unless it ended well.

    `if_late` is what to do about a command whose time was over.
    """
    streams = [f"--- {name}\n{text}" for name, text in (("stdout", told.stdout), ("stderr", told.stderr)) if text]
    return ToolOutput(
        "\n".join([ending(told.finished, if_late), *streams, *told.kept]), failed=told.finished.exit_code != 0
    )
