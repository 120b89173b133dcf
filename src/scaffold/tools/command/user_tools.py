"""User tools: each typed, documented function in a Python file of the tools folder is a tool."""

import asyncio
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from scaffold.core.tool import Tool, ToolOutput
from scaffold.host.process.command_runner import Containment, run_command
from scaffold.tools.command.shell import DEFAULT_TIMEOUT_S, command_answer
from scaffold.tools.command.spooled_output import CommandSpec, describe_exit, run_spooled
from scaffold.tools.workspace import Workspace, failed_answer

LOAD_TIMEOUT_S = 10.0
MAX_NAME_CHARS = 64
MAX_PARALLEL_LOADS = 8
"""Files loaded at the same time."""
_RUNNER = Path(__file__).with_name("runner.py")


class UserTools(Struct, frozen=True):
    """The loaded tools, and a notice for the user about each file or function that is not a tool."""

    tools: tuple[Tool, ...]
    notices: tuple[str, ...]


class _UserFunction(Struct, frozen=True):
    name: str
    description: str
    properties: dict[str, dict[str, Any]]
    required: list[str]


class _ToolFile(Struct, frozen=True):
    functions: list[_UserFunction]
    left_out: list[str]


class UserToolEnv(Struct, frozen=True):
    """The environment in which user functions run."""

    workspace: Workspace
    packages: Path | None = None
    """A folder that they may import from, besides their own."""
    outputs: Path | None = None
    """The folder for output too long to show; None: discarded."""
    load_time_s: float = LOAD_TIMEOUT_S


async def load_user_tools(env: UserToolEnv, folder: Path, *, taken: Collection[str]) -> UserTools:
    """Return the tools of all files in `folder` (may be missing) in file order, except names in `taken`.

    Files whose name starts with `_` are skipped. Each load and each call runs in its own process.
    """
    tools: dict[str, Tool] = {}
    notices: list[str] = []
    files = sorted(folder.absolute().glob("[!_.]*.py"))  # noqa: ASYNC240 - a local folder of few files
    for file, described in await _all_described(env, files):
        if isinstance(described, str):
            notices.append(described)
            continue
        notices += [f"{file}: {reason}; it is not a tool." for reason in described.left_out]
        for function in described.functions:
            name = function.name
            if name in taken or name in tools:
                notices.append(f"{file}: there is already a tool `{name}`; rename this one.")
            elif not name.isascii() or len(name) > MAX_NAME_CHARS:
                notices.append(
                    f"{file}: `{name}` is not a valid tool name; use at most {MAX_NAME_CHARS} ASCII characters."
                )
            else:
                tools[name] = _make_tool(env, file, function)
    return UserTools(tuple(tools.values()), tuple(notices))


async def _all_described(env: UserToolEnv, files: list[Path]) -> list[tuple[Path, _ToolFile | str]]:
    # In order, although several are loaded at once: the first tool of a name wins.
    load_slots = asyncio.Semaphore(MAX_PARALLEL_LOADS)

    async def describe(file: Path) -> _ToolFile | str:
        async with load_slots:
            return await _read_tool_file(env, file)

    async with asyncio.TaskGroup() as together:
        tasks = [(file, together.create_task(describe(file))) for file in files]
    return [(file, task.result()) for file, task in tasks]


async def _read_tool_file(env: UserToolEnv, file: Path) -> _ToolFile | str:
    command = _runner_command(env, file, env.load_time_s)
    finished = await run_command(
        command.argv, cwd=command.cwd, env=command.env, timeout_s=command.timeout_s, containment=Containment()
    )
    if finished.timed_out:
        return f"{file}: loading it took more than {env.load_time_s:g} s; do work in functions, not at import."
    if finished.exit_code != 0:
        errors = finished.stderr.decode(errors="replace").strip().splitlines()
        return f"{file}: loading failed ({errors[-1] if errors else describe_exit(finished)}); fix or remove it."
    try:
        return msgspec.json.decode(finished.stdout, type=_ToolFile)
    except msgspec.DecodeError:
        return f"{file}: it exited while loading; do not exit at import."


def _make_tool(env: UserToolEnv, file: Path, function: _UserFunction) -> Tool:
    async def work(args: Mapping[str, Any]) -> ToolOutput:
        try:
            stdin = msgspec.json.encode(args)
        except UnicodeEncodeError:
            return failed_answer("The arguments contain a lone surrogate; send complete Unicode characters.")
        report = await run_spooled(_runner_command(env, file, DEFAULT_TIMEOUT_S, function.name, stdin=stdin))
        if report.finished.exit_code != 0:
            return command_answer(report)
        printed = (f"--- printed\n{report.stderr}",) if report.stderr else ()
        return ToolOutput("\n".join([report.stdout, *printed, *report.kept]))

    return Tool(
        name=function.name,
        description=function.description,
        schema={
            "type": "object",
            "properties": function.properties,
            "required": function.required,
            "additionalProperties": False,
        },
        category="python",
        run=work,
    )


def _runner_command(env: UserToolEnv, file: Path, timeout_s: float, *function: str, stdin: bytes = b"") -> CommandSpec:
    paths = msgspec.json.encode([str(env.packages)] if env.packages else []).decode()
    return CommandSpec(
        argv=[sys.executable, "-I", "-X", "utf8", str(_RUNNER), paths, str(file), *function],
        cwd=env.workspace.root,
        env=env.workspace.own_env,
        timeout_s=timeout_s,
        outputs=env.outputs,
        stdin=stdin,
        clean=env.workspace.redactor.clean,
    )
