"""All tools of a session: the built-in ones, those of its company, and the user's own, each behind the gate."""

import asyncio
import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct

from scaffold.agent.modes import CurrentMode, switch_mode_tool
from scaffold.core.tool import Tool, ToolOutput
from scaffold.host.lazy_import import lazy_import
from scaffold.host.sandbox.confinement import SandboxSpec
from scaffold.host.user_dirs import user_dirs
from scaffold.host.wall_clock import WallClock
from scaffold.policy.permission.approval_gate import ApprovalGate
from scaffold.policy.secret.redaction import Redactor
from scaffold.tools.catalog import all_tools
from scaffold.tools.command.retention import remove_expired
from scaffold.tools.read_cache import with_read_cache
from scaffold.tools.todos import Todos
from scaffold.tools.user.tools import UserToolEnv, load_user_tools
from scaffold.tools.workspace import Workspace

USER_TOOLS_FOLDER = "tools"
"""The folder of the user's own tool files, in their directory for configuration."""


class SessionTools(Struct, frozen=True):
    """What an agent may ask for, and lines for the user on their own tools that cannot be used."""

    tools: tuple[Tool, ...]
    notices: tuple[str, ...]


async def load_session_tools(
    cwd: Path,
    gate: ApprovalGate,
    *,
    conversation: str,
    environ: Mapping[str, str],
    enclosure: SandboxSpec | None,
    modes: CurrentMode,
    todos: Todos,
    more: Sequence[Tool] = (),
    redactor: Redactor | None = None,
) -> SessionTools:
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
    tools = (*built_in, switch_mode_tool(modes), *more)
    bench = UserToolEnv(workspace, packages=packages, outputs=outputs)
    retired = partial(remove_expired, dirs.cache / "outputs", conversation=conversation, now=WallClock().now())
    async with asyncio.TaskGroup() as together:
        together.create_task(asyncio.to_thread(retired))
        loading = together.create_task(
            load_user_tools(bench, dirs.config / USER_TOOLS_FOLDER, taken={tool.name for tool in tools})
        )
    own = loading.result()
    return SessionTools(tuple(map(gate.guard, with_read_cache((*tools, *own.tools), cwd))), own.notices)


async def _fetch(args: Mapping[str, Any]) -> ToolOutput:
    """Read a page of the web; what that takes is imported by the first one."""
    tool: Tool = lazy_import(WEB_FETCH)()
    return await tool.run(args)


WEB_FETCH = "scaffold.tools.web.http:web_fetch"
"""Takes no arguments and returns the tool: the way to the web is long to import, and few sessions go it."""
