"""Tools that a user wrote: each typed, documented function in a Python file of the tools folder is one."""

import asyncio
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from scaffold.core.tool import Tool, ToolOutput
from scaffold.host.process import Finished, run
from scaffold.tools.outputs import Command, Told, run_told
from scaffold.tools.shell import DEFAULT_TIMEOUT_S, answer
from scaffold.tools.workspace import Workspace, failed

LOAD_TIME_S = 10.0
LONGEST_NAME = 64
AT_ONCE = 8
"""So many files are loaded side by side, at the most."""
_WORKBENCH = Path(__file__).with_name("workbench.py")


class Handmade(Struct, frozen=True):
    """The tools that were found, and a line for the user on each file or function that is none."""

    tools: tuple[Tool, ...]
    notices: tuple[str, ...]


class _Function(Struct, frozen=True):
    name: str
    description: str
    properties: dict[str, dict[str, Any]]
    required: list[str]


class _Described(Struct, frozen=True):
    functions: list[_Function]
    left_out: list[str]


class Bench(Struct, frozen=True):
    """Where and with what a user's functions run."""

    workspace: Workspace
    packages: Path | None = None
    """A folder that they may import from, besides their own."""
    outputs: Path | None = None
    """Where output too long to be shown is kept."""
    load_time_s: float = LOAD_TIME_S


async def load_tools(bench: Bench, folder: Path, *, taken: Collection[str]) -> Handmade:
    """Return the tools of all files of `folder`, which need not exist, by name; names in `taken` are not given again.

    Files that begin with `_` are left alone. Each file is loaded, and each call made, in a process of its own.
    """
    tools: dict[str, Tool] = {}
    notices: list[str] = []
    for file, described in await _all_described(bench, _files(folder)):
        if isinstance(described, str):
            notices.append(described)
            continue
        notices += [f"{file}: {reason}; it is no tool." for reason in described.left_out]
        for function in described.functions:
            name = function.name
            if name in taken or name in tools:
                notices.append(f"{file}: there is another tool `{name}`; give it another name.")
            elif not name.isascii() or len(name) > LONGEST_NAME:
                notices.append(f"{file}: `{name}` is no name for a tool; use at most {LONGEST_NAME} ASCII letters.")
            else:
                tools[name] = _tool(bench, file, function)
    return Handmade(tuple(tools.values()), tuple(notices))


def _files(folder: Path) -> list[Path]:
    return sorted(folder.absolute().glob("[!_.]*.py"))


async def _all_described(bench: Bench, files: list[Path]) -> list[tuple[Path, _Described | str]]:
    """Return what `_described` says of each file, in their order; several are loaded at once."""
    room = asyncio.Semaphore(AT_ONCE)

    async def describe(file: Path) -> _Described | str:
        async with room:
            return await _described(bench, file)

    async with asyncio.TaskGroup() as together:
        tasks = [(file, together.create_task(describe(file))) for file in files]
    return [(file, task.result()) for file, task in tasks]


async def _described(bench: Bench, file: Path) -> _Described | str:
    """Return what is in a file, or why nothing can be had of it."""
    finished = await _loaded(bench, file)
    if finished.timed_out:
        return f"{file}: loading it took more than {bench.load_time_s:g} s; do work in functions, not at import."
    if finished.exit_code != 0:
        said = finished.stderr.decode(errors="replace").strip().splitlines()
        return f"{file}: it cannot be loaded ({said[-1] if said else 'it said nothing'}); mend or remove it."
    try:
        return msgspec.json.decode(finished.stdout, type=_Described)
    except msgspec.DecodeError:
        return f"{file}: it ended before it could be described; do not exit at import."


def _tool(bench: Bench, file: Path, function: _Function) -> Tool:
    async def work(args: Mapping[str, Any]) -> ToolOutput:
        try:
            stdin = msgspec.json.encode(args)
        except UnicodeEncodeError:
            return failed("The arguments have half a surrogate pair in them; send whole Unicode characters.")
        told = await run_told(_at_the_bench(bench, file, DEFAULT_TIMEOUT_S, function.name, stdin=stdin))
        return answer(told) if told.finished.exit_code != 0 else ToolOutput(_result(told))

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


async def _loaded(bench: Bench, file: Path) -> Finished:
    command = _at_the_bench(bench, file, bench.load_time_s)
    return await run(command.argv, cwd=command.cwd, env=command.env, timeout_s=command.timeout_s, leash=True)


def _at_the_bench(bench: Bench, file: Path, timeout_s: float, *function: str, stdin: bytes = b"") -> Command:
    paths = msgspec.json.encode([str(bench.packages)] if bench.packages else []).decode()
    return Command(
        argv=[sys.executable, "-I", "-X", "utf8", str(_WORKBENCH), paths, str(file), *function],
        cwd=bench.workspace.root,
        env=bench.workspace.env,
        timeout_s=timeout_s,
        outputs=bench.outputs,
        stdin=stdin,
        clean=bench.workspace.redactor.clean,
    )


def _result(told: Told) -> str:
    printed = (f"--- printed\n{told.stderr}",) if told.stderr else ()
    return "\n".join([told.stdout, *printed, *told.kept])
