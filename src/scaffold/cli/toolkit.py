"""All tools of a session: the built-in ones, those of its company, and the user's own, each behind the gate."""

import asyncio
import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct

from scaffold.agent.modes import Modes, switch_mode
from scaffold.cli.table import WEB_FETCH, late
from scaffold.core.tool import Tool, ToolOutput
from scaffold.host.dirs import user_dirs
from scaffold.host.sandbox.confinement import Enclosure
from scaffold.host.wall import WallClock
from scaffold.policy.consent import Gate
from scaffold.policy.redaction import Redactor
from scaffold.tools.catalogue import all_tools
from scaffold.tools.handmade import Bench, load_tools
from scaffold.tools.reads import remembering
from scaffold.tools.retention import retire
from scaffold.tools.todos import Todos
from scaffold.tools.workspace import Workspace

OWN_TOOLS = "tools"
"""The folder of the user's own tool files, in their directory for configuration."""


class Toolkit(Struct, frozen=True):
    """What an agent may ask for, and lines for the user on their own tools that cannot be used."""

    tools: tuple[Tool, ...]
    notices: tuple[str, ...]


async def opened_toolkit(
    cwd: Path,
    gate: Gate,
    *,
    conversation: str,
    environ: Mapping[str, str],
    enclosure: Enclosure | None,
    modes: Modes,
    todos: Todos,
    more: Sequence[Tool] = (),
    redactor: Redactor | None = None,
) -> Toolkit:
    """Return the tools of a session that works in `cwd`; `more` stand behind the built-in ones.

    Commands see `environ` and are held by `enclosure`. What they keep of long output nobody reads but the
    `conversation` and the one it is a subagent of.
    """
    dirs = user_dirs(os.environ)
    packages, outputs = dirs.data / "packages", dirs.cache / "outputs" / conversation
    workspace = Workspace(
        cwd,
        environ,
        readable=(outputs,),
        enclosure=enclosure,
        redactor=redactor or Redactor(),
        known=frozenset(os.listdir(cwd)),  # noqa: PTH208 - names are all it takes
    )
    built_in = all_tools(workspace, fetch=_fetch, todos=todos, packages=packages, outputs=outputs)
    tools = (*built_in, switch_mode(modes), *more)
    bench = Bench(workspace, packages=packages, outputs=outputs)
    retired = partial(retire, dirs.cache / "outputs", conversation=conversation, now=WallClock().now())
    async with asyncio.TaskGroup() as together:
        together.create_task(asyncio.to_thread(retired))
        loading = together.create_task(load_tools(bench, dirs.config / OWN_TOOLS, taken={tool.name for tool in tools}))
    own = loading.result()
    return Toolkit(tuple(map(gate.guard, remembering((*tools, *own.tools), cwd))), own.notices)


async def _fetch(args: Mapping[str, Any]) -> ToolOutput:
    """Read a page of the web; what that takes is imported by the first one."""
    tool: Tool = late(WEB_FETCH)()
    return await tool.run(args)
